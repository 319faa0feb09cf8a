"""Where the time of one fit goes: kernels by torch.profiler, Python on the host by cProfile."""

from __future__ import annotations

import cProfile
import pstats
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from gpu_contenders import Contender
from gpu_data import Problem
from gpu_options import Settings
from gpu_records import Profile
from gpu_timing import seconds_of, synchronize
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

SHOWN = 25  # functions of the host


def measure_profile(problem: Problem, settings: Settings, contender: Contender) -> Profile:
    """Profile one fit of the part steps, after one that compiles."""
    call = partial(contender.run, problem.points, problem.start, settings.iterations)
    seconds_of(call, settings.device)
    _, seconds = seconds_of(call, settings.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernels = _kernels(call, settings.device)
        host = _host(call, settings.device)
    return Profile(contender.title, problem.data, problem.shape, seconds, kernels, host)


def _kernels(call: Callable[[], Any], device: str) -> list[tuple[str, int, float]]:
    if device == "cpu":
        return []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        call()
        synchronize(device)
    found = [
        (event.key, event.count, 1e-3 * event.self_device_time_total)
        for event in profiler.key_averages()
        if event.device_type == DeviceType.CUDA
    ]
    return sorted(found, key=lambda entry: -entry[2])


def _host(call: Callable[[], Any], device: str) -> list[tuple[str, int, float]]:
    profiler = cProfile.Profile()
    profiler.enable()
    call()
    synchronize(device)
    profiler.disable()
    rows = []
    for place, times in pstats.Stats(profiler).stats.items():
        path, line, name = place
        where = f" ({path.rsplit('/', 1)[-1]}:{line})" if line else ""
        rows.append((f"{name}{where}", int(times[1]), 1e3 * times[3]))
    return sorted(rows, key=lambda entry: -entry[2])[:SHOWN]


def text_of(found: Profile) -> str:
    """Write a profile as plain text."""
    busy = sum(entry[2] for entry in found.kernels)
    head = (
        f"{found.title} on {found.data} {found.shape}: {1e3 * found.seconds:.2f} ms unprofiled, "
        f"{busy:.2f} ms of kernels and copies"
    )
    lines = [head, "      ms  launches  kernel"]
    lines += [f"{spent:8.3f}  {count:8d}  {name[:100]}" for name, count, spent in found.kernels]
    lines += ["      ms     calls  on the host, own and below"]
    lines += [f"{spent:8.3f}  {count:8d}  {name}" for name, count, spent in found.host]
    return "\n".join(lines)
