"""The checker of trees of proofs (`proof_format.ProofTree`), and of proofs of either kind.

A split at rows i and j divides all clusterings into those in which i and j share a cluster and the
others. So the leaves have all clusterings between them, and the least value of the leaves is a
bound for every one. A leaf's proof may use what its path says: rows joined by a chain of pairs
together share a cluster; two rows are apart if one is together with i and the other with j, for a
pair (i, j) apart. A leaf needs no proof only where a pair apart is together, too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds import proof as single
from wolfmeans.bounds.proof_format import Proof, ProofTree

Pair = tuple[int, int]


def check(
    X: NDArray[np.floating],
    weights: NDArray[np.float64] | None,
    proof: Proof | ProofTree,
    sizes: tuple[float, float] | None = None,
) -> float:
    """Return the lower bound that a proof or a tree proves for the points, 0.0 for nothing.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite points, float32 or float64.
    weights : array of shape (n,) or None
        Positive weights; None for ones.
    proof : Proof or ProofTree
        Numbers from anywhere.
    sizes : tuple of two floats or None
        The least and the largest weight of a cluster; None for any.

    Raises
    ------
    ValueError
        If the proof does not have the form of one for these points, or does not cover all
        clusterings.
    """
    if isinstance(proof, Proof):
        proof = ProofTree(
            proof.n_clusters, np.empty((0, 2), np.int32), np.empty((0, 2), np.int32), (proof,)
        )
    n, value = len(X), math.inf
    _well_formed(n, proof)
    values: dict[int, float] = {}
    none: tuple[Pair, ...] = ()
    paths = [(0 if len(proof.splits) else -1, none, none)]
    while paths:
        at, together, apart = paths.pop()
        if at >= 0:
            pair = (int(proof.splits[at, 0]), int(proof.splits[at, 1]))
            paths.append((int(proof.children[at, 0]), (*together, pair), apart))
            paths.append((int(proof.children[at, 1]), together, (*apart, pair)))
            continue
        groups, excluded = _implied(n, together, apart)
        if any(a == b for a, b in excluded):
            continue
        leaf = proof.leaves[-1 - at] if -1 - at < len(proof.leaves) else None
        if leaf is None:
            raise ValueError("the proof has no leaf for some clusterings")
        if at not in values:
            values[at] = single.check(X, weights, leaf, sizes=sizes)
        if leaf.n_clusters < proof.n_clusters or not _is_implied(leaf, groups, excluded):
            raise ValueError("a leaf of the proof does not cover all of its clusterings")
        value = min(value, values[at])
    return value


def _well_formed(n: int, tree: ProofTree) -> None:
    """Reject what is no tree."""
    shape = (len(tree.splits), 2)
    for name, found in (("splits", tree.splits), ("children", tree.children)):
        if found.dtype != np.int32 or found.shape != shape:
            raise ValueError(f"{name} of the proof must be int32 of two columns")
    if ((tree.splits < 0) | (tree.splits >= n)).any():
        raise ValueError("the proof is not for these points: a split names a row beyond them")
    # Each split but the root has one parent, of a smaller number, so every path ends.
    below = tree.children.ravel()
    parents = np.repeat(np.arange(len(tree.splits)), 2)[below >= 0]
    below = below[below >= 0]
    known = np.array_equal(np.sort(below), np.arange(1, len(tree.splits)))
    if not known or (parents >= below).any():
        raise ValueError("the splits of the proof do not form a tree")


def _implied(
    n: int, together: tuple[Pair, ...], apart: tuple[Pair, ...]
) -> tuple[NDArray[np.int32], set[Pair]]:
    """Return the group of each row by its path, and the pairs of groups that are apart."""
    i, j = np.array(together, dtype=np.int64).reshape(-1, 2).T
    links = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    groups = sparse.csgraph.connected_components(links, directed=False)[1].astype(np.int32)
    pairs = [(int(groups[a]), int(groups[b])) for a, b in apart]
    return groups, {(min(pair), max(pair)) for pair in pairs}


def _is_implied(leaf: Proof, groups: NDArray[np.int32], excluded: set[Pair]) -> bool:
    """Whether what a proof supposes holds for all clusterings of its leaf."""
    if leaf.groups is not None:
        _, first = np.unique(leaf.groups, return_index=True)
        if (groups[first[leaf.groups]] != groups).any():
            return False
    pairs = groups[leaf.apart]
    return all((min(pair), max(pair)) in excluded for pair in pairs.tolist())
