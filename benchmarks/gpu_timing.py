"""Timing on a device, and the machine it is in.

The figure that counts is the wall clock between two synchronizations, because what the host does is
part of a fit. The time between two CUDA events around the same call stands beside it.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
from gpu_contenders import Contender

from wolfmeans.bench.machine import machine
from wolfmeans.engines import effective_threads


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@dataclass
class Lane:
    """What one contender returned and took, run after run."""

    device: str
    walls: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    ended: Any = None
    failure: str | None = None

    def run(self, call: Callable[[], Any]) -> None:
        """Call, and note the times; whatever goes wrong is the last word on this lane."""
        if self.failure is not None:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._timed(call)
        except Exception as error:
            traceback.print_exc()
            self.ended, self.failure = None, f"failed: {error!r}"[:500]

    def _timed(self, call: Callable[[], Any]) -> None:
        marks = []
        if self.device == "cuda":
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.ended = None  # frees what the last run returned
        synchronize(self.device)
        begun = time.perf_counter()
        for mark in marks[:1]:
            mark.record()
        self.ended = call()
        for mark in marks[1:]:
            mark.record()
        synchronize(self.device)
        self.walls.append(time.perf_counter() - begun)
        if marks:
            self.events.append(1e-3 * marks[0].elapsed_time(marks[1]))

    def forget(self) -> float:
        """Drop the times of a warm-up, and return the last one."""
        last = self.walls[-1] if self.walls else 0.0
        self.walls, self.events = [], []
        return last

    def wants_more(self, repeats: int, budget: float) -> bool:
        if self.failure is not None or len(self.walls) >= repeats:
            return False
        return not self.walls or sum(self.walls) + self.walls[-1] <= budget


def in_turn(
    lanes: dict[str, Lane],
    calls: dict[str, Callable[[], Any]],
    *,
    repeats: dict[str, int],
    budget: float,
) -> None:
    """Run A B C A B C …, so that what else happens on the machine happens to all."""
    while any(lane.wants_more(repeats[title], budget) for title, lane in lanes.items()):
        for title, lane in lanes.items():
            if lane.wants_more(repeats[title], budget):
                lane.run(calls[title])


def seconds_of(call: Callable[[], Any], device: str) -> tuple[Any, float]:
    """Call once and return what came back and the wall clock's seconds; failures are raised."""
    lane = Lane(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lane._timed(call)
    return lane.ended, lane.walls[-1]


def machine_of(device: str) -> dict[str, str]:
    """Return what is known about this machine and its card."""
    found = machine(effective_threads(None))
    if device == "cpu":
        return {"GPU": "none: Triton's interpreter on the CPU", **found}
    card = torch.cuda.get_device_properties(0)
    driver, clock = _driver()
    return {
        "GPU": f"{card.name}, {card.total_memory / 2**30:.0f} GiB",
        "driver": driver,
        "CUDA": str(torch.version.cuda),
        "clock at the start": clock,
        **found,
    }


def _driver() -> tuple[str, str]:
    """Return the version of the driver, and the clock of the card with its limit."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown", "unknown"
    asked = "--query-gpu=driver_version,clocks.sm,clocks.max.sm"
    done = subprocess.run(
        [program, asked, "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or not done.stdout.strip():
        return "unknown", "unknown"
    driver, now, most = (part.strip() for part in done.stdout.splitlines()[0].split(","))
    return driver, f"{now} of {most}"


def versions_of(contenders: Sequence[Contender]) -> dict[str, str]:
    found = {one.package: one.version() for one in contenders}
    rest = {"torch": torch.__version__, "triton": triton.__version__, "numpy": np.__version__}
    return {**found, **rest, "python": platform.python_version()}
