"""Memory: flat over many fits, moved by pickle, little of it for sizes beyond 32 bits."""

import os
import pickle
import sys
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from broken import fails_when
from engines import ENGINES
from processes import forked, python
from samples import bits, cloud
from threadpoolctl import threadpool_limits

from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.engines import effective_threads

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


@pytest.mark.long
@linux
@fails_when("a_leak")
def test_a_thousand_fits_leave_memory_as_it_was():
    said = forked(
        """
import gc, os, warnings
import numpy as np
from scipy import sparse
from samples import cloud
from wolfmeans import KMeans, TrimmedKMeans
warnings.simplefilter("ignore")
X = cloud(200, 4)
S = {"random_state": 0, "max_iter": 20}
kinds = [
    lambda: KMeans(5, engine="cpu", n_threads=2, **S).fit(X).predict(X),
    lambda: KMeans(5, engine="cpu", n_init=3, init="random", bound=None, **S).fit(X),
    lambda: KMeans(5, engine="cpu", bound=None, **S).fit(X.astype("float32")).transform(X),
    lambda: KMeans(5, engine="cpu", bound=None, **S).fit(sparse.csr_array(X)),
    lambda: KMeans(5, engine="cpu", bound=None, polish="hartigan", **S).fit(X),
    lambda: TrimmedKMeans(5, n_init=1, engine="cpu", bound=None, **S).fit(X),
    lambda: KMeans(5, engine="reference", bound=None, **S).fit(X[:40]),
    lambda: KMeans(5, engine="cpu", init=X[:4], **S).fit,
]
def refused():
    try:
        KMeans(5, engine="cpu", init=X[:4], **S).fit(X)
    except ValueError:
        pass
kinds[-1] = refused
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
for i in range(160):
    kinds[i % 8]()
before = resident()
for i in range(1000):
    kinds[i % 8]()
print(resident() - before)
""",
        timeout=120,
    )
    assert int(said) < 8 << 20


@pytest.mark.long
@linux
@fails_when("no_memory_is_no_matter")
def test_a_fit_without_enough_memory_is_an_error_and_leaves_nothing():
    said = python(
        """
import os, resource, warnings
import numpy as np
from scipy import sparse
from samples import bits, cloud
from wolfmeans import KMeans
warnings.simplefilter("ignore")
X = cloud(400_000, 12)  # More than allocators keep for later.
S = {"n_threads": 1, "max_iter": 2, "engine": "cpu", "bound": None, "init": X[:5]}
kinds = [
    lambda: (KMeans(5, **S), np.asfortranarray(X)),
    lambda: (KMeans(5, **(S | {"init": X[:5] * 1e200})), X * 1e200),
    lambda: (KMeans(5, **S), sparse.csc_array(np.where(X > 0, X, 0))),
]
most = resource.getrlimit(resource.RLIMIT_AS)
def limited(bytes):
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + bytes, most[1]))
for make in kinds:
    model, given = make()
    refused = 0
    for power in (18, 20, 22, 24, 25, 26, 27):
        limited(1 << power)
        try:
            model.fit(given)
            break
        except MemoryError:
            refused += 1
            assert not [name for name in vars(model) if name.endswith("_")], vars(model)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, most)
    before = bits(model.fit(given))
    again, _ = make()
    print(refused, bits(again.fit(given)) == before)
"""
    )
    words = said.split()
    assert words[1::2] == ["True"] * 3
    assert 0 not in map(int, words[::2])


@contextmanager
def _cores(number):
    """Let this process believe that there are so many cores."""
    told = patch.dict(os.environ, {"OMP_NUM_THREADS": str(number)})
    with told, threadpool_limits(number, user_api="openmp"):
        assert effective_threads(None) == number
        yield


@fails_when("threads_change_the_result")
def test_a_pickle_may_move_between_machines_with_other_numbers_of_cores():
    X = cloud(6000, 5)
    with _cores(1):
        models = [KMeans(9, random_state=0), TrimmedKMeans(3, n_init=2, random_state=0)]
        moved = pickle.dumps([(model.fit(X), model.transform(X)) for model in models])
    with _cores(4):
        for model, distances in pickle.loads(moved):
            before = bits(model)
            assert model.transform(X).tobytes() == distances.tobytes()
            assert model.predict(X).tolist() == model.labels_.tolist()
            assert bits(model.fit(X)) == before


@fails_when("runs_remember", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_pickle_comes_back_whole(engine):
    X = cloud()
    model = KMeans(5, random_state=0, engine=engine).fit(X)
    _ = model.certificate_  # a pickle has no points: a bound that is still to be computed is lost
    again = pickle.loads(pickle.dumps(model))
    assert bits(again) == bits(model)
    assert bits(again.fit(X)) == bits(model)


# Memory that is only read as zeros takes none: all of its pages are one page of zeros.
BEYOND = """
import resource, warnings
import numpy as np
from wolfmeans import KMeans
warnings.simplefilter("ignore")
def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
"""


@linux
@fails_when("indices_of_32_bits")
def test_points_times_clusters_beyond_2_to_the_31():
    said = forked(
        BEYOND
        + """
n = 2**16 + 9
k = n // 2 + 1
assert n * k > 2**31
X = np.arange(n, dtype=np.float64)[:, None]
X[-1] = 1e6
model = KMeans(k, init=X[::2], bound=None, engine="cpu", algorithm="dense", max_iter=1).fit(X)
centers, x = model.cluster_centers_[:, 0], X[:, 0]
above = np.searchsorted(centers, x).clip(1, k - 1)
right = np.where(x - centers[above - 1] <= centers[above] - x, above - 1, above)
print((model.labels_ == right).all(), len(set(right)) == k, megabytes() < 1000)
"""
    )
    assert said.split() == ["True"] * 3


WIDE = """
d = 2**15
n = 2**31 // d + 64
X = np.zeros((n, d), dtype=np.float32)
assert X.size > 2**31
X[0, 0], X[n // 2, 7], X[-2, 0], X[-1, -1] = 1, 2, 5, 3
centers = X[[1, -1, -2]].copy()
S = {"bound": None, "engine": "cpu", "max_iter": 1, "tol": 1e9, "tol_scale": "absolute"}
"""


@linux
@fails_when("indices_of_32_bits")
def test_points_times_features_beyond_2_to_the_31():
    said = forked(
        BEYOND
        + WIDE
        + """
model = KMeans(3, init=centers, **S).fit(centers)
labels = model.predict(X)
print(labels[-3:].tolist() == [0, 2, 1], set(labels[:-2].tolist()) == {0}, megabytes() < 1000)
""",
        timeout=120,
    )
    assert said.split() == ["True"] * 3


@linux
@pytest.mark.long
@fails_when("indices_of_32_bits")
def test_a_whole_fit_of_points_times_features_beyond_2_to_the_31():
    said = forked(
        BEYOND
        + WIDE
        + """
model = KMeans(3, init=centers, **S).fit(X)
print(model.labels_[-3:].tolist() == [0, 2, 1], set(model.labels_[:-2].tolist()) == {0})
print(model.cluster_centers_[0, 7] == np.float32(2 / (n - 2)), megabytes() < 1000)
""",
        timeout=200,
    )
    assert said.split() == ["True"] * 4
