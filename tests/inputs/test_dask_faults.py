"""Workers that die, schedulers that are gone, memory: nothing of it leaves a trace in the result.

WOLFMEANS_FAULT_TRIALS says how often a worker is killed; 4 times if it does not.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from wolfmeans import KMeans
from wolfmeans.engines.places import dask_blocks as blocks
from wolfmeans.engines.places import dask_faults as cluster_faults
from wolfmeans.engines.places import dask_places as cluster_parts
from wolfmeans.exact.native import native_is_available

pytest.importorskip("dask.array", reason="dask and distributed are not installed")
distributed = pytest.importorskip("distributed", reason="dask and distributed are not installed")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
from distributed.core import Status  # noqa: E402

from cluster import in_memory, points, same, spread, workers  # noqa: E402

pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")

TRIALS = int(os.environ.get("WOLFMEANS_FAULT_TRIALS", "4"))


@pytest.fixture(scope="module")
def three_workers():
    # Workers that were killed come back; a busy machine takes its time.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"}),
        workers(3) as client,
    ):
        yield client


def nothing_is_left(client):
    """Look until the scheduler has no task of ours, and workers keep nothing."""
    for _ in range(100):
        tasks = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        ours = [key for key in tasks if "wolfmeans" in str(key)]
        if not ours and not any(client.processing().values()):
            return not any(client.run(lambda: len(blocks._kept)).values())
        time.sleep(0.1)
    return False


class Killer:
    """Kills a worker when the fit comes to some iterations, or all of them at once."""

    def __init__(self, client, generator, last, *, everybody):
        self.client, self.generator, self.everybody = client, generator, everybody
        times = 1 if everybody else generator.choice([1, 1, 1, 2])
        self.fatal = set(generator.sample(range(last), k=min(last, times)))
        self.times = 0

    def __call__(self, record):
        if record.t in self.fatal:
            pids = sorted(self.client.run(os.getpid).values())
            for pid in pids if self.everybody else [self.generator.choice(pids)]:
                os.kill(pid, signal.SIGKILL)
            self.times += 1


@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_worker_that_dies_leaves_no_trace(three_workers, trial, monkeypatch):
    generator = random.Random(trial)
    if trial % 2:
        # All that is sent is sent as tasks.
        monkeypatch.setattr(cluster_parts, "_SMALL", 0)
    X = points(n=900, seed=trial)
    weights = np.arange(900) % 3 / 2.0 if trial % 3 == 2 else None
    settings = {"tol": 1e-4, "init": X[:6] if trial % 4 else "k-means||", "random_state": trial}
    reference = in_memory(X, weights, **settings)
    three_workers.wait_for_workers(2, timeout=60)
    last = len(reference.trace_) - 1
    kill = Killer(three_workers, generator, last, everybody=trial % 4 == 3)
    ours = spread(X, generator.choice([100, 30, 450]), weights, **settings, callback=kill)
    assert kill.times == len(kill.fatal)
    same(ours, reference)


def test_a_worker_that_dies_while_seeds_are_drawn(three_workers, monkeypatch):
    X = points(n=900, seed=20)
    settings = {"init": "k-means||", "random_state": 5, "max_iter": 3, "tol": 0.5}
    reference = in_memory(X, **settings)
    three_workers.wait_for_workers(2, timeout=60)
    summed = cluster_parts.ClusterPlace.summed
    asked = []

    def killing(self, method, arguments):
        asked.append(method)
        if method == "seeding" and len(asked) == 5:
            os.kill(min(three_workers.run(os.getpid).values()), signal.SIGKILL)
        return summed(self, method, arguments)

    monkeypatch.setattr(cluster_parts.ClusterPlace, "summed", killing)
    ours = spread(X, 100, **settings)
    assert asked.count("seeding") > 5
    same(ours, reference)


def test_a_worker_that_dies_while_parts_are_bounded(three_workers, monkeypatch):
    """Its parts are bounded elsewhere, and each part counts once: twice would be no bound."""
    X = points(n=900, seed=21)
    collection = da.from_array(X, chunks=(100, 3))
    three_workers.wait_for_workers(2, timeout=60)
    ours, undisturbed = (KMeans(6, init=X[:6]).fit(collection) for _ in range(2))
    bound = undisturbed.certify(collection, method="neighbours").lower_bound
    asking, killed = cluster_parts.ClusterPlace.asking, []

    def killing(self, method, *arguments, **options):
        tasks = asking(self, method, *arguments, **options)
        if method == "apply" and not killed:
            killed.append(min(three_workers.run(os.getpid).values()))
            os.kill(killed[0], signal.SIGKILL)
        return tasks

    monkeypatch.setattr(cluster_parts.ClusterPlace, "asking", killing)
    assert ours.certify(collection, method="neighbours").lower_bound == bound
    assert 0 < bound <= ours.inertia_
    assert killed


def test_lost_data_that_nobody_can_make_again_is_an_error(three_workers):
    """What the client put on one worker is gone with it."""
    X = points(seed=16)
    three_workers.wait_for_workers(2, timeout=60)
    pids = three_workers.run(os.getpid)
    worker = min(pids)
    future = three_workers.scatter(X, workers=[worker])
    collection = da.from_delayed(dask.delayed(future), X.shape, dtype=X.dtype)

    def kill(record):
        if record.t == 1:
            os.kill(pids[worker], signal.SIGKILL)

    with pytest.raises(RuntimeError, match="cannot be made again"):
        KMeans(6, init=X[:6], callback=kill).fit(collection)


@pytest.fixture
def two_in_here():
    """Workers in this process, which are as full as we say."""
    memory = {"distributed.worker.memory.pause": False, "distributed.worker.memory.target": 1e-4}
    with dask.config.set(memory), workers(2, processes=False, memory_limit="2GB") as client:
        yield client


def test_a_block_that_cannot_be_loaded_says_why(two_in_here):
    def load(block_info=None):
        raise FileNotFoundError("no such file: a")

    X = da.map_blocks(load, chunks=((10, 10), (3,)), dtype=float, meta=np.empty((0, 3)))
    with pytest.raises(FileNotFoundError, match="no such file: a"):
        KMeans(2, init=np.zeros((2, 3))).fit(X)
    assert nothing_is_left(two_in_here)
    same(spread(points(), 100), in_memory(points()))


class UserError(Exception):
    """What a callback raises."""


@pytest.mark.parametrize("error", [UserError, KeyboardInterrupt])
def test_a_fit_that_is_broken_off_leaves_nothing(two_in_here, error):
    def callback(record):
        if record.t == 2:
            raise error

    # The exception holds on to all that was there, as an interactive session does.
    with pytest.raises(error) as caught:
        spread(points(), 100, callback=callback)
    assert nothing_is_left(two_in_here)
    assert caught.value.__traceback__ is not None
    same(spread(points(), 100), in_memory(points()))


@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_callback_that_ends_the_fit(two_in_here):
    settings = {"callback": lambda record: record.t == 2, "stop": "stationary"}
    same(spread(points(), 100, **settings), in_memory(points(), **settings))
    assert nothing_is_left(two_in_here)


def test_an_interrupt_while_workers_are_at_work(two_in_here):
    X = points()

    def slow(block):
        time.sleep(0.5)
        return block

    rows = da.from_array(X, chunks=(100, 3)).map_blocks(slow, meta=np.empty((0, 3)))
    later = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    later.start()
    with pytest.raises(KeyboardInterrupt):
        KMeans(6, init=X[:6]).fit(rows)
    later.join()
    assert nothing_is_left(two_in_here)
    same(spread(X, 100), in_memory(X))


@pytest.mark.filterwarnings("ignore:Not converged")
def test_rows_that_go_to_the_disk_meanwhile(two_in_here):
    X = points(n=40_000, d=10)
    on_disk = []

    def callback(record):
        found = two_in_here.run(lambda dask_worker: dask_worker.data.spilled_total.memory)
        on_disk.append(sum(found.values()))

    ours = spread(X, 2000, callback=callback, max_iter=3)
    same(ours, in_memory(X, max_iter=3))
    assert max(on_disk) > X.nbytes / 4


def test_workers_that_take_no_tasks(two_in_here, monkeypatch):
    """One of them is helped out by the other; when both stop, that is said."""
    monkeypatch.setattr(cluster_faults, "GLANCE", 0.1)
    monkeypatch.setattr(cluster_faults, "_PAUSE", 0.2)
    X = points()

    def pause(many):
        def callback(record):
            if record.t == 1:
                for address in sorted(two_in_here.nthreads())[:many]:
                    two_in_here.run(stop, workers=[address])

        return callback

    def stop(dask_worker):
        dask_worker.status = Status.paused

    same(spread(X, 100, callback=pause(1)), in_memory(X))
    monkeypatch.setattr(cluster_faults, "PATIENCE", 0.5)
    with pytest.raises(MemoryError, match="paused"):
        spread(X, 100, callback=pause(2))


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr(cluster_faults, "PATIENCE", 0.4)
    with workers(0), pytest.raises(ConnectionError, match="no workers"):
        spread(points(), 100)


def test_a_scheduler_that_is_gone_is_an_error_and_not_a_hang(tmp_path):
    X = points(seed=14)
    reference = in_memory(X, stop="stationary")
    path = tmp_path / "fit"
    starter = textwrap.dedent("""
        from distributed import LocalCluster
        import time

        if __name__ == "__main__":
            cluster = LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None,
                protocol="tcp://",
            )
            print(cluster.scheduler_address, flush=True)
            time.sleep(300)
    """)
    command = [sys.executable, "-W", "ignore", "-c", starter]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as scheduler:
        try:
            address = scheduler.stdout.readline().strip()
            with distributed.Client(address, timeout=20):

                def kill(record):
                    if record.t == 3:
                        scheduler.kill()

                with pytest.raises(ConnectionError, match="checkpoint"):
                    spread(X, 100, stop="stationary", callback=kill, checkpoint=path)
        finally:
            scheduler.kill()
    same(spread(X, 300, stop="stationary", checkpoint=path), reference)


def test_memory_of_client_and_workers():
    """The client never holds rows or labels; a worker has its rows once, and labels and bounds."""
    script = textwrap.dedent("""
        import os, resource
        import dask.array as da
        import numpy as np
        from distributed import Client, LocalCluster
        from wolfmeans import KMeans

        ROWS, D, BLOCKS = 50_000, 20, 12

        def block(block_info=None):
            number = block_info[None]["chunk-location"][0]
            return np.random.default_rng(number).normal(size=(ROWS, D))

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def main():
            with LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster, Client(cluster) as client:
                X = da.map_blocks(block, chunks=((ROWS,) * BLOCKS, (D,)), dtype=float)
                settings = {"init": "k-means||", "random_state": 0, "max_iter": 3}
                KMeans(4, **settings).fit(X[:1000])
                before, there = peak(), client.run(peak)
                km = KMeans(4, **settings).fit(X)
                grown = sum(client.run(peak).values()) - sum(there.values())
                assert km.labels_.shape == (ROWS * BLOCKS,)
                print(peak() - before, grown)

        if __name__ == "__main__":
            main()
    """)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=400
    )
    assert run.returncode == 0, run.stderr
    client, both_workers = map(int, run.stdout.split()[-2:])
    rows = 96_000
    assert client < rows / 4, "kB"
    # The rows, the engine's own in half precision, labels, bounds, hashes and distances.
    assert both_workers < 2 * rows, "kB"
