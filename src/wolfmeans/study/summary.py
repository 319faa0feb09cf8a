"""The study in a few plain sentences: what agrees with the paper, what does not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

from wolfmeans.study import tables
from wolfmeans.study.claims import Finding, Verdict, cell, counted, listed, rejected
from wolfmeans.study.results import GAPS, Collection, ScenarioResult, segmentation_columns
from wolfmeans.study.tables import PRINTED_REPLICATIONS, Agreement, number, signed, table_rows

GRID = 36


@dataclass(frozen=True)
class Point:
    """A heading of two or three words, and a text."""

    heading: str
    text: str


def summary(collection: Collection, findings: Sequence[Finding]) -> list[Point]:
    """Return the points in the order in which they are read."""
    points = [
        Point("What was run", _extent(collection)),
        Point("The printed tables", _agreement(collection)),
        Point("Rejections", _rejections(collection)),
        Point("Image segmentation", _standardization(collection)),
        Point("Noise of a worst case", _noise(collection)),
        Point("The paper’s sentences", _sentences(findings)),
    ]
    return [point for point in points if point.text]


def _extent(collection: Collection) -> str:
    grid, segmentation = collection.grid(), collection.segmentation()
    parts = []
    if grid:
        parts.append(f"{len(grid)} of the {GRID} scenarios of the paper’s grid ({_runs(grid)})")
    if segmentation:
        variants = listed([segmentation_columns(r) for r in segmentation])
        parts.append(f"image segmentation with {variants} columns ({_runs(segmentation)})")
    if others := collection.beyond():
        parts.append(f"{counted(len(others), 'scenario')} beyond the paper ({_runs(others)})")
    return "; ".join(parts) + "." if parts else ""


def _runs(results: Sequence[ScenarioResult]) -> str:
    counts = sorted({result.scenario.replications for result in results})
    return " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1]))) + " runs each"


def _agreement(collection: Collection) -> str:
    found = tables.agreements(collection)
    if not found:
        return ""
    near, total = tables.near_bounds(collection)
    closest = min(found, key=lambda agreement: agreement.distance)
    text = (
        f"Theoretical intercepts are within {tables.NEAR:g} of the printed ones in {near} of "
        f"{counted(total, 'row')}. Ours minus printed, on average: "
        + "; ".join(_means(agreement) for agreement in found)
        + f". The printed numbers are closest to `{closest.gap}`"
        + {
            "published": ": the drop of the inertia counted from the seeds, whose first term is no "
            "Frank-Wolfe gap.",
            "decrease": ": the decrease of the objective from the first partition on.",
            "gap": ": the Frank-Wolfe gap proper.",
        }[closest.gap]
    )
    fewest = min(result.scenario.replications for result in collection.grid())
    if fewest < PRINTED_REPLICATIONS:
        text += (
            f" With {fewest:,} replications instead of {PRINTED_REPLICATIONS:,} the worst cases "
            "are milder and the runs shorter, so the rows need not agree."
        )
    return text


def _means(agreement: Agreement) -> str:
    slope, intercept = mean(agreement.slopes), mean(agreement.intercepts)
    return f"`{agreement.gap}` slope {signed(slope)}, intercept {signed(intercept)}"


def _rejections(collection: Collection) -> str:
    grid = collection.grid()
    parts = []
    for gap in GAPS:
        hits, tests = rejected(grid, gap)
        if tests:
            where = f" at {', '.join(cell(result) for result in hits)}" if hits else ""
            parts.append(f"`{gap}` {len(hits)} of {tests}{where}")
    if not parts:
        return ""
    return (
        "Slopes significantly above −1 at the Šidák level, by gap: "
        + "; ".join(parts)
        + ". The theorem is about the smallest gap so far and is not touched by this."
    )


def _standardization(collection: Collection) -> str:
    rows = table_rows(collection.segmentation(), ["published"])
    away = {
        segmentation_columns(row.result): (row.fit.slope, found)
        for row in rows
        if (found := tables.difference(row, "slope")) is not None
    }
    if not away:
        return ""
    text = "Slope with `published`: " + ", ".join(
        f"{number(slope, 2)} on {variant} columns" for variant, (slope, _) in away.items()
    )
    text += f" ({number(rows[0].printed['slope'])} in the paper)."
    if {"standardized", "raw"} <= away.keys():
        nearer = min(("standardized", "raw"), key=lambda variant: abs(away[variant][1]))
        text += f" The printed slope is nearer to that of {nearer} columns"
        text += (
            ", though the paper does not mention standardizing."
            if nearer == "standardized"
            else "."
        )
    return text


def _noise(collection: Collection) -> str:
    spreads = [s for s in tables.spreads(collection) if s.gap == "published"]
    if not spreads:
        return (
            "Not run: one study says little about how noisy a worst case is; `--repeats 10` runs "
            "it again with other random numbers."
        )
    deviations = [stdev(spread.slopes) for spread in spreads]
    text = (
        f"Repeated with other random numbers, the slope (`published`) varies with a standard "
        f"deviation of {median(deviations):.2f} (median of {counted(len(deviations), 'setting')}; "
        f"largest {max(deviations):.2f})."
    )
    away = [z for s in spreads if (z := s.away("slope", s.slopes)) is not None]
    if away:
        inside = sum(abs(z) <= 2 for z in away)
        text += f" The printed slope lies within two such spreads in {inside} of {len(away)}."
    return text


def _sentences(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    parts = [f"{counts[verdict]} {_VERBS[verdict]}" for verdict in Verdict if counts[verdict]]
    return f"Of {counted(len(findings), 'sentence')} tested below: {', '.join(parts)}."


_VERBS = {
    Verdict.HOLDS: "hold",
    Verdict.PARTLY: "hold in part",
    Verdict.FAILS: "do not hold",
    Verdict.NOT_RUN: "not run",
}
