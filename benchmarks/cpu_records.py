"""What each part of cpu.py finds: one record, which is a row of its table, and the targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pages import spaced

from wolfmeans.bench.problems import Shape
from wolfmeans.bench.race import Race

TARGET_EACH = 1.3
TARGET_MEAN = {"float32": 5.0, "float64": 8.0}
TARGET_SEEDING = 5.0
TARGET_DENSE = 0.8
DENSE_FROM = (64, 256)  # d and K from which on the dense pass has a target
TARGET_IMPORT = 0.2
TARGET_MEMORY = 32.0


@dataclass(frozen=True)
class Seeding:
    """Greedy k-means++ here and in scikit-learn, with the same number of local trials."""

    header: ClassVar = ("n, d, K", "data", "dtype", "trials", "ratio", "potential", "draws")

    shape: Shape
    """With fewer points than the cell has, where a time limit asked for it."""
    data: str
    dtype: str
    trials: int
    draws: int
    seconds: float
    peer_seconds: float
    potential: float
    """Mean potential of the seeds here over that of scikit-learn's; below 1 is better."""

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    def row(self) -> list[str]:
        found = [str(self.trials), f"{self.ratio:.2f}", f"{self.potential:.3f}", str(self.draws)]
        return [spaced(self.shape), self.data, self.dtype, *found]


@dataclass(frozen=True)
class Starts:
    """Several random starts of small data, each to labels that no longer change."""

    header: ClassVar = ("n, d, K", "data", "dtype", "starts", "ms", "ratio", "inertia", "repeats")

    shape: Shape
    data: str
    dtype: str
    starts: int
    repeats: int
    seconds: float
    peer_seconds: float
    best: float
    peer_best: float
    inertia: float
    """Mean inertia of the best start here over that of scikit-learn's; below 1 is better."""

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    def row(self) -> list[str]:
        found = [f"{1e3 * self.seconds:.3g}", f"{self.ratio:.2f}", f"{self.inertia:.4f}"]
        cell = [spaced(self.shape), self.data, self.dtype, str(self.starts)]
        return [*cell, *found, str(self.repeats)]


@dataclass(frozen=True)
class DensePass:
    """One pass over all points and centers, against a float32 matrix product of that shape."""

    header: ClassVar = ("n, d, K", "dtype", "through", "GFLOP/s", "sgemm GFLOP/s", "share")

    shape: Shape
    dtype: str
    through: str
    gflops: float
    sgemm_gflops: float

    @property
    def share(self) -> float:
        return self.gflops / self.sgemm_gflops

    @property
    def has_target(self) -> bool:
        return self.shape.d >= DENSE_FROM[0] and self.shape.n_clusters >= DENSE_FROM[1]

    def row(self) -> list[str]:
        rates = [f"{self.gflops:.1f}", f"{self.sgemm_gflops:.1f}", f"{self.share:.0%}"]
        return [spaced(self.shape), self.dtype, self.through, *rates]


@dataclass(frozen=True)
class Scaling:
    """Time of a fit of uniform data with one thread, over the time with more."""

    header: ClassVar = ("n, d, K", "dtype", "iterations", "threads: speed-up")

    shape: Shape
    dtype: str
    iterations: int
    speedup: dict[int, float]

    def row(self) -> list[str]:
        speedups = ", ".join(f"{t}: {ratio:.2f}" for t, ratio in self.speedup.items())
        return [spaced(self.shape), self.dtype, str(self.iterations), speedups]


@dataclass(frozen=True)
class Memory:
    """Growth of the peak of resident memory in a fit of uniform data, in bytes per point."""

    header: ClassVar = ("n, d, K", "dtype", "target", "wolfmeans", "sklearn lloyd")

    shape: Shape
    dtype: str
    extra: float
    peer_extra: float

    @property
    def allowed(self) -> float:
        """What the target allows for a point; O(K d threads) comes on top."""
        return max(TARGET_MEMORY, np.dtype(self.dtype).itemsize * self.shape.d / 4)

    def row(self) -> list[str]:
        found = [f"{value:.0f}" for value in (self.allowed, self.extra, self.peer_extra)]
        return [spaced(self.shape), self.dtype, *found]


@dataclass(frozen=True)
class StartUp:
    """Seconds of an import in a fresh process, and of the smallest fit."""

    sklearn_import: float
    added_import: float
    fit_of_100: float
    peer_fit_of_100: float

    def __str__(self) -> str:
        return (
            f"`import wolfmeans` adds {self.added_import:.2f} s to `import sklearn.cluster` "
            f"({self.sklearn_import:.2f} s; target: at most {TARGET_IMPORT:g} s more). A fit of "
            f"100 points takes {1e6 * self.fit_of_100:.0f} µs, in scikit-learn "
            f"{1e6 * self.peer_fit_of_100:.0f} µs."
        )


@dataclass
class Report:
    """Everything that was measured."""

    machine: dict[str, str]
    versions: dict[str, str]
    date: str
    selection: str
    missing: list[str]
    races: list[Race] = field(default_factory=list)
    sparse: list[Race] = field(default_factory=list)
    seeding: list[Seeding] = field(default_factory=list)
    starts: list[Starts] = field(default_factory=list)
    dense: list[DensePass] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    start_up: StartUp | None = None
