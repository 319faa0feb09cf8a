"""What a proof of a lower bound consists of, and its file; `proof.py` and `proof_tree.py` check it.

A file is an NPZ archive of plain arrays, so that reading one cannot execute code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AXES = {
    **{"n_clusters": 0, "level": 0, "prices": 1, "heights": 1, "multipliers": 1, "groups": 1},
    **{"vectors": 2, "slack": 2, "cuts": 2, "apart": 2, "box": 2, "sizes": 1},
}


def _no_pairs() -> NDArray[np.int32]:
    return np.empty((0, 2), np.int32)


class _EqualByArrays:
    """Records are equal if all of their fields are, arrays element by element."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, its = vars(self), vars(other)
        return mine.keys() == its.keys() and all(_same(mine[name], its[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)


@dataclass(frozen=True, eq=False)
class Proof(_EqualByArrays):
    """Numbers that prove a lower bound for one data set; `check` verifies them.

    The rows are the points of positive weight, in their order. A proof may be for those
    clusterings only that put some rows together (`groups`) and others apart (`apart`); then n is
    the number of groups in what follows, and only a tree of such proofs says something about all
    clusterings.
    """

    n_clusters: int
    """K: the bound holds for at most so many clusters."""
    prices: NDArray[np.float64]
    """(n,) r_i y_i."""
    level: float
    """t >= 0."""
    vectors: NDArray[np.float64]
    """(n, m) V."""
    heights: NDArray[np.float64]
    """(m,) D >= 0."""
    slack: NDArray[np.floating]
    """(n, n) N, not negative unless its two rows are apart; its lower triangle counts.

    The diagonal may be negative where clusters have a least size. float32 or float64.
    """
    cuts: NDArray[np.int32]
    """(c, 1 + p) i and up to p other rows T of each cut; -1 where there are fewer."""
    multipliers: NDArray[np.float64]
    """(c,) mu >= 0."""
    apart: NDArray[np.int32] = field(default_factory=_no_pairs)
    """(a, 2) Pairs of points that do not share a cluster."""
    groups: NDArray[np.int32] | None = None
    """The number of each point's group, from 0 on; points of a group share a cluster."""
    box: NDArray[np.float64] | None = None
    """(2, d) What the points are clipped to first (`trimmed_proof`); None for no box."""
    sizes: NDArray[np.float64] | None = None
    """(2,) The least and the largest weight of a cluster: the proof is for clusterings of whole
    points whose clusters are within these. None for clusters of any size."""

    def save(self, file: Any) -> None:
        """Write the proof to an NPZ file."""
        np.savez_compressed(file, **_arrays(self))

    @staticmethod
    def load(file: Any) -> Proof | ProofTree:
        """Read a proof, or a tree of proofs; whether it proves anything, `check_proof` says."""
        with np.load(file, allow_pickle=False) as stored:
            if "splits" not in stored:
                return _proof({name: stored[name] for name in stored.files})
            found = {name: stored[name] for name in stored.files}
        leaves = []
        for number in range(int(found["leaves"])):
            start = f"{number}."
            leaf = {k.removeprefix(start): v for k, v in found.items() if k.startswith(start)}
            leaves.append(_proof(leaf) if leaf else None)
        return ProofTree(
            int(found["n_clusters"]), found["splits"], found["children"], tuple(leaves)
        )


@dataclass(frozen=True, eq=False)
class ProofTree(_EqualByArrays):
    """A tree that splits all clusterings by pairs of rows, with a proof at each leaf.

    Split 0 is the root. The first child of a split has the clusterings in which its two rows share
    a cluster, the second one the others.
    """

    n_clusters: int
    """K: the bound holds for at most so many clusters."""
    splits: NDArray[np.int32]
    """(s, 2) Rows i and j of each split."""
    children: NDArray[np.int32]
    """(s, 2) Children: the number of another split, or -1 - the number of a leaf."""
    leaves: tuple[Proof | None, ...]
    """Their proofs; None where no clustering is left, because rows are together and apart."""

    def save(self, file: Any) -> None:
        """Write the tree to an NPZ file."""
        stored: dict[str, Any] = {
            "n_clusters": self.n_clusters,
            "splits": self.splits,
            "children": self.children,
            "leaves": len(self.leaves),
        }
        for number, leaf in enumerate(self.leaves):
            if leaf is not None:
                stored |= {f"{number}.{name}": value for name, value in _arrays(leaf).items()}
        np.savez_compressed(file, **stored)


def _arrays(proof: Proof) -> dict[str, Any]:
    found = {each.name: getattr(proof, each.name) for each in fields(proof)}
    return {name: value for name, value in found.items() if value is not None}


def _proof(stored: Mapping[str, Any]) -> Proof:
    for name in sorted(
        {each.name for each in fields(Proof)} - {"apart", "groups", "box", "sizes"} - set(stored)
    ):
        raise KeyError(f"{name} is not a file in the archive")
    for name, axes in _AXES.items():
        if name in stored and stored[name].ndim != axes:
            raise ValueError(f"{name} has {stored[name].ndim} axes, not {axes}")
    known = {each.name: stored[each.name] for each in fields(Proof) if each.name in stored}
    known["n_clusters"], known["level"] = int(known["n_clusters"]), float(known["level"])
    return Proof(**known)
