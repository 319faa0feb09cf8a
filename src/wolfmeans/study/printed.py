"""The paper's printed rows, bundled as a table. They stand beside results and enter none."""

from __future__ import annotations

import csv
from importlib.resources import files


def rows() -> list[dict[str, float]]:
    """Return the 36 printed rows.

    The columns are n, d, K, bound_slope, bound_intercept, slope, slope_se, intercept, intercept_se
    and p_value; n, d and K are integers.

    Examples
    --------
    >>> from wolfmeans.study import printed
    >>> row = printed.rows()[0]
    >>> row["n"], row["d"], row["K"], row["slope"]
    (500, 2, 5, -0.8559)
    """
    text = (files("wolfmeans.study") / "printed.csv").read_text(encoding="utf-8")
    return [
        {
            name: int(value) if name in ("n", "d", "K") else float(value)
            for name, value in row.items()
        }
        for row in csv.DictReader(text.splitlines())
    ]


def row(n: int, d: int, k: int) -> dict[str, float] | None:
    """Return the printed row of a scenario, None where the paper has none."""
    for found in rows():
        if (found["n"], found["d"], found["K"]) == (n, d, k):
            return found
    return None
