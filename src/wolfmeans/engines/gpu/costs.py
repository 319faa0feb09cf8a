"""Distances of rows to their own centers on the device, and the launches that add them up."""

from __future__ import annotations

import torch
import triton

from wolfmeans.engines.gpu.kernels import own_costs as kernels
from wolfmeans.engines.gpu.launching import UNFUSED, launch

_AT_ONCE = 2048
"""So many terms share the atomics that add them to a sum."""


def columns_at_once(d: int, most: int) -> dict[str, int | bool]:
    """Return the named arguments of kernels that go through rows, up to so many columns at once."""
    width = min(most, max(4, 1 << (d.bit_length() - 1)))
    return {"WIDTH": width, "EVEN": d % width == 0}


def find_costs(
    X: torch.Tensor, centers: torch.Tensor, labels: torch.Tensor | None, out: torch.Tensor
) -> None:
    """Launch what writes the (n,) canonical distances to the centers of the labels.

    Without labels it is the first center.
    """
    n, d = X.shape
    launch(
        kernels.find_costs, triton.cdiv(n, 64),
        X, centers, labels, out, n, d, BLOCK=64, **columns_at_once(d, 32 if d > 32 else 16),
        num_warps=2, **UNFUSED,
    )  # fmt: skip


def add_costs(
    costs: torch.Tensor,
    n: int,
    masses: torch.Tensor | None,
    sums: torch.Tensor,
    low: int,
    inexact: torch.Tensor,
) -> None:
    """Launch what adds n costs, times masses, to an exact sum."""
    launch(
        kernels.add_costs, triton.cdiv(n, _AT_ONCE),
        costs, masses, sums, low, inexact, n, BLOCK=_AT_ONCE, num_warps=4, **UNFUSED,
    )  # fmt: skip
