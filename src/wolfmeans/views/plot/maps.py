"""Maps: points and centers in the plane of the first two principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wolfmeans.views.colors import OUT, color_of
from wolfmeans.views.plot.canvas import INK, LINE, SOFT, counted, from_model, new_figure, titled
from wolfmeans.views.portrait import Frame, Portrait

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NUMBERED = 60
_MOST_EDGED = 200
# In typographic points: how far from its center a number may be, the size of a number, and about
# that of the picture.
_STEPS = (11.5, 19.0, 27.0, 36.0)
_DIRECTIONS = ((0, 1), (1, 0), (-1, 0), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8))
_NUMBER = np.array([13.0, 11.0])
_PAPER = np.array([480.0, 310.0])

Places = NDArray[np.float64]


@from_model
def map_figure(portrait: Portrait) -> Figure:
    """Draw the points of a portrait in the colors of their clusters, and the centers.

    Centers show the numbers of their clusters. Points that are left out are grey; if some of them
    are far from all clusters and outside the picture, a remark says so.
    """
    figure, (ax,) = new_figure(1, 7.6, 5.4)
    shown = portrait.map
    places = _spread_out(shown.points, portrait.n_features)
    limits = _limits(places[shown.labels >= 0], shown.centers, portrait.n_features == 1)
    _draw_points(ax, places, shown.labels, size=_size(len(places)))
    _draw_centers(ax, shown.centers, size=46 if portrait.n_clusters <= 20 else 22)
    if portrait.n_clusters <= _MOST_NUMBERED:
        _draw_numbers(ax, shown.centers, limits)
    _frame(ax, limits, portrait)
    titled(ax, counted(portrait.n_clusters, "cluster"), _map_remark(portrait, places, ax))
    return figure


@from_model
def replay_figure(portrait: Portrait, n_frames: int = 6) -> Figure:
    """Draw some steps of the run: the first, the last, and more of the early ones in between.

    Points that changed cluster since the previous picture are marked, and thin lines show how the
    centers moved since then.
    """
    if portrait.replay is None:
        reason = portrait.replay_note or "the portrait was made with replay=False"
        raise ValueError(f"there is no replay to draw: {reason}")
    if n_frames < 1:
        raise ValueError(f"n_frames must be at least 1; got {n_frames}")
    frames = _chosen(portrait.replay.frames, n_frames)
    columns = min(3, len(frames))
    rows = -(-len(frames) // columns)
    figure, axes = new_figure(columns, 3.4 * columns + 0.2, 2.75 * rows + 0.1, rows)
    places = _spread_out(portrait.map.points, portrait.n_features)
    centers = np.vstack([frame.centers for frame in frames])
    limits = _limits(places[portrait.map.labels >= 0], centers, portrait.n_features == 1)
    for ax, before, frame in zip(axes, [None, *frames], frames, strict=False):
        _draw_points(ax, places, frame.labels, size=0.6 * _size(len(places)), alpha=0.35)
        if before is not None:
            _draw_changes(ax, places, before, frame)
        _draw_centers(ax, frame.centers, size=34 if portrait.n_clusters <= 20 else 12)
        _frame(ax, limits, portrait, axis_names=False)
        moved = f", {frame.moved:,} moved" if frame.moved else ""
        titled(ax, frame.title, f"inertia {frame.sse:.5g}{moved}")
    for ax in axes[len(frames) :]:
        ax.set_visible(False)
    return figure


def _chosen(frames: tuple[Frame, ...], n_frames: int) -> list[Frame]:
    """Return some of the frames: the first, the last, and more of the early ones in between."""
    if len(frames) <= n_frames:
        return list(frames)
    if n_frames == 1:
        return [frames[-1]]
    steps = np.geomspace(1, len(frames), n_frames) - 1
    places: list[int] = []
    for step in steps.round().astype(int).tolist():
        places.append(max(step, places[-1] + 1) if places else step)
    return [frames[place] for place in places]


def _map_remark(portrait: Portrait, places: Places, ax: Axes) -> str:
    shown = portrait.map
    parts = [
        f"{len(shown.rows):,} of {shown.n_points:,} points"
        if shown.sampled
        else counted(shown.n_points, "point")
    ]
    if portrait.left_out:
        left_out = f"{portrait.left_out:,} left out (grey)"
        (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
        x, y = places.T
        outside = int(np.count_nonzero((x < x0) | (x > x1) | (y < y0) | (y > y1)))
        if outside:
            left_out += f", {outside:,} of those shown beyond the edges"
        parts.append(left_out)
    return ", ".join(parts)


def _spread_out(points: Places, n_features: int) -> Places:
    """Return the places; points of one column are spread at random across their line."""
    if n_features > 1 or not len(points):
        return points
    aside = np.random.default_rng(0).uniform(-0.5, 0.5, len(points))
    return np.column_stack([points[:, 0], aside])


def _limits(places: Places, centers: Places, line: bool) -> tuple[Places, Places]:
    """Return the corners of the view: the clusters, with some room around them."""
    everything = np.vstack([places, centers])
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = 0.05 * (high - low)
    # Equal points still need an interval.
    room[room <= 0] = 0.5 * np.maximum(1e-3, np.abs(high[room <= 0]))
    low, high = low - room, high + room
    if not line and not _is_elongated(high - low):
        # The shape of the paper, so that it is filled when both axes have the same scale.
        sides = _PAPER * np.max((high - low) / _PAPER)
        middle = (low + high) / 2
        low, high = middle - sides / 2, middle + sides / 2
    return low, high


def _is_elongated(sides: Places) -> bool:
    """Whether one scale for both axes would leave more than half of the paper empty."""
    shares = sides / _PAPER
    return bool(shares.min() < 0.5 * shares.max())


def _frame(
    ax: Axes, limits: tuple[Places, Places], portrait: Portrait, *, axis_names: bool = True
) -> None:
    low, high = limits
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    line = portrait.n_features == 1
    if not line and not _is_elongated(high - low):
        # Distances mean the same in all directions.
        ax.set_aspect("equal")
    if not axis_names:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[["left", "bottom"]].set_color(LINE)
        return
    first, second = portrait.map.explained
    ax.tick_params(colors=SOFT, labelsize=8.5)
    if line:
        ax.set_xlabel("distance from the mean")
        ax.set_yticks([])
        ax.set_ylabel("spread out at random")
        return
    ax.set_xlabel(f"first principal component ({first:.0%} of the variance)")
    ax.set_ylabel(f"second principal component ({second:.0%})")


def _size(n_points: int) -> float:
    """Return the area of a point's mark: large for a few, small for thousands."""
    return float(np.clip(9000.0 / max(1, n_points), 7.0, 40.0))


def _draw_points(
    ax: Axes, places: Places, labels: NDArray[np.int32], *, size: float, alpha: float = 0.75
) -> None:
    out = labels < 0
    if out.any():
        x, y = places[out].T
        ax.scatter(x, y, s=size + 8, c=OUT, marker="x", linewidths=0.8, zorder=1.5)
    x, y = places[~out].T
    colors = [color_of(k) for k in labels[~out].tolist()]
    ax.scatter(x, y, s=size, c=colors, linewidths=0, alpha=alpha, zorder=2)


def _draw_changes(ax: Axes, places: Places, before: Frame, frame: Frame) -> None:
    """Mark points that changed cluster since the frame before; draw the paths of the centers."""
    from matplotlib.collections import LineCollection

    changed = frame.labels != before.labels
    x, y = places[changed].T
    colors = [color_of(k) for k in frame.labels[changed].tolist()]
    edge = 0.35 if len(colors) <= _MOST_EDGED else 0.0
    ax.scatter(x, y, s=12, c=colors, edgecolors=INK, linewidths=edge, zorder=3)
    paths = np.stack([before.centers, frame.centers], axis=1)
    ax.add_collection(LineCollection(list(paths), colors=INK, linewidths=0.9, zorder=4))


def _draw_centers(ax: Axes, centers: Places, *, size: float) -> None:
    colors = [color_of(k) for k in range(len(centers))]
    x, y = centers.T
    ax.scatter(x, y, s=size, c=colors, marker="o", edgecolors="white", linewidths=1.8, zorder=5)
    ax.scatter(
        x, y, s=size, marker="o", facecolors="none", edgecolors=INK, linewidths=0.7, zorder=5
    )


def _draw_numbers(ax: Axes, centers: Places, limits: tuple[Places, Places]) -> None:
    """Write the clusters' numbers beside their centers, where they do not hide each other."""
    from matplotlib.patheffects import withStroke

    low, high = limits
    marks = (centers - low) * (_PAPER / (high - low))
    taken: list[Places] = []
    for k, mark in enumerate(marks):
        aside = _free_place(mark, marks, taken)
        taken.append(mark + aside)
        far = float(np.abs(aside).max()) > _STEPS[0] + 1
        ax.annotate(
            f"{k}",
            tuple(centers[k]),
            xytext=tuple(aside),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=9,
            fontweight="bold",
            color=INK,
            zorder=7,
            path_effects=[withStroke(linewidth=2.6, foreground="white")],
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.6} if far else None,
            annotation_clip=False,
        )


def _free_place(mark: Places, marks: Places, taken: list[Places]) -> Places:
    """Return the offset of a center's number: a small one at which it covers no other."""
    others = np.vstack([marks, *taken]) if taken else marks
    for step in _STEPS:
        for direction in _DIRECTIONS:
            aside = step * np.array(direction, dtype=np.float64)
            apart = np.abs(others - (mark + aside)) / _NUMBER
            if not (apart < 1.0).all(axis=1).any():
                return aside
    return np.array([0.0, _STEPS[0]])
