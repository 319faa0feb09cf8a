"""The semidefinite bound of many points for few clusters: multipliers are constant on blocks.

The relaxation has a row for each block and one for each column of the data (`bounds.block_proof`).
It bounds all points at once. What it loses is that multipliers cannot differ inside a block, and
that it has no cuts. For two or three clusters, one multiplier mostly depends on where two points
are in the one or two directions of the centers, so blocks are small there and long in all other
directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.block_proof import BlockProof, Compressed, compressed, proven_value
from wolfmeans.bounds.bound import LowerBound, Settings, positive_points
from wolfmeans.bounds.semidefinite.cuts import Double
from wolfmeans.bounds.semidefinite.matched_parts import coordinates, leaves
from wolfmeans.bounds.semidefinite.relaxation import Relaxation
from wolfmeans.bounds.semidefinite.search import KIND, Search

MOST_CLUSTERS = 3
"""With more, blocks would have to be small in more directions."""
_FEWEST_BLOCKS, _MOST_BLOCKS = 200, 1500
_SECONDS_OF_A_PAIR = 2.5e-6
"""Of one core, for each pair of rows: 100 steps or so, a proof and its check."""
_SCALED_DOWN = 0.03
"""What a difference in another direction than those of the centers counts for."""


def suits_blocks(d: int, n_clusters: int, seconds: float) -> bool:
    """Whether blocks are worth trying: few clusters, and rows mostly for blocks."""
    return 1 < n_clusters <= MOST_CLUSTERS and d <= number_of_blocks(seconds)


def number_of_blocks(seconds: float) -> int:
    """Return how many blocks some seconds of one core allow."""
    affordable = math.isqrt(int(seconds / _SECONDS_OF_A_PAIR))
    return min(max(_FEWEST_BLOCKS, affordable), _MOST_BLOCKS)


def semidefinite_in_blocks(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Double | None = None,
    *,
    labels: NDArray[np.int32],
    centers: NDArray[np.floating],
    settings: Settings,
    n_blocks: int | None = None,
) -> tuple[LowerBound, bool]:
    """Return the best bound that is proven within a time limit, and whether Ctrl-C ended it.

    Parameters
    ----------
    X, n_clusters, weights, labels, centers
        The problem and a good clustering, as for `matched_parts.semidefinite_in_parts`.
    settings : Settings
        Search and last proof are done within its `seconds`, unless the first steps take longer.
    n_blocks : int or None
        At most so many; None for what the time allows.
    """
    started, begun, kind = perf_counter(), settings.clock(), f"block {KIND}"
    if weights is not None:
        labels = labels[weights > 0]
    points, heavy = positive_points(X, weights)
    if n_blocks is None:
        n_blocks = number_of_blocks(settings.seconds)
    blocks = blocks_of(points, centers, n_blocks)
    whole = compressed(points, heavy, blocks)
    if len(whole.roots) <= n_clusters or not whole.total > 0.0:
        return LowerBound(0.0, kind, 1.0, perf_counter() - started), False
    majority = _most_common(labels, blocks, heavy, n_clusters)
    relaxation = relaxation_of(whole, n_clusters, majority)

    def prove(tolerance: float) -> tuple[float, None]:
        return proven_in_blocks(relaxation, whole, tolerance), None

    search = Search(relaxation, prove, settings, begun)
    interrupted = False
    try:
        search.run()
    except KeyboardInterrupt:
        interrupted = True
        if search.best == 0.0:
            raise
    return LowerBound(search.best, kind, 1.0, perf_counter() - started), interrupted


def blocks_of(
    X: NDArray[np.floating], centers: NDArray[np.floating], n_blocks: int
) -> NDArray[np.int32]:
    """Return the block of each point; blocks have equally many, but the last may have fewer."""
    Y, _, spanned = coordinates(X, centers)
    Y[:, spanned:] *= _SCALED_DOWN
    blocks = np.empty(len(X), dtype=np.int32)
    size = -(-len(X) // min(n_blocks, len(X)))
    for number, rows in enumerate(leaves(Y, size, np.random.RandomState(0))):
        blocks[rows] = number
    return blocks


def _most_common(
    labels: NDArray[np.int32],
    blocks: NDArray[np.int32],
    weights: Double | None,
    n_clusters: int,
) -> NDArray[np.int32]:
    """Return the cluster of each block that most of its weight is in."""
    pairs = blocks.astype(np.int64) * n_clusters + labels
    n_blocks = int(blocks.max()) + 1
    masses = np.bincount(pairs, weights, minlength=n_blocks * n_clusters)
    found: NDArray[np.int32] = masses.reshape(n_blocks, n_clusters).argmax(axis=1).astype(np.int32)
    return found


def relaxation_of(whole: Compressed, n_clusters: int, labels: NDArray[np.int32]) -> Relaxation:
    """Return the relaxation of blocks, started from a clustering of them."""
    roots = whole.roots
    means = whole.points[: len(roots)] / roots[:, None]
    ghosts = whole.points[len(roots) :]
    return Relaxation(means, n_clusters, roots**2, labels, ghosts=ghosts)


def proven_in_blocks(relaxation: Relaxation, whole: Compressed, tolerance: float = 0.0) -> float:
    """Return the value of the first proof from the multipliers that the checker accepts.

    It may be lower than possible by about a thousandth of the tolerance, relatively.
    """
    values = (proven_value(whole, proof) for proof in proofs(relaxation, whole, tolerance))
    return next((value for value in values if value > 0.0), 0.0)


def proofs(
    relaxation: Relaxation, whole: Compressed, tolerance: float = 0.0
) -> Iterator[BlockProof]:
    """Yield proofs from the multipliers; each is more likely to be accepted, and weaker.

    With H = A~ A~' + S and y = 2 H q - (q' H q + t) q, M is t P + V diag(D) V' - P H P. As for
    points, t is the K-th largest eigenvalue of P H P, and V and D hold the larger ones.
    """
    m, A, q, unit = len(whole.roots), whole.points, whole.q, relaxation.unit
    S, _, _ = relaxation.multiplier()
    values, vectors = relaxation.largest(S, tolerance)
    S *= unit
    Hq = A @ (A.T @ q) + S @ q
    for more, level, high in relaxation.levels(values, tolerance):
        yield BlockProof(
            n_clusters=relaxation.n_clusters,
            level=level * unit,
            vectors=vectors[:, high],
            heights=(np.maximum(values[high] - level, 0.0) + more) * unit,
            slack=S[:m, :m],
            prices=2.0 * Hq - (float(q @ Hq) + (level - more) * unit) * q,
        )
