"""The figure of a scan over numbers of clusters and trimmed shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wolfmeans.estimators.scan_result import ticks_of
from wolfmeans.views.colors import color_of
from wolfmeans.views.plot.canvas import SOFT, new_figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wolfmeans.estimators.scan_result import Cell, Scan


def scan_figure(scan: Scan) -> Figure:
    """Draw a scan: inertia with certified bands, silhouettes, and trimmed curves if there are any.

    A band reaches from the lower bound to the inertia found: the optimum lies inside, with
    the confidence of the scan's bounds.
    """
    trimmed = len(scan.alphas) > 1
    figure, axes = new_figure(3 if trimmed else 2, 13.0 if trimmed else 9.0, 3.9)
    for number, alpha in enumerate(scan.alphas):
        cells = scan.along_clusters(alpha)
        color, label = color_of(number), f"alpha = {alpha:g}" if trimmed else "found"
        places = [cell.n_clusters for cell in cells]
        _draw_band(axes[0], places, cells, color, label)
        _draw_elbow(axes[0], scan.elbow(alpha), cells, color, label=not trimmed)
        _draw_silhouettes(axes[1], cells, color, both=not trimmed)
    titled(axes[0], "inertia and its lower bound")
    titled(axes[1], "silhouette")
    numbers = scan.n_clusters
    for ax in axes[:2]:
        ax.set_xlabel("number of clusters K")
        ax.set_xticks(ticks_of(numbers))
        if len(numbers) == 1:
            ax.set_xlim(numbers[0] - 1, numbers[0] + 1)
    if scan.best is not None and not trimmed:
        for ax in axes:
            best = scan.best.n_clusters
            ax.axvline(best, color=SOFT, linewidth=1, linestyle=":", label=f"best: K = {best}")
        axes[1].legend(frameon=False)
    axes[0].set_ylim(0, 1.05 * max(cell.inertia for cell in scan) or 1.0)
    axes[0].legend(frameon=False, loc="upper right" if len(numbers) > 1 else "lower right")
    if trimmed:
        _draw_curves(axes[2], scan)
    return figure


def _draw_elbow(ax: Axes, k: int | None, cells: list[Cell], color: str, *, label: bool) -> None:
    """Draw a ring around the point where the curve bends most."""
    for cell in cells:
        if cell.n_clusters == k:
            ax.plot(
                [k],
                [cell.inertia],
                color=color,
                marker="o",
                markerfacecolor="none",
                markersize=11,
                linestyle="none",
                label="elbow" if label else None,
            )


def _draw_silhouettes(ax: Axes, cells: list[Cell], color: str, *, both: bool) -> None:
    """Draw the silhouette, and the simplified one if there is room for both."""
    several = [cell for cell in cells if cell.n_clusters > 1]
    places = [cell.n_clusters for cell in several]
    values = [cell.silhouette for cell in several]
    ax.plot(places, values, color=color, marker="o", markersize=3, label="silhouette")
    if both and several:
        simplified = [cell.simplified_silhouette for cell in several]
        ax.plot(places, simplified, color=color, linestyle="--", label="simplified (by centers)")
        ax.legend(frameon=False)


def _draw_band(ax: Axes, places: list[int], cells: list[Cell], color: str, label: str) -> None:
    values = np.array([cell.inertia for cell in cells])
    lows = np.array([np.nan if c.lower_bound is None else c.lower_bound for c in cells])
    ax.plot(places, values, color=color, marker="o", markersize=3, label=label)
    ax.fill_between(places, lows, values, color=color, alpha=0.2, linewidth=0)
    below = "lower bound" if label == "found" else None
    # A line needs two points.
    mark = "_" if len(places) == 1 else ""
    ax.plot(places, lows, color=color, linewidth=0.8, linestyle="--", marker=mark, label=below)


def _draw_curves(ax: Axes, scan: Scan) -> None:
    """Draw one curve for each number of clusters, with its number if there is room."""
    curves = [scan.along_alpha(n_clusters) for n_clusters in scan.n_clusters]
    highest = max(cell.inertia for cells in curves for cell in cells)
    spreads = [np.ptp([cells[end].inertia for cells in curves]) for end in (0, -1)]
    end, aside = (-1, (5, -3)) if spreads[1] >= spreads[0] else (0, (-5, -3))
    named = apart([cells[end].inertia for cells in curves], 0.04 * highest)
    for number, cells in enumerate(curves):
        shade = _shade(number / max(1, len(curves) - 1))
        shares = [cell.alpha for cell in cells]
        values = [cell.inertia for cell in cells]
        ax.plot(shares, values, color=shade, marker="o", markersize=3)
        if number not in named:
            continue
        ax.annotate(
            f"{cells[end].n_clusters}",
            (shares[end], values[end]),
            xytext=aside,
            ha="left" if end else "right",
            fontsize=8,
            textcoords="offset points",
            color=SOFT,
        )
    ax.set_xlabel("trimmed fraction alpha")
    titled(ax, "trimmed curves, one for each K")
    ax.margins(x=0.12)
    ax.set_ylim(bottom=0)


def apart(values: list[float], least: float) -> set[int]:
    """Return the places of falling values that are `least` apart, so that names fit beside them.

    The first and, if it is far enough from it, the last value are among them.
    """
    last = len(values) - 1
    named = [0]
    for place, value in enumerate(values):
        before, after = values[named[-1]] - value, value - values[last]
        if before >= least and (after >= least or place == last):
            named.append(place)
    return set(named)


def _shade(share: float) -> tuple[float, float, float]:
    """Return a blue, the darker the larger the share."""
    light, dark = np.array([0.62, 0.77, 0.91]), np.array([0.05, 0.19, 0.42])
    red, green, blue = (light + share * (dark - light)).tolist()
    return red, green, blue
