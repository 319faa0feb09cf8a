"""`python tests/mutants`: break the code in one place at a time, and require that a test fails.

    python tests/mutants [--only WORD] [--jobs N]      mutants of Python, some two minutes
    python tests/mutants --native FOLDER               mutants of C++, built in FOLDER

The working tree is not touched. A mutant of Python is a forked process in which an import hook
changes the source of one module; a mutant of C++ is a build of a copy of the sources in FOLDER,
which is kept, so that only the changed file is compiled. First all tests that mutant_table.py
names run on the code as it is, and must pass. The exit code is 1 when a mutant survives: when one
of its tests passes, or fails by anything but an assertion.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path[0] = str(HERE)

from mutant_table import NATIVE_MUTANTS, PYTHON_MUTANTS, Mutant  # noqa: E402

NATIVE = "wolfmeans.exact._native"
# A test that a mutant sends round in circles has failed to fail.
SECONDS_PER_TEST = 60


# --- In a child: the package with one change ---------------------------------------------------


class ChangedSource(importlib.machinery.SourceFileLoader):
    """Loads a module from other text than its file has."""

    text = ""

    def get_code(self, fullname):
        return compile(self.text, self.path, "exec", dont_inherit=True)


class Change(importlib.abc.MetaPathFinder):
    """Finds one module, changed; a native one elsewhere."""

    def __init__(self, module, text=None, library=None):
        self.module, self.text, self.library = module, text, library

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        if self.library is not None:
            return importlib.util.spec_from_file_location(name, self.library)
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = ChangedSource(name, spec.origin)
                spec.loader.text = self.text
                return spec
        return None


class Verdicts:
    """A plugin of pytest: how each of the named tests ended."""

    def __init__(self, tests, stop_at_failures):
        self.tests, self.stop_at_failures = tests, stop_at_failures
        self.ran, self.failed, self.other = set(), set(), {}

    def pytest_sessionstart(self):
        from hypothesis import Phase, settings

        # A counterexample need not be small here.
        settings.register_profile(
            "mutants", settings.get_profile("default"), phases=(Phase.explicit, Phase.generate)
        )
        settings.load_profile("mutants")

    def pytest_runtest_setup(self, item):
        import pytest

        if self.stop_at_failures and self._name(item) in self.failed:
            pytest.skip("has failed with other parameters")

    def pytest_runtest_makereport(self, item, call):
        import pytest

        name = self._name(item)
        if call.excinfo is None:
            if call.when == "call":
                self.ran.add(name)
        elif call.excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
            self.failed.add(name)
        elif not call.excinfo.errisinstance(pytest.skip.Exception):
            self.other[name] = call.excinfo.exconly()

    def _name(self, item):
        return item.nodeid.partition("[")[0]


def _run_tests(tests, stop_at_failures):
    """Run tests in this process; return how they ended."""
    import pytest

    verdicts = Verdicts(tests, stop_at_failures)
    options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # imported before the fork
    options += [f"--timeout={SECONDS_PER_TEST}", f"--rootdir={ROOT}", "--tb=short"]
    pytest.main([*options, *(str(ROOT / test) for test in tests)], plugins=[verdicts])
    return {
        "passed": sorted(verdicts.ran - verdicts.failed - verdicts.other.keys()),
        "failed": sorted(verdicts.failed),
        "other": verdicts.other,
    }


def _start(tests, change, stop_at_failures=True):
    """Fork a child that runs tests; return its id and the files of its answer and its output."""
    places = [tempfile.mkstemp() for _ in range(2)]
    (answer, _), (output, _) = places
    child = os.fork()
    if child:
        os.close(answer)
        os.close(output)
        return child, *(Path(name) for _, name in places)
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(ROOT)
        if change is not None:
            sys.meta_path.insert(0, change)
        found = _run_tests(tests, stop_at_failures)
        os.write(answer, json.dumps(found).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _finish(answer, output):
    text = answer.read_text()
    found = json.loads(text) if text else {"passed": [], "failed": [], "other": {"": "died"}}
    said = output.read_text(errors="replace")
    answer.unlink()
    output.unlink()
    return found, said


# --- The parent ----------------------------------------------------------------------------------


def _preload():
    """Import what takes long and is no part of the package, once for all children."""
    import hypothesis  # noqa: F401
    import pytest
    import pytest_timeout  # noqa: F401
    import scipy.linalg
    import scipy.sparse
    import scipy.special
    import scipy.stats  # noqa: F401
    import sklearn.cluster
    import sklearn.datasets
    import sklearn.model_selection  # noqa: F401

    try:
        import matplotlib.figure
        import matplotlib.pyplot  # noqa: F401
    except ImportError:
        pass
    # So is all that pytest imports when it begins.
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--version"])
    assert "wolfmeans" not in sys.modules


def problem_with(mutant, found):
    """Return why a mutant is not caught; None where it is."""
    for test in mutant.tests:
        if test not in found["failed"]:
            why = found["other"].get(test) or ("it passes" if test in found["passed"] else "no run")
            return f"{test}: {why}"
    return None


def _module_of(mutant):
    return "wolfmeans." + mutant.file.removesuffix(".py").replace("/", ".")


def check_as_it_is(mutants, change=None):
    """Return whether all tests pass without a mutant."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    child, answer, output = _start(tests, change, stop_at_failures=False)
    os.waitpid(child, 0)
    found, said = _finish(answer, output)
    missing = sorted(set(tests) - set(found["passed"]))
    if missing:
        print(said)
        print("These fail without a mutant, or were skipped:", *missing, sep="\n  ")
    return not missing


def _report(mutant, found, said, seconds, verbose):
    problem = problem_with(mutant, found)
    word = "caught  " if problem is None else "SURVIVES"
    print(f"{word} {mutant.name} ({seconds:.1f} s)", flush=True)
    if problem is not None:
        print(f"         {mutant.why}\n         {problem}")
        if verbose:
            print(said)
    return problem is None


def run_python(mutants, jobs, verbose):
    """Return the names of the mutants of Python that survive."""
    waiting, running, survivors = list(mutants), {}, []
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop(0)
            child, answer, output = _start(mutant.tests, Change(_module_of(mutant), mutant.text()))
            running[child] = (mutant, answer, output, time.perf_counter())
        child, _ = os.wait()
        mutant, answer, output, started = running.pop(child)
        found, said = _finish(answer, output)
        if not _report(mutant, found, said, time.perf_counter() - started, verbose):
            survivors.append(mutant.name)
    return survivors


# --- Mutants of C++ ------------------------------------------------------------------------------


class NativeBuild:
    """A copy of the C++ sources in a folder of its own, and what is built from it."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.sources, self.build = self.folder / "tree", self.folder / "build"

    def refresh(self):
        """Bring the copy up to date; files that are as they were keep their time."""
        wanted = [ROOT / "CMakeLists.txt", *(ROOT / "native").rglob("*.[ch]pp")]
        for path in wanted:
            self.write(path.relative_to(ROOT), path.read_text())

    def write(self, relative, text):
        place = self.sources / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists() or place.read_text() != text:
            place.write_text(text)

    def make(self):
        """Build; return whether that worked."""
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        # Kernels need not be fast here, and compile sooner so.
        configure = ["cmake", "-S", str(self.sources), "-B", str(self.build)]
        configure += ["-DCMAKE_BUILD_TYPE=Release", "-DWOLFMEANS_OPTIMIZATION=-O1"]
        configure += [f"-DPython_EXECUTABLE={sys.executable}"]
        commands = [["cmake", "--build", str(self.build), "--parallel", str(os.cpu_count() or 1)]]
        if not (self.build / "CMakeCache.txt").exists():
            commands.insert(0, configure)
        for command in commands:
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                print(done.stdout[-3000:], done.stderr[-3000:])
                return False
        return True

    def change(self):
        """Return the import hook that takes the module from here."""
        [library] = (self.build / "wolfmeans" / "exact").glob("_native*")
        return Change(NATIVE, library=str(library))


def run_native(mutants, folder, verbose):
    """Return the names of the mutants of C++ that survive."""
    build, survivors = NativeBuild(folder), []
    build.refresh()
    if not build.make() or not check_as_it_is(mutants, build.change()):
        return [mutant.name for mutant in mutants]
    for mutant in mutants:
        started = time.perf_counter()
        place = mutant.path.relative_to(ROOT)
        build.write(place, mutant.text())
        try:
            if not build.make():
                survivors.append(f"{mutant.name}: does not compile")
                continue
            child, answer, output = _start(mutant.tests, build.change())
            os.waitpid(child, 0)
            found, said = _finish(answer, output)
        finally:
            build.refresh()
        if not _report(mutant, found, said, time.perf_counter() - started, verbose):
            survivors.append(mutant.name)
    build.make()
    return survivors


def main():
    parser = argparse.ArgumentParser(prog="python tests/mutants")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--native", metavar="FOLDER", help="mutants of C++, built in this folder")
    parser.add_argument("--verbose", action="store_true", help="what pytest said of survivors")
    given = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Plugins that came with other packages take longer to import than most tests run.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    chosen: list[Mutant] = NATIVE_MUTANTS if given.native else PYTHON_MUTANTS
    chosen = [mutant for mutant in chosen if given.only in mutant.name]
    started = time.perf_counter()
    _preload()
    if given.native:
        survivors = run_native(chosen, given.native, given.verbose)
    elif check_as_it_is(chosen):
        survivors = run_python(chosen, given.jobs, given.verbose)
    else:
        survivors = [mutant.name for mutant in chosen]
    seconds = time.perf_counter() - started
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants caught in {seconds:.0f} s")
    for name in survivors:
        print(f"survives: {name}")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    raise SystemExit(main())
