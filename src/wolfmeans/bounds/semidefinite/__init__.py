"""The semidefinite lower bound: a relaxation of K-means that is strong on ordinary tables."""

from wolfmeans.bounds.semidefinite.search import KIND, semidefinite

__all__ = ["KIND", "semidefinite"]
