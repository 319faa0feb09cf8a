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

_MOST_RUNNERS = 256
_ASIDE = -2
"""The number of the stream for what runs beside the rest of a graph."""

_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Known(NamedTuple):
    """A launch that was looked up before."""

    kernel: Any
    named: dict[str, Any]
    compiled: Any


class _Form(NamedTuple):
    """What arguments a kernel has, so many of them without their names."""

    kernel: Any
    """Kept, so that nothing else ever has its number."""
    names: tuple[str, ...]
    constants: tuple[bool, ...]
    """Which of them are constants that it is compiled for."""
    order: tuple[str, ...]
    """Those that are named, in their order."""


class _Recording(threading.local):
    calls: list[_Call] | None = None
    known: list[_Known] | None = None
    """What the tape's launches were the last time that one like it was recorded."""
    launches: int = 0
    stream: Any = None
    """Where a graph is being captured, while something is launched beside the rest."""


_recording = _Recording()
_forms: dict[tuple[int, int], _Form] = {}
_compiled: dict[Hashable, Any] = {}
_runners: dict[Hashable, Callable[..., None]] = {}
_sequences: dict[Hashable, list[_Known]] = {}
_capturing = threading.Lock()


def launch(kernel: Any, programs: int | tuple[int, ...], *args: Any, **named: Any) -> None:
    """Launch a kernel with so many programs; while a tape is recorded, put it on the tape."""
    grid = (programs,) if isinstance(programs, int) else programs
    if not isinstance(kernel, JITFunction):  # Triton's interpreter
        do(kernel[grid], *args, **named)
        return
    grid = (*grid, 1, 1)[:3]
    form = _forms.get((id(kernel), len(args))) or _form(kernel, len(args))
    values = (*args, *[named[name] for name in form.order])
    # Tensors as addresses: Triton's own look at them would cost time.
    plain = [v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values]
    known = _recalled(kernel, named)
    if known is None:
        known = _looked_up(form, values, plain, named, lambda: (grid, args))
    do(known.compiled[grid], *plain)


def launch_as(kind: Hashable, kernel: Any, programs: int, *args: Any, **named: Any) -> None:
    """Launch a kernel that is looked up once for a kind of arguments.

    The caller ensures that arguments of one kind have the same programs and the same named ones,
    and differ by nothing that a compiled kernel depends on (`_looked_up`).
    """
    if not isinstance(kernel, JITFunction):  # Triton's interpreter
        launch(kernel, programs, *args, **named)
        return
    key = (id(kernel), kind)
    runner = _runners.get(key)
    if runner is None:
        if len(_runners) >= _MOST_RUNNERS:
            _runners.clear()
        runner = _runners[key] = _runner(kernel, (programs, 1, 1), args, named)
    do(runner, *args)


def _runner(
    kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], named: dict[str, Any]
) -> Callable[..., None]:
    """Return what launches a kernel with such arguments."""
    form = _form(kernel, len(args))
    rest = [named[name] for name in form.order]
    values = (*args, *rest)
    plain = [v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values]
    compiled = _looked_up(form, values, plain, named, lambda: (grid, args)).compiled[grid]

    def run(*given: Any) -> None:
        compiled(*[v.data_ptr() if isinstance(v, torch.Tensor) else v for v in given], *rest)

    return run


def do(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Call a function; while a tape is recorded, put it on the tape."""
    if _recording.calls is None:
        function(*args, **named)
    else:
        _recording.calls.append((function, args, named))


def beside(launches: Callable[[], None]) -> None:
    """Launch kernels that may run beside all that is launched from here on, up to `together`.

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


def _form(kernel: Any, n_args: int) -> _Form:
    """Return what arguments a kernel has; Triton reads its source for that, and to hash it."""
    names = tuple(kernel.arg_names)
    constants = tuple(parameter.is_constexpr for parameter in kernel.params)
    form = _Form(kernel, names, constants, names[n_args:])
    _forms[id(kernel), n_args] = form
    return form


def _looked_up(
    form: _Form,
    values: tuple[Any, ...],
    plain: list[Any],
    named: dict[str, Any],
    given: Callable[[], tuple[tuple[int, ...], tuple[Any, ...]]],
) -> _Known:
    """Return the compiled kernel for such arguments; `plain` has addresses in place of tensors."""
    kinds: list[Hashable] = [id(form.kernel), torch.cuda.current_device()]
    for value, number, constant in zip(values, plain, form.constants, strict=True):
        if constant:
            kinds.append(value)
        elif value is not number:
            kinds += value.dtype, number % 16 == 0
        else:
            kinds.append(_kind(value))
    kinds += [item for item in named.items() if item[0] not in form.names]
    key = tuple(kinds)
    found = _compiled.get(key)
    if found is None:
        grid, args = given()
        found = _compiled[key] = form.kernel.warmup(*args, grid=grid, **named)
    known = _Known(form.kernel, named, found)
    if _recording.known is not None and _recording.launches > len(_recording.known):
        _recording.known.append(known)
    return known


def _kind(value: Any) -> Hashable:
    """Return what a compiled kernel may depend on: Triton uses no more than this."""
    if type(value) is int:
        return (value == 1) + 2 * (value % 16 == 0) + 4 * (-(2**31) <= value < 2**31)
    return float if type(value) is float else (value,)


class Tape:
    """A sequence of launches, with their arguments.

    The caller keeps the tensors alive that it works on.

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
