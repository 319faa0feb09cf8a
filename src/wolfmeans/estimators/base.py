"""The common part of KMeans and TrimmedKMeans: parameters, seeds, prediction, storage."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from wolfmeans.bounds import LowerBound, Settings
from wolfmeans.certificate.record import Certificate, warn_about
from wolfmeans.core.draws import RandomSource
from wolfmeans.core.frank_wolfe import Callback
from wolfmeans.core.hooks import hook
from wolfmeans.core.notices import progress_on_terminal, warn
from wolfmeans.core.solution import Record, Trace
from wolfmeans.core.stopping import Criterion, criterion
from wolfmeans.engines import Chosen, Work, Workspace, choose_engine, effective_threads
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.estimators import saving
from wolfmeans.estimators.checkpoint import Checkpoint, refuse_settings
from wolfmeans.estimators.dataset import OpenedForFit, dataset_for
from wolfmeans.estimators.parameters import ParameterAndMethod, validate
from wolfmeans.estimators.postponed import PostponedBound, postponed_bound
from wolfmeans.estimators.streamed import (
    predicted_to,
    results_of_chunks,
    scored,
    source_for,
)
from wolfmeans.fitting.fit import Fit
from wolfmeans.inputs import validation
from wolfmeans.inputs.memory_budget import bytes_of
from wolfmeans.inputs.validation import refuse_other_names
from wolfmeans.seeding.in_parts import seeds_in_parts
from wolfmeans.seeding.methods import choose_seeds

_DEFAULT_STARTS = 10


class CenterEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """An estimator whose model is a set of centers.

    A subclass has the parameters that are read here, and `_fit`, which clusters opened data.
    """

    _parameter_constraints: dict[str, Any]
    _draws_from_sample = False
    """Whether seeds of data in parts are drawn from a sample of the rows."""
    n_clusters: int
    init: Any
    n_init: int | str
    stop: str | None
    tol: float | None
    tol_scale: str | None
    verbose: int
    random_state: Any
    engine: str
    n_threads: int | None
    callback: Callback | None
    cluster_centers_: NDArray[Any]
    initial_centers_: NDArray[Any]
    labels_: Any
    inertia_: float
    n_iter_: int
    trace_: Trace
    checkpoint: str | os.PathLike[str] | None
    empty: str
    engine_: str
    _postponed: PostponedBound
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Set an attribute for each argument of `__init__`; `given` are its local variables."""
        self.__dict__.update((name, value) for name, value in given.items() if value is not self)

    def _validate_params(self) -> None:
        """Check the parameters as scikit-learn does, plain values once."""
        validate(self)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster X.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask collection or source of shape (n_samples, n_features)
            The points. Never changed, and not copied when C-contiguous float32 or float64. A source
            is the path of a file (NPY, Parquet, Arrow, Zarr), a folder or pattern of such files,
            several paths, a Zarr array, or arrays one by one: something that can be iterated again,
            or a function that returns an iterator (see `wolfmeans.sources.open_source`).
        y : ignored
            Present by convention.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Weights of the points, at least 0; of Parquet and Arrow files the name of a column.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._fit_or_restore(X, sample_weight)
        return self

    # Untyped because the decorator is; `fit` wraps it so that type checkers see a signature.
    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_or_restore(self, X: Any, sample_weight: Any) -> None:
        """Validate the parameters and fit; an estimator whose fit fails stays as it was."""
        before = self.__dict__.copy()
        try:
            self._refuse_infinite_tolerance()
            if self.checkpoint is not None:
                refuse_settings(self)
            with dataset_for(self, X).opened(sample_weight) as data:
                self._fit(data)
                if data.names is not None:
                    self.feature_names_in_ = np.array(data.names, dtype=object)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, data: OpenedForFit) -> None:
        raise NotImplementedError

    def _work(self, n_threads: int) -> Work | None:
        raise NotImplementedError

    def _memory_limit(self) -> int | None:
        """Return the memory limit in bytes; None for no limit."""
        limit = getattr(self, "memory_limit", None)
        return None if limit is None else bytes_of(limit)

    def _bytes_beside(self, source: Any) -> int:
        """Return the bytes that a fit in chunks needs besides the chunks."""
        return 0

    def _states_at_once(self) -> int:
        """Return of how many starts labels and bounds are kept at the same time."""
        return 1

    def _bytes_of_a_row(self, *, weighted: bool) -> int:
        """Return the bytes that a row needs during a step, beyond those of K-means."""
        return 0

    def _bytes_of_a_point(self, state: str, weights: Any) -> int | None:
        """Return the bytes of a point in this state beyond those of K-means, or None."""
        return 0

    def _refuse_few_rows(self, n_rows: int) -> None:
        if n_rows < self.n_clusters:
            raise ValueError(f"n_samples={n_rows} should be >= n_clusters={self.n_clusters}.")

    def _criterion(self) -> Criterion:
        """Return the stopping rule that the parameters mean."""
        return criterion(self.stop, None if self.tol is None else float(self.tol), self.tol_scale)

    def _refuse_infinite_tolerance(self) -> None:
        if self.tol is not None and not math.isfinite(self.tol):
            raise ValueError(f"tol must be a finite number; got {self.tol!r}")

    def _chosen_engine(self, X: Any, n_threads: int) -> Chosen:
        """Return the engine for a fit; if verbose, print what "auto" chose."""
        chosen = choose_engine(self.engine, X, self._work(n_threads))
        for note in chosen.notes:
            self._tell(note)
        return chosen

    def _tell(self, text: str) -> None:
        """Print a line if verbose, flushed at once so that a log file is up to date."""
        if self.verbose:
            print(text, flush=True)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `certify` as an attribute is the method."""
        parameters: dict[str, Any] = super().get_params(deep)
        parameters["certify"] = vars(self)["certify"]
        return parameters

    @ParameterAndMethod
    def certify(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        method: str = "auto",
        confidence: float = 0.95,
        random_state: Any = None,
        seconds: float = 60.0,
        progress: Callable[[float, str], Any] | None = None,
    ) -> Certificate:
        """Compute a better lower bound, which may take minutes, and store it in `certificate_`.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask collection or source of shape (n_samples, n_features)
            The points that were clustered. Dask data and files that exceed `memory_limit` are
            bounded part by part, and the sum of these bounds is a bound for all points.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            The weights that were passed to `fit`.
        method : str, default="auto"
            The method of `wolfmeans.lower_bound`; "auto" combines several. If the data is in parts
            and the sum of their bounds is weak, for example because rows are sorted by cluster,
            "auto" also tries a random sample; the certificate shows the better bound with its
            confidence.
        confidence : float, default=0.95
            Confidence of bounds from random subsamples.
        random_state : int, RandomState or None, default=None
            Seed of the subsamples.
        seconds : float, default=60.0
            Time limit of the semidefinite bound, the strongest one. It may end sooner: when the
            clustering is proven to be optimal, or when the bound no longer rises. Ctrl-C ends it
            and keeps the best bound that is proven so far.
        progress : callable or None, default=None
            Called with the completed fraction and a text; None prints to a terminal.

        Returns
        -------
        Certificate
            The new `certificate_`.

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import KMeans
        >>> X = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0)
        >>> X += np.random.default_rng(0).normal(size=X.shape)
        >>> km = KMeans(n_clusters=3, certify=None, random_state=0).fit(X)
        >>> km.certificate_.ratio is None
        True
        >>> km.certify(X).ratio < 1.01
        True
        """
        check_is_fitted(self)
        self._refuse_other_number_of_clusters()
        self.__dict__.pop("_postponed", None)  # superseded
        with progress_on_terminal(progress) as report:
            settings = Settings(
                confidence=confidence,
                rng=lambda: check_random_state(random_state),
                n_threads=effective_threads(self.n_threads),
                progress=report,
                centers=self.cluster_centers_,
                seconds=seconds,
                on_gpu=self.engine_ == "gpu",
            )
            bounds = dataset_for(self, X).lower_bounds(sample_weight, method, settings)
        return self._certified_by(bounds)

    @property
    def certificate_(self) -> Certificate:
        """What was verified about the clustering.

        A fit takes quick lower bounds only. If these say little and there are few points, a better
        one is computed when the certificate is first read, in a second or so.
        """
        if "certificate_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no certificate_ before fit")
        postponed = self.__dict__.pop("_postponed", None)
        if postponed is not None:
            self._certified_by([postponed.bound(self)])
        certificate: Certificate = vars(self)["certificate_"]
        return certificate

    @certificate_.setter
    def certificate_(self, certificate: Certificate) -> None:
        self.__dict__["certificate_"] = certificate

    def __getstate__(self) -> Any:
        """Return what is pickled: without the points that a postponed bound needs."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_postponed"}

    def _certified_by(self, bounds: list[LowerBound]) -> Certificate:
        """Put lower bounds into the certificate, and return it."""
        certificate: Certificate = vars(self)["certificate_"]
        watched = certificate.stop in ("decrease", "gap")
        for bound in bounds:
            certificate = certificate.bounded_by(bound, certificate.tol if watched else None)
        certificate = certificate.after_seconds(sum(bound.seconds for bound in bounds))
        self.certificate_ = certificate
        if certificate.unit_exponent == 0:
            self.trace_.lower_bound = certificate.proven_bound
        return certificate

    def _refuse_other_number_of_clusters(self) -> None:
        """Raise an error if `n_clusters` was changed since the fit."""
        n_fitted = len(self.cluster_centers_)
        if n_fitted != self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters}, but the model was fitted with {n_fitted}; refit "
                f"it, or set n_clusters={n_fitted} again"
            )

    def _refuse_other_data(self, X: Any, weights: NDArray[np.float64] | None) -> None:
        """Raise an error unless X and the weights are what was clustered.

        Inertia is an exact sum, so the same points give the same number to the last bit, in any
        order of the rows. Rows that lie on a center add nothing to it, so rows are counted, too.
        """
        self._refuse_other_rows(_num_samples(X))
        self._refuse_other_inertia(self._inertia_on(X, weights))

    def _refuse_other_rows(self, n_rows: int) -> None:
        fitted = self.labels_.shape[0]
        # Dask does not always know how many there are.
        if n_rows != fitted and fitted == fitted:
            raise ValueError(
                f"X is not the data of the fit: it has {n_rows:,} rows, but the fit had {fitted:,}"
            )

    def _refuse_other_inertia(self, inertia: float) -> None:
        if inertia != self.inertia_:
            raise ValueError(
                "X and sample_weight are not the data of the fit: with these centers their inertia "
                f"is {inertia}, but that of the fit was {self.inertia_}. Pass the data that was "
                "passed to fit; with a Pipeline, the output of its earlier steps"
            )

    def _without_names(self) -> Self:
        """Return a copy without feature names: the source has already matched them."""
        light = copy.copy(self)
        light.__dict__.pop("feature_names_in_", None)
        return light

    def _inertia_on(self, X: Any, weights: NDArray[np.float64] | None) -> float:
        """Return what the inertia of this model is on X."""
        return -self.score(X, sample_weight=weights)

    def _trim_on(self, X: Any, weights: NDArray[np.float64] | None) -> float | None:
        """Return the mass that may be left out, None where all must be clustered."""
        return None

    def _seeding(
        self, X: Any, exponent: int
    ) -> tuple[Callable[[Workspace, RandomSource], NDArray[np.floating]], int]:
        """Return a function that makes seeds, and the number of starts."""
        n_starts = self._number_of_starts()
        if isinstance(self.init, str):
            method = self.init

            def chosen(ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
                if ws.in_parts:
                    return seeds_in_parts(ws, self.n_clusters, method, random())
                return choose_seeds(ws, self.n_clusters, method, random())

            return chosen, n_starts
        if callable(self.init):
            call = self.init

            def called(ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
                given = validation.unwritable(getattr(X, "collection", X))
                return self._given(call(given, self.n_clusters, random_state=random()), X, exponent)

            return called, n_starts
        if self.n_init != "auto" and int(self.n_init) > 1:
            warn(
                "Explicit initial center position passed: performing only one init in "
                f"{type(self).__name__} instead of n_init={self.n_init}.",
                RuntimeWarning,
            )
        given = self._given(self.init, X, exponent)
        return lambda ws, random: given, 1

    def _number_of_starts(self) -> int:
        """Return the number of starts; 1 for given centers."""
        if not isinstance(self.init, str) and not callable(self.init):
            return 1
        if self.n_init != "auto":
            return int(self.n_init)
        return _DEFAULT_STARTS if callable(self.init) or self.init == "random" else 1

    def _continued_starts(self) -> int:
        """Return how many starts are run to the end."""
        return self._number_of_starts()

    def _given(self, init: Any, X: Any, exponent: int) -> NDArray[np.floating]:
        refuse_other_names(init, getattr(self, "feature_names_in_", None))
        centers = validation.validate_centers(init, self.n_clusters, X)
        validation.refuse_far_centers(centers, X, exponent)
        return centers if exponent == 0 else validation.ldexp(centers, exponent)

    def _checkpoint(
        self, X: Any, workspace: Workspace, exponent: int, **further: Any
    ) -> Checkpoint | None:
        """Return the checkpoint that the fit resumes from and writes; None without `checkpoint`."""
        if self.checkpoint is None:
            return None
        kept = Checkpoint.of(self, workspace, exponent, **further)
        if not isinstance(self.init, str) and not callable(self.init):
            kept.refuse_other_seeds(self._given(self.init, X, exponent))
        if kept.standings:
            self._tell(f"resuming from {kept.path}: {kept.progress}")
        return kept

    def _watcher(self, start: int) -> Callback | None:
        if not self.verbose:
            return self.callback
        user = self.callback

        def watch(record: Record) -> Any:
            self._tell(
                f"start {start}, iteration {record.t + 1}: inertia {record.value:.6g}, "
                f"gap {record.gap:.3g}, decrease {record.decrease:.3g}, moved {record.moved:,}, "
                f"{record.seconds:.1f} s"
            )
            return user(record) if user is not None else None

        return watch

    def _keep(self, fit: Fit, certificate: Certificate, exponent: int) -> None:
        """Set the fitted attributes, in the units of the caller's data."""
        self._scale_exponent = exponent
        self._scaled_centers = fit.centers.copy() if exponent else None
        centers = validation.ldexp(fit.centers, -exponent) if exponent else fit.centers.copy()
        self.cluster_centers_ = centers
        self.initial_centers_ = (
            validation.ldexp(fit.seeds, -exponent) if exponent else fit.seeds.copy()
        )
        self._n_features_out = len(centers)
        self.labels_ = fit.labels
        self.inertia_ = validation.unscaled(fit.inertia, exponent)
        self.n_iter_ = fit.solution.iterations + 1
        self.engine_ = certificate.engine
        self.certificate_ = certificate.in_units(-2 * exponent)
        kept = exponent == 0 or self.certificate_.unit_exponent != 0
        self.trace_ = fit.solution.trace if kept else fit.solution.trace.in_units(-2 * exponent)

    def _conclude(
        self, data: OpenedForFit, notes: tuple[str, ...], *, trimmed: bool = False
    ) -> None:
        """Warn about the fit, and postpone a better lower bound until the certificate is read."""
        certificate: Certificate = vars(self)["certificate_"]
        warn_about(certificate, inertia=self.inertia_, empty=self.empty, notes=notes)
        self.__dict__.pop("_postponed", None)
        if vars(self)["certify"] == "auto":
            postponed = postponed_bound(certificate, data, trimmed=trimmed)
            if postponed is not None:
                self._postponed = postponed

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """Cluster X and return the labels."""
        labels: NDArray[np.int32] = self.fit(X, sample_weight=sample_weight).labels_
        return labels

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Cluster X and return the distances of its points to all centers."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def _points_to_score(self, points: PartsWorkspace) -> Any:
        """Return the points to score: all of them; trimmed models keep some."""
        return points

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the index of the nearest center of each point, ties to the lowest.

        For Dask data that is a Dask array, not yet computed. The rows of a source are read once;
        where their labels do not fit into `memory_limit`, they are mapped from a temporary file.
        """
        check_is_fitted(self)
        labels: NDArray[np.int32] = dataset_for(self, X).predict()
        return labels

    def _labels_of(self, X: Any) -> NDArray[np.int32]:
        """Return the labels of points in memory."""
        workspace, centers, _ = self._opened(X, passes=1)
        return workspace.nearest(centers)[0]

    def predict_to(self, X: Any, path: str | os.PathLike[str]) -> NDArray[np.int32]:
        """Write the labels of a source to an NPY file while it is read; return them mapped.

        Parameters
        ----------
        X : source or array
            As for `fit`; it is read once.
        path : str or path
            A file that ends in .npy. It appears when all labels are in it.
        """
        check_is_fitted(self)
        return predicted_to(self, source_for(self, X), path)

    def predict_chunks(self, X: Any) -> Iterator[NDArray[np.int32]]:
        """Yield the labels of a source, chunk after chunk, while it is read.

        For labels that go elsewhere as they come; together they are what `predict` returns.

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import KMeans
        >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
        >>> km = KMeans(2, random_state=0).fit(X)
        >>> for labels in km.predict_chunks([X[:3], X[3:]]):
        ...     print(len(labels))
        4
        """
        check_is_fitted(self)
        return results_of_chunks(self, source_for(self, X), "predict")

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Return the (n_samples, n_clusters) Euclidean distances to all centers.

        For Dask data that is a Dask array, not yet computed.
        """
        check_is_fitted(self)
        distances: NDArray[np.floating] = dataset_for(self, X).transform()
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the weighted sum of squared distances to the nearest centers."""
        check_is_fitted(self)
        return dataset_for(self, X).score(sample_weight)

    def _score_of_file(self, X: Any, sample_weight: Any) -> float:
        """Return minus the inertia of a source, which is read in chunks."""
        return scored(self, X, sample_weight)

    def _score_of(self, X: Any, sample_weight: Any) -> float:
        """Return minus the inertia of points in memory."""
        workspace, centers, exponent = self._opened(X, passes=1)
        weights = validation.validate_weights(sample_weight, X)
        distances = workspace.nearest(centers)[1]
        inertia = workspace.total(distances if weights is None else weights * distances)
        return -validation.unscaled(inertia, exponent)

    def _opened(self, X: Any, passes: int = 0) -> tuple[Workspace, NDArray[np.floating], int]:
        """Open new data for the fitted centers, in a dtype and at a scale that hold both.

        With `passes`, "auto" may copy data to the GPU. For distances to all centers that does not
        pay, since they would have to be copied back.
        """
        check_is_fitted(self)
        n_threads = effective_threads(self.n_threads)
        X, sizes = validation.validate_points(self, X, reset=False, n_threads=n_threads)
        centers = self._centers_at_scale()
        if X.dtype != centers.dtype:
            X, centers = X.astype(np.float64), centers.astype(np.float64)
        exponent = validation.fitting_exponent(X, sizes, self._scale_exponent)
        if exponent != self._scale_exponent:
            centers = validation.ldexp(centers, exponent - self._scale_exponent)
        X = validation.rescale(X, exponent)
        work = Work(len(centers), n_threads, passes) if passes else None
        workspace = choose_engine(self.engine, X, work).engine.open(X, None, n_threads)
        return workspace, centers, exponent

    def _centers_at_scale(self) -> NDArray[np.floating]:
        """Return 2**scale_exponent times cluster_centers_, with the digits that denormals lost."""
        centers: NDArray[np.floating] = self.cluster_centers_
        if self._scale_exponent == 0:
            return centers
        kept: NDArray[np.floating] | None = self._scaled_centers
        if kept is not None and np.array_equal(
            validation.ldexp(kept, -self._scale_exponent), centers
        ):
            return kept
        scaled: NDArray[np.floating] = validation.ldexp(centers, self._scale_exponent)
        return scaled

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cluster_centers_")

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, and under it what was verified about the result."""
        return self._with_certificate(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_certificate(bundle["text/html"])
        return bundle

    def _with_certificate(self, diagram: str) -> str:
        return (
            diagram + hook("certificate_view")(self.certificate_)
            if hasattr(self, "certificate_")
            else diagram
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file that cannot execute code; see `wolfmeans.load`.

        The file has the certificate without the proof of its lower bound, which may be large:
        ``certificate_.proof.save(path)`` writes that to a file of its own. Pickles keep it.
        """
        check_is_fitted(self)
        saving.save(self, Path(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
