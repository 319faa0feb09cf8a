"""The command line of gpu.py, and what it asks for: parts, cells, and limits of time."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from gpu_report import PEERS, PLAIN
from report_pages import refuse_other_than_positive, shape_option

from wolfmeans.bench.problems import Shape

SHAPES = tuple(
    Shape(*shape)
    for shape in (
        (1_000_000, 2, 100),
        (1_000_000, 3, 256),
        (2_000_000, 16, 64),
        (1_000_000, 32, 256),
        (1_000_000, 128, 1_024),
        (4_000_000, 128, 1_024),
        (1_000_000, 768, 1_000),
        (500_000, 64, 10_000),
    )
)
LARGE = Shape(100_000_000, 8, 100)
STARTED = (Shape(20_000, 8, 32), Shape(200_000, 16, 64), Shape(1_000_000, 32, 256))
STREAMED = Shape(20_000_000, 32, 64)
KINDS = ("blobs", "gauss")
PARTS = ("steps", "fits", "large", "starts", "streamed", "profile")
USUAL = ("steps", "fits")
QUICK = Shape(100, 3, 4)
# Work of one iteration, n d K, from which on a whole fit has the lower of the two caps.
LARGE_WORK = 1e11


@dataclass(frozen=True)
class Settings:
    """What the options ask for."""

    parts: Sequence[str]
    shapes: Sequence[Shape]
    kinds: Sequence[str]
    contenders: Sequence[str]
    device: str
    """"cuda", or "cpu" where Triton interprets its kernels."""
    repeats: int
    budget: float
    iterations: int
    cap: int
    cap_large: int
    check_work: float
    equality_work: float
    autotune: bool
    time_limit: float
    quick: bool
    large_shape: Shape
    large_init: str
    large_stop: str
    large_cap: int
    certify: str | None
    n_starts: int
    stream_budget: float
    """GiB."""

    def cap_of(self, shape: Shape) -> int:
        """Return the largest number of iterations of a whole fit."""
        heavy = shape.n * shape.d * shape.n_clusters >= LARGE_WORK
        return min(self.cap, self.cap_large) if heavy else self.cap

    def describe(self) -> str:
        if self.quick:
            return "A quick run on shrunken data: these numbers mean nothing"
        whole = set(self.shapes) == set(SHAPES) and set(self.kinds) == set(KINDS)
        cells = "All cells" if whole else "A selection of the cells"
        tuned = ", peers autotuned" if self.autotune else ""
        return f"{cells} of the parts {', '.join(self.parts)}{tuned}"


def parse(description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    what = parser.add_argument_group("parts (steps and fits, where none is named)")
    for part, helped in (
        ("steps", "fits of 20 iterations"),
        ("fits", "whole fits, until no label changes"),
        ("large", f"one fit of {LARGE}, with its certificate and its memory"),
        ("starts", "many starts in one call against as many calls"),
        ("streamed", "data in pinned host memory, larger than a budget of device memory"),
        ("profile", "where the time of one fit goes: kernels, and Python on the host"),
    ):
        what.add_argument(f"--{part}", action="store_true", help=helped)
    add = parser.add_argument
    add("--shapes", nargs="+", type=shape_option, metavar="NxDxK", help="default: all eight")
    add("--kinds", nargs="+", choices=KINDS, default=KINDS, help="default: both")
    titles = (*PEERS, PLAIN)
    helped = "libraries beside wolfmeans (default: all; none if no name is given)"
    add("--contenders", nargs="*", choices=titles, default=titles, help=helped)
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: Triton's interpreter")
    add("--repeats", type=int, default=5, help="at most so many runs of a kind (default: 5)")
    helped = "no further repeat of a contender beyond this sum of its times (default: 2)"
    add("--budget", type=float, default=2.0, metavar="SECONDS", help=helped)
    add("--iterations", type=int, default=20, help="of the part steps (default: 20)")
    add("--cap", type=int, default=300, help="most iterations of a whole fit (default: 300)")
    helped = f"the same where n d K is at least {LARGE_WORK:g} (default: 100)"
    add("--cap-large", type=int, default=100, help=helped)
    helped = "check labels of as many rows as make n d K this (default: 1e10; at least 20,000 rows)"
    add("--check-work", type=float, default=1e10, metavar="WORK", help=helped)
    helped = "compare with engine=cpu for as many iterations as make n d K this; 0: do not"
    add("--equality-work", type=float, default=1e12, metavar="WORK", help=helped)
    add("--autotune", action="store_true", help="let the peers search their tile sizes first")
    helped = "begin no further cell after this, and name those that are left out"
    add("--time-limit", type=float, default=math.inf, metavar="SECONDS", help=helped)
    add(
        "--large-shape",
        type=shape_option,
        default=LARGE,
        metavar="NxDxK",
        help=f"default: {LARGE}",
    )
    add("--large-init", choices=("k-means++", "k-means||", "random", "given"), default="k-means++")
    add("--large-stop", choices=("stationary", "decrease", "gap"), default="stationary")
    add("--large-cap", type=int, default=1000, help="most iterations of it (default: 1000)")
    helped = "look for a lower bound after the large fit, by this method of certify"
    add("--certify", metavar="METHOD", help=helped)
    add("--n-starts", type=int, default=10, help="of the part starts (default: 10)")
    helped = "device memory for the part streamed (default: 1)"
    add("--stream-budget", type=float, default=1.0, metavar="GIB", help=helped)
    add("--quick", action="store_true", help="shrink all data; a test of this script")
    add("--output", type=Path, metavar="FILE", help="put all figures into FILE, after each step")
    helped = "measure nothing: make the page of these record files"
    add("--report", nargs="+", type=Path, metavar="FILE", help=helped)
    add("--write", type=Path, metavar="FILE", help="put the page into FILE, between its marks")
    options = parser.parse_args(arguments)
    positive = ("repeats", "budget", "iterations", "cap", "cap_large", "large_cap", "n_starts")
    refuse_other_than_positive(parser, options, *positive)
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    given = vars(options) | {
        "parts": [part for part in PARTS if getattr(options, part)] or USUAL,
        "shapes": options.shapes or SHAPES,
    }
    if options.quick:
        # For Triton's interpreter, which needs seconds for a few steps.
        most = {"repeats": 3, "iterations": 3, "n_starts": 3}
        most |= dict.fromkeys(("cap", "cap_large", "large_cap"), 6)
        given |= {name: min(given[name], limit) for name, limit in most.items()}
        given |= {"large_shape": QUICK}
        given["shapes"] = list(dict.fromkeys(shape.quick() for shape in given["shapes"]))
    return Settings(**{one.name: given[one.name] for one in fields(Settings)})
