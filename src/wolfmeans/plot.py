"""Figures for papers and pages (needs matplotlib, which is imported when a figure is drawn)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.solution import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP, BOUND, MOVED = "#1f5fa8", "#c2571a", "#4b8b3b"


def _figure(columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure that belongs to no window and no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'wolfmeans[plot]'") from error

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
    sse.plot(iteration, trace.sse, color=GAP, marker="o", markersize=3)
    sse.set(xlabel="iteration t + 1", title="sum of squared errors")
    if trace.lower_bound > 0:
        sse.axhline(trace.lower_bound, color=BOUND, linestyle="--", label="lower bound")
        sse.legend(frameon=False)
    moved.bar(iteration, trace.moved, color=MOVED, width=0.8)
    moved.set(xlabel="iteration t + 1", title="points that change cluster")
    return figure


def draw_gap(ax: Axes, trace: Trace) -> None:
    """Draw g_t, its running minimum and h_0 / (t + 1) on logarithmic axes."""
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
    bound = trace.rate_bound
    if (bound > 0).any():
        ax.plot(iteration, bound, color=BOUND, linestyle="--", label=r"guaranteed $h_0/(t+1)$")
    ax.set(xscale="log", yscale="log", xlabel="iteration t + 1", title="Frank-Wolfe gap")
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
    figure, (ax,) = _figure(1, 6.4, 4.8)
    ax.scatter(points[:, 0], points[:, 1], c=labels, cmap="tab10", s=7, linewidths=0, alpha=0.7)
    ax.scatter(places[:, 0], places[:, 1], c="black", marker="x", s=60, label="centers")
    ax.set(xlabel="first principal component", ylabel="second principal component")
    ax.legend(frameon=False)
    return figure
