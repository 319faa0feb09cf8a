"""Code shared by all figures: new figures, titles, texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from wolfmeans.views.portrait import Portrait
from wolfmeans.views.portrait import portrait as make_portrait

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
GAP, BOUND, MOVED = "#1f5fa8", "#c2571a", "#4b8b3b"
INK, SOFT, LINE = "#1b1f24", "#57616b", "#d7dbe0"


def new_figure(
    columns: int, width: float, height: float, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Make a figure that notebooks show; it has no window and no global state."""
    try:
        from wolfmeans.views.plot.notebook_figure import NotebookFigure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install matplotlib") from error

    figure = NotebookFigure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def from_model(draw: Callable[Concatenate[Portrait, P], Figure]) -> Callable[..., Figure]:
    """Let a figure of a portrait take a fitted model or Pipeline and its data instead."""

    @wraps(draw)
    def drawn(portrait: Any, *rest: Any, **options: Any) -> Figure:
        if not isinstance(portrait, Portrait):
            if not rest and "X" not in options:
                raise TypeError(
                    f"{draw.__name__} needs a portrait, or a fitted model and the data of its fit: "
                    f"{draw.__name__}(model, X)"
                )
            X = options.pop("X") if "X" in options else rest[0]
            rest = rest[1:]
            weights = options.pop("sample_weight", None)
            replay = draw.__name__ == "replay_figure"
            portrait = make_portrait(portrait, X, sample_weight=weights, replay=replay)
        return draw(portrait, *rest, **options)

    return drawn


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
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "point"), counted(2000, "point")
    ('1 point', '2,000 points')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shortened(name: str, at_most: int = 26) -> str:
    """Return a name on one line, cut if it is long.

    >>> shortened("short"), shortened("a very long name of a column", 12)
    ('short', 'a very long…')
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return line if len(line) <= at_most else line[: at_most - 1].rstrip() + "…"
