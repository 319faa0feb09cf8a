"""The benchmark on a Dask cluster: it runs, compares by ==, and writes its section."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wolfmeans.exact.native import native_is_available

pytest.importorskip("dask.array", reason="dask and distributed are not installed")
pytest.importorskip("distributed", reason="dask and distributed are not installed")
pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_it_runs_without_the_other(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import on_dask

    # It compiles for as long as all the rest takes.
    monkeypatch.setattr(on_dask, "find_spec", lambda name: None)
    page = tmp_path / "page.md"
    try:
        on_dask.main(["--quick", "--iterations", "3", "--write", str(page)])
    finally:
        sys.modules.pop("on_dask", None)
    text = page.read_text()
    assert on_dask.BEGIN in text
    assert "| 600, 16, 8 | 3 |" in text
    assert "| yes |" in text
    assert "NO" not in text
