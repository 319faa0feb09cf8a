"""The command line of cpu.py, and what it asks for: parts, cells, threads and limits of time."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from data import DATA, SHAPES, MissingDataError, sources, sparse_sources

from wolfmeans.bench.problems import Problem, Shape
from wolfmeans.bench.race import SKIP_SLOW
from wolfmeans.engines import effective_threads

MAX_ITER = 100
DTYPES = ("float32", "float64")
PARTS = ("fits", "seeding", "sparse", "starts", "dense", "threads", "memory", "start-up")


@dataclass(frozen=True)
class Settings:
    """What the options ask for."""

    parts: tuple[str, ...]
    shapes: tuple[Shape, ...]
    data: tuple[str, ...]
    dtypes: tuple[str, ...]
    threads: int
    repeats: int
    budget: float
    limit: float
    quick: bool
    mnist: Path | None
    skip_slow: float = SKIP_SLOW

    def problems(self, missing: list[str]) -> Iterator[Problem]:
        """Yield all cells; data that cannot be had is added to `missing`."""
        for source in sources(self.data, self.shapes, quick=self.quick, mnist=self.mnist):
            try:
                yield from source.problems(self.dtypes)
            except MissingDataError as error:
                missing.append(f"{source.data} ({error})")

    def sparse_problems(self) -> Iterator[Problem]:
        for source in sparse_sources(quick=self.quick):
            yield from source.problems(self.dtypes)

    def shapes_where(self, suits: Callable[[Shape], bool]) -> list[Shape]:
        """Return the chosen shapes that suit a part, or all where none does."""
        chosen = [shape for shape in self.shapes if suits(shape)] or list(self.shapes)
        return [shape.quick() for shape in chosen[:1]] if self.quick else chosen

    def describe(self) -> str:
        if self.quick:
            return "A quick run on shrunken data: these numbers mean nothing"
        chosen = (self.shapes, self.data, self.dtypes, self.parts)
        everything = all(
            set(some) == set(whole)
            for some, whole in zip(chosen, (SHAPES, DATA, DTYPES, PARTS), strict=True)
        )
        cut = "" if math.isinf(self.limit) else f", cut to about {self.limit:g} s for a fit"
        return ("All cells" if everything else "A selection of the cells and parts") + cut


def parse(description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    helped = "shapes of the synthetic data, as in 200000x2x100 (default: all ten)"
    add("--cells", nargs="+", type=Shape.parse, default=SHAPES, metavar="NxDxK", help=helped)
    add("--data", nargs="+", choices=DATA, default=tuple(DATA), help="default: all")
    add("--dtype", nargs="+", choices=DTYPES, default=DTYPES, help="default: both")
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
    for name in ("threads", "repeats", "budget", "skip_slow", "limit"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive")
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    return Settings(
        parts=tuple(options.parts),
        shapes=tuple(options.cells),
        data=tuple(options.data),
        dtypes=tuple(options.dtype),
        threads=options.threads,
        repeats=options.repeats,
        budget=options.budget,
        skip_slow=options.skip_slow,
        limit=options.limit,
        quick=options.quick,
        mnist=options.mnist,
    )
