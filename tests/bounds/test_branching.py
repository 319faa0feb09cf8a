"""Branch and bound: the optimum is reached and never exceeded, and its steps lose nothing."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from test_semidefinite import IRIS_OPTIMUM, optimum

import wolfmeans.bounds.semidefinite.branching as module
from wolfmeans import KMeans, check_proof, lower_bound
from wolfmeans.bounds.proof_format import ProofTree
from wolfmeans.bounds.proof_tree import check
from wolfmeans.bounds.semidefinite.branching import (
    Branching,
    branching,
    merged,
    merged_cuts,
    undecided,
)
from wolfmeans.bounds.semidefinite.relaxation import Relaxation
from wolfmeans.bounds.semidefinite.stars import WIDTH
from wolfmeans.core.hooks import hook
from wolfmeans.estimators.quick_fits import improved_centers


def problem(seed):
    """Return eight points: equal ones, offsets, weights far apart, some without weight."""
    rng = np.random.default_rng(seed)
    d, n_clusters = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    X = rng.normal(size=(8, d))
    if seed % 3 == 1:
        X = np.rint(X)
    X = X * 10.0 ** rng.integers(-3, 4) + (seed % 4 == 0) * 10.0 ** rng.integers(-2, 3)
    weights = None if seed % 2 else rng.choice([0.1, 1.0, 2.0, 30.0], size=8)
    return X, weights, n_clusters


def improve(X, weights):
    return lambda centers: improved_centers(X, centers, weights, 1)


@pytest.mark.parametrize("seed", range(24))
def test_the_optimum_is_reached_and_never_exceeded(seed, monkeypatch):
    # So few steps in a node that most problems need a tree.
    monkeypatch.setattr(module, "_MOST_ROUNDS_OF_THE_ROOT", 1 + seed % 4)
    monkeypatch.setattr(module, "_MOST_ROUNDS", 4)
    X, weights, n_clusters = problem(seed)
    w = np.ones(8) if weights is None else weights
    best, _ = optimum(X, w, n_clusters)
    labels = (np.arange(8) % n_clusters).astype(np.int32)
    bound = branching(
        X, n_clusters, weights, labels=labels, improve=improve(X, weights), seconds=60
    )
    rounding = 1e-12 * float(w @ (X**2).sum(axis=1))
    assert bound.value <= best + rounding
    assert bound.value >= (1 - 1e-6) * best - rounding
    if bound.proof is not None:
        assert check(X, weights, bound.proof) == bound.value


def test_trees_are_made_for_these_problems(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROUNDS_OF_THE_ROOT", 1)
    monkeypatch.setattr(module, "_MOST_ROUNDS", 4)
    trees = 0
    for seed in range(12):
        X, weights, n_clusters = problem(seed)
        labels = (np.arange(8) % n_clusters).astype(np.int32)
        proof = branching(
            X, n_clusters, weights, labels=labels, improve=improve(X, weights), seconds=60
        ).proof
        trees += isinstance(proof, ProofTree)
    assert trees >= 6


@pytest.mark.parametrize("n_clusters", [3, 4])
def test_iris_is_proven_optimal_from_a_poor_start(n_clusters):
    X = load_iris().data
    poor = X[:n_clusters]
    bound = lower_bound(X, n_clusters, method="branching", centers=poor, seconds=120)
    assert bound.kind == "branching"
    assert bound.confidence == 1.0
    assert bound.value <= IRIS_OPTIMUM[n_clusters] * (1 + 1e-7)
    assert bound.value >= IRIS_OPTIMUM[n_clusters] * (1 - 2e-6)
    assert check_proof(X, bound.proof) == bound.value


def wine():
    X = load_wine().data
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_wine_is_proven_optimal_by_a_tree():
    X = wine()
    km = KMeans(5, effort=1.0, bound=None, random_state=0).fit(X)
    certificate = km.certify(X, target="optimal", seconds=300)
    assert certificate.lower_bound_kind == "branching"
    assert certificate.ratio <= 1 + 1.1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_better_clustering_is_offered():
    X = wine()
    km = KMeans(3, init=X[:3], bound=None, max_iter=1).fit(X)
    good = KMeans(3, n_init=10, random_state=0, bound=None).fit(X)
    assert km.inertia_ > 1.01 * good.inertia_
    certificate = km.certify(X, target="optimal", seconds=120)
    assert "KMeans(..., init=certificate_.better_centers)" in certificate.notes[-1]
    again = KMeans(3, init=certificate.better_centers, bound=None).fit(X)
    assert again.inertia_ == pytest.approx(good.inertia_, rel=1e-9)


def test_no_better_clustering_no_centers():
    X = wine()
    km = KMeans(3, n_init=10, random_state=0, bound=None).fit(X)
    certificate = km.certify(X, target="optimal", seconds=120)
    assert certificate.better_centers is None
    assert certificate.ratio <= 1 + 1.1e-6


def test_targets_and_methods_that_are_none_are_refused():
    X = load_iris().data
    km = KMeans(3, random_state=0, bound=None).fit(X)
    with pytest.raises(ValueError, match="target must be 'optimal', a positive number or None"):
        km.certify(X, target="best")
    with pytest.raises(ValueError, match="has a method of its own, not 'prices'"):
        km.certify(X, target="optimal", method="prices")


def test_too_many_points_are_refused():
    with pytest.raises(ValueError, match="up to 500 points, not for 501"):
        lower_bound(np.zeros((501, 1)), 2, method="branching")


@pytest.mark.parametrize("n_clusters", [1, 4, 5])
def test_trivial_problems(n_clusters):
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    value = lower_bound(X, n_clusters, method="branching", seconds=1).value
    best = {1: 26.0, 4: 0.0, 5: 0.0}[n_clusters]
    assert value <= best and value == pytest.approx(best)


def search_on(X, n_clusters):
    labels = KMeans(n_clusters, random_state=0, bound=None).fit(X).labels_
    return Branching(X, n_clusters, None, labels.astype(np.int32), improve(X, None))


def test_an_interrupt_keeps_what_is_proven(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROUNDS_OF_THE_ROOT", 4)
    X = wine()
    labels = KMeans(6, n_init=5, random_state=0, bound=None).fit(X).labels_.astype(np.int32)

    def stop(done, text):
        if "3 nodes" in text:
            raise KeyboardInterrupt

    bound = branching(X, 6, labels=labels, improve=improve(X, None), seconds=60, progress=stop)
    assert 900.0 < bound.value < 1038.6
    assert isinstance(bound.proof, ProofTree)
    assert check_proof(X, bound.proof) == bound.value


def test_the_time_limit_keeps_what_is_proven():
    X = wine()
    bound = lower_bound(X, 6, method="branching", seconds=1.0)
    assert 900.0 < bound.value < 1038.6
    assert check_proof(X, bound.proof) == bound.value


def test_progress_reports_nodes_and_the_gap():
    said = []
    X = load_iris().data
    lower_bound(X, 3, method="branching", seconds=60, progress=lambda f, text: said.append(text))
    assert said[-1].startswith("branch and bound: ")
    assert "nodes" in said[-1] and "gap" in said[-1]


def sum_of_cuts(cuts, multipliers, n):
    """Return the matrix of a sum of cuts of points of weight one."""
    S = np.zeros((n, n))
    for (i, *others), mu in zip(cuts.tolist(), multipliers, strict=True):
        T = [j for j in others if j >= 0]
        S[i, i] += mu
        for place, j in enumerate(T):
            S[i, j] -= mu
            for k in T[:place]:
                S[j, k] += mu
    return 0.5 * (S + S.T)


def test_merged_cuts_are_the_merged_sum_less_a_nonnegative_matrix():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = 9
        cuts = np.full((30, WIDTH), -1, dtype=np.int32)
        for row in cuts:
            size = int(rng.integers(2, WIDTH + 1))
            row[:size] = rng.permutation(n)[:size]
        multipliers = rng.uniform(size=30)
        i, j = np.sort(rng.permutation(n)[:2])
        number, _, _ = merged(np.arange(n, dtype=np.int32), np.empty((0, 2), np.int32), i, j)
        new, mu = merged_cuts(cuts, multipliers, number)
        onto = np.eye(n - 1)[number]
        rest = onto.T @ sum_of_cuts(cuts, multipliers, n) @ onto - sum_of_cuts(new, mu, n - 1)
        assert rest.min() > -1e-12
        assert (mu >= 0).all()
        assert len(np.unique(new, axis=0)) == len(new)


def test_merging_renumbers_groups_and_pairs():
    groups = np.array([0, 1, 2, 0, 3], dtype=np.int32)
    apart = np.array([[0, 3], [1, 3]], dtype=np.int32)
    number, after, pairs = merged(groups, apart, 0, 1)
    assert number.tolist() == [0, 0, 1, 2]
    assert after.tolist() == [0, 0, 1, 0, 2]
    assert pairs.tolist() == [[0, 2]]


def test_the_least_decided_pair_is_not_one_that_is_decided():
    Z = np.array([[0.5, 0.25, 0.5], [0.25, 0.5, 0.2], [0.5, 0.2, 0.5]])
    none = np.empty((0, 2), np.int32)
    assert undecided(Z, none) == (0, 1)
    assert undecided(Z, np.array([[0, 1]], np.int32)) == (1, 2)


def test_a_child_starts_where_its_parent_stood():
    """A few steps lead both children above the parent; from a clustering they do not."""
    X = wine()
    search = search_on(X, 6)
    relaxation = search._relaxation(search.root)
    for step in range(1, 401):
        relaxation.step()
        if step % 40 == 0:
            relaxation.separate()
    before = relaxation.estimate()
    search._split(search.root, relaxation)
    for child in search.root.children:
        start = search._relaxation(child)
        for _ in range(40):
            start.step()
        assert start.estimate() + search._within(child) > before
    cold = search_on(X, 6)._relaxation(search_on(X, 6).root)
    for _ in range(40):
        cold.step()
    assert cold.estimate() < 0.97 * before


def test_groups_that_are_all_apart_prove_anything():
    X = np.array([[0.0], [1.0], [5.0]])
    search = search_on(X, 2)
    apart = np.array([[0, 1], [0, 2], [1, 2]], np.int32)
    node = replace(search.root, apart=apart)
    search._improve(node, np.inf, lambda done, text: None)
    assert node.proven[0] >= search.best


def test_as_many_groups_as_clusters_cost_their_scatter():
    search = search_on(np.array([[0.0], [1.0], [500.0]]), 2)
    node = replace(search.root, groups=np.array([0, 0, 1], np.int32))
    search._improve(node, np.inf, lambda done, text: None)
    assert 0.5 * (1 - 1e-7) <= node.proven[0] <= 0.5


def test_rounding_the_solution_finds_the_clusters():
    X = np.repeat(np.eye(3) * 10.0, 5, axis=0) + np.random.default_rng(0).normal(size=(15, 3))
    poor = (np.arange(15) % 3).astype(np.int32)
    search = Branching(X, 3, None, poor, lambda centers: (centers, 1e9))
    relaxation = Relaxation(X, 3, None, poor)
    for _ in range(200):
        relaxation.step()
    labels = search._rounded(search.root, relaxation)
    assert [len(set(labels[5 * k : 5 * k + 5])) for k in range(3)] == [1, 1, 1]
    assert len(set(labels)) == 3


def test_the_hook_finds_the_function():
    assert hook("improved_centers") is improved_centers
