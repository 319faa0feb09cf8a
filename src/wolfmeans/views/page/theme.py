"""The colors of pages: light and dark, and one color for each cluster in both.

Cluster colors are those of the figures, each darkened or lightened until it stands out from the
paper.
"""

from __future__ import annotations

from wolfmeans.views.palette import color_of

LIGHT = {
    "ink": "#1b1f24",
    "soft": "#57616b",
    "paper": "#ffffff",
    "band": "#f4f6f8",
    "line": "#d7dbe0",
    "tint": "#d5e3f3",
    "accent": "#1f5fa8",
    "bound": "#b34a12",
    "good": "#23752b",
    "open": "#8a5200",
    "high": "#f0a35e",
    "low": "#7fb2e5",
    "higher": "#e0662f",
    "lower": "#3d8ad8",
    "out": "#8a929a",
}
DARK = {
    "ink": "#e6e9ec",
    "soft": "#a3adb7",
    "paper": "#15181c",
    "band": "#1e2227",
    "line": "#3a4149",
    "tint": "#27405c",
    "accent": "#7db4f0",
    "bound": "#f0a070",
    "good": "#7ccf81",
    "open": "#e6b35a",
    "high": "#96531a",
    "low": "#29639e",
    "higher": "#a83a14",
    "lower": "#2f4fc0",
    "out": "#7b848d",
}
# What WCAG asks of parts of a picture.
_STANDS_OUT = 3.0

RGB = tuple[float, float, float]


def cluster_colors(n_clusters: int, paper: str) -> list[str]:
    """Return a color for each cluster that stands out from the paper.

    Examples
    --------
    >>> cluster_colors(3, "#ffffff")
    ['#0072b2', '#c48700', '#009e73']
    """
    colors = (_parsed(color_of(k)) for k in range(n_clusters))
    return [_written(_standing_out(color, _parsed(paper))) for color in colors]


def theme_css(n_clusters: int) -> str:
    """Return the colors as CSS variables: of the system's choice, or of the reader's."""
    light, dark = (
        {**colors, **{f"k{k}": c for k, c in enumerate(cluster_colors(n_clusters, paper))}}
        for colors, paper in ((LIGHT, LIGHT["paper"]), (DARK, DARK["paper"]))
    )
    on_paper = {**light, "ink": "#000000", "soft": "#454d55"}
    return "\n".join(
        (
            f":root {{ color-scheme: light; {_declared(light)} }}",
            "@media (prefers-color-scheme: dark) {",
            f":root:not([data-theme]) {{ color-scheme: dark; {_declared(dark)} }} }}",
            f":root[data-theme=dark] {{ color-scheme: dark; {_declared(dark)} }}",
            f":root[data-theme=print] {{ color-scheme: light; {_declared(on_paper)} }}",
            f"@media print {{ :root:root {{ color-scheme: light; {_declared(on_paper)} }} }}",
        )
    )


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors as WCAG defines it, 1 to 21.

    Examples
    --------
    >>> contrast("#ffffff", "#000000")
    21.0
    """
    return _contrast(_parsed(one), _parsed(other))


def _declared(colors: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in colors.items())


def _contrast(one: RGB, other: RGB) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: RGB) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _standing_out(color: RGB, paper: RGB) -> RGB:
    target = 0.0 if _luminance(paper) > 0.5 else 1.0
    while _contrast(color, paper) < _STANDS_OUT:
        red, green, blue = (c + 0.02 * (target - c) for c in color)
        color = (red, green, blue)
    return color


def _parsed(color: str) -> RGB:
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _written(color: RGB) -> str:
    return "#" + "".join(f"{round(255 * c):02x}" for c in color)
