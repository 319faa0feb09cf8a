"""The paper's sentences about rates, each tested; `all_findings` lists these and the others.

No verdict is written down here: each is computed, and a sentence whose scenarios are missing is
"not run". Printed numbers take no part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from wolfmeans.study import circumstances
from wolfmeans.study.circumstances import name_of
from wolfmeans.study.collection import Collection
from wolfmeans.study.findings import Finding, Verdict, by_share, cell, counted, not_run
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.sky import SkyDistances
from wolfmeans.study.statistics import sidak, window
from wolfmeans.study.tables import number

LEVEL = 0.05


def all_findings(collection: Collection, sky: SkyDistances | None) -> list[Finding]:
    """Return a finding for each sentence; `sky` is None where segmentation was not run."""
    return [
        rejections(collection),
        theorem(collection),
        bound_line(collection),
        monotone(collection),
        *(discrepancy(collection, factor) for factor in ("k", "d", "n")),
        circumstances.separation(collection),
        circumstances.runtime(collection),
        circumstances.segmentation(collection),
        circumstances.sky_is_not_gaussian(sky),
        circumstances.other_data(collection),
        circumstances.beyond(collection),
    ]


# --- Tests of the slope ----------------------------------------------------------------------


def rejected(results: Sequence[ScenarioResult], gap: str) -> tuple[list[ScenarioResult], int]:
    """Return the scenarios whose slope is significantly above -1, and how many were tested.

    The level is Šidák's for as many tests as there are, so that together they keep 0.05.
    """
    tested = [
        (result, p_value)
        for result in results
        if gap in result.worst and math.isfinite(p_value := result.regression(gap).p_value)
    ]
    if not tested:
        return [], 0
    limit = sidak(LEVEL, len(tested))
    return [result for result, p_value in tested if p_value < limit], len(tested)


def rejections(collection: Collection) -> Finding:
    """Test "the p-values never dropped below the Šidák-adjusted limit"."""
    sentence = (
        "“The p-values never dropped below 1 − (1 − 0.05)^(1/36) ≈ 0.0014 … corroborating that the "
        "worst-case preasymptotic rate was never slower than O(1/t).”"
    )
    grid = collection.grid()
    outcome = {gap: rejected(grid, gap) for gap in GAPS}
    tested = {gap: tests for gap, (_, tests) in outcome.items() if tests}
    if not tested:
        return not_run(sentence, "scenarios of the paper’s grid long enough for a regression")
    counts = {gap: len(outcome[gap][0]) for gap in tested}
    if not any(counts.values()):
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.FAILS if counts.get("published", 1) else Verdict.PARTLY
    parts = [
        f"{counted(counts[gap], 'rejection')} in {tests} with `{gap}`"
        for gap, tests in tested.items()
    ]
    evidence = (
        "At the Šidák level for the tests that were run: " + ", ".join(parts) + ". A rejection "
        "speaks against the slope of the worst case, not against the theorem, which is about the "
        "running minimum."
    )
    rows = tuple(
        (
            gap,
            str(tests),
            number(sidak(LEVEL, tests)),
            number(
                min(r.regression(gap).p_value for r in grid if gap in r.worst and _finite(r, gap))
            ),
            ", ".join(cell(result) for result in outcome[gap][0]) or "none",
        )
        for gap, tests in tested.items()
    )
    header = ("gap", "tests", "Šidák limit", "smallest p", "rejected at (n, d, K)")
    return Finding(sentence, verdict, evidence, header, rows)


def _finite(result: ScenarioResult, gap: str) -> bool:
    return math.isfinite(result.regression(gap).p_value)


# --- The theorem and its line ----------------------------------------------------------------


def theorem(collection: Collection) -> Finding:
    """Test min over s <= t of g_s <= SSE_0 / (t + 1), in every run and at every t."""
    sentence = (
        "Theorem: the smallest of the first t + 1 gaps is at most SSE₀ / (t + 1), whatever n, d, K "
        "and the seeds."
    )
    results = collection.results
    rows, exceeded, runs = [], 0, sum(result.scenario.replications for result in results)
    for gap in ("gap", "decrease"):
        ratios = [
            (result.worst_ratio[gap], result) for result in results if gap in result.worst_ratio
        ]
        if not ratios:
            continue
        exceeded += sum(ratio > 1 for ratio, _ in ratios)
        largest, where = max(ratios, key=lambda pair: pair[0])
        rows.append((gap, number(largest), where.scenario.name))
    if not rows:
        return not_run(sentence, "any scenario")
    evidence = (
        f"Over all {runs:,} runs and all t the largest (t + 1) · min g / SSE₀ is "
        f"{max(float(row[1].replace('−', '-')) for row in rows):.3f}; the theorem allows 1."
    )
    if exceeded:
        evidence += f" It is exceeded in {counted(exceeded, 'scenario')}: a bug, here or there."
    verdict = Verdict.FAILS if exceeded else Verdict.HOLDS
    return Finding(sentence, verdict, evidence, ("gap", "largest ratio", "where"), tuple(rows))


def above_line(result: ScenarioResult, gap: str) -> int:
    """Count the t at which the worst-case gap lies above the theoretical line."""
    return sum(value * (t + 1) > result.scatter_max for t, value in enumerate(result.worst[gap]))


def bound_line(collection: Collection) -> Finding:
    """Test whether the line called "theoretical bound" bounds the worst-case gap."""
    sentence = (
        "“Theoretical bound” (heading of the tables): the line lies above the worst-case gap."
    )
    results = [*collection.grid(), *collection.segmentation()]
    rows, counts = [], {}
    for gap in GAPS:
        present = [result for result in results if gap in result.worst]
        if not present:
            continue
        hits = [(count, result) for result in present if (count := above_line(result, gap))]
        counts[gap] = len(hits)
        points = sum(len(result.worst[gap]) for result in present)
        where = "; ".join(f"{name_of(result)}: {count}" for count, result in hits) or "nowhere"
        rows.append((gap, f"{sum(count for count, _ in hits)} of {points}", where))
    if not rows:
        return not_run(sentence, "the paper’s grid or segmentation")
    if not any(counts.values()):
        verdict = Verdict.HOLDS
        evidence = "No worst-case gap lies above its line."
    else:
        verdict = Verdict.FAILS if all(counts.values()) else Verdict.PARTLY
        parts = [f"{counted(n, 'scenario')} with `{gap}`" for gap, n in counts.items()]
        evidence = (
            "The line is exceeded in "
            + ", ".join(parts)
            + ". That is no contradiction: the theorem "
            "bounds the smallest gap so far, not the gap at t, and the first term of `published` "
            "is counted from the seeds, which are no means of a partition."
        )
    header = ("gap", "points above the line", "where: how many")
    return Finding(sentence, verdict, evidence, header, tuple(rows))


# --- The shape of the worst case -------------------------------------------------------------


def rises(result: ScenarioResult, gap: str) -> tuple[int, int]:
    """Count the steps in the regression's window at which the worst-case gap rises, and all."""
    inside = result.worst[gap][: window(len(result.worst[gap]))]
    steps = [after > before for before, after in pairwise(inside)]
    return sum(steps), len(steps)


def monotone(collection: Collection) -> Finding:
    """Test "it tends to be monotonically decreasing in the preasymptotic regime"."""
    sentence = (
        "“We observe that it tends to be monotonically decreasing in the preasymptotic regime”, "
        "the reason why the paper studies the worst case in lieu of the running minimum."
    )
    results = [*collection.grid(), *collection.segmentation()]
    table = [(r, {gap: rises(r, gap) for gap in GAPS if gap in r.worst}) for r in results]
    totals = {}
    for gap in GAPS:
        pairs = [row[gap] for _, row in table if gap in row]
        totals[gap] = (sum(up for up, _ in pairs), sum(steps for _, steps in pairs))
    totals = {gap: pair for gap, pair in totals.items() if pair[1]}
    if not totals:
        return not_run(sentence, "the paper’s grid or segmentation")
    up, steps = totals.get("published") or next(iter(totals.values()))
    mostly = Verdict.PARTLY if 4 * up < steps else Verdict.FAILS
    verdict = mostly if up else Verdict.HOLDS
    parts = [f"{pair[0]} of {pair[1]} with `{gap}`" for gap, pair in totals.items()]
    falling = sum(all(up == 0 for up, _ in row.values()) for _, row in table)
    evidence = (
        "Steps within the regression’s window at which the worst-case gap rises: "
        + ", ".join(parts)
        + f". It falls at every step, for every gap, in {falling} of "
        f"{counted(len(table), 'scenario')}."
    )
    rows = tuple(
        (name_of(r), *(f"{row[g][0]} of {row[g][1]}" if g in row else "–" for g in GAPS))
        for r, row in table
    )
    return Finding(sentence, verdict, evidence, ("scenario", *GAPS), rows)


_CLAIMS = {
    "k": ("lower values of K", 1),
    "d": ("lower values of d", 1),
    "n": ("larger values of n", -1),
}


def between_lines(result: ScenarioResult, gap: str = "published") -> float:
    """Return the theoretical intercept minus the fitted one."""
    return result.bound_intercept - result.regression(gap).intercept


def discrepancy(collection: Collection, factor: str) -> Finding:
    """Test whether the lines are nearer to each other for lower K, lower d or larger n."""
    claim, sign = _CLAIMS[factor]
    sentence = f"“The discrepancy between the two lines appears to be smaller for … {claim}.”"
    # One line of cells for each pair of the other two sizes.
    lines: dict[tuple[int, ...], dict[int, float]] = {}
    others = [name for name in ("n", "d", "k") if name != factor]
    for result in collection.grid():
        distance = between_lines(result)
        if math.isfinite(distance):
            key = tuple(getattr(result.scenario, name) for name in others)
            lines.setdefault(key, {})[getattr(result.scenario, factor)] = distance
    pairs = [
        sign * (abs(line[high]) - abs(line[low]))
        for line in lines.values()
        for low, high in pairwise(sorted(line))
    ]
    shown = "K" if factor == "k" else factor
    if not pairs:
        return not_run(sentence, f"scenarios of the paper’s grid that differ in {shown} alone")
    as_claimed = sum(pair > 0 for pair in pairs)
    direction = "larger" if factor == "n" else "lower"
    evidence = (
        f"Between neighbors that differ in {shown} alone, the intercepts (`published`) are nearer "
        f"to each other at the {direction} {shown} in {as_claimed} of "
        f"{counted(len(pairs), 'pair')}; on average by {_signed(sum(pairs) / len(pairs))}."
    )
    values = sorted({value for line in lines.values() for value in line})
    header = (
        *("K" if name == "k" else name for name in others),
        *(f"{shown} = {v}" for v in values),
    )
    rows = tuple(
        (
            *map(str, key),
            *(f"{line[v]:.2f}".replace("-", "−") if v in line else "–" for v in values),
        )
        for key, line in sorted(lines.items())
    )
    return Finding(sentence, by_share(as_claimed, len(pairs)), evidence, header, rows)


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
