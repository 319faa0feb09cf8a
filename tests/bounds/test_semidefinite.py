"""The semidefinite bound and its proofs: never above the optimum, and no tampering passes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from wolfmeans import KMeans, check_proof, lower_bound
from wolfmeans.bounds.proof import Proof, check, is_semidefinite
from wolfmeans.bounds.semidefinite.relaxation import Relaxation
from wolfmeans.bounds.semidefinite.search import proven

IRIS = load_iris().data
IRIS_OPTIMUM = {2: 152.347952, 3: 78.851441, 4: 57.228473}
"""Proven optima of the literature (Aloise, Hansen and Liberti 2012), to six digits."""


def partitions(n, n_clusters):
    """Return all partitions of n points into at most so many clusters, as rows of labels."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*p, k] for p in found for k in range(min(max(p) + 2, n_clusters))]
    return np.array(found)


ALL = {k: partitions(8, k) for k in (2, 3, 4)}


def optimum(X, weights, n_clusters):
    """Return the smallest SSE of all partitions, and its labels."""
    labels = ALL[n_clusters]
    centered = X - X.mean(axis=0)
    squares = (centered**2).sum(axis=1)
    sse = np.zeros(len(labels))
    for k in range(n_clusters):
        masses = (labels == k) * weights
        total = masses.sum(axis=1)
        sums = (masses @ centered) ** 2
        sse += masses @ squares - sums.sum(axis=1) / np.where(total > 0, total, 1.0)
    best = int(np.argmin(sse))
    return float(sse[best]), labels[best].astype(np.int32)


def problem(seed):
    """Return a small problem: offsets, scales, equal points, weights far apart."""
    rng = np.random.default_rng(seed)
    d, n_clusters = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    X = rng.normal(size=(8, d))
    if seed % 4 == 1:
        X = np.rint(X)
    X = X * 10.0 ** rng.integers(-5, 6) + (seed % 3 == 0) * 10.0 ** rng.integers(-3, 4)
    weights = None if seed % 2 else rng.choice([0.1, 1.0, 2.0, 30.0], size=8)
    return X, weights, n_clusters


@pytest.mark.parametrize("seed", range(40))
def test_a_proven_value_is_never_above_the_optimum(seed):
    X, weights, n_clusters = problem(seed)
    best, labels = optimum(X, np.ones(8) if weights is None else weights, n_clusters)
    relaxation = Relaxation(X, n_clusters, weights, labels)
    for step in range(60):
        relaxation.step()
        if step in (20, 40):
            relaxation.separate()
    value, _ = proven(relaxation, X, weights)
    rounding = 1e-12 * float((np.ones(8) if weights is None else weights) @ (X**2).sum(axis=1))
    assert value <= best + rounding


@pytest.mark.long
def test_many_proven_values_are_never_above_the_optimum():
    for seed in range(40, 440):
        test_a_proven_value_is_never_above_the_optimum(seed)


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_iris_is_proven_optimal(n_clusters):
    km = KMeans(n_clusters, n_init=10, random_state=0, bound=None).fit(IRIS)
    bound = lower_bound(
        IRIS, n_clusters, method="semidefinite", centers=km.cluster_centers_, seconds=60
    )
    assert bound.kind == "semidefinite"
    assert bound.confidence == 1.0
    assert bound.value <= IRIS_OPTIMUM[n_clusters] * (1 + 1e-7)
    assert bound.value >= km.inertia_ * (1 - 1e-6)
    assert check_proof(IRIS, bound.proof) == bound.value


@pytest.fixture(scope="module")
def proof():
    labels = KMeans(3, n_init=10, random_state=0, bound=None).fit(IRIS).labels_
    relaxation = Relaxation(IRIS, 3, None, labels)
    for step in range(120):
        relaxation.step()
        if step % 40 == 39:
            relaxation.separate()
    return proven(relaxation, IRIS, None)


def test_the_unit_of_the_weights_costs_no_digits():
    """Slack is stored in these units."""
    labels = KMeans(2, n_init=10, random_state=0, bound=None).fit(IRIS).labels_
    weights = np.full(150, 0.7)
    relaxation = Relaxation(IRIS, 2, weights, labels)
    for step in range(1, 201):
        relaxation.step()
        if step % 40 == 0:
            relaxation.separate()
    value, _ = proven(relaxation, IRIS, weights)
    assert value == pytest.approx(relaxation.estimate(), rel=1e-9)


def test_a_proof_can_be_handed_over(proof, tmp_path):
    value, found = proof
    found.save(tmp_path / "proof.npz")
    assert check_proof(IRIS, Proof.load(tmp_path / "proof.npz")) == value > 70.0


def test_a_proof_is_for_its_points_only(proof):
    _, found = proof
    assert check_proof(IRIS[::-1], found) == 0.0
    assert check_proof(0.9 * IRIS, found) == 0.0
    with pytest.raises(ValueError, match="not for these points"):
        check_proof(IRIS[:-1], found)


def test_larger_prices_prove_nothing(proof):
    _, found = proof
    assert check(IRIS, None, replace(found, prices=found.prices + 1e-3)) == 0.0


def test_a_lower_level_proves_nothing(proof):
    _, found = proof
    assert check(IRIS, None, replace(found, level=0.9 * found.level)) == 0.0


def test_lower_heights_prove_nothing(proof):
    _, found = proof
    assert check(IRIS, None, replace(found, heights=0.9 * found.heights)) == 0.0


def test_more_clusters_prove_less(proof):
    value, found = proof
    assert check(IRIS, None, replace(found, n_clusters=4)) < value


def test_more_slack_proves_nothing(proof):
    _, found = proof
    slack = found.slack.copy()
    slack[100, 3] += 1.0
    assert check(IRIS, None, replace(found, slack=slack)) == 0.0


@pytest.mark.parametrize("name", ["level", "heights", "slack", "multipliers"])
def test_negative_numbers_are_refused(proof, name):
    _, found = proof
    negative = -np.abs(np.asarray(getattr(found, name))) - 1.0
    changed = float(negative) if name == "level" else negative.astype(getattr(found, name).dtype)
    with pytest.raises(ValueError, match="must not be negative"):
        check(IRIS, None, replace(found, **{name: changed}))


@pytest.mark.parametrize("n_clusters", [0, -1, 1.5, np.nan, np.inf, 10**400, None])
def test_what_is_no_number_of_clusters_is_refused(proof, n_clusters):
    with pytest.raises(ValueError, match="no number of clusters"):
        check(IRIS, None, replace(proof[1], n_clusters=n_clusters))


@pytest.mark.parametrize("name", ["prices", "vectors", "slack", "heights", "multipliers", "level"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_proves_nothing(proof, name, bad):
    _, found = proof
    changed = np.array(getattr(found, name), copy=True)
    changed[(0,) * changed.ndim] = bad
    broken = replace(found, **{name: float(changed) if name == "level" else changed})
    try:
        assert check(IRIS, None, broken) == 0.0
    except ValueError as error:
        assert "negative or NaN" in str(error)


@pytest.mark.parametrize(
    ("height", "entry"), [(1.7e308, 1.5e-162), (1e308, 1e-160), (1e300, 1e-157)]
)
def test_squares_that_underflow_are_not_free(height, entry):
    """The matrix gains D v v', which is far above the optimum here; it must be paid for."""
    X, columns = np.array([[0.0], [1e-9], [3e-9], [7e-9]]), 2000
    best = float(((X - X.mean()) ** 2).sum())
    distances = 0.5 * (X - X.T) ** 2
    gain = columns * ((height * entry) * entry)
    for share in (0.0, 0.01, 0.5):
        prices = (2.0 * distances.sum(axis=1) - distances.sum() / 4) / 4 + share * gain
        proof = Proof(
            n_clusters=1,
            prices=prices,
            level=10.0 * best,
            vectors=np.full((4, columns), entry),
            heights=np.full(columns, height),
            slack=np.zeros((4, 4)),
            cuts=np.empty((0, 2), np.int32),
            multipliers=np.empty(0),
        )
        assert check(X, None, proof) <= best


@pytest.mark.parametrize("row", [(0, 0, 1), (0, 1, 1), (0, 150, 1), (-1, 0, 1), (0, 1, -2)])
def test_cuts_of_rows_that_are_none_are_refused(proof, row):
    _, found = proof
    cuts = found.cuts.copy()
    cuts[0] = (*row, *[-1] * (cuts.shape[1] - 3))
    with pytest.raises(ValueError, match="a cut of the proof"):
        check(IRIS, None, replace(found, cuts=cuts))


def test_numbers_of_other_precision_are_refused(proof):
    """Squares of short integers wrap around, so that vectors would cost nothing."""
    _, found = proof
    vectors = np.full((150, 1), 16, dtype=np.int8)
    heights = np.array([1e6])
    with pytest.raises(ValueError, match="vectors of the proof is int8, not float64"):
        check(IRIS, None, replace(found, vectors=vectors, heights=heights))
    for name in ("prices", "heights", "multipliers"):
        short = getattr(found, name).astype(np.float32)
        with pytest.raises(ValueError, match=f"{name} of the proof is float32"):
            check(IRIS, None, replace(found, **{name: short}))


@pytest.mark.parametrize("seconds", [0, -1, np.nan, np.inf, "60", True])
def test_seconds_must_be_a_positive_number(seconds):
    with pytest.raises(ValueError, match="seconds must be a positive number"):
        lower_bound(IRIS, 3, method="semidefinite", seconds=seconds)


def test_too_many_sparse_points_are_refused_before_memory_is_taken():
    wide = sparse.csr_array((10_001, 10**6))
    with pytest.raises(ValueError, match="up to 10,000 points, not for 10,001"):
        lower_bound(wide, 2, method="semidefinite", seconds=1)


def test_points_without_weight_do_not_matter():
    weights = np.ones(150)
    weights[::10] = 0.0
    heavy = IRIS[weights > 0]
    centers = KMeans(2, random_state=0, bound=None).fit(heavy).cluster_centers_
    bound = lower_bound(
        IRIS, 2, sample_weight=weights, method="semidefinite", centers=centers, seconds=2
    )
    assert check_proof(IRIS, bound.proof, sample_weight=weights) == bound.value
    assert check_proof(heavy, bound.proof) == bound.value > 0


@pytest.mark.parametrize(("n_clusters", "best"), [(1, 26.0), (4, 0.0), (5, 0.0)])
def test_trivial_problems(n_clusters, best):
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    value = lower_bound(X, n_clusters, method="semidefinite", seconds=1).value
    assert value <= best and value == pytest.approx(best)


def is_exactly_semidefinite(matrix):
    """Whether Gaussian elimination in fractions meets no negative pivot."""
    n = len(matrix)
    M = [[Fraction(float(matrix[max(i, j), min(i, j)])) for j in range(n)] for i in range(n)]
    for k in range(n):
        if M[k][k] < 0 or (M[k][k] == 0 and any(M[i][k] for i in range(k, n))):
            return False
        for i in range(k + 1, n if M[k][k] else 0):
            factor = M[i][k] / M[k][k]
            for j in range(k, n):
                M[i][j] -= factor * M[k][j]
    return True


def test_what_is_accepted_is_semidefinite_in_exact_arithmetic():
    """Matrices that are singular up to rounding: half of them are not semidefinite."""
    rng = np.random.default_rng(0)
    indefinite = accepted = 0
    for _ in range(300):
        factor = rng.normal(size=(6, 5))
        matrix = factor @ factor.T + rng.uniform(-1, 2) * 1e-15 * np.eye(6)
        truth = is_exactly_semidefinite(matrix)
        indefinite += not truth
        assert truth or not is_semidefinite(matrix.copy(), 0.0)
        accepted += is_semidefinite(matrix + 1e-12 * np.eye(6), 0.0)
    assert indefinite > 50
    assert accepted == 300


def test_an_error_of_the_entries_counts():
    assert is_semidefinite(np.diag([1.0, 1e-3]), 0.9e-3)
    assert not is_semidefinite(np.diag([1.0, 1e-3]), 1.1e-3)
