"""Branch and bound: semidefinite bounds of parts of all clusterings, until one is proven optimal.

A node of the tree has the clusterings in which some rows are together and some pairs are apart.
Rows that are together become one heavy point: its weight is their sum, its place is their mean, and
their scatter about it is a constant. So the relaxation of a node has fewer points than that of its
parent, or more pairs with z_ij = 0. It starts where the parent's stood, with its cuts, and inherits
its bound. The leaf with the lowest bound is improved next, and split when its bound stalls. The
search ends when all leaves reach the SSE of the best clustering known. The tree and the proofs of
its leaves are a proof (`bounds.proof_tree`). Must-link and cannot-link branching is that of
Piccialli, Sudoso and Wiegele (INFORMS J. Comput. 2022).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import LowerBound, Report, positive_points, quiet
from wolfmeans.bounds.proof import check
from wolfmeans.bounds.proof_format import Proof, ProofTree
from wolfmeans.bounds.semidefinite.cuts import Double
from wolfmeans.bounds.semidefinite.relaxation import Relaxation, State

KIND = "branching"
_OPTIMAL = 1e-6
"""A clustering is called optimal if its SSE is within this share of the bound."""
_STEPS_OF_A_ROUND = 20
"""Steps between two looks at the bound; cuts are looked for twice as often."""
_STALLED, _PATIENCE = 0.04, 4
"""A node is split when so many rounds each gain less than this share of what is missing."""
_SHARES = tuple(10.0**-e for e in range(15, 7, -1))
"""What may cover the rounding in a proof, as shares of all sums of squares."""
_MOST_ROUNDS, _MOST_ROUNDS_OF_THE_ROOT = 30, 100

Labels = NDArray[np.int32]
Improve = Callable[[Double], tuple[Double, float]]
"""Called with centers; returns better ones, and their SSE."""


@dataclass
class Node:
    """Some clusterings, and what is known about them."""

    groups: NDArray[np.int32]
    """(n,) The group of each row, from 0 on."""
    apart: NDArray[np.int32]
    """(a, 2) Pairs of groups that are apart."""
    proven: tuple[float, Proof | None]
    """A lower bound on their SSE, and its proof, which may be that of a node above."""
    start: State | Labels
    """Where the relaxation starts."""
    split: tuple[int, int] = (0, 0)
    """Two rows: together in the first child, apart in the second."""
    children: tuple[Node, ...] = ()


def merged(
    groups: NDArray[np.int32], apart: NDArray[np.int32], i: int, j: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return the new number of each group, the rows' groups and the pairs apart, with i and j one.

    The groups i < j become group i.
    """
    m = int(groups.max()) + 1
    number = np.arange(m, dtype=np.int32)
    number[j] = i
    number[j + 1 :] -= 1
    pairs = np.sort(number[apart], axis=1)
    return number, number[groups], np.unique(pairs, axis=0).astype(np.int32)


def merged_cuts(
    cuts: NDArray[np.int32], multipliers: Double, number: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Double]:
    """Return cuts and multipliers with the same sum, up to a nonnegative matrix, of merged rows.

    A cut in which T gets i vanishes. If T gets a row j twice, one is taken out, and what is left
    is the pair cut of j and i.
    """
    rows = np.where(cuts >= 0, number[cuts], -1).astype(np.int32)
    center, T = rows[:, :1], rows[:, 1:]
    keep = (center != T).all(axis=1)
    rows, multipliers = rows[keep], multipliers[keep]
    # Two rows have become one, so there is at most one pair of equal rows in T.
    T = -np.sort(-rows[:, 1:], axis=1)
    twice = (T[:, 1:] == T[:, :-1]) & (T[:, 1:] >= 0)
    cut, place = np.nonzero(twice)
    pairs = np.full((len(cut), rows.shape[1]), -1, dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = T[cut, place], rows[cut, 0]
    T[cut, place] = -1
    rows[:, 1:] = -np.sort(-T, axis=1)
    every, where = np.unique(np.concatenate([rows, pairs]), axis=0, return_inverse=True)
    weights = np.concatenate([multipliers, multipliers[cut]])
    return every, np.bincount(where.ravel(), weights, minlength=len(every)).astype(np.float64)


class Branching:
    """The search; `run` improves the bound until it is optimal or the time is over."""

    def __init__(
        self,
        X: Double,
        n_clusters: int,
        weights: Double | None,
        labels: Labels,
        improve: Improve,
    ) -> None:
        self.X, self.n_clusters, self.weights, self.improve = X, n_clusters, weights, improve
        self.mass = np.ones(len(X)) if weights is None else weights
        self.best, self.centers = math.inf, np.empty((0, X.shape[1]))
        self._round(labels)
        groups = np.arange(len(X), dtype=np.int32)
        self.root = Node(groups, np.empty((0, 2), np.int32), (0.0, None), labels)
        self.nodes = 0
        self._numbers = count()
        self._leaves = [(0.0, next(self._numbers), self.root)]

    @property
    def enough(self) -> float:
        """A bound that proves the best clustering optimal."""
        return self.best / (1.0 + _OPTIMAL)

    @property
    def value(self) -> float:
        """No clustering has a lower SSE."""
        return self._leaves[0][0]

    def run(self, seconds: float, report: Report) -> None:
        """Improve and split the leaf with the lowest bound, until the time is over."""
        started = perf_counter()
        until = started + seconds
        while self.value < self.enough and perf_counter() < until:
            node = self._leaves[0][2]
            self.nodes += 1
            self._improve(node, until, report)
            # An interrupt before this leaves a valid tree: the bound of the leaf is only lower.
            heapq.heappop(self._leaves)
            for leaf in node.children or (node,):
                heapq.heappush(self._leaves, (leaf.proven[0], next(self._numbers), leaf))
            gap = 1.0 - self.value / self.best if self.best > 0 else 0.0
            report(
                min(1.0, (perf_counter() - started) / seconds),
                f"branch and bound: {self.nodes} nodes, {len(self._leaves)} leaves, gap {gap:.1e}",
            )

    def _improve(self, node: Node, until: float, report: Report) -> None:
        """Improve the bound of a node until it is closed or stalls; then split it."""
        m = int(node.groups.max()) + 1
        if m <= self.n_clusters or 2 * len(node.apart) == m * (m - 1):
            self._prove(node, self._decided(node))
            return
        relaxation = self._relaxation(node)
        most = _MOST_ROUNDS if self.nodes > 1 else _MOST_ROUNDS_OF_THE_ROOT
        estimates: list[float] = []
        for number in range(1, most + 1):
            for step in range(1, _STEPS_OF_A_ROUND + 1):
                relaxation.step()
                if 2 * step == _STEPS_OF_A_ROUND:
                    relaxation.separate()
            estimates.append(relaxation.estimate() + self._within(node))
            if estimates[-1] >= self.enough:
                self._prove(node, self._lifted(node, relaxation))
            over = perf_counter() >= until
            if node.proven[0] >= self.enough or over or self._stalls(estimates):
                break
            relaxation.separate()
            if self.nodes == 1 and number % 4 == 0:
                self._round(self._rounded(node, relaxation))
        if node.proven[0] >= self.enough:
            return
        self._round(self._rounded(node, relaxation))
        if estimates[-1] > node.proven[0]:
            self._prove(node, self._lifted(node, relaxation))
        if node.proven[0] < self.enough and not over:
            self._split(node, relaxation)

    def _stalls(self, estimates: list[float]) -> bool:
        """Whether what is missing will take too many more rounds."""
        if len(estimates) <= _PATIENCE:
            return False
        gained = max(estimates) - max(estimates[:-_PATIENCE])
        return gained < _STALLED * _PATIENCE * (self.enough - max(estimates))

    def _points(self, node: Node) -> tuple[Double, Double, Double]:
        """Return the means of the groups, their weights, and their scatter about the means."""
        groups, mass = node.groups, self.mass
        weights: Double = np.bincount(groups, mass).astype(np.float64)
        columns = [np.bincount(groups, mass * column) / weights for column in self.X.T]
        means = np.stack(columns, axis=1)
        squares = mass * ((self.X - means[groups]) ** 2).sum(axis=1)
        return means, weights, np.bincount(groups, squares).astype(np.float64)

    def _within(self, node: Node) -> float:
        return float(self._points(node)[2].sum())

    def _relaxation(self, node: Node) -> Relaxation:
        means, weights, _ = self._points(node)
        alike = None if self.weights is None and len(weights) == len(self.X) else weights
        return Relaxation(means, self.n_clusters, alike, node.start, node.apart)

    def _lifted(self, node: Node, relaxation: Relaxation) -> Iterator[Proof]:
        """Yield the proofs of a relaxation as proofs for the points.

        With the scatter s_a in a group, the distances of groups are those of their means plus
        (s_a / w_a + s_b / w_b) r_a r_b / 2: prices that are larger by s_a / w_a take that up.
        """
        _, weights, scatter = self._points(node)
        _, first = np.unique(node.groups, return_index=True)
        for proof in relaxation.proofs():
            yield replace(
                proof,
                prices=proof.prices + scatter / np.sqrt(weights),
                apart=first[node.apart].astype(np.int32),
                groups=node.groups,
            )

    def _decided(self, node: Node) -> Iterator[Proof]:
        """Yield proofs where each group has a cluster of its own: only their scatter counts.

        With more groups than clusters there is no such clustering; any t then proves any bound.
        The matrix of the proof is t less t on the diagonal, and 0 elsewhere, up to rounding.
        """
        means, weights, scatter = self._points(node)
        m, roots = len(means), np.sqrt(weights)
        t = 2.0 * self.best if m > self.n_clusters else 0.0
        slack = 0.5 * ((means[:, None] - means[None]) ** 2).sum(axis=2) * np.outer(roots, roots)
        size = float(slack.sum() + scatter.sum()) + m * t
        each = t / roots
        slack -= 0.5 * (np.outer(each, roots) + np.outer(roots, each))
        np.fill_diagonal(slack, 0.0)
        _, first = np.unique(node.groups, return_index=True)
        for share in _SHARES:
            yield Proof(
                n_clusters=self.n_clusters,
                prices=scatter / roots + each,
                level=t + share * size,
                vectors=np.empty((m, 0)),
                heights=np.empty(0),
                slack=slack,
                cuts=np.empty((0, 2), np.int32),
                multipliers=np.empty(0),
                apart=first[node.apart].astype(np.int32),
                groups=node.groups,
            )

    def _prove(self, node: Node, proofs: Iterator[Proof]) -> None:
        """Take the first proof that the checker accepts, if it is better than what is known."""
        for proof in proofs:
            value = check(self.X, self.weights, proof)
            if value > 0.0:
                if value > node.proven[0]:
                    node.proven = (value, proof)
                return

    def _split(self, node: Node, relaxation: Relaxation) -> None:
        """Split a node at the pair of groups that is the least decided."""
        i, j = undecided(relaxation.solution, node.apart)
        _, first = np.unique(node.groups, return_index=True)
        number, groups, apart = merged(node.groups, node.apart, i, j)
        both = np.concatenate([node.apart, [[i, j]]]).astype(np.int32)
        node.split = (int(first[i]), int(first[j]))
        node.children = (
            Node(groups, apart, node.proven, self._merged_state(node, relaxation, number)),
            Node(node.groups, both, node.proven, relaxation.state),
        )
        # Inner nodes need neither.
        node.start, node.proven = np.empty(0, np.int32), (node.proven[0], None)

    def _merged_state(self, node: Node, relaxation: Relaxation, number: NDArray[np.int32]) -> State:
        """Return where a relaxation stands after two groups have become one.

        Matrices are those of the subspace in which vectors are proportional to the roots in each
        group. Multipliers are in units that change with the mean weight.
        """
        state = relaxation.state
        old, m = self._points(node)[1], int(number.max()) + 1
        weights = np.bincount(number, old)
        basis = np.zeros((len(number), m))
        basis[np.arange(len(number)), number] = np.sqrt(old / weights[number])
        unit = relaxation.unit / float(weights.mean())
        means = self._points(replace(node, groups=number[node.groups]))[0]
        total = float((weights / weights.mean()) @ ((means - self._mean) ** 2).sum(axis=1))
        cuts, multipliers = merged_cuts(state.cuts, state.multipliers * unit, number)
        return State(
            Y=basis.T @ state.Y @ basis,
            roots=np.sqrt(weights / weights.mean()),
            rho=relaxation.rho * unit / total,
            cuts=cuts,
            multipliers=multipliers,
            vectors=basis.T @ state.vectors,
        )

    @property
    def _mean(self) -> Double:
        mean: Double = self.mass @ self.X / self.mass.sum()
        return mean

    def _rounded(self, node: Node, relaxation: Relaxation) -> Labels:
        """Return the labels of a clustering near the solution of the relaxation.

        Groups that lie in different clusters are chosen one after the other, by elimination with
        pivots; each other group joins the one with which it shares most.
        """
        Z = relaxation.solution.copy()
        shares = relaxation.solution / relaxation.roots[:, None]
        chosen: list[int] = []
        for _ in range(self.n_clusters):
            pivot = int(np.argmax(np.diagonal(Z)))
            if Z[pivot, pivot] <= 1e-12:
                break
            chosen.append(pivot)
            Z -= np.outer(Z[:, pivot], Z[pivot]) / Z[pivot, pivot]
        labels: Labels = (shares[:, chosen] / relaxation.roots[chosen]).argmax(axis=1)
        return labels[node.groups].astype(np.int32)

    def _round(self, labels: Labels) -> None:
        """Improve a clustering, and keep it if it is the best."""
        weights = np.bincount(labels, self.mass)
        columns = [np.bincount(labels, self.mass * column) for column in self.X.T]
        used = weights > 0
        if used.sum() < self.n_clusters:
            return
        centers, sse = self.improve(np.stack(columns, axis=1)[used] / weights[used, None])
        if sse < self.best:
            self.best, self.centers = sse, centers

    def result(self) -> tuple[float, Proof | ProofTree | None]:
        """Return the bound and its proof: that of the root, or a tree."""
        if not self.root.children:
            return self.root.proven
        splits: list[tuple[int, int]] = []
        children: list[list[int]] = []
        places: dict[int, int] = {}
        leaves: list[Proof | None] = []
        value = math.inf
        todo: list[tuple[Node, int, int]] = [(self.root, -1, 0)]
        for node, parent, side in todo:
            if node.children:
                place = len(splits)
                splits.append(node.split)
                children.append([0, 0])
                todo += [(child, place, k) for k, child in enumerate(node.children)]
            else:
                value = min(value, node.proven[0])
                # Leaves that were not improved share the proof of a node above.
                if id(node.proven[1]) not in places:
                    places[id(node.proven[1])] = len(leaves)
                    leaves.append(node.proven[1])
                place = -1 - places[id(node.proven[1])]
            if parent >= 0:
                children[parent][side] = place
        pairs, below = np.array(splits, dtype=np.int32), np.array(children, dtype=np.int32)
        tree = ProofTree(self.n_clusters, pairs, below, tuple(leaves))
        return value, tree if value > 0.0 else None


def undecided(Z: Double, apart: NDArray[np.int32]) -> tuple[int, int]:
    """Return the pair i < j of rows of which the solution says least whether they share a cluster.

    With f_ij = Z_ij / sqrt(Z_ii Z_jj), which is 1 inside a cluster and 0 elsewhere.
    """
    roots = np.sqrt(np.maximum(np.diagonal(Z), 1e-12))
    f = np.clip(Z / np.outer(roots, roots), 0.0, 1.0)
    score = np.minimum(f, 1.0 - f)
    np.fill_diagonal(score, -1.0)
    i, j = apart.T
    score[i, j] = score[j, i] = -1.0
    first, second = np.unravel_index(int(score.argmax()), score.shape)
    return min(int(first), int(second)), max(int(first), int(second))


def branching(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Double | None = None,
    *,
    labels: Labels,
    improve: Improve,
    seconds: float = 60.0,
    goal: float | None = None,
    progress: Report | None = None,
) -> LowerBound:
    """Return the best bound that branch and bound proves within some seconds, with its proof.

    Parameters
    ----------
    X : array of shape (n, d)
        Validated points.
    n_clusters : int
        K.
    weights : array of shape (n,) or None
        At least 0; None for ones.
    labels : array of shape (n,)
        A good clustering.
    improve : callable
        Improves the centers of a clustering of the points of positive weight; returns its SSE, too.
    seconds : float
        No step is taken later. The last proof and its check come on top.
    goal : float or None
        The SSE of a clustering: the centers of a better one are returned if it is found.
    progress : callable or None
        Called with the completed fraction and a text.
    """
    started = perf_counter()
    if weights is not None:
        labels = labels[weights > 0]
    positive, heavy = positive_points(X, weights)
    points = np.asarray(positive, dtype=np.float64)
    if not 1 < n_clusters < len(points) or not np.ptp(points, axis=0).any():
        return LowerBound(0.0, KIND, 1.0, perf_counter() - started)
    search = Branching(points, n_clusters, heavy, labels, improve)
    try:
        search.run(seconds, progress or quiet)
    except KeyboardInterrupt:
        if search.value == 0.0:
            raise
    value, proof = search.result()
    found = LowerBound(value, KIND, 1.0, perf_counter() - started, proof)
    if goal is not None and search.best < goal / (1.0 + _OPTIMAL):
        found = replace(found, better_centers=search.centers, better_inertia=search.best)
    return found
