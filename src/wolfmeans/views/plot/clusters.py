"""Figures of the clusters: their sizes, their profiles, and how clearly points belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wolfmeans.views.colors import OUT, color_of
from wolfmeans.views.plot.canvas import (
    INK,
    LINE,
    SOFT,
    counted,
    from_model,
    new_figure,
    shortened,
    titled,
)
from wolfmeans.views.portrait import Portrait

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMED = 40
_MOST_FEATURES = 24
_MOST_WRITTEN = 160
# Limits of the deviation that the darkest colors show.
_LEAST_DEVIATION, _MOST_DEVIATION = 1.5, 3.0


@from_model
def sizes_figure(portrait: Portrait) -> Figure:
    """Draw the number of points in each cluster, the largest first."""
    order = sorted(portrait.clusters, key=lambda cluster: (-cluster.weight, cluster.index))
    weights = [cluster.weight for cluster in order]
    colors = [color_of(cluster.index) for cluster in order]
    what = "weight" if portrait.weighted else "points"
    if len(order) > _MOST_NAMED:
        figure, (ax,) = new_figure(1, 7.6, 3.8)
        ax.bar(range(1, len(order) + 1), weights, width=1.0, color=colors, linewidth=0)
        ax.set(xlabel="clusters, the largest first", ylabel=what, xlim=(0.5, len(order) + 0.5))
    else:
        left_out = portrait.left_out
        names = [f"{cluster.index}" for cluster in order] + (["left out"] if left_out else [])
        digits = ",.6g" if portrait.weighted else ",.0f"
        texts = [f"{cluster.weight:{digits}} ({cluster.share:.1%})" for cluster in order]
        if left_out:
            weights.append(_weight_left_out(portrait))
            colors.append(OUT)
            texts.append(counted(left_out, "point"))
        figure, (ax,) = new_figure(1, 7.0, 0.9 + 0.27 * len(names))
        bars = ax.barh(names, weights, color=colors, height=0.74)
        ax.bar_label(bars, texts, padding=4, fontsize=8.5, color=SOFT)
        ax.set_ylim(len(names) - 0.45, -0.55)
        ax.set_ylabel("cluster")
        ax.set_xlim(0, 1.25 * max(weights))
        ax.set_xticks([])
        ax.spines["bottom"].set_visible(False)
        ax.tick_params(left=False)
    titled(ax, f"{what} in each cluster")
    return figure


def _weight_left_out(portrait: Portrait) -> float:
    """Return the weight in no cluster, from the shares of the clusters."""
    inside = sum(cluster.weight for cluster in portrait.clusters)
    shares = sum(cluster.share for cluster in portrait.clusters)
    return max(0.0, inside / shares - inside) if shares > 0 else 0.0


@from_model
def profiles_figure(portrait: Portrait, at_most: int = _MOST_FEATURES) -> Figure:
    """Draw the means of the features in the clusters, the most distinguishing features first.

    Colors show how many standard deviations a mean lies above or below that of all points; the bars
    above show which fraction of the feature's variance lies between the clusters.
    """
    profiles = portrait.profiles
    features = profiles.order[: max(1, at_most)]
    deviation = profiles.deviation[:, features]
    n_clusters, n_features = deviation.shape
    width = 2.2 + 0.42 * max(6, n_features)
    height = 2.3 + min(9.0, max(4, n_clusters) * (0.3 if n_clusters <= _MOST_NAMED else 0.1))
    figure, (bars, cells) = new_figure(1, width, height, rows=2)
    grid = figure.add_gridspec(2, 1, height_ratios=(0.75, height - 2.3))
    bars.set_subplotspec(grid[0])
    cells.set_subplotspec(grid[1])
    most = float(np.clip(np.abs(deviation).max(), _LEAST_DEVIATION, _MOST_DEVIATION))
    _draw_strengths(bars, profiles.strength[features])
    image = cells.imshow(deviation, aspect="auto", cmap="PuOr_r", vmin=-most, vmax=most)
    _write_cells(cells, deviation, most)
    names = [shortened(portrait.names[j]) for j in features.tolist()]
    cells.set_xticks(
        range(n_features), names, rotation=40, ha="right", rotation_mode="anchor", parse_math=False
    )
    cells.tick_params(labelsize=8.5, length=0)
    if n_clusters <= _MOST_NAMED:
        cells.set_yticks(range(n_clusters), [f"{k}" for k in range(n_clusters)])
        for label, k in zip(cells.get_yticklabels(), range(n_clusters), strict=True):
            label.set(color=color_of(k), fontweight="bold")
    cells.set_ylabel("cluster")
    cells.spines[:].set_visible(False)
    color_bar = figure.colorbar(
        image,
        ax=cells,
        extend="both",
        pad=0.015,
        fraction=0.05,
        shrink=min(1.0, 2.6 / (height - 2.3)),
        anchor=(0.0, 1.0),
        aspect=16,
    )
    color_bar.set_label("standard deviations", fontsize=8.5)
    color_bar.ax.tick_params(labelsize=8)
    color_bar.outline.set_visible(False)
    some = f"{n_features} of " if n_features < len(portrait.names) else ""
    remark = f"means above and below those of all points; {some}{len(portrait.names)} features"
    titled(bars, "profiles of the clusters", remark)
    return figure


def _draw_strengths(ax: Axes, strengths: NDArray[np.float64]) -> None:
    ax.bar(range(len(strengths)), strengths, color=SOFT, width=0.7)
    ax.set(xlim=(-0.5, len(strengths) - 0.5), ylim=(0, 1), xticks=[], yticks=[0, 1])
    ax.set_yticks([0, 1], ["0", "1"], fontsize=8)
    ax.set_ylabel("share\nbetween", fontsize=8)
    ax.spines[["bottom", "left"]].set_color(LINE)


def _write_cells(ax: Axes, deviation: NDArray[np.float64], most: float) -> None:
    """Write the numbers into the cells unless there are too many."""
    if deviation.size > _MOST_WRITTEN:
        return
    for (k, j), value in np.ndenumerate(deviation):
        color = "white" if abs(value) > 0.62 * most else INK
        text = f"{value:+.1f}".replace("-", "\N{MINUS SIGN}") if abs(value) >= 0.05 else "0"
        ax.text(j, k, text, ha="center", va="center", fontsize=7.5, color=color)


@from_model
def margins_figure(portrait: Portrait) -> Figure:
    """Draw how clearly points belong to their clusters: 0 on a border, 1 at the center.

    Shows the sorted margins of the points of each cluster; with very many clusters, only the range
    that contains four fifths of them, and their mean.
    """
    margins = portrait.margins
    inside = margins.labels >= 0
    labels, values = margins.labels[inside], margins.values[inside]
    groups = [(k, np.sort(values[labels == k])[::-1]) for k in range(portrait.n_clusters)]
    groups = [(k, found) for k, found in groups if len(found)]
    if len(groups) > _MOST_NAMED:
        figure, (ax,) = new_figure(1, 7.6, 3.8)
        _draw_ranges(ax, groups)
        ax.axhline(margins.mean, color=INK, linestyle="--", linewidth=0.9)
        ax.set(xlabel="clusters, the clearest first", ylabel="margin", ylim=(0, 1))
    else:
        figure, (ax,) = new_figure(1, 7.0, 1.4 + min(8.0, max(1.6, 0.3 * len(groups))))
        _draw_sorted(ax, groups)
        ax.axvline(margins.mean, color=INK, linestyle="--", linewidth=0.9)
        ax.set(xlabel="margin", ylabel="cluster", xlim=(0, 1))
        ax.invert_yaxis()
    sampled = " of the points shown" if portrait.map.sampled else ""
    titled(
        ax,
        "how clearly points belong to their cluster",
        f"0 on a border, 1 on the center; mean{sampled} {margins.mean:.2f} (dashed)",
    )
    return figure


def _draw_sorted(ax: Axes, groups: list[tuple[int, NDArray[np.float64]]]) -> None:
    total = sum(len(found) for _, found in groups)
    # Small clusters get a visible height.
    least = 0.6 * total / len(groups)
    place, ticks = 0.0, []
    for k, found in groups:
        height = max(float(len(found)), least)
        heights = place + height * np.repeat(np.arange(len(found) + 1.0), 2)[1:-1] / len(found)
        ax.fill_betweenx(heights, np.repeat(found, 2), color=color_of(k), linewidth=0)
        ticks.append(place + height / 2)
        place += height + 0.2 * total / len(groups)
    ax.set_yticks(ticks, [f"{k}" for k, _ in groups], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.02 * total, place)


def _draw_ranges(ax: Axes, groups: list[tuple[int, NDArray[np.float64]]]) -> None:
    groups = sorted(groups, key=lambda group: -float(group[1].mean()))
    places = np.arange(1, len(groups) + 1)
    low, high = (np.array([np.quantile(found, q) for _, found in groups]) for q in (0.1, 0.9))
    colors = [color_of(k) for k, _ in groups]
    ax.vlines(places, low, high, color=colors, linewidth=max(0.8, 260.0 / len(groups)), alpha=0.45)
    means = [float(found.mean()) for _, found in groups]
    ax.scatter(places, means, color=colors, s=max(3.0, 600.0 / len(groups)), zorder=3)
    ax.set_xlim(0, len(groups) + 1)
