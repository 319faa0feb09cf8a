"""Calls of the native module with bad arguments.

Arguments fit each other at first; then one or two are spoiled: another type, shape, order, stride
or alignment, read-only, empty, labels and rows out of range, NaN or infinity. A function must
compute or raise an exception. It must not access memory out of bounds, which sanitizers detect
(`make fuzz` uses them), nor change read-only arrays, which is checked here. Calls that were not
spoiled must succeed with the right result.
"""

import threading
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse

import wolfmeans.exact._native as native
from wolfmeans import KMeans, TrimmedKMeans

REFUSALS = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError, IndexError)
_SIZES = (0, 1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130, 300)
_WIDTHS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 70)
_CLUSTERS = (1, 1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 65)
_SCALES = (1.0, 1.0, 1.0, 1e-3, 1e6, 1e-30, 1e30)


def note(what):
    """Receive a description of each call before it is made: the process may not survive it."""


class Finding(AssertionError):  # noqa: N818 - findings are not only errors
    """Something that must not happen."""


@dataclass
class Case:
    """Sizes and numbers of one attempt, and how to make arguments of them."""

    rng: np.random.Generator
    n: int
    d: int
    k: int
    real: type
    threads: int
    scale: float

    @staticmethod
    def drawn(rng, threads=None):
        return Case(
            rng,
            int(rng.choice(_SIZES)),
            int(rng.choice(_WIDTHS)),
            int(rng.choice(_CLUSTERS)),
            np.float32 if rng.random() < 0.5 else np.float64,
            threads or int(rng.integers(1, 5)),
            float(rng.choice(_SCALES)),
        )

    @property
    def suffix(self):
        return "F32" if self.real is np.float32 else "F64"

    def reals(self, *shape, real=None):
        X = self.rng.normal(size=shape)
        if self.rng.random() < 0.4:
            X = np.rint(X)
        return (X * self.scale).astype(real or self.real)

    def points(self):
        return self.reals(self.n, self.d)

    def centers(self):
        return self.reals(self.k, self.d)

    def weights(self, n=None, positive=False):
        n = self.n if n is None else n
        some = [0.25, 1.0, 3.0, 1e-8, 1e8] + ([] if positive else [0.0, -0.0])
        found = self.rng.choice(some, size=n)
        if n:
            found[self.rng.integers(n)] = 1.0
        return found

    def maybe_weights(self, positive=False):
        return None if self.rng.random() < 0.5 else self.weights(positive=positive)

    def labels(self, n=None):
        return self.rng.integers(0, self.k, size=self.n if n is None else n, dtype=np.int32)

    def rows(self, m):
        return self.rng.integers(0, max(1, self.n), size=m if self.n else 0, dtype=np.int64)


def out(*shape, real=np.float64):
    return np.full(shape, 7, dtype=real)


# --- spoiling ----------------------------------------------------------------------------------


def _misaligned(a, rng):
    if a.dtype == object:
        return a
    memory = np.zeros(a.nbytes + a.itemsize, dtype=np.uint8)
    view = np.frombuffer(memory.data, dtype=np.uint8, count=a.nbytes, offset=1).view(a.dtype)
    view = view.reshape(a.shape)
    view[...] = a
    return view


def _read_only(a, rng):
    a = a.copy()
    a.flags.writeable = False
    return a


def _strange_numbers(a, rng):
    a = a.copy()
    if a.size and a.dtype.kind == "f":
        strange = [np.nan, np.inf, -np.inf, np.finfo(a.dtype).max, np.finfo(a.dtype).tiny / 8]
        a.flat[rng.integers(a.size)] = rng.choice(strange)
    elif a.size and a.dtype.kind in "iu":
        info = np.iinfo(a.dtype)
        wrong = [info.min, info.max, max(info.min, -1), a.size, 2**20]
        a.flat[rng.integers(a.size)] = wrong[rng.integers(len(wrong))]
    return a


def _other_length(a, rng):
    axis = int(rng.integers(a.ndim)) if a.ndim else 0
    if not a.ndim:
        return a
    if rng.random() < 0.5 and a.shape[axis]:
        return np.ascontiguousarray(np.take(a, range(a.shape[axis] - 1), axis=axis))
    return np.ascontiguousarray(np.concatenate([a, np.take(a, range(min(1, len(a))), axis=0)]))


def _other_type(a, rng):
    kind = rng.choice(["f4", "f8", "i4", "i8", "u8", "f2", "?"])
    # Negative objects have no unsigned form: NumPy would refuse them here, before the native call.
    return a if a.dtype == object else a.astype(kind)


ARRAYS = {
    "misaligned": _misaligned,
    "read-only": _read_only,
    "strange numbers": _strange_numbers,
    "numbers out of range": _strange_numbers,
    "another length": _other_length,
    "Fortran order": lambda a, rng: np.asfortranarray(a),
    "a stride": lambda a, rng: np.repeat(a, 2, axis=0)[::2] if a.ndim else a,
    "backwards": lambda a, rng: a[::-1] if a.ndim else a,
    "a stride of 0": lambda a, rng: np.broadcast_to(a[:1], a.shape) if a.ndim and len(a) else a,
    "bytes swapped": lambda a, rng: a.astype(a.dtype.newbyteorder()),
    "another type": _other_type,
    "objects": lambda a, rng: a.astype(object),
    "no size": lambda a, rng: np.zeros((0,) * a.ndim, dtype=a.dtype),
    "an axis of no size": lambda a, rng: np.zeros((*a.shape[:-1], 0), dtype=a.dtype),
    "another axis": lambda a, rng: a[None],
    "one axis": lambda a, rng: a.ravel(),
    "no axis": lambda a, rng: np.array(1, dtype=a.dtype),
    "None": lambda a, rng: None,
    "a list": lambda a, rng: a.tolist(),
}
_WHOLE = (0, -1, 1, 2, 64, -(2**31), 2**31, 2**63, 1.5, None, "1")
_REAL = (0.0, -0.0, -1.0, 1e308, 5e-324, np.nan, np.inf, -np.inf, None, "x")


@dataclass(frozen=True)
class Fixed:
    """An argument that is never spoiled: a wrong one would run forever or take all memory."""

    value: object


def _spoiled(value, rng):
    if isinstance(value, np.ndarray):
        how = list(ARRAYS)[rng.integers(len(ARRAYS))]
        with np.errstate(all="ignore"):
            return ARRAYS[how](value, rng), how
    if isinstance(value, str):
        return "none such", "another word"
    if value is None:
        return np.ones(int(rng.integers(0, 9))), "something for None"
    values = _REAL if isinstance(value, float) else _WHOLE
    other = values[rng.integers(len(values))]
    return other, f"{other!r} for a number"


def _called(function, arguments, rng, spoil):
    """Call with arguments, some of them spoiled; return (the result, whether it was refused)."""
    given = list(arguments)
    how = []
    if spoil:
        for _ in range(int(rng.integers(1, 3))):
            able = [j for j, value in enumerate(given) if not isinstance(value, Fixed)]
            if able:
                j = able[rng.integers(len(able))]
                given[j], kind = _spoiled(given[j], rng)
                how.append((j, kind))
    name = getattr(function, "__name__", str(function))
    given = [value.value if isinstance(value, Fixed) else value for value in given]
    read_only = [
        (value, value.tobytes())
        for value in given
        if isinstance(value, np.ndarray) and not value.flags.writeable and value.dtype != object
    ]
    spoils = ", ".join(f"{j}: {kind}" for j, kind in how)
    what = f"{name}({spoils or 'as it should be'})"
    note(what)
    try:
        found = function(*given)
    except REFUSALS as error:
        if not spoil:
            raise Finding(f"{what} was refused: {error!r}") from error
        return None, True
    for value, before in read_only:
        if value.tobytes() != before:
            raise Finding(f"{what} has changed an array that is read-only")
    return found, False


# --- functions ---------------------------------------------------------------------------------


def _settle(c):
    d, g = max(1, c.d), c.k
    X, places = c.reals(c.n, d, real=np.float64), c.reals(g, d, real=np.float64)
    X, places = X[np.argsort(X[:, 0])], places[np.argsort(places[:, 0])]
    n = c.n
    return [
        *(X, c.weights(positive=True), np.abs(c.reals(n, real=np.float64)), places),
        *(float(c.k), 0.0, 1e6, np.abs(c.reals(n, real=np.float64)), np.ones(g) / g),
        *(out(n), out(g), Fixed(3), 0.5, c.threads),
    ]


def _priced(c):
    d = max(1, c.d)
    X = c.reals(c.n, d, real=np.float64)
    return X[np.argsort(X[:, 0])], c.weights(positive=True), np.abs(c.reals(c.n, real=np.float64))


def _climb(c):
    c.n = max(1, c.n)
    X, weights, prices = _priced(c)
    return [X, weights, prices, c.reals(c.k, X.shape[1], real=np.float64), Fixed(3), out(c.k), 2]


def _hashes(c):
    return c.rng.integers(2**63, size=c.n, dtype=np.int64).astype(np.uint64) * np.uint64(2)


def _plus_plus(c):
    c.n = max(1, c.n)
    X = c.points()
    order = np.zeros(c.n, dtype=np.int64)
    native.lexicographic_order(X, order)
    trials = int(c.rng.integers(1, 4))
    draws = c.rng.integers(0, 2**63 - 1, size=1 + (c.k - 1) * trials, dtype=np.int64)
    rows = out(c.k, real=np.int64)
    return [X, c.maybe_weights(), order, draws, trials, rows, c.threads]


def _round_moments(c):
    limbs = c.rng.integers(-(2**40), 2**40, size=(c.k, 4, c.d), dtype=np.int64)
    totals = np.zeros((c.k, 3, 1), dtype=np.int64)
    totals[:, 0] = c.rng.integers(0, 2**20, size=(c.k, 1))
    clusters = c.rng.integers(0, c.k, size=3, dtype=np.int64)
    return [
        *(limbs, Fixed(-60), 32, totals, Fixed(-10), 32, np.unique(clusters), out(c.k)),
        *(out(c.k, c.d, real=c.real), out(c.k, c.d), c.threads),
    ]


def _run_to_rest(c):
    n, runs = max(1, c.n), int(c.rng.integers(0, 3))
    c.n = n
    X = c.reals(max(1, runs), n, c.d, real=np.float64)
    seeds = c.rng.integers(0, n, size=(max(1, runs), c.k), dtype=np.int64)
    return [X, seeds, 5, str(c.rng.choice(["auto", "dense", "bounds", "tree"]))]


def _lambdas(c):
    return np.sort(c.rng.uniform(0.1, 1.0, size=int(c.rng.integers(1, 4))))


def _distance_roots(c):
    lambdas, m, n = _lambdas(c), c.k, max(1, c.n)
    distances = np.abs(c.reals(m, n, real=np.float64))
    distances[:, 0] = 0.0
    weights = None if c.rng.random() < 0.5 else c.weights(n, positive=True)
    return [distances, weights, lambdas, 1e9, 1.0, out(m, len(lambdas)), c.threads]


def _exact_terms(c):
    return [c.reals(c.n, real=np.float64)]


FUNCTIONS = {
    "assign": lambda c: [
        *(c.points(), c.centers(), out(c.n, real=np.int32), out(c.n), c.threads),
    ],
    "second_nearest": lambda c: [
        *(c.points(), c.centers(), out(c.n, real=np.int32), out(c.n), out(c.n), c.threads),
    ],
    "distances": lambda c: [c.points(), c.centers(), c.labels(), out(c.n), c.threads],
    "cost": lambda c: [c.points(), c.maybe_weights(), c.centers(), c.labels(), c.threads],
    "exact_cost": lambda c: [c.points(), c.maybe_weights(), c.centers(), c.labels(), c.threads],
    "exact_terms": _exact_terms,
    "roots": lambda c: [c.points(), c.centers(), out(c.n, c.k, real=c.real), c.threads],
    "value_range": lambda c: [c.points(), c.threads],
    "exponent_range": lambda c: [c.points(), c.threads],
    "digest": lambda c: [c.points()],
    "row_hashes": lambda c: [c.points(), out(c.n, real=np.uint64), c.threads],
    "lexicographic_order": lambda c: [c.points(), out(c.n, real=np.int64), c.threads],
    "rows_below": lambda c: [
        *(_hashes(c), int(c.rng.integers(2**63)), c.reals(8, real=np.float64)),
        *(out(c.n, real=np.int64), c.threads),
    ],
    "bucket_masses": lambda c: [
        *(_hashes(c), c.rng.uniform(size=c.n), c.maybe_weights(), 30, out(8, real=np.int64)),
        c.threads,
    ],
    "kmeans_plus_plus": _plus_plus,
    "center_step": lambda c: [
        *(c.centers(), c.centers(), c.reals(c.k, c.d, real=np.float64) * 1e-20),
        *(c.weights(c.k), c.threads),
    ],
    "turn": lambda c: [
        *(c.centers(), c.weights(c.k), c.centers()),
        *(c.reals(c.k, c.d, real=np.float64) * 1e-20, c.threads),
    ],
    "unit_rows": lambda c: [c.points(), None, out(c.n, c.d, real=c.real), c.threads],
    "weighted_sum": lambda c: [c.maybe_weights(), c.reals(c.n, real=np.float64), c.threads],
    "find_threshold": lambda c: [
        *(np.abs(c.reals(max(1, c.n), real=np.float64)), None, 1.0),
    ],
    "one_dimensional": lambda c: [
        *(np.sort(c.reals(max(1, c.n), real=np.float64)), None, c.k),
        np.zeros(c.k, dtype=np.int64),
    ],
    "roots_of_distances": _distance_roots,
    "ceiling": lambda c: [*_priced(c), Fixed(0.0), 1e-2, Fixed(2e4), c.threads],
    "settle": _settle,
    "climb": _climb,
    "run_to_rest": _run_to_rest,
    "scatter": lambda c: [c.reals(max(1, c.n), c.d, real=np.float64)],
    "round_moments": _round_moments,
}


def _canonical(X, centers):
    X, centers = X.astype(np.float64), centers.astype(np.float64)
    total = np.zeros((len(X), len(centers)))
    for j in range(X.shape[1]):
        difference = X[:, j, None] - centers[None, :, j]
        total += difference * difference
    return total


def try_function(name, rng, threads=None):
    """One call of a function, spoiled or checked."""
    case = Case.drawn(rng, threads)
    arguments = FUNCTIONS[name](case)
    spoil = rng.random() < 0.7
    found, _ = _called(getattr(native, name), arguments, rng, spoil)
    if name in ("assign", "second_nearest") and not spoil:
        truth = _canonical(arguments[0], arguments[1])
        if not (arguments[2] == truth.argmin(axis=1)).all():
            raise Finding(f"{name}: other labels than the nearest")
        if case.n and not (arguments[3] == truth.min(axis=1)).all():
            raise Finding(f"{name}: other distances than the canonical ones")
    if name == "value_range" and not spoil:
        sizes = np.abs(arguments[0][arguments[0] != 0], dtype=np.float64)
        truth = (sizes.min(), sizes.max()) if sizes.size else (0.0, 0.0)
        if found != (True, *truth):
            raise Finding(f"{name}: {found} instead of {truth}")


# --- objects -----------------------------------------------------------------------------------


def _forced(c, first):
    if c.rng.random() < 0.7:
        return [None, None]
    m = int(c.rng.integers(0, 4)) if c.n else 0
    return [c.rows(m), c.labels(m)]


def _sparse(c):
    counts = c.rng.integers(0, c.d + 1, size=c.n)
    columns = [np.sort(c.rng.choice(c.d, size=count, replace=False)) for count in counts]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = np.concatenate([*columns, []]).astype(np.int32)
    return [c.reals(len(columns)), columns, starts, Fixed(c.d), c.threads]


def _points_arguments(c):
    algorithm = str(c.rng.choice(["auto", "dense", "bounds", "tree"]))
    return [c.points(), c.maybe_weights(), c.threads, algorithm]


def _single_moves(c):
    c.n = max(1, c.n)
    return [c.points(), c.maybe_weights(), c.labels(), c.centers(), c.threads]


def _at_least_one(c):
    c.n = max(1, c.n)
    return [c.points(), c.maybe_weights(), c.threads]


def _trimmed(c):
    c.n = max(1, c.n)
    weights = c.maybe_weights()
    mass = float(c.n) if weights is None else float(weights.sum())
    mass = max(1.0, mass * c.rng.uniform(0.3, 1.0)) if weights is None else mass * 0.7
    return [c.points(), weights, mass, c.threads]


def _trimmed_step(c):
    return [c.centers(), out(c.k), out(c.k, c.d, real=c.real), out(c.k, c.d)]


def _moves(c):
    m = int(c.rng.integers(0, 5)) if c.n else 0
    rows = c.rng.permutation(c.n)[:m].astype(np.int64)
    return [rows, c.labels(len(rows)), c.labels(len(rows))]


def _neighbour_roots(c):
    lambdas = _lambdas(c)
    rows = c.rows(int(c.rng.integers(0, 6)))
    return [rows, lambdas, 1e9, 1.0, out(len(rows), len(lambdas)), c.threads]


NONE = list
OBJECTS = {
    "Points": (
        _points_arguments,
        {
            "assign": lambda c: [c.centers(), *_forced(c, True)],
            "assign_exactly": lambda c: [c.centers(), *_forced(c, True)],
            "near_ties": lambda c: [c.centers(), 1e-9],
            "labels": lambda c: [],
            "detach_rows": lambda c: [],
            "attach_rows": lambda c: [c.points(), c.maybe_weights()],
        },
    ),
    "Moments": (
        lambda c: [c.points(), c.maybe_weights(), c.k, c.threads],
        {
            "add_all": lambda c: [c.labels()],
            "move": _moves,
            "means": lambda c: [c.centers()],
        },
    ),
    "SparseRows": (
        _sparse,
        {
            "nearest": lambda c: [c.centers(), out(c.n, real=np.int32), out(c.n), None, c.threads],
            "distances": lambda c: [c.centers(), c.labels(), out(c.n), c.threads],
            "hashes": lambda c: [out(c.n, real=np.uint64), c.threads],
        },
    ),
    "SingleMoves": (
        _single_moves,
        {
            "run": lambda c: [Fixed(0.05), Fixed(2)],
            "labels": None,
            "centers": None,
            "moves": None,
            "decrease": None,
            "tied": None,
        },
    ),
    "Swaps": (
        _at_least_one,
        {
            "look": lambda c: [c.centers()],
            "changes": lambda c: [c.rows(3)],
            "labels": None,
            "nearest": None,
            "second": None,
            "cost": None,
        },
    ),
    "TrimmedPoints": (
        _trimmed,
        {
            "assign": _trimmed_step,
            "labels": lambda c: [out(c.n, real=np.int32)],
            "nearest_labels": lambda c: [out(c.n, real=np.int32)],
            "kept": lambda c: [out(c.n)],
            "threshold": lambda c: [],
        },
    ),
}


def _opened(name, case, rng, spoil):
    make, methods = OBJECTS[name]
    found, refused = _called(getattr(native, name + case.suffix), make(case), rng, spoil)
    return (None if refused else found), methods


def try_object(name, rng, threads=None):
    """Make an object and call its methods in any order, spoiled or not."""
    case = Case.drawn(rng, threads)
    one, methods = _opened(name, case, rng, rng.random() < 0.3)
    for _ in range(int(rng.integers(1, 7))):
        if one is None:
            return
        method = list(methods)[rng.integers(len(methods))]
        if methods[method] is None:
            getattr(one, method)
            continue
        try:
            # Calls in the wrong order may be refused as well.
            _called(getattr(one, method), methods[method](case), rng, rng.random() < 0.4)
        except Finding as found:
            if not isinstance(found.__cause__, REFUSALS):
                raise


def try_sparse_points(rng, threads=None):
    case = Case.drawn(rng, threads)
    rows = getattr(native, "SparseRows" + case.suffix)(*[_plain(a) for a in _sparse(case)])
    strange = rng.random() < 0.3
    points, _ = _called(
        getattr(native, "SparsePoints" + case.suffix),
        [Fixed(rows), case.maybe_weights(), case.threads],
        rng,
        strange,
    )
    for _ in range(int(rng.integers(1, 4))):
        if points is None:
            return
        points.labels()
        arguments = [case.centers(), bool(rng.random() < 0.5), *_forced(case, True)]
        try:
            found, refused = _called(points.assign, arguments, rng, rng.random() < 0.4)
            if not refused:
                # A spoiled number of centers may be valid; the object then refuses any other.
                case.k = len(found[2])
        except Finding as finding:
            # The constructor accepts strange weights; the first sum over them may refuse them.
            if not strange or not isinstance(finding.__cause__, REFUSALS):
                raise


def try_neighbours(rng, threads=None):
    case = Case.drawn(rng, threads)
    case.n = max(1, case.n)
    arguments = [case.points(), case.maybe_weights(positive=True)]
    one, _ = _called(native.Neighbours.open, arguments, rng, rng.random() < 0.3)
    for _ in range(int(rng.integers(1, 4))):
        if one is None:
            return
        try:
            _called(one.roots, _neighbour_roots(case), rng, rng.random() < 0.5)
        except Finding as found:
            if not isinstance(found.__cause__, REFUSALS):
                raise


def try_advance(rng, threads=None):
    """Several starts at once."""
    case = Case.drawn(rng, threads)
    starts, points = [], []
    for _ in range(int(rng.integers(0, 4))):
        points.append(getattr(native, "Points" + case.suffix)(*_points_arguments(case)))
        centers = case.centers()
        moved = points[-1].assign(centers)
        starts.append((moved[3], moved[2], 0.0))
    tolerances = [(-1.0, -1.0, -1.0)] * len(points)
    spoil = rng.random() < 0.5
    if spoil and points:
        which = rng.integers(len(points))
        start = list(starts[which])
        part = int(rng.integers(3))
        start[part], _ = _spoiled(start[part], rng)
        starts[which] = tuple(start)
    function = getattr(native, "advance_f32" if case.real is np.float32 else "advance_f64")
    keep_empty, directions = (rng.random(2) < 0.5).tolist()
    arguments = [points, starts, tolerances, 4, np.inf, keep_empty, directions, case.threads]
    _called(function, [Fixed(value) for value in arguments], rng, spoil)


def try_threads(rng):
    """Several Python threads at once: objects of their own, arrays and readers shared."""
    case = Case.drawn(rng, threads=3)
    case.n, case.d = max(case.n, 65), max(case.d, 1)
    X, weights, centers = case.points(), case.weights(), case.centers()
    rows = getattr(native, "SparseRows" + case.suffix)(*[_plain(a) for a in _sparse(case)])
    near = native.Neighbours.open(X, None)
    faults = []

    def work(seed):
        own = Case(np.random.default_rng(seed), *(case.n, case.d, case.k, case.real, 2, 1.0))
        try:
            points = getattr(native, "Points" + case.suffix)(X, weights, 2)
            for _ in range(3):
                found = points.assign(centers)
                points.assign(found[3])
            rows.nearest(centers, out(case.n, real=np.int32), out(case.n), None, 2)
            near.roots(np.arange(3), np.array([0.5]), 1e9, 1.0, out(3, 1), 2)
            native.assign(X, centers, out(case.n, real=np.int32), out(case.n), 2)
            native.weighted_sum(weights, np.abs(X[:, 0]).astype(np.float64), 2)
            native.cost(X, weights, centers, own.labels(), 2)
        except BaseException as error:
            faults.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if faults:
        raise Finding(f"a thread failed: {faults[0]!r}")


def try_many_rows(rng):
    """Whole fits that are worth several threads, which small calls never start."""
    if rng.random() < 0.7:
        return
    n, d = int(rng.integers(20_000, 40_000)), int(rng.choice([1, 2, 5, 20, 40]))
    X = rng.normal(size=(n, d)).astype(rng.choice([np.float32, np.float64]))
    weights = rng.choice([0.0, 0.5, 1.0, 1e6], size=n) if rng.random() < 0.5 else None
    more = {"random_state": 0, "bound": None, "max_iter": 4, "engine": "cpu", "n_init": 1}
    kind = str(
        rng.choice(["plain", "tree", "sparse", "trimmed", "k-means||", "polished", "starts"])
    )
    if kind == "sparse":
        X = sparse.csr_array(np.where(X > 0.3, X, X.dtype.type(0)))
    if kind in ("k-means||", "starts"):
        more |= {"init": "k-means||"} if kind == "k-means||" else {"init": "random", "n_init": 4}
    elif kind == "tree":
        more["algorithm"] = "tree"
    elif kind == "polished":
        more["polish"] = "hartigan"
    estimator = TrimmedKMeans if kind == "trimmed" else KMeans
    found = set()
    for threads in (4, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = estimator(8, n_threads=threads, **more).fit(X, sample_weight=weights)
        found.add((model.cluster_centers_.tobytes(), model.labels_.tobytes(), model.inertia_))
    if len(found) > 1:
        raise Finding(f"4 threads have other bits than 1: {kind}, {X.shape}, {X.dtype}")


def _plain(value):
    return value.value if isinstance(value, Fixed) else value


ATTEMPTS = {
    **{
        name: (lambda rng, name=name, **more: try_function(name, rng, **more)) for name in FUNCTIONS
    },
    **{name: (lambda rng, name=name, **more: try_object(name, rng, **more)) for name in OBJECTS},
    "SparsePoints": try_sparse_points,
    "Neighbours": try_neighbours,
    "advance": try_advance,
    "threads": lambda rng, **more: try_threads(rng),
    "many rows": lambda rng, **more: try_many_rows(rng),
}


def round_of(seed, trace=None, threads=None):
    """Try every entry point once with numbers from a seed; return how many that were."""
    for place, (name, attempt) in enumerate(ATTEMPTS.items()):
        if trace is not None:
            trace(name)
        attempt(np.random.default_rng([seed, place]), **({"threads": threads} if threads else {}))
    return len(ATTEMPTS)
