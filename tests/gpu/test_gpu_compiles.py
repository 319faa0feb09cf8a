"""The kernels compile for a GPU: the interpreter takes types and shapes that a device would not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from difficult import points
from interpreted import needs_triton
from wolfmeans.core.draws import draws
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import get_engine
from wolfmeans.seeding.methods import METHODS

pytestmark = needs_triton


def described(value):
    if hasattr(value, "data_ptr"):
        return {"tensor": str(value.dtype).removeprefix("torch.")}
    return getattr(value, "value", value)


def kind(value):
    """Return what a compiled kernel depends on; whole numbers count when they are 1."""
    if isinstance(value, dict):
        return value["tensor"]
    return value if value is None or isinstance(value, bool) or value == 1 else type(value).__name__


def recorded(run, seen):
    """Return an interpreter's `run` that writes launches down, one for each way to compile."""

    def record(self, *arguments, **settings):
        named = {k: described(v) for k, v in settings.items() if k not in ("grid", "warmup")}
        launch = {
            "module": self.fn.__module__,
            "kernel": self.fn.__name__,
            "arguments": [described(value) for value in arguments],
            "named": named,
        }
        kinds = (*map(kind, launch["arguments"]), *sorted(map(str, named.items())))
        seen.setdefault((launch["kernel"], *kinds), launch)
        return run(self, *arguments, **settings)

    return record


def compiled(launches):
    """Compile in another process; return (launch, answer) for each."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    # Whether they compile does not depend on how much they are optimized, and ptxas takes long.
    environment["DISABLE_PTXAS_OPT"] = "1"
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "support" / "compile_offline.py")],
        input="".join(json.dumps(launch) + "\n" for launch in launches),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return list(zip(launches, answers, strict=True))


def use_everything():
    """Launch the kernels of steps, weights, trimming and seeds, on as few points as will do."""
    gpu = get_engine("gpu")
    # One column and one center are compiled as constants; many columns in several parts.
    for d, dtype, n_clusters in ((1, "float64", 1), (12, "float32", 4)):
        X = points("plain", 16, d, dtype)
        workspace = gpu.open(X, None, 1)
        found = workspace.assign(X[:n_clusters].copy())
        limits = Limits(2, np.inf, keep_empty=True)
        workspace.advance(found.means, found.weights, np.inf, limits)
        workspace.cost(found.means)
        workspace.roots(found.means)
        workspace.near_ties(found.means, np.inf)
        workspace.distances_to(found.means[0].copy())
        workspace.best_candidate(found.means, None, 8)
        workspace.spread_rows(draws(np.random.RandomState(0), 4), 3)
        METHODS["k-means||"](workspace, 3, np.random.RandomState(0))
        del workspace  # its tensors serve the next one
        gpu.open(X, None, 1).assign(X[:n_clusters].copy())
    gpu.open(np.ones((3, 3)), None, 1).order()
    X = points("plain", 8, 130, "float32")
    gpu.open(X, None, 1).nearest(X[:4].copy())
    X = points("plain", 16, 3, "float32")
    for weights in (np.arange(16) * 0.5, np.linspace(0.1, 1.0, 16)):
        gpu.open(X, weights, 1).assign(X[:3].copy())
    METHODS["k-means||"](gpu.open(X, weights, 1), 3, np.random.RandomState(0))
    gpu.open(X, weights, 1).trimmed(2.0).assign(X[:3].copy())


def sort_moved_rows(patch):
    """Launch what is otherwise for many rows."""
    from wolfmeans.engines.gpu import clusters, rows

    for name, value in (("FEW_CLUSTERS", 0), ("_MANY_NUMBERS", 1), ("_MANY_OF_A_CLUSTER", 0)):
        patch.setattr(rows, name, value)
    for d, dtype in ((12, "float32"), (130, "float64")):
        if d == 130:  # otherwise means of three digits take longest of all
            patch.setattr(clusters, "_FEW_SUMS", 0)
        X = points("plain", 32, d, dtype)
        get_engine("gpu").open(X, None, 1).assign(X[:4].copy())


@pytest.fixture(scope="module")
def all_answers():
    """What became of all kernels, and last of one that the interpreter would take."""
    from triton.runtime.interpreter import InterpretedFunction

    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("kernels are compiled by all other tests here, which run on a device")
    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpretedFunction, "run", recorded(InterpretedFunction.run, seen))
        use_everything()
        sort_moved_rows(patch)
    launch = next(launch for launch in seen.values() if launch["kernel"] == "select_active")
    wrong = {**launch, "named": {**launch["named"], "BLOCK": 1000}}
    return compiled([*seen.values(), wrong])


@pytest.fixture
def answers(all_answers):
    return all_answers[:-1]


def test_all_kernels_compile(answers):
    failed = [(launch["kernel"], answer["error"]) for launch, answer in answers if answer["error"]]
    assert not failed
    kernels = {launch["kernel"] for launch, _ in answers}
    assert len(kernels) > 40
    assert {"measure", "shorten", "clear", "shorten_singles"} <= kernels
    assert {"move_or_count", "sort_rows", "add_runs"} <= kernels


def test_what_must_be_rounded_by_itself_is(answers):
    unfused = [pair for pair in answers if pair[0]["named"].get("enable_fp_fusion") is False]
    assert len(unfused) > 20
    fused = {
        kind: {a["kernel"] for _, a in unfused if kind in a["fused"]} for kind in ("f32", "f64")
    }
    assert not fused["f64"]
    # These ask for it by name, for squares that come with a bound.
    assert fused["f32"] == {"assign_rows", "decide_in_singles"}


def test_fusion_is_a_choice_of_ours(answers):
    # Triton warns of launches that do not say it, and changes its default.
    silent = {
        launch["kernel"] for launch, _ in answers if "enable_fp_fusion" not in launch["named"]
    }
    assert not silent


def test_scores_come_from_tensor_cores(answers):
    found = {
        (answer["kernel"], launch["named"]["WIDTH"], answer["matrices"])
        for launch, answer in answers
        if answer["kernel"] in ("screen", "assign_rows")
    }
    assert found == {
        ("assign_rows", 1, False),
        ("assign_rows", 3, False),
        ("screen", 16, True),
        ("screen", 192, True),
    }


def test_what_does_not_compile_is_seen(all_answers):
    # A block whose size is no power of two.
    launch, answer = all_answers[-1]
    assert launch["named"]["BLOCK"] == 1000
    assert "power of 2" in answer["error"]
