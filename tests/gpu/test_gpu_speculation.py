"""Steps that the device takes before they are asked for: results are the same."""

import dataclasses
import math

import numpy as np
import pytest

from difficult import points
from interpreted import needs_triton
from wolfmeans import KMeans
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import get_engine

pytest.importorskip("wolfmeans.exact._native")
pytestmark = [
    needs_triton,
    pytest.mark.filterwarnings("ignore:Not converged", "ignore:.* empty", "ignore:Number of dist"),
]


@pytest.fixture
def seen(monkeypatch):
    """How many steps were taken before they were asked for, and how often they were undone."""
    from wolfmeans.engines.gpu import points as module

    seen = {"ahead": [], "undone": 0}
    speculation, undo = module.Speculation, module.GpuPoints._undo

    def made(*given):
        seen["ahead"].append(given[-1])
        return speculation(*given)

    def undone(*given):
        seen["undone"] += 1
        undo(*given)

    monkeypatch.setattr(module, "Speculation", made)
    monkeypatch.setattr(module.GpuPoints, "_undo", undone)
    return seen


def plain():
    """Points that need seven steps from the first of them."""
    return points("plain", 24, 2, "float32", seed=2)


def opened(X, weights=None, to_come=9):
    workspace = get_engine("gpu").open(X, weights, 1)
    workspace.steps_to_come = to_come
    return workspace


def facts_of(model):
    """Return all that a fit says, but for the time it took and the engine."""
    certificate = dataclasses.asdict(model.certificate_) | {"engine": None}
    columns = {n: c.tolist() for n, c in model.trace_.columns().items() if n != "seconds"}
    arrays = (model.labels_, model.cluster_centers_, model.initial_centers_)
    return (
        *(a.tolist() for a in arrays),
        model.inertia_,
        model.n_iter_,
        repr(columns),
        certificate,
    )


def fitted(X, monkeypatch, weights=None, without=False, **settings):
    """Fit with steps taken ahead, and on the CPU; compare. If asked for, without such steps, too.

    The CPU says what all of them should be; without them, `test_gpu_fits` compares with it.
    """
    from wolfmeans.engines.gpu import points as module

    n_clusters = settings.pop("n_clusters", 3)
    settings = {"init": X[:n_clusters].copy(), "n_init": 1, "bound": None, **settings}

    def fit(engine="gpu"):
        model = KMeans(n_clusters, engine=engine, random_state=0, **settings)
        return model.fit(X, sample_weight=weights)

    expected = facts_of(fit("cpu"))
    assert facts_of(fit()) == expected
    if without:
        with monkeypatch.context() as patched:
            patched.setattr(module, "speculative_steps", lambda *_: 0)
            assert facts_of(fit()) == expected


@pytest.mark.parametrize(
    ("settings", "steps", "undone"),
    [
        ({"stop": "stationary"}, [3], 0),
        ({"stop": "stationary", "max_iter": 1}, [1], 0),
        ({"stop": "stationary", "max_iter": 3}, [3], 0),
        ({"stop": "stationary", "max_iter": 4}, [3], 0),
        ({"stop": "decrease", "tol": 0.02}, [3], 0),
        # All steps are launched, and the last is not taken: another buffer is the last.
        ({"stop": "decrease", "tol": 0.02, "max_iter": 6}, [3], 0),
        ({"stop": "decrease", "tol": 0.05}, [3], 1),
        ({"stop": "gap", "tol": 0.06}, [3], 1),
        ({"stop": "shift", "tol": 0.155, "tol_scale": "absolute"}, [3], 1),
        # Who watches gets the steps one by one, and time is looked at between them.
        ({"callback": lambda record: None, "max_iter": 2}, [], 0),
        ({"time_limit": 1e9, "max_iter": 2}, [], 0),
        ({"n_clusters": 1}, [], 0),
    ],
)
def test_fits_are_the_same(settings, steps, undone, seen, monkeypatch):
    # Where nothing is taken ahead, that is the fit without.
    without = settings in ({"stop": "stationary"}, {"stop": "gap", "tol": 0.06})
    fitted(plain(), monkeypatch, without=without, **settings)
    assert (seen["ahead"], seen["undone"]) == (steps, undone)


def test_steps_are_taken_ahead_of_any_width(seen, monkeypatch):
    fitted(points("blobs", 24, 12), monkeypatch, stop="stationary", max_iter=4)
    assert (seen["ahead"], seen["undone"]) == ([3], 0)


def test_weighted_fits_are_the_same(seen, monkeypatch):
    X, weights = plain(), np.linspace(0.1, 3.0, 24) ** 9
    fitted(X, monkeypatch, weights, without=True, stop="stationary", max_iter=4)
    fitted(X, monkeypatch, weights, stop="decrease", tol=0.5)
    assert len(seen["ahead"]) == 2


@pytest.mark.parametrize("empty", ["keep", "resample", "farthest", "best", "admissible"])
@pytest.mark.parametrize("late", [False, True])
def test_empty_clusters(empty, late, seen, monkeypatch):
    if late:
        # One cluster loses its points when the centers have moved.
        X = np.array(
            [[1, 11], [11, 4], [9, 7], [3, 2], [9, 6], [5, 2], [9, 7], [4, 3], [5, 11], [1, 1]],
            dtype=np.float32,
        )
        init = np.array([[0, 6], [6, 2], [7, 3], [10, 10], [7, 6]], dtype=np.float32)
    else:
        X = points("blobs", 20, 2, "float32")
        init = X[:3].copy()
        init[1] += 1e4
    without = late and empty in ("keep", "best")
    fitted(
        X, monkeypatch, without=without, n_clusters=len(init), init=init, empty=empty, max_iter=4
    )
    assert seen["undone"] == (empty != "keep" and (late or empty != "admissible"))


def test_several_starts(seen, monkeypatch):
    X = plain()
    fitted(X, monkeypatch, init="random", n_init=2, max_iter=3)
    assert seen["ahead"] == []
    # One after the other.
    monkeypatch.setattr("wolfmeans.engines.gpu.points._SMALL", 0)
    fitted(X, monkeypatch, init="random", n_init=2, max_iter=3)
    assert seen["ahead"] == [3, 3]


def test_a_fixpoint_within_the_steps(seen, monkeypatch):
    X = points("blobs", 20, 2)
    centers = KMeans(3, init=X[:3], n_init=1, engine="cpu", stop="stationary").fit(X)
    for max_iter in (2, 9):
        fitted(
            X, monkeypatch, n_clusters=3, init=centers.cluster_centers_, stop="stationary",
            max_iter=max_iter,
        )  # fmt: skip
    assert (seen["ahead"], seen["undone"]) == ([1, 3], 0)


def test_long_steps_are_not_taken_ahead():
    from wolfmeans.engines.gpu.runs import speculative_steps

    assert speculative_steps(10**6, 2, 100, 20) == 3
    assert speculative_steps(10**6, 2, 100, 2) == 1
    assert speculative_steps(10**6, 32, 256, 20) == 1
    assert speculative_steps(10**6, 128, 2, 20) == 0
    assert speculative_steps(10**6, 2, 1, 20) == 0
    assert speculative_steps(10**6, 2, 100, 0) == 0


READERS = {
    "labels": lambda w, c: w.labels(),
    "snapshot": lambda w, c: np.asarray(w.snapshot()),
    "cost": lambda w, c: w.cost(c),
    "near ties": lambda w, c: w.near_ties(c, math.inf),
    "best candidate": lambda w, c: w.best_candidate(c, None, 8),
    "losses": lambda w, c: w.losses_without(c, np.arange(len(c)) == 1),
    "assignment": lambda w, c: dataclasses.astuple(w.assign(c)),
    "steps": lambda w, c: w.advance(c, np.ones(len(c)), 1.0, Limits(2, math.inf)).vertex,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_read_is_what_was_asked_for(read, seen):
    X = plain()
    seeds = X[:3].copy()
    ours, expected = opened(X), opened(X, to_come=0)
    first, known = ours.assign(seeds), expected.assign(seeds)
    assert_same(read(ours, seeds), read(expected, seeds))
    assert (seen["ahead"], seen["undone"]) == ([3], 1)
    assert ours.labels().tolist() == expected.labels().tolist()
    assert_same(ours.cost(first.means), expected.cost(known.means))


def assert_same(found, expected):
    if isinstance(found, tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    else:
        assert np.array_equal(found, expected)


def test_only_steps_from_the_first_means_are_taken_over(seen):
    X = plain()
    seeds = X[:3].copy()
    for given in ("means", "equal", "shift", "few"):
        ours, expected = opened(X), opened(X, to_come=0)
        progress = []
        for workspace in (ours, expected):
            found = workspace.assign(seeds)
            shift = workspace.step(found, seeds)[0]
            means = found.means.copy() if given == "equal" else found.means
            limits = Limits(2 if given == "few" else 4, math.inf)
            shift += given == "shift"
            progress.append(workspace.advance(means, found.weights, shift, limits))
        assert seen["undone"] == (given != "means")
        seen["undone"] = 0
        assert np.array_equal(progress[0].evaluations[:, :5], progress[1].evaluations[:, :5])
        assert_same(progress[0].vertex, progress[1].vertex)
        assert_same(progress[0].point, progress[1].point)
        assert ours.labels().tolist() == expected.labels().tolist()


def test_the_cost_of_the_first_means_undoes_nothing(seen):
    X = plain()
    ours, expected = opened(X), opened(X, to_come=0)
    found, known = ours.assign(X[:3].copy()), expected.assign(X[:3].copy())
    assert ours.cost(found.means) == expected.cost(known.means)
    assert seen["undone"] == 0
    assert ours.cost(found.means.copy()) == expected.cost(known.means)
    assert seen["undone"] == 1


def test_a_sum_without_room_ends_the_steps(seen, monkeypatch):
    from wolfmeans.engines.gpu.clusters import Lows

    X = plain()
    right = Lows.of

    def too_high(*given):
        lows = right(*given)
        return Lows(lows.gap, lows.shift + 400, lows.movement)

    expected = KMeans(3, init=X[:3], n_init=1, engine="cpu", bound=None, max_iter=3).fit(X)
    monkeypatch.setattr(Lows, "of", staticmethod(too_high))
    model = KMeans(3, init=X[:3], n_init=1, engine="gpu", bound=None, max_iter=3).fit(X)
    assert seen["ahead"] == []
    assert model.trace_.shift.tolist() == expected.trace_.shift.tolist()
    assert model.labels_.tolist() == expected.labels_.tolist()
