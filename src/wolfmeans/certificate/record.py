"""The certificate: verified facts about a returned clustering, with a meaning for each number.

Every number is computed at the returned point, and the certificate claims no more than that.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from wolfmeans.bounds import LowerBound
from wolfmeans.bounds.bound import scaled_down
from wolfmeans.bounds.proof_format import Proof, ProofTree
from wolfmeans.certificate.improvement import Effort, Polish
from wolfmeans.certificate.optimality import Standing
from wolfmeans.certificate.wording import READINGS, aligned_rows, rows_of, verdict_of
from wolfmeans.core.hooks import hook
from wolfmeans.core.notices import warn
from wolfmeans.core.solution import Status
from wolfmeans.core.stopping import steps_until_spent

_SUMS_OF_SQUARES = (
    *("gap", "movement", "decrease", "clarke_gap", "candidate_decrease", "tol", "initial_sse"),
    *("inertia", "lower_bound", "proven_bound", "threshold", "duality_gap"),
)
# A bound may exceed the inertia by the rounding of both; if it exceeds it by more, one is wrong.
_ROUNDING = 1e-9


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was verified about a clustering.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import KMeans
    >>> X = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
    >>> certificate = KMeans(n_clusters=2, random_state=0).fit(X).certificate_
    >>> certificate.gap, certificate.inertia, certificate.local_optimality
    (0.0, 4.0, 'strict local minimum')
    """

    gap: float
    """The Frank-Wolfe gap: f(w) - inertia at the returned partition w."""
    movement: float
    """By how much moving the centers would lower the inertia after that reassignment."""
    decrease: float
    """gap + movement: by how much one more step would lower the inertia."""
    clarke_gap: float
    """The gap with empty clusters ignored; equal to the gap when there are none."""
    candidate_decrease: float | None
    """With empty clusters: the largest decrease found that using one of them guarantees."""
    tol: float
    """The absolute tolerance of the stopping rule."""
    stop: str
    """The stopping rule."""
    status: Status
    """How the run ended, as a sentence."""
    iterations: int
    """Frank-Wolfe steps."""
    extra_iterations: int
    """Further steps taken to fill empty clusters."""
    max_iterations: int | None
    """The guaranteed limit on the number of steps; None if the rule guarantees none."""
    initial_sse: float
    """f at the first partition."""
    inertia: float
    """Sum of squared distances to the nearest returned center."""
    n_clusters: int
    """K."""
    empty_clusters: int
    """Number of clusters without a point of positive weight."""
    local_optimality: str
    """The level of local optimality that was verified."""
    lower_bound: float | None = None
    """No clustering into K clusters has a lower inertia; None without a useful bound."""
    lower_bound_kind: str | None = None
    """The method that found the lower bound."""
    lower_bound_confidence: float | None = None
    """The confidence of the lower bound; 1.0 for a proof."""
    proven_bound: float = 0.0
    """The largest proven lower bound; 0 always holds."""
    proof: Proof | ProofTree | None = field(default=None, repr=False, compare=False)
    """Numbers from which `check_proof` verifies the lower bound; None if its method has none."""
    bound_seconds: float = field(default=0.0, repr=False, compare=False)
    """Seconds that `certify` has spent on lower bounds after the fit."""
    outlook: str = field(default="", repr=False, compare=False)
    """What more time of `certify` would probably bring, if that is known."""
    level: str | None = None
    """The verified level of local optimality: stationary, hartigan or swap; None below these."""
    polish: Polish | None = None
    """What polishing did; None without polishing."""
    effort: Effort | None = None
    """What the search for a better clustering did; None without a search."""
    trimmed_points: int = 0
    """Number of points of positive weight that are trimmed entirely."""
    trimmed_mass: float = 0.0
    """The trimmed weight; of a point kept in part, the trimmed part counts."""
    threshold: float | None = None
    """Largest squared distance of a kept point from its center; None when nothing is trimmed."""
    cost: str = "squared distances"
    """What inertia is a sum of."""
    size_min: float | None = None
    """The least size that clusters may have; None where sizes are not limited."""
    size_max: float | None = None
    """The largest size that clusters may have; None for no limit."""
    smallest_size: float | None = None
    """The size of the smallest cluster, where sizes are limited."""
    largest_size: float | None = None
    """The size of the largest cluster, where sizes are limited."""
    split_points: int = 0
    """Number of weighted points that are split between clusters to meet the limits."""
    duality_gap: float | None = None
    """No assignment to the returned centers within the size limits has an inertia that is lower
    by more than this; None where sizes are not limited."""
    engine: str = "reference"
    """The engine that ran."""
    unit_exponent: int = 0
    """Sums of squares are in units of 2**unit_exponent (0 unless float64 could not hold them)."""
    notes: tuple[str, ...] = ()
    """Advice about the data, and the choice of `engine="auto"` on a machine with a GPU."""
    better_centers: NDArray[np.floating] | None = field(default=None, repr=False, compare=False)
    """Centers of a clustering of lower inertia that the search for a bound found; None mostly."""

    @property
    def ratio(self) -> float | None:
        """Inertia / lower bound, an upper limit on inertia / optimum; None if unknown."""
        if self.lower_bound is None or not self.lower_bound > 0:
            return None
        return self.inertia / self.lower_bound

    @property
    def standing(self) -> Standing:
        """What the lower bound says about the distance from the optimum."""
        return Standing(self.inertia, self.lower_bound, self.lower_bound_confidence)

    def bounded_by(self, bound: LowerBound, least_decrease: float | None = None) -> Certificate:
        """Return the certificate with this lower bound, if it is better than the present one.

        A proven bound also lowers the guaranteed number of steps, provided that every step that
        does not end the run lowers the value by at least `least_decrease`. The largest of several
        bounds that hold with a confidence holds with their joint confidence.
        """
        if bound.better_centers is not None and bound.better_inertia is not None:
            better = replace(bound, better_centers=None)
            note = _better(bound.better_inertia, self.inertia)
            found = replace(self, better_centers=bound.better_centers, notes=(*self.notes, note))
            return found.bounded_by(better, least_decrease)
        if bound.value > self.inertia * (1.0 + _ROUNDING):
            return replace(self, notes=(*self.notes, _contradiction(bound)))
        value = min(bound.value, self.inertia)
        if bound.confidence == 1.0:
            return self._proven(replace(bound, value=value), least_decrease)
        confidence = bound.confidence
        if self.lower_bound_confidence is not None and self.lower_bound_confidence < 1.0:
            confidence = max(0.0, confidence + self.lower_bound_confidence - 1.0)
            if value <= (self.lower_bound or 0.0):
                return replace(self, lower_bound_confidence=confidence)
        return self._showing(replace(bound, value=value, confidence=confidence))

    def after_seconds(self, seconds: float, outlook: str = "") -> Certificate:
        """Return the certificate after so many more seconds of `certify`."""
        return replace(self, bound_seconds=self.bound_seconds + seconds, outlook=outlook)

    def _proven(self, bound: LowerBound, least_decrease: float | None) -> Certificate:
        result = self._showing(bound)
        if bound.value <= self.proven_bound:
            return result
        result = replace(result, proven_bound=bound.value)
        if self.max_iterations is None or least_decrease is None:
            return result
        steps = steps_until_spent(self.initial_sse, bound.value, least_decrease)
        return result if steps is None else replace(result, max_iterations=steps)

    def _showing(self, bound: LowerBound) -> Certificate:
        """Return the certificate with this bound, unless the present one is as good.

        Of two equal ones, the one with a proof is better.
        """
        if self.lower_bound is not None and (
            bound.value < self.lower_bound
            or (bound.value == self.lower_bound and (bound.proof is None or self.proof is not None))
        ):
            return self
        return replace(
            self,
            lower_bound=bound.value if bound.value > 0 else None,
            lower_bound_kind=bound.kind,
            lower_bound_confidence=bound.confidence,
            proof=bound.proof if bound.value > 0 else None,
        )

    @property
    def radius(self) -> float | None:
        """Largest distance of a kept point from its center; None when nothing is trimmed."""
        if self.threshold is None:
            return None
        return math.ldexp(math.sqrt(self.threshold), self.unit_exponent // 2)

    def in_units(self, exponent: int) -> Certificate:
        """Return the certificate with sums of squares multiplied by 2**exponent.

        If float64 cannot hold the large ones, or the inertia would underflow, they keep their unit
        and `unit_exponent` names it.
        """
        if exponent == 0:
            return self
        values = {name: getattr(self, name) for name in _SUMS_OF_SQUARES}
        values = {name: value for name, value in values.items() if value is not None}
        if not (_fits(max(values.values()), exponent) and _fits(self.inertia, exponent)):
            return replace(self, unit_exponent=exponent)
        scaled: dict[str, Any] = {n: math.ldexp(v, exponent) for n, v in values.items()}
        # A bound far below the inertia may be subnormal and lose digits; it is rounded down.
        for name in {"lower_bound", "proven_bound"} & values.keys():
            scaled[name] = scaled_down(values[name], exponent)
        if self.polish is not None:
            scaled["polish"] = self.polish.in_units(exponent)
        if self.effort is not None:
            scaled["effort"] = self.effort.in_units(exponent)
        return replace(self, **scaled)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, meaning) for each line."""
        return rows_of(self)

    @property
    def verdict(self) -> str:
        """The certificate in one sentence."""
        return verdict_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but arrays (the proof) as plain numbers and strings, ready for JSON."""
        plain = asdict(replace(self, proof=None, better_centers=None))
        del plain["proof"], plain["better_centers"]
        return plain | {
            "status": self.status.value,
            "status_name": self.status.name,
            "converged": self.status.converged,
            "ratio": self.ratio,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return aligned_rows("Certificate", self.rows())

    def __repr__(self) -> str:
        return f"<Certificate: {self.verdict}>"

    def _repr_html_(self) -> str:
        html: str = hook("certificate_view")(self)
        return html


def _better(inertia: float, present: float) -> str:
    return (
        f"a clustering of inertia {inertia:.6g} was found, "
        f"{100.0 * (1.0 - inertia / present):.2g} % lower; "
        "KMeans(..., init=certificate_.better_centers) starts from it"
    )


def _contradiction(bound: LowerBound) -> str:
    if bound.confidence == 1.0:
        return "the lower bound contradicts the result; please report this"
    return (
        f"a {bound.kind} bound of confidence {bound.confidence:.1%} exceeded the inertia and was "
        "dropped; a bound with a confidence below 100% can do that"
    )


def _fits(value: float, exponent: int) -> bool:
    """Whether 2**exponent value is a normal float64, or 0."""
    return value == 0 or -1021 <= math.frexp(value)[1] + exponent <= 1024


def local_optimality(status: Status, *, stationary: bool, empty: bool, tied: bool) -> str:
    """Name the level of local optimality."""
    if not stationary:
        return "rule met" if status.converged else "not stationary"
    if empty:
        return "stationary, with empty clusters"
    return "stationary, with ties" if tied else "strict local minimum"


def warn_about(
    certificate: Certificate, *, inertia: float, empty: str, notes: tuple[str, ...]
) -> None:
    """Warn about skipped starts, missing clusters, overflowing numbers and early endings."""
    n_clusters, unused = certificate.n_clusters, certificate.empty_clusters
    for note in notes if certificate.status.converged else ():
        warn(f"{note[0].upper()}{note[1:]}.", ConvergenceWarning)
    if unused and empty != "keep":
        warn(
            f"Number of distinct clusters ({n_clusters - unused}) found smaller than n_clusters "
            f"({n_clusters}). Possibly due to duplicate points in X.",
            ConvergenceWarning,
        )
    elif unused:
        warn(
            f"{unused} of {n_clusters} clusters are empty (empty='keep'); choose another value of "
            "`empty` to use them.",
            ConvergenceWarning,
        )
    vanished = inertia < sys.float_info.min and certificate.inertia > 0
    if vanished or not math.isfinite(inertia):
        warn(
            "The squared distances of X are outside the range of float64, so inertia_ is "
            f"{inertia}; certificate_ gives it in units of 2^{certificate.unit_exponent}.",
            RuntimeWarning,
        )
    if not certificate.status.converged:
        warn(
            f"Not converged: {READINGS[certificate.status]}. One more step would lower "
            f"inertia ({certificate.inertia:.6g}) by {certificate.decrease:.3g}.",
            ConvergenceWarning,
        )
