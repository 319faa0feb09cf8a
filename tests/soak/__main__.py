"""A soak: random problems on all engines for a given time, every invariant, and flat memory.

    python tests/soak --seconds 3600 --seed 0 --write docs/reliability.md

Faults are injected on the way (soak_faults.py): what is refused, interrupted or killed must leave
no trace in what comes after. Every problem is drawn from one number, and a failure is written down
as the smallest problem found that still fails, with the command that repeats it; then the soak goes
on. (make soak)
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from fractions import Fraction
from math import fsum
from pathlib import Path

if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import numpy as np
from samples import bits, distances, exact_mean, exact_sse
from scipy import sparse
from soak_faults import FAULTS, inject, require

import difficult
from everywhere import ALL_POINTS, IN_PARTS, fit_at
from wolfmeans import KMeans, TrimmedKMeans, __version__
from wolfmeans.bench.machine import machine
from wolfmeans.exact.native import native_is_available

BEGIN, END = "<!-- soak: begin -->", "<!-- soak: end -->"
KINDS = (
    *("plain", "blobs", "lattice", "half lattice", "duplicates", "equal", "zero", "offset"),
    *("outliers", "heavy tails", "columns apart", "small", "tiny", "huge", "denormal"),
)
UNIT = 2.0**-53
_GROWTH = 100e6
"""Bytes that a process may grow by after its first tenth: caches of libraries, no more."""


# --- problems ----------------------------------------------------------------------------------


def drawn(seed, gpu=False):
    """Return the parameters of a problem, as plain values."""
    rng = np.random.default_rng(seed)

    def one(*values):
        return values[rng.integers(len(values))]

    trimmed = rng.random() < 0.2
    kind = one(*KINDS)
    single = rng.random() < 0.5 and kind not in ("tiny", "huge", "small", "denormal")
    n = int(one(1, 2, 5, 12, 30, 60, 60, 150, 400, 1200))
    slow = gpu and rng.random() < 0.01
    n = min(n, 30) if slow else n
    return {
        "seed": seed,
        "kind": kind,
        "n": n,
        "d": int(one(1, 1, 2, 2, 3, 4, 7, 16, 33)),
        "dtype": "float32" if single else "float64",
        "weights": one(None, None, "mixed", "whole", "spread"),
        "k": int(min(n, one(1, 2, 3, 5, 8, 13, 40))),
        "trimmed": trimmed,
        "alpha": float(one(0.0, 0.05, 0.3)),
        "init": one("rows", "rows", "k-means++", "plain-k-means++", "random", "k-means||"),
        "n_init": int(one(1, 1, 1, 3)),
        "stop": one("stationary", "stationary", "decrease", "gap", "shift"),
        "tol": float(one(0.0, 1e-6, 1e-2)),
        "empty": one("farthest", "keep", "keep", "resample", "best"),
        "max_iter": int(one(2, 10, 100) if not slow else 3),
        "polish": None if trimmed or slow else one(None, None, None, "hartigan", "swap"),
        "algorithm": one("auto", "auto", "lloyd", "elkan"),
        "threads": int(one(1, 2, 3)),
        "blocks": int(one(0, 0, 1, 2, 5)),
        "gpu": bool(slow),
        "sparse": bool(rng.random() < 0.15 and not slow),
        "fault": one(None, *FAULTS) if not slow else None,
    }


def data_of(p):
    """Return X, weights and the rows that are seeds."""
    rng = np.random.default_rng([p["seed"], 1])
    X = difficult.points(p["kind"], p["n"], p["d"], p["dtype"], p["seed"] % 2**32)
    n, weights = p["n"], None
    if p["weights"] == "mixed":
        weights = rng.choice([0.0, 0.25, 1.0, 1.0 / 3.0, 1e-9, 1e7], size=n)
    elif p["weights"] == "whole":
        weights = rng.integers(0, 4, size=n).astype(float)
    elif p["weights"] == "spread":
        weights = 10.0 ** rng.uniform(-8, 8, size=n)
    if weights is not None:
        weights[rng.integers(n)] = 1.0
    if p["sparse"]:
        X[rng.random(X.shape) < 0.6] = 0
    return X, weights, X[rng.permutation(n)[: p["k"]]].copy()


def model_of(p, seeds, engine, **more):
    chosen = {
        "init": seeds if p["init"] == "rows" else p["init"],
        "n_init": 1 if p["init"] == "rows" else p["n_init"],
        "random_state": p["seed"] % 2**32,
        "engine": engine,
        **{name: p[name] for name in ("stop", "tol", "max_iter")},
        **more,
    }
    if p["trimmed"]:
        empty = p["empty"]
        return TrimmedKMeans(p["k"], alpha=p["alpha"], empty=empty, **chosen)
    chosen |= {"polish": p["polish"], "algorithm": p["algorithm"]}
    return KMeans(p["k"], empty=p["empty"], **chosen)


def fitted(p, X, weights, seeds, engine, **more):
    return model_of(p, seeds, engine, **more).fit(X, sample_weight=weights)


# --- invariants --------------------------------------------------------------------------------


def examine(p, count):
    """Fit a problem everywhere and check all there is; count what was checked."""
    X, weights, seeds = data_of(p)
    given = sparse.csr_array(X) if p["sparse"] else X
    model = fitted(p, given, weights, seeds, "reference", bound=None)
    truth = bits(model)
    kind = " (trimmed)" if p["trimmed"] else ""
    kind += " (sparse)" if p["sparse"] else ""
    count["problems on reference" + kind] += 1
    others = [("cpu", 1), ("cpu", p["threads"])] if native_is_available() else []
    if p["gpu"]:
        others.append(("gpu", 1))
    count.update(f"problems on {engine}{kind}" for engine in dict(others))
    for engine, threads in others:
        other = fitted(p, given, weights, seeds, engine, n_threads=threads, bound=None)
        require(bits(other) == truth, f"engine {engine} with {threads} threads has other bits")
        count["the same bits on another engine"] += 1
    # Data in parts does without what needs all points in one place, and says so.
    gathered = p["init"] not in ALL_POINTS and not p["polish"] and not p["sparse"]
    gathered = gathered and p["empty"] not in ("resample", "best")
    if p["blocks"] and gathered:
        for place in IN_PARTS:
            _in_parts(place, p, X, weights, seeds, model)
            count[f"problems on {place}{kind}"] += 1
            count["the same bits in parts"] += 1
    if p["fault"] is not None:
        count[f"faults: {p['fault']}"] += inject(
            p,
            lambda **more: model_of(p, seeds, "auto", bound=None, **more),
            given,
            weights,
            truth,
        )
    _own_words(p, model, given, weights, count)
    _trace(p, model, count)
    if not p["trimmed"]:
        _refit(p, model, given, weights, count)
        _bounds(p, model, given, weights, seeds, count)
        # Sparse rows have distances of their own, within the rounding of these.
        if not p["sparse"]:
            _nearest(model, X, weights, count)
        if (
            p["n"] <= 60
            and not p["sparse"]
            and p["init"] == "rows"
            and p["empty"] == "keep"
            and not p["polish"]
        ):
            _recomputed(p, model, X, weights, seeds, count)


def _in_parts(place, p, X, weights, seeds, model):
    """The same rows in the blocks of a Dask array, or as a stream of chunks."""
    rows = max(1, -(-len(X) // p["blocks"]))
    other = fit_at(place, model_of(p, seeds, "auto", bound=None), X, weights, rows)
    require(np.array_equal(other.labels_, model.labels_), f"{place} has other labels")
    same = other.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    require(same, f"{place} has other centers")
    require(other.inertia_ == model.inertia_, f"{place} has another inertia")
    if not p["trimmed"]:
        require(np.array_equal(other.trace_.gap, model.trace_.gap), f"{place} has other gaps")


def _own_words(p, model, X, weights, count):
    """What a model says is what it says again, and what is true."""
    require(model.score(X, sample_weight=weights) == -model.inertia_, "score is not -inertia_")
    count["inertia_ == -score"] += 1
    if p["trimmed"]:
        share = np.ones(X.shape[0]) if weights is None else weights
        require(((model.kept_ >= 0) & (model.kept_ <= 1)).all(), "kept_ is outside 0..1")
        inside = (model.kept_ > 0) & (share > 0)
        agree = model.predict(X)[inside] == model.labels_[inside]
        require(agree.all(), "predict is not labels_ for a kept point")
        count["predict == labels_ (kept)"] += 1
        return
    require(np.array_equal(model.predict(X), model.labels_), "predict is not labels_")
    count["predict == labels_"] += 1
    require(np.isfinite(model.cluster_centers_).all(), "centers are not finite")


def _nearest(model, X, weights, count):
    """Labels and inertia, from canonical distances and an exact sum."""
    if model.certificate_.unit_exponent:
        return
    to_all = distances(X, model.cluster_centers_)
    require(np.array_equal(to_all.argmin(axis=1), model.labels_), "labels are not the nearest")
    nearest = to_all.min(axis=1)
    terms = nearest if weights is None else weights * nearest
    require(model.inertia_ == fsum(terms.tolist()), "inertia is not the exact sum")
    count["labels and inertia recomputed"] += 1


def _slack(p, scale, steps=1):
    return 16 * UNIT * (p["d"] + 8) * (steps + 1) * scale + 1e-300


def _trace(p, model, count):
    trace = model.trace_
    if not len(trace):
        return
    slack = _slack(p, float(trace.sse[0]), len(trace))
    require((trace.gap >= 0).all(), "a gap is negative")
    require((trace.movement >= -slack).all(), "a movement is negative")
    require((np.diff(trace.sse) <= slack).all(), "the SSE has risen")
    count["descent of the trace"] += 1
    if p["empty"] == "keep" and not p["polish"]:
        ledger = trace.sse[:-1] - trace.sse[1:] - trace.decrease[:-1]
        require((np.abs(ledger) <= slack).all(), "the ledger does not balance")
        count["ledger"] += 1
    best = np.minimum.accumulate(trace.gap)
    require((best <= trace.rate_bound + slack).all(), "the rate does not hold")
    count["rate"] += 1


def _refit(p, model, X, weights, count):
    if model.certificate_.status.name != "STATIONARY" or p["polish"]:
        return
    again = KMeans(p["k"], init=model.cluster_centers_, n_init=1, stop="stationary", tol=0.0)
    again.set_params(empty="keep", bound=None).fit(X, sample_weight=weights)
    require(np.array_equal(again.labels_, model.labels_), "a refit has other labels")
    same = again.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    require(same, "a refit has other centers")
    count["refit changes nothing"] += 1


def _bounds(p, model, X, weights, seeds, count):
    if p["n"] > 150 or model.certificate_.unit_exponent:
        return
    proven = fitted(p, X, weights, seeds, "auto").certificate_.proven_bound
    rows = X.toarray() if p["sparse"] else X
    reached = exact_sse(rows, weights, model.labels_)
    require(Fraction(proven) <= reached, f"a bound {proven} is above what was reached")
    count["lower bound <= SSE"] += 1


def _recomputed(p, model, X, weights, seeds, count):
    """Lloyd's algorithm in rational arithmetic, as far as the model went."""
    certificate = model.certificate_
    if certificate.unit_exponent:
        return
    labels, centers = distances(X, seeds).argmin(axis=1), seeds.astype(X.dtype)
    for _ in range(len(model.trace_)):
        centers = centers.copy()
        for k in range(len(centers)):
            rows = labels == k if weights is None else (labels == k) & (weights > 0)
            if rows.any():
                centers[k] = exact_mean(X, weights, np.flatnonzero(rows).tolist())
        before, labels = labels, distances(X, centers).argmin(axis=1)
    require(np.array_equal(centers, model.cluster_centers_), "other centers than Lloyd's")
    require(np.array_equal(labels, model.labels_), "other labels than Lloyd's")
    to_all = distances(X, centers)
    own = np.arange(len(X))
    heavy = np.ones(len(X)) if weights is None else weights
    gap = fsum((heavy * to_all[own, before]).tolist()) - fsum(
        (heavy * to_all[own, labels]).tolist()
    )
    slack = _slack(p, certificate.initial_sse, len(model.trace_))
    require(abs(certificate.gap - gap) <= slack, "the gap is another one")
    if certificate.status.name == "STATIONARY":
        require(np.array_equal(before, labels), "called stationary, and labels change")
    if certificate.status.name == "GAP":
        require(gap <= certificate.tol + slack, "the gap is above the tolerance")
    count["gap and certificate recomputed"] += 1


# --- the run -----------------------------------------------------------------------------------


def failure_of(p):
    """Return what fails, None where nothing does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            examine(p, Counter())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def smaller(p, seconds=5.0):
    """Return a smaller problem that fails as this one does."""
    until, text = time.monotonic() + seconds, failure_of(p)
    plain = {"weights": None, "polish": None, "blocks": 0, "threads": 1, "n_init": 1, "gpu": False}
    plain |= {"sparse": False, "fault": None}
    changed = True
    while changed and time.monotonic() < until:
        changed = False
        tries = [p | {name: p[name] // 2} for name in ("n", "d", "k", "max_iter") if p[name] > 1]
        tries += [p | {name: value} for name, value in plain.items() if p[name] != value]
        for one in tries:
            one = one | {"k": min(one["k"], one["n"]), "max_iter": max(2, one["max_iter"])}
            if one != p and time.monotonic() < until and failure_of(one) == text:
                p, changed = one, True
                break
    return p


def resident():
    """Return the bytes of memory in use; 0 where nobody tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def soak(seconds, seed, folder, gpu):
    """Try problems until the time is over."""
    count, failures, memory = Counter(), [], []
    # What is imported and compiled on first use is not memory that grows.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        examine(drawn(0) | {"n": 12, "k": 2, "blocks": 2, "gpu": gpu, "max_iter": 2}, Counter())
    started, problem = time.monotonic(), 0
    while (passed := time.monotonic() - started) < seconds:
        p = drawn(seed * 10**9 + problem, gpu)
        problem += 1
        count["problems"] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                examine(p, count)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"FAILED: {text} ({Path(where.filename).name}:{where.lineno})", flush=True)
            folder.mkdir(exist_ok=True)
            path = folder / f"problem-{p['seed']}.json"
            least = p if text in failures else smaller(p)
            path.write_text(json.dumps({"failure": text} | least, indent=1))
            failures.append(text)
            print(f"  python tests/soak --repeat {path}", flush=True)
        if passed > 0.1 * seconds:
            memory.append(resident())
    return count, failures, memory, time.monotonic() - started


def table_of(count, failures, memory, seconds):
    """Return the counts as a section of a page."""
    kinds = {
        "Problems by engine": "problems on ",
        "Faults injected": "faults: ",
    }
    tables = {title: {} for title in kinds} | {"Checks that held": {}}
    for name, number in sorted(count.items()):
        title = next((title for title, start in kinds.items() if name.startswith(start)), None)
        if name != "problems":
            table = tables[title or "Checks that held"]
            table[name.removeprefix(kinds.get(title, ""))] = number
    facts = machine(3) | {
        "versions": f"wolfmeans {__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}",
        "commit": _commit(),
        "seconds": f"{seconds:,.0f}",
        "problems": f"{count['problems']:,}",
        "faults injected": f"{sum(tables['Faults injected'].values()):,}",
    }
    facts.pop("threads used", None)
    if memory:
        quarter = max(1, len(memory) // 4)
        first, last = (np.median(part) / 1e6 for part in (memory[:quarter], memory[-quarter:]))
        facts["resident memory, first and last quarter"] = f"{first:.0f} MB, {last:.0f} MB"
        if (last - first) * 1e6 > _GROWTH:
            failures.append(f"memory has grown by {last - first:.0f} MB")
    facts["failures"] = f"{len(failures):,}"
    lines = ["| what | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]
    for title, table in tables.items():
        lines += ["", f"| {title} | how many |", "|---|---:|"]
        lines += [f"| {name} | {number:,} |" for name, number in table.items()]
    if failures:
        lines += ["", "Failures:", "", *(f"- {text}" for text in sorted(set(failures)))]
    return "\n".join(lines)


def _commit():
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def written(path, text):
    """Put the table between the marks of a page, which it gets at its end where it has none."""
    page = path.read_text(encoding="utf-8") if path.exists() else "# Reliability\n"
    if BEGIN not in page:
        page = f"{page.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path, default=Path("soak-failures"))
    parser.add_argument("--write", type=Path, help="a page that has the marks")
    parser.add_argument("--repeat", type=Path, help="a problem that failed")
    parser.add_argument("--no-gpu", action="store_true")
    chosen = parser.parse_args()
    if chosen.repeat:
        p = json.loads(chosen.repeat.read_text())
        p.pop("failure", None)
        examine(p, Counter())
        print("nothing fails")
        return 0
    gpu = False
    if not chosen.no_gpu:
        try:
            import torch  # noqa: F401
            import triton  # noqa: F401

            gpu = True
        except ImportError:
            print("without the gpu engine: PyTorch and Triton cannot be imported")
    found = soak(chosen.seconds, chosen.seed, chosen.failures, gpu)
    text = table_of(*found)
    print(text)
    if chosen.write:
        written(chosen.write, text)
    return 1 if found[1] else 0


if __name__ == "__main__":
    raise SystemExit(main())
