"""The paper's sentences about data: separation, model violations, segmentation, other data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from scipy.stats import norm

from wolfmeans.study.collection import (
    MIXTURES,
    SEGMENTATION,
    Collection,
    data_label,
    follows_protocol,
)
from wolfmeans.study.findings import Finding, Verdict, by_share, cell, counted, not_run
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.sky import SkyDistances
from wolfmeans.study.statistics import sidak
from wolfmeans.study.tables import number, scenario_label

LEVEL = 0.05
POOR = 4.0
"""Centers nearer than this many standard deviations are called poorly separated: the best rule
puts more than 2.3 % of the points of two such clusters into the wrong one."""


def name_of(result: ScenarioResult) -> str:
    """Return data and sizes."""
    return f"{scenario_label(result)} {cell(result)}"


def separation(collection: Collection) -> Finding:
    """Test "the clusters are rather poorly separated"."""
    sentence = (
        "“Although we consider spherical mixtures, the clusters are rather poorly separated.”"
    )
    distances: dict[tuple[int, int], float] = {}
    for result in collection.grid():
        median = result.separation.get("median_nearest")
        if median is not None:
            distances.setdefault((result.scenario.d, result.scenario.k), median)
    if not distances:
        return not_run(sentence, "scenarios of the paper’s grid")
    poor = sum(value < POOR for value in distances.values())
    low, high = (f(distances, key=lambda place: distances[place]) for f in (min, max))
    evidence = (
        f"The median distance of a center to the nearest other one runs from {distances[low]:.1f}σ "
        f"(d = {low[0]}, K = {low[1]}) to {distances[high]:.1f}σ (d = {high[0]}, K = {high[1]}). "
        f"It is below {POOR:g}σ, where two clusters overlap noticeably, in {poor} of "
        f"{counted(len(distances), 'pair')} (d, K)."
    )
    rows = tuple(
        (str(d), str(k), f"{value:.1f}σ", f"{float(norm.sf(value / 2)):.2%}")
        for (d, k), value in sorted(distances.items())
    )
    header = ("d", "K", "median nearest center", "overlap of two such clusters")
    return Finding(sentence, by_share(poor, len(distances)), evidence, header, rows)


# --- Runtime ---------------------------------------------------------------------------------


def mean_iterations(result: ScenarioResult) -> tuple[float, float]:
    """Return the mean number of steps and its standard error."""
    pairs = result.iterations.items()
    total = sum(runs for _, runs in pairs)
    mean = sum(steps * runs for steps, runs in pairs) / total
    variance = sum(runs * (steps - mean) ** 2 for steps, runs in pairs) / max(1, total - 1)
    return mean, math.sqrt(variance / total)


def runtime(collection: Collection) -> Finding:
    """Test "model violations tend to increase the runtime" by numbers of steps."""
    sentence = (
        "“Aside from statistical implications, model violations tend to increase the runtime.”"
    )
    blobs: dict[tuple[object, ...], ScenarioResult] = {}
    others = []
    for result in collection.firsts():
        scenario = result.scenario
        key = (scenario.n, scenario.d, scenario.k, scenario.seeding, scenario.empty, scenario.alpha)
        if scenario.data == "blobs":
            blobs.setdefault(key, result)
        elif scenario.data in MIXTURES:
            others.append((key, result))
    pairs = [(blobs[key], result) for key, result in others if key in blobs]
    if not pairs:
        return not_run(
            sentence,
            "elliptic, unbalanced, heavy-tailed or uniform data beside blobs of the same size",
        )
    rows = []
    slower: dict[str, list[bool]] = {}
    for blob, result in pairs:
        (mean, error), (base, base_error) = mean_iterations(result), mean_iterations(blob)
        clearly = mean - base > 2 * math.hypot(error, base_error)
        slower.setdefault(result.scenario.data, []).append(clearly)
        longest = [max(r.iterations) for r in (result, blob)]
        rows.append(
            (
                name_of(result),
                f"{mean:.2f} ± {error:.2f}",
                f"{base:.2f} ± {base_error:.2f}",
                f"{mean / base:.2f}×",
                f"{longest[0]} / {longest[1]}",
            )
        )
    parts = [f"{data} in {sum(hits)} of {len(hits)}" for data, hits in slower.items()]
    evidence = (
        "Mean number of steps clearly above that on blobs of the same size (by more than two "
        "standard errors): " + ", ".join(parts) + "."
    )
    every = [hit for hits in slower.values() for hit in hits]
    header = ("scenario", "steps", "steps on blobs", "ratio", "longest run / on blobs")
    return Finding(sentence, by_share(sum(every), len(every)), evidence, header, tuple(rows))


# --- Fixed data sets -------------------------------------------------------------------------


def _tests(
    groups: Iterable[list[ScenarioResult]],
) -> tuple[tuple[tuple[str, ...], ...], dict[str, list[bool]]]:
    """Return table rows and, by gap, whether each repeat was rejected at LEVEL."""
    rows: list[tuple[str, ...]] = []
    outcome: dict[str, list[bool]] = {}
    for repeats in groups:
        for gap in GAPS:
            fits = [result.regression(gap) for result in repeats if gap in result.worst]
            fits = [fit for fit in fits if math.isfinite(fit.p_value)]
            if not fits:
                continue
            outcome.setdefault(gap, []).extend(fit.p_value < LEVEL for fit in fits)
            rows.append(
                (
                    name_of(repeats[0]),
                    gap,
                    str(len(fits)),
                    _span([fit.slope for fit in fits]),
                    _span([fit.slope_se for fit in fits]),
                    _span([fit.p_value for fit in fits]),
                )
            )
    return tuple(rows), outcome


def _span(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} … {high}"


_TESTS_HEADER = ("scenario", "gap", "repeats", "slope", "its standard error", "p-value")


def _groups(collection: Collection, wanted: Callable[[str], bool]) -> list[list[ScenarioResult]]:
    return [
        repeats
        for repeats in collection.repeats()
        if wanted(repeats[0].scenario.data) and follows_protocol(repeats[0])
    ]


def _never_rejected(outcome: dict[str, list[bool]]) -> Verdict:
    """Judge "not rejected": it holds for all gaps, for the published one at least, or fails."""
    if not any(hit for hits in outcome.values() for hit in hits):
        return Verdict.HOLDS
    return Verdict.FAILS if any(outcome.get("published", [True])) else Verdict.PARTLY


def segmentation(collection: Collection) -> Finding:
    """Test the image segmentation paragraph."""
    sentence = (
        "Image segmentation: “with β̂₁ = −1.2451 and se = 0.1228, the null hypothesis failed to be "
        "rejected at the test size of α = 0.05.”"
    )
    groups = _groups(collection, lambda data: data in SEGMENTATION)
    rows, outcome = _tests(groups)
    if not rows:
        return not_run(sentence, "`wolfmeans study segmentation`")
    parts = []
    for repeats in groups:
        slopes = [
            fit.slope
            for result in repeats
            if "published" in result.worst
            and math.isfinite((fit := result.regression("published")).slope)
        ]
        if slopes:
            variant = data_label(repeats[0].scenario.data).partition(", ")[2]
            parts.append(f"{_span(slopes)} on {variant} columns")
    shifted = any(repeats[0].scenario.data == SEGMENTATION[2] for repeats in groups)
    meaning = " The paper’s “columns 6 through 19” can also be read one column earlier: shifted"
    meaning += "." if shifted else " (not run; `--features shifted`)."
    hits = {gap: sum(h) for gap, h in outcome.items()}
    rejections = ", ".join(f"{n} of {len(outcome[gap])} with `{gap}`" for gap, n in hits.items())
    evidence = (
        ("Slope with `published`: " + "; ".join(parts) + "." if parts else "")
        + meaning
        + f" Rejections at 0.05: {rejections}."
    ).strip()
    # The paper does not say which columns; its slope is that of the standardized ones.
    meant = [g for g in groups if g[0].scenario.data == SEGMENTATION[0]] or groups
    verdict = _never_rejected(outcome)
    if verdict is Verdict.FAILS and _never_rejected(_tests(meant)[1]) is not Verdict.FAILS:
        verdict = Verdict.PARTLY
    return Finding(sentence, verdict, evidence, _TESTS_HEADER, rows)


def sky_is_not_gaussian(sky: SkyDistances | None) -> Finding:
    """Test "the robust distances of SKY exceed the chi-square quantiles"."""
    sentence = (
        "“By analyzing the empirical quantiles of robust squared Mahalanobis distances of the SKY "
        "component, they showed that the former significantly exceeded respective χ² quantiles.”"
    )
    if sky is None:
        return not_run(sentence, "`wolfmeans study segmentation`")
    quantiles = sky.quantiles()
    above = sum(ours > max(gaussian, expected) for _, ours, gaussian, expected in quantiles)
    level, ours, gaussian, expected = quantiles[-1]
    evidence = (
        f"{above} of {len(quantiles)} quantiles of SKY exceed those of χ² and of a Gaussian sample "
        f"of the same size; the {level:.0%} quantile is {ours:,.0f} against {expected:.1f} (χ² "
        f"with {sky.dimension} degrees of freedom: within SKY the 14 columns have rank "
        f"{sky.dimension}) and {gaussian:.1f} (Gaussian sample)."
    )
    rows = tuple(
        (f"{level:.0%}", f"{ours:,.1f}", f"{gaussian:.1f}", f"{expected:.1f}")
        for level, ours, gaussian, expected in quantiles
    )
    header = ("quantile", "SKY", "Gaussian sample", "χ²")
    return Finding(sentence, by_share(above, len(quantiles)), evidence, header, rows)


def other_data(collection: Collection) -> Finding:
    """Test "other datasets: the results were consistent with the ones reported above"."""
    sentence = (
        "“Other popular datasets (e.g., Fisher’s Iris data, Swiss banknote data, etc.) … were "
        "consistent with the ones reported above.”"
    )
    groups = _groups(collection, lambda data: data not in (*MIXTURES, *SEGMENTATION))
    rows, outcome = _tests(groups)
    if not rows:
        return not_run(
            sentence, "`wolfmeans study data iris` (or another data set) with long enough runs"
        )
    parts = [f"{sum(hits)} of {len(hits)} with `{gap}`" for gap, hits in outcome.items()]
    evidence = f"Slopes above −1 at the level 0.05: {', '.join(parts)}."
    return Finding(sentence, _never_rejected(outcome), evidence, _TESTS_HEADER, rows)


def beyond(collection: Collection) -> Finding:
    """Ask whether the rate holds where the paper did not look."""
    sentence = (
        "Beyond the paper: does the worst-case rate hold for other mixtures, other seedings, "
        "trimmed K-means and other sizes?"
    )
    groups: dict[str, list[ScenarioResult]] = {}
    for result in collection.beyond():
        if result.scenario.data in MIXTURES or not follows_protocol(result):
            groups.setdefault(scenario_label(result), []).append(result)
    rows = []
    outcome: dict[str, list[bool]] = {}
    for label, results in groups.items():
        for gap in GAPS:
            fits = [result.regression(gap) for result in results if gap in result.worst]
            fits = [fit for fit in fits if math.isfinite(fit.p_value)]
            if not fits:
                continue
            limit = sidak(LEVEL, len(fits))
            hits = sum(fit.p_value < limit for fit in fits)
            outcome.setdefault(gap, []).append(hits > 0)
            rows.append((label, gap, str(len(fits)), _span([fit.slope for fit in fits]), str(hits)))
    if not rows:
        return not_run(sentence, "scenarios with --kind, --seeding, --alpha or other sizes")
    parts = [f"{sum(hits)} of {len(hits)} with `{gap}`" for gap, hits in outcome.items()]
    evidence = f"Families with a slope above −1 at the Šidák level: {', '.join(parts)}."
    header = ("data", "gap", "tests", "slopes", "rejections")
    return Finding(sentence, _never_rejected(outcome), evidence, header, tuple(rows))
