"""What gpu.py runs, in which order; whoever imports it needs PyTorch and Triton."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial

import torch
from gpu_contenders import Contender, contenders_of
from gpu_data import problem_of
from gpu_options import QUICK, STARTED, STREAMED, Settings
from gpu_parts import (
    measure_fits,
    measure_large,
    measure_starts,
    measure_steps,
    measure_streamed,
)
from gpu_profile import measure_profile, text_of
from gpu_records import Report
from gpu_report import large_line, line_of
from gpu_timing import machine_of, versions_of

from wolfmeans.bench.problems import Shape

Measuring = Callable[[], Iterator[str]]


def run(settings: Settings, say: Callable[[str], None], save: Callable[[Report], None]) -> Report:
    """Measure all that was asked for; `save` gets the report after each step."""
    begun = time.perf_counter()
    contenders, missing = contenders_of(
        settings.contenders, device=settings.device, autotune=settings.autotune
    )
    report = Report(
        machine=machine_of(settings.device),
        versions=versions_of(contenders),
        date=date.today().isoformat(),
        selection=settings.describe(),
        missing=missing,
    )
    for entry in missing:
        say(f"missing: {entry}")
    for line in _measure(settings, contenders, report, begun + settings.time_limit):
        report.seconds = time.perf_counter() - begun
        say(f"[{report.seconds:6.1f} s] {line}")
        save(report)
    return report


def _measure(
    settings: Settings, contenders: Sequence[Contender], report: Report, deadline: float
) -> Iterator[str]:
    """Yield a line for each thing that was measured; one that fails does not cost the others."""
    for name, measure in _tasks(settings, contenders, report):
        if time.perf_counter() > deadline:
            report.missing.append(f"{name} (the time limit)")
            yield f"{name}: not run, the time limit"
            continue
        try:
            yield from measure()
        except Exception as error:
            traceback.print_exc()
            report.missing.append(f"{name} ({error!r})"[:500])
            yield f"{name}: failed: {error!r}"
        if settings.device == "cuda":
            torch.cuda.empty_cache()


def _tasks(
    settings: Settings, contenders: Sequence[Contender], report: Report
) -> Iterator[tuple[str, Measuring]]:
    """Yield names and what measures them; both kinds of a shape in turn, for peers compile anew
    for every n.
    """
    parts = set(settings.parts)
    if parts & {"steps", "fits", "profile"}:
        for shape in settings.shapes:
            for data in settings.kinds:
                task = partial(_cells, data, shape, settings, contenders, report)
                yield f"{data} {shape}", task
    if "large" in parts:
        yield "large", partial(_large, settings, report)
    for part, shapes in (("starts", STARTED), ("streamed", (STREAMED,))):
        if part in parts:
            for shape in (QUICK,) if settings.quick else shapes:
                for data in settings.kinds:
                    task = partial(_further, part, data, shape, settings, report)
                    yield f"{part} {data} {shape}", task


def _cells(
    data: str,
    shape: Shape,
    settings: Settings,
    contenders: Sequence[Contender],
    report: Report,
) -> Iterator[str]:
    problem = problem_of(data, shape, settings.device)
    parts = settings.parts
    if "steps" in parts:
        report.cells.append(measure_steps(problem, settings, contenders))
        yield line_of(report.cells[-1])
    if "fits" in parts:
        compare = "steps" not in parts
        report.cells.append(measure_fits(problem, settings, contenders, compare=compare))
        yield line_of(report.cells[-1])
    if "profile" in parts:
        for contender in contenders:
            report.profiles.append(measure_profile(problem, settings, contender))
            yield text_of(report.profiles[-1])


def _large(settings: Settings, report: Report) -> Iterator[str]:
    for found in measure_large(settings):
        report.large = [found]
        yield f"large: {large_line(found)}\n{found.certificate}"


def _further(
    part: str, data: str, shape: Shape, settings: Settings, report: Report
) -> Iterator[str]:
    if part == "starts":
        report.starts.append(measure_starts(data, shape, settings))
        yield f"starts: {report.starts[-1]}"
    else:
        report.streamed.append(measure_streamed(data, shape, settings))
        yield f"streamed: {report.streamed[-1]}"
