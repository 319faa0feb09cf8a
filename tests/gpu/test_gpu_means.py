"""Means of short sums on the device, by == with exact integers."""

import math

import numpy as np
import pytest

from interpreted import needs_triton
from wolfmeans.exact.sums import mean_and_residual

pytestmark = needs_triton


def quotients(rng):
    """Return sums and counts: near to what is rounded up, down or to even, and at both ends."""
    # Some have an inverse in float64 by which they do not multiply to 1.
    counts = [1, 2, 3, 49, 98, 103, 107, 2**31 - 1, 2**30 + 1, 2**20]
    counts += [int(2 ** rng.uniform(0, 31)) for _ in range(20)]
    for count in counts:
        whole = count << 64
        places = [int(rng.integers(2**52, 2**53)) for _ in range(3)]
        places += [2**52, 2**53 - 1, 2**53 - 2]
        for place in places:
            shift = int(rng.integers(-83, 12))
            for half in (0, 1):  # at a float64 number, and between two of them
                middle = (2 * place + half) * count
                exact = middle << (shift - 1) if shift > 0 else middle >> (1 - shift)
                for total in (exact - 1, exact, exact + 1):
                    if 0 <= total < whole:
                        yield total, count
        yield from ((total, count) for total in (0, 1, count - 1, count, whole - 1, whole - count))


@pytest.mark.parametrize(("digits", "replicas"), [(1, 1), (2, 1), (2, 8), (3, 8)])
@pytest.mark.parametrize("unit", [-60, -900, 300])
def test_means_of_sums(digits, replicas, unit):
    import torch

    from wolfmeans.engines.gpu.engine import device
    from wolfmeans.engines.gpu.kernels.exact import ROOM
    from wolfmeans.engines.gpu.kernels.lists import ARRIVED, AT_MOST, DONE, EMPTIED, STEPS
    from wolfmeans.engines.gpu.kernels.means import find_means

    rng = np.random.default_rng(0)
    cases = [
        (total * sign, count)
        for total, count in quotients(rng)
        for sign in (1, -1)
        if total < count << (32 * digits)
    ]
    cases = [cases[i] for i in rng.permutation(len(cases))[:700]]
    K = len(cases)
    # Digits of the replicas are of any sign.
    parts = rng.integers(-(2**40), 2**40, size=(digits, replicas, K))
    for k, (total, _) in enumerate(cases):
        for digit in range(digits - 1, -1, -1):
            above = (total >> 32) + int(rng.integers(-1000, 1000)) if digit else 0
            own = total - (above << 32) - int(parts[digit, 1:, k].sum())
            parts[digit, 0, k] = (own + 2**63) % 2**64 - 2**63
            total = above
    came = rng.integers(-1000, 1000, size=(replicas, K))
    came[0] = [count for _, count in cases] - came[1:].sum(axis=0)

    def zeros(*shape, dtype=torch.int64):
        return torch.zeros(shape, dtype=dtype, device=device())

    float32, float64 = torch.float32, torch.float64
    state, rule = zeros(16, dtype=torch.int32), zeros(4, dtype=float64)
    state[AT_MOST.value] = 5
    reach, next_reach = zeros(2, dtype=torch.int32) + 7, zeros(2, dtype=torch.int32)
    centers, before, means, residuals, weights = zeros(5, K, dtype=float64)
    norms, error_bounds, shifts = zeros(3, K, dtype=float32)
    records = zeros(5, 8, dtype=float64)
    find_means[(-(-K // 64),)](
        state, torch.from_numpy(parts).to(device()), torch.from_numpy(came).to(device()),
        zeros(digits, K), centers, before, means, residuals, weights, zeros(1, dtype=float64),
        zeros(K, 1, dtype=float32), norms, error_bounds, shifts, reach, next_reach, zeros(4, ROOM),
        records, rule, 0, -100, -100, unit, 2.0**-unit, 1.0,
        zeros(1, dtype=float32), 0.0, 0.0, K, 1, 1, DIGITS=digits, REPLICAS=replicas, CLUSTERS=64,
        COLUMNS=1, MORE=False, DIRECT=True, enable_fp_fusion=False,
    )  # fmt: skip
    expected = [mean_and_residual(total, count, unit) for total, count in cases]
    assert means.tolist() == [mean for mean, _ in expected]
    assert residuals.tolist() == [residual for _, residual in expected]
    assert weights.tolist() == [count for _, count in cases]
    assert state.tolist()[DONE.value] == 1
    assert state.tolist()[STEPS.value] == 1
    assert state[[EMPTIED.value, ARRIVED.value]].tolist() == [0, 0]
    assert reach.tolist() == [0, 0]
    largest = next_reach.view(float32).tolist()[1]
    assert largest >= max(abs(mean) for mean, _ in expected) * 2.0**-unit
    assert math.isfinite(largest)
