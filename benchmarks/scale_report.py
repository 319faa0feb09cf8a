"""The generated half of docs/scale.md: coefficients, checks, and what many points need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from statistics import median

import dask
import distributed
import numpy as np
from report_pages import spaced, table
from scale_measured import CHUNK, Check
from scale_model import (
    QUESTIONS,
    ROUNDS,
    SEEDING_BYTES,
    Cluster,
    Coefficients,
    limbs,
    listed,
    mass_bits,
    refinements,
)

from wolfmeans.bench.problems import Shape
from wolfmeans.inputs.memory_budget import Budget

MARK = "scale"
CORES, MEMORY, USED = 64, 256e9, 0.7
"""A machine of the kind that is counted here, and how much of its memory a fit may take."""
BLOCK = 256e6
KINDS = ((16, 100), (128, 1000))
MANY = (10**9, 10**10, 10**12)
DISK = 2e9


def duration(seconds: float) -> str:
    """Write seconds as people say them."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def amount(size: float) -> str:
    """Write bytes."""
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def power(n: float) -> str:
    """Write 10^9 and the like."""
    return f"10^{round(math.log10(n))}"


def page(known: Coefficients, found: Sequence[Check], facts: str) -> str:
    """Return all sections."""
    return "\n\n".join(
        [
            f"Measured {date.today().isoformat()}: {facts}, dask {dask.__version__}, distributed "
            f"{distributed.__version__}. float32 throughout.",
            "### Coefficients",
            coefficients(known),
            "### Checks",
            checked(found),
            "### What many points need",
            needed(known),
            "### More and more workers",
            sweep(known),
            "### A file on one machine",
            files(known),
            "### Integers",
            integers(),
        ]
    )


def coefficients(known: Coefficients) -> str:
    """Return the table of what was measured."""

    def both(name: str) -> tuple[str, str]:
        values = (getattr(known.few_columns, name), getattr(known.many_columns, name))
        return f"{1e9 * values[0]:.3g} ns", f"{1e9 * values[1]:.3g} ns"

    meaning = {
        "point": "t_n, a point in the first step",
        "column": "t_d, a number of it",
        "center": "t_K, a point and a center",
        "product": "t_dK, a number and a center",
        "kept": "t_b, a point in a later step",
    }
    rows = [(text, *both(name)) for name, text in meaning.items()]
    again = [f"{work.again:.2f}" for work in (known.few_columns, known.many_columns)]
    rows.append(("g, an open point, of its first step", *again))
    others = [
        ("t_ask, a step, on the client", duration(known.asked)),
        ("t_part, a part that is asked", duration(known.part)),
        ("t_e, an int64 of a part's sums", duration(known.entry)),
        ("t_mean, an entry of the centers, rounded and judged", duration(known.mean)),
        ("t_step, a step on a cluster, all cores", duration(known.cores.step)),
        ("t_step, by the wall", duration(known.wall.step)),
        ("t_task, a task, all cores", duration(known.cores.task)),
        ("t_task, by the wall", duration(known.wall.task)),
        ("a task that does nothing, among many", duration(known.empty_task)),
        ("t_byte, a byte that travels, all cores", f"{1e9 * known.cores.byte:.3g} ns"),
        ("t_byte, by the wall", f"{1e9 * known.wall.byte:.3g} ns"),
        ("h, a core beside another one at work", f"{known.beside:.2f}"),
        ("t_chunk, a chunk of a file", duration(known.chunk)),
        ("t_f, a byte of a chunk", f"{1e9 * known.brought:.3g} ns"),
        ("reading, a file in the page cache", f"{1e-9 / known.warm:.2f} GB/s"),
        ("reading, a file that is not", f"{1e-9 / known.cold:.2f} GB/s"),
        ("s_n, seeding, a point", f"{1e9 * known.sampled_point:.3g} ns"),
        ("s_d, seeding, a number", f"{1e9 * known.sampled_column:.3g} ns"),
        ("s_dm, seeding, a number and a candidate", f"{1e9 * known.sampled_product:.3g} ns"),
        ("s_K, seeding, on the client", f"{1e9 * known.chosen:.3g} ns"),
        *(
            (f"f of {name} steps, {spaced(Shape.parse(text))}", f"{share:.2%}")
            for name, shares in (("early", known.early), ("late", known.late))
            for text, share in shares.items()
        ),
        *(
            (f"bytes of a point beside its numbers, {spaced(Shape.parse(text))}", f"{size:.0f}")
            for text, size in known.state.items()
        ),
    ]
    header = ("a core and a point", "fewer than 24 columns", "24 and more")
    return table(header, rows, left=1) + "\n\n" + table(("other", "value"), others, left=1)


def checked(found: Sequence[Check]) -> str:
    """Return predictions beside runs."""
    rows = [
        (
            check.where,
            spaced(check.shape),
            check.step,
            "" if check.open_share is None else f"{check.open_share:.0%}",
            f"{1e3 * check.predicted:.3g}",
            f"{1e3 * check.measured:.3g}",
            f"{check.ratio:.2f}",
        )
        for check in found
    ]
    header = ("where", "n, d, K", "step", "open", "model, ms", "measured, ms", "model / measured")
    wall = [check for check in found if "wall" in check.step]
    dask_cores = [check for check in found if "Dask" in check.where and check not in wall]
    alone = [check for check in found if "Dask" not in check.where]
    return "\n\n".join(
        [
            table(header, rows, left=3),
            f"In one process, seconds of its cores: {summary(alone)}",
            f"Dask, seconds of all cores: {summary(dask_cores)}",
            f"Dask, the clock on the wall: {summary(wall)}",
        ]
    )


def summary(found: Sequence[Check]) -> str:
    """Say how far off some predictions are."""
    off = [max(check.ratio, 1 / check.ratio) if check.ratio > 0 else math.inf for check in found]
    worst = found[off.index(max(off))]
    return (
        f"{sum(value <= 1.5 for value in off)} of {len(off)} are within a factor of 1.5; median "
        f"ratio {median(check.ratio for check in found):.2f}, median factor {median(off):.2f}, "
        f"worst {max(off):.2f} ({worst.where}, {spaced(worst.shape)}, {worst.step})."
    )


def at_columns(by_shape: dict[str, float], d: int) -> float:
    """Return what was found for the nearest number of columns."""
    return by_shape[min(by_shape, key=lambda text: abs(Shape.parse(text).d - d))]


def state_of(known: Coefficients, d: int) -> float:
    """Return the bytes of a point beside its numbers, at the most."""
    return max(at_columns(known.state, d), SEEDING_BYTES)


def blocks_of(n: float, d: int) -> int:
    """Return how many blocks the data has."""
    return max(1, math.ceil(n * d * 4 / BLOCK))


def memory_of(known: Coefficients, shape: Shape) -> float:
    """Return the bytes of rows, of what is kept of them, and of the sums of all blocks."""
    rows = shape.n * (4 * shape.d + state_of(known, shape.d))
    return rows + 8 * known.entries(shape) * blocks_of(shape.n, shape.d)


def machines_for(known: Coefficients, shape: Shape) -> int:
    """Return how many machines have the memory for it."""
    return max(1, math.ceil(memory_of(known, shape) / (USED * MEMORY)))


def needed(known: Coefficients) -> str:
    """Return what each size needs on as few machines as hold it."""
    rows = []
    for d, k in KINDS:
        for n in MANY:
            shape = Shape(n, d, k)
            cluster = Cluster(machines_for(known, shape), 1, CORES)
            blocks = blocks_of(n, d)
            first = known.on_cluster(shape, blocks, cluster, None)
            early = known.on_cluster(shape, blocks, cluster, at_columns(known.early, d))
            late = known.on_cluster(shape, blocks, cluster, at_columns(known.late, d))
            tasks = known.wall.task * first.n_tasks + known.wall.step
            questions = QUESTIONS + ROUNDS * refinements(n, k)
            seeding = known.seeding(shape, cluster.cores) + questions * tasks
            bytes_listed = 16 * listed(n, k)
            rows.append(
                (
                    f"{d}, {k}", power(n), amount(4.0 * n * d), amount(memory_of(known, shape)),
                    f"{cluster.workers:,}", f"{blocks:,}", f"{late.n_tasks:,}",
                    duration(first.seconds), duration(early.seconds), duration(late.seconds),
                    amount(late.bytes),
                    duration(seeding), amount(bytes_listed),
                )
            )  # fmt: skip
    header = (
        "d, K", "n", "rows", "memory", "machines", "blocks", "tasks of a step", "first step",
        "early step", "late step", "network, a step", "seeding", "values told in a round",
    )  # fmt: skip
    return (
        f"Machines of {CORES} cores and {MEMORY / 1e9:.0f} GB, of which {USED:.0%} may be taken; "
        f"one task at a time on each, in {CORES} threads (`threads_per_worker=1`, "
        f"`n_threads={CORES}`), every core as fast as the one measured; blocks of "
        f"{amount(BLOCK)}. Early steps are the fourth to "
        "the thirteenth; late ones the last ten of forty, when labels hardly change.\n\n"
        + table(header, rows, left=2)
    )


def sweep(known: Coefficients) -> str:
    """Return how a step of many points goes with the workers, in two layouts."""
    shape = Shape(10**10, 16, 100)
    blocks, share = blocks_of(shape.n, shape.d), at_columns(known.late, shape.d)
    least = machines_for(known, shape)
    rows = []
    for workers in (least, 16, 64, 256, 1024, 4096):
        if workers < least:
            continue
        row = [f"{workers:,}"]
        for cluster in (Cluster(workers, 1, CORES), Cluster(workers, CORES, 1)):
            # Every thread has something to do.
            many = max(blocks, 2 * cluster.threads)
            late = known.on_cluster(shape, many, cluster, share)
            row += [
                f"{late.n_tasks:,}", duration(late.points), duration(late.tasks),
                duration(late.travel), duration(late.seconds),
            ]  # fmt: skip
        rows.append(row)
    header = ["machines"]
    for layout in ("1 × 64", "64 × 1"):
        header += [f"{layout}: tasks", "points", "scheduler", "travel", "a late step"]
    return (
        "10^10 points, d = 16, K = 100, a late step. Left: one task at a time on a machine, in "
        f"{CORES} threads; right: {CORES} tasks at a time, in one thread each.\n\n"
        + table(header, rows, left=1)
    )


def files(known: Coefficients) -> str:
    """Return passes over a file by one machine."""
    rows = []
    for d, k in KINDS:
        for n in MANY:
            shape = Shape(n, d, k)
            chunks = math.ceil(4 * n * d / CHUNK)
            passes = [
                duration(known.out_of_core(shape, chunks, open_share, CORES, byte))
                for byte in (known.cold, 1 / DISK)
                for open_share in (None, at_columns(known.late, d))
            ]
            budget = Budget(2**62, d, np.dtype(np.float32), k, n_rows=n)
            rows_at_once = budget.rows_per_chunk()
            kept = [
                amount(budget.bytes_of_state(state, rows_at_once)) for state in ("bounds", "labels")
            ]
            rows.append((f"{d}, {k}", power(n), f"{chunks:,}", *passes, *kept))
    measured = f"{1e-9 / known.cold:.2f} GB/s"
    header = (
        "d, K", "n", "chunks", f"first, {measured}", "late", f"first, {DISK / 1e9:g} GB/s", "late",
        "bounds, if kept", "labels, if kept",
    )  # fmt: skip
    return (
        f"A pass by {CORES} cores; the disk as measured here, and one of {DISK / 1e9:g} GB/s. A "
        "pass reads everything, whatever the bounds say.\n\n" + table(header, rows, left=2)
    )


def integers() -> str:
    """Return what integers have to hold."""
    rows = [
        (
            power(n),
            f"{math.ceil(math.log2(n))}",
            f"{limbs(16 * n)}",
            f"{mass_bits(n)}",
            *(f"{listed(n, k):,.0f}" for _, k in KINDS),
            f"{n * n / 2**65:,.2g}",
        )
        for n in MANY
    ]
    header = (
        "n", "bits of a count or row", "int64 for a sum", "bits of a mass in k-means\\|\\|",
        *(f"values told in a round, K = {k}" for _, k in KINDS), "pairs of equal hashes",
    )  # fmt: skip
    return table(header, rows, left=1)
