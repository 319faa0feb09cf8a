"""Settings shared by all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before any file can import Triton, which reads it once; where there is a driver, PyTorch is asked
# whether it can use it (interpreted.py).
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# A shell starts processes in the background with SIGINT ignored, and so are theirs: tests of Ctrl-C
# would wait for an interrupt that never comes.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

HERE = Path(__file__).parent
_LONG = (
    "gpu/*.py",
    "views/test_page_in_browser.py",
    "test_dask_faults.py",
    "test_dask_command.py",
    "test_documented_commands.py",
    "test_each_can_fail.py",
    "test_cli_process.py",
    "test_cli_refusals.py",
    "test_cli_trimmed.py",
    "test_interrupts.py",
)
"""Files of tests that take long: interpreted kernels, browsers, clusters, commands, faults."""
_LONG_CASES = {"gpu", "cluster"}
"""Arguments of tests that take long: the GPU engine, and a cluster of Dask workers."""


_WHOLE_BOUNDS = (
    *("bounds/*.py", "faults/*.py", "digests/*.py"),
    *("test_docs.py", "test_documented_commands.py"),
)
"""Files of tests that see the bounds as users do; others may be marked `whole_bounds`."""
_FEW_STEPS = 10


@pytest.fixture(autouse=True)
def _few_steps_of_default_bounds(request, monkeypatch):
    """Take fewer steps for the bound of a certificate that is read: most tests look at the rest."""
    if request.node.get_closest_marker("whole_bounds"):
        return
    if any(request.path.match(pattern) for pattern in _WHOLE_BOUNDS):
        return
    from wolfmeans.estimators import postponed

    monkeypatch.setattr(postponed, "_MOST_STEPS", _FEW_STEPS)


def pytest_ignore_collect(collection_path):
    """Leave out modules that help tests: they have no doctests, and some need PyTorch."""
    is_module = collection_path.suffix == ".py" and HERE in collection_path.parents
    return True if is_module and not collection_path.name.startswith("test_") else None


def pytest_collection_modifyitems(items):
    """Mark what takes long, for `make test` to leave out."""
    for item in items:
        case = item.callspec.params.values() if hasattr(item, "callspec") else ()
        named = any(isinstance(value, str) and value in _LONG_CASES for value in case)
        if named or any(item.path.match(pattern) for pattern in _LONG):
            item.add_marker(pytest.mark.long)


def pytest_runtest_setup(item):
    """Make the interpreter faster, if it may be used; importing it takes long, too."""
    if item.get_closest_marker("long"):
        from interpreted import hurry

        hurry()


@pytest.fixture(scope="module")
def two_workers():
    """A Dask cluster of two processes."""
    from cluster import workers

    with workers(2) as client:
        yield client


@pytest.fixture(params=["threads", "cluster"])
def dask_place(request):
    """Run in this process, then on the cluster."""
    if request.param == "threads":
        import dask

        with dask.config.set(scheduler="threads"):
            yield None
    else:
        yield request.getfixturevalue("two_workers")


@pytest.fixture(params=["cpu", "sparse", "blocks", "stream", "gpu"])
def place(request):
    """Where a fit takes place (everywhere.fit_at); the reference engine is what it must equal."""
    from everywhere import DASK, EVERYWHERE
    from interpreted import needs_triton

    if request.param == "gpu" and needs_triton.args[0]:
        pytest.skip(needs_triton.kwargs["reason"])
    if request.param == "blocks" and not DASK:
        pytest.skip("needs Dask")
    if request.param not in EVERYWHERE:
        pytest.skip("the native module is not built")
    return request.param
