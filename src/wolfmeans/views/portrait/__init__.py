"""What people look at when they look at a clustering, computed once and drawn elsewhere."""

from wolfmeans.views.portrait.making import portrait
from wolfmeans.views.portrait.shapes import Cluster, Frame, Map, Margins, Portrait, Profiles, Replay

__all__ = ["Cluster", "Frame", "Map", "Margins", "Portrait", "Profiles", "Replay", "portrait"]
