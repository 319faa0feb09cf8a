"""Tables in the layout of the paper, the printed row beside ours: CSV, Markdown and LaTeX.

Printed values enter no result. Only the differences at the end compare with them, for the page's
columns "ours − printed" and its summary.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from wolfmeans.study import paper
from wolfmeans.study.results import (
    GAPS,
    SEGMENTATION,
    Collection,
    ScenarioResult,
    data_label,
    follows_protocol,
    grouped,
)
from wolfmeans.study.statistics import BOUND_SLOPE, Regression

PRINTED = ("bound_intercept", "slope", "slope_se", "intercept", "intercept_se", "p_value")
COLUMNS = (
    *("n", "d", "k", "gap", "replications", "n_points", "slope", "slope_se"),
    *("intercept", "intercept_se", "bound_intercept", "p_value"),
    *(f"printed_{name}" for name in PRINTED),
)
IDENTITY = ("name", "data", "seeding", "empty", "alpha", "seed", "repeat")
MISSING = "–"
"""Shown where the paper has no number, or where too few points leave a regression undefined."""

PRINTED_REPLICATIONS = 10_000
PRINTED_SEEDINGS = 50_000
NEAR = 0.1
"""Theoretical intercepts this near to each other count as equal: the maximum of 10,000 scatters
varies by about so much from one study to the next."""

# The text below the segmentation figure; the paper prints no table for it.
_SEGMENTATION = {"slope": -1.2451, "slope_se": 0.1228}


@dataclass(frozen=True)
class Row:
    """One scenario and gap, with what the paper printed for it."""

    result: ScenarioResult
    gap: str
    fit: Regression
    printed: dict[str, float]
    """Keys of PRINTED; empty where the paper has no such scenario."""

    def value(self, column: str) -> object:
        """Return the entry of a CSV column; None where there is none."""
        if column.startswith("printed_"):
            number = self.printed.get(column.removeprefix("printed_"))
            return None if number is None else f"{number:.4f}"
        if column == "gap":
            return self.gap
        owners = (self.fit, self.result, self.result.scenario)
        entry = next(getattr(owner, column) for owner in owners if hasattr(owner, column))
        return None if isinstance(entry, float) and not math.isfinite(entry) else entry


def printed_values(result: ScenarioResult) -> dict[str, float]:
    """Return what the paper printed for the scenario, to be shown beside the result."""
    scenario = result.scenario
    if not follows_protocol(result):
        return {}
    if scenario.data in SEGMENTATION and scenario.k == 7:
        return dict(_SEGMENTATION)
    if scenario.data == "blobs":
        row = paper.printed_row(scenario.n, scenario.d, scenario.k) or {}
        return {name: row[name] for name in PRINTED if name in row}
    return {}


def table_rows(results: Iterable[ScenarioResult], gaps: Sequence[str] = GAPS) -> list[Row]:
    """Return one row per scenario and gap."""
    return [
        Row(result, gap, result.regression(gap), printed_values(result))
        for result in results
        for gap in gaps
    ]


# --- CSV -------------------------------------------------------------------------------------


def tables_csv(collection: Collection, gaps: Sequence[str] = GAPS) -> str:
    """Return the first repeats as CSV with the columns COLUMNS, the paper's scenarios first."""
    return _csv(table_rows(collection.firsts(), gaps), COLUMNS)


def scenarios_csv(collection: Collection, gaps: Sequence[str] = GAPS) -> str:
    """Return everything as CSV: repeats too, with the columns that tell scenarios apart."""
    return _csv(table_rows(collection.results, gaps), (*IDENTITY, *COLUMNS))


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([row.value(column) for column in columns])
    return text.getvalue()


# --- Layout ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table in the paper's layout: the same four groups of numbers, ours and printed."""

    caption: str
    places: tuple[str, ...]
    """Names of the columns that identify a row: n and K, or data, n, d and K."""
    rows: tuple[Row, ...]

    @property
    def compared(self) -> bool:
        """Whether the paper prints anything to compare with."""
        return any(row.printed for row in self.rows)

    def place(self, row: Row) -> tuple[str, ...]:
        """Return the cells below `places`."""
        scenario = row.result.scenario
        known = {"n": str(scenario.n), "d": str(scenario.d), "K": str(scenario.k)}
        return tuple(known.get(name) or scenario_label(row.result) for name in self.places)


def scenario_label(result: ScenarioResult) -> str:
    """Return data and departures from the paper's protocol."""
    scenario = result.scenario
    departures = [
        *([scenario.seeding] if scenario.seeding != "random" else []),
        *([f"empty: {scenario.empty}"] if scenario.empty != "keep" else []),
        *([f"{scenario.alpha:.0%} trimmed"] if scenario.alpha else []),
    ]
    return ", ".join([data_label(scenario.data), *departures])


def layout(collection: Collection, gap: str) -> list[Table]:
    """Return the paper's tables (one per d), then segmentation and what is beyond the paper."""
    by_dimension = grouped(collection.grid(), lambda result: result.scenario.d)
    tables = [
        Table(
            f"Simulation results for d = {dimension}.",
            ("n", "K"),
            tuple(table_rows(results, [gap])),
        )
        for dimension, results in sorted(by_dimension.items())
    ]
    others = (
        ("Image segmentation.", collection.segmentation()),
        ("Beyond the paper.", collection.beyond()),
    )
    for caption, results in others:
        if rows := table_rows(results, [gap]):
            tables.append(Table(caption, ("data", "n", "d", "K"), tuple(rows)))
    return [table for table in tables if table.rows]


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with four decimals as in the paper, and with a true minus sign."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign; what rounds to zero has a plus."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def with_error(value: float | None, error: float | None) -> str:
    """Return "slope (standard error)"."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{number(value)} ({number(error)})"


def ours(row: Row) -> tuple[str, str, str, str]:
    """Return bound, slope (SE), intercept (SE) and p-value of our run."""
    fit = row.fit
    return (
        number(row.result.bound_intercept),
        with_error(fit.slope, fit.slope_se),
        with_error(fit.intercept, fit.intercept_se),
        number(fit.p_value),
    )


def theirs(row: Row) -> tuple[str, str, str, str]:
    """Return the same four as printed."""
    get = row.printed.get
    return (
        number(get("bound_intercept")),
        with_error(get("slope"), get("slope_se")),
        with_error(get("intercept"), get("intercept_se")),
        number(get("p_value")),
    )


# --- Markdown and LaTeX ----------------------------------------------------------------------


def markdown(collection: Collection, gaps: Sequence[str] = GAPS) -> str:
    """Return all tables as Markdown."""
    parts = ["# Worst-case rates of Lloyd's algorithm\n"]
    groups = ("bound", "slope (SE)", "intercept (SE)", "p-value")
    for gap in gaps:
        parts.append(f"## Gap: {gap}\n")
        for table in layout(collection, gap):
            header = [*table.places, *groups]
            header += [f"printed {name}" for name in groups if table.compared]
            lines = [f"**{table.caption}**\n", _bar(header), _bar(["---:"] * len(header))]
            for row in table.rows:
                cells = [*table.place(row), *ours(row), *(theirs(row) if table.compared else ())]
                lines.append(_bar(_markdown_text(cell) for cell in cells))
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _bar(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_text(text: str) -> str:
    special = {"|": "\\|", "<": "&lt;", "&": "&amp;", "\n": " ", "*": "\\*", "_": "\\_", "`": "\\`"}
    return "".join(special.get(letter, letter) for letter in text)


def latex(collection: Collection, gaps: Sequence[str] = GAPS) -> str:
    r"""Return all tables as LaTeX to be \input (needs the package booktabs)."""
    parts = ["% Tables of a wolfmeans study. In the preamble: \\usepackage{booktabs}\n"]
    for gap in gaps:
        parts += [_latex_table(table, gap) for table in layout(collection, gap)]
    return "\n".join(parts)


def _latex_table(table: Table, gap: str) -> str:
    places = [f"${name}$" if len(name) == 1 else name for name in table.places]
    first = len(places)
    header = [*places, "Slope", "Intercept", "Slope (SE)", "Intercept (SE)", "$p$-value"]
    spans = [("Theoretical bound", 2), ("Empirical fit", 3)]
    if table.compared:
        header += ["Bound", "Slope (SE)", "Intercept (SE)", "$p$-value"]
        spans.append(("Printed", 4))
    columns = "".join("l" if name == "data" else "r" for name in header)
    above, rules, start = [""] * first, [], first + 1
    for title, width in spans:
        above.append(f"\\multicolumn{{{width}}}{{c}}{{{title}}}")
        rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    lines = [
        "\\begin{table}[h!]",
        "\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}",
        f"\\caption{{{_latex_text(table.caption)} Gap: \\emph{{{_latex_text(gap)}}}.}}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(above) + " \\\\",
        "".join(rules),
        " & ".join(header) + " \\\\",
        "\\midrule",
    ]
    for row in table.rows:
        cells = [*table.place(row), number(BOUND_SLOPE), *ours(row)]
        cells += theirs(row) if table.compared else ()
        lines.append(" & ".join(_latex_text(cell) for cell in cells) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""])


_LATEX = {
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
    **{"−": "$-$", "–": "--", "<": "$<$", ">": "$>$", "\n": " "},
}


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


# --- Ours minus printed ----------------------------------------------------------------------


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
