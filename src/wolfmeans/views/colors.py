"""The colors of clusters, the same in figures and on pages, and the light and dark theme of pages.

On pages, a cluster's color is darkened or lightened until it stands out from the paper.
"""

from __future__ import annotations

import colorsys

RGB = tuple[float, float, float]

OUT = "#8a929a"
"""The color of points in no cluster."""
# Distinct for all kinds of color vision, above all the first eight (after Okabe and Ito).
_FIRST = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"),
    *("#d55e00", "#7b5ea7", "#999933", "#882255", "#8c613c"),
)
# Of all such sequences of hues, the one whose next 14 colors are most distinct from those before.
_FIRST_HUE, _NEXT_HUE = 0.63, 0.372

_THEMES = {
    "ink": ("#1b1f24", "#e6e9ec"),
    "soft": ("#57616b", "#a3adb7"),
    "paper": ("#ffffff", "#15181c"),
    "band": ("#f4f6f8", "#1e2227"),
    "line": ("#d7dbe0", "#3a4149"),
    "tint": ("#d5e3f3", "#27405c"),
    "accent": ("#1f5fa8", "#7db4f0"),
    "bound": ("#b34a12", "#f0a070"),
    "good": ("#23752b", "#7ccf81"),
    "open": ("#8a5200", "#e6b35a"),
    "high": ("#f0a35e", "#96531a"),
    "low": ("#7fb2e5", "#29639e"),
    "higher": ("#e0662f", "#a83a14"),
    "lower": ("#3d8ad8", "#2f4fc0"),
    "out": (OUT, "#7b848d"),
}
LIGHT, DARK = ({name: pair[i] for name, pair in _THEMES.items()} for i in (0, 1))
# The least contrast that WCAG asks of parts of a picture.
_STANDS_OUT = 3.0


def color_of(cluster: int) -> str:
    """Return the color of a cluster; -1 stands for points in no cluster.

    >>> color_of(0), color_of(-1)
    ('#0072b2', '#8a929a')
    """
    if cluster < 0:
        return OUT
    if cluster < len(_FIRST):
        return _FIRST[cluster]
    # Neighbours in number are far apart in hue, and every third has another lightness.
    later = cluster - len(_FIRST)
    lightness, saturation = ((0.42, 0.6), (0.6, 0.5), (0.3, 0.45))[later % 3]
    return _hex(colorsys.hls_to_rgb((_FIRST_HUE + _NEXT_HUE * later) % 1.0, lightness, saturation))


def cluster_colors(n_clusters: int, paper: str) -> list[str]:
    """Return a color for each cluster that stands out from the paper.

    >>> cluster_colors(3, "#ffffff")
    ['#0072b2', '#c48700', '#009e73']
    """
    ground = rgb(paper)
    target = 0.0 if _luminance(ground) > 0.5 else 1.0
    colors = []
    for k in range(n_clusters):
        color = rgb(color_of(k))
        while contrast(color, ground) < _STANDS_OUT:
            red, green, blue = (c + 0.02 * (target - c) for c in color)
            color = (red, green, blue)
        colors.append(_hex(color))
    return colors


def theme_css(n_clusters: int) -> str:
    """Return the colors as CSS variables: the system's theme, the reader's choice, and print."""

    def rule(selector: str, scheme: str, colors: dict[str, str]) -> str:
        declared = " ".join(f"--{name}: {color};" for name, color in colors.items())
        return f"{selector} {{ color-scheme: {scheme}; {declared} }}"

    light, dark = (
        {**colors, **{f"k{k}": c for k, c in enumerate(cluster_colors(n_clusters, paper))}}
        for colors, paper in ((LIGHT, LIGHT["paper"]), (DARK, DARK["paper"]))
    )
    printed = {**light, "ink": "#000000", "soft": "#454d55"}
    return "\n".join(
        (
            rule(":root", "light", light),
            "@media (prefers-color-scheme: dark) {",
            f"{rule(':root:not([data-theme])', 'dark', dark)} }}",
            rule(":root[data-theme=dark]", "dark", dark),
            rule(":root[data-theme=print]", "light", printed),
            f"@media print {{ {rule(':root:root', 'light', printed)} }}",
        )
    )


def contrast(one: RGB, other: RGB) -> float:
    """Return the contrast of two colors as WCAG defines it, 1 to 21.

    >>> contrast(rgb("#ffffff"), rgb("#000000"))
    21.0
    """
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: RGB) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def rgb(color: str) -> RGB:
    """Return the channels of a color like #0072b2, from 0 to 1."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _hex(color: RGB) -> str:
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in color)
