"""Some three hundred small problems, and what a solution of each is made of.

Every problem is a function without arguments that returns its results by name. It calls the public
interface only, so that it runs on any version of the package. Exact results (labels, centers, every
number of a trace) must have the same bits everywhere. Lower bounds go through LAPACK and are
compared as numbers.
"""

import contextlib
import hashlib
import io
import itertools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from difficult import points
from everywhere import DASK, fit_at
from wolfmeans import KMeans, TrimmedKMeans, lower_bound, scan
from wolfmeans.commands import cli
from wolfmeans.fitting.evaluate import judge

CERTIFIED = (
    "gap",
    "movement",
    "decrease",
    "clarke_gap",
    "candidate_decrease",
    "tol",
    "stop",
    "iterations",
    "extra_iterations",
    "initial_sse",
    "inertia",
    "n_clusters",
    "empty_clusters",
    "local_optimality",
    "level",
    "trimmed_points",
    "trimmed_mass",
    "threshold",
    "unit_exponent",
    "status_name",
    "converged",
)
TRACED = ("t", "value", "gap", "movement", "stationary", "moved", "empty", "shift")


@dataclass(frozen=True)
class Value:
    """A number that is compared up to rounding."""

    number: float


def digest(thing):
    """Return a short digest of an array, a number, a string, or a sequence of such."""
    found = hashlib.sha256()
    _add(found, thing)
    return found.hexdigest()[:16]


def _add(found, thing):
    if isinstance(thing, np.ndarray):
        found.update(f"{thing.dtype.str}{thing.shape}".encode())
        found.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, (float, np.floating)):
        found.update(float(thing).hex().encode())
    elif isinstance(thing, (list, tuple)):
        for one in thing:
            _add(found, one)
            found.update(b",")
    else:
        found.update(repr(thing).encode())


def of_model(model):
    """Return everything that a fit says, by name."""
    # As the fit left it: a bound that is computed later depends on how BLAS rounds.
    certificate = vars(model)["certificate_"].to_dict()
    found = {
        "labels": np.asarray(model.labels_),
        "centers": np.asarray(model.cluster_centers_),
        "inertia": float(model.inertia_),
        "n_iter": int(model.n_iter_),
        "certificate": [certificate[name] for name in CERTIFIED],
        "trace": [[getattr(record, name) for name in TRACED] for record in model.trace_],
    }
    if certificate["lower_bound"] is not None:
        found["lower bound"] = Value(certificate["lower_bound"])
        found["kind of bound"] = certificate["lower_bound_kind"]
    return found


@contextlib.contextmanager
def quiet():
    """Keep commands from writing to the terminal."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


# --- Data -------------------------------------------------------------------------------------

KINDS = ("plain", "blobs", "lattice", "duplicates", "offset", "outliers", "columns apart", "huge")
SHAPES = ((120, 1, 3), (200, 2, 8), (150, 3, 5), (90, 12, 6), (70, 40, 4), (300, 5, 140))


def weights_of(kind, n):
    """Return weights of a kind for n points; None for "none"."""
    rng = np.random.default_rng(7)
    if kind == "none":
        return None
    if kind == "whole":
        return rng.integers(1, 5, size=n).astype(float)
    if kind == "some zero":
        return rng.integers(0, 3, size=n).astype(float)
    if kind == "magnitudes":
        # No power function: NumPy's differs in the last bit from one vector unit to another.
        return np.ldexp(1.0 + rng.random(n), rng.integers(-27, 27, size=n))
    return rng.random(n) + 0.1


def far_centers(X, n_clusters):
    """Return seeds most of which no point is nearest to."""
    centers = np.repeat(X[:1], n_clusters, axis=0).astype(X.dtype)
    centers[1:] += 1e3 * (1 + np.arange(n_clusters - 1, dtype=X.dtype))[:, None]
    return centers


# --- Problems ---------------------------------------------------------------------------------


def fitted(place, model, X, weights=None, rows=29):
    return lambda: of_model(fit_at(place, model(X), X, weights, rows))


def dense_problems(engine):
    for kind, (n, d, k), dtype in itertools.product(KINDS, SHAPES, ("float64", "float32")):
        if kind == "huge" and dtype == "float32":
            continue
        X = points(kind, n, d, dtype)
        yield (
            f"{kind} {n}x{d} K={k} {dtype}",
            fitted(engine, lambda X, k=k: KMeans(k, init=X[:k], n_init=1, stop="stationary"), X),
        )


def rule_problems(engine):
    X = points("blobs", 200, 3)
    rules = itertools.product(
        ("decrease", "gap", "shift", "stationary"), ("initial", "total", "absolute")
    )
    for stop, scale in rules:
        yield (
            f"stop={stop} tol_scale={scale}",
            fitted(
                engine,
                lambda X, s=stop, c=scale: KMeans(
                    9, random_state=1, stop=s, tol=1e-3, tol_scale=c, bound="spectral"
                ),
                X,
            ),
        )
    yield "tol alone", fitted(engine, lambda X: KMeans(9, random_state=1, tol=1e-2), X)
    yield "max_iter=3", fitted(engine, lambda X: KMeans(9, random_state=1, max_iter=3), X)


def seeding_problems(engine):
    for init, kind, weights in itertools.product(
        ("k-means++", "plain-k-means++", "k-means||", "random"),
        ("blobs", "duplicates", "outliers"),
        ("none", "some zero", "any"),
    ):
        X = points(kind, 150, 4)
        yield (
            f"init={init} {kind} weights={weights}",
            fitted(
                engine,
                lambda X, i=init: KMeans(7, init=i, n_init=3, random_state=2),
                X,
                weights_of(weights, len(X)),
            ),
        )


def empty_problems(engine):
    for policy, kind, weights in itertools.product(
        ("keep", "resample", "farthest", "best", "admissible"),
        ("plain", "lattice"),
        ("none", "whole"),
    ):
        X = points(kind, 80, 3)
        yield (
            f"empty={policy} {kind} weights={weights}",
            fitted(
                engine,
                lambda X, p=policy: KMeans(
                    6, init=far_centers(X, 6), n_init=1, empty=p, random_state=0
                ),
                X,
                weights_of(weights, len(X)),
            ),
        )


def trimmed_problems(engine):
    for share, kind, weights in itertools.product(
        (0.0, 0.05, 0.3), ("blobs", "lattice", "outliers"), ("none", "some zero", "magnitudes")
    ):
        X = points(kind, 130, 3)
        yield (
            f"trimmed alpha={share} {kind} weights={weights}",
            fitted(
                engine,
                lambda X, a=share: TrimmedKMeans(5, alpha=a, n_init=4, random_state=3),
                X,
                weights_of(weights, len(X)),
            ),
        )
    for init in ("trimmed-k-means++", "k-means||", "random"):
        X = points("outliers", 130, 3)
        yield (
            f"trimmed init={init}",
            fitted(
                engine,
                lambda X, i=init: TrimmedKMeans(5, trim=9, init=i, n_init=2, random_state=3),
                X,
            ),
        )


def sparse_problems(engine):
    for density, weights, kind in itertools.product(
        (0.02, 0.2, 0.9), ("none", "any"), (KMeans, TrimmedKMeans)
    ):
        rows = sparse.random(
            160, 60, density=density, format="csr", random_state=np.random.RandomState(0)
        )
        more = {"alpha": 0.1} if kind is TrimmedKMeans else {}
        yield (
            f"sparse {kind.__name__} density={density} weights={weights}",
            fitted(
                engine,
                lambda X, kind=kind, more=more: kind(
                    6, random_state=4, n_init=2, bound=None, **more
                ),
                rows,
                weights_of(weights, 160),
            ),
        )


def part_problems():
    for place, kind, weights, model in itertools.product(
        ("blocks", "stream") if DASK else ("stream",),
        ("blobs", "duplicates"),
        ("none", "some zero"),
        (
            ("given", lambda X: KMeans(5, init=X[:5], n_init=1)),
            ("k-means||", lambda X: KMeans(5, init="k-means||", random_state=5)),
            ("empty", lambda X: KMeans(5, init=far_centers(X, 5), empty="farthest")),
            ("trimmed", lambda X: TrimmedKMeans(5, alpha=0.1, init=X[:5], n_init=1)),
        ),
    ):
        X = points(kind, 170, 3)
        name, made = model
        yield (
            f"{place} {kind} weights={weights} {name}",
            fitted(place, made, X, weights_of(weights, len(X))),
        )


def polish_problems(engine):
    for polish, kind in itertools.product(("hartigan", "swap"), ("blobs", "plain", "duplicates")):
        X = points(kind, 180, 3)
        yield (
            f"polish={polish} {kind}",
            fitted(engine, lambda X, p=polish: KMeans(8, polish=p, random_state=6), X),
        )


def bound_problems():
    shapes = {"exact": (150, 1), "spectral": (150, 6), "neighbours": (150, 6), "prices": (120, 2)}
    for method, kind in itertools.product(
        (*shapes, "subsampled"), ("blobs", "plain", "duplicates")
    ):
        X = points(kind, *shapes.get(method, (3000, 4)))

        def bounded(X=X, method=method):
            return {"bound": Value(lower_bound(X, 4, method=method, random_state=0).value)}

        yield f"bound {method} {kind}", bounded
    X = points("blobs", 150, 6)
    yield (
        "bound neighbours, trimmed",
        lambda: {"bound": Value(lower_bound(X, 4, trim=9, method="neighbours").value)},
    )


def other_problems():
    X = points("blobs", 160, 3)

    def judged():
        found = judge(X, np.arange(len(X)) % 4)
        return {"sse": float(found.sse), "said": found.level}

    def scanned():
        table = scan(X, [2, 3, 4, 5], random_state=0)
        return {"inertias": [float(row.inertia) for row in table]}

    def from_files():
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.npy")
            np.save(path, X)
            found["npy"] = of_model(KMeans(4, random_state=0).fit(path))["centers"]
            text, centers = Path(folder, "x.csv"), Path(folder, "c.csv")
            np.savetxt(text, X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
            command = ["fit", str(text), "-k", "4", "--seed", "0", "--centers", str(centers)]
            with quiet():
                assert cli.main(command) == 0
            found["csv"] = centers.read_text(encoding="utf-8")
        return found

    def used():
        model = KMeans(4, random_state=0).fit(X[:100])
        return {
            "predict": model.predict(X),
            "transform": model.transform(X),
            "score": float(model.score(X)),
        }

    yield "judge", judged
    yield "scan", scanned
    yield "files", from_files
    yield "predict, transform, score", used


def study_problems():
    def studied(*options):
        def run():
            with tempfile.TemporaryDirectory() as folder:
                small = ("--n", "200", "--d", "2,5", "--k", "5,20", "-r", "20", "--no-report")
                with quiet():
                    assert cli.main(["study", "grid", *small, *options, "--out", folder]) == 0
                files = sorted(Path(folder, "scenarios").glob("*.json"))
                return {path.stem: path.read_text(encoding="utf-8") for path in files}

        return run

    for empty in ("keep", "resample", "farthest", "best", "admissible"):
        yield f"study empty={empty}", studied("--empty", empty)
    yield "study seeded by k-means++", studied("--seeding", "k-means++")
    yield "study trimmed", studied("--alpha", "0.1")


def all_problems():
    """Return all problems by name."""
    found = {}
    for engine in ("cpu", "reference"):
        groups = [rule_problems, seeding_problems, empty_problems, trimmed_problems]
        groups += [polish_problems, sparse_problems]
        if engine == "cpu":
            groups.append(dense_problems)
        for group in groups:
            found |= {f"{engine}: {name}": run for name, run in group(engine)}
    for group in (part_problems, bound_problems, other_problems, study_problems):
        found |= dict(group())
    return found


def gpu_problems():
    """Return the problems of the GPU engine: results that the CPU engine has, too."""
    groups = (dense_problems, rule_problems, seeding_problems, empty_problems, trimmed_problems)
    return {f"cpu: {name}": run for group in groups for name, run in group("gpu")}
