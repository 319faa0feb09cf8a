"""Launching kernels at little cost to the host: looked up once, recorded, replayed.

Triton looks at every argument of every launch, which takes the host longer than many of these
kernels take the device: 20 to 70 microseconds each. Here a kernel is looked up once for arguments
of the same kind, and a sequence of launches can be recorded and run again, or made a graph of,
which takes less than one microsecond for each kernel.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from triton.runtime.jit import JITFunction

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run on the CPU, in Triton's interpreter."""
UNFUSED = {"enable_fp_fusion": False}
"""For kernels in which each operation is rounded by itself."""
FUSED = {"enable_fp_fusion": True}
"""For kernels whose bounds hold either way; Triton warns of launches that do not say it."""
PROGRAMS = 2048
"""Enough to fill any device; kernels whose lists may be short go through them with so many."""

_ASIDE = -2
"""The number of the stream for what runs beside the rest of a graph."""

_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Known(NamedTuple):
    """A launch that was looked up before."""

    kernel: Any
    named: dict[str, Any]
    order: tuple[str, ...]
    """The named arguments that come after the others, in their order."""
    compiled: Any


class _Recording(threading.local):
    calls: list[_Call] | None = None
    known: list[_Known] | None = None
    """What the tape's launches were the last time that one like it was recorded."""
    launches: int = 0
    stream: Any = None
    """Where a graph is being captured, while something is launched beside the rest."""


_recording = _Recording()
_compiled: dict[Hashable, Any] = {}
_sequences: dict[Hashable, list[_Known]] = {}
_capturing = threading.Lock()


def launch(kernel: Any, programs: int | tuple[int, ...], *args: Any, **named: Any) -> None:
    """Launch a kernel with so many programs; while a tape is recorded, put it on the tape."""
    grid = (programs,) if isinstance(programs, int) else programs
    if not isinstance(kernel, JITFunction):  # Triton's interpreter
        do(kernel[grid], *args, **named)
        return
    grid = (*grid, 1, 1)[:3]
    known = _recalled(kernel, named) or _looked_up(kernel, grid, args, named)
    values = (*args, *(named[name] for name in known.order))
    # Tensors as addresses, at which nobody looks again.
    do(
        known.compiled[grid],
        *(v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values),
    )


def do(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Call a function; while a tape is recorded, put it on the tape."""
    if _recording.calls is None:
        function(*args, **named)
    else:
        _recording.calls.append((function, args, named))


def beside(launches: Callable[[], None]) -> None:
    """Launch what may run beside all that is launched from here on, up to `together`.

    It does so in a graph. Without one it comes first: the host would take longer for two streams.
    """
    do(_step_aside)
    launches()
    do(_step_back)


def together() -> None:
    """Wait, on the device, for what was launched beside the rest."""
    do(_meet)


def _is_capturing() -> bool:
    return not INTERPRETED and torch.cuda.is_current_stream_capturing()


def _takes_part(stream: Any) -> bool:
    """Whether a stream is part of a capture."""
    with torch.cuda.stream(stream):
        return bool(torch.cuda.is_current_stream_capturing())


def _step_aside() -> None:
    if _is_capturing():
        aside = side_stream(torch.cuda.current_device(), _ASIDE)
        _recording.stream = torch.cuda.current_stream()
        aside.wait_stream(_recording.stream)
        torch.cuda.set_stream(aside)


def _step_back() -> None:
    if _is_capturing():
        torch.cuda.set_stream(_recording.stream)


def _meet() -> None:
    if _is_capturing():
        aside = side_stream(torch.cuda.current_device(), _ASIDE)
        torch.cuda.current_stream().wait_stream(aside)


def _recalled(kernel: Any, named: dict[str, Any]) -> _Known | None:
    """Return the launch that was at this place of a tape of the same signature, if it was this."""
    known, place = _recording.known, _recording.launches
    _recording.launches += 1
    if known is None or place >= len(known):
        return None
    candidate = known[place]
    return candidate if candidate.kernel is kernel and candidate.named == named else None


def _looked_up(
    kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], named: dict[str, Any]
) -> _Known:
    """Return the compiled kernel for such arguments."""
    order = tuple(kernel.arg_names[len(args) :])
    values = (*args, *(named[name] for name in order))
    options = tuple(item for item in named.items() if item[0] not in kernel.arg_names)
    kinds = tuple(
        value if parameter.is_constexpr else _kind(value)
        for parameter, value in zip(kernel.params, values, strict=True)
    )
    key = (kernel, torch.cuda.current_device(), kinds, options)
    found = _compiled.get(key)
    if found is None:
        found = _compiled[key] = kernel.warmup(*args, grid=grid, **named)
    known = _Known(kernel, named, order, found)
    if _recording.known is not None and _recording.launches > len(_recording.known):
        _recording.known.append(known)
    return known


def _kind(value: Any) -> Hashable:
    """Return what a compiled kernel may depend on: Triton asks for no more than this."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if type(value) is int:
        return value == 1, value % 16 == 0, -(2**31) <= value < 2**31
    return float if type(value) is float else value


class Tape:
    """A sequence of launches, with their arguments.

    Whoever records it keeps the tensors alive that it works on.

    Parameters
    ----------
    launches : callable
        Launches them.
    signature : hashable or None, default=None
        Tapes of the same signature have the same kernels for arguments of the same kind, with the
        same named ones: their kernels are looked up once.
    """

    def __init__(self, launches: Callable[[], None], signature: Hashable = None) -> None:
        self._calls: list[_Call] = []
        try:
            _recording.calls, _recording.launches = self._calls, 0
            if signature is not None:
                _recording.known = _sequences.setdefault(signature, [])
            launches()
        finally:
            _recording.calls = _recording.known = None

    def run(self) -> None:
        """Launch all of it."""
        for call, args, named in self._calls:
            call(*args, **named)


class Graph:
    """Tapes one after the other, captured: dearer than two runs of them, cheaper than many."""

    def __init__(self, tapes: Sequence[Tape]) -> None:
        self._graph = torch.cuda.CUDAGraph()
        device = torch.cuda.current_device()
        stream, aside = side_stream(device), side_stream(device, _ASIDE)
        # There is one stream for this. Other threads may go on with all else that they do.
        with _capturing:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._graph.capture_begin(capture_error_mode="thread_local")
                try:
                    for tape in tapes:
                        tape.run()
                finally:
                    # A tape that was interrupted may have left the streams anyhow; a capture that
                    # does not end would break all later ones.
                    torch.cuda.set_stream(stream)
                    if _takes_part(aside):
                        stream.wait_stream(aside)
                    self._graph.capture_end()
            torch.cuda.current_stream().wait_stream(stream)

    def run(self) -> None:
        """Launch all of it."""
        self._graph.replay()


@cache
def side_stream(device: int, number: int = -1) -> Any:
    """Return a stream beside the current one: kept, for a new one may cost milliseconds.

    Graphs are captured on number -1.
    """
    return torch.cuda.Stream(device)
