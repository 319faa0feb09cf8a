"""Faults of the soak: something goes wrong on purpose, is answered as it should, and forgotten.

Each is given a problem, a function that makes its model, and the bits that an undisturbed fit
has. What comes after a fault must have these bits.
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from samples import bits
from scipy import sparse
from sklearn.exceptions import NotFittedError

from wolfmeans import load

_KILLED_IN = 25
"""One problem in so many is tried in a process of its own, which takes a second."""


class Failure(AssertionError):  # noqa: N818 - that is what it is
    """An invariant that does not hold."""


def require(condition, text):
    if not condition:
        raise Failure(text)


def inject(p, make, X, weights, truth):
    """Inject the fault of a problem; return how many that were."""
    rng = np.random.default_rng([p["seed"], 2])
    return _KINDS[p["fault"]](rng, p, make, X, weights, truth)


def _refused(what, make, X, weights, **more):
    model = make(**more)
    try:
        model.fit(X, sample_weight=weights)
    except (ValueError, TypeError) as error:
        require(str(error).strip(), f"{what} is refused without a word")
        _unfitted(model, what)
        return 1
    raise Failure(f"{what} is not refused")


def _unfitted(model, what):
    require(not hasattr(model, "cluster_centers_"), f"{what} leaves a fitted estimator")
    try:
        model.predict(np.zeros((1, 1)))
    except NotFittedError:
        return
    raise Failure(f"after {what} an unfitted estimator predicts")


def _same_again(what, make, X, weights, truth):
    found = bits(make().fit(X, sample_weight=weights))
    require(found == truth, f"after {what} a fit has other bits")


def _bad_numbers(rng, p, make, X, weights, truth):
    bad = (X.toarray() if sparse.issparse(X) else X).copy()
    place = tuple(int(rng.integers(size)) for size in bad.shape)
    bad[place] = rng.choice([np.nan, np.inf, -np.inf])
    given = sparse.csr_array(bad) if sparse.issparse(X) else bad
    _refused("a number that is none", make, given, weights)
    model = make().fit(X, sample_weight=weights)
    try:
        model.predict(given)
    except ValueError as error:
        require(f"row {place[0]}, column {place[1]}" in str(error), "the place of NaN is another")
    else:
        raise Failure("predict takes a number that is none")
    require(bits(model) == truth, "a refusal changes a model")
    return 2


def _bad_weights(rng, p, make, X, weights, truth):
    bad = np.ones(X.shape[0]) if weights is None else weights.copy()
    bad[rng.integers(len(bad))] = rng.choice([np.nan, np.inf, -1.0, 1e300])
    count = _refused("a bad weight", make, X, bad)
    count += _refused("weights of another length", make, X, np.ones(X.shape[0] + 1))
    return count + _refused("weights of 0", make, X, np.zeros(X.shape[0]))


def _bad_seeds(rng, p, make, X, weights, truth):
    columns = X.shape[1]
    wrong = [np.zeros((p["k"] + 1, columns)), np.zeros((p["k"], columns + 1))]
    wrong.append(np.full((p["k"], columns), np.nan))
    return sum(_refused("bad seeds", make, X, weights, init=seeds, n_init=1) for seeds in wrong)


class _Thrown(Exception):  # noqa: N818
    pass


def _raising_callback(rng, p, make, X, weights, truth):
    at, kind = int(rng.integers(3)), (_Thrown, KeyboardInterrupt)[int(rng.integers(2))]

    def callback(record):
        if record.t >= at:
            raise kind

    model = make(callback=callback)
    try:
        model.fit(X, sample_weight=weights)
    except (_Thrown, KeyboardInterrupt):
        _unfitted(model, "a callback that raises")
    _same_again("a callback that raises", make, X, weights, truth)
    return 1


def _stopping_callback(rng, p, make, X, weights, truth):
    at = int(rng.integers(2))
    model = make(callback=lambda record: record.t >= at).fit(X, sample_weight=weights)
    _consistent("a callback that stops", p, model, X, weights)
    return 1


def _time_limit(rng, p, make, X, weights, truth):
    model = make(time_limit=float(rng.choice([0.0, 1e-5, 1e-3]))).fit(X, sample_weight=weights)
    _consistent("a time limit", p, model, X, weights)
    return 1


def _consistent(what, p, model, X, weights):
    """What was ended early is true, and not called converged."""
    score = model.score(X, sample_weight=weights)
    require(score == -model.inertia_, f"after {what} score is not -inertia_")
    if not p["trimmed"]:
        agree = np.array_equal(model.predict(X), model.labels_)
        require(agree, f"after {what} predict is not labels_")
    status = model.certificate_.status
    if status.name in ("CALLBACK", "TIME_LIMIT"):
        require(not status.converged, f"{what} is called converged")


def _control_c(rng, p, make, X, weights, truth):
    """A real signal, at some moment of a fit."""
    if not hasattr(signal, "setitimer"):
        return 0
    started = time.perf_counter()
    make().fit(X, sample_weight=weights)
    passed = time.perf_counter() - started
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    model = make()
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-5, passed * rng.random()))
        try:
            model.fit(X, sample_weight=weights)
        except KeyboardInterrupt:
            # It may come when all is done, and before anybody hears of that.
            if not (hasattr(model, "cluster_centers_") and bits(model) == truth):
                _unfitted(model, "Ctrl-C")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass  # it came between two lines of this file
    finally:
        signal.signal(signal.SIGALRM, before)
    _same_again("Ctrl-C", make, X, weights, truth)
    return 1


def _damaged_model(rng, p, make, X, weights, truth):
    model = make().fit(X, sample_weight=weights)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.wolf"
        model.save(path)
        again = load(path)
        same = again.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
        require(same, "a loaded model has other centers")
        require(
            np.array_equal(again.predict(X), model.predict(X)), "a loaded model predicts otherwise"
        )
        content = bytearray(path.read_bytes())
        if rng.random() < 0.5:
            del content[int(rng.integers(len(content))) :]
        else:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        try:
            load(path).predict(X)
        except (ValueError, TypeError, OSError) as error:
            require("m.wolf" in str(error), f"the file is not named: {error}")
    return 1


def _odd_memory(rng, p, make, X, weights, truth):
    """The same numbers at odd addresses, read-only, in another order, or with gaps."""
    if sparse.issparse(X):
        return 0
    odd = np.zeros(X.nbytes + 8, dtype=np.uint8)[1 : 1 + X.nbytes].view(X.dtype).reshape(X.shape)
    odd[...] = X
    apart = np.zeros((2 * X.shape[0], 2 * X.shape[1]), dtype=X.dtype)[::2, ::2]
    apart[...] = X
    swapped = X.astype(X.dtype.newbyteorder())
    if X.dtype == np.float32:
        swapped = X[:]  # it would come in as float64
    closed = X.copy()
    closed.flags.writeable = False
    given = (odd, apart, np.asfortranarray(X), swapped, closed)[int(rng.integers(5))]
    found = bits(make().fit(given, sample_weight=weights))
    require(found == truth, "numbers elsewhere in memory have other bits")
    return 1


_KILLED = """
import os, signal, sys, warnings
import numpy as np
from wolfmeans import KMeans
warnings.simplefilter("ignore")
X = np.random.default_rng(int(sys.argv[1])).normal(size=(300, 3))
def callback(record):
    if record.t == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
model = KMeans(7, init=X[:7], n_init=1, tol=0.0, bound=None, checkpoint=sys.argv[3])
model.set_params(callback=callback).fit(X)
"""


def _killed(rng, p, make, X, weights, truth):
    """A process that dies at a step, and another one that goes on from its checkpoint."""
    if rng.integers(_KILLED_IN):
        return 0
    from wolfmeans import KMeans

    seed, at = int(rng.integers(1000)), int(rng.integers(1, 6))
    X = np.random.default_rng(seed).normal(size=(300, 3))
    chosen = {"init": X[:7], "n_init": 1, "tol": 0.0, "bound": None}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "c")
        command = [sys.executable, "-c", _KILLED, str(seed), str(at), path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        require(done.returncode == -signal.SIGKILL, f"it does not die: {done.stderr[-300:]}")
        going_on = KMeans(7, checkpoint=path, **chosen).fit(X)
    whole = KMeans(7, **chosen).fit(X)
    same = going_on.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    require(same, "a fit that goes on from a checkpoint has other centers")
    require(np.array_equal(going_on.labels_, whole.labels_), "and other labels")
    require(going_on.inertia_ == whole.inertia_, "and another inertia")
    return 1


_KINDS = {
    "bad numbers": _bad_numbers,
    "bad weights": _bad_weights,
    "bad seeds": _bad_seeds,
    "raising callback": _raising_callback,
    "callback that stops": _stopping_callback,
    "time limit": _time_limit,
    "Ctrl-C": _control_c,
    "damaged model": _damaged_model,
    "memory that is odd": _odd_memory,
    "killed": _killed,
}
FAULTS = tuple(_KINDS)
