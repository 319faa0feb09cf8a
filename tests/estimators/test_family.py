"""What every estimator of the family promises, checked for all of them on the same tables."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfmeans import (
    CentroidClustering,
    ConstrainedKMeans,
    KMeans,
    SphericalKMeans,
    TrimmedKMeans,
    TrimmedSphericalKMeans,
)
from wolfmeans.core.stopping import steps_until_spent
from wolfmeans.divergences import Mixed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SPHERICAL = ("spherical", "trimmed spherical")
FAMILY = {
    "k-means": lambda k, **more: KMeans(k, **more),
    "trimmed": lambda k, **more: TrimmedKMeans(k, alpha=0.2, **more),
    "spherical": lambda k, **more: SphericalKMeans(k, **more),
    "trimmed spherical": lambda k, **more: TrimmedSphericalKMeans(k, alpha=0.2, **more),
    "size limits": lambda k, **more: ConstrainedKMeans(k, **more),
    "medians": lambda k, **more: CentroidClustering(k, **more),
    "kullback-leibler": lambda k, **more: CentroidClustering(
        k, divergence="kullback-leibler", **more
    ),
    "itakura-saito": lambda k, **more: CentroidClustering(k, divergence="itakura-saito", **more),
    "modes": lambda k, **more: CentroidClustering(k, divergence="modes", **more),
    "mixed": lambda k, **more: CentroidClustering(k, divergence=Mixed([0], gamma=2.0), **more),
}


def cost(kind, x, c):
    """The cost of a point at a center, in plain Python."""
    if kind in SPHERICAL:
        return 1.0 - float(x @ c) / math.sqrt(float(x @ x))
    if kind == "medians":
        return float(np.abs(x - c).sum())
    if kind == "kullback-leibler":
        return sum(a * math.log(a / b) - a + b for a, b in zip(x, c, strict=True))
    if kind == "itakura-saito":
        return sum(a / b - math.log(a / b) - 1.0 for a, b in zip(x, c, strict=True))
    if kind == "modes":
        return float((x != c).sum())
    if kind == "mixed":
        return 2.0 * (x[0] != c[0]) + float(((x[1:] - c[1:]) ** 2).sum())
    return float(((x - c) ** 2).sum())


@st.composite
def cases(draw):
    """A kind, an estimator of it, a small table with ties and copies, and weights."""
    kind = draw(st.sampled_from(sorted(FAMILY)))
    n, d = draw(st.integers(5, 24)), draw(st.integers(1, 3))
    whole = st.lists(st.integers(1, 6), min_size=d, max_size=d)
    X = np.array(draw(st.lists(whole, min_size=n, max_size=n)), dtype=float)
    weights = None
    if draw(st.booleans()):
        weights = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=float)
        weights[0] = 1.0
    model = FAMILY[kind](
        draw(st.integers(1, 4)),
        n_init=draw(st.integers(1, 3)),
        random_state=draw(st.integers(0, 99)),
        stop=draw(st.sampled_from(["decrease", "gap", "stationary"])),
        tol=draw(st.sampled_from([0.0, 1e-6, 1e-2])),
        empty=draw(st.sampled_from(["farthest", "keep"])),
        max_iter=None,
    )
    if kind == "size limits":
        # As even as the points allow: no point is split, or weights may be.
        total = len(X) if weights is None else weights.sum()
        model.set_params(size_max=math.ceil(total / model.n_clusters))
    return kind, model, X, weights


@settings(max_examples=25, deadline=None)
@given(cases())
def test_the_promises_of_the_family(case):
    check(*case)


@pytest.mark.long
@settings(max_examples=500, deadline=None)
@given(cases())
def test_the_promises_of_the_family_on_many_tables(case):
    check(*case)


def check(kind, model, X, weights):
    """Fit the model and check every promise."""
    model.fit(X, sample_weight=weights)
    trace, certificate = model.trace_, model.certificate_
    scale = max(float(trace.sse[0]), 1e-300)

    # The gap is not negative, and a step lowers the value by at least the gap.
    assert (trace.gap >= -1e-12 * scale).all()
    assert (trace.movement >= -1e-12 * scale).all()
    # The ledger.
    falls = trace.sse[:-1] - trace.sse[1:]
    assert np.abs(falls - trace.decrease[:-1]).max(initial=0.0) <= 1e-12 * scale + 1e-12
    # The rate: the smallest gap after t steps.
    assert (np.minimum.accumulate(trace.gap) <= scale / (trace.t + 1.0) * (1 + 1e-12)).all()
    # The guarantee.
    assert certificate.status.converged
    if certificate.max_iterations is not None:
        assert certificate.iterations <= certificate.max_iterations
        limit = steps_until_spent(certificate.initial_sse, 0.0, certificate.tol)
        assert limit is None or certificate.max_iterations <= limit

    if kind == "size limits":  # its oracle is recomputed in test_constrained.py
        assert Fraction(certificate.proven_bound) <= Fraction(model.inertia_)
        return
    # Labels are the oracle's answer at the returned centers, which is recomputed here.
    centers = model.cluster_centers_
    w = np.ones(len(X)) if weights is None else weights
    kept = w * getattr(model, "kept_", np.ones(len(X)))
    every = np.array([[cost(kind, x, c) for c in centers] for x in X])
    own = every[np.arange(len(X)), np.maximum(model.labels_, 0)]
    inside = kept > 0
    assert (own[inside] <= every[inside].min(axis=1) + 1e-9).all()
    if kind in ("trimmed", "trimmed spherical") and inside.any() and (~inside & (w > 0)).any():
        outside = every[~inside & (w > 0)].min(axis=1)
        assert own[inside].max() <= outside.min() + 1e-9
    # The certificate, recomputed: inertia, the value with the gap, and a bound that is not above.
    inertia = float(kept[inside] @ own[inside])
    assert model.inertia_ == pytest.approx(inertia, rel=1e-9, abs=1e-9)
    assert certificate.inertia == model.inertia_ == -model.score(X, sample_weight=weights)
    assert trace.sse[-1] == pytest.approx(model.inertia_ + certificate.gap, rel=1e-9, abs=1e-9)
    assert certificate.decrease == certificate.gap + certificate.movement
    assert Fraction(certificate.proven_bound) <= Fraction(model.inertia_)
    if certificate.stop == "gap":
        assert certificate.gap <= certificate.tol or trace.moved[-1] == 0
    if certificate.stop == "decrease":
        assert certificate.decrease <= certificate.tol or trace.moved[-1] == 0


@pytest.mark.parametrize("kind", sorted(FAMILY))
def test_the_order_of_rows_and_copies_change_nothing(kind):
    rng = np.random.default_rng(5)
    X = rng.uniform(0.5, 6.0, size=(60, 3))
    X[:, 0] = X[:, 0].round()
    weights = rng.integers(1, 3, size=60)
    start = X[:4].copy()
    settings = {"init": start, "stop": "stationary", "n_init": 1}
    model = FAMILY[kind](4, **settings).fit(X, sample_weight=weights)
    order = rng.permutation(60)
    shuffled = FAMILY[kind](4, **settings).fit(X[order], sample_weight=weights[order])
    copies = FAMILY[kind](4, **settings).fit(np.repeat(X, weights, axis=0))
    for other in (shuffled, copies):
        assert other.inertia_ == pytest.approx(model.inertia_, rel=1e-12)
        assert other.cluster_centers_ == pytest.approx(model.cluster_centers_, rel=1e-12)
    assert np.array_equal(shuffled.labels_, model.labels_[order])
