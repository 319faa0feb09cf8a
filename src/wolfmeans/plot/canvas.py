"""What all figures share: paper, colors, and texts that fit."""

from __future__ import annotations

import colorsys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP, BOUND, MOVED = "#1f5fa8", "#c2571a", "#4b8b3b"
INK, SOFT, LINE, OUT = "#1b1f24", "#57616b", "#d7dbe0", "#8a929a"
# Told apart with every kind of color vision, the first eight above all (after Okabe and Ito).
_FIRST = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#7b5ea7",
    "#999933",
    "#882255",
    "#8c613c",
)
# Of all such sequences of hues the one whose next 14 colors come closest to none before them.
_FIRST_HUE, _NEXT_HUE = 0.63, 0.372


def color_of(cluster: int) -> str:
    """Return the color of a cluster; -1 stands for what is in none.

    >>> color_of(0), color_of(-1)
    ('#0072b2', '#8a929a')
    """
    if cluster < 0:
        return OUT
    if cluster < len(_FIRST):
        return _FIRST[cluster]
    # Neighbours in number are far apart in hue, and every third is of another lightness.
    later = cluster - len(_FIRST)
    lightness, saturation = ((0.42, 0.6), (0.6, 0.5), (0.3, 0.45))[later % 3]
    red, green, blue = colorsys.hls_to_rgb(
        (_FIRST_HUE + _NEXT_HUE * later) % 1.0, lightness, saturation
    )
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def new_figure(
    columns: int, width: float, height: float, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Make a figure that belongs to no window and no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install matplotlib") from error

    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def titled(ax: Axes, title: str, remark: str = "") -> None:
    """Give axes a title on the left, and a remark under it."""
    ax.set_title(title, loc="left", fontsize=11, pad=20 if remark else 8)
    if remark:
        ax.annotate(
            remark,
            (0.0, 1.0),
            xytext=(0, 7),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=8.5,
            color=SOFT,
            annotation_clip=False,
        )


def counted(number: int, what: str) -> str:
    """Return so many of something in words.

    >>> counted(1, "point"), counted(2000, "point")
    ('1 point', '2,000 points')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shortened(name: str, at_most: int = 26) -> str:
    """Return a name on one line, cut when it is long.

    >>> shortened("short"), shortened("a very long name of a column", 12)
    ('short', 'a very long…')
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= at_most else line[: at_most - 1].rstrip() + "…"
