"""Distances to own centers whose rows are read side by side: added up in order all the same."""

from fractions import Fraction

import numpy as np
import pytest

from interpreted import needs_triton

pytestmark = needs_triton

LOW = -300


def in_order(X, C):
    """Return canonical distances of rows to a center each."""
    total = np.zeros(len(X))
    for j in range(X.shape[1]):
        difference = X[:, j].astype(np.float64) - C[:, j].astype(np.float64)
        total = total + difference * difference
    return total


def numbers(n, d, K, dtype):
    """Return rows and centers whose squares depend on the order in which they are added up."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-4, 5, (n, d))
    return X.astype(dtype), rng.normal(size=(K, d)).astype(dtype), rng.integers(0, K, n)


def on_device(array, dtype=None):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tensor = torch.tensor(array, device=device)
    return tensor if dtype is None else tensor.to(dtype)


def value(sums):
    return sum(int(limb) * Fraction(2) ** (LOW + 32 * i) for i, limb in enumerate(sums.tolist()))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 11, 15, 16, 17, 31, 32, 33, 40, 64, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_are_added_up_in_order(d, dtype):
    import torch

    from wolfmeans.engines.gpu.rows import find_costs

    n, K = 70, 3
    X, C, labels = numbers(n, d, K, dtype)
    out = torch.full((n + 1,), -1.0, dtype=torch.float64, device=on_device(X).device)
    find_costs(on_device(X), on_device(C), on_device(labels, torch.int32), out)
    assert (out[:n].cpu().numpy() == in_order(X, C[labels])).all()
    find_costs(on_device(X), on_device(C), None, out)
    assert (out[:n].cpu().numpy() == in_order(X, C[:1].repeat(n, axis=0))).all()
    assert out[n] == -1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_costs_are_added_up_exactly(weighted):
    import torch

    from wolfmeans.engines.gpu.kernels.exact import LIMBS
    from wolfmeans.engines.gpu.rows import add_costs

    rng = np.random.default_rng(3)
    n = 2100
    terms = rng.uniform(size=n) * 2.0 ** rng.integers(-90, 20, n)
    terms[::7] = 0.0
    masses = rng.integers(0, 5, n) * 0.25 if weighted else None
    sums = torch.zeros(LIMBS, dtype=torch.int64, device=on_device(terms).device)
    inexact = torch.zeros(1, dtype=torch.int32, device=sums.device)
    beyond = on_device(np.append(terms, 1e9))
    add_costs(beyond, n, None if masses is None else on_device(masses), sums, LOW, inexact)
    expected = sum(map(Fraction, terms if masses is None else terms * masses))
    assert value(sums) == expected
    assert inexact.item() == 0


@pytest.mark.parametrize(("d", "block"), [(3, 64), (16, 64), (40, 64), (70, 32)])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_moved_rows_gain(d, block, weighted):
    import torch

    from wolfmeans.engines.gpu.kernels.exact import LIMBS
    from wolfmeans.engines.gpu.kernels.lists import INEXACT, MOVED
    from wolfmeans.engines.gpu.kernels.own_costs import sum_gap
    from wolfmeans.engines.gpu.launching import UNFUSED, launch
    from wolfmeans.engines.gpu.rows import columns_at_once

    n, K, count = 150, 5, 131
    X, C, _ = numbers(n, d, K, "float32")
    distances = np.stack([in_order(X, C[k : k + 1].repeat(n, axis=0)) for k in range(K)])
    near, far = distances.argmin(axis=0), distances.argmax(axis=0)
    rng = np.random.default_rng(d)
    rows = rng.permutation(n)[:count]
    before = np.where(rng.uniform(size=count) < 0.3, -1, far[rows])
    masses = rng.integers(0, 5, n) * 0.5 if weighted else None
    state = np.zeros(16, dtype=np.int32)
    state[MOVED.value] = count
    state, int32 = on_device(state), torch.int32
    sums = torch.zeros(LIMBS, dtype=torch.int64, device=state.device)
    launch(
        sum_gap, 2, state, on_device(X), None if masses is None else on_device(masses),
        on_device(C), on_device(near, int32), on_device(rows, int32), on_device(before, int32),
        sums, LOW, d, BLOCK=block, **columns_at_once(d, 16 if block == 64 else 32),
        num_warps=block // 32, **UNFUSED,
    )  # fmt: skip
    moved = before >= 0
    gains = distances[before[moved], rows[moved]] - distances[near[rows[moved]], rows[moved]]
    if masses is not None:
        gains = masses[rows[moved]] * gains
    assert value(sums) == sum(map(Fraction, gains))
    assert state[INEXACT.value] == 0
