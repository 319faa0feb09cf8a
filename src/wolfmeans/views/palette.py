"""The colors of clusters, the same in figures and on pages."""

from __future__ import annotations

import colorsys

OUT = "#8a929a"
"""What is in no cluster."""
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
