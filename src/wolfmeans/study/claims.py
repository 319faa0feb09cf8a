"""The paper's claims, each tested by the results of a study; `all_findings` lists them.

Every verdict is computed; a claim whose scenarios are missing is "not run". Printed numbers take no
part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm
from sklearn.covariance import MinCovDet

from wolfmeans.files.datasets import load_segmentation
from wolfmeans.study.results import (
    GAPS,
    MIXTURES,
    SEGMENTATION,
    Collection,
    ScenarioResult,
    follows_protocol,
    grouped,
    segmentation_columns,
)
from wolfmeans.study.statistics import Regression, sidak, window
from wolfmeans.study.tables import number, scenario_label, signed

LEVEL = 0.05
LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)
"""Quantiles of the class SKY."""
POOR = 4.0
"""Centers nearer than this many standard deviations are called poorly separated: the best rule
puts more than 2.3 % of the points of two such clusters into the wrong one."""


class Verdict(StrEnum):
    """Whether a claim holds."""

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
    """Judge a tendency: it holds from nine of ten cases on, and fails up to a half of them."""
    if 10 * number >= 9 * total:
        return Verdict.HOLDS
    return Verdict.FAILS if 2 * number <= total else Verdict.PARTLY


def by_gap(counts: Mapping[str, tuple[int, int]]) -> str:
    """Return "1 of 9 with `gap`, ..." for numbers of cases and their totals."""
    return ", ".join(f"{n} of {total} with `{gap}`" for gap, (n, total) in counts.items())


def cell(result: ScenarioResult) -> str:
    """Return "(n, d, K)"."""
    scenario = result.scenario
    return f"({scenario.n}, {scenario.d}, {scenario.k})"


def name_of(result: ScenarioResult) -> str:
    """Return data and sizes."""
    return f"{scenario_label(result)} {cell(result)}"


def all_findings(collection: Collection, sky: SkyDistances | None) -> list[Finding]:
    """Return a finding for each sentence; `sky` is None where segmentation was not run."""
    return [
        rejections(collection),
        theorem(collection),
        bound_line(collection),
        monotone(collection),
        *(discrepancy(collection, factor) for factor in ("k", "d", "n")),
        separation(collection),
        runtime(collection),
        segmentation(collection),
        sky_is_not_gaussian(sky),
        other_data(collection),
        beyond(collection),
    ]


# --- Tests of the slope ----------------------------------------------------------------------


def _fits(results: Iterable[ScenarioResult], gap: str) -> list[Regression]:
    """Return the regressions that have enough points for a test."""
    fits = (result.regression(gap) for result in results)
    return [fit for fit in fits if math.isfinite(fit.p_value)]


def _never_rejected(rejections: Mapping[str, tuple[int, int]]) -> Verdict:
    """Judge "not rejected": it holds for all gaps, for the published one at least, or fails."""
    if not any(count for count, _ in rejections.values()):
        return Verdict.HOLDS
    return Verdict.FAILS if rejections.get("published", (1, 1))[0] else Verdict.PARTLY


def rejected(results: Sequence[ScenarioResult], gap: str) -> tuple[list[ScenarioResult], int]:
    """Return the scenarios whose slope is significantly above -1, and how many were tested.

    The level is Šidák's for as many tests as there are, so that together they keep 0.05.
    """
    tested = [
        (result, p_value)
        for result in results
        if math.isfinite(p_value := result.regression(gap).p_value)
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
    counts = {gap: (len(outcome[gap][0]), tests) for gap, tests in tested.items()}
    parts = [
        f"{counted(count, 'rejection')} in {tests} with `{gap}`"
        for gap, (count, tests) in counts.items()
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
            number(min(fit.p_value for fit in _fits(grid, gap))),
            ", ".join(cell(result) for result in outcome[gap][0]) or "none",
        )
        for gap, tests in tested.items()
    )
    header = ("gap", "tests", "Šidák limit", "smallest p", "rejected at (n, d, K)")
    return Finding(sentence, _never_rejected(counts), evidence, header, rows)


# --- The theorem and its line ----------------------------------------------------------------


def theorem(collection: Collection) -> Finding:
    """Test min over s <= t of g_s <= SSE_0 / (t + 1), in every run and at every t."""
    sentence = (
        "Theorem: the smallest of the first t + 1 gaps is at most SSE₀ / (t + 1), whatever n, d, K "
        "and the seeds."
    )
    results = collection.results
    if not results:
        return not_run(sentence, "any scenario")
    rows, exceeded, largest = [], 0, 0.0
    for gap in ("gap", "decrease"):
        ratios = [(result.worst_ratio[gap], result.scenario.name) for result in results]
        exceeded += sum(ratio > 1 for ratio, _ in ratios)
        ratio, where = max(ratios, key=lambda pair: pair[0])
        rows.append((gap, number(ratio), where))
        largest = max(largest, round(ratio, 4))  # as in the table
    evidence = (
        f"Over all {sum(result.scenario.replications for result in results):,} runs and all t the "
        f"largest (t + 1) · min g / SSE₀ is {largest:.3f}; the theorem allows 1."
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
    if not results:
        return not_run(sentence, "the paper’s grid or segmentation")
    rows, counts = [], {}
    for gap in GAPS:
        hits = [(count, result) for result in results if (count := above_line(result, gap))]
        counts[gap] = len(hits)
        points = sum(len(result.worst[gap]) for result in results)
        where = "; ".join(f"{name_of(result)}: {count}" for count, result in hits) or "nowhere"
        rows.append((gap, f"{sum(count for count, _ in hits)} of {points}", where))
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
    table = [(result, [rises(result, gap) for gap in GAPS]) for result in results]
    totals = {}
    for j, gap in enumerate(GAPS):
        up, steps = sum(row[j][0] for _, row in table), sum(row[j][1] for _, row in table)
        if steps:
            totals[gap] = up, steps
    if not totals:
        return not_run(sentence, "the paper’s grid or segmentation")
    up, steps = totals.get("published") or next(iter(totals.values()))
    mostly = Verdict.PARTLY if 4 * up < steps else Verdict.FAILS
    verdict = mostly if up else Verdict.HOLDS
    falling = sum(all(up == 0 for up, _ in row) for _, row in table)
    evidence = (
        "Steps within the regression’s window at which the worst-case gap rises: "
        f"{by_gap(totals)}. It falls at every step, for every gap, in {falling} of "
        f"{counted(len(table), 'scenario')}."
    )
    rows = tuple((name_of(r), *(f"{up} of {steps}" for up, steps in row)) for r, row in table)
    return Finding(sentence, verdict, evidence, ("scenario", *GAPS), rows)


_CLAIMS = {
    "k": ("lower values of K", 1),
    "d": ("lower values of d", 1),
    "n": ("larger values of n", -1),
}


def discrepancy(collection: Collection, factor: str) -> Finding:
    """Test whether the lines are nearer to each other for lower K, lower d or larger n."""
    claim, sign = _CLAIMS[factor]
    sentence = f"“The discrepancy between the two lines appears to be smaller for … {claim}.”"
    # One line of cells for each pair of the other two sizes.
    lines: dict[tuple[int, ...], dict[int, float]] = {}
    others = [name for name in ("n", "d", "k") if name != factor]
    for result in collection.grid():
        # The theoretical intercept minus the fitted one.
        distance = result.bound_intercept - result.regression("published").intercept
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
        f"{counted(len(pairs), 'pair')}; on average by {signed(sum(pairs) / len(pairs))}."
    )
    values = sorted({value for line in lines.values() for value in line})
    header = (
        *("K" if name == "k" else name for name in others),
        *(f"{shown} = {v}" for v in values),
    )
    rows = tuple(
        (
            *map(str, key),
            *(number(line.get(v), 2) for v in values),
        )
        for key, line in sorted(lines.items())
    )
    return Finding(sentence, by_share(as_claimed, len(pairs)), evidence, header, rows)


# --- Separation of clusters -------------------------------------------------------------------


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
) -> tuple[tuple[tuple[str, ...], ...], dict[str, tuple[int, int]]]:
    """Return table rows and, by gap, how many tests reject at LEVEL, and of how many."""
    rows: list[tuple[str, ...]] = []
    rejections: dict[str, tuple[int, int]] = {}
    for repeats in groups:
        for gap in GAPS:
            if not (fits := _fits(repeats, gap)):
                continue
            hits, total = rejections.get(gap, (0, 0))
            hits += sum(fit.p_value < LEVEL for fit in fits)
            rejections[gap] = hits, total + len(fits)
            spans = (
                _span([getattr(fit, name) for fit in fits])
                for name in ("slope", "slope_se", "p_value")
            )
            rows.append((name_of(repeats[0]), gap, str(len(fits)), *spans))
    return tuple(rows), rejections


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


def segmentation(collection: Collection) -> Finding:
    """Test the image segmentation paragraph."""
    sentence = (
        "Image segmentation: “with β̂₁ = −1.2451 and se = 0.1228, the null hypothesis failed to be "
        "rejected at the test size of α = 0.05.”"
    )
    groups = _groups(collection, lambda data: data in SEGMENTATION)
    rows, rejections = _tests(groups)
    if not rows:
        return not_run(sentence, "`wolfmeans study segmentation`")
    parts = []
    for repeats in groups:
        slopes = [result.regression("published").slope for result in repeats]
        if slopes := [slope for slope in slopes if math.isfinite(slope)]:
            parts.append(f"{_span(slopes)} on {segmentation_columns(repeats[0])} columns")
    shifted = any(repeats[0].scenario.data == SEGMENTATION[2] for repeats in groups)
    meaning = "The paper’s “columns 6 through 19” can also be read one column earlier: shifted"
    meaning += "." if shifted else " (not run; `--features shifted`)."
    slopes_found = f"Slope with `published`: {'; '.join(parts)}. " if parts else ""
    evidence = f"{slopes_found}{meaning} Rejections at 0.05: {by_gap(rejections)}."
    # The paper does not say which columns; its slope is that of the standardized ones.
    meant = [g for g in groups if g[0].scenario.data == SEGMENTATION[0]] or groups
    verdict = _never_rejected(rejections)
    if verdict is Verdict.FAILS and _never_rejected(_tests(meant)[1]) is not Verdict.FAILS:
        verdict = Verdict.PARTLY
    return Finding(sentence, verdict, evidence, _TESTS_HEADER, rows)


def other_data(collection: Collection) -> Finding:
    """Test "other datasets: the results were consistent with the ones reported above"."""
    sentence = (
        "“Other popular datasets (e.g., Fisher’s Iris data, Swiss banknote data, etc.) … were "
        "consistent with the ones reported above.”"
    )
    groups = _groups(collection, lambda data: data not in (*MIXTURES, *SEGMENTATION))
    rows, rejections = _tests(groups)
    if not rows:
        return not_run(
            sentence, "`wolfmeans study data iris` (or another data set) with long enough runs"
        )
    evidence = f"Slopes above −1 at the level 0.05: {by_gap(rejections)}."
    return Finding(sentence, _never_rejected(rejections), evidence, _TESTS_HEADER, rows)


def beyond(collection: Collection) -> Finding:
    """Ask whether the rate holds where the paper did not look."""
    sentence = (
        "Beyond the paper: does the worst-case rate hold for other mixtures, other seedings, "
        "trimmed K-means and other sizes?"
    )
    others = [
        result
        for result in collection.beyond()
        if result.scenario.data in MIXTURES or not follows_protocol(result)
    ]
    rows = []
    families: dict[str, tuple[int, int]] = {}
    for label, results in grouped(others, scenario_label).items():
        for gap in GAPS:
            if not (fits := _fits(results, gap)):
                continue
            limit = sidak(LEVEL, len(fits))
            hits = sum(fit.p_value < limit for fit in fits)
            rejected_before, total = families.get(gap, (0, 0))
            families[gap] = rejected_before + (hits > 0), total + 1
            rows.append((label, gap, str(len(fits)), _span([fit.slope for fit in fits]), str(hits)))
    if not rows:
        return not_run(sentence, "scenarios with --kind, --seeding, --alpha or other sizes")
    evidence = f"Families with a slope above −1 at the Šidák level: {by_gap(families)}."
    header = ("data", "gap", "tests", "slopes", "rejections")
    return Finding(sentence, _never_rejected(families), evidence, header, tuple(rows))


# --- Is the class SKY of the image segmentation data Gaussian? --------------------------------


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


@dataclass(frozen=True)
class SkyDistances:
    """Squared robust Mahalanobis distances, and those of a Gaussian sample of the same shape."""

    dimension: int
    squared: NDArray[np.float64]
    gaussian: NDArray[np.float64]

    @property
    def expected(self) -> NDArray[np.float64]:
        """Chi-square quantiles that belong to the distances in ascending order."""
        shares = (np.arange(len(self.squared)) + 0.5) / len(self.squared)
        return np.asarray(chi2.ppf(shares, self.dimension))

    def quantiles(self) -> list[tuple[float, float, float, float]]:
        """Return level, SKY, Gaussian sample and chi-square for each of LEVELS."""
        return [
            (
                level,
                float(np.quantile(self.squared, level)),
                float(np.quantile(self.gaussian, level)),
                float(chi2.ppf(level, self.dimension)),
            )
            for level in LEVELS
        ]


def sky_distances(seed: int = 0) -> SkyDistances:
    """Compute the distances; the 14 columns have rank 9 within SKY and are reduced first."""
    data = load_segmentation()
    points = reduced_to_rank(data.data[np.char.lower(data.target) == "sky"])
    gaussian = np.random.default_rng(seed).standard_normal(points.shape)
    return SkyDistances(points.shape[1], _robust(points, seed), _robust(gaussian, seed))


def reduced_to_rank(points: NDArray[np.float64], tolerance: float = 1e-6) -> NDArray[np.float64]:
    """Return the principal components of the standardized columns that carry more than rounding."""
    spread = points.std(axis=0)
    varying = spread > 0
    standardized = (points[:, varying] - points[:, varying].mean(axis=0)) / spread[varying]
    scores, singular, _ = np.linalg.svd(standardized, full_matrices=False)
    rank = int(np.sum(singular > tolerance * singular[0]))
    return np.asarray(scores[:, :rank] * np.sqrt(len(points)))


def _robust(points: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    model = MinCovDet(random_state=seed).fit(points)
    return np.asarray(model.mahalanobis(points), dtype=np.float64)
