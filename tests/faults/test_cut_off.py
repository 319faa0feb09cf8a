"""Every claim that rests on having looked at everything, with the look cut off.

Cut off by the clock, or by a limit on the work, the claim is withdrawn. Cut off by want of memory,
Ctrl-C or an exception, the error comes out and nothing half done is left. The table in
docs/reliability.md ("What a claim rests on") lists the claims.
"""

import sys
from contextlib import contextmanager
from time import perf_counter

import numpy as np
import pytest
from broken import fails_when
from samples import bits, blobs, cloud, distances, quietly
from sklearn.exceptions import ConvergenceWarning

from everywhere import IN_PARTS, streaming
from wolfmeans import KMeans, TrimmedKMeans, lower_bound, scan, study
from wolfmeans.engines import get_engine, single_moves
from wolfmeans.engines.single_moves import PlainSingleMoves
from wolfmeans.engines.swaps import PlainSwaps
from wolfmeans.exact.native import native_is_available
from wolfmeans.fitting import evaluate, polish
from wolfmeans.fitting.evaluate import judge
from wolfmeans.fitting.search import search
from wolfmeans.inputs.opening import open_source

ERRORS = (MemoryError, KeyboardInterrupt, RuntimeError)
needs_native = pytest.mark.skipif(not native_is_available(), reason="the native module is missing")


class Clock:
    """The time, which jumps when told to; `ticking`, it also passes with every look at it."""

    def __init__(self, monkeypatch, *modules):
        self.ahead, self.ticking = 0.0, False
        for module in modules:
            monkeypatch.setattr(module, "perf_counter", self)

    def __call__(self):
        self.ahead += 10.0 * self.ticking
        return perf_counter() + self.ahead

    def jump(self):
        self.ahead += 1e6


def raising(error):
    """Return a function that cannot go on."""

    def stop(*arguments, **options):
        raise error("cut off here")

    return stop


def state(model):
    """Everything that a model holds, by identity."""
    return {name: id(value) for name, value in vars(model).items()}


def module(name):
    """Return a module whose name in the package is that of a function."""
    return sys.modules[f"wolfmeans.{name}"]


def triples(m=50, d=5):
    """Three points at each of m places; the second is better off with the third, not the first.

    Leaving its cluster is worth 2 * 2^2 to it, joining the other one costs 1/2 * 3^2.
    """
    X = np.zeros((m, 3, d))
    X[:, :, 0] = 1000.0 * np.arange(m)[:, None] + [0.0, 4.0, 7.0]
    X[:, :, 1:] = np.random.default_rng(0).normal(size=(m, 1, d - 1))
    return X.reshape(-1, d), np.arange(2 * m).reshape(m, 2)[:, [0, 0, 1]].ravel()


# --- Single moves ----------------------------------------------------------------------------


@fails_when("looks_that_began_count")
def test_no_single_move_is_no_claim_when_time_was_short(monkeypatch):
    X, labels = triples()
    assert judge(X, labels, method=None).single_moves == 50
    clock = Clock(monkeypatch, evaluate, single_moves)
    find = PlainSingleMoves.find_candidates

    def slowly(self):
        clock.ticking = True
        return find(self)

    monkeypatch.setattr(PlainSingleMoves, "find_candidates", slowly)
    monkeypatch.setattr(evaluate, "get_engine", lambda: get_engine("reference"))
    found = judge(X, labels, method=None)
    assert not found.moves_looked_at
    assert found.level == "stationary"
    assert "no single move" not in found.verdict


@fails_when("looks_that_began_count")
def test_rows_are_tried_although_finding_them_took_all_the_time(monkeypatch):
    X, labels = triples()
    clock = Clock(monkeypatch, evaluate, single_moves)
    find = PlainSingleMoves.find_candidates

    def slowly(self):
        clock.jump()
        return find(self)

    monkeypatch.setattr(PlainSingleMoves, "find_candidates", slowly)
    monkeypatch.setattr(evaluate, "get_engine", lambda: get_engine("reference"))
    found = judge(X, labels, method=None)
    assert (found.single_moves, found.moves_looked_at, found.level) == (50, True, "stationary")


@fails_when("errors_end_a_look_in_silence", error=MemoryError)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_while_single_moves_are_tried_is_no_judgement(error, monkeypatch):
    X, labels = triples()
    monkeypatch.setattr(evaluate, "get_engine", lambda: get_engine("reference"))
    monkeypatch.setattr(PlainSingleMoves, "_try_row", raising(error))
    with pytest.raises(error, match="cut off here"):
        judge(X, labels, method=None)


@fails_when("searches_that_were_cut_off_count", wanted="polish")
@fails_when("searches_that_were_cut_off_count", wanted="effort")
@pytest.mark.parametrize("wanted", ["polish", "effort"])
def test_the_level_hartigan_is_no_claim_when_time_was_short(wanted, monkeypatch):
    X = cloud(120)
    limits = {"polish": {"polish": "hartigan", "time_limit": 1e3}, "effort": {"effort": 1e3}}
    settings = {"init": X[:6], "engine": "reference", "bound": None, "random_state": 0}
    model = KMeans(6, **settings, **limits[wanted])
    clock = Clock(monkeypatch, polish, single_moves)
    monkeypatch.setattr(PlainSingleMoves, "_try_some", lambda self: clock.jump())

    def briefly(*arguments, seconds, **options):
        return search(*arguments, rounds=2, **options)

    monkeypatch.setattr("wolfmeans.fitting.fit.search", briefly)
    certificate = model.fit(X).certificate_
    assert clock.ahead > 0, "there were moves to try"
    assert certificate.polish.timed_out
    assert certificate.polish.level is None
    assert certificate.level == "stationary"


# --- Swaps -----------------------------------------------------------------------------------


@fails_when("swaps_that_were_not_tried_count")
def test_the_level_swap_is_no_claim_when_time_was_short(monkeypatch):
    X, _ = blobs(90)
    model = KMeans(3, random_state=0, engine="reference", bound=None, polish="swap", time_limit=1e3)
    assert model.fit(X).certificate_.level == "swap"
    clock = Clock(monkeypatch, polish)
    all_rows, changes = polish._Search._all_rows, PlainSwaps.changes
    begun = []

    def looking_at_all(self):
        begun.append(True)
        return all_rows(self)

    def interrupted(self, rows):
        if begun:
            clock.jump()
        return changes(self, rows)

    monkeypatch.setattr(polish._Search, "_all_rows", looking_at_all)
    monkeypatch.setattr(PlainSwaps, "changes", interrupted)
    certificate = model.fit(X).certificate_
    assert begun
    assert certificate.polish.timed_out
    assert certificate.level == "hartigan"


# --- Errors in the middle of a fit ------------------------------------------------------------

FITS = {
    "single moves": ({"polish": "hartigan"}, "engines.single_moves.PlainSingleMoves._try_some"),
    "swaps": ({"polish": "swap"}, "engines.swaps.PlainSwaps.changes"),
    "a search": ({"effort": 60.0}, "fitting.search._Search._exchange"),
    "ties": ({}, "core.kmeans.KMeansProblem._near_ties"),
    "candidates": ({"empty": "keep"}, "core.kmeans.best_candidate"),
    "empty clusters": ({"empty": "best"}, "core.empty_clusters.best_candidate"),
    "a bound": ({"bound": "neighbours"}, "fitting.fit.best_bound"),
    "a start": ({"init": "random", "n_init": 2, "random_state": 0}, "fitting.fit.Prepared.finish"),
}


@fails_when("failed_fits_leave_something", look="ties", error=MemoryError)
@fails_when("no_memory_is_no_matter", look="single moves", error=MemoryError)
@fails_when("strictness_claimed", look="ties", error=RuntimeError)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("look", FITS)
def test_an_error_within_a_look_leaves_the_earlier_fit_whole(look, error, monkeypatch):
    X = cloud(60)
    seeds = X[:5].copy()
    model = KMeans(5, init=seeds, engine="reference", bound=None, stop="stationary", max_iter=999)
    before = state(model.fit(X))
    settings, place = FITS[look]
    if "empty" in settings:
        settings = settings | {"init": np.vstack([seeds[:4], [[1e3] * 4]])}
    model.set_params(**settings)
    set_up = state(model)
    monkeypatch.setattr(f"wolfmeans.{place}", raising(error))
    with pytest.raises(error, match="cut off here"):
        model.fit(X)
    assert state(model) == set_up
    assert all(set_up[name] == before[name] for name in before if name.endswith("_"))


@fails_when("candidates_promise_what_nobody_looked_at")
def test_a_look_at_few_candidates_promises_what_these_give(monkeypatch):
    """The number of candidates is limited, so the decrease is one that was found, not the best."""
    X = cloud(60)
    monkeypatch.setattr("wolfmeans.core.empty_clusters.CANDIDATES", 4)
    init = np.vstack([X[:4], [[1e3] * 4]])
    model = quietly(KMeans(5, init=init, engine="reference", empty="keep", bound=None), X)
    promised = model.certificate_.candidate_decrease
    used = model.cluster_centers_[np.bincount(model.labels_, minlength=5) > 0]
    assert len(used) == 4
    nearest = distances(X, used).min(axis=1)
    gains = np.maximum(nearest[:, None] - distances(X, X), 0.0).sum(axis=0)
    assert 0 < promised <= gains.max() * (1 + 1e-12)


# --- Lower bounds ----------------------------------------------------------------------------


@needs_native
@fails_when("abandoned_ceilings_count")
def test_branch_and_bound_that_was_given_up_proves_nothing():
    X = cloud(60, d=2)
    centers = KMeans(4, n_init=10, random_state=0, bound=None).fit(X).cluster_centers_
    reached = distances(X, centers).min(axis=1).sum()
    prices = module("bounds.prices").prices
    assert 0 < prices(X, 4, centers=centers).value <= reached
    # Some hundred operations, with which no box is divided.
    assert prices(X, 4, centers=centers, seconds=1e-6).value == 0.0


BOUNDS = {
    "exact": ("one_dimensional", "below"),
    "spectral": ("spectral", "_scatter"),
    "neighbours": ("neighbours", "_search"),
    "prices": ("prices", "_prove"),
    "subsampled": ("subsampled", "bounded_mean_above"),
    "auto": ("methods", "branching"),
}


@needs_native
@fails_when("bounds_that_failed_are_kept", method="prices", error=KeyboardInterrupt)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", BOUNDS)
def test_an_error_within_a_bound_leaves_the_certificate_as_it_was(method, error, monkeypatch):
    X = cloud(60, d=1 if method == "exact" else 2)
    # What "auto" looks at before it branches must not be kept either.
    model = KMeans(2, random_state=0, bound=None).fit(X)
    before, bound = state(model), model.trace_.lower_bound
    place, name = BOUNDS[method]
    monkeypatch.setattr(module(f"bounds.{place}"), name, raising(error))
    with pytest.raises(error, match="cut off here"):
        model.certify(X, method=method, random_state=0)
    assert state(model) == before
    assert model.certificate_.lower_bound is None
    assert model.trace_.lower_bound == bound


@fails_when("other_data_is_certified", error=MemoryError)
@pytest.mark.parametrize("error", ERRORS)
def test_data_that_could_not_be_compared_is_not_certified(error, monkeypatch):
    X = cloud(60)
    model = KMeans(3, random_state=0, bound=None).fit(X)
    before = state(model)
    monkeypatch.setattr(KMeans, "score", raising(error))
    with pytest.raises(error, match="cut off here"):
        model.certify(X, method="neighbours")
    assert state(model) == before


@fails_when("other_data_is_certified")
def test_rows_on_the_centers_make_other_data():
    """They leave the inertia as it was, and with many of them a bad clustering is the best one."""
    X = np.array([[0.0], [2.0], [100.0], [110.0]])
    model = KMeans(3, init=[[0.0], [2.0], [105.0]], bound=None).fit(X)
    assert model.inertia_ == 50.0
    with pytest.raises(ValueError, match="it has 604 rows, but the fit had 4"):
        model.certify(np.vstack([X] + [model.cluster_centers_] * 200))
    assert model.certify(X).lower_bound == pytest.approx(2.0)


# --- Data in parts ---------------------------------------------------------------------------


@contextmanager
def put(place, X):
    """Give data in parts of 20 rows, and the settings that it needs."""
    if place == "stream":
        with streaming(20):
            yield [X[:30], X[30:]], {"memory_limit": "1GB"}
        return
    import dask
    import dask.array as da

    with dask.config.set(scheduler="synchronous"):
        yield da.from_array(X, chunks=(20, -1)), {}


@needs_native
@fails_when("parts_that_failed_are_left_out", place="stream", error=MemoryError)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", IN_PARTS)
def test_an_error_within_one_part_leaves_no_bound_of_the_others(place, error, monkeypatch):
    X = cloud(60)
    with put(place, X) as (given, settings):
        model = KMeans(2, init=X[:2], **settings).fit(given)
        before = state(model)
        bounds, asked = module("estimators.bounds_in_parts"), []
        bound_of_part = bounds.bound_of_part

        def bounded(*arguments):
            asked.append(arguments)
            if len(asked) == 2:
                raise error("cut off here")
            return bound_of_part(*arguments)

        monkeypatch.setattr(bounds, "bound_of_part", bounded)
        with pytest.raises(error, match="cut off here"):
            model.certify(given, method="neighbours")
        assert len(asked) >= 2
        assert state(model) == before
        assert model.certificate_.lower_bound is None
        # Nothing of the parts that were bounded is left for the next time.
        assert model.certify(given, method="neighbours").lower_bound_kind == "partwise neighbours"
        assert len(asked) >= 5


@needs_native
@fails_when("later_passes_are_not_compared")
def test_a_part_that_is_gone_leaves_no_bound_of_the_others(monkeypatch):
    X = cloud(60)
    gone = []
    bounds = module("estimators.bounds_in_parts")
    part_task = bounds.part_task

    def asked(*arguments, **options):
        gone.append(True)  # from here on: when parts are counted and compared, all are there
        return part_task(*arguments, **options)

    def arrays():
        yield X[:40]
        if not gone:
            yield X[40:]

    monkeypatch.setattr(bounds, "part_task", asked)
    with streaming(20):
        model = KMeans(2, init=X[:2], memory_limit="1GB").fit(arrays)
        before = state(model)
        with pytest.raises(ValueError, match="has changed: 60 rows when it was first read, 40 now"):
            model.certify(arrays, method="neighbours")
    assert state(model) == before
    assert model.certificate_.lower_bound is None


@needs_native
@fails_when("other_data_in_parts_is_certified", place="stream", error=MemoryError)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", IN_PARTS)
def test_parts_that_could_not_be_compared_are_not_certified(place, error, monkeypatch):
    X = cloud(60)
    with put(place, X) as (given, settings):
        model = KMeans(2, init=X[:2], **settings).fit(given)
        before = state(model)
        monkeypatch.setattr("wolfmeans.engines.places.memory.MemoryPart.assign", raising(error))
        with pytest.raises(error, match="cut off here"):
            model.certify(given, method="neighbours")
    assert state(model) == before
    assert model.certificate_.lower_bound is None


@needs_native
@fails_when("other_data_in_parts_is_certified", place="stream", kind="rows on the centers")
@fails_when("other_data_in_parts_is_certified", place="stream", kind="another row")
@pytest.mark.parametrize("kind", ["rows on the centers", "another row"])
@pytest.mark.parametrize("place", IN_PARTS)
def test_parts_of_other_data_are_not_certified(place, kind):
    """Rows on the centers leave the inertia as it was, and another row leaves their number."""
    X = cloud(60)
    with put(place, X) as (given, settings):
        model = KMeans(2, init=X[:2], **settings).fit(given)
    other = np.vstack([X, *[model.cluster_centers_] * 20])
    said = "it has 100 rows, but the fit had 60"
    if kind == "another row":
        other = np.vstack([X[:-1], X[:1]])
        said = "with these centers their inertia is"
    before = state(model)
    with put(place, other) as (given, _), pytest.raises(ValueError, match=said):
        model.certify(given, method="neighbours")
    assert state(model) == before


# --- Scans and starts ------------------------------------------------------------------------


@fails_when("scans_return_what_they_have", place="_bound_of", error=KeyboardInterrupt)
@fails_when("scans_return_what_they_have", place="_shrunk", error=MemoryError)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", ["_grown", "_shrunk", "_bound_of"])
def test_a_scan_that_was_cut_off_returns_nothing(place, error, monkeypatch):
    monkeypatch.setattr(f"wolfmeans.estimators.scan._Scanner.{place}", raising(error))
    with pytest.raises(error, match="cut off here"):
        scan(cloud(40), range(1, 4), random_state=0)


@fails_when("bounds_too_high")
def test_fits_of_a_scan_that_ran_out_of_time_prove_no_more_than_is_true():
    """How many clusters are needed follows from what was reached and from proofs, however bad."""
    X = np.sort(cloud(40, d=1), axis=0)
    with pytest.warns(ConvergenceWarning):
        found = scan(X, range(1, 6), random_state=0, time_limit=0.0)
    best = {k: lower_bound(X, k, method="exact").value for k in range(1, 6)}
    for k in range(1, 6):
        assert found[k].proven <= best[k] * (1 + 1e-12) <= found[k].inertia * (1 + 1e-9)
    needed = found.needed(0.0)
    assert needed is None or found[needed].inertia < best[needed - 1]


@fails_when("starts_are_cut_off_in_silence")
def test_starts_that_the_time_limit_cut_off_are_counted(monkeypatch):
    X = cloud(60)
    clock = Clock(monkeypatch, module("fitting.fit"))
    begun = []

    def seeds(X, n_clusters, random_state):
        begun.append(n_clusters)
        if len(begun) == 3:
            clock.jump()
        return X[len(begun) : len(begun) + n_clusters]

    model = KMeans(4, init=seeds, n_init=5, time_limit=1e3, bound=None, stop="stationary")
    said = "2 of 5 starts finished within the time limit"
    with pytest.warns(ConvergenceWarning, match=said):
        model.fit(X)
    assert len(begun) == 3
    assert model.certificate_.notes == (said,)


@fails_when("starts_are_cut_off_in_silence")
def test_starts_that_a_callback_cut_off_are_counted():
    X = cloud(60)
    begun = []

    def stop(record):
        if record.t == 0:
            begun.append(record)
        return len(begun) > 2

    model = KMeans(
        4, init="random", n_init=5, random_state=0, callback=stop, bound=None, stop="stationary"
    )
    said = "3 of 5 starts were stopped before they finished"
    with pytest.warns(ConvergenceWarning, match=said):
        model.fit(X)
    assert model.certificate_.status.converged
    assert model.certificate_.notes == (said,)


@fails_when("short_runs_are_cut_off_in_silence")
def test_short_runs_that_the_time_limit_cut_off_are_counted_and_not_kept(tmp_path, monkeypatch):
    X, path = cloud(200), tmp_path / "checkpoint"
    settings = {"alpha": 0.1, "random_state": 0, "bound": None}
    clock = Clock(monkeypatch, module("fitting.two_stages"))
    run, made = module("fitting.two_stages").run, []

    def counted(*arguments, **options):
        made.append(arguments)
        if len(made) == 3:
            clock.jump()
        return run(*arguments, **options)

    monkeypatch.setattr("wolfmeans.fitting.two_stages.run", counted)
    said = "3 of 50 short runs were made within the time limit"
    with pytest.warns(ConvergenceWarning, match=said):
        TrimmedKMeans(5, time_limit=1e3, checkpoint=path, **settings).fit(X)
    monkeypatch.undo()
    # What goes on from a file ends as if nothing had cut it off, so that there is none.
    resumed = TrimmedKMeans(5, checkpoint=path, **settings).fit(X)
    assert bits(resumed) == bits(TrimmedKMeans(5, **settings).fit(X))


# --- Data that is read or written on the way ---------------------------------------------------


@fails_when("later_passes_are_not_compared")
def test_a_later_pass_that_ends_early_is_not_the_same_data():
    X = cloud(100)
    length = [100]
    source = open_source(lambda: iter([X[: length[0]]]))
    assert sum(len(chunk.rows) for chunk in source.chunks(40)) == 100
    length[0] = 80
    with pytest.raises(ValueError, match="has changed: 100 rows when it was first read, 80 now"):
        list(source.chunks(40))


@fails_when("passes_that_were_cut_off_count", error=MemoryError, raises=ValueError)
@pytest.mark.parametrize("error", ERRORS)
def test_a_first_pass_that_was_cut_off_is_not_what_others_are_compared_with(error):
    X = cloud(100)
    errors = iter([error])

    def arrays():
        yield X[:40]
        for kind in errors:
            raise kind("cut off here")
        yield X[40:]

    source = open_source(arrays)
    with pytest.raises((error, ValueError), match="cut off here"):
        list(source.chunks(20))
    assert source.n_rows is None
    assert source.sizes is None
    assert sum(len(chunk.rows) for chunk in source.chunks(40)) == source.n_rows == 100


@fails_when("checkpoints_half_written", error=MemoryError, raises=ValueError)
@pytest.mark.parametrize("error", [*ERRORS, OSError])
def test_a_checkpoint_that_was_cut_off_is_the_one_before(error, tmp_path, monkeypatch):
    X = cloud(80)
    path = tmp_path / "checkpoint"
    settings = {"init": X[:6], "tol": 0.0, "bound": None, "engine": "reference"}
    write, written = module("estimators.checkpoint").write_archive, []

    def interrupted(file, *given):
        written.append(file)
        if len(written) == 3:
            file.write(b"half")
            raise error("cut off here")
        write(file, *given)

    monkeypatch.setattr("wolfmeans.estimators.checkpoint.write_archive", interrupted)
    model = KMeans(6, checkpoint=path, **settings)
    with pytest.raises(error, match="cut off here"):
        model.fit(X)
    assert not hasattr(model, "certificate_")
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]
    assert bits(model.fit(X)) == bits(KMeans(6, **settings).fit(X))


@fails_when("unfinished_scenarios_count", error=MemoryError)
@pytest.mark.parametrize("error", ERRORS)
def test_a_study_that_was_cut_off_has_no_result_until_it_is_resumed(error, tmp_path, monkeypatch):
    runner = module("study.runner")
    scenarios = study.grid(n=[30], d=[2], k=[3], replications=30)
    monkeypatch.setattr(runner, "_RUNS_PER_CHUNK", 10)
    [whole] = study.run(scenarios, tmp_path / "whole", workers=1)
    perform, done = runner.perform, []

    def interrupted(*arguments):
        done.append(arguments)
        if len(done) == 3:
            raise error("cut off here")
        return perform(*arguments)

    monkeypatch.setattr(runner, "perform", interrupted)
    folder = tmp_path / "cut"
    with pytest.raises(error, match="cut off here"):
        study.run(scenarios, folder, workers=1)
    assert not list((folder / "scenarios").iterdir())
    with pytest.raises(ValueError, match="no scenario is finished"):
        study.write_report(folder)
    [resumed] = study.run(scenarios, folder, workers=1, resume=True)
    assert resumed.to_dict() == whole.to_dict()
