"""The benchmark on a Dask cluster: it runs, compares by ==, and writes its section."""

from __future__ import annotations

import pytest

from wolfmeans.exact.native import native_is_available

pytest.importorskip("dask.array", reason="dask and distributed are not installed")
pytest.importorskip("distributed", reason="dask and distributed are not installed")
pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_it_runs_without_the_other(scripts, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    with scripts(("report_pages", "on_dask")) as bench:
        # It compiles for as long as all the rest takes.
        monkeypatch.setattr(bench.on_dask, "find_spec", lambda name: None)
        bench.on_dask.main(["--quick", "--iterations", "3", "--write", str(page)])
    text = page.read_text()
    assert bench.report_pages.marks(bench.on_dask.MARK)[0] in text
    assert "| 600, 16, 8 | 3 |" in text
    assert "| yes |" in text
    assert "NO" not in text
