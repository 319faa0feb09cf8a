"""Starts: random points, k-means++ (greedy or plain), k-means||, trimmed k-means++."""

from wolfmeans.seeding.methods import (
    METHODS,
    TRIMMED_METHODS,
    choose_seeds,
    kmeans_parallel,
    parallel_seeds,
    random_rows,
    spread_rows,
    trimmed_rows,
)

__all__ = [
    "METHODS",
    "TRIMMED_METHODS",
    "choose_seeds",
    "kmeans_parallel",
    "parallel_seeds",
    "random_rows",
    "spread_rows",
    "trimmed_rows",
]
