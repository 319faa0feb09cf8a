"""Lower bounds of data in parts: never above the optimum, within the memory, for the data alone."""

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from everywhere import DASK, streaming
from tiny_optimum import optimum, penalized_optimum
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.bounds.partwise import PartTask, bound_of_all, bound_of_part, part_task

needs_dask = pytest.mark.skipif(not DASK, reason="needs Dask")


@st.composite
def tiny_problems(draw):
    n, d = draw(st.integers(2, 8)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(-4, 4), min_size=d, max_size=d)
    points = draw(st.lists(rows, min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    parts = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return points, weights, np.array(parts), draw(st.integers(1, 3)), draw(st.integers(1, 4))


@settings(max_examples=60)
@given(tiny_problems(), st.sampled_from([None, 1.0, 3.0]))
def test_the_sum_over_parts_is_never_above_the_optimum(problem, cap):
    points, weights, parts, k, rows_at_once = problem
    X, w = np.array(points, dtype=float), np.array(weights, dtype=float)
    task = PartTask(k, rows_at_once, ("spectral", "neighbours"), cap)
    found = [bound_of_part(X[parts == t], w[parts == t], task) for t in np.unique(parts)]
    if cap is None:
        best = optimum(points, weights, k)
    else:
        best = penalized_optimum(points, weights, k, int(cap))
    assert Fraction(bound_of_all(found, None, 0.0)) <= best


@settings(max_examples=40, deadline=None)
@given(tiny_problems())
def test_semidefinite_bounds_of_parts_are_never_above_the_optimum(problem):
    points, weights, parts, k, rows_at_once = problem
    X, w = np.array(points, dtype=float), np.array(weights, dtype=float)
    task = PartTask(k, rows_at_once, ("semidefinite",), centers=X[:k], seconds_per_row=1.0)
    if len(X) < k:
        return
    found = [bound_of_part(X[parts == t], w[parts == t], task) for t in np.unique(parts)]
    assert Fraction(bound_of_all(found, None, 0.0)) <= optimum(points, weights, k)


def semidefinite_task(X, **changes):
    centers = KMeans(5, random_state=0, bound=None).fit(X).cluster_centers_
    task = part_task(len(X), 12, 5, method="auto", cap=None, centers=centers, seconds=600.0)
    return replace(task, most_steps=60, **changes)


def test_the_semidefinite_method_adds_to_the_others():
    X = points(1000)
    task = semidefinite_task(X)
    assert task.methods[-1] == "semidefinite"
    both = bound_of_part(X, None, task)
    others = bound_of_part(X, None, replace(task, methods=task.methods[:-1]))
    alone = bound_of_part(X, None, replace(task, methods=("semidefinite",)))
    assert both == alone
    assert both.kinds == {"semidefinite"}
    assert others.value < both.value
    without = part_task(len(X), 12, 5, method="auto", cap=None, centers=None)
    assert without.methods == task.methods[:-1]


def test_the_semidefinite_method_is_left_out_where_memory_is_short():
    X = points(1000)
    bound = bound_of_part(X, None, semidefinite_task(X, bytes_per_row=256))
    assert bound.kinds == {"neighbours"}


def test_the_semidefinite_method_is_left_out_where_nothing_is_to_gain():
    X, _ = make_blobs(500, n_features=12, centers=5, cluster_std=0.1, random_state=1)
    bound = bound_of_part(X, None, semidefinite_task(X))
    assert "semidefinite" not in bound.kinds


@pytest.mark.parametrize("exponent", [-400, 300])
def test_semidefinite_bounds_hold_at_any_scale(exponent):
    X = points(600)
    task = semidefinite_task(X, methods=("semidefinite",))
    scaled = replace(task, centers=np.ldexp(task.centers, exponent))
    found = bound_of_part(np.ldexp(X, exponent), None, scaled).value
    assert found == math.ldexp(bound_of_part(X, None, task).value, 2 * exponent) > 0


def test_what_is_left_out_is_paid_for():
    X = np.repeat([[0.0], [1.0], [9.0], [10.0]], 5, axis=0)
    task = PartTask(2, 20, ("neighbours",), cap=0.5)
    part = bound_of_part(X, None, task)
    assert part.value > 1.0
    assert bound_of_all([part, part], 0.5, 2.0) == pytest.approx(2 * part.value - 1.0)
    assert bound_of_all([part, part], 0.5, 2.0) <= 2 * part.value - 1.0


def points(n=3000, sort=False):
    X, groups = make_blobs(n, n_features=12, centers=5, cluster_std=4.0, random_state=1)
    return X[np.argsort(groups, kind="stable")] if sort else X


def trimmed_or_not(kind, X):
    model = KMeans if kind == "all" else TrimmedKMeans
    return model(
        5, init=X[::600], n_init=1, n_threads=1, **({"alpha": 0.1} if kind != "all" else {})
    )


def in_parts(place, model, X, rows=700, weights=None, **options):
    """Fit and certify in parts; return the certificate."""
    options = {"seconds": 5.0, **options}
    if place == "blocks":
        import dask.array as da

        X = da.from_array(X, chunks=(rows, -1))
        weights = None if weights is None else da.from_array(weights, chunks=rows)
        model.fit(X, sample_weight=weights)
        return model.certify(X, sample_weight=weights, random_state=0, **options)
    model.set_params(memory_limit="1GB")
    with streaming(rows):
        pieces = [X[:1000], X[1000:]]
        model.fit(pieces, sample_weight=weights)
        return model.certify(pieces, sample_weight=weights, random_state=0, **options)


places = pytest.mark.parametrize("place", [pytest.param("blocks", marks=needs_dask), "stream"])


@places
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["all", "trimmed"])
def test_data_in_parts_is_certified_as_in_memory(place, kind, weighted):
    X = points()
    weights = np.random.default_rng(0).integers(0, 4, size=len(X)).astype(float)
    weights = weights if weighted else None
    model = trimmed_or_not(kind, X)
    certificate = in_parts(place, model, X, weights=weights)
    assert certificate is model.certificate_
    assert certificate.lower_bound_confidence == 1.0
    assert certificate.lower_bound_kind.startswith("partwise")
    assert certificate.lower_bound == certificate.proven_bound <= model.inertia_
    whole = trimmed_or_not(kind, X).fit(X, sample_weight=weights)
    assert whole.inertia_ == model.inertia_
    known = whole.certify(X, sample_weight=weights, method="neighbours").ratio
    assert certificate.ratio < 1.15 * known
    # Nothing says any more that no bound is there.
    assert "no lower bound" not in str(certificate)


@places
@pytest.mark.parametrize("weighted", [False, True])
def test_semidefinite_bounds_of_data_in_parts(place, weighted):
    X = points()
    weights = np.random.default_rng(0).integers(0, 4, size=len(X)).astype(float)
    weights = weights if weighted else None
    model = trimmed_or_not("all", X)
    certificate = in_parts(place, model, X, weights=weights, method="semidefinite", rows=1500)
    assert certificate.lower_bound_kind == "partwise semidefinite"
    assert certificate.lower_bound_confidence == 1.0
    assert 1.0 <= certificate.ratio < 1.15


@places
def test_sorted_rows_are_sampled_as_well(place):
    X = points(sort=True)
    model = trimmed_or_not("all", X)
    # There is no time for semidefinite bounds, which are better than the sample.
    certificate = in_parts(place, model, X, seconds=1e-3)
    assert certificate.lower_bound_kind == "subsampled"
    assert certificate.lower_bound_confidence == 0.95
    assert 0 < certificate.proven_bound < certificate.lower_bound <= model.inertia_


@places
def test_rows_without_weight_are_not_sampled(place):
    # Two rows without weight and far away come first; no sample may take them for others.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 5))
    X[:2] = [[-500.0], [500.0]]
    weights = 2.0 * (rng.random(len(X)) < 0.5)
    weights[:2] = 0.0
    model = KMeans(1, init=X[2:3], n_threads=1)
    certificate = in_parts(place, model, X, weights=weights, method="subsampled")
    assert certificate.lower_bound_confidence == 0.95
    assert 0.8 * model.inertia_ < certificate.lower_bound <= model.inertia_


@places
def test_another_number_of_clusters_is_refused(place):
    X = points()
    model = trimmed_or_not("all", X)
    certificate = in_parts(place, model, X, method="spectral")
    model.set_params(n_clusters=4)
    given = [X[:1000], X[1000:]]
    if place == "blocks":
        import dask.array as da

        given = da.from_array(X, chunks=(700, -1))
    for data in (given, X):
        with pytest.raises(ValueError, match="n_clusters=4, but the model was fitted with 5"):
            model.certify(data)
    assert model.certificate_ is certificate


def test_a_file_that_fits_into_the_limit_is_bounded_in_memory(tmp_path):
    X, path = points(), tmp_path / "x.npy"
    np.save(path, X)
    model = trimmed_or_not("all", X).fit(X)
    bound = model.certify(X, method="neighbours").lower_bound
    within = model.set_params(memory_limit="1GB")
    assert within.certify(path, method="neighbours").lower_bound == bound
    assert not model.certificate_.lower_bound_kind.startswith("partwise ")


@places
def test_other_data_is_refused_and_changes_nothing(place):
    X = points()
    model = trimmed_or_not("all", X)
    certificate = in_parts(place, model, X, method="spectral")
    other = X[::2]
    if place == "blocks":
        import dask.array as da

        other = da.from_array(other, chunks=(700, -1))
    with pytest.raises(ValueError, match="is not the data of the fit"), streaming(700):
        model.certify([other[:500], other[500:]] if place == "stream" else other)
    assert model.certificate_ is certificate


@places
@pytest.mark.parametrize("exponent", [-300, 300])
def test_the_scale_of_the_data_changes_no_ratio(place, exponent):
    X = points()
    model, scaled = trimmed_or_not("all", X), trimmed_or_not("all", np.ldexp(X, exponent))
    options = {"method": "neighbours"}
    ratio = in_parts(place, model, X, **options).ratio
    found = in_parts(place, scaled, np.ldexp(X, exponent), **options).ratio
    assert found == pytest.approx(ratio, rel=1e-9)


@places
def test_what_has_no_form_in_parts_is_said(place):
    X = points()
    with pytest.raises(ValueError, match="only"):
        in_parts(place, trimmed_or_not("all", X), X, method="exact")
    with pytest.raises(ValueError, match="no form for trimmed data in parts"):
        in_parts(place, trimmed_or_not("trimmed", X), X, method="prices")
    with pytest.raises(ValueError, match="method must be one of"):
        in_parts(place, trimmed_or_not("all", X), X, method="nonsense")
    with pytest.raises(ValueError, match="confidence"):
        in_parts(place, trimmed_or_not("all", X), X, confidence=2)


def test_strides_become_shorter_as_data_grows():
    rows = [
        part_task(n, 20, 8, method="auto", cap=None, centers=None).rows_at_once
        for n in (100, 10**5, 10**8, 10**10)
    ]
    assert rows[0] == 100
    assert rows[1] > rows[2] >= rows[3] >= 32


PEAK = """
import sys, threading, time
import numpy as np
from pathlib import Path
from wolfmeans import {kind}
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
def fitted(path, limit):
    return {kind}(8, init=np.load(path, mmap_mode="r")[:8], n_init=1, max_iter=3,
                  memory_limit=limit).fit(path)
import warnings; warnings.simplefilter("ignore")
fitted(sys.argv[1], "60MB").certify(sys.argv[1], seconds=2)
model = fitted(sys.argv[2], {limit})
before, peak, done = resident(), [0], threading.Event()
def watch():
    while not done.is_set():
        peak[0] = max(peak[0], resident())
        time.sleep(0.001)
watching = threading.Thread(target=watch, daemon=True)
watching.start()
certificate = model.certify(sys.argv[2], random_state=0, method="{method}", seconds=20)
done.set()
watching.join()
print(peak[0] - before, certificate.ratio)
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "method"),
    [("KMeans", "auto"), ("TrimmedKMeans", "auto"), ("KMeans", "semidefinite")],
)
def test_certifying_a_file_keeps_the_memory_limit(tmp_path, kind, method):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "small.npy", rng.normal(size=(2000, 40)))
    np.save(tmp_path / "large.npy", rng.normal(size=(80_000, 40)))  # 26 MB
    limit = 22_000_000
    code = PEAK.format(kind=kind, limit=limit, method=method)
    paths = [str(tmp_path / name) for name in ("small.npy", "large.npy")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    taken, ratio = map(float, done.stdout.split())
    assert 0 < taken < limit
    assert 1.0 < ratio < 3.0
