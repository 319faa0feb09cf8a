"""A short, fixed run of every target of `make fuzz`."""

import subprocess
import sys
from pathlib import Path

import fuzz_command
import fuzz_files
import known
import pytest
from hypothesis import Phase, given, settings

from wolfmeans.exact.native import native_is_available

HERE = Path(__file__).parent
# A damaged Arrow file may end the process, in polars (known.py).
FILES = [name for name in fuzz_files.TARGETS if name not in ("Arrow", "Parquet", "several files")]


@pytest.mark.parametrize("name", [*FILES, "command"])
def test_nothing_but_known_findings(name):
    module = fuzz_command if name == "command" else fuzz_files
    if name == "Zarr":
        pytest.importorskip("zarr")

    @settings(max_examples=15, phases=(Phase.generate,), database=None)
    @given(module.TARGETS[name][0]())
    def one(value):
        try:
            module.attempt(name, value)
        except Exception as error:
            if not known.names(name, f"{type(error).__name__}: {error}"):
                raise

    one()


@pytest.mark.long
@pytest.mark.skipif(not native_is_available(), reason="needs the native module")
def test_native_calls_compute_or_refuse():
    command = [sys.executable, str(HERE), "--child", "native", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
