"""Calls copied from tutorials end as low here as in scikit-learn, with nothing changed."""

import warnings

import numpy as np
import pytest
import sklearn.cluster
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import wolfmeans


def blobs(n, d, k):
    return make_blobs(n, n_features=d, centers=k, random_state=3)[0]


def four_blobs():
    return make_blobs(300, centers=4, cluster_std=0.6, random_state=0)[0]


def iris():
    return StandardScaler().fit_transform(load_iris().data)


def digits():
    return load_digits().data


def components():
    return PCA(10).fit(digits()).components_


def colors():
    return np.random.default_rng(0).integers(0, 256, size=(1000, 3)) / 255


def documents():
    counts = np.random.default_rng(0).poisson(0.05, size=(400, 60)).astype(float)
    return sparse.csr_matrix(counts)


# (points, arguments of KMeans, number of seeds): so many seeds that the standard error of the ratio
# of the means is about 0.5 % at most.
CALLS = {
    "all written out": (
        lambda: blobs(5000, 5, 20),
        lambda: {"n_clusters": 20, "init": "k-means++", "max_iter": 300, "tol": 1e-4},
        1000,
    ),
    "ten starts": (
        lambda: blobs(5000, 5, 20),
        lambda: {"n_clusters": 20, "init": "k-means++", "n_init": 10, "max_iter": 300},
        20,
    ),
    "only K": (four_blobs, lambda: {"n_clusters": 4}, 2000),
    "n_init auto": (iris, lambda: {"n_clusters": 3, "n_init": "auto"}, 1500),
    "random starts": (
        iris,
        lambda: {"n_clusters": 3, "init": "random", "n_init": 10, "max_iter": 300, "tol": 1e-04},
        30,
    ),
    "elbow": (iris, lambda: {"n_clusters": 6, "init": "k-means++", "n_init": 10}, 30),
    "digits": (digits, lambda: {"n_clusters": 10, "init": "k-means++", "n_init": 4}, 8),
    "digits from components": (
        digits,
        lambda: {"n_clusters": 10, "init": components(), "n_init": 1},
        1,
    ),
    "colors, elkan": (
        colors,
        lambda: {"n_clusters": 64, "algorithm": "elkan", "n_init": 1},
        20,
    ),
    "few iterations": (
        lambda: blobs(2000, 10, 30),
        lambda: {"n_clusters": 8, "max_iter": 100, "n_init": 1, "tol": 1e-3},
        100,
    ),
    "sparse documents": (
        documents,
        lambda: {"n_clusters": 5, "init": "k-means++", "max_iter": 100, "n_init": 1},
        50,
    ),
}


def mean_inertia(library, X, arguments, n_seeds):
    # One thread: many small fits in a row, on a machine that runs other tests.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.mean(
            [library.KMeans(**arguments, random_state=s).fit(X).inertia_ for s in range(n_seeds)]
        )


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            call, marks=[pytest.mark.long] if n_seeds > 1000 or call == "all written out" else []
        )
        for call, (_, _, n_seeds) in CALLS.items()
    ],
)
def test_a_copied_call_ends_as_low_as_in_scikit_learn(call):
    points, arguments, n_seeds = CALLS[call]
    X = points()
    ours = mean_inertia(wolfmeans, X, arguments(), n_seeds)
    theirs = mean_inertia(sklearn.cluster, X, arguments(), n_seeds)
    assert ours <= 1.01 * theirs


def test_plain_k_means_plus_plus_has_a_name_of_its_own():
    X = blobs(2000, 5, 20)

    def seeds(init):
        model = wolfmeans.KMeans(20, init=init, random_state=0, max_iter=300).fit(X)
        return model.initial_centers_

    assert np.array_equal(seeds("k-means++"), seeds("greedy-k-means++"))
    default = wolfmeans.KMeans(20, random_state=0).fit(X).initial_centers_
    assert np.array_equal(seeds("k-means++"), default)
    assert not np.array_equal(seeds("k-means++"), seeds("plain-k-means++"))


@pytest.mark.parametrize("given", [{}, {"tol": 1e-2}, {"stop": "shift"}, {"stop": "gap"}])
def test_rules_mean_the_same_with_trimming(given):
    X = np.random.default_rng(0).normal(size=(500, 3))
    plain = wolfmeans.KMeans(7, init=X[:7], **given).fit(X)
    trimmed = wolfmeans.TrimmedKMeans(7, alpha=0, init=X[:7], **given).fit(X)
    assert trimmed.n_iter_ == plain.n_iter_
    assert trimmed.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()
    assert trimmed.certificate_.stop == plain.certificate_.stop
    assert trimmed.certificate_.tol == plain.certificate_.tol
