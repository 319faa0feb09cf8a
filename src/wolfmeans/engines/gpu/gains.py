"""The data point that as one more center lowers the SSE most, among candidates, on the device.

Specification: `problems.empty.best_candidate`.
"""

from __future__ import annotations

import numpy as np
import torch
import triton

from wolfmeans.engines.gpu.kernels import gains as gains_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.seeding import Listing
from wolfmeans.engines.gpu.transfers import to_device, to_host

_PROGRAMS = 256


def best_candidate(
    data: Screened,
    order: torch.Tensor,
    distances: torch.Tensor,
    masses: torch.Tensor | None,
    most: int,
    low: int,
) -> tuple[int, float] | None:
    """Return the row and the decrease; None where a sum has no room above 2**low.

    Parameters
    ----------
    data : Screened
    order : (n,) int64 tensor
        The rows in lexicographic order.
    distances : (n,) float64 tensor
        To the nearest center.
    masses : (n,) float64 tensor or None
        What counts of each point.
    most : int
        How many candidates are tried when there are more.
    """
    rows = _candidates(order, distances, masses, most)
    if len(rows) == 0:
        return -1, 0.0
    listing = Listing(data, distances, rows)
    listing.launch()
    sums = torch.zeros((len(rows), LIMBS), dtype=torch.int64, device=rows.device)
    inexact = torch.zeros(1, dtype=torch.int32, device=rows.device)
    programs = min(_PROGRAMS, triton.cdiv(data.n, 64))
    launch(
        gains_kernels.sum_gains, (programs, len(rows)),
        data.X, distances, masses, rows, listing.counters, listing.lists, sums, low, inexact,
        data.n, data.d, listing.capacity, BLOCK=64, num_warps=2, **UNFUSED,
    )  # fmt: skip
    out = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    launch(gains_kernels.round_sums, len(rows), sums, low, out, num_warps=1, **UNFUSED)
    found, gains, lost = to_host(rows, out, inexact)
    if lost[0]:
        return None
    best = int(np.argmax(gains))
    return (int(found[best]), float(gains[best])) if gains[best] > 0.0 else (-1, 0.0)


def _candidates(
    order: torch.Tensor, distances: torch.Tensor, masses: torch.Tensor | None, most: int
) -> torch.Tensor:
    """Return rows of positive mass off all centers, in order: all, or some far and some spread."""
    eligible = distances > 0
    if masses is not None:
        eligible &= masses > 0
    rows = order[eligible[order]]
    if len(rows) <= most:
        return rows
    far = torch.sort(-distances[rows], stable=True).indices[: most // 2]
    spread = np.linspace(0, len(rows) - 1, most // 2).astype(np.int64)
    chosen = np.unique(np.concatenate([to_host(far)[0], spread]))
    return rows[to_device(chosen, rows)]
