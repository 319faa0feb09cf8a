"""Forks, threads, and pools of either.

Whatever might hang, or change the process for good, runs in a process of its own.
"""

import os
import sys
import threading
from importlib.util import find_spec

import pytest
from broken import fails_when
from engines import ENGINES
from processes import forked, python
from samples import bits, cloud, quietly

from wolfmeans import KMeans

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


FITS = """
import hashlib, os, signal, sys, warnings
import numpy as np
from samples import bits, cloud
from wolfmeans import KMeans, TrimmedKMeans
warnings.simplefilter("ignore")

def fitted(n_threads=2, engine="cpu"):
    X = cloud(20_000, 6)
    return bits(KMeans(12, random_state=0, n_threads=n_threads, engine=engine, max_iter=15).fit(X))
"""


@forks
@fails_when("a_pool_that_does_not_survive_a_fork")
def test_a_fit_in_a_child_forked_after_a_fit():
    said = forked(
        FITS
        + """
before = fitted()
child = os.fork()
if child == 0:
    signal.alarm(5)
    os._exit(0 if fitted() == before else 3)
print("child", os.waitpid(child, 0)[1], "parent", fitted() == before)
""",
        timeout=60,
    )
    assert said.split() == ["child", "0", "parent", "True"]


@forks
@fails_when("a_pool_that_does_not_survive_a_fork")
def test_fits_in_a_pool_of_forked_processes_after_a_fit():
    said = forked(
        FITS
        + """
import multiprocessing
before = fitted()
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map_async(fitted, [1, 2, 2]).get(timeout=5)
print(all(one == before for one in found))
""",
        timeout=60,
    )
    assert said.split() == ["True"]


@forks
@fails_when("forks_hold_a_lock")
def test_a_fit_in_a_child_forked_while_another_thread_fits():
    said = forked(
        FITS
        + """
import threading
before, begun = fitted(), threading.Event()
X = cloud(60_000, 8)
def stop(record):
    begun.set()
    return over.is_set()
over = threading.Event()
model = KMeans(300, init=X[:300], n_threads=2, tol=0.0, bound=None, callback=stop)
thread = threading.Thread(target=model.fit, args=(X,))
thread.start()
begun.wait()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        os._exit(0 if fitted() == before else 3)
    children.append(os.waitpid(child, 0)[1])
over.set()
thread.join()
print(children, fitted() == before)
""",
        timeout=60,
    )
    assert said.split() == ["[0,", "0,", "0]", "True"]


@fails_when("fits_share_a_buffer", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_fit_at_the_same_time_do_not_disturb_each_other(engine):
    data = [cloud(2000 if engine == "cpu" else 300, 3, seed) for seed in range(4)]

    def fitted(X):
        settings = {"n_threads": 2, "tol": 1e-4, "bound": "spectral"}
        return bits(KMeans(7, random_state=0, engine=engine, **settings).fit(X))

    expected, found, ready = [fitted(X) for X in data], {}, threading.Barrier(4)

    def work(number):
        ready.wait()
        found[number] = [fitted(data[number]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {number: [expected[number]] * 3 for number in range(4)}


@fails_when("fits_share_a_buffer")
def test_threads_that_use_one_fitted_model_at_the_same_time_agree():
    X = cloud(20_000, 6)
    model = KMeans(12, random_state=0, n_threads=2).fit(X)
    wrong = []

    def work(number):
        for _ in range(3):
            if model.predict(X).tolist() != model.labels_.tolist():
                wrong.append("predict")
            if model.score(X) != -model.inertia_:
                wrong.append("score")
            some = X[: 500 + number]
            if len(KMeans(12, random_state=0, n_threads=1).fit(some).labels_) != len(some):
                wrong.append("fit")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


# The largest number of threads of this process while it fits, beyond those it has anyway.
PEAK = """
def peak(n_threads):
    import os, threading, warnings
    import numpy as np
    from wolfmeans import KMeans
    warnings.simplefilter("ignore")
    X = np.random.default_rng(0).normal(size=(30_000, 8))
    def fit():
        return KMeans(48, random_state=0, n_threads=n_threads, engine="cpu", max_iter=5).fit(X)
    KMeans(4, n_threads=1, random_state=0).fit(X[:500])
    seen, over = [0], threading.Event()
    def look():
        while not over.is_set():
            seen[0] = max(seen[0], len(os.listdir("/proc/self/task")))
            over.wait(0.0005)
    watcher = threading.Thread(target=look)
    watcher.start()
    before = len(os.listdir("/proc/self/task"))
    fit()
    over.set()
    watcher.join()
    return seen[0] - before

def inside(n_threads):
    import broken
    broken.enter_from_environment()
    return peak(n_threads)
"""


@linux
@fails_when("threads_as_many_as_they_like")
def test_n_threads_is_respected():
    one, three = map(int, forked(PEAK + "print(peak(1), peak(3))").split())
    assert one == 0
    # That threads are seen at all shows that the first number means something.
    assert 1 <= three <= 2


@fails_when("threads_without_end", raises=TypeError, n_threads=2**40)
@pytest.mark.parametrize("n_threads", [2**16, 2**40])
def test_more_threads_than_any_process_can_have(n_threads):
    X = cloud(60_000, 8)
    settings = {"init": X[:200], "max_iter": 1, "bound": None, "engine": "cpu", "tol": 1.0}
    few, many = (quietly(KMeans(200, n_threads=n, **settings), X) for n in (1, n_threads))
    assert bits(many) == bits(few)
    assert many.predict(X).tolist() == few.labels_.tolist()


@pytest.mark.long
@linux
@fails_when("threads_as_many_as_they_like")
def test_fits_inside_joblib_workers_do_not_use_more_cores_than_there_are():
    said = python(
        PEAK
        + """
import joblib, os
cores = len(os.sched_getaffinity(0))
workers = max(2, cores)
peaks = joblib.Parallel(workers)(joblib.delayed(inside)(None) for _ in range(workers))
print(cores, workers, *peaks)
"""
    )
    cores, workers, *further = map(int, said.split())
    assert sum(1 + more for more in further) <= max(cores, workers)


@pytest.mark.long
@linux
@pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")
@fails_when("threads_as_many_as_they_like")
def test_fits_inside_dask_workers_do_not_use_more_cores_than_there_are():
    said = python(
        PEAK
        + """
if __name__ == "__main__":
    import logging
    from distributed import Client, LocalCluster
    settings = dict(processes=True, dashboard_address=None, silence_logs=logging.ERROR)
    with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", **settings) as cluster:
        with Client(cluster) as client:
            print(client.submit(inside, None).result(timeout=50))
"""
    )
    assert said.split() == ["0"]
