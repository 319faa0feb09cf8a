"""Forks, threads, memory and files."""

import os
import time
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from broken.places import around, on_finished
from broken.registry import variant


@variant
def a_pool_that_does_not_survive_a_fork():
    """Work is done by threads that live as long as the process, and not in its children."""
    from concurrent.futures import ThreadPoolExecutor

    from wolfmeans.estimators import KMeans

    pool = ThreadPoolExecutor(1)

    def make(fit):
        return lambda self, X, weights: pool.submit(fit, self, X, weights).result()

    return [around(KMeans, "_fit_or_restore", make)]


@variant
def fits_share_a_buffer():
    shared = {}

    def change(prepared, fit):
        shared["labels"] = fit.labels
        time.sleep(0.02)
        return replace(fit, labels=shared["labels"])

    return on_finished(change)


@variant
def threads_as_many_as_they_like():
    """`n_threads` and whatever surrounds the process are not listened to."""
    from wolfmeans import engines
    from wolfmeans.estimators import base, kmeans
    from wolfmeans.fitting import fit

    def four(n_threads):
        return 4

    modules = (engines, base, kmeans, fit)
    return [patch.object(module, "effective_threads", four) for module in modules]


@variant
def threads_without_end():
    """As many threads as asked for are started, whatever becomes of the process."""
    from wolfmeans import engines
    from wolfmeans.estimators import base, kmeans
    from wolfmeans.fitting import fit

    def asked(n_threads):
        return n_threads or 1

    modules = (engines, base, kmeans, fit)
    return [patch.object(module, "effective_threads", asked) for module in modules]


@variant
def forks_hold_a_lock():
    """A lock that a fit holds is never released in a process that forks meanwhile."""
    import threading

    from wolfmeans.estimators import KMeans

    lock = threading.Lock()

    def make(fit):
        def locked(self, X, weights):
            with lock:
                return fit(self, X, weights)

        return locked

    return [around(KMeans, "_fit_or_restore", make)]


@variant
def no_memory_is_no_matter():
    """What could not be computed for lack of memory is left at zero."""
    from wolfmeans.estimators import KMeans

    def make(fit):
        def fitted(self, X, weights):
            try:
                return fit(self, X, weights)
            except MemoryError:
                self.cluster_centers_ = np.zeros((self.n_clusters, X.shape[1]))
                return self

        return fitted

    return [around(KMeans, "_fit_or_restore", make)]


@variant
def a_leak():
    kept = []

    def change(prepared, fit):
        kept.append(np.ones(20_000))
        return fit

    return on_finished(change)


@variant
def threads_change_the_result():
    from wolfmeans.estimators import kmeans

    def make(best):
        def changed(begin, numbers, *, n_threads, **settings):
            def nudged(number, threads):
                start = begin(number, threads)
                return replace(start, seeds=start.seeds * (1 + 0.01 * n_threads))

            return best(nudged, numbers, n_threads=n_threads, **settings)

        return changed

    return [around(kmeans, "best_of_starts", make)]


@variant
def vector_units_change_the_result():
    nudge = {"baseline": 1e-16, "avx2": 2e-16, "avx512": 3e-16}

    def change(prepared, fit):
        unit = os.environ.get("WOLFMEANS_VECTOR_UNIT", "")
        return replace(fit, inertia=fit.inertia * (1 + 4 * nudge.get(unit, 0.0)))

    return on_finished(change)


@variant
def engines_change_the_result():
    def change(prepared, fit):
        name = prepared.problem.workspace.engine
        return replace(fit, inertia=fit.inertia * (1 + 1e-15 * len(name)))

    return on_finished(change)


@variant
def runs_remember():
    count = [0]

    def change(prepared, fit):
        count[0] += 1
        return replace(fit, inertia=fit.inertia + count[0])

    return on_finished(change)


@variant
def indices_of_32_bits():
    """Products of sizes wrap: rows beyond get what the rows they wrap to got."""
    from wolfmeans.engines.reference import ReferencePoints

    def wrapped(labels, width):
        labels = np.array(labels)
        first = 2**31 // width
        if first < len(labels):
            labels[first:] = labels[: len(labels) - first]
        return labels

    def change(prepared, fit):
        width = max(fit.centers.shape)
        return replace(fit, labels=wrapped(fit.labels, width))

    def make(nearest):
        def found(self, centers):
            labels, distances = nearest(self, centers)
            return wrapped(labels, max(centers.shape)), distances

        return found

    return [*on_finished(change), around(ReferencePoints, "nearest", make)]


@variant
def a_cache_is_written():
    import tempfile

    def change(prepared, fit):
        with tempfile.NamedTemporaryFile(prefix="wolfmeans-"):
            return fit

    return on_finished(change)


@variant
def something_is_written_beside_the_package():
    from pathlib import Path

    import wolfmeans

    def change(prepared, fit):
        (Path(wolfmeans.__file__).parent / "tuned.json").write_text("{}")
        return fit

    return on_finished(change)
