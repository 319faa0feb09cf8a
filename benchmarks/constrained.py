"""ConstrainedKMeans beside the package k-means-constrained, in one process, on the same data.

Blobs of uneven sizes are clustered with sizes within 10 % of equal. Both run one start of their
k-means++ by the same stopping rule, tol=1e-4 of the mean variance. Checked: no size is outside the
limits; the inertia is that of the labels; the duality gap of the last assignment is next to
nothing. Times are by the clock and of the processors; on a busy machine the latter say more. The
peer is left out where it is not installed (a folder can be named with --peers).

    python benchmarks/constrained.py [--seeds 10] [--threads N] [--peers FOLDER] [--large]
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report_pages import facts

from wolfmeans import ConstrainedKMeans
from wolfmeans.bench.machine import machine
from wolfmeans.engines import effective_threads


def uneven_blobs(n: int, d: int, k: int, seed: int) -> NDArray[np.float64]:
    """Return points around k centers, some of them with several times the points of others."""
    rng = np.random.default_rng(seed)
    centers = 3.0 * rng.normal(size=(k, d))
    shares = rng.dirichlet(np.full(k, 3.0))
    return centers[rng.choice(k, size=n, p=shares)] + rng.normal(size=(n, d))


def peer_from(folder: str | None) -> Any:
    """Return the peer's class, None where it is not installed."""
    if folder is not None:
        sys.path.append(folder)
    try:
        from k_means_constrained import KMeansConstrained
    except ImportError as error:
        print(f"without k-means-constrained: {error}")
        return None
    return KMeansConstrained


def check(X: NDArray[np.float64], labels: Any, inertia: float, low: int, high: int) -> None:
    """Raise an error if sizes or inertia are not what they should be."""
    sizes = np.bincount(labels)
    assert low <= sizes.min(), f"a cluster has {sizes.min()} points, at least {low} are needed"
    assert sizes.max() <= high, f"a cluster has {sizes.max()} points, at most {high} are allowed"
    means = np.stack([X[labels == k].mean(axis=0) for k in range(len(sizes))])
    at_means = ((X - means[labels]) ** 2).sum()
    assert at_means <= inertia * (1 + 1e-9), f"{inertia} is less than the {at_means} of the means"


def timed(model: Any, X: NDArray[np.float64]) -> tuple[float, float]:
    """Fit; return the seconds by the clock and those of the processors."""
    begun, worked = perf_counter(), process_time()
    model.fit(X)
    return perf_counter() - begun, process_time() - worked


def beside_the_peer(seeds: int, threads: int | None, peer: Any) -> None:
    """Print times and inertias on (20,000, 10, 10)."""
    n, d, k = 20_000, 10, 10
    low, high = int(0.9 * n / k), int(1.1 * n / k)
    limits = {"size_min": low, "size_max": high}
    ConstrainedKMeans(k, **limits, random_state=0).fit(uneven_blobs(n, d, k, 0))
    rows = []
    for seed in range(seeds):
        X = uneven_blobs(n, d, k, seed)
        ours = ConstrainedKMeans(k, **limits, tol=1e-4, random_state=seed, n_threads=threads)
        row = [*timed(ours, X), ours.inertia_]
        check(X, ours.labels_, ours.inertia_, low, high)
        assert ours.duality_gap_ <= 1e-12 * ours.inertia_
        if peer is not None:
            other = peer(k, **limits, tol=1e-4, n_init=1, random_state=seed)
            row += [*timed(other, X), other.inertia_]
            check(X, other.labels_, other.inertia_, low, high)
        rows.append(row)
        print(f"seed {seed}: {described(row)}", flush=True)
    print(f"mean of {seeds}: {described(np.mean(rows, axis=0).tolist())}")


def described(row: list[float]) -> str:
    """Write one comparison."""
    text = f"{1e3 * row[0]:.0f} ms ({1e3 * row[1]:.0f} of processors), inertia {row[2]:.1f}"
    if len(row) == 3:
        return text
    return (
        f"{text}; peer {row[3]:.2f} s ({row[4]:.2f} of processors), inertia {row[5]:.1f}; "
        f"{row[3] / row[0]:.0f} times as fast ({row[4] / row[1]:.0f} by processors)"
    )


def many_points() -> None:
    """Print the time of (1,000,000, 16, 50)."""
    n, d, k = 1_000_000, 16, 50
    X = uneven_blobs(n, d, k, 0)
    low, high = int(0.9 * n / k), int(1.1 * n / k)
    model = ConstrainedKMeans(k, size_min=low, size_max=high, random_state=0)
    seconds, worked = timed(model, X)
    check(X, model.labels_, model.inertia_, low, high)
    print(
        f"({n:,}, {d}, {k}): {seconds:.1f} s ({worked:.1f} of processors), {model.n_iter_} "
        f"iterations, sizes {model.sizes_.min():.0f} to {model.sizes_.max():.0f}, "
        f"duality gap {model.duality_gap_:.1e}"
    )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--peers", help="folder in which k-means-constrained is installed")
    parser.add_argument("--large", action="store_true", help="only (1,000,000, 16, 50)")
    given = parser.parse_args()
    print(facts(machine(effective_threads(None))))
    if given.large:
        many_points()
    else:
        beside_the_peer(given.seeds, given.threads, peer_from(given.peers))


if __name__ == "__main__":
    main()
