"""Log-log figures in the style of the paper: one per (n, d), K as series.

Every series has its worst-case gaps as marks (hollow where the regression leaves them out), the
fitted line, and dashed the theoretical line of slope -1 through the largest (n - 1) tr S.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfmeans.files.atomic import written_whole
from wolfmeans.study.claims import SkyDistances
from wolfmeans.study.results import (
    Collection,
    ScenarioResult,
    data_label,
    grouped,
    segmentation_columns,
)
from wolfmeans.study.statistics import window
from wolfmeans.study.tables import scenario_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LINE, PAPER = "#1b1f24", "#d7dbe0", "#ffffff"
"""Colors of text, grid and background; the page exchanges them for those of its theme."""
# Safe for the color-blind, and readable on white and on black paper.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b565a7", "#c08a00", "#3a9bd9", "#8c6d5a")
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Plate:
    """A figure with its file name (without ending) and caption."""

    name: str
    caption: str
    figure: Figure
    group: str
    """The gap it shows, or "data" for a figure of data alone."""

    @cached_property
    def svg(self) -> bytes:
        """The figure as SVG."""
        return self._rendered("svg")

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write PNG, SVG and PDF into a folder."""
        paths = [Path(folder) / f"{self.name}.{kind}" for kind in FORMATS]
        for path, kind in zip(paths, FORMATS, strict=True):
            with written_whole(path) as file:
                file.write(self.svg if kind == "svg" else self._rendered(kind))
        return paths

    def _rendered(self, kind: str) -> bytes:
        import matplotlib

        buffer = io.BytesIO()
        # Without a date and with a fixed salt the files of two runs are the same; publishers
        # refuse the Type 3 fonts that matplotlib would embed.
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        with matplotlib.rc_context({"svg.hashsalt": self.name, "pdf.fonttype": 42}):
            self.figure.savefig(buffer, format=kind, dpi=200, metadata=dates.get(kind))
        return buffer.getvalue()


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "data"


def plates(collection: Collection, gaps: Sequence[str]) -> list[Plate]:
    """Draw every figure of the worst-case gaps."""

    def family(result: ScenarioResult) -> tuple[object, ...]:
        scenario = result.scenario
        data = "segmentation" if _is_segmentation(result) else scenario.data
        return data, scenario.n, scenario.d, scenario.seeding, scenario.empty, scenario.alpha

    families = grouped(collection.firsts(), family)
    drawn: dict[str, Plate] = {}
    for gap in gaps:
        for results in families.values():
            plate = _plate(results, gap)
            name, number = plate.name, 2
            while plate.name in drawn:  # data whose names differ in special characters alone
                plate, number = replace(plate, name=f"{name}-{number}"), number + 1
            drawn[plate.name] = plate
    return list(drawn.values())


def _is_segmentation(result: ScenarioResult) -> bool:
    return result.scenario.data.startswith("segmentation-")


def _plate(results: list[ScenarioResult], gap: str) -> Plate:
    first = results[0].scenario
    if _is_segmentation(results[0]):
        name = slug(scenario_label(results[0]).replace(data_label(first.data), "segmentation"))
        caption = f"Worst-case {_GAP_NAMES[gap]} on the image segmentation data."
        labels = [segmentation_columns(r) for r in results]
        if len({r.scenario.k for r in results}) > 1:
            labels = [f"{x}, K = {r.scenario.k}" for x, r in zip(labels, results, strict=True)]
    else:
        name = f"{slug(scenario_label(results[0]))}-n{first.n}-d{first.d}"
        caption = (
            f"Worst-case {_GAP_NAMES[gap]} on “{scenario_label(results[0])}” data "
            f"for n = {first.n} and d = {first.d}."
        )
        labels = [f"K = {result.scenario.k}" for result in results]
    return Plate(f"{name}-{gap}", caption, rate_figure(results, labels, gap), gap)


_GAP_NAMES = {
    "published": "inertia drop from the seeds (“published”)",
    "decrease": "decrease of the objective",
    "gap": "Frank-Wolfe gap",
}


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure that belongs to no window and no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install matplotlib") from error

    figure = Figure(figsize=(width, height), facecolor=PAPER)
    # Fixed margins: axes of all figures line up, and no layout has to be found.
    ax = figure.add_axes((0.13, 0.125, 0.85, 0.855), facecolor=PAPER)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)
    ax.tick_params(which="both", colors=INK, labelsize=9)
    ax.grid(color=LINE, linewidth=0.6)
    ax.set_axisbelow(True)
    return figure, ax


def rate_figure(results: Sequence[ScenarioResult], labels: Sequence[str], gap: str) -> Figure:
    """Draw worst-case gaps, fitted lines and theoretical lines of several scenarios."""
    from matplotlib.lines import Line2D

    figure, ax = _figure(5.2, 4.1)
    handles, texts = [], []
    for index, (result, label) in enumerate(zip(results, labels, strict=True)):
        color, mark = _COLORS[index % len(_COLORS)], _MARKS[index % len(_MARKS)]
        _draw_series(ax, result, gap, color, mark)
        fit = result.regression(gap)
        slope = f"{fit.slope:.3f} ({fit.slope_se:.3f})" if math.isfinite(fit.slope) else "too short"
        handles.append(Line2D([], [], color=color, marker=mark, markersize=4.5, linewidth=1.6))
        texts.append(f"{label}:  {slope}".replace("-", "−"))
    handles.append(Line2D([], [], color=INK, linestyle=(0, (5, 3)), linewidth=0.9))
    texts.append("theory:  −1")
    if any(window(len(result.worst[gap])) < len(result.worst[gap]) for result in results):
        handles.append(Line2D([], [], color=INK, marker="o", markerfacecolor=PAPER, linewidth=0))
        handles[-1].set(markersize=4, markeredgewidth=0.8)
        texts.append("not in the fit")
    legend = ax.legend(
        handles, texts, title="slope (SE)", loc="lower left", fontsize=9, labelcolor=INK
    )
    legend.get_frame().set(facecolor=PAPER, edgecolor="none", alpha=0.8)
    legend.get_title().set(color=INK, fontsize=9)
    legend.set_alignment("left")
    _logarithmic(ax, max((len(result.worst[gap]) for result in results), default=1))
    _make_room(ax, results, gap, rows=len(texts) + 1)
    ax.set_xlabel("$t + 1$", color=INK)
    ax.set_ylabel(r"worst case $g_t^{\mathrm{WC}}$", color=INK)
    return figure


def _draw_series(ax: Axes, result: ScenarioResult, gap: str, color: str, mark: str) -> None:
    worst = np.array(result.worst[gap], dtype=float)
    if not len(worst):
        return
    t, fitted = np.arange(1, len(worst) + 1), window(len(worst))
    inside = (t <= fitted) & (worst > 0)
    outside = (t > fitted) & (worst > 0)
    style: dict[str, Any] = {"linestyle": "none", "marker": mark, "color": color}
    ax.plot(t[inside], worst[inside], **style, markersize=4.5, markeredgewidth=0, zorder=3)
    style |= {"markersize": 3.6, "markerfacecolor": PAPER, "markeredgewidth": 0.7}
    ax.plot(t[outside], worst[outside], **style, alpha=0.75, zorder=2)
    fit = result.regression(gap)
    ends = np.array([1.0, max(2.0, float(fitted))])
    if math.isfinite(fit.slope):
        ax.plot(ends, np.exp(fit.intercept) * ends**fit.slope, color=color, linewidth=1.6, zorder=4)
    reach = np.array([1.0, max(2.0, float(len(worst)))])
    dashes = (0, (5, 3))
    ax.plot(reach, result.scatter_max / reach, color=color, linestyle=dashes, linewidth=0.9)


def _logarithmic(ax: Axes, longest: int) -> None:
    ax.set(xscale="log", yscale="log")
    ticks = [m * 10**e for e in range(7) for m in (1, 2, 5) if m * 10**e <= max(2, longest)]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.yaxis.set_minor_formatter(lambda *_: "")
    ax.yaxis.set_major_formatter(lambda value, _: _power(value))


def _power(value: float) -> str:
    """Return a power of ten as text, which is drawn much faster than a formula."""
    return "10" + str(round(math.log10(value))).translate(_RAISED) if value > 0 else ""


def _make_room(ax: Axes, results: Sequence[ScenarioResult], gap: str, rows: int) -> None:
    """Leave the last, tiny gaps out of view, but keep the marks clear of the legend below left."""
    fitted, beside = [], []
    longest = max(2, *(len(result.worst[gap]) for result in results))
    tops = [math.log10(result.scatter_max) for result in results if result.scatter_max > 0]
    for result in results:
        heights = [math.log10(value) if value > 0 else None for value in result.worst[gap]]
        inside = window(len(heights))
        fitted += [height for height in heights[:inside] if height is not None]
        left = sum(math.log(t) < 0.5 * math.log(longest) for t in range(1, len(heights) + 1))
        beside += [height for height in heights[:left] if height is not None]
        start = result.regression(gap).intercept
        tops += [start / math.log(10)] if math.isfinite(start) else []
    if not fitted or not beside:
        return
    high, low = max(*tops, *fitted), min(fitted)
    high += 0.05 * (high - low) + 0.05
    share = min(0.7, 0.058 * rows + 0.03)
    low = min(low - 0.08 * (high - low), (min(beside) - share * high) / (1 - share))
    ax.set_ylim(10**low, 10**high)


def sky_plate(sky: SkyDistances) -> Plate:
    """Draw robust squared distances of the class SKY against chi-square quantiles."""
    figure, ax = _figure(5.2, 4.1)
    for values, color, mark, label in (
        (sky.squared, _COLORS[1], "o", f"SKY, {len(sky.squared)} rows"),
        (sky.gaussian, _COLORS[0], "s", "Gaussian sample of the same size"),
    ):
        style: Any = {"linestyle": "none", "marker": mark, "markersize": 3, "markeredgewidth": 0}
        ax.plot(sky.expected, np.sort(values), **style, color=color, label=label)
    ends = sky.expected[[0, -1]]
    ax.plot(ends, ends, color=INK, linestyle=(0, (5, 3)), linewidth=0.9, label="equality")
    _logarithmic(ax, math.ceil(ends[1]))
    ax.set_xlabel(rf"quantile of $\chi^2_{{{sky.dimension}}}$", color=INK)
    ax.set_ylabel("robust squared Mahalanobis distance", color=INK)
    legend = ax.legend(loc="upper left", fontsize=9, labelcolor=INK)
    legend.get_frame().set(facecolor=PAPER, edgecolor="none", alpha=0.8)
    caption = (
        "The class SKY of the image segmentation data is not Gaussian: robust squared Mahalanobis "
        f"distances ({sky.dimension} dimensions) against the quantiles expected of Gaussian data."
    )
    return Plate("segmentation-sky", caption, figure, "data")
