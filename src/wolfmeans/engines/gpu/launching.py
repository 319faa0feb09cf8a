"""Launching kernels at little cost to the host: looked up once, recorded, replayed.

Triton looks at every argument of every launch, which takes the host longer than many of these
kernels take the device: 20 to 70 microseconds each. Here a kernel is looked up once for arguments
of the same kind, and a sequence of launches can be recorded and run again as a graph, which takes
less than one microsecond each.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import torch
from triton.runtime.jit import JITFunction

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run on the CPU, in Triton's interpreter."""
UNFUSED = {"enable_fp_fusion": False}
"""For kernels in which each operation is rounded by itself."""
PROGRAMS = 2048
"""Enough to fill any device; kernels whose lists may be short go through them with so many."""

_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Recording(threading.local):
    calls: list[_Call] | None = None


_recording = _Recording()
_compiled: dict[Hashable, Any] = {}


def launch(kernel: Any, programs: int | tuple[int, ...], *args: Any, **named: Any) -> None:
    """Launch a kernel with so many programs; while a tape is recorded, put it on the tape."""
    grid = (programs,) if isinstance(programs, int) else programs
    if isinstance(kernel, JITFunction):
        grid = (*grid, 1, 1)[:3]
        runner, values = _looked_up(kernel, grid, args, named)
        do(runner, *values)
    else:  # Triton's interpreter
        do(kernel[grid], *args, **named)


def do(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Call a function; while a tape is recorded, put it on the tape."""
    if _recording.calls is None:
        function(*args, **named)
    else:
        _recording.calls.append((function, args, named))


def _looked_up(
    kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what launches the compiled kernel, and all its arguments in their order."""
    names = kernel.arg_names
    values = (*args, *(named[name] for name in names[len(args) :]))
    options = tuple(item for item in named.items() if item[0] not in names)
    kinds = tuple(
        value if parameter.is_constexpr else _kind(value)
        for parameter, value in zip(kernel.params, values, strict=True)
    )
    key = (kernel, torch.cuda.current_device(), kinds, options)
    found = _compiled.get(key)
    if found is None:
        found = _compiled[key] = kernel.warmup(*args, grid=grid, **named)
    # Tensors as addresses, at which nobody looks again.
    return found[grid], tuple(v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values)


def _kind(value: Any) -> Hashable:
    """Return what a compiled kernel may depend on: Triton asks for no more than this."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if type(value) is int:
        return value == 1, value % 16 == 0, -(2**31) <= value < 2**31
    return float if type(value) is float else value


@cache
def _stream(device: int) -> Any:
    """Return the stream on which graphs of a device are captured: a new one costs milliseconds."""
    return torch.cuda.Stream(device)


class Tape:
    """A sequence of launches, with their arguments.

    Whoever records it keeps the tensors alive that it works on.
    """

    def __init__(self, launches: Callable[[], None]) -> None:
        self._calls: list[_Call] = []
        _recording.calls = self._calls
        try:
            launches()
        finally:
            _recording.calls = None
        self._graph: Any = None

    def run(self) -> None:
        """Launch all of it."""
        if self._graph is not None:
            self._graph.replay()
            return
        for call, args, named in self._calls:
            call(*args, **named)

    def compress(self) -> None:
        """Make a graph of it on a real device: dearer than two runs, cheaper than many."""
        if self._graph is None and not INTERPRETED:
            graph = torch.cuda.CUDAGraph()
            stream = _stream(torch.cuda.current_device())
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                # Other threads may go on with what they do.
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self.run()
                finally:
                    graph.capture_end()
            torch.cuda.current_stream().wait_stream(stream)
            self._graph = graph
