"""Processes for tests that might hang or change their process for good.

`python` starts a new interpreter; `forked` forks the one that runs the tests, which is a second
faster, and enough for whatever does not depend on how the process began.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
import types
import warnings
from pathlib import Path

HERE = Path(__file__).parent
PRELUDE = "import broken; broken.enter_from_environment()\n"


def environment(**changes):
    """The environment of a new interpreter, which breaks what its parent broke."""
    path = [str(HERE), str(HERE.parent / "support"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **changes}


def python(code, *arguments, timeout=60, env=None, prelude=PRELUDE, **options):
    """Run code in a new interpreter, which must end well, and return what it printed."""
    child = subprocess.Popen(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() if env is None else env,
        **options,
    )
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise AssertionError(f"the process did not end within {timeout} s") from None
    assert child.returncode == 0, err
    return out


class Forked:
    """A fork of this process that executes code as its main module."""

    def __init__(self, code, *arguments):
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Other threads of this process are not needed there.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _execute(code, arguments, writing)
        os.close(writing)
        self.output = os.fdopen(reading)
        self.status = None

    def interrupt(self):
        """Press Ctrl-C."""
        os.kill(self.pid, signal.SIGINT)

    def said(self, timeout):
        """Wait until it ends, as it must, well, and return what it has said since."""
        deadline = time.monotonic() + timeout
        while not self._ended():
            if time.monotonic() > deadline:
                raise AssertionError(f"the process did not end within {timeout} s")
            time.sleep(0.01)
        said = self.output.read()
        assert self.status == 0, said
        return said

    def _ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if not self._ended():
            os.kill(self.pid, signal.SIGKILL)
            _, self.status = os.waitpid(self.pid, 0)
        self.output.close()


def _execute(code, arguments, writing):
    """Be another program for the rest of this process."""
    ended = 1
    try:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        sys.argv = ["-c", *map(str, arguments)]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(code, "<code>", "exec"), vars(sys.modules["__main__"]))
        ended = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(ended)


def forked(code, *arguments, timeout=60):
    """Run code in a fork of this process, which must end well, and return what it printed."""
    with Forked(code, *arguments) as child:
        return child.said(timeout)
