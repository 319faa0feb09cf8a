"""The parts of gpu.py: `run` measures in turn, and `measure_<part>` returns a record.

Importing this needs PyTorch and Triton.
"""

from __future__ import annotations

import cProfile
import pstats
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import torch
from gpu_checks import compare_engines, differences, inertia_of, judge
from gpu_contenders import (
    Contender,
    Ended,
    Problem,
    Wolfmeans,
    at_fixpoint,
    contenders_of,
    model_of,
    points_of,
    problem_of,
    starts_of,
)
from gpu_options import QUICK, STARTED, STREAMED, Settings
from gpu_report import (
    OURS,
    PLAIN,
    Cell,
    Equality,
    Large,
    Outcome,
    Profile,
    Report,
    Starts,
    Streamed,
    large_line,
    line_of,
)
from gpu_timing import Lane, in_turn, machine_of, seconds_of, synchronize, versions_of
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from wolfmeans import KMeans
from wolfmeans.bench.problems import Shape

SHOWN = 25  # functions of the host in a profile
SLOW = 4.0  # times wolfmeans' time, and a contender is run twice instead of `repeats` times
FIT_REPEATS = 3  # whole fits are long


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


# --- Parts -----------------------------------------------------------------------------------


def measure_steps(problem: Problem, settings: Settings, contenders: Sequence[Contender]) -> Cell:
    """Race over a fixed number of iterations; wolfmeans ends earlier at the fixpoint."""
    lanes = {one.title: Lane(settings.device) for one in contenders}
    calls = {
        one.title: partial(one.run, problem.points, problem.start, settings.iterations)
        for one in contenders
    }
    ours = 0.0
    repeats = {}
    for title, lane in lanes.items():
        lane.run(calls[title])  # compiles
        first = lane.forget()
        if first < settings.budget and settings.repeats > 1:
            lane.run(calls[title])
            first = lane.forget()
        if title == OURS:
            ours = first
        repeats[title] = min(2, settings.repeats) if first > SLOW * ours else settings.repeats
    in_turn(lanes, calls, repeats=repeats, budget=settings.budget)
    equality = _equality(problem, settings, settings.iterations)
    return _cell("steps", problem, settings, contenders, lanes, settings.iterations, equality)


def measure_fits(
    problem: Problem, settings: Settings, contenders: Sequence[Contender], *, compare: bool
) -> Cell:
    """Race to labels that no longer change; the others make as many iterations as wolfmeans.

    Plain PyTorch is left out: its time for so many iterations says nothing new.
    """
    chosen = [one for one in contenders if one.title != PLAIN]
    lanes = {one.title: Lane(settings.device) for one in chosen}
    cap = settings.cap_of(problem.shape)
    calls = {OURS: partial(Wolfmeans().run, problem.points, problem.start, cap)}
    lanes[OURS].run(calls[OURS])
    iterations = cap if lanes[OURS].ended is None else lanes[OURS].ended.iterations
    for one in chosen:
        if one.title != OURS:
            calls[one.title] = partial(one.run, problem.points, problem.start, iterations)
            lanes[one.title].run(partial(one.run, problem.points, problem.start, 2))
    for lane in lanes.values():
        lane.forget()
    repeats = dict.fromkeys(lanes, min(FIT_REPEATS, settings.repeats))
    in_turn(lanes, calls, repeats=repeats, budget=settings.budget)
    equality = _equality(problem, settings, cap) if compare else None
    return _cell("fits", problem, settings, chosen, lanes, cap, equality)


def _equality(problem: Problem, settings: Settings, iterations: int) -> Equality | str:
    if settings.equality_work <= 0:
        return "not asked for"
    lane = Lane(settings.device)
    lane.run(partial(compare_engines, problem, iterations, settings.equality_work))
    return lane.failure or lane.ended


def _cell(
    part: str,
    problem: Problem,
    settings: Settings,
    contenders: Sequence[Contender],
    lanes: dict[str, Lane],
    asked: int,
    equality: Equality | str | None,
) -> Cell:
    ended = lanes[OURS].ended
    best = None if ended is None else inertia_of(problem.points, ended.centers)
    outcomes: dict[str, Outcome | str] = {}
    for one in contenders:
        lane = lanes[one.title]
        judging = Lane(settings.device)
        if lane.failure is None:
            judging.run(partial(_outcome, one, lane, problem, settings.check_work, best))
        outcomes[one.title] = lane.failure or judging.failure or judging.ended
    return Cell(
        part=part,
        data=problem.data,
        shape=problem.shape,
        asked=asked,
        fixpoint=ended is not None and at_fixpoint(ended),
        outcomes=outcomes,
        equality=equality,
    )


def _outcome(
    contender: Contender, lane: Lane, problem: Problem, work: float, best: float | None
) -> Outcome:
    ended: Ended = lane.ended
    points = problem.points
    returned = judge(points, ended.centers, ended.labels, work)
    verdict = None
    for labels, centers in contender.pairs(points, ended):
        together = labels is ended.labels and centers is ended.centers
        verdict = (returned if together else judge(points, centers, labels, work)).better(verdict)
    reached = inertia_of(points, ended.centers)
    return Outcome(
        iterations=ended.iterations,
        seconds=lane.walls,
        device_seconds=lane.events,
        verdict=verdict or returned,
        returned=returned,
        excess=(reached - best) / best if best else None,
    )


def measure_large(settings: Settings) -> Iterator[Large]:
    """Fit as many points as fill a card, and keep what its certificate says.

    A lower bound takes its time on the host: there is a record before it, and one with it.
    """
    shape, device = settings.large_shape, settings.device
    points = points_of("blobs", shape, device)
    common = {"n_init": 1, "stop": settings.large_stop, "bound": None, "engine": "gpu"}
    common |= {"tol": 0.0 if settings.large_stop == "stationary" else 1e-6}
    problem = Problem("blobs", points, starts_of(points, shape.n_clusters)[0])
    init = problem.start if settings.large_init == "given" else settings.large_init

    def fitted(begin: Any, max_iter: int) -> Any:
        model = KMeans(shape.n_clusters, init=begin, max_iter=max_iter, random_state=0, **common)
        return model.fit(points)

    first, _ = seconds_of(partial(fitted, init, 2), device)  # compiles, seeding included
    short = {}
    for count in (2, min(12, settings.large_cap)):
        for _ in range(2):
            one, spent = seconds_of(partial(fitted, first.initial_centers_, count), device)
            short[one.n_iter_] = min(spent, short.get(one.n_iter_, spent))
    few, many = min(short), max(short)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    model, seconds = seconds_of(partial(fitted, init, settings.large_cap), device)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    certificate = model.certificate_
    centers = torch.from_numpy(model.cluster_centers_).to(points.device)
    found = Large(
        data=problem.data,
        shape=shape,
        init=settings.large_init,
        stop=settings.large_stop,
        seconds=seconds,
        step_seconds=(short[many] - short[few]) / max(1, many - few),
        iterations=model.n_iter_,
        fixpoint=at_fixpoint(Ended(None, None, 0, model=model)),
        status=str(certificate.status.value),
        gap=certificate.gap,
        decrease=certificate.decrease,
        inertia=certificate.inertia,
        max_iterations=certificate.max_iterations,
        lower_bound=None,
        lower_bound_kind=None,
        certify_seconds=None,
        certificate=str(certificate),
        data_bytes=points.element_size() * points.nelement(),
        peak_bytes=peak,
        verdict=judge(points, centers, model.labels_, settings.check_work),
        equality=_equality(problem, settings, settings.iterations),
    )
    yield found
    if settings.certify:
        look = partial(model.certify, points, method=settings.certify, random_state=0)
        certificate, seconds = seconds_of(look, device)
        yield replace(
            found,
            lower_bound=certificate.lower_bound,
            lower_bound_kind=certificate.lower_bound_kind,
            certify_seconds=seconds,
            certificate=str(certificate),
        )


def measure_starts(data: str, shape: Shape, settings: Settings) -> Starts:
    """Run many starts in one call, and each of them by itself; the best must be the same."""
    points = points_of(data, shape, settings.device)
    starts = starts_of(points, shape.n_clusters, settings.n_starts)
    cap = settings.cap_of(shape)

    def together() -> Any:
        waiting = iter(starts)
        model = KMeans(
            shape.n_clusters,
            init=lambda X, n_clusters, random_state: next(waiting).cpu().numpy(),
            n_init=len(starts),
            max_iter=cap,
            stop="stationary",
            tol=0.0,
            bound=None,
            engine="gpu",
            empty="keep",  # as `model_of` has it
        )
        return model.fit(points)

    def apart() -> Any:
        return min((model_of(one, cap).fit(points) for one in starts), key=lambda m: m.inertia_)

    lanes = {name: Lane(settings.device) for name in ("together", "apart")}
    calls = {"together": together, "apart": apart}
    if settings.repeats > 1:
        for name, lane in lanes.items():
            lane.run(calls[name])  # compiles
            lane.forget()
    repeats = dict.fromkeys(lanes, min(FIT_REPEATS, settings.repeats))
    in_turn(lanes, calls, repeats=repeats, budget=settings.budget)
    for lane in lanes.values():
        if lane.failure is not None:
            raise RuntimeError(lane.failure)
    return Starts(
        data=data,
        shape=shape,
        starts=len(starts),
        max_iter=cap,
        together=lanes["together"].walls,
        apart=lanes["apart"].walls,
        equal=not differences(lanes["together"].ended, lanes["apart"].ended),
    )


def measure_streamed(data: str, shape: Shape, settings: Settings) -> Streamed:
    """Fit pinned host memory with less memory on the device than the data has.

    The budget is PyTorch's limit for this process. An engine that does not stream raises
    MemoryError, which is then the result.
    """
    host = points_of(data, shape, settings.device, pinned=True)
    points = host.to(settings.device)
    start = starts_of(points, shape.n_clusters)[0]
    fit = partial(model_of(start, settings.iterations).fit, points)
    resident = [seconds_of(fit, settings.device) for _ in range(2)]
    expected = resident[-1][0]
    kept = expected.labels_.cpu()
    del points, fit
    budget = int(settings.stream_budget * 2**30)
    if settings.device == "cuda":
        torch.cuda.empty_cache()
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, budget / whole))
    try:
        streamed = partial(model_of(start, settings.iterations).fit, host)
        found = [seconds_of(streamed, settings.device) for _ in range(2)]
    finally:
        if settings.device == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    model = found[-1][0]
    same = torch.equal(torch.as_tensor(model.labels_).cpu(), kept)
    same = same and np.array_equal(model.cluster_centers_, expected.cluster_centers_)
    return Streamed(
        data=data,
        shape=shape,
        data_bytes=host.element_size() * host.nelement(),
        budget_bytes=budget,
        iterations=model.n_iter_,
        seconds=[found[-1][1]],
        resident_seconds=[resident[-1][1]],
        equal=same and model.inertia_ == expected.inertia_,
    )


# --- Profiles: kernels by torch.profiler, Python on the host by cProfile ------------------------


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
