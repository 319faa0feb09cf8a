"""wolfmeans on a CPU beside its peers: the same data, the same start, the same end.

Whole fits run to labels that no longer change, or for 100 iterations, against scikit-learn,
scikit-learn-intelex and faiss in the same process; every end is checked. Then: seeding, fits on CSR
data, many starts of small data, the dense pass against the machine's own matrix product, threads,
memory, import and the smallest fit. What counts are ratios, time of the peer over time of
wolfmeans. See benchmarks/README.md, also for what is in which file.

    python benchmarks/cpu.py [--cells 200000x2x100 ...] [--data blobs ...] [--dtype float32]
                             [--json FILE] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import date
from pathlib import Path

from cpu_parts import (
    DTYPES,
    MEASURABLE_MEMORY,
    PARTS,
    SCALED,
    STARTED,
    Settings,
    measure_dense,
    measure_fits,
    measure_memory,
    measure_scaling,
    measure_seeding,
    measure_start_up,
    measure_starts,
)
from cpu_report import MARK, Report, as_json, line_of, markdown
from data import DATA, SHAPES
from report_pages import publish, refuse_other_than_positive, shape_option
from threadpoolctl import threadpool_limits

from wolfmeans.bench import race as competition
from wolfmeans.bench.machine import machine, versions
from wolfmeans.bench.peers import Limits, Method, ScikitLearn, Wolfmeans, installed_peers
from wolfmeans.bench.problems import Shape, uniform_problem
from wolfmeans.bench.race import SKIP_SLOW
from wolfmeans.engines import effective_threads

SPARSE_PEERS = (ScikitLearn("lloyd"),)


def run(
    settings: Settings,
    peers: Sequence[Method],
    missing: Sequence[str],
    say: Callable[[str], None],
    save: Callable[[Report], None],
) -> Report:
    """Measure all that was asked for; `save` gets the report after each step."""
    report = Report(
        machine=machine(settings.threads),
        versions=versions(peers),
        date=date.today().isoformat(),
        selection=settings.describe(),
        missing=list(missing),
    )
    with threadpool_limits(settings.threads):
        warm_up(peers, settings)
        for line in _measure(settings, peers, report):
            say(line)
            save(report)
    return report


def _measure(settings: Settings, peers: Sequence[Method], report: Report) -> Iterator[str]:
    parts = settings.parts
    if "fits" in parts or "seeding" in parts:
        for problem in settings.problems(report.missing):
            if "fits" in parts:
                report.races.append(measure_fits(problem, settings, peers))
                yield line_of(report.races[-1])
            if "seeding" in parts:
                report.seeding.append(measure_seeding(problem, settings))
                yield f"seeding: {report.seeding[-1]}"
    if "sparse" in parts:
        for problem in settings.sparse_problems():
            report.sparse.append(measure_fits(problem, settings, SPARSE_PEERS))
            yield f"sparse: {line_of(report.sparse[-1])}"
    if "starts" in parts:
        for shape in STARTED[:1] if settings.quick else STARTED:
            for dtype in settings.dtypes:
                report.starts.append(measure_starts(shape, dtype, settings))
                yield f"starts: {report.starts[-1]}"
    measurements = (
        ("dense", measure_dense, report.dense, lambda shape: True),
        ("threads", measure_scaling, report.scaling, lambda shape: shape in SCALED),
        ("memory", measure_memory, report.memory, lambda shape: shape.n >= MEASURABLE_MEMORY),
    )
    for part, measure, found, suits in measurements:
        if part in parts:
            for shape in settings.shapes_where(suits):
                for dtype in settings.dtypes:
                    found.append(measure(shape, dtype, settings))
                    yield f"{part}: {found[-1]}"
    if "start-up" in parts:
        report.start_up = measure_start_up(settings)
        yield str(report.start_up)


def warm_up(peers: Sequence[Method], settings: Settings) -> None:
    """Let every library load what it loads and start its threads."""
    limits = Limits(3, settings.threads)
    for dtype in settings.dtypes:
        for d in (2, 130):
            problem = uniform_problem(Shape(400, d, 4), dtype)
            competition.race(problem, Wolfmeans(), peers, limits, repeats=1, budget=0.0)
    if "sparse" in settings.parts:
        for problem in replace(settings, quick=True).sparse_problems():
            competition.race(problem, Wolfmeans(), SPARSE_PEERS, limits, repeats=1, budget=0.0)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    helped = "shapes of the synthetic data, as in 200000x2x100 (default: all ten)"
    shapes = {"nargs": "+", "type": shape_option, "metavar": "NxDxK", "help": helped}
    add("--cells", dest="shapes", default=SHAPES, **shapes)
    add("--data", nargs="+", choices=DATA, default=tuple(DATA), help="default: all")
    helped = "default: both"
    add("--dtype", dest="dtypes", nargs="+", choices=DTYPES, default=DTYPES, help=helped)
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    add("--threads", type=int, default=effective_threads(None), help="default: all")
    add("--repeats", type=int, default=9, help="at most so many fits of a kind (default: 9)")
    helped = "no further repeat beyond this sum of times (default: 10)"
    add("--budget", type=float, default=10.0, metavar="SECONDS", help=helped)
    helped = "run a peer once where it takes so many times wolfmeans' time (default: 20)"
    add("--skip-slow", type=float, default=SKIP_SLOW, metavar="FACTOR", help=helped)
    helped = "make fewer iterations, and all methods alike, where a fit takes longer"
    add("--limit", type=float, default=math.inf, metavar="SECONDS", help=helped)
    add("--quick", action="store_true", help="shrink all data; a test of this script")
    add("--mnist", type=Path, metavar="PATH", help="folder or file of train-images-idx3-ubyte")
    add("--json", type=Path, metavar="FILE", help="put all numbers into FILE, after each step")
    add("--write", type=Path, metavar="FILE", help="put the page into FILE, between its marks")
    options = parser.parse_args(arguments)
    positive = ("threads", "repeats", "budget", "skip_slow", "limit")
    refuse_other_than_positive(parser, options, *positive)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    settings = Settings(**{one.name: getattr(options, one.name) for one in fields(Settings)})

    def save(report: Report) -> None:
        if options.json:
            options.json.write_text(as_json(report), encoding="utf-8")

    peers, missing = installed_peers()
    report = run(settings, peers, missing, say=lambda line: print(line, flush=True), save=save)
    save(report)
    publish(markdown(report), options.write, MARK)


if __name__ == "__main__":
    main()
