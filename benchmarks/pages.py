"""What the pages of the benchmarks share: shapes in words, tables, and marks in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from wolfmeans.bench.problems import Shape


def spaced(shape: Shape) -> str:
    """Write a shape as the tables do: "200 000, 2, 100"."""
    numbers = (shape.n, shape.d, shape.n_clusters)
    return ", ".join(f"{number:_}".replace("_", " ") for number in numbers)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 3) -> str:
    """Write a table in Markdown, whose first columns are words and whose others are numbers."""
    rule = "|---" * left + "|---:" * (len(header) - left) + "|"
    lines = ["| " + " | ".join(header) + " |", rule]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def write_between_marks(path: Path, text: str, begin: str, end: str) -> None:
    """Replace what stands between the two marks; a page that does not exist yet is begun."""
    page = path.read_text(encoding="utf-8") if path.exists() else f"# Benchmarks\n\n{begin}{end}\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"{path} must contain {begin} and {end}, once each and in this order")
    head, tail = page.split(begin)[0], page.split(end)[1]
    path.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
