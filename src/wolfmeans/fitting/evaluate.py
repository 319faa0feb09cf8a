"""Evaluation of any clustering, given only its labels.

Computed at the means of the clusters: the inertia, the Frank-Wolfe gap (how much reassigning points
to closer means would lower it), whether moving a single point would lower it, and how far it is
from the optimum. Points without a cluster stay outside, and the lower bound is one for clusterings
that may trim the same weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from wolfmeans.bounds import LowerBound
from wolfmeans.certificate.optimality import Standing, rounded_down
from wolfmeans.certificate.wording import aligned_rows
from wolfmeans.core.hooks import hook
from wolfmeans.core.workspace import Centers, Distances, Labels
from wolfmeans.engines import Workspace, effective_threads, get_engine
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.tensors import on_host
from wolfmeans.exact.native import aligned
from wolfmeans.fitting.lower_bound import lower_bound
from wolfmeans.inputs import validation

# One pass over all points, and no long search: it only has to find out whether one move gains. The
# clock is read while rows are tried. The rows to try are found first, in one call without a clock.
_SECONDS_FOR_MOVES = 2.0
_ROUNDING = 1e-9
# Validation uses the name of this class in its messages.
_ASKER = type("judge", (BaseEstimator,), {})


@dataclass(frozen=True, repr=False)
class Judgement:
    """What was verified about a clustering."""

    n_clusters: int
    """K: the number of labels in use."""
    n_points: int
    """Number of points in clusters."""
    left_out: int
    """Number of points without a cluster."""
    sse: float
    """The inertia: sum of squared distances to the means of the clusters."""
    gap: float
    """The Frank-Wolfe gap: how much reassigning points would lower inertia, with fixed means."""
    misplaced: int
    """Number of points of positive weight that are closer to another mean."""
    single_moves: int
    """Number of single moves that lowered inertia in one pass over the points."""
    single_moves_gain: float
    """By how much these moves lowered inertia, the means updated with each move."""
    moves_looked_at: bool
    """Whether that pass checked all points within its time limit."""
    tied: bool
    """Whether the pass found a single move that changes inertia only by rounding."""
    lower_bound: float | None
    """No clustering into K clusters has a lower inertia; None if no bound is known."""
    lower_bound_kind: str | None
    """The method that found the lower bound."""
    lower_bound_confidence: float | None
    """The confidence of the lower bound; 1.0 for a proof."""
    better_inertia: float | None = None
    """The inertia of a better clustering, if the search for a lower bound met one."""
    better_centers: NDArray[np.floating] | None = field(default=None, repr=False, compare=False)
    """The centers of that clustering: ``KMeans(n_clusters, init=better_centers)`` begins there."""

    @property
    def level(self) -> str | None:
        """The verified level of local optimality: None, stationary or hartigan."""
        if self.misplaced:
            return None
        return "hartigan" if self.moves_looked_at and not self.single_moves else "stationary"

    @property
    def ratio(self) -> float | None:
        """Inertia / lower bound; None if no bound is known."""
        if self.sse == 0:
            return 1.0
        return None if not self.lower_bound else max(1.0, self.sse / self.lower_bound)

    @property
    def standing(self) -> Standing:
        """What the lower bound says about the distance from the optimum."""
        return Standing(self.sse, self.lower_bound, self.lower_bound_confidence)

    @property
    def verdict(self) -> str:
        """The evaluation in one sentence."""
        if self.sse == 0:
            return (
                "Every point coincides with the mean of its cluster: no clustering can be better."
            )
        if self.misplaced:
            head = f"{_points(self.misplaced)} closer to another cluster's mean"
        elif self.single_moves:
            head = "No point is closer to another mean, but moving single points lowers inertia"
        elif self.moves_looked_at:
            head = "No step of Lloyd's algorithm and no single move can improve it"
        else:
            head = "No point is closer to another mean"
        return f"{head}; {self.standing.sentence}."

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, meaning) for each line."""
        rows = [
            ("clusters", str(self.n_clusters), f"with {self.n_points:,} points"),
            ("inertia", f"{self.sse:.6g}", "sum of squared distances to the cluster means"),
            ("gap", f"{self.gap:.3g}", self._gap_reading()),
            ("single moves", self._moves_value(), self._moves_reading()),
            self._global_row(),
        ]
        if self.left_out:
            reading = "points without a cluster; the lower bound allows trimming the same weight"
            rows.insert(1, ("left out", f"{self.left_out:,}", reading))
        if self.better_inertia is not None:
            percent = 100.0 * (1.0 - self.better_inertia / self.sse)
            reading = f"{percent:.2g} % lower: the inertia of a better clustering that was found"
            rows.append(("better", f"{self.better_inertia:.6g}", reading))
        return rows

    def _gap_reading(self) -> str:
        if not self.misplaced:
            return "no point is closer to another mean than to its own"
        share = self.gap / self.sse if self.sse > 0 else 0.0
        return (
            f"{_points(self.misplaced)} closer to another mean; reassigning lowers inertia by "
            f"{share:.2g} of its value, and updating the means lowers it further"
        )

    def _moves_value(self) -> str:
        if self.single_moves:
            return f"{self.single_moves:,}"
        return "none" if self.moves_looked_at else "unknown"

    def _moves_reading(self) -> str:
        if self.single_moves:
            share = self.single_moves_gain / self.sse if self.sse > 0 else 0.0
            gain = (
                f"moving single points one by one would lower inertia by {share:.2g} of its value"
            )
            return gain if self.moves_looked_at else f"{gain} or more: not all points were checked"
        if not self.moves_looked_at:
            return "time ran out before all points were checked"
        tied = ", but some move would leave it unchanged" if self.tied else ""
        return f"moving any single point to another cluster does not lower inertia{tied}"

    def _global_row(self) -> tuple[str, str, str]:
        standing = self.standing
        if self.sse == 0 or self.lower_bound is None or not standing.useful:
            return ("global", standing.brief, standing.meaning)
        reading = (
            f"{standing.meaning}: no clustering into {self.n_clusters} clusters has inertia below "
            f"{rounded_down(self.lower_bound, 6)} ({self.lower_bound_kind} bound)"
        )
        return ("global", standing.brief, reading)

    def __str__(self) -> str:
        return aligned_rows("Judgement", self.rows())

    def __repr__(self) -> str:
        return f"<Judgement: {self.verdict}>"

    def _repr_html_(self) -> str:
        html: str = hook("judgement_view")(self)
        return html

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        plain = asdict(replace(self, better_centers=None))
        del plain["better_centers"]
        return {
            **plain,
            "level": self.level,
            "ratio": self.ratio,
            "verdict": self.verdict,
        }


def _points(many: int) -> str:
    return "1 point is" if many == 1 else f"{many:,} points are"


def judge(
    X: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    outlier: Any = -1,
    method: str | None = "auto",
    confidence: float = 0.95,
    random_state: Any = None,
    n_threads: int | None = None,
    progress: Callable[[float, str], Any] | None = None,
) -> Judgement:
    """Evaluate a clustering from any source, for example labels from scikit-learn.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points.
    labels : array-like of shape (n_samples,)
        The cluster of each point; numbers or strings.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the points.
    outlier : default=-1
        The label of points without a cluster.
    method : str or None, default="auto"
        The method of `lower_bound`; None computes no lower bound.
    confidence : float, default=0.95
        Confidence of bounds from random subsamples.
    random_state : int, RandomState or None, default=None
        Seed of the subsamples.
    n_threads : int or None, default=None
        Number of threads; None uses all cores this process may use.
    progress : callable or None, default=None
        Called with the completed fraction and a text; None shows a bar on a terminal and in a
        notebook.

    Returns
    -------
    Judgement
        The numbers. It prints as a table; `verdict` is one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import judge
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> good, bad = judge(X, ["a", "a", "b", "b"]), judge(X, ["a", "b", "b", "b"])
    >>> good.sse, good.level, good.ratio
    (1.0, 'hartigan', 1.0)
    >>> bad.misplaced, bad.level
    (1, None)
    >>> print(good.verdict)
    No step of Lloyd's algorithm and no single move can improve it; it is proven to be optimal (to \
a relative 1e-6).
    """
    threads = effective_threads(n_threads)
    X, sizes = validation.validate_points(_ASKER(), X, reset=True, n_threads=threads)
    weights = validation.validate_weights(sample_weight, X)
    kept, numbers, _ = numbered_labels(labels, X.shape[0], outlier)
    exponent = validation.scale_exponent(X, sizes, weights)
    kept_weights = None if weights is None else weights[kept]
    found = _Found(validation.rescale(X, exponent)[kept], kept_weights, numbers, threads)
    unit = {
        name: validation.unscaled(getattr(found, name), exponent)
        for name in ("sse", "gap", "single_moves_gain")
    }
    bound: LowerBound | None = None
    if method is not None and unit["sse"] > 0:
        out = float((~kept).sum() if weights is None else weights[~kept].sum())
        answer = lower_bound(
            X,
            found.n_clusters,
            sample_weight=weights,
            trim=out or None,
            method=method,
            confidence=confidence,
            random_state=random_state,
            n_threads=n_threads,
            centers=validation.ldexp(found.centers, -exponent),
            progress=progress,
        )
        if answer.value > unit["sse"] * (1.0 + _ROUNDING):
            raise RuntimeError("the lower bound contradicts the clustering; please report this")
        if answer.value > 0:
            bound = replace(answer, value=min(answer.value, unit["sse"]))
    return Judgement(
        n_clusters=found.n_clusters,
        n_points=int(kept.sum()),
        left_out=int((~kept).sum()),
        misplaced=found.misplaced,
        single_moves=found.search.moves,
        moves_looked_at=found.looked,
        tied=found.search.tied,
        lower_bound=None if bound is None else bound.value,
        lower_bound_kind=None if bound is None else bound.kind,
        lower_bound_confidence=None if bound is None else bound.confidence,
        better_inertia=None if bound is None else bound.better_inertia,
        better_centers=None if bound is None else bound.better_centers,
        **unit,
    )


def numbered_labels(
    labels: Any, n_points: int, outlier: Any
) -> tuple[NDArray[np.bool_], NDArray[np.int64], tuple[str, ...]]:
    """Return which points are in clusters, the clusters of these by number, and their labels."""
    if labels is None:
        raise ValueError("labels is None; pass the cluster of each point")
    given = np.asarray(on_host(labels))
    if given.shape != (n_points,):
        raise ValueError(
            f"labels must have one entry for each point: X has {n_points:,} rows, labels has "
            f"{given.size:,}"
        )
    may_lack = given.tolist() if given.dtype.kind in "fO" else ()
    missing = np.flatnonzero([_is_missing(label) for label in may_lack])
    if len(missing):
        raise ValueError(
            f"{len(missing):,} of the labels are missing, the first at row {missing[0]:,}; leave "
            f"these rows out, or give them the label {outlier} of points without a cluster"
        )
    if given.dtype.kind == "O":
        # Numbers and words cannot be sorted together.
        given = given.astype(str)
    kept = given.astype(str) != str(outlier)
    if not kept.any():
        raise ValueError(f"every label is {outlier}, the outlier label: no point is in a cluster")
    found, numbers = np.unique(given[kept], return_inverse=True)
    return kept, numbers, tuple(map(str, found.tolist()))


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or a missing value of pandas, whose comparisons are missing."""
    same = label == label
    return label is None or not (isinstance(same, bool | np.bool_) and same)


class _Found:
    """The numbers at the means of a partition, in the units of the points given here."""

    def __init__(
        self, X: NDArray[np.floating], weights: Distances | None, numbers: Any, n_threads: int
    ) -> None:
        labels = aligned(numbers, np.int32)
        workspace: Workspace = get_engine().open(X, weights, n_threads)
        self.n_clusters = int(labels.max()) + 1
        unused = np.zeros((self.n_clusters, X.shape[1]), dtype=workspace.dtype)
        # The search begins at the exact means of the labels; a cluster without weight has none.
        self.search: SingleMoves = workspace.single_moves(unused, labels)
        self.centers: Centers = np.array(self.search.centers)
        self._place_unused(X, weights, labels)
        own = own_distances(X, self.centers, labels, n_threads)
        nearest = workspace.nearest(self.centers)[1]
        terms = own - nearest
        if weights is not None:
            own, terms = weights * own, weights * terms
        self.sse, self.gap = workspace.total(own), workspace.total(terms)
        self.misplaced = int((terms > 0).sum())
        self.looked = _looked_at_all(self.search)
        self.single_moves_gain = float(self.search.decrease)

    def _place_unused(self, X: Any, weights: Distances | None, labels: Labels) -> None:
        """Place the center of a cluster without weight on its first point."""
        if weights is None:
            return
        totals = np.bincount(labels, weights=weights, minlength=self.n_clusters)
        for k in np.flatnonzero(totals == 0).tolist():
            self.centers[k] = X[int(np.argmax(labels == k))]


def _looked_at_all(search: SingleMoves) -> bool:
    """Make one pass over all points; return whether it was completed.

    A sweep that has only begun proves nothing. It has ended when the search returns that no move is
    left, or when moves were taken and there is time left. If finding the rows to try took all of
    the time, trying them gets as much again: otherwise nothing would be known after a long wait.
    """
    for _ in range(2):
        begun = perf_counter()
        if search.run(_SECONDS_FOR_MOVES, 1 - search.sweeps):
            return True
        if search.moves:
            return perf_counter() - begun <= _SECONDS_FOR_MOVES
    return False


def own_distances(X: Any, centers: Centers, labels: Labels, n_threads: int) -> Distances:
    """Return each point's canonical distance to the center of its label."""
    own = np.full(X.shape[0], math.nan)
    by_cluster = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=len(centers)))
    for center, rows in zip(centers, np.split(by_cluster, ends[:-1]), strict=True):
        own[rows] = get_engine().open(X[rows], None, n_threads).distances_to(center)
    return own
