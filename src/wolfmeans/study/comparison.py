"""Ours minus printed. Nothing but the page's difference columns and its summary uses this."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from wolfmeans.study.collection import SEGMENTATION, Collection
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.tables import Row, printed_values, table_rows

PRINTED_REPLICATIONS = 10_000
PRINTED_SEEDINGS = 50_000
NEAR = 0.1
"""Theoretical intercepts this near to each other count as equal: the maximum of 10,000 scatters
varies by about so much from one study to the next."""


def difference(row: Row, name: str) -> float | None:
    """Return ours − printed for "bound_intercept", "slope" or "intercept"; None without either."""
    if name not in row.printed:
        return None
    value = row.result.bound_intercept if name == "bound_intercept" else getattr(row.fit, name)
    found = float(value) - row.printed[name]
    return found if math.isfinite(found) else None


@dataclass(frozen=True)
class Agreement:
    """How far the rows of one gap are from the printed ones."""

    gap: str
    slopes: list[float]
    intercepts: list[float]

    @property
    def distance(self) -> float:
        """Root mean square of the differences of slopes and intercepts."""
        both = [*self.slopes, *self.intercepts]
        return math.sqrt(mean(value * value for value in both)) if both else math.inf


def agreements(collection: Collection) -> list[Agreement]:
    """Compare the grid with the printed tables, gap by gap."""
    found = []
    for gap in GAPS:
        rows = table_rows(collection.grid(), [gap])
        slopes = [x for row in rows if (x := difference(row, "slope")) is not None]
        intercepts = [x for row in rows if (x := difference(row, "intercept")) is not None]
        if slopes:
            found.append(Agreement(gap, slopes, intercepts))
    return found


def near_bounds(collection: Collection) -> tuple[int, int]:
    """Return how many theoretical intercepts are near the printed ones, and of how many."""
    rows = table_rows(collection.grid(), ["published"])
    away = [x for row in rows if (x := difference(row, "bound_intercept")) is not None]
    return sum(abs(x) <= NEAR for x in away), len(away)


@dataclass(frozen=True)
class Spread:
    """One setting in several independent studies."""

    result: ScenarioResult
    gap: str
    slopes: list[float]
    intercepts: list[float]

    def away(self, name: str, values: Sequence[float]) -> float | None:
        """Return how many spreads the printed value lies from our mean.

        A further study would differ from the mean of R by the spread times sqrt(1 + 1/R). None
        where nothing is printed or replications are not as many as the paper's: worst cases grow
        with their number.
        """
        scenario = self.result.scenario
        paper = PRINTED_SEEDINGS if scenario.data in SEGMENTATION else PRINTED_REPLICATIONS
        if scenario.replications != paper:
            return None
        printed = printed_values(self.result).get(name)
        spread = stdev(values) * math.sqrt(1 + 1 / len(values))
        return None if printed is None or spread == 0 else (printed - mean(values)) / spread


def spreads(collection: Collection) -> list[Spread]:
    """Return the settings that were studied at least three times, gap by gap."""
    found = []
    for repeats in collection.repeats():
        for gap in GAPS:
            fits = [result.regression(gap) for result in repeats if gap in result.worst]
            fits = [fit for fit in fits if math.isfinite(fit.slope)]
            if len(fits) >= 3:
                slopes, intercepts = [f.slope for f in fits], [f.intercept for f in fits]
                found.append(Spread(repeats[0], gap, slopes, intercepts))
    return found
