"""Shared by the pages of the benchmarks: shapes in words, tables, and marks in a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wolfmeans.bench.problems import Shape


def shape_option(text: str) -> Shape:
    """Read a shape of the command line."""
    try:
        return Shape.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def spaced(shape: Shape) -> str:
    """Write a shape as the tables do: "200 000, 2, 100"."""
    numbers = (shape.n, shape.d, shape.n_clusters)
    return ", ".join(f"{number:_}".replace("_", " ") for number in numbers)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 3) -> str:
    """Write a table in Markdown, whose first columns are words and whose others are numbers."""
    rule = "|---" * left + "|---:" * (len(header) - left) + "|"
    lines = ["| " + " | ".join(header) + " |", rule]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def facts(*some: Mapping[str, str]) -> str:
    """Write machine and versions as "name value, name value"."""
    return ", ".join(f"{name} {value}" for one in some for name, value in one.items())


def head(report: Any) -> str:
    """Write the first line of a page: date, machine, versions, selection, missing libraries."""
    missing = f" Missing: {'; '.join(report.missing)}." if report.missing else ""
    machine = "; ".join(f"{name} {value}" for name, value in report.machine.items())
    return f"{report.date}. {machine}. {facts(report.versions)}. {report.selection}.{missing}"


def refuse_other_than_positive(
    parser: argparse.ArgumentParser, options: argparse.Namespace, *names: str
) -> None:
    """End the program if one of some options is not positive."""
    for name in names:
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be positive")


def publish(text: str, path: Path | None, mark: str) -> None:
    """Print a page, and put it into a file between its marks if there is one."""
    print(f"\n{text}")
    if path is not None:
        write_between_marks(path, text, *marks(mark))
        print(f"\nwritten to {path}")


def marks(name: str) -> tuple[str, str]:
    """Return the two comments between which a page is written."""
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


def write_between_marks(path: Path, text: str, begin: str, end: str) -> None:
    """Replace the text between the two marks; create a page that does not exist."""
    page = path.read_text(encoding="utf-8") if path.exists() else f"# Benchmarks\n\n{begin}{end}\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise SystemExit(f"{path} must contain {begin} and {end}, once each and in this order")
    head, tail = page.split(begin)[0], page.split(end)[1]
    path.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
