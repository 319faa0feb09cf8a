"""The system: forks, threads, memory, sizes beyond 32 bits, and no place to write to.

Whatever might hang, or change the process for good, runs in a process of its own.
"""

import ctypes
import os
import pickle
import shutil
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from broken import fails_when
from engines import ENGINES, slow
from processes import environment, forked, python
from samples import bits, cloud
from threadpoolctl import threadpool_limits

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.engines import effective_threads

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")

# --- forks -----------------------------------------------------------------------------------

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


# --- threads ---------------------------------------------------------------------------------


@fails_when("fits_share_a_buffer", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_fit_at_the_same_time_do_not_disturb_each_other(engine):
    data = [cloud(2000 if engine == "cpu" else 300, 3, seed) for seed in range(4)]

    def fitted(X):
        return bits(KMeans(7, random_state=0, engine=engine, n_threads=2, tol=1e-4).fit(X))

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


@linux
@pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")
@fails_when("threads_as_many_as_they_like", slow=True)
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


# --- memory ----------------------------------------------------------------------------------


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
    lambda: KMeans(5, engine="cpu", n_init=3, init="random", certify=None, **S).fit(X),
    lambda: KMeans(5, engine="cpu", certify=None, **S).fit(X.astype("float32")).transform(X),
    lambda: KMeans(5, engine="cpu", certify=None, **S).fit(sparse.csr_array(X)),
    lambda: KMeans(5, engine="cpu", certify=None, polish="hartigan", **S).fit(X),
    lambda: TrimmedKMeans(5, n_init=1, engine="cpu", certify=None, **S).fit(X),
    lambda: KMeans(5, engine="reference", certify=None, **S).fit(X[:40]),
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
    again = pickle.loads(pickle.dumps(model))
    assert bits(again) == bits(model)
    assert bits(again.fit(X)) == bits(model)


# --- sizes beyond 32 bits --------------------------------------------------------------------

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
model = KMeans(k, init=X[::2], certify=None, engine="cpu", algorithm="dense", max_iter=1).fit(X)
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
S = {"certify": None, "engine": "cpu", "max_iter": 1, "tol": 1e9, "tol_scale": "absolute"}
"""


@linux
@fails_when("indices_of_32_bits", slow=True)
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
@slow
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


# --- no place to write to --------------------------------------------------------------------

WITHOUT_WRITING = """
import os, sys
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink",
    "os.truncate", "shutil.copyfile", "tempfile.mkstemp", "tempfile.mkdtemp", "sqlite3.connect"}
tried = []
def refuse(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
    if (writes and arguments[0] != os.devnull) or event in _CHANGES:
        tried.append((event, arguments[0]))
        raise PermissionError(13, "nothing can be written here", str(arguments[0]))
sys.addaudithook(refuse)
"""

USED = """
import warnings
import numpy as np
from scipy import sparse
import wolfmeans
from samples import cloud
from wolfmeans import KMeans, TrimmedKMeans, lower_bound
warnings.simplefilter("ignore")
X = cloud(60, 3)
for engine in ("cpu", "reference"):
    model = KMeans(4, random_state=0, engine=engine).fit(X)
    assert model.predict(X).tolist() == model.labels_.tolist()
    KMeans(4, random_state=0, engine=engine).fit(sparse.csr_array(X))
TrimmedKMeans(3, n_init=2, random_state=0).fit(X)
KMeans(4, random_state=0, polish="swap").fit(X).certify(X, method="spectral")
lower_bound(X, 4, method="neighbours")
wolfmeans.scan(X, [2, 3], random_state=0)
str(model.certificate_), model._repr_html_()
"""


def _without_privileges():
    """Give up what lets root write where permissions do not (CAP_DAC_OVERRIDE)."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def _read_only(folder):
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def _writable(folder):
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755)


@linux
@fails_when("a_cache_is_written")
def test_no_write_access_anywhere(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    _read_only(home)
    places = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    env = environment(PYTHONDONTWRITEBYTECODE="1", **dict.fromkeys(places, str(home)))
    said = python(
        WITHOUT_WRITING + USED + "print(tried)",
        cwd=home,
        env=env,
        preexec_fn=_without_privileges,
    )
    assert said.split() == ["[]"]
    assert list(home.iterdir()) == []


@linux
@fails_when("something_is_written_beside_the_package")
def test_an_install_that_is_read_only(tmp_path):
    home = tmp_path / "site"
    ours = Path(wolfmeans.__file__).parent
    native = Path(sys.modules["wolfmeans.engines._native"].__file__)
    shutil.copytree(ours, home / "wolfmeans", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(native, home / "wolfmeans" / "engines")
    before = sorted(str(path) for path in home.rglob("*"))
    _read_only(home)
    try:
        # An editable install has a finder of its own, which would come first.
        first = (
            "import sys\n"
            "sys.meta_path = [f for f in sys.meta_path if 'wolfmeans' not in type(f).__module__]\n"
            f"sys.path.insert(0, {str(home)!r})\n"
            "import broken; broken.enter_from_environment()\n"
        )
        said = python(
            first + USED + "print(wolfmeans.__file__)",
            preexec_fn=_without_privileges,
            prelude="",
        )
    finally:
        _writable(home)
    assert said.strip() == str(home / "wolfmeans" / "__init__.py")
    assert sorted(str(path) for path in home.rglob("*")) == before
