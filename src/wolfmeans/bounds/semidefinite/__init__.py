"""The semidefinite lower bound: a relaxation of K-means that is strong on ordinary tables."""

from wolfmeans.bounds.semidefinite.blocks import semidefinite_in_blocks, suits_blocks
from wolfmeans.bounds.semidefinite.matched_parts import (
    MOST_STEPS,
    fits_in_one_piece,
    semidefinite_in_parts,
)
from wolfmeans.bounds.semidefinite.search import KIND, semidefinite
from wolfmeans.bounds.semidefinite.trimmed import capped, trimmed

__all__ = [
    "KIND",
    "MOST_STEPS",
    "capped",
    "fits_in_one_piece",
    "semidefinite",
    "semidefinite_in_blocks",
    "semidefinite_in_parts",
    "suits_blocks",
    "trimmed",
]
