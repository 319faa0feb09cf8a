"""The points of gpu.py and its contenders: the same tensor, start and iterations for all.

Points are made on the device, with fixed seeds. Each contender has a small adapter.

An iteration is an assignment and an update of the centers. Both peers return the labels of the last
assignment with the centers of the update after it, so that their labels belong to centers that the
caller does not get. `pairs` has labels and centers that do belong together, for the checks.
Peers change the start that they are given, and get a copy. Without CUDA they cannot run.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import wolfmeans
from wolfmeans.bench.problems import Shape
from wolfmeans.core.solution import Status

DEVIATION, REACH = 2.0, 10.0  # of blobs: about their centers, and of the centers
_BLOCK = 1 << 26  # entries made at a time, so that making them needs no second copy
_SCORES = 1 << 28  # entries of a block of plain PyTorch: 1 GiB in float32


@dataclass(frozen=True)
class Problem:
    """One cell: points and the start that every contender is given."""

    data: str
    points: Any
    """(n, d) float32 tensor."""
    start: Any
    """(K, d) rows of it, drawn at random."""

    @property
    def shape(self) -> Shape:
        n, d = self.points.shape
        return Shape(n, d, len(self.start))


def blobs(shape: Shape, source: Any) -> Callable[[int], Any]:
    """Return what draws rows from K round Gaussians of equal weight."""
    uniform = torch.rand(shape.n_clusters, shape.d, generator=source, device=source.device)
    centers = REACH * (2.0 * uniform - 1.0)

    def rows(count: int) -> Any:
        of = torch.randint(shape.n_clusters, (count,), generator=source, device=source.device)
        noise = torch.randn(count, shape.d, generator=source, device=source.device)
        return noise.mul_(DEVIATION).add_(centers[of])

    return rows


def gauss(shape: Shape, source: Any) -> Callable[[int], Any]:
    """Return what draws rows from one Gaussian: no structure to find."""
    return lambda count: torch.randn(count, shape.d, generator=source, device=source.device)


MAKERS = {"blobs": blobs, "gauss": gauss}


def points_of(data: str, shape: Shape, device: str, *, pinned: bool = False) -> Any:
    """Return the (n, d) float32 points; `pinned` puts them into page-locked host memory."""
    draw = MAKERS[data](shape, torch.Generator(device=device).manual_seed(0))
    if pinned:
        points = torch.empty(shape.n, shape.d, pin_memory=torch.cuda.is_available())
    else:
        points = torch.empty(shape.n, shape.d, device=device)
    block = max(1, _BLOCK // shape.d)
    for first in range(0, shape.n, block):
        part = points[first : first + block]
        part.copy_(draw(len(part)))
    return points


def starts_of(points: Any, n_clusters: int, count: int = 1) -> list[Any]:
    """Return `count` starts, each of K different rows drawn at random."""
    source = torch.Generator(device=points.device).manual_seed(1)
    n = len(points)
    orders = (torch.randperm(n, generator=source, device=points.device) for _ in range(count))
    return [points[order[:n_clusters]].clone() for order in orders]


def problem_of(data: str, shape: Shape, device: str) -> Problem:
    points = points_of(data, shape, device)
    return Problem(data, points, starts_of(points, shape.n_clusters)[0])


# --- Contenders ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """What a contender returned."""

    labels: Any
    centers: Any
    """(K, d) tensor on the device of the points."""
    iterations: int
    assigned_by: Any = None
    """The centers that the labels were assigned by, where they are known."""
    model: Any = None


class Contender(ABC):
    """Something that runs Lloyd's iteration from a given start."""

    title = ""
    package = ""
    """Name of the distribution, as pip knows it."""

    @abstractmethod
    def run(self, points: Any, start: Any, iterations: int) -> Ended:
        """Make so many iterations from the start."""

    def pairs(self, points: Any, ended: Ended) -> list[tuple[Any, Any]]:
        """Return labels and centers that belong together; the best of several counts."""
        centers = ended.centers if ended.assigned_by is None else ended.assigned_by
        return [(ended.labels, centers)]

    def version(self) -> str:
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"


def model_of(start: Any, max_iter: int, *, engine: str = "gpu", **more: Any) -> wolfmeans.KMeans:
    """Return the estimator that makes `max_iter` iterations, or fewer to the fixpoint.

    It makes one assignment more than the peers: its labels are those of the returned centers.
    """
    settings = {"stop": "stationary", "tol": 0.0, "bound": None} | more
    return wolfmeans.KMeans(
        len(start),
        init=start,
        n_init=1,
        max_iter=max_iter,
        engine=engine,
        # As the peers do, so that all make the same iterations.
        empty="keep",
        **settings,
    )


class Wolfmeans(Contender):
    """Ours, through the public interface; the certificate's lower bound is left out."""

    title = package = "wolfmeans"

    def run(self, points: Any, start: Any, iterations: int) -> Ended:
        model = model_of(start, iterations).fit(points)
        centers = torch.from_numpy(model.cluster_centers_).to(points.device)
        return Ended(model.labels_, centers, model.n_iter_, model=model)

    def version(self) -> str:
        return wolfmeans.__version__


def at_fixpoint(ended: Ended) -> bool:
    """Whether a fit of ours ended because no label changed."""
    return ended.model is not None and ended.model.certificate_.status is Status.STATIONARY


class Peer(Contender):
    """One of the two peers; a negative tolerance turns their test for an end off."""

    def __init__(self, autotune: bool) -> None:
        self.options = {"use_heuristic": False} if autotune else {}

    def pairs(self, points: Any, ended: Ended) -> list[tuple[Any, Any]]:
        """Return what was returned, and one more iteration, which begins at known centers.

        To run one iteration less, for the centers before the last update, would be another run:
        the order of their float32 sums differs from call to call.
        """
        again = self.run(points, ended.centers, 1)
        return [(ended.labels, ended.centers), (again.labels, ended.centers)]


class FlashKMeans(Peer):
    title = package = "flash-kmeans"

    def __init__(self, autotune: bool) -> None:
        super().__init__(autotune)
        module = importlib.import_module("flash_kmeans.kmeans_triton_impl")
        self.lloyd = module.batch_kmeans_Euclid

    def run(self, points: Any, start: Any, iterations: int) -> Ended:
        labels, centers, made = self.lloyd(
            points[None],
            len(start),
            max_iters=iterations,
            tol=-1.0,
            init_centroids=start[None].clone(),
            **self.options,
        )
        return Ended(labels[0], centers[0], made)


class Flashlib(Peer):
    title = package = "flashlib"

    def __init__(self, autotune: bool) -> None:
        super().__init__(autotune)
        self.lloyd = importlib.import_module("flashlib.primitives.kmeans").flash_kmeans

    def run(self, points: Any, start: Any, iterations: int) -> Ended:
        labels, centers, made = self.lloyd(
            points,
            len(start),
            max_iters=iterations,
            tol=-1.0,
            init_centroids=start[None].clone(),
            **self.options,
        )
        return Ended(labels, centers, made)


class PlainPyTorch(Contender):
    """What one writes with PyTorch alone: a matrix product by blocks, argmin and index_add_.

    In float32 without TF32. The scores are ||c||^2 - 2 <x, c>; argmin takes the lowest index.
    """

    title, package = "PyTorch", "torch"

    def run(self, points: Any, start: Any, iterations: int) -> Ended:
        n, d = points.shape
        labels = torch.empty(n, dtype=torch.int64, device=points.device)
        block = max(1, _SCORES // len(start))
        centers = before = start
        for _ in range(iterations):
            before = centers
            norms = (centers * centers).sum(dim=1)
            for first in range(0, n, block):
                rows = points[first : first + block]
                scores = torch.addmm(norms, rows, centers.T, alpha=-2.0)
                torch.argmin(scores, dim=1, out=labels[first : first + block])
            counts = torch.bincount(labels, minlength=len(start))[:, None]
            sums = torch.zeros(len(start), d, device=points.device).index_add_(0, labels, points)
            centers = torch.where(counts > 0, sums / counts.clamp(min=1), centers)
        return Ended(labels, centers, iterations, assigned_by=before)


def contenders_of(
    titles: Sequence[str], *, device: str, autotune: bool
) -> tuple[list[Contender], list[str]]:
    """Return those that can be run here, and the names of those that cannot, with the reason."""
    torch.set_float32_matmul_precision("highest")
    found: list[Contender] = [Wolfmeans()]
    missing = []
    for kind in (Flashlib, FlashKMeans):
        if kind.title not in titles:
            continue
        if device == "cpu":
            missing.append(f"{kind.title} (runs on CUDA alone)")
            continue
        try:
            found.append(kind(autotune))
        except Exception as error:  # whatever a library's import may raise
            missing.append(f"{kind.title} ({error!r}; pip install {kind.package})")
    if PlainPyTorch.title in titles:
        found.append(PlainPyTorch())
    return found, missing
