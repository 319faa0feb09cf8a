"""The semidefinite bound of trimmed and capped problems: never above the optimum, and proven."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from wolfmeans import TrimmedKMeans, check_proof, lower_bound
from wolfmeans.bounds.proof_format import Proof
from wolfmeans.bounds.semidefinite.trimmed import TrimmedRelaxation, proven
from wolfmeans.bounds.trimmed_proof import check_trimmed

N = 7
IRIS = load_iris().data


def partitions(n, n_clusters):
    """Return all partitions of n points into at most so many clusters, as rows of labels."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*p, k] for p in found for k in range(min(max(p) + 2, n_clusters))]
    return np.array(found)


ALL = {k: partitions(N, k) for k in (1, 2, 3)}
SUBSETS = [np.array(s, dtype=int) for m in range(N) for s in combinations(range(N), m)]


def least(X, kept, n_clusters):
    """Return the smallest SSE of all partitions for each row of kept weights, and its labels."""
    labels = ALL[n_clusters]
    centered = X - X.mean(axis=0)
    squares = (centered**2).sum(axis=1)
    best = np.full(len(kept), np.inf)
    which = np.zeros(len(kept), dtype=int)
    for number, row in enumerate(labels):
        sse = kept @ squares
        for k in range(n_clusters):
            masses = kept * (row == k)
            total = masses.sum(axis=1)
            sse -= ((masses @ centered) ** 2).sum(axis=1) / np.where(total > 0, total, 1.0)
        better = sse < best
        best[better], which[better] = sse[better], number
    return best, labels[which]


def vertices(weights, left_out):
    """Return all ways to leave out a weight such that at most one point is kept in part."""
    found = []
    for out in SUBSETS:
        rest = left_out - weights[out].sum()
        if rest < 0:
            continue
        for part in set(range(N)) - set(out.tolist()) if rest > 0 else [None]:
            kept = weights.copy()
            kept[out] = 0.0
            if part is not None:
                if rest >= weights[part]:
                    continue
                kept[part] -= rest
            found.append(kept)
    return np.array(found)


def problem(seed):
    """Return a small problem: offsets, scales, equal points, outliers, weights far apart."""
    rng = np.random.default_rng(seed)
    d, n_clusters = int(rng.integers(1, 31)), int(rng.integers(1, 4))
    X = rng.normal(size=(N, d))
    if seed % 4 == 1:
        X = np.rint(X)
    if seed % 4 == 2:
        X[:2] *= 10.0 ** rng.integers(1, 4)
    if seed % 4 == 3:
        X[5:] = X[rng.integers(0, 3, size=2)]
    X = X * 10.0 ** rng.integers(-5, 6) + (seed % 3 == 0) * 10.0 ** rng.integers(-3, 4)
    weights = None if seed % 2 else rng.choice([0.1, 1.0, 2.0, 30.0], size=N)
    return X, weights, n_clusters, rng


def solved(X, n_clusters, weights, labels, kept, steps=24, **form):
    """Return the value and the proof after some steps from a clustering."""
    centers = np.array(
        [
            np.average(X, axis=0, weights=kept * (labels == k))
            if (kept * (labels == k)).sum() > 0
            else X[0]
            for k in range(n_clusters)
        ]
    )
    distances = ((X - centers[labels]) ** 2).sum(axis=1)
    relaxation = TrimmedRelaxation(X, n_clusters, weights, labels, distances, **form)
    for step in range(steps):
        relaxation.step()
        if step % 8 == 7:
            relaxation.separate()
    return proven(relaxation, relaxation.multipliers)


def rounding(X, given):
    return 1e-12 * float(given @ (X**2).sum(axis=1))


@pytest.mark.parametrize("block", range(10))
def test_a_proven_value_is_never_above_the_trimmed_optimum(block):
    tight, count = 0, 0
    for seed in range(50 * block, 50 * block + 50):
        X, weights, n_clusters, rng = problem(seed)
        given = np.ones(N) if weights is None else weights
        whole = weights is None and seed % 8 != 1
        left_out = float(rng.integers(1, 4)) if whole else float(0.4 * rng.random() * given.sum())
        kept = vertices(given, left_out)
        costs, labels = least(X, kept, n_clusters)
        best = int(np.argmin(costs))
        if not costs[best] > rounding(X, given):
            continue
        value, _ = solved(X, n_clusters, weights, labels[best], kept[best], left_out=left_out)
        assert value <= costs[best] + rounding(X, given), seed
        tight, count = tight + (value > 0.9 * costs[best]), count + 1
    assert count >= 25
    assert tight > 5


@pytest.mark.parametrize("block", range(6))
def test_a_proven_value_is_never_above_the_capped_optimum(block):
    tight, count = 0, 0
    for seed in range(50 * block, 50 * block + 50):
        X, weights, n_clusters, rng = problem(seed)
        given = np.ones(N) if weights is None else weights
        kept = np.array([np.isin(np.arange(N), out, invert=True) * given for out in SUBSETS])
        sse, labels = least(X, kept, n_clusters)
        cap = float(rng.choice([0.3, 0.8, 2.0]) * X.var(axis=0).sum())
        costs = sse + cap * (given.sum() - kept.sum(axis=1))
        best = int(np.argmin(costs))
        if not sse[best] > rounding(X, given):
            continue
        value, _ = solved(X, n_clusters, weights, labels[best], kept[best], cap=cap)
        assert value <= costs[best] + rounding(X, given), seed
        tight, count = tight + (value > 0.9 * costs[best]), count + 1
    assert count >= 25
    assert tight > 5


@pytest.mark.long
def test_many_proven_values_are_never_above_the_optimum():
    for block in range(10, 22):
        test_a_proven_value_is_never_above_the_trimmed_optimum(block)
        test_a_proven_value_is_never_above_the_capped_optimum(block)


@pytest.fixture(scope="module")
def proof():
    model = TrimmedKMeans(3, alpha=0.05, n_init=10, random_state=0, bound=None).fit(IRIS)
    bound = lower_bound(
        IRIS, 3, trim=7, method="semidefinite", centers=model.cluster_centers_, seconds=20
    )
    return model.inertia_, bound


def test_iris_is_proven_to_a_tenth_of_a_percent(proof):
    inertia, bound = proof
    assert bound.kind == "semidefinite"
    assert bound.confidence == 1.0
    assert 0.999 * inertia <= bound.value <= inertia * (1 + 1e-12)
    assert check_proof(IRIS, bound.proof, trim=7) == bound.value


def test_a_proof_of_a_trimmed_problem_can_be_handed_over(proof, tmp_path):
    bound = proof[1]
    bound.proof.save(tmp_path / "proof.npz")
    found = Proof.load(tmp_path / "proof.npz")
    assert check_proof(IRIS, found, trim=7) == bound.value
    assert np.array_equal(found.box, bound.proof.box)


def test_more_trimming_proves_less(proof):
    bound = proof[1]
    values = [check_proof(IRIS, bound.proof, trim=trim) for trim in (None, 0, 3, 7, 7.5, 12, 60)]
    assert values[0] == values[1]
    assert all(a > b for a, b in pairwise(values[1:]))
    assert values[-1] == 0.0


def test_prices_of_left_out_points_count_no_more_than_the_cap(proof):
    """Raising the largest prices raises no bound: they are what is left out."""
    bound = proof[1]
    raised = bound.proof.prices.copy()
    order = np.argsort(raised)
    raised[order[-7:]] *= 1.5
    found = replace(bound.proof, prices=raised)
    assert check_trimmed(IRIS, None, found, left_out=7.0) <= bound.value


@pytest.mark.parametrize("name", ["prices", "level", "slack", "box"])
def test_tampering_proves_nothing(proof, name):
    given = proof[1].proof
    changed = {
        "prices": given.prices * 1.001,
        "level": given.level * 0.99,
        "slack": given.slack + np.float32(0.01),
        "box": np.array([IRIS.min(axis=0), np.median(IRIS, axis=0)]),
    }
    assert check_proof(IRIS, replace(given, **{name: changed[name]}), trim=7) == 0.0


def test_a_box_for_other_columns_is_refused(proof):
    given = proof[1].proof
    with pytest.raises(ValueError, match="box"):
        check_proof(IRIS, replace(given, box=given.box[:, :2].copy()), trim=7)
    with pytest.raises(ValueError, match="box"):
        check_proof(IRIS, replace(given, box=given.box.astype(np.float32)), trim=7)


def test_far_outliers_do_not_spoil_the_proof():
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    far = np.vstack([X, 1e6 * np.random.default_rng(0).normal(size=(9, X.shape[1]))])
    model = TrimmedKMeans(3, alpha=9.5 / len(far), n_init=10, random_state=0, bound=None).fit(far)
    bound = lower_bound(
        far, 3, trim=9, method="semidefinite", centers=model.cluster_centers_, seconds=3
    )
    assert 0.99 * model.inertia_ <= bound.value <= model.inertia_ * (1 + 1e-9)
    assert check_proof(far, bound.proof, trim=9) == bound.value


def test_certify_proves_a_trimmed_fit():
    model = TrimmedKMeans(3, alpha=0.05, n_init=10, random_state=0, bound=None).fit(IRIS)
    certificate = model.certify(IRIS, method="semidefinite", seconds=5)
    assert certificate.ratio < 1.01
    assert certificate.lower_bound_kind == "semidefinite"


@pytest.mark.parametrize(("n_clusters", "trim"), [(6, 0.5), (5, 1.0), (2, 3.0), (1, 2.0)])
def test_trivial_problems(n_clusters, trim):
    X = np.array([[0.0], [0.0], [1.0], [7.0], [7.0], [7.0]])
    bound = lower_bound(X, n_clusters, trim=trim, method="semidefinite", seconds=0.5)
    best = {1: 36.0 + 0.0, 2: 0.0, 5: 0.0, 6: 0.0}[n_clusters]
    assert bound.value <= best


@pytest.mark.parametrize("exponent", [-200, 200])
def test_weights_that_a_proof_cannot_hold_prove_nothing(exponent):
    weights = np.full(len(IRIS), 2.0**exponent)
    trim = 7 * 2.0**exponent
    bound = lower_bound(
        IRIS, 3, sample_weight=weights, trim=trim, method="semidefinite", seconds=1.0
    )
    assert (bound.value, bound.proof) == (0.0, None)


def test_a_proof_of_some_clusterings_is_refused(proof):
    """Pairs apart and groups restrict a proof to some clusterings."""
    given = proof[1].proof
    apart = np.array([[0, 1]], np.int32)
    groups = np.arange(len(IRIS), dtype=np.int32)
    for restricted in (replace(given, apart=apart), replace(given, groups=groups)):
        with pytest.raises(ValueError, match="leave points out"):
            check_proof(IRIS, restricted, trim=7)
    with pytest.raises(ValueError, match="cover"):
        check_proof(IRIS, replace(given, apart=apart))
