"""Parts on a device: what they answer is what the other engines answer, to the last bit."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from both_engines import assert_same_assignment
from difficult import points
from interpreted import needs_triton
from wolfmeans import KMeans
from wolfmeans.core.trimmed import kept_mass
from wolfmeans.core.workspace import Forced
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.trimmed_parts import TrimmedParts
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.engines.reference import ReferencePoints
from wolfmeans.exact.limbs import SCALAR, Grid
from wolfmeans.seeding.in_parts import parallel_seeds_in_parts

pytest.importorskip("wolfmeans.exact._native")
pytestmark = [needs_triton, pytest.mark.filterwarnings("ignore:Not converged")]

N = 60
FIELDS = ("moved", "gap", "weights", "means", "residuals")


def parted(X, weights, engines):
    ends = [0, 11, 12, len(X)]
    return PartsWorkspace(
        MemoryPlace(
            [
                MemoryPart(X[a:b], None if weights is None else weights[a:b], engine)
                for a, b, engine in zip(ends, ends[1:], engines, strict=False)
            ]
        )
    )


@pytest.mark.parametrize(
    ("kind", "dtype", "weighted"), [("blobs", "float32", False), ("lattice", "float64", True)]
)
def test_answers_are_the_same(kind, dtype, weighted):
    X = points(kind, 30, 2, dtype)
    weights = np.arange(30) % 3 / 2.0 if weighted else None
    here, there = (parted(X, weights, engines) for engines in (["cpu"] * 3, ["gpu", "cpu", "gpu"]))
    centers, forced = X[[0, 7, 20]], Forced(np.array([13]), np.array([1], dtype=np.int32))
    for step in (None, None, forced):
        found = assert_same_assignment(here, there, centers, step)
        assert there.cost(found.means) == here.cost(found.means)
        centers = found.means
    assert np.array_equal(there.mean(weighted=True), here.mean(weighted=True))
    assert there.scatter(weighted=False) == here.scatter(weighted=False)
    found = [parallel_seeds_in_parts(w, 4, np.random.RandomState(1)) for w in (there, here)]
    assert np.array_equal(*found)
    far = [workspace.far_rows(centers, 5, None) for workspace in (there, here)]
    assert all(np.array_equal(a, b) for a, b in zip(*far, strict=True))


def test_a_fit_of_dask_partitions():
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    X = points("blobs", 40, 3, "float32")
    settings = {"init": X[:3], "max_iter": 3, "bound": None}
    reference = KMeans(3, engine="cpu", **settings).fit(X)
    # Triton's interpreter is for one thread.
    settings["n_threads"] = 1
    with dask.config.set(scheduler="threads"):
        ours = KMeans(3, engine="gpu", **settings).fit(da.from_array(X, chunks=((15, 0, 25), 3)))
    assert ours.engine_ == "gpu"
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
    assert np.array_equal(ours.labels_.compute(), reference.labels_)
    assert np.array_equal(ours.trace_.gap, reference.trace_.gap)
    assert ours.inertia_ == reference.inertia_


# --- Sums that add up -------------------------------------------------------------------------


@pytest.fixture
def no_sums_on_the_host(monkeypatch):
    """Fail where rows are summed by the host."""

    def refuse(*_, **__):
        raise AssertionError("rows are summed on the host")

    monkeypatch.setattr("wolfmeans.engines.reference.Moments", refuse)
    monkeypatch.setattr("wolfmeans.engines.trimming.Moments", refuse)
    monkeypatch.setattr("wolfmeans.engines.reference.Limbs.of_terms", refuse)


def unlike(d, dtype):
    """Return rows whose parts have other exponents, and others of lattice points."""
    X = np.concatenate(
        [points("blobs", 20, d), points("plain", 20, d) * 2.0**-30, points("lattice", 20, d)]
    )
    return X.astype(dtype)


def weights_of(kind):
    """Return weights whose parts have other exponents; in the first one all are whole."""
    if kind is None:
        return None
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 4, N) * 1.0
    weights[20:45] = np.round(rng.uniform(size=25) * 2**20) * 2.0**-20
    if kind == "some none":
        weights[45:] = 0.0
    if kind == "far apart":
        weights[45:] = 2.0 ** rng.integers(-140, 0, N - 45)
    return weights


def cut(X, weights, engine, ends=(20, 20, 45)):
    borders = [0, *ends, len(X)]
    return MemoryPlace(
        [
            MemoryPart(X[a:b], None if weights is None else weights[a:b], engine)
            for a, b in pairwise(borders)
        ]
    )


@pytest.mark.parametrize("whole", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("d", "dtype", "kind"),
    [
        (2, "float32", None),
        (2, "float64", None),
        (20, "float32", None),
        (20, "float64", None),
        (2, "float32", "whole and fine"),
        (20, "float64", "whole and fine"),
        (2, "float64", "some none"),
    ],
)
def test_parts_are_the_whole(d, dtype, kind, whole, no_sums_on_the_host, monkeypatch):
    X, weights = unlike(d, dtype), weights_of(kind)
    there = PartsWorkspace(cut(X, weights, "gpu"))
    assert all(part._points.engine == "gpu" for part in there.place.parts)
    centers = X[[0, 7, 25, 41, 58]].copy()
    steps = []
    for _ in range(3):
        found = there.assign(centers)
        steps.append((centers, found, there.labels(), there.cost(found.means)))
        centers = found.means
    monkeypatch.undo()
    here = get_engine(whole).open(X, weights, 1)
    for centers, found, labels, cost in steps:
        expected = here.assign(centers)
        for field in FIELDS:
            assert np.array_equal(getattr(found, field), getattr(expected, field)), field
        assert np.array_equal(labels, here.labels())
        assert cost == here.cost(expected.means)


@pytest.mark.parametrize("kind", [None, "whole and fine"])
@pytest.mark.parametrize("d", [2, 20])
def test_forced_rows(d, kind):
    X, weights = unlike(d, "float32"), weights_of(kind)
    here = get_engine("cpu").open(X, weights, 1)
    there = PartsWorkspace(cut(X, weights, "gpu"))
    centers = X[[0, 7, 25, 41, 58]].copy()
    rows = np.array([1, 19, 44, 45])
    forced = Forced(rows, np.array([4, 2, 0, 1], dtype=np.int32))
    for step in (forced, None, forced, forced, None):
        centers = assert_same_assignment(here, there, centers, step).means


@pytest.mark.parametrize("engine", ["resident", "streamed"])
@pytest.mark.parametrize("kind", [None, "whole and fine"])
@pytest.mark.parametrize(("d", "dtype"), [(2, "float32"), (20, "float64")])
def test_limbs_are_those_of_the_cpu(d, dtype, kind, engine, monkeypatch):
    from test_gpu_streamed import limit

    if engine == "streamed":
        limit(monkeypatch, rows=16)
    X, weights = unlike(d, dtype), weights_of(kind)
    here, there = (get_engine(name).open(X, weights, 1) for name in ("cpu", "gpu"))
    assert type(there).__name__ == {"resident": "GpuPoints", "streamed": "StreamedPoints"}[engine]
    grids = here.ranges()
    assert there.ranges() == grids
    here, there = here.summing_on(grids), there.fork(1).summing_on(grids)
    # Forced labels may be farther away, a negative gain; not so those that are adopted.
    forced = Forced(np.array([3, 17]), np.array([0, 1], dtype=np.int32))
    centers = X[[0, 7, 25, 41]].copy()
    for step in (None, None, forced, None):
        expected, found = (one.assign_exactly(centers, step) for one in (here, there))
        assert expected.moved == found.moved
        for field in ("gap", "totals", "sums"):
            ours, theirs = getattr(found, field), getattr(expected, field)
            assert ours.grid == theirs.grid
            assert np.array_equal(ours.values, theirs.values), field
        cost = there.exact_cost(centers)
        assert np.array_equal(cost.values, here.exact_cost(centers).values)
        masses = None if weights is None else weights / 2
        at_labels = [one.exact_cost_at(centers, here.labels(), masses) for one in (here, there)]
        assert np.array_equal(at_labels[0].values, at_labels[1].values)
        centers = expected.rounded(centers).means
    other = get_engine("gpu").open(X, weights, 1).summing_on(grids)
    other.adopt(here.labels(), centers)
    assert np.array_equal(other.labels(), here.labels())
    centers = centers[::-1].copy()
    expected, found = (one.assign_exactly(centers) for one in (here, other))
    assert expected.gap.integer() == found.gap.integer()
    assert np.array_equal(expected.sums.values, found.sums.values)
    assert here.near_ties(centers, 0.0)[0].tolist() <= other.near_ties(centers, 0.0)[0].tolist()
    terms = np.abs(X[:, 0].astype(np.float64))
    for values in (terms, -terms, terms[:0], np.zeros(3), np.array([5e-324, 1e300])):
        assert there.exact_total(values).integer() == here.exact_total(values).integer()


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1, 20), Fraction(0)])
@pytest.mark.parametrize(
    ("d", "dtype", "kind"),
    [
        (2, "float32", None),
        (20, "float64", None),
        (2, "float64", "whole and fine"),
        (20, "float32", "whole and fine"),
        (2, "float64", "some none"),
        (2, "float32", "far apart"),
    ],
)
def test_trimmed_parts_are_the_whole(d, dtype, kind, share, monkeypatch):
    X, weights = unlike(d, dtype), weights_of(kind)
    mass = kept_mass(share, weights, N)
    here = get_engine("cpu").open(X, weights, 1).trimmed(mass)
    there = TrimmedParts(PartsWorkspace(cut(X, weights, "gpu")), mass)
    centers = X[[0, 7, 25, 41, 58]].copy()
    if kind != "far apart":  # too far for the device's digits
        monkeypatch.setattr("wolfmeans.engines.trimming.Moments", None)
    for _ in range(3):
        found = assert_same_assignment(here, there, centers)
        assert there.threshold == here.threshold
        assert np.array_equal(np.asarray(there.kept()), here.kept())
        assert there.trimmed_mass() == here.trimmed_mass()
        centers = found.means


def test_labels_stay_while_other_nearest_centers_are_found():
    X = unlike(2, "float32")
    points_of_all = get_engine("gpu").open(X, None, 1)
    trimmed = points_of_all.trimmed(math.inf).summing_on(points_of_all.ranges())
    trimmer, centers = trimmed.part_trimmer, X[[0, 25, 58]].copy()
    whole = get_engine("cpu").open(X, None, 1).trimmed(40.0)
    whole.assign(centers)
    for _ in range(2):
        trimmer.find_nearest(centers)
        partial = trimmer.keep(centers, whole.threshold)
    assert partial.moved == 0
    assert partial.gap.integer() == 0
    cost = trimmed.exact_cost(centers)
    trimmer.find_nearest(X[[3, 9, 30]].copy())
    assert np.array_equal(trimmed.labels(), whole.labels())
    assert np.array_equal(trimmer.nearest_labels(), whole.trimmer.nearest_labels())
    assert trimmed.exact_cost(centers).integer() == cost.integer()
    assert cost.rounded() == whole.cost(centers)


def test_parts_for_whose_lists_there_is_no_room(monkeypatch):
    from wolfmeans.engines.gpu import points as module

    X, weights = unlike(2, "float32"), weights_of("whole and fine")
    for trimmed in (False, True):
        there = PartsWorkspace(cut(X, weights, "gpu"))
        here = get_engine("cpu").open(X, weights, 1)
        if trimmed:
            mass = kept_mass(Fraction(1, 4), weights, N)
            here, there = here.trimmed(mass), TrimmedParts(there, mass)
        centers = X[[0, 25, 58]].copy()
        with monkeypatch.context() as patch:
            patch.setattr(module, "available", lambda _: 0.0)
            assert_same_assignment(here, there, centers)
        parts = (there.points if trimmed else there).place.parts
        kinds = {
            type(getattr(part._labelled, "points", part._labelled))
            for part in parts
            if len(part._X)
        }
        assert kinds == {ReferencePoints}


def test_labels_in_a_buffer():
    X = unlike(20, "float32")
    here, there = (MemoryPart(X, None, engine) for engine in ("cpu", "gpu"))
    workspaces = [PartsWorkspace(MemoryPlace([part])) for part in (here, there)]
    centers = X[[0, 25, 58]].copy()
    means = assert_same_assignment(*workspaces, centers).means
    there.detach_rows("labels", np.empty(N, dtype=np.int32))
    there.attach_rows(X)
    assert_same_assignment(*workspaces, means)


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5),
    st.integers(-60, 60),
    st.integers(8, 46),
    st.integers(0, 40),
)
def test_integers_move_to_any_grid(digits, low, bits, below):
    from wolfmeans.engines.gpu.grid_sums import on_grid

    value = sum(digit << 32 * i for i, digit in enumerate(digits))
    span = max(1, value.bit_length() + below)
    grid = Grid(low - below, bits, -(-span // bits))
    array = np.array(digits, dtype=np.int64).reshape(-1, 1, 1)
    found = on_grid(grid, array, low)
    assert found.integer() == value << below
    inside = found.values[0, :-1, 0]
    assert ((-(1 << (bits - 1)) <= inside) & (inside < 1 << (bits - 1))).all()
    # A grid that begins above the lowest bit is wrong; one that begins at it is not.
    zeros = (value & -value).bit_length() - 1 if value else 0
    assert on_grid(Grid(low + zeros, bits, grid.limbs), array, low).integer() == value >> zeros
    if value:
        with pytest.raises(ValueError, match="bits below"):
            on_grid(Grid(low + zeros + 1, bits, grid.limbs), array, low)


def test_a_sum_without_room_is_made_on_the_host():
    X = np.array([[0.0], [2.0**-300], [2.0**200], [1.0], [3.0]])
    here, there = (get_engine(name).open(X, None, 1) for name in ("cpu", "gpu"))
    grids = here.ranges()
    here, there = here.summing_on(grids), there.summing_on(grids)
    for centers in (X[[0, 2]], X[[1, 2]], X[[3, 2]], X[[1, 4]]):
        expected, found = (one.assign_exactly(centers.copy()) for one in (here, there))
        assert found.gap.grid == SCALAR
        assert expected.gap.integer() == found.gap.integer()
        assert np.array_equal(expected.sums.values, found.sums.values)
        costs = [one.exact_cost(centers.copy()).integer() for one in (here, there)]
        assert costs[0] == costs[1]
