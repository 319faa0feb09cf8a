"""Ctrl-C in the middle of native calls: heard at once, and nothing half done is left."""

import os
import time

import numpy as np
import pytest
from broken import fails_when
from processes import Forked
from samples import assert_true, cloud, quietly

from wolfmeans import KMeans

CPU = "wolfmeans.engines.native"
# Each of these goes on for seconds when nobody interrupts it: the model, what is asked of it, the
# function during which Ctrl-C is pressed, and how many points there are.
LONG = {
    "steps": (
        "KMeans(4000, init=X[:4000], stop='stationary', max_iter=None, **S)",
        "fit",
        f"{CPU}.NativePoints.advance",
        150_000,
    ),
    "steps on threads": (
        "KMeans(4000, init=X[:4000], stop='stationary', max_iter=None, **(S | {'n_threads': 2}))",
        "fit",
        f"{CPU}.NativePoints.advance",
        150_000,
    ),
    "steps of a tree": (
        "KMeans(20_000, init=X[:20_000], algorithm='tree', max_iter=1, **S)",
        "fit",
        f"{CPU}.NativePoints.assign",
        150_000,
    ),
    "trimmed steps": (
        "TrimmedKMeans(4000, alpha=0.1, init=X[:4000], stop='stationary', max_iter=None, **S)",
        "fit",
        f"{CPU}.NativeTrimmer.assign",
        150_000,
    ),
    "one step": (
        "KMeans(len(X), init=X, max_iter=1, **S)",
        "fit",
        f"{CPU}.NativePoints.assign",
        150_000,
    ),
    "one step on threads": (
        "KMeans(len(X), init=X, max_iter=1, **(S | {'n_threads': 3}))",
        "fit",
        f"{CPU}.NativePoints.assign",
        150_000,
    ),
    "one sparse step": (
        "KMeans(len(X), init=X, max_iter=1, **S)",
        "fit",
        f"{CPU}.NativePoints.assign",
        50_000,
    ),
    "seeding": ("KMeans(20_000, **S)", "fit", f"{CPU}.NativePoints.spread_rows", 150_000),
    "seeding in rounds": (
        "KMeans(20_000, init='k-means||', **S)",
        "fit",
        "wolfmeans.seeding.methods.sample_candidates",
        150_000,
    ),
    "starts": (
        "KMeans(1000, init='random', n_init=100, stop='stationary', max_iter=None, **S)",
        "fit",
        f"{CPU}.NativePoints.advance_with",
        20_000,
    ),
    "polish": (
        "KMeans(2000, init=X[:2000], max_iter=2, polish='swap', **S)",
        "fit",
        "wolfmeans.fitting.fit.polish",
        150_000,
    ),
    "a lower bound": (
        "KMeans(100, init=X[:100], **(S | {'bound': 'neighbours', 'max_iter': 2}))",
        "fit",
        "wolfmeans.fitting.fit.best_bound",
        60_000,
    ),
    "predict": ("fitted(8000)", "predict", f"{CPU}.NativeKernels.nearest", 1_000_000),
    "predict on threads": (
        "fitted(8000, n_threads=2)",
        "predict",
        f"{CPU}.NativeKernels.nearest",
        1_000_000,
    ),
    "score": ("fitted(8000)", "score", f"{CPU}.NativeKernels.nearest", 1_000_000),
    "certify": (
        "KMeans(100, init=X[:100], **(S | {'bound': None, 'max_iter': 2})).fit(X)",
        "certify",
        "wolfmeans.estimators.dataset.bound_in_units",
        60_000,
    ),
    "transform": ("fitted(3000)", "transform", f"{CPU}.NativeKernels.roots", 150_000),
}
PROMPT = 3.0

INTERRUPTED = """
import importlib, sys, warnings
import numpy as np
from scipy import sparse
from wolfmeans import KMeans, TrimmedKMeans
warnings.simplefilter("ignore")
S = {"engine": "cpu", "n_threads": 1, "bound": None, "random_state": 0}
_, what, expression, method, during, n = sys.argv
X = np.random.default_rng(0).normal(size=(int(n), 12))
def fitted(k, **more):
    return KMeans(k, init=X[:k], max_iter=1, **(S | more)).fit(X[:k])
model = eval(expression)
before = set(vars(model))
home, name = during.rsplit(".", 1)
try:
    home = importlib.import_module(home)
except ModuleNotFoundError:
    module, kind = home.rsplit(".", 1)
    home = getattr(importlib.import_module(module), kind)
inner = getattr(home, name)
def telling(*arguments, **options):
    print("begin", flush=True)
    setattr(home, name, inner)
    return inner(*arguments, **options)
setattr(home, name, telling)
try:
    getattr(model, method)(sparse.csr_array(X) if "sparse" in what else X)
except KeyboardInterrupt:
    print("interrupted", *(name for name in set(vars(model)) - before if name.endswith("_")))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@fails_when("interrupts_heard_at_the_end", what="seeding")
@fails_when("interrupts_heard_at_the_end", what="one step")
@fails_when("interrupts_heard_at_the_end", what="starts")
@fails_when("interrupts_heard_at_the_end", what="transform")
@fails_when("interrupted_fits_are_kept", what="steps")
@pytest.mark.parametrize("what", LONG)
def test_ctrl_c_within_a_native_call_is_heard_and_leaves_the_estimator_as_it_was(what):
    with Forked(INTERRUPTED, what, *LONG[what]) as child:
        assert child.output.readline() == "begin\n"
        time.sleep(0.3)
        child.interrupt()
        assert child.said(PROMPT).split() == ["interrupted"]


@fails_when("interrupted_fits_are_kept")
def test_ctrl_c_from_within_a_fit_leaves_the_estimator_unfitted():
    X = cloud()

    def press(record):
        raise KeyboardInterrupt

    model = KMeans(6, init=X[:6], callback=press)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    assert_true(quietly(model.set_params(callback=None), X), X)
    assert np.isfinite(model.inertia_)
