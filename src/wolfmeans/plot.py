"""Figures for papers and pages (needs matplotlib, which is imported when a figure is drawn)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.solution import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wolfmeans.scanned import Cell, Scan

_NAMED_CLUSTERS = 20
GAP, BOUND, MOVED = "#1f5fa8", "#c2571a", "#4b8b3b"


def _figure(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure that belongs to no window and no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install matplotlib") from error

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(1, columns, i + 1) for i in range(columns)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def trace_figure(trace: Trace) -> Figure:
    """Draw the gap with its guaranteed line, the SSE, and the moved points of a run."""
    figure, (gap, sse, moved) = _figure(3, 12.0, 3.6)
    draw_gap(gap, trace)
    iteration = trace.t + 1
    sse.plot(iteration, trace.sse, color=GAP, marker="o", markersize=3, label="SSE")
    sse.set(xlabel="iteration t + 1", title="sum of squared errors")
    if trace.lower_bound > 0:
        sse.axhline(trace.lower_bound, color=BOUND, linestyle="--", label="lower bound")
        sse.legend(frameon=False)
    moved.bar(iteration, trace.moved, color=MOVED, width=0.8)
    moved.set(xlabel="iteration t + 1", title="points that change cluster")
    for ax in (sse, moved):
        ax.locator_params(axis="x", integer=True)
    return figure


def draw_gap(ax: Axes, trace: Trace) -> None:
    """Draw g_t, its running minimum and h_0 / (t + 1), which bounds it, on logarithmic axes."""
    iteration = trace.t + 1
    positive = trace.gap > 0
    if positive.any():
        ax.plot(
            iteration[positive],
            trace.gap[positive],
            color=GAP,
            marker="o",
            markersize=3,
            label="gap $g_t$" if positive[-1] else "gap $g_t$, then 0",
        )
        smallest = np.minimum.accumulate(trace.gap)[positive]
        ax.step(
            iteration[positive],
            smallest,
            color=GAP,
            where="post",
            linewidth=0.8,
            linestyle=":",
            label="its running minimum",
        )
    bound = trace.rate_bound
    if (bound > 0).any():
        ax.plot(
            iteration, bound, color=BOUND, linestyle="--", label=r"bound $h_0/(t+1)$ on the minimum"
        )
    ax.set(xscale="log", yscale="log", xlabel="iteration t + 1", title="Frank-Wolfe gap")
    ticks = [m * 10**e for e in range(7) for m in (1, 2, 5) if m * 10**e <= max(2, len(trace))]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_xticks([], minor=True)
    if ax.lines:
        ax.legend(frameon=False)


def map_figure(X: Any, labels: NDArray[np.int32], centers: NDArray[np.floating]) -> Figure:
    """Draw the points in the plane of their first two principal components, with the centers."""
    mean = np.asarray(X, dtype=np.float64).mean(axis=0)
    centered = np.asarray(X, dtype=np.float64) - mean
    directions = np.linalg.svd(centered, full_matrices=False)[2][:2]
    points, places = centered @ directions.T, (centers - mean) @ directions.T
    if points.shape[1] < 2:
        points = np.column_stack([points, np.zeros(len(points))])
        places = np.column_stack([places, np.zeros(len(places))])
    figure, (ax,) = _figure(1, 7.6, 4.8)
    for k in range(len(centers)):
        x, y = points[labels == k].T
        ax.scatter(x, y, s=7, linewidths=0, alpha=0.7, label=f"cluster {k}")
    ax.scatter(places[:, 0], places[:, 1], c="black", marker="x", s=60, label="centers")
    ax.set(xlabel="first principal component", ylabel="second principal component")
    if len(centers) <= _NAMED_CLUSTERS:
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2)
    return figure


def scan_figure(scan: Scan) -> Figure:
    """Draw a scan: inertia with certified bands, silhouettes, and trimmed curves if there are any.

    A band reaches from the lower bound to the value found: the best possible SSE lies inside, with
    the confidence of the scan's bounds.
    """
    trimmed = len(scan.alphas) > 1
    figure, axes = _figure(3 if trimmed else 2, 13.0 if trimmed else 9.0, 3.9)
    for number, alpha in enumerate(scan.alphas):
        cells = scan.along_clusters(alpha)
        color, label = f"C{number}", f"alpha = {alpha:g}" if trimmed else "found"
        places = [cell.n_clusters for cell in cells]
        _draw_band(axes[0], places, cells, color, label)
        several = [cell for cell in cells if cell.n_clusters > 1]
        axes[1].plot(
            [cell.n_clusters for cell in several],
            [cell.silhouette for cell in several],
            color=color,
            marker="o",
            markersize=3,
            label=label,
        )
    axes[0].set(xlabel="number of clusters K", title="SSE, and where the best one can be")
    axes[1].set(xlabel="number of clusters K", title="silhouette by centers")
    for ax in axes[:2]:
        ax.locator_params(axis="x", integer=True)
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False)
    if trimmed:
        for number, n_clusters in enumerate(scan.n_clusters):
            shade = _shade(number / max(1, len(scan.n_clusters) - 1))
            cells = scan.along_alpha(n_clusters)
            shares = [cell.alpha for cell in cells]
            values = [cell.inertia for cell in cells]
            axes[2].plot(shares, values, color=shade, marker="o", markersize=3)
            axes[2].annotate(
                f"{n_clusters}",
                (shares[-1], values[-1]),
                xytext=(5, -3),
                fontsize=8,
                textcoords="offset points",
                color=shade,
            )
        axes[2].set(xlabel="trimmed share alpha", title="trimmed curves, one for each K")
        axes[2].set_ylim(bottom=0)
    return figure


def _draw_band(ax: Axes, places: list[int], cells: list[Cell], color: str, label: str) -> None:
    values = np.array([cell.inertia for cell in cells])
    lows = np.array([np.nan if c.lower_bound is None else c.lower_bound for c in cells])
    ax.plot(places, values, color=color, marker="o", markersize=3, label=label)
    ax.fill_between(places, lows, values, color=color, alpha=0.2, linewidth=0)
    below = "no clustering below" if label == "found" else None
    ax.plot(places, lows, color=color, linewidth=0.8, linestyle="--", label=below)


def _shade(share: float) -> tuple[float, float, float]:
    """A blue that grows darker with the share."""
    light, dark = np.array([0.62, 0.77, 0.91]), np.array([0.05, 0.19, 0.42])
    red, green, blue = (light + share * (dark - light)).tolist()
    return red, green, blue
