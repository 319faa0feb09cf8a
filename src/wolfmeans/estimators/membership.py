"""How clearly points belong to clusters, and which points are typical of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from wolfmeans.engines import effective_threads
from wolfmeans.engines.tensors import on_host
from wolfmeans.inputs import validation

_DISTANCES_AT_ONCE = 1 << 22


class Membership:
    """What fitted centers say about each point, beyond its label."""

    @property
    def cluster_sizes_(self) -> NDArray[np.int64]:
        """Number of points in each cluster, without weights; left-out points are not counted."""
        if "labels_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no cluster_sizes_ without labels_")
        model: Any = self
        labels = model.labels_
        if hasattr(labels, "compute"):
            labels = labels.compute()
        elif hasattr(labels, "cpu"):
            labels = labels.cpu().numpy()
        inside = np.asarray(labels)[np.asarray(labels) >= 0]
        sizes: NDArray[np.int64] = np.bincount(inside, minlength=len(model.cluster_centers_))
        return sizes

    def typical_rows(self, X: Any, n_rows: int = 1) -> NDArray[np.int64]:
        """Return the rows of X that are nearest to each center.

        Centers are means, and need not look like any point. The rows returned here are points.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points in memory, for example those of the fit.
        n_rows : int, default=1
            How many rows for each cluster.

        Returns
        -------
        ndarray of shape (n_clusters, n_rows)
            Numbers of rows of X with this label, the nearest to the center first, and of equally
            near ones the first; -1 where there are fewer.

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import KMeans
        >>> X = np.array([[0.0], [1.0], [3.0], [10.0], [14.0]])
        >>> km = KMeans(n_clusters=2, init=[[0.0], [12.0]], n_init=1).fit(X)
        >>> km.typical_rows(X, 2).tolist()
        [[1, 0], [3, 4]]
        """
        if n_rows < 1:
            raise ValueError(f"n_rows must be at least 1; got {n_rows}")
        model: Any = self
        labels = np.asarray(on_host(model.predict(X)))
        nearest = np.concatenate([block.min(axis=1) for block in self._distances(X)])
        found = np.full((len(model.cluster_centers_), n_rows), -1, dtype=np.int64)
        for k in range(len(found)):
            rows = np.flatnonzero(labels == k)
            chosen = rows[np.argsort(nearest[rows], kind="stable")[:n_rows]]
            found[k, : len(chosen)] = chosen
        return found

    def margins(self, X: Any) -> NDArray[np.float64]:
        """Return how clearly each point belongs to its cluster: 0 on a border, 1 at a center.

        The margin is (b - a) / b, where a is the distance to the nearest center and b that to the
        second nearest one. It is 1 if there is only one cluster, and 0 if a = b = 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points in memory.

        Returns
        -------
        ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import KMeans
        >>> km = KMeans(n_clusters=2, init=[[0.0], [8.0]], n_init=1).fit([[0.0], [8.0]])
        >>> km.margins([[0.0], [2.0], [4.0]]).round(2).tolist()
        [1.0, 0.67, 0.0]
        """
        found = []
        for roots in self._distances(X):
            if roots.shape[1] == 1:
                found.append(np.ones(len(roots)))
                continue
            own, other = np.partition(roots, 1, axis=1)[:, :2].T
            found.append(np.divide(other - own, other, out=np.zeros(len(own)), where=other > 0))
        return np.concatenate(found)

    def soft_labels(self, X: Any, variance: float | None = None) -> NDArray[np.float64]:
        """Return a share of each cluster in each point; shares of a point add up to 1.

        They are the posterior probabilities of a mixture of Gaussians that has the centers of the
        model, equal shares of the clusters, and one variance for all columns and clusters:
        proportional to exp(-D / (2 variance)), where D is the squared distance to a center. They
        describe K-means' own picture of the data and are no calibrated probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points in memory.
        variance : float or None, default=None
            The variance; None takes the mean of the squared distances of X to the nearest centers,
            divided by the number of columns. Pass a number to treat new points alike.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            The largest share of a row is that of the nearest center.

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import KMeans
        >>> km = KMeans(n_clusters=2, init=[[0.0], [8.0]], n_init=1).fit([[0.0], [8.0]])
        >>> km.soft_labels([[0.0], [4.0]], variance=16.0).round(2).tolist()
        [[0.88, 0.12], [0.5, 0.5]]
        """
        if variance is not None and not variance >= 0:
            raise ValueError(f"variance must be at least 0; got {variance}")
        distances = np.concatenate(list(self._distances(X)))
        # Squares of very large and very small distances would not fit into float64.
        unit = float(distances.max()) or 1.0
        squares = (distances / unit) ** 2
        n_features = self.__dict__["n_features_in_"]
        spread = float(squares.min(axis=1).mean()) / n_features
        if variance is not None:
            spread = variance / unit / unit
        squares -= squares.min(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            exponents = squares / (2.0 * spread)
        # Without variance, only the nearest centers count.
        exponents[squares == 0.0] = 0.0
        shares: NDArray[np.float64] = np.exp(-exponents)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def _distances(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the distances of points in memory to all centers, some rows at a time."""
        check_is_fitted(self)
        model: Any = self
        n_threads = effective_threads(model.n_threads)
        X, _ = validation.validate_points(model, X, reset=False, n_threads=n_threads)
        light = model._without_names().set_output(transform="default")
        step = max(1, _DISTANCES_AT_ONCE // len(model.cluster_centers_))
        for rows in gen_batches(X.shape[0], step):
            yield np.asarray(on_host(light.transform(X[rows])), dtype=np.float64)
