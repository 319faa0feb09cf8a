"""Points that hurt fast arithmetic: ties, duplicates, offsets, outliers, extreme scales."""

import numpy as np

SCALES = {
    "tiny": 1e-40,
    "huge": 1e60,
    "small": 1e-30,
    "denormal": 1e-42,
}


def points(kind, n, d, dtype="float64", seed=0):
    """Return (n, d) points of a kind. `tiny` and `huge` are for float64 alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if kind == "blobs":
        X += 10.0 * rng.integers(-2, 3, size=(5, d))[rng.integers(0, 5, n)]
    elif kind == "lattice":
        X = rng.integers(-1, 2, size=(n, d)) * 1.0
    elif kind == "half lattice":
        X = rng.integers(-2, 3, size=(n, d)) * 0.5 + 1e4
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 8), size=n)]
    elif kind == "equal":
        X[:] = X[0]
    elif kind == "zero":
        X[:] = 0.0
    elif kind == "offset":
        X += 1e8
    elif kind == "outliers":
        X[0], X[n // 2] = 1e6, -1e9
    elif kind == "heavy tails":
        X = rng.standard_t(1.1, size=(n, d))
    elif kind == "columns apart":
        # Python reads decimal numbers exactly; NumPy's powers differ between vector units.
        X *= [float(f"1e{power}") for power in rng.integers(-6, 7, size=d)]
    elif kind in SCALES:
        X *= SCALES[kind]
    elif kind != "plain":
        raise ValueError(kind)
    return X.astype(dtype)


def difficult_points(kind, n, d, rng):
    """Return points that a careless bound, a sum in floats or a sort by one column gets wrong."""
    X = rng.normal(size=(n, d))
    if kind == "lattice":
        X = np.round(X)
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 20), size=n)]
    elif kind == "offset":
        X = 1e8 + np.round(X, 1)
    elif kind == "tiny":
        X *= 1e-140
    elif kind == "huge":
        X *= 1e140
    elif kind == "outliers":
        X[:: max(1, n // 5)] *= 1e9
    elif kind == "scales":
        X *= 10.0 ** rng.integers(-6, 6, size=d)
    elif kind == "one-hot":
        X = np.eye(d)[rng.integers(0, d, size=n)]
    elif kind == "mirrored":
        X = np.concatenate([X[: n - n // 2], -X[: n // 2]])
    elif kind == "blobs":
        X += 20.0 * rng.normal(size=(12, d))[rng.integers(0, 12, size=n)]
    return X


SEEDING_KINDS = (
    "lattice",
    "duplicates",
    "offset",
    "tiny",
    "huge",
    "outliers",
    "scales",
    "one-hot",
    "mirrored",
    "blobs",
    "normal",
)
