"""Sequences of kernels that are captured once and replayed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

_compiled: set[Hashable] = set()


def captured(launch: Callable[[], None], signature: Hashable) -> Any:
    """Return a graph of what is launched.

    Kernels that have never run are compiled first, by launching them: a run goes on from there, for
    what a graph does is what the launches do.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        if signature not in _compiled:
            launch()
            stream.synchronize()
            _compiled.add(signature)
        graph.capture_begin()
        try:
            launch()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph
