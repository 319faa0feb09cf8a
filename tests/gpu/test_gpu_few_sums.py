"""Sums of few clusters by products of integers: the same integers as those of atomics."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from both_engines import assert_same_fits
from interpreted import needs_triton

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton

DIGIT = 2**32


def numbers(n, d, kind, dtype):
    """Return numbers, the exponent that all of them are below, and how many digits they have."""
    rng = np.random.default_rng(n + d)
    mantissa = 24 if dtype == "float32" else 53
    if kind == "whole":  # every bit of a digit, and of its sign
        X = rng.integers(-(2**24) + 1, 2**24, (n, d))
        X[rng.uniform(size=(n, d)) < 0.3] = 2**24 - 1
        X[rng.uniform(size=(n, d)) < 0.3] = 1 - 2**24
        return X.astype(dtype), 24, 1
    spread = 12 if kind == "plain" else 70
    X = rng.uniform(-1, 1, (n, d)) * 2.0 ** rng.integers(-spread, 1, (n, d))
    X[rng.uniform(size=(n, d)) < 0.1] = 0.0
    X = X.astype(dtype)
    X[X == 1.0] = 0.5
    smallest = np.abs(X[X != 0]).min(initial=1.0)
    low = int(np.frexp(smallest)[1]) - mantissa
    return X, 0, -(low // 32)


def moved(n, K, kind):
    """Return new labels, the rows of a list, and their old labels."""
    rng = np.random.default_rng(K)
    labels = rng.integers(0, K, n)
    rows = rng.permutation(n) if kind != "some" else rng.permutation(n)[: n // 2]
    before = rng.integers(0, K, len(rows))
    if kind == "first":
        before[:] = -1
    elif kind == "mixed":
        before[::3] = -1
    return labels, rows, before


def digits_of(number, high, digits):
    """Return the digits of a number, the highest first, each with its sign."""
    rest = abs(Fraction(float(number))) / Fraction(2) ** (high - 32)
    found = []
    for _ in range(digits):
        whole = int(rest)
        found.append(whole if number > 0 else -whole)
        rest = (rest - whole) * DIGIT
    assert rest == 0
    return found


def launched(X, labels, rows, before, K, high, digits, few, count=None, done=0):
    """Return the sums, all replicas together, and the members that a kernel leaves."""
    import torch

    from wolfmeans.engines.gpu import rows as module
    from wolfmeans.engines.gpu.kernels.lists import DONE, MOVED

    n, d = X.shape
    replicas = 4
    device = "cuda" if torch.cuda.is_available() else "cpu"
    state = torch.zeros(16, dtype=torch.int32)
    state[DONE.value], state[MOVED.value] = done, len(rows) if count is None else count
    sums = torch.full((digits, replicas, K * d), 5, dtype=torch.int64, device=device)
    members = torch.full((K,), n, dtype=torch.int64, device=device)

    def on_device(array, dtype=torch.int32):
        return torch.tensor(np.asarray(array)).to(dtype).to(device)

    data = SimpleNamespace(
        n=n, d=d, X=torch.from_numpy(X).to(device), high=high, digits=digits
    )  # fmt: skip
    clusters = SimpleNamespace(
        n_clusters=K, state=state.to(device), sums=sums, arrivals=members, replicas=replicas
    )
    lists = np.zeros((2, n), dtype=np.int32)
    lists[:, : len(rows)] = rows, before
    given = module.Rows.__new__(module.Rows)
    given.data, given.masses, given.labels = data, None, on_device(labels)
    given.moved_rows, given.moved_from = on_device(lists[0]), on_device(lists[1])
    limit = module.FEW_CLUSTERS
    module.FEW_CLUSTERS = limit if few else 0
    try:
        given.move(clusters)
    finally:
        module.FEW_CLUSTERS = limit
    sums = sums.cpu().numpy().sum(axis=1) - 5 * replicas
    return sums.reshape(digits, K, d), members.cpu().numpy() - n


@pytest.mark.parametrize(
    ("K", "d", "n", "kind", "dtype", "change"),
    [
        (1, 1, 1, "plain", "float32", "first"),
        (1, 3, 150, "whole", "float32", "mixed"),
        (2, 2, 300, "whole", "float64", "first"),
        (63, 16, 300, "plain", "float32", "first"),
        (64, 16, 300, "plain", "float32", "mixed"),
        (64, 17, 130, "wide", "float32", "some"),
        (100, 3, 270, "whole", "float32", "some"),
        (128, 16, 300, "plain", "float64", "mixed"),
        (128, 40, 90, "wide", "float32", "mixed"),
        (5, 40, 90, "wide", "float64", "mixed"),
        (17, 1, 257, "wide", "float64", "first"),
    ],
)
def test_sums_are_those_of_atomics_and_of_whole_numbers(K, d, n, kind, dtype, change):
    X, high, digits = numbers(n, d, kind, dtype)
    labels, rows, before = moved(n, K, change)
    sums, members = launched(X, labels, rows, before, K, high, digits, few=True)
    others, their_members = launched(X, labels, rows, before, K, high, digits, few=False)
    assert (sums == others).all()
    assert (members == their_members).all()
    expected = np.zeros((digits, K, d), dtype=object)
    expected_members = [0] * K
    for row, old in zip(rows, before, strict=True):
        parts = np.array([digits_of(x, high, digits) for x in X[row]], dtype=object).T
        expected[:, labels[row]] += parts
        expected_members[labels[row]] += 1
        if old >= 0:
            expected[:, old] -= parts
            expected_members[old] -= 1
    assert (sums == expected).all()
    assert (members == expected_members).all()


@pytest.mark.parametrize(("count", "done"), [(0, 0), (None, 1)])
def test_nothing_moves_without_rows_or_after_the_end(count, done):
    X, high, digits = numbers(40, 3, "plain", "float32")
    labels, rows, before = moved(40, 7, "mixed")
    sums, members = launched(X, labels, rows, before, 7, high, digits, True, count, done)
    assert not sums.any()
    assert not members.any()


@pytest.mark.parametrize(
    ("K", "d", "dtype", "offset"),
    [(2, 1, "float64", 0.0), (7, 17, "float32", 0.0), (70, 2, "float64", 1e8)],
)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_fits_are_those_of_the_cpu_engine(K, d, dtype, offset):
    X = (np.random.default_rng(5).normal(size=(150, d)) + offset).astype(dtype)
    assert_same_fits(X, K)
