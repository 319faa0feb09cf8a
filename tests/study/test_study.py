"""The study: its runs are the house's, its gaps are the inertia's, its files survive anything."""

import itertools
import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans, study
from wolfmeans.engines.native import run_to_rest
from wolfmeans.exact.native import native_is_available
from wolfmeans.files.atomic import written_whole
from wolfmeans.files.datasets import load_banknotes, load_segmentation
from wolfmeans.study import mixtures, paper, results, runner, runs, statistics
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.runs import Tally, draw, perform
from wolfmeans.study.scenarios import Scenario

SHAPES = [
    Scenario("blobs", 500, 2, 5),
    Scenario("blobs", 500, 10, 50),
    Scenario("blobs", 1000, 2, 20),
    Scenario("blobs", 703, 5, 10),
    Scenario("blobs", 7, 1, 7),
    Scenario("blobs", 40, 3, 1),
    Scenario("heavy", 300, 3, 8),
    Scenario("blobs", 400, 2, 6, seeding="plain-k-means++"),
    # Integers: ties and equal points.
    *study.data(np.random.default_rng(0).integers(0, 4, (300, 2)), "integers", [6, 16]),
    *study.segmentation(["standardized", "raw"]),
]
NAMES = [scenario.name for scenario in SHAPES]


@pytest.fixture(params=["native call", "loop"])
def way(request, monkeypatch):
    """Both ways to run: in one native call, and through the ordinary loop."""
    if request.param == "loop":
        monkeypatch.setattr(runs, "_SMALL", 0)
    return request.param


def steps_of(some: runs.Runs, place: int) -> tuple[np.ndarray, np.ndarray]:
    steps = int(some.steps[place])
    assert not some.gap[place, steps:].any() and not some.movement[place, steps:].any()
    return some.gap[place, :steps], some.movement[place, :steps]


@pytest.mark.filterwarnings("ignore:.*clusters are empty")
@pytest.mark.parametrize("scenario", SHAPES, ids=NAMES)
def test_runs_are_those_of_kmeans(scenario, way):
    some = perform(scenario, range(3, 9))
    for place, replication in enumerate(range(3, 9)):
        X, rows = draw(scenario, replication)
        settings = {"empty": "keep", "stop": "stationary", "max_iter": None, "bound": None}
        km = KMeans(scenario.k, init=X[rows], **settings).fit(X)
        gap, movement = steps_of(some, place)
        assert gap.tolist() == km.trace_.gap.tolist()
        assert movement.tolist() == km.trace_.movement.tolist()
        assert some.initial_sse[place] == km.trace_.sse[0]
        assert some.steps[place] == km.certificate_.iterations
        assert some.ever_empty[place] == bool(km.trace_.empty.any())


def nearest(X, centers):
    return ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)


def naive_lloyd(X, centers):
    """The three gaps as differences, by plain NumPy: no code in common with the package."""
    inertias, objectives, gaps, labels = [], [], [], None
    while True:
        squares = nearest(X, centers)
        now = squares.argmin(axis=1)
        inertias.append(squares.min(axis=1).sum())
        if labels is not None:
            objectives.append(squares[np.arange(len(X)), labels].sum())
            gaps.append(objectives[-1] - inertias[-1])
            if (now == labels).all():
                break
        labels = now
        centers = np.array(
            [X[now == k].mean(axis=0) if (now == k).any() else c for k, c in enumerate(centers)]
        )
    published = -np.diff(inertias)
    decrease = np.append(-np.diff(objectives), 0.0)
    return {"published": published, "decrease": decrease, "gap": np.array(gaps)}, objectives[0]


@pytest.mark.parametrize("scenario", SHAPES[:4], ids=NAMES[:4])
def test_gaps_are_differences_of_inertias(scenario, way):
    some = perform(scenario, range(4))
    for replication in range(4):
        X, rows = draw(scenario, replication)
        naive, sse = naive_lloyd(X, X[rows])
        steps = int(some.steps[replication])
        scatter = ((X - X.mean(axis=0)) ** 2).sum()
        assert some.scatter[replication] == pytest.approx(scatter, rel=1e-12)
        assert some.initial_sse[replication] == pytest.approx(sse, rel=1e-12)
        for name, gaps in some.gaps().items():
            assert len(naive[name]) == steps
            np.testing.assert_allclose(gaps[replication, :steps], naive[name], atol=1e-9 * scatter)
            assert not gaps[replication, steps:].any()


def test_tally_is_what_the_runs_say():
    scenario = Scenario("blobs", 150, 10, 30, replications=40)
    total = Tally()
    for block in ([5, 1], [0], range(6, 40), [4, 3, 2]):
        total.merge(Tally.of(perform(scenario, block)))
    result = total.result(scenario)

    some = perform(scenario, range(40))
    for name, gaps in some.gaps().items():
        lists = [row[row > 0].tolist() for row in gaps]
        longest = max(map(len, lists))
        worst = [max(one[t] for one in lists if t < len(one)) for t in range(longest)]
        minima = [max(min(one[: t + 1]) for one in lists if t < len(one)) for t in range(longest)]
        assert list(result.worst[name]) == worst
        assert list(result.worst_minimum[name]) == minima
        if name != "published":
            ratios = [
                (t + 1) * min(one[: t + 1]) / sse
                for one, sse in zip(lists, some.initial_sse.tolist(), strict=True)
                for t in range(len(one))
            ]
            assert result.worst_ratio[name] == pytest.approx(max(ratios), rel=1e-14)
            assert result.worst_ratio[name] <= 1.0
    assert result.iterations == {
        int(s): int((some.steps == s).sum()) for s in np.unique(some.steps)
    }
    assert max(result.iterations) == len(result.worst["published"])
    assert result.empty_runs == some.ever_empty.sum() > 0
    assert result.scatter_max == some.scatter.max()
    mean = sum(map(Fraction, some.scatter.tolist())) / 40
    assert result.scatter_mean == float(mean)


def test_worst_cases_of_runs_of_different_lengths():
    short, long = np.array([5.0, 1.0]), np.array([3.0, 2.0, 1.0])
    for a, b in ((short, long), (long, short)):
        assert runs._larger(a, b).tolist() == [5.0, 2.0, 1.0]
    assert (short.tolist(), long.tolist()) == ([5.0, 1.0], [3.0, 2.0, 1.0])


def test_zeros_at_the_end_are_no_gaps():
    assert runs._to_last_positive(np.array([3.0, 0.0, 2.0, 0.0, 0.0])) == (3.0, 0.0, 2.0)
    assert runs._to_last_positive(np.zeros(3)) == ()


@pytest.mark.parametrize("data", mixtures.MIXTURES)
def test_theorem_holds_on_every_kind_of_data(data):
    scenario = Scenario(data, 200, 3, 6, replications=30)
    result = Tally.of(perform(scenario, range(30))).result(scenario)
    assert 0.0 < result.worst_ratio["gap"] <= result.worst_ratio["decrease"] <= 1.0
    assert (result.separation["median_nearest"] is None) == (data == "uniform")


@pytest.mark.parametrize("data", mixtures.MIXTURES)
def test_mixtures_have_unit_variance_about_their_centers(data):
    n, d, k = 60_000, 2, 4
    X = np.empty((n, d))
    mixtures.MIXTURES[data](np.random.default_rng(1), k, X)
    if data == "uniform":
        assert -10 <= X.min() < -9.9 and 9.9 < X.max() <= 10
        return
    places = mixtures.centers(np.random.default_rng(1), k, d)
    sizes = np.array([28800, 14400, 9600, 7200]) if data == "unbalanced" else np.full(k, n // k)
    off = X - np.repeat(places, sizes, axis=0)
    # The fourth moment of the heavy tails is infinite: their variance settles slowly.
    assert off.var() == pytest.approx(1.0, rel=0.15 if data == "heavy" else 0.02)
    assert abs(off.mean()) < 0.02


def test_blobs_split_like_make_blobs():
    assert mixtures.even_sizes(11, 4).tolist() == [3, 3, 3, 2]
    X = np.empty((11, 1))
    mixtures.blobs(np.random.default_rng(3), 4, X)
    rng = np.random.default_rng(3)
    places = rng.uniform(-10, 10, (4, 1))
    assert (np.repeat(places, [3, 3, 3, 2], axis=0) + rng.standard_normal((11, 1)) == X).all()


def test_streams_are_one_per_replication_and_shared_by_what_is_compared():
    base = Scenario("blobs", 60, 2, 3)
    same = [
        Scenario("blobs", 60, 2, 3, seeding="plain-k-means++"),
        Scenario("blobs", 60, 2, 3, empty="farthest"),
        Scenario("blobs", 60, 2, 3, replications=7),
    ]
    other = [
        Scenario("blobs", 60, 2, 3, seed=1),
        Scenario("blobs", 60, 2, 3, repeat=1),
        Scenario("blobs", 60, 2, 4),
        Scenario("heavy", 60, 2, 3),
    ]
    first = base.stream(5).random()
    assert all(scenario.stream(5).random() == first for scenario in same)
    assert len({s.stream(r).random() for s in [base, *other] for r in range(20)}) == 100
    assert len({s.name for s in [base, *same[:2], *other[1:]]}) == 6
    X, rows = draw(base, 5)
    assert (draw(base, 5)[0] == X).all() and len(set(rows.tolist())) == 3


needs_native = pytest.mark.skipif(not native_is_available(), reason="needs the native module")


@needs_native
@pytest.mark.parametrize("shape", [(600, 2, 9), (300, 10, 40), (50, 30, 5)])
def test_methods_agree(shape):
    scenario = Scenario("blobs", *shape)
    drawn = [draw(scenario, replication) for replication in range(3)]
    X, seeds = np.array([x for x, _ in drawn]), np.array([rows for _, rows in drawn])
    expected = [array.tolist() for array in run_to_rest(X, seeds, 10_000)]
    for algorithm in ("dense", "bounds", "tree"):
        found = run_to_rest(X, seeds, 10_000, algorithm)
        assert [array.tolist() for array in found] == expected
    _, lengths, table = run_to_rest(X[:1], seeds[:1], 2)
    assert lengths.tolist() == [2] and table.tolist() == expected[2][:2]


@needs_native
def test_native_runs_refuse_what_does_not_fit():
    X, seeds = np.zeros((2, 5, 3)), np.array([[0, 1], [2, 3]])
    for bad_X, bad_seeds, at_most, algorithm in [
        (X[0], seeds, 5, "auto"),
        (X, seeds[0], 5, "auto"),
        (np.zeros((3, 5, 3)), seeds, 5, "auto"),
        (X, seeds[:, :0].copy(), 5, "auto"),
        (X, seeds + 3, 5, "auto"),
        (X, seeds - 1, 5, "auto"),
        (X, seeds, 0, "auto"),
        (X, seeds, 5, "nothing"),
    ]:
        with pytest.raises(ValueError, match=r"must|outside"):
            run_to_rest(bad_X, bad_seeds, at_most, algorithm)


def test_a_run_without_end_is_reported(monkeypatch):
    monkeypatch.setattr(runs, "_STEPS", 2)
    with pytest.raises(RuntimeError, match="did not end within 2 steps"):
        perform(Scenario("blobs", 500, 2, 20), range(3))


def test_other_policies_take_the_ordinary_loop():
    scenario = Scenario("blobs", 100, 2, 40, empty="farthest")
    some = perform(scenario, range(2))
    X, rows = draw(scenario, 1)
    km = KMeans(40, init=X[rows], empty="farthest", stop="stationary", max_iter=None).fit(X)
    assert steps_of(some, 1)[0].tolist() == km.trace_.gap.tolist()
    assert some.scatter[1] == runs.scatter(X)


@pytest.mark.filterwarnings("ignore:.*clusters are empty")
def test_trimmed_runs_are_those_of_trimmed_kmeans():
    pytest.importorskip("wolfmeans.core.trimmed")
    scenario = Scenario("heavy", 200, 2, 6, alpha=0.1, replications=4)
    some = perform(scenario, range(4))
    for replication in range(4):
        X, rows = draw(scenario, replication)
        km = wolfmeans.TrimmedKMeans(
            6, alpha=0.1, init=X[rows], empty="keep", stop="stationary", max_iter=None
        ).fit(X)
        gap, movement = steps_of(some, replication)
        assert gap.tolist() == km.trace_.gap.tolist()
        assert movement.tolist() == km.trace_.movement.tolist()
        kept = np.sort(nearest(X, X[rows]).min(axis=1))[:180].sum()
        first = kept - km.trace_.sse[0]
        assert some.first_movement[replication] == pytest.approx(first, rel=1e-9)
    assert 0.0 < Tally.of(some).result(scenario).worst_ratio["decrease"] <= 1.0


TINY = [
    *study.grid(n=[40, 90], d=[2], k=[3, 8], replications=23, seed=5),
    *study.data(load_banknotes().standardized(), "file:banknotes", [3], replications=31, seed=5),
]


def contents(folder):
    """Every file of a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "undisturbed"
    study.run(TINY, folder, workers=1)
    return contents(folder)


def test_study_leaves_settings_and_results_only(undisturbed):
    names = {"study.json", *(f"scenarios/{scenario.name}.json" for scenario in TINY)}
    assert set(undisturbed) == names
    settings = json.loads(undisturbed["study.json"])
    assert [s["name"] for s in settings["scenarios"]] == [s.name for s in TINY]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("chunk", [1, 7, 500])
def test_workers_and_chunks_change_nothing(tmp_path, monkeypatch, undisturbed, workers, chunk):
    monkeypatch.setattr(runner, "_RUNS_PER_CHUNK", chunk)
    monkeypatch.setattr(runs, "_RUNS_AT_ONCE", max(1, chunk // 2))
    study.run(TINY, tmp_path / "a", workers=workers)
    assert contents(tmp_path / "a") == undisturbed


def test_order_of_scenarios_changes_no_result(tmp_path, undisturbed):
    study.run(TINY[::-1], tmp_path / "a", workers=2)
    found = contents(tmp_path / "a")
    del found["study.json"]
    assert found == {name: text for name, text in undisturbed.items() if name != "study.json"}


class StoppedError(BaseException):
    """Stands for Ctrl-C, and for whatever else may come."""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_stopped_at_any_file_and_resumed(tmp_path, monkeypatch, undisturbed, workers, after):
    """Stopped before or after a file is written, and resumed with chunks of another size."""
    for number in range(1, 38, 3):
        writes = itertools.count(1)

        @contextmanager
        def stopping(path, writes=writes, number=number):
            mine = next(writes)
            if mine == number and not after:
                raise StoppedError
            with written_whole(path) as file:
                yield file
            if mine == number:
                raise StoppedError

        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            patch.setattr(runner, "_RUNS_PER_CHUNK", 4)
            patch.setattr(runner, "written_whole", stopping)
            patch.setattr(results, "written_whole", stopping)
            with pytest.raises(StoppedError):
                study.run(TINY, folder, workers=workers)
        study.run(TINY, folder, workers=workers, resume=True)
        assert contents(folder) == undisturbed


KILLED = """
import os, pathlib, random, shutil, signal, sys, time
sys.path.insert(0, sys.argv[2])
from test_study import TINY, contents
from wolfmeans import study
from wolfmeans.study import runner

runner._RUNS_PER_CHUNK = 2
folder = pathlib.Path(sys.argv[1])
study.run(TINY, folder / "undisturbed", workers=2)
expected = contents(folder / "undisturbed")
begin = time.perf_counter()
study.run(TINY, folder / "timed", workers=2)
duration = time.perf_counter() - begin

draw = random.Random(0)
killed = finished = 0
target = folder / "killed"
while killed < 10:
    child = os.fork()
    if child == 0:
        study.run(TINY, target, workers=2, resume=True)
        os._exit(0)
    time.sleep(draw.uniform(0.0, 0.4 * duration))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    killed += os.WIFSIGNALED(status)
    if os.WIFEXITED(status):
        assert status == 0 and contents(target) == expected
        finished += 1
        target = folder / f"killed-{finished}"
study.run(TINY, target, workers=2, resume=True)
assert contents(target) == expected
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_killed_at_random_moments(tmp_path, undisturbed):
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), here], check=True, timeout=120)
    assert contents(tmp_path / "undisturbed") == undisturbed


def test_error_in_a_worker_is_heard(tmp_path, monkeypatch):
    def failing(scenario, replications, n_threads=1):
        raise RuntimeError("broken")

    monkeypatch.setattr(runner, "perform", failing)
    with pytest.raises(RuntimeError, match="broken"):
        study.run(TINY, tmp_path / "a", workers=2)


def test_other_settings_are_refused(tmp_path):
    folder = tmp_path / "a"
    study.run(TINY, folder)
    with pytest.raises(FileExistsError, match="resume it or choose another folder"):
        study.run(TINY, folder)
    others = [
        (TINY[:-1], "banknotes-n200-d6-k3 is not asked for"),
        ([*TINY, Scenario("blobs", 40, 2, 4)], "blobs-n40-d2-k4 is not in it"),
        ([replace(s, seed=6) for s in TINY], "seed=5, not 6"),
        ([replace(s, replications=24) for s in TINY], "replications=23, not 24"),
        ([*TINY[:-1], replace(TINY[-1], points=TINY[-1].points + 1.0)], "points="),
    ]
    for scenarios, message in others:
        with pytest.raises(ValueError, match=message):
            study.run(scenarios, folder, resume=True)
    before = contents(folder)
    study.run(TINY, folder, resume=True)
    assert contents(folder) == before
    with pytest.raises(ValueError, match="a name of its own"):
        study.run([TINY[0], TINY[0]], tmp_path / "b")


def test_progress_counts_up_to_all(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_RUNS_PER_CHUNK", 5)
    calls = []
    study.run(TINY, tmp_path / "a", workers=2, progress=lambda *call: calls.append(call))
    total = sum(scenario.replications for scenario in TINY)
    assert calls[0] == (0, total, None)
    assert calls[-1] == (total, total, 0.0)
    assert [done for done, _, _ in calls] == sorted(done for done, _, _ in calls)
    assert all(left > 0 for _, _, left in calls[1:-1])
    study.run(TINY, tmp_path / "a", resume=True, progress=lambda *call: calls.append(call))
    assert calls[-1] == (total, total, 0.0)


def test_large_runs_use_all_threads_and_change_nothing(tmp_path, monkeypatch, undisturbed):
    monkeypatch.setattr(runs, "_SMALL", 100)
    study.run(TINY, tmp_path / "a", workers=2)
    assert contents(tmp_path / "a") == undisturbed


def test_result_is_read_as_written(tmp_path):
    [written] = study.run(TINY[:1], tmp_path / "a")
    path = tmp_path / "a" / "scenarios" / f"{TINY[0].name}.json"
    assert ScenarioResult.load(path) == written
    assert set(json.loads(path.read_text())["worst"]) == set(GAPS)
    path.write_text('{"format": "something else"}')
    with pytest.raises(ValueError, match="not a result"):
        ScenarioResult.load(path)
    path.write_text('{"format": "wolfmeans-study", "version": 99}')
    with pytest.raises(ValueError, match="version 99"):
        ScenarioResult.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 41}, "k must be"),
        ({"n": 0}, "at least 1"),
        ({"seeding": "nothing"}, "seeding must be"),
        ({"empty": "nothing"}, "empty must be"),
        ({"alpha": 1.0}, "alpha must be"),
        ({"seed": -1}, "at least 0"),
        ({"points": np.zeros((3, 3))}, "points must be"),
    ],
)
def test_impossible_scenarios_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY[0], **change)


def test_unknown_data_is_refused():
    with pytest.raises(ValueError, match="data must be"):
        study.grid(data="nothing")
    with pytest.raises(ValueError, match="features must be"):
        study.segmentation(["nothing"])
    with pytest.raises(ValueError, match="another name"):
        study.data(np.zeros((3, 2)), "blobs", [2])
    with pytest.raises(ValueError, match="NaN"):
        study.data([[np.nan, 1.0]], "holes", [1])
    with pytest.raises(ValueError, match="make it anew"):
        perform(Scenario.from_dict(TINY[-1].to_dict()), range(1))


def test_scenarios_of_the_paper():
    assert len(study.grid()) == 36
    assert {s.replications for s in study.grid()} == {10_000}
    assert len({s.name for s in study.grid(repeats=3)}) == 108
    standardized, raw, shifted = study.segmentation(["standardized", "raw", "shifted"])
    assert (standardized.replications, standardized.k) == (50_000, 7)
    assert np.allclose(standardized.points.std(axis=0), 1.0)
    assert (raw.points == load_segmentation().data).all()
    # One column earlier: the same columns, all but the first of the one and the last of the other.
    assert (shifted.points[:, 1:] == standardized.points[:, :-1]).all()


def test_line_agrees_with_the_design_matrix():
    rng = np.random.default_rng(0)
    for n_points in (3, 5, 30):
        x, y = rng.normal(size=n_points), rng.normal(size=n_points)
        line = statistics.least_squares(x, y)
        design = np.column_stack([np.ones(n_points), x])
        inverse = np.linalg.inv(design.T @ design)
        intercept, slope = np.linalg.lstsq(design, y, rcond=None)[0]
        residuals = y - design @ [intercept, slope]
        errors = np.sqrt(np.diag(inverse) * (residuals @ residuals) / (n_points - 2))
        found = [line.intercept, line.slope, line.intercept_se, line.slope_se]
        np.testing.assert_allclose(found, [intercept, slope, *errors], rtol=1e-10)
        assert line.degrees_of_freedom == n_points - 2
        # Student's t by integration of its density.
        t = (slope + 1.0) / errors[1]
        f = n_points - 2
        u = np.linspace(0.0, 1.0, 2_000_001)[1:-1]
        beyond = np.abs(t) + u / (1.0 - u)
        density = (1.0 + beyond**2 / f) ** (-(f + 1) / 2) / (1.0 - u) ** 2
        factor = math.gamma((f + 1) / 2) / (math.sqrt(f * math.pi) * math.gamma(f / 2))
        tail = factor * density.mean()
        assert line.p_value == pytest.approx(tail if t > 0 else 1.0 - tail, abs=2e-6)


def test_line_of_few_or_perfect_points():
    assert math.isnan(statistics.least_squares([], []).slope)
    assert math.isnan(statistics.least_squares([1.0, 1.0], [1.0, 2.0]).slope)
    two = statistics.least_squares([0.0, 1.0], [3.0, 1.0])
    assert (two.slope, two.intercept) == (-2.0, 3.0) and math.isnan(two.p_value)
    assert statistics.least_squares([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]).p_value == 0.0
    assert statistics.least_squares([0.0, 1.0, 2.0], [0.0, -2.0, -4.0]).p_value == 1.0


def test_a_perfect_line_at_the_bound_says_nothing():
    assert statistics.least_squares([0.0, 1.0, 2.0], [2.0, 1.0, 0.0]).p_value == 0.5


def test_window_is_right_at_cubes():
    assert [statistics.window(T) for T in (8, 27, 64, 1000)] == [4, 9, 16, 100]
    for T in range(2000):
        N = statistics.window(T)
        assert N**3 <= T**2 < (N + 1) ** 3
    for root in (10**5, 10**6 + 3):
        assert statistics.window(root**3) == root**2
        assert statistics.window(root**3 - 1) == root**2 - 1
    with pytest.raises(ValueError, match="at least 0"):
        statistics.window(-1)


def test_line_is_fitted_in_the_window_only():
    gaps = [5.0 * (t + 1) ** -1.5 for t in range(9)] + [7.0] * 18
    line = statistics.log_log_line(gaps)
    assert (line.n_points, line.slope) == (9, pytest.approx(-1.5))
    assert line.intercept == pytest.approx(math.log(5.0))
    gaps[4] = 0.0
    assert statistics.log_log_line(gaps).n_points == 8
    with pytest.raises(ValueError, match="gap must be"):
        Tally.of(perform(TINY[0], range(23))).result(TINY[0]).regression("nothing")


def test_sidak():
    level = statistics.sidak(0.05, 36)
    assert level == pytest.approx(0.0014238, abs=1e-7)
    assert 1 - (1 - level) ** 36 == pytest.approx(0.05)
    with pytest.raises(ValueError, match="tests"):
        statistics.sidak(0.05, 0)


def test_printed_rows_agree_with_their_windows():
    """The p-values printed are those of the slopes, their errors and the recovered N."""
    rows = paper.printed_rows()
    assert len(rows) == 36
    n_points = dict(
        zip(
            [(500, 2), (1000, 2), (5000, 2)],
            ([13, 15, 14, 9], [16, 16, 17, 14], [21, 24, 27, 26]),
            strict=True,
        )
    )
    for (n, d), numbers in n_points.items():
        for k, number in zip((5, 10, 20, 50), numbers, strict=True):
            row = paper.printed_row(n, d, k)
            assert row is not None
            t = (row["slope"] + 1.0) / row["slope_se"]
            assert statistics.stdtr(number - 2, -t) == pytest.approx(row["p_value"], abs=2e-3)
    assert paper.printed_row(1, 1, 1) is None


def test_what_a_killed_run_was_writing_is_removed(tmp_path, undisturbed):
    folder = tmp_path / "a"
    study.run(TINY, folder)
    for place in (folder, folder / "scenarios"):
        (place / ".abc-1.part").write_bytes(b"half a fi")
    study.run(TINY, folder, resume=True)
    assert contents(folder) == undisturbed
    assert not (folder / "parts").exists()


def test_results_without_settings_are_not_taken_for_a_study(tmp_path):
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / f"{TINY[0].name}.json").write_text("{}")
    with pytest.raises(FileExistsError, match="belong to no study"):
        study.run(TINY, tmp_path)
