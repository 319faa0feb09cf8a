"""Deliberately broken variants of the package, by name: each breaks one thing.

A test says with `fails_when` which variant it must not survive; `test_each_can_fail.py` runs it
against that variant and asserts that it fails. A variant is in force inside a `with`; processes
that a test starts break the same thing, because its name is in the environment
(`enter_from_environment`).
"""

import os
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from scipy import sparse

VARIABLE = "WOLFMEANS_TEST_BROKEN"
_VARIANTS = {}
REGISTERED = []


@dataclass(frozen=True)
class Registered:
    """A test, the variant that it must fail on, and the arguments it is called with there."""

    test: object
    variant: str
    arguments: dict
    raises: tuple
    slow: bool


def fails_when(variant, *, raises=(), slow=False, **arguments):
    """Say that a test, called with these arguments, fails on a broken variant.

    A failure is a failed assertion; where a broken package cannot but raise something of its own,
    `raises` says what. What takes long is tried with WOLFMEANS_SLOW_TESTS=1 only.
    """
    if variant not in _VARIANTS:
        raise KeyError(f"no variant is called {variant!r}")
    raises = raises if isinstance(raises, tuple) else (raises,)

    def register(test):
        REGISTERED.append(Registered(test, variant, arguments, raises, slow))
        return test

    return register


@contextmanager
def broken(variant):
    """Break one thing here and in processes that are started meanwhile."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {VARIABLE: variant}))
        for context in _VARIANTS[variant]():
            stack.enter_context(context)
        yield


def enter_from_environment():
    """Break, for good, what the process that started this one has broken."""
    variant = os.environ.get(VARIABLE)
    if variant is not None:
        for context in _VARIANTS[variant]():
            context.__enter__()


def variant(function):
    """Register a function that returns the patches of a variant."""
    _VARIANTS[function.__name__] = function
    return function


def _around(target, name, make):
    """Patch an attribute by what `make` makes of it."""
    return patch.object(target, name, make(getattr(target, name)))


def _on_input(change):
    """Change X before the door sees it."""
    from wolfmeans import door

    def make(admit):
        def admitted(estimator, X, **options):
            return admit(estimator, change(X), **options)

        return admitted

    return [_around(door, "admit", make)]


def _on_finished(change):
    """Change a finished run, whatever the engine."""
    from wolfmeans.fitting import Prepared

    def make(finish):
        def finished(self, *arguments):
            return change(self, finish(self, *arguments))

        return finished

    return [_around(Prepared, "finish", make)]


def _on_model(change):
    """Change a model after its fit."""
    from wolfmeans.estimators.base import CenterEstimator

    def make(keep):
        def kept(self, fit, certificate, exponent):
            keep(self, fit, certificate, exponent)
            change(self)

        return kept

    return [_around(CenterEstimator, "_keep", make)]


def _rows_of(prepared):
    workspace = prepared.problem.workspace
    return workspace.rows(np.arange(workspace.n_points))


# --- input -----------------------------------------------------------------------------------


@variant
def missing_values_become_zero():
    def change(X):
        if sparse.issparse(X):
            return sparse.csr_array(np.nan_to_num(X.toarray(), posinf=0.0, neginf=0.0))
        if hasattr(X, "fillna"):
            return X.fillna(0.0)
        return np.nan_to_num(X, posinf=0.0, neginf=0.0)

    return _on_input(change)


@variant
def weights_unchecked():
    from wolfmeans import door

    def admitted(sample_weight, X):
        if sample_weight is None:
            return None
        return np.nan_to_num(np.abs(np.asarray(sample_weight, dtype=np.float64))) + 1e-3

    return [patch.object(door, "admit_weights", admitted)]


@variant
def weights_of_zero_count():
    from wolfmeans import door

    def make(admit):
        def admitted(sample_weight, X):
            weights = admit(sample_weight, X)
            return None if weights is None else np.maximum(weights, 1e-3)

        return admitted

    return [_around(door, "admit_weights", make)]


@variant
def init_unchecked():
    from wolfmeans import door

    def admitted(init, n_clusters, X):
        return np.ascontiguousarray(np.resize(np.nan_to_num(init), (n_clusters, X.shape[1])))

    return [patch.object(door, "admit_centers", admitted)]


@variant
def init_in_float32():
    from wolfmeans import door

    def make(admit):
        def admitted(init, n_clusters, X):
            centers = admit(init, n_clusters, X)
            return centers.astype(np.float32).astype(centers.dtype)

        return admitted

    return [_around(door, "admit_centers", make)]


@variant
def shapes_forced():
    def change(X):
        X = np.array([np.ravel(row)[:1] for row in np.atleast_1d(np.asarray(X, dtype=object))])
        X = np.resize(X.astype(float), (20, 2)) if X.size else np.zeros((20, 2))
        return X + np.arange(20)[:, None]

    return _on_input(change)


@variant
def small_types_wrap():
    def change(X):
        return np.asarray(X, dtype=np.float64).astype(np.int64).astype(np.int8) % 32

    return _on_input(change)


@variant
def true_is_255():
    return _on_input(lambda X: X * 255.0 if X.dtype == bool else X)


@variant
def large_integers_rounded():
    from wolfmeans import door

    return [patch.object(door, "_refuse_rounded_integers", lambda given: None)]


@variant
def memory_read_in_its_order():
    def change(X):
        if not isinstance(X, np.ndarray):
            return X
        base = X if X.base is None or X.base.dtype != X.dtype else X.base
        native = base.view(base.dtype.newbyteorder("="))
        return np.nan_to_num(np.resize(np.ravel(native, order="K"), X.shape), posinf=0.0)

    return _on_input(change)


@variant
def input_centered_in_place():
    def change(X):
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X -= X.mean(axis=0)
        elif isinstance(X, np.ndarray):
            raise ValueError("assignment destination is read-only")
        return X

    return _on_input(change)


@variant
def names_ignored():
    return _on_input(lambda X: X.to_numpy() if hasattr(X, "to_numpy") else X)


@variant
def duplicates_kept_once():
    def change(X):
        if not sparse.issparse(X):
            return X
        X = X.tocoo()
        dense = np.zeros(X.shape)
        dense[X.row, X.col] = X.data
        return sparse.csr_array(dense)

    return _on_input(change)


@variant
def explicit_zeros_are_ones():
    def change(X):
        if sparse.issparse(X):
            X = X.tocsr(copy=True)
            X.data = np.where(X.data == 0, 1.0, X.data)
        return X

    return _on_input(change)


@variant
def structure_unchecked():
    """Indices that point nowhere are bent until they point somewhere."""

    def change(X):
        if not sparse.issparse(X):
            return X
        indices = np.clip(X.indices, 0, X.shape[1] - 1)
        indptr = np.minimum.accumulate(np.clip(X.indptr, 0, X.nnz)[::-1])[::-1]
        return sparse.csr_array((X.data, indices, indptr), shape=X.shape)

    return _on_input(change)


@variant
def dates_are_numbers():
    return _on_input(lambda X: X.astype(np.int64).astype(float) if X.dtype.kind == "M" else X)


@variant
def masks_are_dropped():
    return _on_input(lambda X: np.asarray(X))


@variant
def only_as_many_columns_as_rows():
    return _on_input(lambda X: np.ascontiguousarray(X[:, : len(X)]))


@variant
def denormals_flushed():
    return _on_input(lambda X: np.where(np.abs(X) < np.finfo(X.dtype).tiny, 0, X))


@variant
def numbers_not_rescaled():
    from wolfmeans import door

    return [patch.object(door, "scale_exponent", lambda X, sizes, weights: 0)]


# --- arithmetic ------------------------------------------------------------------------------


@variant
def sums_in_float32():
    """Means are float32 sums divided by counts, step by step."""
    from wolfmeans.problems.kmeans import KMeansProblem

    def make(minimize):
        def minimized(self, centers):
            found = minimize(self, centers)
            workspace = self.workspace
            X = workspace.rows(np.arange(workspace.n_points)).astype(np.float32)
            ones = np.ones(len(X)) if workspace.weights is None else workspace.weights
            weights = ones.astype(np.float32)[:, None]
            labels = np.asarray(workspace.labels())
            means = found.centers.copy()
            for k in range(len(means)):
                rows = labels == k
                if (weights[rows] > 0).any():
                    total = np.cumsum(weights[rows] * X[rows], axis=0, dtype=np.float32)[-1]
                    mass = np.cumsum(weights[rows], dtype=np.float32)[-1]
                    means[k] = total / mass
            return replace(found, centers=means)

        return minimized

    return [
        _around(KMeansProblem, "minimize_linear", make),
        patch.object(KMeansProblem, "limits", lambda *arguments: None),
    ]


@variant
def ties_to_the_highest():
    def change(prepared, fit):
        from samples import distances

        to_all = distances(_rows_of(prepared), fit.centers)
        return replace(
            fit, labels=(to_all.shape[1] - 1 - to_all[:, ::-1].argmin(axis=1)).astype(np.int32)
        )

    return _on_finished(change)


@variant
def distances_by_expansion():
    """Labels by x.x - 2 x.c + c.c in float32, as fast programs do it."""

    def change(prepared, fit):
        X = _rows_of(prepared).astype(np.float32)
        C = fit.centers.astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            to_all = (X * X).sum(axis=1)[:, None] - 2 * X @ C.T + (C * C).sum(axis=1)
        return replace(fit, labels=to_all.argmin(axis=1).astype(np.int32))

    return _on_finished(change)


@variant
def labels_one_step_behind():
    def change(prepared, fit):
        labels = np.array(fit.labels)
        labels[0] = (labels[0] + 1) % len(fit.centers)
        return replace(fit, labels=labels)

    return _on_finished(change)


@variant
def inertia_of_the_ledger():
    return _on_finished(
        lambda prepared, fit: replace(fit, inertia=fit.inertia * (1 + 1e-14) + 1e-300)
    )


@variant
def gap_overstated():
    """The ledger books more than a step gained."""
    from wolfmeans.problems.kmeans import KMeansProblem

    def make(minimize):
        def minimized(self, centers):
            found = minimize(self, centers)
            return replace(found, gap=found.gap * 1.001)

        return minimized

    return [
        _around(KMeansProblem, "minimize_linear", make),
        patch.object(KMeansProblem, "limits", lambda *arguments: None),
        patch.object(KMeansProblem, "audit", lambda self, solution, inertia: solution),
    ]


@variant
def sse_rises():
    """Records of a run whose value goes up again."""

    def change(prepared, fit):
        trace = fit.solution.trace
        last = trace[-1]
        trace.append(replace(last, t=last.t + 1, value=last.value + trace[0].value))
        return fit

    return _on_finished(change)


@variant
def overflow_on_the_way():
    def change(prepared, fit):
        np.float64(1e300) * np.float64(1e300)
        return fit

    return _on_finished(change)


@variant
def empty_clusters_left_alone():
    from wolfmeans.problems.kmeans import KMeansProblem

    return [patch.object(KMeansProblem, "empty", property(lambda self: "keep"))]


@variant
def centers_of_empty_clusters_are_nan():
    def change(model):
        used = np.bincount(np.asarray(model.labels_), minlength=model.n_clusters) > 0
        model.cluster_centers_[~used] = np.nan

    return _on_model(change)


@variant
def centers_in_float32():
    def change(model):
        model.cluster_centers_ = model.cluster_centers_.astype(np.float32).astype(np.float64)

    return _on_model(change)


@variant
def warnings_swallowed():
    from wolfmeans.estimators import kmeans

    return [patch.object(kmeans, "warn_about", lambda *arguments, **options: None)]


@variant
def row_order_matters():
    from wolfmeans.estimators import base

    def first_rows(workspace, n_clusters, method, random):
        return workspace.rows(np.arange(n_clusters))

    return [patch.object(base, "choose_seeds", first_rows)]


@variant
def bounds_too_high():
    """Lower bounds without their rounding margin, and a little more."""
    from wolfmeans import fitting
    from wolfmeans.lower_bounds import front

    def make(find):
        def found(*arguments, **options):
            bound = find(*arguments, **options)
            return None if bound is None else replace(bound, value=bound.value * 1.001 + 1e-9)

        return found

    return [_around(fitting, "best_bound", make), _around(front, "best_bound", make)]


@variant
def strictness_claimed():
    from wolfmeans.problems.kmeans import KMeansProblem

    return [patch.object(KMeansProblem, "tied", lambda self, point: False)]


# --- the run ---------------------------------------------------------------------------------


@variant
def converged_whatever_happened():
    from wolfmeans.solution import Status

    def change(prepared, fit):
        return replace(fit, solution=replace(fit.solution, status=Status.DECREASE))

    return _on_finished(change)


@variant
def one_step_too_many():
    from wolfmeans.fitting import Prepared

    def make(finish):
        def finished(self, max_steps, time_limit=None, callback=None):
            return finish(self, None if max_steps is None else max_steps + 1, None, callback)

        return finished

    return [_around(Prepared, "finish", make)]


@variant
def stops_at_a_tolerance_of_its_own():
    from wolfmeans import fitting

    def make(rule):
        def made(stop, tol, *rest):
            return rule(stop, tol + 1e-2, *rest)

        return made

    return [_around(fitting, "_rule", make)]


@variant
def init_jittered():
    from wolfmeans import door

    def make(admit):
        def admitted(init, n_clusters, X):
            centers = admit(init, n_clusters, X)
            return (centers + 0.3 * np.cos(np.arange(centers.size)).reshape(centers.shape)).astype(
                centers.dtype
            )

        return admitted

    return [_around(door, "admit_centers", make)]


@variant
def callback_unheard():
    from wolfmeans.fitting import Prepared

    def make(finish):
        def finished(self, max_steps, time_limit=None, callback=None):
            def heard(record):
                try:
                    callback(record)
                except Exception:
                    return None

            return finish(self, max_steps, time_limit, callback and heard)

        return finished

    return [_around(Prepared, "finish", make)]


@variant
def failed_fits_leave_something():
    """Attributes are set as the fit goes on, and stay when it fails."""
    from wolfmeans.estimators import KMeans

    def fit(self, X, y=None, sample_weight=None):
        self.cluster_centers_ = np.zeros((self.n_clusters, np.shape(X)[1]))
        self._scale_exponent = 0
        self.labels_ = np.zeros(len(X), dtype=np.int32)
        return self._fit(X, sample_weight)

    return [patch.object(KMeans, "fit", fit)]


@variant
def interrupts_heard_at_the_end():
    """Native code takes all steps in one call, and looks at no signal meanwhile."""
    from wolfmeans.problems import kmeans

    return [
        patch.object(kmeans, "_SECONDS_AT_ONCE", 1e9),
        patch.object(kmeans.KMeansProblem, "steps_per_block", 1_000_000),
    ]


@variant
def interrupted_fits_are_kept():
    from wolfmeans.estimators import KMeans

    def make(fit):
        def kept(self, X, y=None, sample_weight=None):
            try:
                return fit(self, X, y, sample_weight)
            except KeyboardInterrupt:
                self.cluster_centers_ = np.zeros((self.n_clusters, X.shape[1]))
                raise

        return kept

    return [_around(KMeans, "fit", make)]


# --- the system ------------------------------------------------------------------------------


@variant
def a_pool_that_does_not_survive_a_fork():
    """Work is done by threads that live as long as the process, and not in its children."""
    from concurrent.futures import ThreadPoolExecutor

    from wolfmeans.estimators import KMeans

    pool = ThreadPoolExecutor(1)

    def make(fit):
        return lambda self, X, weights: pool.submit(fit, self, X, weights).result()

    return [_around(KMeans, "_fit", make)]


@variant
def fits_share_a_buffer():
    shared = {}

    def change(prepared, fit):
        shared["labels"] = fit.labels
        time.sleep(0.02)
        return replace(fit, labels=shared["labels"])

    return _on_finished(change)


@variant
def threads_as_many_as_they_like():
    """`n_threads` and whatever surrounds the process are not listened to."""
    from wolfmeans import engines
    from wolfmeans.estimators import base, kmeans

    def four(n_threads):
        return 4

    return [patch.object(module, "effective_threads", four) for module in (engines, base, kmeans)]


@variant
def a_leak():
    kept = []

    def change(prepared, fit):
        kept.append(np.ones(20_000))
        return fit

    return _on_finished(change)


@variant
def threads_change_the_result():
    from wolfmeans.estimators import kmeans

    def make(best):
        def changed(begin, states, *, n_threads, **settings):
            others = [state + n_threads for state in states]
            return best(begin, others, n_threads=n_threads, **settings)

        return changed

    return [_around(kmeans, "best_of_starts", make)]


@variant
def vector_units_change_the_result():
    nudge = {"baseline": 1e-16, "avx2": 2e-16, "avx512": 3e-16}

    def change(prepared, fit):
        unit = os.environ.get("WOLFMEANS_VECTOR_UNIT", "")
        return replace(fit, inertia=fit.inertia * (1 + 4 * nudge.get(unit, 0.0)))

    return _on_finished(change)


@variant
def engines_change_the_result():
    def change(prepared, fit):
        name = prepared.problem.workspace.engine
        return replace(fit, inertia=fit.inertia * (1 + 1e-15 * len(name)))

    return _on_finished(change)


@variant
def runs_remember():
    count = [0]

    def change(prepared, fit):
        count[0] += 1
        return replace(fit, inertia=fit.inertia + count[0])

    return _on_finished(change)


@variant
def indices_of_32_bits():
    """Products of sizes wrap: rows beyond get what the rows they wrap to got."""
    from wolfmeans.engines.labelled import LabelledPoints

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

    return [*_on_finished(change), _around(LabelledPoints, "nearest", make)]


@variant
def a_cache_is_written():
    import tempfile

    def change(prepared, fit):
        with tempfile.NamedTemporaryFile(prefix="wolfmeans-"):
            return fit

    return _on_finished(change)


@variant
def something_is_written_beside_the_package():
    from pathlib import Path

    import wolfmeans

    def change(prepared, fit):
        (Path(wolfmeans.__file__).parent / "tuned.json").write_text("{}")
        return fit

    return _on_finished(change)


# --- security --------------------------------------------------------------------------------


@variant
def usage_is_reported_home():
    import socket

    def change(prepared, fit):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", 9), timeout=0.1).close()
        return fit

    return _on_finished(change)


@variant
def pickles_are_loaded():
    """Whatever looks like a pickle is loaded as one, inside arrays too."""
    import io
    import pickle
    from pathlib import Path

    from wolfmeans import storage

    def make_load(load):
        def loaded(path):
            with suppress(pickle.UnpicklingError):
                pickle.loads(Path(path).read_bytes())
            return load(path)

        return loaded

    def make_text(text):
        def read(self):
            for name in self._archive.namelist():
                if name.endswith(".npy"):
                    np.load(io.BytesIO(self._archive.read(name)), allow_pickle=True)
            return text(self)

        return read

    return [
        _around(storage, "load_prepared", make_load),
        _around(storage.Members, "text", make_text),
    ]


@variant
def strings_unescaped():
    import html

    return [patch.object(html, "escape", lambda text, quote=True: text)]


@variant
def pickles_in_tables_are_loaded():
    from wolfmeans.sources.npy import NpySource

    def make(init):
        def opened(self, paths, *rest):
            for path in paths:
                np.load(path, allow_pickle=True)
            init(self, paths, *rest)

        return opened

    return [_around(NpySource, "__init__", make)]


@variant
def archives_are_unpacked():
    import shutil
    import warnings
    from pathlib import Path

    from wolfmeans import tables

    def make(read):
        def unpacked(source, kind):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shutil.unpack_archive(source, Path(source).parent)
            return read(source, kind)

        return unpacked

    return [_around(tables, "_read_one", make)]


@variant
def patterns_reach_further():
    from pathlib import Path

    from wolfmeans.sources import opening

    def matching(source):
        return sorted(str(path) for path in Path(source).parent.rglob(Path(source).name))

    return [patch.object(opening, "matching", matching)]
