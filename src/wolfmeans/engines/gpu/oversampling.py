"""Data on the device as k-means|| asks for it, with the answers of `engines.sampling.Part`.

Hashes, distances to the nearest candidates and the numbers of these stay on the device. The host
gets sums, short lists and the candidates, after one wait for each question. Integers are added, so
the order of the rows and of the atomics does not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.core.draws import integer_shift
from wolfmeans.core.workspace import Centers
from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.kernels import oversampling as kernels
from wolfmeans.engines.gpu.kernels.seeding import find_largest
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.ordering import row_hashes
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.transfers import to_device, to_host
from wolfmeans.engines.sampling import (
    HashMasses,
    Limits,
    Masses,
    Part,
    Rows,
    RowSample,
    State,
    below,
    matching_rows,
    merged_masses,
    merged_points,
    sums_in_buckets,
)
from wolfmeans.exact.hashing import Hashes
from wolfmeans.exact.hashing import row_hashes as hashes_on_host

_BLOCK = 1024
_LEAST_ROOM = 1024
_ENTRIES_AT_ONCE = 1 << 24
"""Candidates have no more entries than this when the nearest of them are found: their clusters
take memory."""
_SUMS = 4096
"""Fewer sums than this are kept several times."""


class _Known(NamedTuple):
    """What a part knows of its rows, on the device."""

    hashes: torch.Tensor
    """(n,) int64, bits of uint64."""
    closest: torch.Tensor | None = None
    """(n,) float64, squared distances to the nearest candidates, None before there is one."""
    owner: torch.Tensor | None = None
    """(n,) int32, the numbers of these."""
    n_candidates: int = 0
    """How many candidates there are."""


class GpuPart:
    """Rows on the device, for the sampling of k-means||.

    Parameters
    ----------
    data : Screened
    weights : (n,) float64 tensor or None
    rows : Rows
        The same on the host, for what all but never happens.
    known : _Known or None, default=None
        What another part of the same rows knew; None to begin.
    """

    def __init__(
        self,
        data: Screened,
        weights: torch.Tensor | None,
        rows: Rows,
        known: _Known | None = None,
    ) -> None:
        self._data, self._weights, self._rows = data, weights, rows
        self._known = _Known(row_hashes(data.X)) if known is None else known

    def size(self) -> int:
        """Return the number of rows."""
        return self._data.n

    def largest(self) -> float:
        """Return the largest mass of a row."""
        closest, weights = self._known.closest, self._weights
        if closest is None:
            return 1.0 if weights is None else float(weights.max())
        largest = self._zeros(1)
        launch(
            find_largest, self._programs(),
            self._zeros(1).view(torch.int32), closest, closest if weights is None else weights,
            largest, self._data.n, WEIGHTED=weights is not None, BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        return float(largest.view(torch.float64))

    def bucket_masses(self, shift: int, bits: int, key: int = 0, *limits: Limits) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits, or by the next ones."""
        if limits:
            return sums_in_buckets(self.listed(shift, key, *limits), bits, len(limits))
        sums = self._zeros(1 << bits)
        launch(
            kernels.sum_buckets, self._programs(),
            self._known.hashes, self._known.closest, self._weights, sums, self._data.n, shift,
            64 - bits, BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        found: Masses = to_host(sums)[0]
        return found

    def listed(self, shift: int, key: int, *limits: Limits) -> HashMasses:
        """Return what the rows weigh whose uniforms are below the limits of their buckets."""
        found = self._listed(shift, key, limits[0])
        places = below(found.hashes, key, limits[1:], 1)
        return HashMasses(found.hashes[places], found.masses[places])

    def _listed(self, shift: int, key: int, limits: Limits) -> HashMasses:
        n = self._data.n
        sent = to_device(limits, self._data.X)
        # Were all values different, there would be half as many.
        room = min(n, _LEAST_ROOM + 2 * int(n * np.minimum(limits, 1.0).mean()))
        count, some = self._list(shift, key, sent, room)
        (many,), found = to_host(count, some)
        if many <= room:
            hashes, masses = found[:, :many]
        else:
            _, some = self._list(shift, key, sent, int(many))
            values, place = torch.unique(some[0], return_inverse=True)
            sums = torch.zeros_like(values).index_add_(0, place, some[1])
            hashes, masses = to_host(values, sums)
        return merged_masses([HashMasses(hashes.view(np.uint64), masses)])

    def _list(
        self, shift: int, key: int, limits: torch.Tensor, room: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how many rows are below the limits, and hashes and masses of as many as fit."""
        count = self._zeros(1)
        listed = torch.empty((2, room), dtype=torch.int64, device=count.device)
        launch(
            kernels.list_below, self._programs(),
            self._known.hashes, self._known.closest, self._weights, limits, count, listed,
            self._data.n, shift, key - (key >> 63 << 64), 65 - len(limits).bit_length(), room,
            BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        return count, listed

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        return merged_points([self._first_rows(hashes)[1]])

    def rows_of(self, points: Centers) -> NDArray[np.int64]:
        """Return the lowest row of positive weight that is equal to each of some points here."""
        return matching_rows(points, *self._first_rows(np.unique(hashes_on_host(points))))

    def sample(self, key: int, share: float) -> RowSample:
        """Return the rows of positive weight whose uniforms, by the key, are below the share."""
        # The masses are not asked for, but have to fit.
        shift = integer_shift(self.largest(), self._data.n)
        return self.rows_with(self._listed(shift, key, np.full(2, share)).hashes)

    def rows_with(self, hashes: Hashes) -> RowSample:
        """Return the rows of positive weight that have one of these hashes, which ascend."""
        known, weights = self._known.hashes, self._weights
        rows = torch.isin(known, to_device(hashes.view(np.int64), self._data.X)).nonzero()[:, 0]
        if weights is None:
            found, points = to_host(known[rows], self._data.X[rows])
            return RowSample(found.view(np.uint64), points, np.ones(len(found))).ordered
        rows = rows[weights[rows] > 0]
        found, points, taken = to_host(known[rows], self._data.X[rows], weights[rows])
        return RowSample(found.view(np.uint64), points, taken).ordered

    def _first_rows(self, hashes: Hashes) -> tuple[NDArray[np.int64], Centers]:
        """Return the lowest row of positive weight of each value with one of these hashes.

        And the values. The hashes ascend.
        """
        data, n, many = self._data, self._data.n, len(hashes)
        given = self._known.hashes, self._weights, to_device(hashes.view(np.int64), data.X)
        first, others = torch.full_like(given[2], n), self._zeros(1)
        launch(
            kernels.find_first, triton.cdiv(n, 256),
            *given, first, n, many, many.bit_length(), BLOCK=256, **UNFUSED,
        )  # fmt: skip
        launch(
            kernels.count_collisions, triton.cdiv(n, 64),
            data.X, *given, first, others, n, data.d, many, many.bit_length(), BLOCK=64,
            COLUMNS=min(32, triton.next_power_of_2(data.d)), **UNFUSED,
        )  # fmt: skip
        rows, values, others = to_host(first, data.X[first.clamp(max=n - 1)], others)
        if others[0]:
            # Different values with one hash: all but impossible, and left to the specification.
            state = State(to_host(self._known.hashes)[0].view(np.uint64))
            rows = Part(self._rows, state).first_rows(hashes)
            return rows, self._rows.rows(rows)
        return rows[rows < n], values[rows < n]

    def approach(self, candidates: Centers) -> GpuPart:
        """Return the same rows with more candidates."""
        known = self._known
        many = max(1, _ENTRIES_AT_ONCE // self._data.d)
        for start in range(0, len(candidates), many):
            known = self._nearer(known, candidates[start : start + many])
        return GpuPart(self._data, self._weights, self._rows, known)

    def _nearer(self, known: _Known, candidates: Centers) -> _Known:
        data, distances = self._data, GpuKernels(self._data)
        sent = distances.on_device(candidates)
        labels = distances.labels_on_device(sent) if len(sent) > 1 else None
        nearest = torch.empty(data.n, dtype=torch.float64, device=sent.device)
        owner = torch.empty(data.n, dtype=torch.int32, device=sent.device)
        launch(
            kernels.come_nearer, triton.cdiv(data.n, 128),
            data.X, sent, labels, known.closest, known.owner, nearest, owner, data.n, data.d,
            known.n_candidates, BLOCK=128, **UNFUSED,
        )  # fmt: skip
        return _Known(known.hashes, nearest, owner, known.n_candidates + len(sent))

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        owner, many = self._known.owner, self._known.n_candidates
        if owner is None:
            return np.zeros(0, dtype=np.int64)
        replicas = triton.next_power_of_2(triton.cdiv(_SUMS, many))
        sums = self._zeros(replicas * many)
        launch(
            kernels.sum_owned, self._programs(),
            owner, self._weights, sums, self._data.n, many, shift, REPLICAS=replicas,
            BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        found: Masses = to_host(sums.view(replicas, many).sum(0))[0]
        return found

    def _programs(self) -> int:
        return int(triton.cdiv(self._data.n, _BLOCK))

    def _zeros(self, many: int) -> torch.Tensor:
        return torch.zeros(many, dtype=torch.int64, device=self._data.X.device)
