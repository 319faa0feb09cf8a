"""Two versions of wolfmeans in one run: the same fits in turn, equal bits, ratios of their times.

    python benchmarks/versions.py OTHER [--cells 200000x2x100 ...] [--repeats 9] [--threads N]

OTHER is the Python of an environment in which the other version is installed. A process of each
version waits for work; fits alternate, so that a busy machine disturbs both alike. What counts are
ratios, time of the other version over time of this one. Centers, labels, inertia and numbers of
iterations must be equal.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from typing import Any

CELLS = (
    "200000x2x100", "1000000x3x256", "400000x12x96", "60000x50x150", "30000x512x300",
    "100000x32x64", "20000x128x20", "800000x6x5", "2000x10x8", "150x4x3",
)  # fmt: skip
KINDS = ("given", "default", "weighted", "trimmed", "sparse")
WORKER = """
import hashlib, json, sys, time, warnings
import numpy as np
from scipy import sparse
from wolfmeans import KMeans, TrimmedKMeans
warnings.simplefilter("ignore")
for line in sys.stdin:
    kind, n, d, k, dtype, threads = json.loads(line)
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=3.0, size=(k, d))
    X = (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(dtype)
    weights = rng.integers(1, 4, size=n) / 2.0 if kind == "weighted" else None
    settings = dict(n_threads=threads, stop="stationary", max_iter=20)
    # Older versions say certify.
    settings["bound" if "bound" in KMeans().get_params() else "certify"] = None
    if kind != "default":
        settings |= dict(init=X[:k].copy(), n_init=1)
    else:
        settings |= dict(random_state=0)
    if kind == "sparse":
        X = sparse.csr_array(np.where(np.abs(X) > np.quantile(np.abs(X), 0.9), X, 0).astype(dtype))
    made = TrimmedKMeans if kind == "trimmed" else KMeans
    model = made(k, **settings)
    begin = time.perf_counter()
    model.fit(X, sample_weight=weights)
    seconds = time.perf_counter() - begin
    found = hashlib.sha256()
    numbers = [model.inertia_, model.n_iter_]
    for part in (model.cluster_centers_, np.asarray(model.labels_), numbers):
        found.update(np.ascontiguousarray(part).tobytes())
    print(json.dumps([seconds, found.hexdigest()]), flush=True)
"""


class Version:
    """A process of one version that fits on request."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def fit(self, *work: Any) -> tuple[float, str]:
        """Return the seconds that a fit took, and a digest of its result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(work), file=self._process.stdin, flush=True)
        seconds, digest = json.loads(self._process.stdout.readline())
        return seconds, digest

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    """Print a line for each cell and the geometric mean; 1 if any result differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="the Python of the other version")
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="NxDxK")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    versions = Version(options.other), Version(sys.executable)
    ratios, differing = [], 0
    for cell in options.cells:
        shape = [int(number) for number in cell.split("x")]
        for kind in options.kinds:
            for dtype in options.dtype:
                work = (kind, *shape, dtype, options.threads)
                times: tuple[list[float], list[float]] = ([], [])
                digests = set()
                for number in range(1 + options.repeats):
                    for version, taken in zip(versions, times, strict=True):
                        seconds, digest = version.fit(*work)
                        digests.add(digest)
                        if number:  # the first fit warms up
                            taken.append(seconds)
                before, after = (statistics.median(taken) for taken in times)
                ratios.append(before / after)
                differing += len(digests) > 1
                mark = "" if len(digests) == 1 else "  RESULTS DIFFER"
                print(
                    f"{cell:>14} {kind:>8} {dtype}: {1e3 * before:9.2f} ms, {1e3 * after:9.2f} ms, "
                    f"{before / after:.3f}{mark}",
                    flush=True,
                )
    for version in versions:
        version.close()
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"{len(ratios)} cells, geometric mean {mean:.3f}, least {min(ratios):.3f}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
