"""The numbers that figures and pages of a clustering show, computed once and drawn elsewhere."""

from wolfmeans.views.portrait.making import Cluster, Portrait, portrait
from wolfmeans.views.portrait.map import Map, Margins
from wolfmeans.views.portrait.profiles import Profiles
from wolfmeans.views.portrait.replay import Frame, Replay

__all__ = ["Cluster", "Frame", "Map", "Margins", "Portrait", "Profiles", "Replay", "portrait"]
