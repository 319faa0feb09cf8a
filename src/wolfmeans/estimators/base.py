"""What fitted centers answer: labels, distances, scores, better bounds; and how they are stored."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from wolfmeans.bounds import LowerBound, Settings
from wolfmeans.certificate.record import Certificate
from wolfmeans.core.frank_wolfe import Callback
from wolfmeans.core.hooks import hook
from wolfmeans.core.progress import progress_on_terminal
from wolfmeans.core.solution import Trace
from wolfmeans.engines import Work, Workspace, choose_engine, effective_threads
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.estimators import saving
from wolfmeans.estimators.dataset import dataset_for
from wolfmeans.estimators.membership import Membership
from wolfmeans.estimators.parameters import BriefRequests, RenamedParameters
from wolfmeans.estimators.postponed import PostponedBound
from wolfmeans.estimators.streamed import (
    predicted_to,
    results_of_chunks,
    scored,
    source_for,
)
from wolfmeans.files.source import Source
from wolfmeans.inputs import validation
from wolfmeans.inputs.memory_budget import bytes_of


class CenterEstimator(
    Membership,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    RenamedParameters,
    BriefRequests,
    BaseEstimator,
):
    """An estimator whose model is a set of centers; `kmeans.FitFromStarts` fits it."""

    _unit = 1.0
    """What a squared distance counts in the inertia."""
    _unit_rows = False
    """Whether rows are divided by their norms."""
    _parameter_constraints: dict[str, Any]
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
    labels_: NDArray[np.int32]
    inertia_: float
    n_iter_: int
    trace_: Trace
    checkpoint: str | os.PathLike[str] | None
    empty: str
    bound: str | None
    engine_: str
    _postponed: PostponedBound
    n_features_in_: int
    feature_names_in_: NDArray[Any]

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

    def _as_clustered(
        self, X: Any, sizes: validation.Sizes, weights: NDArray[np.float64] | None
    ) -> tuple[Any, validation.Sizes, NDArray[np.float64] | None]:
        """Return validated rows as they are clustered, their range, and what they weigh."""
        return X, sizes, weights

    def _rows_to_bound(self, X: Any) -> Any:
        """Return the rows that a lower bound is about."""
        return X

    def _as_read(self, source: Source) -> Source:
        """Return a source whose rows are read as they are clustered."""
        return source

    def _converted(self, bound: LowerBound) -> LowerBound:
        """Return a bound on the sum of squared errors as one on the inertia."""
        return bound

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        parameters: dict[str, Any] = super().get_params(deep)
        return parameters

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns."""
        names: NDArray[Any] = super().get_feature_names_out(input_features)
        return names

    def set_output(
        self, *, transform: Literal["default", "pandas", "polars"] | None = None
    ) -> Self:
        """Set the kind of table that `transform` returns; None leaves it as it is."""
        super().set_output(transform=transform)
        return self

    def certify(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        method: str = "auto",
        target: str | float | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
        seconds: float = 60.0,
        progress: Callable[[float, str], Any] | None = None,
    ) -> Certificate:
        """Compute a better lower bound, which may take minutes, and store it in `certificate_`.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask collection or source of shape (n_samples, n_features)
            The points that were clustered. Data in parts is bounded part by part.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            The weights that were passed to `fit`.
        method : str, default="auto"
            The method of `wolfmeans.lower_bound`; "auto" combines several.
        target : "optimal", float or None, default=None
            What is enough: 0.01 ends the search when inertia is proven to be within 1 % of the
            optimum. "optimal" is branch and bound, for up to 500 points, until the optimum is
            proven to 1e-6. If it finds a better clustering, a note says so, and
            `certificate_.better_centers` has its centers.
        confidence : float, default=0.95
            Confidence of bounds from random subsamples.
        random_state : int, RandomState or None, default=None
            Seed of the subsamples.
        seconds : float, default=60.0
            Time limit of the semidefinite bound, the strongest one, and of branch and bound; they
            may end sooner. Ctrl-C ends them and keeps the best bound that is proven so far.
        progress : callable or None, default=None
            Called with the completed fraction and a text; None shows a bar on a terminal and in
            a notebook.

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
        >>> km = KMeans(n_clusters=3, bound=None, random_state=0).fit(X)
        >>> km.certificate_.ratio is None
        True
        >>> km.certify(X).ratio < 1.01
        True
        """
        check_is_fitted(self)
        self._refuse_other_number_of_clusters()
        self.__dict__.pop("_postponed", None)  # superseded
        near = Settings.near
        if target == "optimal":
            if method not in ("auto", "branching"):
                raise ValueError(f"target='optimal' has a method of its own, not {method!r}")
            method = "branching"
        elif isinstance(target, Real) and 0.0 < target < math.inf:
            near = max(near, float(target))
        elif target is not None:
            raise ValueError(f"target must be 'optimal', a positive number or None; got {target!r}")
        with progress_on_terminal(progress) as report:
            settings = Settings(
                confidence=confidence,
                rng=lambda: check_random_state(random_state),
                n_threads=effective_threads(self.n_threads),
                progress=report,
                centers=self.cluster_centers_,
                seconds=seconds,
                near=near,
                on_gpu=self.engine_ == "gpu",
                sizes=self._size_range(),
            )
            bounds = dataset_for(self, X).lower_bounds(sample_weight, method, settings)
        return self._certified_by(bounds)

    @property
    def certificate_(self) -> Certificate:
        """What was verified about the clustering.

        A fit takes quick lower bounds only. If these say little and there are few points, a better
        one is computed when the certificate is first read or displayed, in a second or so. Until
        then the model keeps a copy of the points. Pickles, and models that other processes send
        back, do not contain it: read `certificate_` before, or call `certify(X)` later.
        """
        if "certificate_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no certificate_ before fit")
        postponed = self.__dict__.pop("_postponed", None)
        if postponed is not None:
            # The limit on the number of steps stays what it was during the fit.
            self._certified_by([postponed.bound(self)], lowers_limit=False)
        certificate: Certificate = vars(self)["certificate_"]
        return certificate

    @certificate_.setter
    def certificate_(self, certificate: Certificate) -> None:
        self.__dict__["certificate_"] = certificate

    def __getstate__(self) -> Any:
        """Return what is pickled: without the points that a postponed bound needs."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_postponed"}

    def _certified_by(self, bounds: list[LowerBound], *, lowers_limit: bool = True) -> Certificate:
        """Put lower bounds into the certificate, and return it."""
        certificate: Certificate = vars(self)["certificate_"]
        watched = lowers_limit and certificate.stop in ("decrease", "gap")
        for bound in map(self._converted, bounds):
            certificate = certificate.bounded_by(bound, certificate.tol if watched else None)
        outlook = next((bound.outlook for bound in reversed(bounds) if bound.outlook), "")
        certificate = certificate.after_seconds(sum(bound.seconds for bound in bounds), outlook)
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
        if n_rows != fitted and not math.isnan(fitted):
            raise ValueError(
                f"X is not the data of the fit: it has {n_rows:,} rows, but the fit had {fitted:,}"
            )

    def _refuse_other_inertia(self, inertia: float) -> None:
        if inertia != self.inertia_:
            raise ValueError(
                "X and sample_weight are not the data of the fit: with these centers their inertia "
                f"is {inertia}, but that of the fit was {self.inertia_}. Pass the data that was "
                "passed to fit. With a Pipeline, pass the Pipeline itself, as in "
                "wolfmeans.certify(pipe, X) and report.page(pipe, X), or pipe[:-1].transform(X)"
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

    def _size_range(self) -> tuple[float, float] | None:
        """Return between what the weight of every cluster is; None for anything."""
        return None

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
        return -self._unit * validation.unscaled(inertia, exponent)

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
        X, sizes, _ = self._as_clustered(X, sizes, None)
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
