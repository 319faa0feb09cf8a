"""Runs that end otherwise than they say."""

import signal
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from broken.places import around, on_finished
from broken.registry import variant


@variant
def converged_whatever_happened():
    from wolfmeans.core.solution import Status

    def change(prepared, fit):
        return replace(fit, solution=replace(fit.solution, status=Status.DECREASE))

    return on_finished(change)


@variant
def one_step_too_many():
    from wolfmeans.fitting.fit import Prepared

    def make(finish):
        def finished(self, max_steps, time_limit=None, callback=None):
            return finish(self, None if max_steps is None else max_steps + 1, None, callback)

        return finished

    return [around(Prepared, "finish", make)]


@variant
def time_is_looked_at_before_the_first_step():
    from wolfmeans.fitting.fit import Prepared

    def make(finish):
        def finished(self, max_steps, time_limit=None, callback=None):
            return finish(self, max_steps, 0.0 if time_limit == 0.0 else None, callback)

        return finished

    return [around(Prepared, "finish", make)]


@variant
def stops_at_a_tolerance_of_its_own():
    from wolfmeans.fitting import fit

    def make(rule):
        def made(stop, tol, *rest):
            return rule(stop, tol + 1e-2, *rest)

        return made

    return [around(fit, "_rule", make)]


@variant
def init_jittered():
    from wolfmeans.inputs import validation

    def make(validated):
        def admitted(init, n_clusters, X):
            centers = validated(init, n_clusters, X)
            return (centers + 0.3 * np.cos(np.arange(centers.size)).reshape(centers.shape)).astype(
                centers.dtype
            )

        return admitted

    return [around(validation, "validate_centers", make)]


@variant
def callback_unheard():
    from wolfmeans.fitting.fit import Prepared

    def make(finish):
        def finished(self, max_steps, time_limit=None, callback=None):
            def heard(record):
                try:
                    callback(record)
                except Exception:
                    return None

            return finish(self, max_steps, time_limit, callback and heard)

        return finished

    return [around(Prepared, "finish", make)]


@variant
def failed_fits_leave_something():
    """Attributes are set as the fit goes on, and stay when it fails."""
    from wolfmeans.estimators import KMeans

    def fit(self, X, y=None, sample_weight=None):
        self.cluster_centers_ = np.zeros((self.n_clusters, np.shape(X)[1]))
        self._scale_exponent = 0
        self.labels_ = np.zeros(len(X), dtype=np.int32)
        self._fit_or_restore(X, sample_weight)
        return self

    return [patch.object(KMeans, "fit", fit)]


@variant
def interrupts_heard_at_the_end():
    """Native calls are deaf: a signal comes through when they return."""
    from wolfmeans.engines.native import NativePoints
    from wolfmeans.exact.native import NativeKernels

    def make(call):
        def deaf(*arguments, **options):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return call(*arguments, **options)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

        return deaf

    return [
        *(around(NativePoints, name, make) for name in ("assign", "advance", "advance_with")),
        around(NativePoints, "spread_rows", make),
        *(around(NativeKernels, name, make) for name in ("nearest", "roots")),
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

    return [around(KMeans, "fit", make)]
