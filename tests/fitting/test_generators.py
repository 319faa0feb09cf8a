"""Generators that fits lend: those of their seeds, and never two users of one."""

import numpy as np

from wolfmeans import KMeans
from wolfmeans.fitting.fit import lent_generators


def test_a_generator_lent_again_is_that_of_its_seed():
    for seed in (0, 1, 2**32 - 1):
        with lent_generators() as seeded:
            generator = seeded(seed)
            expected = np.random.RandomState(seed)
            # An odd number of normals leaves one behind, which the next user must not see.
            assert (generator.normal(size=3) == expected.normal(size=3)).all()
            assert (generator.randint(1000, size=5) == expected.randint(1000, size=5)).all()


def test_no_generator_has_two_users():
    with lent_generators() as seeded, lent_generators() as other:
        assert len({id(seeded(0)), id(seeded(0)), id(other(0)), id(other(0))}) == 4


def test_a_callable_may_keep_its_generator():
    kept, X = [], np.random.default_rng(0).normal(size=(50, 2))

    def init(X, n_clusters, random_state):
        kept.append((random_state, random_state.get_state()[1].copy()))
        return X[:n_clusters]

    KMeans(3, init=init, n_init=2, random_state=0).fit(X)
    KMeans(3, n_init=5, random_state=1).fit(X)
    assert all((state == rng.get_state()[1]).all() for rng, state in kept)
