"""How a command begins: Ctrl-C during imports, what is imported, and reading in another thread."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from wolfmeans.commands import cli
from wolfmeans.commands.process import in_background

# Sends Ctrl-C to itself when a module is about to be imported.
INTERRUPTED = """
import os, signal, sys
wanted, sys.argv = sys.argv[1], ["wolfmeans", *sys.argv[2:]]
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
import wolfmeans.commands.cli
code = wolfmeans.commands.cli.main()
sys.exit(f"{wanted} was not imported" if wanted not in sys.modules else code)
"""


def process(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(50, 2))
    np.savetxt("data.csv", X, delimiter=",", header="x,y", comments="")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize(
    "module",
    ["typer", "rich.console", "numpy", "polars", "scipy.sparse", "sklearn.base",
     "sklearn.utils._openmp_helpers", "wolfmeans.fitting.fit", "wolfmeans.estimators"],
)  # fmt: skip
def test_ctrl_c_during_imports_is_130_and_one_line(data, module):
    done = process(INTERRUPTED, module, "fit", "data.csv", "-k", "2", "--labels", "l.csv")
    assert done.stderr == "wolfmeans: interrupted\n"
    assert done.returncode == 130
    assert [path.name for path in data.iterdir()] == ["data.csv"]


LATE = """
import atexit, os, signal, sys
import wolfmeans.commands.cli, wolfmeans.commands.terminal
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
if sys.argv.pop(1) == "exit":
    atexit.register(interrupt)
else:
    finished = wolfmeans.commands.cli.finish
    wolfmeans.commands.cli.finish = lambda code: (interrupt(), finished(code))[1]
sys.exit(wolfmeans.commands.cli.main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("moment", ["exit", "finish"])
@pytest.mark.parametrize(("name", "code"), [("data.csv", 0), ("absent.csv", 2)])
def test_ctrl_c_after_everything_was_written_is_too_late(data, moment, name, code):
    done = process(LATE, moment, "fit", name, "-k", "2", "-q", "--labels", "l.csv")
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == (code != 0)
    assert (data / "l.csv").exists() == (code == 0)


LOADED = """
import sys
import wolfmeans.commands.cli
names, sys.argv = sys.argv[1], ["wolfmeans", *sys.argv[2:]]
code = wolfmeans.commands.cli.main()
print(*[n for n in names.split(",") if n in sys.modules])
sys.exit(code)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["fit", "x.csv"]])
def test_help_and_wrong_usage_are_answered_without_scikit_learn(arguments):
    done = process(LOADED, "sklearn,scipy,polars,wolfmeans.engines", *arguments)
    assert done.returncode in (0, 2)
    assert done.stdout.splitlines()[-1] == ""


def test_a_result_and_an_error_come_back_from_the_other_thread():
    def work(number):
        assert threading.current_thread() is not threading.main_thread()
        return 1 / number

    assert in_background(work, 4)() == 0.25
    with pytest.raises(ZeroDivisionError):
        in_background(work, 0)()


def test_the_caller_of_main_keeps_its_own_signals(data, capsys):
    import signal

    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["fit", "data.csv", "-k", "2", "-q"]) == 0
    assert signal.getsignal(signal.SIGINT) is before
