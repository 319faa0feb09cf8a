"""What a step costs on many points: a model, its coefficients measured here, and checks of it.

The model is in `scale_model.py` and in words in docs/scale.md. One run measures its coefficients,
then sets its predictions beside measured steps of other sizes: parts in memory, a Dask cluster of
processes on this machine, a file. What 10^9 points and more would need is computed from the same
coefficients.

    pip install 'wolfmeans[dask]'
    python benchmarks/scale.py [--repeats 3] [--quick] [--write docs/scale.md]
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from report_pages import facts, publish
from scale_measured import (
    Check,
    check_cluster,
    check_file,
    check_memory,
    check_seeding,
    chunk_overheads,
    cluster_of,
    cluster_overheads,
    crowding,
    file_rates,
    overheads,
    rounding,
    seeding,
    share_until,
    state_bytes,
    work,
)
from scale_model import GROUPED, Cluster, Coefficients
from scale_report import MARK, page

from wolfmeans.bench.machine import machine
from wolfmeans.bench.problems import Shape


def here(workers: int, threads: int = 1) -> Cluster:
    """Return a cluster on this machine."""
    return Cluster(workers, threads, one_machine=True)


FITTED = tuple(
    Shape.parse(text)
    for text in (
        "200000x8x20", "60000x8x200", "100000x12x60", "150000x16x30", "60000x16x250",
        "100000x20x100",
        "100000x32x20", "40000x32x200", "40000x64x80", "40000x128x30", "15000x128x300",
        "6000x128x1000",
    )
)  # fmt: skip
FITTED_SEEDING = tuple(
    map(Shape.parse, ("200000x8x5", "100000x16x40", "40000x64x20", "3000x32x200", "60000x32x40"))
)
PARTS = ((1, 4, 2), (64, 4, 2), (1, 64, 200), (16, 64, 200), (8, 16, 100), (32, 32, 50))
"""How many, columns, clusters."""
CLUSTERS = (
    (here(1), 2, 4, 8),
    (here(2), 4, 4, 8),
    (here(2, 8), 32, 4, 8),
    (here(2, 24), 96, 4, 8),
    (here(2), 4, 64, 500),
    (here(2, 8), 32, 64, 200),
)
"""Cluster, blocks, columns, clusters."""
FILES = ((Shape(400_000, 16, 20), 4), (Shape(150_000, 32, 60), 8), (Shape(100_000, 16, 20), 64))
"""Shapes, and chunks."""
CROWDED = Shape(200_000, 16, 60)
IN_MEMORY = (("300000x16x100", 4), ("500000x10x40", 16), ("120000x48x64", 8), ("30000x96x500", 6))
ON_DASK = (("600000x16x100", 8), ("200000x64x50", 40), ("100000x32x256", 8), ("20000x16x50", 100))
IN_FILES = ("600000x16x50", "200000x40x100", "1000000x8x12")
SEEDED = ("150000x16x100", "60000x64x64")
EARLY, LATE = 13, 40
STATE = ("400000x16x100", "60000x128x1000")


def coefficients(options: argparse.Namespace, folder: Path) -> Coefficients:
    """Measure them one after the other; what is measured first is known to the rest."""
    small: Callable[[Shape], Shape] = Shape.quick if options.quick else lambda shape: shape
    state = {text: state_bytes(small(Shape.parse(text))) for text in STATE}
    early, late = (
        {text: share_until(small(Shape.parse(text)), steps) for text in STATE}
        for steps in (EARLY, LATE)
    )
    shapes = list(FITTED)
    if options.quick:
        shapes = [Shape(2000, shape.d, min(20, shape.n_clusters)) for shape in FITTED[::3]]
    few = [shape for shape in shapes if shape.d < GROUPED]
    many = [shape for shape in shapes if shape.d >= GROUPED]
    mean = rounding(32, 20 if options.quick else 500, options.repeats)
    local = overheads(PARTS[:3] if options.quick else PARTS, mean, options.repeats)
    warm, cold = file_rates(folder, 1.0 if options.quick else 200.0)
    known = Coefficients(
        few_columns=work(few, options.repeats),
        many_columns=work(many, options.repeats),
        asked=local[0],
        part=local[1],
        entry=local[2],
        mean=mean,
        beside=crowding(small(CROWDED), options.repeats),
        warm=warm,
        cold=cold,
        state=state,
        early=early,
        late=late,
    )
    files = [(small(shape), n_chunks) for shape, n_chunks in FILES]
    chunk, brought = chunk_overheads(folder, known, files, options.repeats)
    sampled = seeding([small(shape) for shape in FITTED_SEEDING], options.repeats)
    names = ("sampled_point", "sampled_column", "sampled_product", "chosen")
    of_seeding = dict(zip(names, sampled, strict=True))
    known = replace(known, chunk=chunk, brought=brought, **of_seeding)
    kinds = CLUSTERS[1:2] if options.quick else CLUSTERS
    return replace(known, **cluster_overheads(kinds, known, options.repeats))


def checks(known: Coefficients, options: argparse.Namespace, folder: Path) -> list[Check]:
    """Set the model beside sizes that it was not fitted to."""
    found: list[Check] = []

    def add(more: Sequence[Check]) -> None:
        found.extend(more)
        for check in more:
            print(check, f"{check.ratio:.2f}", flush=True)

    def shape_of(text: str) -> Shape:
        shape = Shape.parse(text)
        return shape.quick() if options.quick else shape

    fewer = 1 if options.quick else None
    for text, n_parts in IN_MEMORY[:fewer]:
        add(check_memory(known, shape_of(text), n_parts, options.repeats))
    for text in IN_FILES[:fewer]:
        add(check_file(known, folder, shape_of(text), options.repeats))
    for text in SEEDED[:fewer]:
        add([check_seeding(known, shape_of(text), options.repeats)])
    for workers in (2,) if options.quick else (1, 2):
        cluster = here(workers)
        with cluster_of(cluster) as client:
            for text, n_blocks in ON_DASK[:fewer]:
                shape = shape_of(text)
                add(check_cluster(known, client, cluster, shape, n_blocks, options.repeats))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small shapes, once: for tests")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    if options.quick:
        options.repeats = 1
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.ERROR)
    # With the load before anything is measured.
    here = facts(machine(1))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        known = coefficients(options, folder)
        print(known, flush=True)
        found = checks(known, options, folder)
    text = page(known, found, f"{here}, at the end {os.getloadavg()[0]:.1f}")
    publish(text, options.write, MARK)


if __name__ == "__main__":
    main()
