"""Data in the host's memory that comes to the device in parts, through two pinned buffers.

While the device works on one part, the next is on its way and the host fills the buffer for the
one after it. Of a part all rows may come, or some that are listed, which the host picks out. What
there is room for stays on the device when it comes for the first time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.gpu.rows import Rows
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.transfers import as_tensor, room, to_device, to_host
from wolfmeans.exact.native import value_range

_SAMPLE = 1 << 11
_LEAST_BYTES = 1 << 20
"""Not worth a thread of their own."""
_UNUSUAL = 1.25
"""Rows that lose so many times as much as any row of a sample count as large ones."""


class Part(NamedTuple):
    """Rows that are in the window together, ascending."""

    rows: slice | NDArray[np.int64]
    """Which they are, for arrays on the host."""
    places: slice | torch.Tensor
    """The same for tensors on the device."""

    @property
    def size(self) -> int:
        """How many they are."""
        if isinstance(self.rows, slice):
            return int(self.rows.stop - self.rows.start)
        return len(self.rows)


class Window(Screened):
    """Some rows of the data, others from time to time; what they are compared with is for all.

    The frame is that of a sample. Rows that lose unusually much in short arithmetic are marked as
    unusually large ones: canonical distances always decide them (`screening`).
    """

    def __init__(self, X: torch.Tensor, sample: torch.Tensor, sizes: tuple[float, float]) -> None:
        self._sample = Screened(sample, sizes, to_host(sample)[0])
        super().__init__(X, sizes, to_host(sample[:1])[0])

    def _place(self, sample: NDArray[np.floating]) -> None:
        usual = self._sample
        self.mu, self.scale, self.radius = usual.mu, usual.scale, usual.radius

    def _shorten(self) -> None:
        super()._shorten()
        self.rho = _UNUSUAL * self._sample.rho

    def show(self, X: torch.Tensor) -> None:
        """Let these be the rows; how far they are from all centers can be asked for."""
        self.X, self.n = X, len(X)

    def copy_short(self) -> None:
        """Launch kernels that copy the rows into short arithmetic, so that they can be screened."""
        self.shorten()
        if not self.direct:
            unusual = self.errors[: self.n] > self.rho
            self.sizes[: self.n].masked_fill_(unusual, math.inf)


class _Lane:
    """One of the two ways to the device: buffers at both ends, and when they can be used again."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, device: str) -> None:
        self.X = torch.zeros(shape, dtype=dtype, device=device)
        self._masses: torch.Tensor | None = None
        self._pinned: dict[str, torch.Tensor] = {}
        self._on_device = on_device = device == "cuda"
        self.arrived: Any = torch.cuda.Event() if on_device else None
        self.used: Any = torch.cuda.Event() if on_device else None

    @property
    def masses(self) -> torch.Tensor:
        """Room for the masses of the rows."""
        if self._masses is None:
            self._masses = torch.zeros(len(self.X), dtype=torch.float64, device=self.X.device)
        return self._masses

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        """Return as much pinned memory on the host as a buffer has on the device."""
        key = "masses" if like.ndim == 1 else "X"
        if key not in self._pinned:
            shape = (len(self.X), *like.shape[1:])
            self._pinned[key] = room(shape, like.dtype, self._on_device)
        return self._pinned[key][: len(like)]

    def wait(self) -> None:
        """Wait on the host until what was sent last has arrived."""
        if self.arrived is not None:
            self.arrived.synchronize()


class Streamed:
    """An array in the host's memory with a window on the device. Shared by forks, never changed.

    Parameters
    ----------
    X : (n, d) C-contiguous array of float32 or float64
    device : "cuda", or "cpu" where kernels are interpreted
    capacity : int
        How many rows the window has, a multiple of `memory.ALIGNED`.
    staying : int
        How many rows may stay on the device.
    n_threads : int
        For what is done on the host.
    """

    def __init__(
        self, X: NDArray[np.floating], device: str, capacity: int, staying: int, n_threads: int
    ) -> None:
        self.n, self.d = X.shape
        self.X, self.device, self.capacity = X, device, capacity
        self.uploaded = 0
        """How many bytes have been sent to the device, for tests."""
        self._n_threads = n_threads
        self._pool: ThreadPoolExecutor | None = None
        self._host = as_tensor(X)
        self._pinned = device == "cuda" and self._host.is_pinned()
        sizes = value_range(X, n_threads)[1:]
        sample = torch.from_numpy(X[:: max(1, self.n // _SAMPLE)].copy()).to(device)
        self._lanes = [_Lane((capacity, self.d), sample.dtype, device) for _ in range(2)]
        self.window = Window(self._lanes[0].X, sample, sizes)
        self.rows = Rows(self.window, None)
        many = self.n if staying >= self.n else staying // capacity * capacity
        self._staying = torch.empty((many, self.d), dtype=sample.dtype, device=device)
        self._stayed = 0
        self._sending: Any = torch.cuda.Stream() if device == "cuda" else None

    def everything(self) -> list[Part]:
        """Return all rows in parts."""
        starts = range(0, self.n, self.capacity)
        slices = [slice(start, min(start + self.capacity, self.n)) for start in starts]
        return [Part(rows, rows) for rows in slices]

    def listed(self, rows: NDArray[np.int64], places: torch.Tensor | None = None) -> list[Part]:
        """Return some rows in parts; `places` has them on the device, where they are there."""
        sent = to_device(rows, self.window.X) if places is None else places
        starts = range(0, len(rows), self.capacity)
        pieces = [slice(start, start + self.capacity) for start in starts]
        return [Part(rows[piece], sent[piece]) for piece in pieces]

    def pass_by(
        self,
        parts: Sequence[Part],
        masses: NDArray[np.float64] | None = None,
        *,
        short: bool = False,
    ) -> Iterator[Part]:
        """Bring parts into the window, one after the other, with the masses of their rows.

        A part is shown from when it is yielded until the next one is asked for; `short` says
        whether its copy in short arithmetic is wanted.
        """
        if self._sending is not None:
            self._sending.wait_stream(torch.cuda.current_stream())
        lanes = cycle(self._lanes)
        before: tuple[_Lane, Part, torch.Tensor] | None = None
        try:
            for part in (*parts, None):
                following = None
                if part is not None:
                    lane = next(lanes)
                    following = lane, part, self._send(lane, part, masses)
                if before is not None:
                    yield from self._show(*before, masses is not None, short)
                before = following
        finally:
            if self._sending is not None:
                self._sending.synchronize()

    def _show(
        self, lane: _Lane, part: Part, X: torch.Tensor, weighted: bool, short: bool
    ) -> Iterator[Part]:
        if lane.arrived is not None:
            torch.cuda.current_stream().wait_event(lane.arrived)
        self.window.show(X)
        self.rows.masses = lane.masses if weighted else None
        if short:
            self.window.copy_short()
        yield part
        if lane.used is not None:
            lane.used.record()

    def _send(self, lane: _Lane, part: Part, masses: NDArray[np.float64] | None) -> torch.Tensor:
        """Send a part on its way; return the tensor in which it arrives."""
        lane.wait()
        with self._aside():
            if self._sending is not None:
                self._sending.wait_event(lane.used)
            X = self._send_rows(lane, part)
            if masses is not None:
                self._copy(lane, masses, part.rows, lane.masses[: part.size])
            if lane.arrived is not None:
                lane.arrived.record()
        return X

    def _aside(self) -> AbstractContextManager[object]:
        """Return what makes transfers run beside the kernels."""
        return nullcontext() if self._sending is None else torch.cuda.stream(self._sending)

    def _send_rows(self, lane: _Lane, part: Part) -> torch.Tensor:
        rows, places, target = part.rows, part.places, lane.X[: part.size]
        if isinstance(rows, slice):
            if rows.stop <= self._stayed:
                return self._staying[rows]
            stays = rows.start == self._stayed and rows.stop <= len(self._staying)
            target = self._staying[rows] if stays else target
            self._copy(lane, self.X, rows, target)
            self._stayed = rows.stop if stays else self._stayed
            return target
        assert isinstance(places, torch.Tensor)
        there = int(np.searchsorted(rows, self._stayed))
        if there:
            torch.index_select(self._staying, 0, places[:there], out=target[:there])
        if there < part.size:
            self._copy(lane, self.X, rows[there:], target[there:])
        return target

    def _copy(
        self,
        lane: _Lane,
        source: NDArray[np.floating],
        rows: slice | NDArray[np.int64],
        target: torch.Tensor,
    ) -> None:
        """Copy rows of the host's to the device, through pinned memory where they are not there."""
        self.uploaded += target.numel() * target.element_size()
        if source is self.X and self._pinned and isinstance(rows, slice):
            target.copy_(self._host[rows], non_blocking=True)
            return
        buffer = lane.pinned(target)
        self._fill(buffer.numpy(), source, rows)
        target.copy_(buffer, non_blocking=True)

    def _fill(
        self,
        buffer: NDArray[np.floating],
        source: NDArray[np.floating],
        rows: slice | NDArray[np.int64],
    ) -> None:
        """Copy rows from one place on the host to another, with several threads."""

        def fill(begin: int) -> None:
            end = min(begin + many, len(buffer))
            if isinstance(rows, slice):
                np.copyto(buffer[begin:end], source[rows.start + begin : rows.start + end])
            else:
                # Rows are in range; NumPy writes to `out` without a copy only in mode "clip".
                np.take(source, rows[begin:end], axis=0, out=buffer[begin:end], mode="clip")

        least = -(-_LEAST_BYTES // buffer[:1].nbytes)
        many = max(least, -(-len(buffer) // self._n_threads))
        begins = range(0, len(buffer), many)
        if len(begins) == 1:
            fill(0)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._n_threads)
        for _ in self._pool.map(fill, begins):
            pass
