"""Figures for papers, one function for each (matplotlib is imported when a figure is drawn).

Figures of a clustering are drawn from its portrait, or from a fitted model (or Pipeline) and its
data, as in ``map_figure(km, X)``:

>>> import numpy as np
>>> from wolfmeans import KMeans
>>> from wolfmeans.views.plot import map_figure
>>> from wolfmeans.views.portrait import portrait
>>> X = np.random.default_rng(0).normal(size=(60, 3))
>>> km = KMeans(n_clusters=3, random_state=0).fit(X)
>>> figure = map_figure(portrait(km, X))
>>> figure = map_figure(km, X)
"""

from wolfmeans.views.plot.clusters import margins_figure, profiles_figure, sizes_figure
from wolfmeans.views.plot.maps import map_figure, replay_figure
from wolfmeans.views.plot.runs import draw_gap, trace_figure
from wolfmeans.views.plot.scans import scan_figure

__all__ = [
    "draw_gap",
    "map_figure",
    "margins_figure",
    "profiles_figure",
    "replay_figure",
    "scan_figure",
    "sizes_figure",
    "trace_figure",
]
