"""What the fault tests share: data, and the truth about a model.

The truth is computed here without the package: distances in the canonical order, sums by
`math.fsum`, means in rational arithmetic.
"""

import math
import warnings
from fractions import Fraction

import numpy as np
from scipy import sparse

SCRIPT = "<script>alert('x')</script>"


def blobs(n=60, d=2, k=3, seed=0):
    """Well separated clusters of equal size and the partition they come from."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) * k // n
    places = np.zeros((k, d))
    places[:, 0] = 20.0 * np.arange(k)
    places[:, -1] += 7.0 * np.arange(k)
    return places[truth] + rng.normal(size=(n, d)), truth


def cloud(n=400, d=4, seed=0):
    """Points without clusters, whose fits take many steps."""
    return np.random.default_rng(seed).normal(size=(n, d))


def same_partition(a, b):
    """Whether two labellings are equal up to the names of the clusters."""
    pairs = set(zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def quietly(model, X, sample_weight=None):
    """Fit without the warnings about early endings and empty clusters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, sample_weight=sample_weight)


# --- the truth -------------------------------------------------------------------------------


def distances(X, centers):
    """The canonical (n, K) squared distances: coordinate after coordinate, in float64."""
    X, centers = X.astype(np.float64), centers.astype(np.float64)
    total = np.zeros((len(X), len(centers)))
    for j in range(X.shape[1]):
        difference = X[:, j, None] - centers[None, :, j]
        total += difference * difference
    return total


def exact_mean(X, weights, rows):
    """The mean of some rows, rounded once to float64 and once to the dtype of X."""
    weights = [Fraction(1) if weights is None else Fraction(float(weights[i])) for i in rows]
    means = [
        sum(w * Fraction(float(X[i, j])) for w, i in zip(weights, rows, strict=True)) / sum(weights)
        for j in range(X.shape[1])
    ]
    return np.array([float(mean) for mean in means]).astype(X.dtype)


def exact_sse(X, weights, labels):
    """The SSE of a labelling at its exact means, as a fraction."""
    total = Fraction(0)
    for k in set(np.asarray(labels).tolist()):
        rows = np.flatnonzero(np.asarray(labels) == k)
        ws = [Fraction(1) if weights is None else Fraction(float(weights[i])) for i in rows]
        mass = sum(ws)
        if mass == 0:
            continue
        for j in range(X.shape[1]):
            xs = [Fraction(float(X[i, j])) for i in rows]
            first = sum(w * x for w, x in zip(ws, xs, strict=True))
            second = sum(w * x * x for w, x in zip(ws, xs, strict=True))
            total += second - first * first / mass
    return total


def assert_true(model, X, weights=None):
    """Everything that a fitted KMeans says about float data of moderate size is so."""
    to_all = distances(X, model.cluster_centers_)
    nearest = to_all.min(axis=1)
    assert model.labels_.tolist() == to_all.argmin(axis=1).tolist()
    assert model.predict(X).tolist() == model.labels_.tolist()
    terms = nearest if weights is None else weights * nearest
    assert model.inertia_ == math.fsum(terms.tolist())
    assert model.score(X, sample_weight=weights) == -model.inertia_
    assert model.cluster_centers_.dtype == X.dtype
    assert not model.certificate_.status.name.startswith(("DESCENT", "REPEATED"))
    if model.certificate_.status.name == "STATIONARY":
        heavy = np.ones(len(X), dtype=bool) if weights is None else weights > 0
        for k in set(model.labels_[heavy].tolist()):
            rows = np.flatnonzero((model.labels_ == k) & heavy)
            mean = exact_mean(X, weights, rows.tolist())
            assert model.cluster_centers_[k].tolist() == mean.tolist()


def bits(model):
    """Everything that a fit computed and that must not depend on the machine, as one tuple."""
    certificate = model.certificate_.to_dict()
    for name in ("engine", "notes", "effort", "polish"):
        certificate.pop(name, None)
    trace = tuple(
        tuple(getattr(model.trace_, name).tolist())
        for name in ("t", "sse", "gap", "movement", "moved", "empty")
    )
    return (
        model.cluster_centers_.tobytes(),
        np.asarray(model.labels_).tobytes(),
        model.inertia_.hex(),
        model.n_iter_,
        repr(sorted(certificate.items())),
        trace,
    )


def as_sparse(X, kind):
    """A sparse array of a kind with 64-bit indices, where the kind has indices."""
    given = getattr(sparse, f"{kind}_array")(X)
    for name in ("indices", "indptr", "offsets"):
        if hasattr(given, name):
            setattr(given, name, getattr(given, name).astype(np.int64))
    if kind == "coo":
        given.coords = tuple(c.astype(np.int64) for c in given.coords)
    return given
