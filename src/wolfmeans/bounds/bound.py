"""What all methods share: the bound, the settings, weights, and arithmetic that rounds down."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.proof_format import Proof, ProofTree
from wolfmeans.exact.distances import UNIT as UNIT

Numbers = NDArray[np.float64]

Report = Callable[[float, str], object]
"""Called with the completed fraction and a text."""


@dataclass(frozen=True)
class LowerBound:
    """A number that no clustering's SSE can be below.

    Examples
    --------
    >>> import wolfmeans
    >>> bound = wolfmeans.lower_bound([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> bound.value, bound.kind, bound.confidence
    (1.0, 'exact', 1.0)
    """

    value: float
    """The bound."""
    kind: str
    """How it was found."""
    confidence: float
    """The probability that it holds; 1.0 for a proof."""
    seconds: float
    """What it cost."""
    proof: Proof | ProofTree | None = field(default=None, repr=False, compare=False)
    """Numbers from which `check_proof` verifies the value; semidefinite bounds have one."""
    outlook: str = field(default="", repr=False, compare=False)
    """What more time would probably bring, where the time limit ended the search."""
    better_centers: NDArray[np.floating] | None = field(default=None, repr=False, compare=False)
    """Centers of a clustering better than the given one, where the search for a bound found it."""
    better_inertia: float | None = None
    """Its SSE."""


@dataclass(frozen=True)
class Settings:
    """What the methods may use besides the data."""

    confidence: float = 0.95
    rng: Callable[[], np.random.RandomState] = np.random.RandomState
    """Called once by a method that draws."""
    n_threads: int = 1
    progress: Report | None = None
    centers: NDArray[np.floating] | None = None
    """Those of a good clustering, if one is known: `prices` and `semidefinite` start from them."""
    goal: float | None = None
    """An SSE that was reached: a bound close to it ends the search for a better one."""
    near: float = 1e-6
    """How close: the search ends when goal <= (1 + near) bound. Within 1e-6 is called optimal."""
    seconds: float = 60.0
    """Time limit of methods that improve their bound step by step."""
    steps: int | None = None
    """The most steps of such methods; None for as many as the time allows."""
    clock: Callable[[], float] = perf_counter
    """The time that counts, in seconds."""
    sizes: tuple[float, float] | None = None
    """Between what the weight of every cluster is, if that is known: `neighbours` uses it, and
    `semidefinite` where points have no weights, so that none is split."""
    on_gpu: bool = False
    """Whether `semidefinite` computes on a GPU, with PyTorch."""
    named: bool = False
    """Whether a method was asked for by its name, so that `subsampled` may take these seconds."""

    @property
    def enough(self) -> float:
        """The bound that ends the search."""
        return math.inf if self.goal is None else self.goal / (1.0 + self.near)


def quiet(done: float, text: str) -> None:
    """Report no progress."""


def below(*terms: float) -> float:
    """Return a number not above the sum of the terms, and at least 0.

    The sum is rounded once, so that the next number down is below it.
    """
    total = math.fsum(terms)
    return max(0.0, math.nextafter(total, -math.inf)) if math.isfinite(total) else 0.0


def times_up(a: float, b: float) -> float:
    """Return a number not below the product."""
    return math.nextafter(a * b, math.inf)


def times_down(a: float, b: float) -> float:
    """Return a number not above the product."""
    return math.nextafter(a * b, -math.inf)


def scaled_down(value: float, exponent: int) -> float:
    """Return 2**exponent value, rounded down."""
    try:
        scaled = math.ldexp(value, exponent)
    except OverflowError:
        return sys.float_info.max
    # A number that falls below the normal ones may have been rounded up, even to the first of them.
    exact = math.ldexp(scaled, -exponent) == value
    return scaled if exact else math.nextafter(scaled, 0.0)


def total_weight(n: int, weights: Numbers | None) -> float:
    """Return the sum of the weights, rounded once."""
    return float(n) if weights is None else math.fsum(weights)


def positive_points(X: Any, weights: Numbers | None) -> tuple[Any, Numbers | None]:
    """Return the points of positive weight, and the weights unless all are 1."""
    if weights is None:
        return X, None
    positive = weights > 0
    if not positive.all():
        X, weights = X[positive], weights[positive]
    return X, None if (weights == 1.0).all() else weights


def weight_left_out(total: float, mass: float | None) -> float:
    """Return the weight outside the mass that is kept, rounded up.

    Total and mass are rounded once each, so even equal ones may differ in truth.
    """
    return 0.0 if mass is None else max(0.0, total - mass) + 4.0 * UNIT * total


def heaviest_cluster(total: float, mass: float | None) -> float:
    """Return the largest weight of a cluster, rounded up: a larger one allows smaller roots."""
    return math.inf if mass is None else mass + 4.0 * UNIT * total
