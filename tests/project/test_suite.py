"""The suite itself: it is green for a newcomer, wherever it is started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# As `import torch` fails where it is not installed.
WITHOUT_PYTORCH = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util
find_spec = importlib.util.find_spec
def found(name, package=None):
    return None if name in ("torch", "triton") else find_spec(name, package)
importlib.util.find_spec = found
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run(*command, **options):
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250, **options
    )


@pytest.mark.long
def test_gpu_tests_are_skipped_with_a_reason_without_pytorch():
    without = {k: v for k, v in os.environ.items() if k != "WOLFMEANS_REQUIRE_TRITON"}
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "-n0",
        "tests/gpu",
        "tests/bench/test_benchmarks_gpu.py",
    )
    done = run(sys.executable, "-c", WITHOUT_PYTORCH, *options, env=without)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "the gpu engine needs torch and triton, which cannot be imported" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals are ignored by inheritance on POSIX only")
def test_ctrl_c_is_tested_where_a_shell_has_ignored_it():
    done = run(
        sys.executable,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0"),
        "tests/estimators/test_certify.py::test_ctrl_c_is_heard_between_the_layers_of_the_exact_bound",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "1 passed" in done.stdout


@pytest.mark.long
def test_what_helps_tests_is_not_collected():
    done = run(
        sys.executable,
        *("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-n0"),
        "tests/support",
    )
    assert done.returncode == 5
    assert "no tests collected" in done.stdout
    assert "error" not in done.stdout.lower()


USER = """
import numpy as np
from wolfmeans import KMeans, TrimmedKMeans
X = np.zeros((10, 2))
km = KMeans(3).fit(X)
reveal_type(km)
reveal_type(km.certify(X))
reveal_type(km.certificate_.ratio)
reveal_type(km.inertia_)
reveal_type(TrimmedKMeans(3).fit(X))
"""
TYPES = (
    "wolfmeans.estimators.kmeans.KMeans",
    "wolfmeans.certificate.record.Certificate",
    "float | None",
    "float",
    "wolfmeans.estimators.trimmed.TrimmedKMeans",
)


@pytest.mark.long
def test_results_have_types_for_whoever_checks_them(tmp_path):
    assert (ROOT / "src" / "wolfmeans" / "py.typed").exists()
    (tmp_path / "user.py").write_text(USER)
    # With the settings of `make lint`, whose cache saves half a minute.
    done = run(sys.executable, "-m", "mypy", str(tmp_path / "user.py"))
    assert done.returncode == 0, done.stdout
    revealed = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed" in line]
    assert revealed == list(TYPES)
