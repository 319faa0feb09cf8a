"""Figures of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wolfmeans.core.solution import Trace
from wolfmeans.views.plot.canvas import BOUND, GAP, MOVED, new_figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def trace_figure(trace: Trace) -> Figure:
    """Draw the gap with its guaranteed line, the inertia, and the moved points of a run."""
    figure, (gap, sse, moved) = new_figure(3, 12.0, 3.6)
    draw_gap(gap, trace)
    iteration = trace.t + 1
    sse.plot(iteration, trace.sse, color=GAP, marker="o", markersize=3, label="inertia")
    sse.set(xlabel="iteration")
    titled(sse, "inertia")
    if trace.lower_bound > 0:
        sse.axhline(trace.lower_bound, color=BOUND, linestyle="--", label="lower bound")
        sse.legend(frameon=False)
    moved.bar(iteration, trace.moved, color=MOVED, width=0.8)
    moved.set(xlabel="iteration")
    titled(moved, "points that change cluster")
    for ax in (sse, moved):
        ax.locator_params(axis="x", integer=True)
        if len(trace) == 1:
            ax.set_xlim(0, 2)
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
    ax.set(xscale="log", yscale="log", xlabel="iteration t + 1")
    titled(ax, "Frank-Wolfe gap")
    ticks = [m * 10**e for e in range(7) for m in (1, 2, 5) if m * 10**e <= max(2, len(trace))]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_xticks([], minor=True)
    if ax.lines:
        ax.legend(frameon=False)
