"""Proofs of groups and pairs apart, and trees of them: no hole in a tree passes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_semidefinite import ALL

import wolfmeans.bounds.semidefinite.branching as module
from wolfmeans import check_proof
from wolfmeans.bounds import proof as single
from wolfmeans.bounds.proof_format import Proof, ProofTree
from wolfmeans.bounds.proof_tree import check
from wolfmeans.bounds.semidefinite.branching import branching
from wolfmeans.estimators.quick_fits import improved_centers

X = np.random.default_rng(3).normal(size=(24, 3))
K = 4


@pytest.fixture(scope="module")
def tree():
    """A tree of several levels: the nodes have few steps each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_ROUNDS_OF_THE_ROOT", 1)
        patch.setattr(module, "_MOST_ROUNDS", 2)
        labels = (np.arange(24) % K).astype(np.int32)
        bound = branching(
            X,
            K,
            labels=labels,
            improve=lambda centers: improved_centers(X, centers, None, 1),
            seconds=60,
        )
    assert isinstance(bound.proof, ProofTree)
    assert len(bound.proof.splits) >= 3
    assert any(leaf.groups is not None and leaf.groups.max() < 23 for leaf in bound.proof.leaves)
    assert any(len(leaf.apart) for leaf in bound.proof.leaves)
    return bound.proof, bound.value


def test_a_tree_can_be_handed_over(tree, tmp_path):
    found, value = tree
    found.save(tmp_path / "tree.npz")
    loaded = Proof.load(tmp_path / "tree.npz")
    assert isinstance(loaded, ProofTree)
    assert check_proof(X, loaded) == value > 1.0


def test_a_leaf_without_clusterings_can_be_handed_over(tree, tmp_path):
    found, value = tree
    i, j = found.splits[0]
    n = len(found.splits)
    # The root is split at the same pair again below "apart": its first child is empty.
    splits = np.concatenate([found.splits, [[i, j]]]).astype(np.int32)
    children = np.concatenate([found.children, [[-1 - len(found.leaves), found.children[0, 1]]]])
    children[0, 1] = n
    moved = children.astype(np.int32)
    larger = ProofTree(K, splits, moved, (*found.leaves, None))
    if moved[n, 1] >= 0:
        with pytest.raises(ValueError, match="do not form a tree"):
            check(X, None, larger)
        return
    larger.save(tmp_path / "tree.npz")
    assert check(X, None, Proof.load(tmp_path / "tree.npz")) == value


def test_a_leaf_alone_proves_nothing_about_all_clusterings(tree):
    found, _ = tree
    for leaf in found.leaves:
        if leaf.groups.max() < 23 or len(leaf.apart):
            with pytest.raises(ValueError, match="does not cover"):
                check(X, None, leaf)


def test_a_missing_leaf_is_refused(tree):
    found, _ = tree
    for number in range(len(found.leaves)):
        leaves = list(found.leaves)
        leaves[number] = None
        with pytest.raises(ValueError, match="no leaf for some clusterings"):
            check(X, None, replace(found, leaves=tuple(leaves)))
    with pytest.raises(ValueError, match="no leaf for some clusterings"):
        check(X, None, replace(found, leaves=found.leaves[:-1]))


def test_swapped_leaves_are_refused(tree):
    found, _ = tree
    refused = 0
    for number in range(1, len(found.leaves)):
        leaves = list(found.leaves)
        leaves[0], leaves[number] = leaves[number], leaves[0]
        with pytest.raises(ValueError, match="does not cover"):
            check(X, None, replace(found, leaves=tuple(leaves)))
        refused += 1
    assert refused >= 3


def test_swapped_children_are_refused(tree):
    found, _ = tree
    for number in range(len(found.splits)):
        children = found.children.copy()
        children[number] = children[number, ::-1]
        with pytest.raises(ValueError, match="does not cover"):
            check(X, None, replace(found, children=children))


def test_changed_splits_are_refused(tree):
    found, _ = tree
    for number in range(len(found.splits)):
        splits = found.splits.copy()
        others = [row for row in range(24) if row not in splits]
        splits[number, 1] = others[0]
        with pytest.raises(ValueError, match="does not cover"):
            check(X, None, replace(found, splits=splits))


def test_more_pairs_apart_than_the_path_says_are_refused(tree):
    found, _ = tree
    for number, leaf in enumerate(found.leaves):
        inside = {tuple(sorted(pair)) for pair in leaf.groups[leaf.apart].tolist()}
        a, b = next(
            (i, j)
            for i in range(24)
            for j in range(i)
            if leaf.groups[i] != leaf.groups[j]
            and tuple(sorted((leaf.groups[i], leaf.groups[j]))) not in inside
        )
        apart = np.concatenate([leaf.apart, [[a, b]]]).astype(np.int32)
        leaves = list(found.leaves)
        leaves[number] = replace(leaf, apart=apart)
        with pytest.raises(ValueError, match="does not cover"):
            check(X, None, replace(found, leaves=tuple(leaves)))


def test_fewer_clusters_than_the_tree_says_are_refused(tree):
    found, _ = tree
    leaves = tuple(replace(leaf, n_clusters=K - 1) for leaf in found.leaves)
    with pytest.raises(ValueError, match="does not cover"):
        check(X, None, replace(found, leaves=leaves))


@pytest.mark.parametrize("place", [0, -1])
def test_what_is_no_tree_is_refused(tree, place):
    found, _ = tree
    children = found.children.copy()
    children[place, 0] = 0
    with pytest.raises(ValueError, match="do not form a tree"):
        check(X, None, replace(found, children=children))


def test_splits_of_other_points_are_refused(tree):
    found, _ = tree
    for row in (-1, 24):
        splits = found.splits.copy()
        splits[0, 0] = row
        with pytest.raises(ValueError, match="not for these points"):
            check(X, None, replace(found, splits=splits))
    with pytest.raises(ValueError, match="int32"):
        check(X, None, replace(found, splits=found.splits.astype(np.int64)))


def test_a_tree_is_for_its_points_only(tree):
    found, value = tree
    assert check(0.9 * X, None, found) == 0.0
    assert check(X[::-1], None, found) < value


def small_proof(X, weights, groups, apart):
    """Return a proof for some clusterings of few points: the value, not its quality, matters."""
    labels = np.zeros(len(X), dtype=np.int32)
    search = module.Branching(X, 2, weights, labels, lambda centers: (centers, np.inf))
    search.best = 1e300
    node = replace(search.root, groups=groups, apart=apart)
    m = int(groups.max()) + 1
    start = (np.arange(m) % 2).astype(np.int32)
    relaxation = search._relaxation(replace(node, start=start))
    for step in range(1, 121):
        relaxation.step()
        if step % 40 == 0:
            relaxation.separate()
    search._prove(node, search._lifted(node, relaxation))
    return node.proven


def least(X, weights, groups, apart):
    """Return the least SSE of all partitions into two that respect groups and pairs apart."""
    w = np.ones(len(X)) if weights is None else weights
    best = np.inf
    _, first = np.unique(groups, return_index=True)
    for labels in ALL[2]:
        if (labels[first[groups]] != labels).any():
            continue
        if any(labels[first[a]] == labels[first[b]] for a, b in apart):
            continue
        sse = 0.0
        for k in set(labels.tolist()):
            on = labels == k
            mean = w[on] @ X[on] / w[on].sum()
            sse += float(w[on] @ ((X[on] - mean) ** 2).sum(axis=1))
        best = min(best, sse)
    return best


@pytest.mark.parametrize("seed", range(20))
def test_a_proof_for_some_clusterings_is_never_above_the_best_of_them(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(8, int(rng.integers(1, 4)))) * 10.0 ** rng.integers(-3, 4)
    weights = None if seed % 2 else rng.choice([0.1, 1.0, 30.0], size=8)
    groups = np.array([0, 1, 2, 3, 4, 0, 1, 0] if seed % 3 else [0, 1, 2, 3, 4, 5, 6, 0], np.int32)
    apart = np.array([[0, 1]] if seed % 4 else [[0, 1], [0, 2]], np.int32)
    value, proof = small_proof(points, weights, groups, apart)
    best = least(points, weights, groups, apart)
    assert 0.5 * best < value <= best * (1 + 1e-12)
    assert single.check(points, weights, proof) == value


def test_negative_slack_is_for_pairs_apart_only():
    points = np.random.default_rng(0).normal(size=(8, 2))
    groups = np.array([0, 1, 2, 3, 4, 0, 1, 0], np.int32)
    _, proof = small_proof(points, None, groups, np.array([[0, 1]], np.int32))
    with pytest.raises(ValueError, match="must not be negative"):
        single.check(points, None, replace(proof, apart=np.empty((0, 2), np.int32)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": np.array([0, 1, 2, 3, 5, 0, 1, 0], np.int32)}, "not for these points"),
        ({"groups": np.array([0, 1, 2, 4, 4, 0, 1, 0], np.int32)}, "a group .* has no points"),
        ({"groups": np.array([0, 1, 2, 3, 4, 0, 1, -1], np.int32)}, "a group|no points"),
        ({"groups": np.array([0, 1, 2, 3, 4, 0, 1], np.int32)}, "not for these points"),
        ({"groups": np.array([0, 1, 2, 3, 4, 0, 1, 0])}, "int64"),
        ({"apart": np.array([[0, 5]], np.int32)}, "both together and apart"),
        ({"apart": np.array([[0, 8]], np.int32)}, "does not exist"),
        ({"apart": np.array([[-1, 0]], np.int32)}, "does not exist"),
        ({"apart": np.array([[0, 1]])}, "int64"),
        ({"cuts": np.array([[0, 1, 2, 1]], np.int32), "multipliers": np.ones(1)}, "a cut"),
        ({"cuts": np.array([[0, -1, 2, 1]], np.int32), "multipliers": np.ones(1)}, "a cut"),
        ({"cuts": np.array([[0, 1, 2, 5]], np.int32), "multipliers": np.ones(1)}, "a cut"),
    ],
)
def test_groups_and_pairs_that_are_none_are_refused(change, message):
    points = np.random.default_rng(0).normal(size=(8, 2))
    groups = np.array([0, 1, 2, 3, 4, 0, 1, 0], np.int32)
    _, proof = small_proof(points, None, groups, np.array([[0, 1]], np.int32))
    with pytest.raises(ValueError, match=message):
        single.check(points, None, replace(proof, **change))


def test_groups_that_the_path_does_not_join_are_refused():
    points = np.random.default_rng(0).normal(size=(8, 2))
    groups = np.array([0, 1, 2, 3, 4, 5, 6, 0], np.int32)
    value, proof = small_proof(points, None, groups, np.empty((0, 2), np.int32))
    two = np.array([[-1, -1]], np.int32)
    with pytest.raises(ValueError, match="does not cover"):
        check(points, None, proof)
    for pair in ([0, 6], [1, 7]):
        with pytest.raises(ValueError, match="does not cover"):
            check(points, None, ProofTree(2, np.array([pair], np.int32), two, (proof,)))
    with pytest.raises(ValueError, match="does not cover"):
        check(points, None, ProofTree(2, np.array([[0, 7]], np.int32), two, (proof,)))
    assert value > 0


def test_other_groups_prove_nothing_or_less():
    """The numbers of one node, passed off as those of another."""
    points = np.random.default_rng(0).normal(size=(8, 2))
    groups = np.array([0, 1, 2, 3, 4, 0, 1, 0], np.int32)
    apart = np.array([[0, 1]], np.int32)
    value, proof = small_proof(points, None, groups, apart)
    moved = np.array([0, 1, 2, 3, 4, 1, 0, 0], np.int32)
    assert single.check(points, None, replace(proof, groups=moved)) <= least(
        points, None, moved, apart
    )
    assert value > 0


@pytest.mark.parametrize("seed", range(6))
def test_distances_of_groups_are_rounded_down(seed):
    """Against fractions: no entry is above sum w_i w_j C_ij / (r_a r_b), and none far below."""
    rng = np.random.default_rng(seed)
    n, m = 40, 3
    points = rng.normal(size=(n, 2)) * 3.0
    weights = np.ones(n) if seed % 2 else rng.uniform(0.1, 3.0, size=n)
    groups = np.concatenate([np.arange(m), rng.integers(0, m, size=n - m)]).astype(np.int32)
    roots = np.sqrt(np.bincount(groups, weights))
    nothing = Proof(
        n_clusters=2,
        prices=np.zeros(m),
        level=0.0,
        vectors=np.zeros((m, 0)),
        heights=np.zeros(0),
        slack=np.zeros((m, m), np.float32),
        cuts=np.empty((0, 2), np.int32),
        multipliers=np.zeros(0),
        groups=groups,
    )
    matrix, _ = single.proof_matrix(points, weights, roots, groups, nothing)
    exact = [[Fraction(0)] * m for _ in range(m)]
    for i in range(n):
        for j in range(n):
            squares = sum(
                (Fraction(float(a)) - Fraction(float(b))) ** 2
                for a, b in zip(points[i], points[j], strict=True)
            )
            term = Fraction(float(weights[i])) * Fraction(float(weights[j])) * squares / 2
            exact[groups[i]][groups[j]] += term
    for a in range(m):
        for b in range(a + 1):
            true = exact[a][b] / (Fraction(float(roots[a])) * Fraction(float(roots[b])))
            assert Fraction(float(matrix[a, b])) <= true
            assert float(matrix[a, b]) >= float(true) * (1 - 1e-13)


def test_the_roots_of_heavy_groups_are_covered():
    """Weights that add up with rounding: the value is below sum w y in fractions."""
    weights = np.array([1.0] + [2.0**-53] * 200)
    groups = np.zeros(201, dtype=np.int32)
    root = np.sqrt(np.bincount(groups, weights))
    proof = Proof(
        n_clusters=1,
        prices=np.array([1.0 / root[0]]),
        level=0.0,
        vectors=np.zeros((1, 0)),
        heights=np.zeros(0),
        slack=np.zeros((1, 1), np.float32),
        cuts=np.empty((0, 2), np.int32),
        multipliers=np.zeros(0),
        groups=groups,
    )
    value = single._value(root, 201, proof)
    exact = sum(Fraction(float(w)) for w in weights)
    share = Fraction(float(root[0])) ** 2 / exact
    gain = Fraction(float(root[0])) * Fraction(float(proof.prices[0]))
    assert share < 1
    assert Fraction(value) <= share * gain
