"""What a study finds out about a sentence: a verdict that follows from the results alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wolfmeans.study.results import ScenarioResult


class Verdict(StrEnum):
    """How a sentence fares."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    FAILS = "does not hold"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Finding:
    """A sentence, its verdict and the numbers behind it."""

    sentence: str
    """What the paper says, or what we ask."""
    verdict: Verdict
    evidence: str
    """The reason in plain words."""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def not_run(sentence: str, missing: str) -> Finding:
    """Return the finding for a sentence whose scenarios are not there."""
    return Finding(sentence, Verdict.NOT_RUN, f"Not run: it needs {missing}.")


def counted(number: int, noun: str) -> str:
    """Return "1 scenario", "2 scenarios", "no scenario"."""
    return f"{number or 'no'} {noun}{'' if number in (0, 1) else 's'}"


def listed(texts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def by_share(number: int, total: int) -> Verdict:
    """Judge a tendency: it holds in nine of ten cases, and fails where a coin would do as well."""
    if 10 * number >= 9 * total:
        return Verdict.HOLDS
    return Verdict.FAILS if 2 * number <= total else Verdict.PARTLY


def cell(result: ScenarioResult) -> str:
    """Return "(n, d, K)"."""
    scenario = result.scenario
    return f"({scenario.n}, {scenario.d}, {scenario.k})"
