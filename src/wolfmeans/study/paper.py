"""The rows that the paper prints. They are shown beside results and enter none of them."""

from __future__ import annotations

import csv
from importlib.resources import files


def printed_rows() -> list[dict[str, float]]:
    """Return the 36 printed rows.

    The columns are n, d, K, bound_slope, bound_intercept, slope, slope_se, intercept, intercept_se
    and p_value; n, d and K are integers.

    Examples
    --------
    >>> from wolfmeans.study import paper
    >>> row = paper.printed_rows()[0]
    >>> row["n"], row["d"], row["K"], row["slope"]
    (500, 2, 5, -0.8559)
    """
    text = (files("wolfmeans.study") / "paper.csv").read_text(encoding="utf-8")
    return [
        {
            name: int(value) if name in ("n", "d", "K") else float(value)
            for name, value in row.items()
        }
        for row in csv.DictReader(text.splitlines())
    ]


def printed_row(n: int, d: int, k: int) -> dict[str, float] | None:
    """Return the printed row of a scenario, None where the paper has none."""
    rows = (row for row in printed_rows() if (row["n"], row["d"], row["K"]) == (n, d, k))
    return next(rows, None)
