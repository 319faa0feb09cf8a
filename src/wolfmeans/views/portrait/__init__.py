"""The numbers that figures and pages of a clustering show, computed once and drawn elsewhere."""

from wolfmeans.views.portrait.distributions import Distribution, Distributions
from wolfmeans.views.portrait.making import Cluster, Portrait, portrait
from wolfmeans.views.portrait.map import Map, Margins
from wolfmeans.views.portrait.nonlinear import Nonlinear
from wolfmeans.views.portrait.profiles import Profiles
from wolfmeans.views.portrait.replay import Frame, Replay

__all__ = [
    "Cluster",
    "Distribution",
    "Distributions",
    "Frame",
    "Map",
    "Margins",
    "Nonlinear",
    "Portrait",
    "Profiles",
    "Replay",
    "portrait",
]
