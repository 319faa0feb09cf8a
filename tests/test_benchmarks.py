"""The benchmarks: they run, they name what is missing, and they hide no disagreement.

Nothing here looks at how long anything takes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MODULES = ("data", "peers", "cpu")


@pytest.fixture(scope="module")
def cpu() -> Iterator[ModuleType]:
    """The script, imported as Python does it when the script is run: from its own folder."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import cpu

        yield cpu
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(scope="module")
def quick(cpu: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str, Path]:
    """One tiny cell through the command line: its JSON, its page and where that is."""
    folder = tmp_path_factory.mktemp("cpu")
    page = folder / "benchmarks.md"
    page.write_text(f"Before.\n{cpu.BEGIN}\nold\n{cpu.END}\nAfter.\n", encoding="utf-8")
    options = ("--quick", "--cells", "5000x2x50", "--data", "blobs", "segmentation")
    few = ("--dtype", "float32", "--repeats", "1", "--threads", "1")
    cpu.main([*options, *few, "--json", str(folder / "all.json"), "--write", str(page)])
    record = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    return record, page.read_text(encoding="utf-8"), page


def test_json_holds_every_cell_and_every_part(quick: tuple[dict, str, Path]) -> None:
    record, _, _ = quick
    cells = [(one["data"], one["dtype"]) for one in record["races"]]
    assert cells == [("blobs", "float32"), ("segmentation", "float32")]
    for one in record["races"]:
        assert one["ours"]["iterations"] > 1
        assert {"sklearn lloyd", "sklearn elkan"} <= set(one["exact"])
        assert one["fastest"] == min(one["ratios"], key=one["ratios"].get)
        for title in one["exact"]:
            times = one["peers"][title]["seconds"], one["ours"]["seconds"]
            assert one["ratios"][title] == times[0] / times[1]
    assert [one["draws"] for one in record["seeding"]] == [1, 1]
    assert [one["speedup"] for one in record["scaling"]] == [{"1": 1.0}]
    assert len(record["dense"]) == len(record["memory"]) == 1
    assert record["start_up"]["fit_of_100"] > 0
    assert record["machine"]["vector unit"] and record["versions"]["scikit-learn"]


def test_scikit_learn_agrees(quick: tuple[dict, str, Path]) -> None:
    for one in quick[0]["races"]:
        for title in ("sklearn lloyd", "sklearn elkan"):
            assert one["peers"][title]["same_inertia"]
            assert one["peers"][title]["same_iterations"]


def test_summary_is_the_geometric_mean_of_the_ratios(quick: tuple[dict, str, Path]) -> None:
    record, _, _ = quick
    found = record["summary"]["fits"]["float32"]
    ratios = [one["ratios"][one["fastest"]] for one in record["races"]]
    assert found["fastest"] == pytest.approx(math.sqrt(math.prod(ratios)))
    assert found["least"] == min(ratios)


def test_page_is_replaced_between_its_marks(quick: tuple[dict, str, Path]) -> None:
    _, page, _ = quick
    assert page.startswith("Before.\n") and page.endswith("\nAfter.\n")
    assert "\nold\n" not in page
    table = [line for line in page.splitlines() if line.startswith("| 600, 2, 8 | blobs |")]
    assert len(table) == 3  # ratios, times and seeding
    columns = [column.strip() for column in table[0].strip("|").split("|")]
    assert columns[2] == "float32"
    assert columns[4].startswith("**")
    assert "A quick run on shrunken data" in page


def test_page_without_marks_is_refused(cpu: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to replace\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="must contain"):
        cpu.write_between_marks(page, "text")
    assert page.read_text(encoding="utf-8") == "nothing to replace\n"


def wrong_peer(cpu: ModuleType):
    """A peer that moves its centers a little and counts one iteration less."""

    class Wrong(cpu.Method):
        title = "wrong"
        package = "numpy"

        def fit(self, problem, limits):
            fitted = cpu.ScikitLearn("lloyd").fit(problem, limits)
            return type(fitted)(fitted.centers + 0.01, fitted.iterations - 1)

    return Wrong()


def failing_peer(cpu: ModuleType):
    class Failing(cpu.Method):
        title = "failing"
        package = "numpy"

        def fit(self, problem, limits):
            raise MemoryError("too large")

    return Failing()


def test_a_peer_with_wrong_centers_is_marked(cpu: ModuleType) -> None:
    problem = cpu.uniform_problem(cpu.Shape(600, 2, 8), "float64")
    limits = cpu.Limits(100, 1)
    peers = [cpu.ScikitLearn("lloyd"), wrong_peer(cpu), failing_peer(cpu)]
    one = cpu.competition.race(problem, cpu.Wolfmeans(), peers, limits, repeats=2, budget=1.0)

    assert one.marked == ["wrong"]
    assert one.peers["wrong"].excess > 1e-6
    assert not one.peers["wrong"].same_inertia
    assert not one.peers["wrong"].same_iterations
    assert one.peers["sklearn lloyd"].same_inertia
    assert one.peers["failing"] == "failed: MemoryError('too large')"
    assert set(one.exact) == {"sklearn lloyd", "wrong"}  # a marked peer still counts

    row = cpu.ratio_table([one]).splitlines()[-1]
    assert f"(≠ {one.peers['wrong'].excess:+.0e}, {one.peers['wrong'].iterations} it)" in row
    assert "failed: MemoryError" in row
    assert "≠" in cpu.line_of(one)


def test_inertia_is_the_sum_of_least_squared_distances(cpu: ModuleType) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 3)).astype(np.float32)
    centers = rng.normal(size=(7, 3)).astype(np.float32)
    differences = points[:, None, :].astype(np.float64) - centers.astype(np.float64)
    expected = np.square(differences).sum(axis=2).min(axis=1).sum()
    assert cpu.competition.inertia(points, centers) == pytest.approx(expected, rel=1e-12)


@pytest.mark.skipif(sys.platform != "linux", reason="what is inherited differs")
def test_memory_sees_the_copy_that_scikit_learn_makes(cpu: ModuleType) -> None:
    ballast = np.ones(1 << 24)  # a large parent must not hide the growth of its child
    settings = argparse.Namespace(threads=1)
    found = cpu.measure_memory(cpu.Shape(20_000, 64, 2), "float64", settings)
    assert found.peer_extra >= 0.9 * 64 * 8
    assert found.extra > 0
    assert ballast[-1] == 1.0


def test_a_peer_that_is_not_installed_is_named(
    cpu: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)  # makes its import fail
    peers, missing = cpu.competition.installed_peers()
    assert any(entry.startswith("faiss-cpu") for entry in missing)
    assert {"sklearn lloyd", "sklearn elkan"} <= {peer.title for peer in peers}


def test_missing_data_is_named(cpu: ModuleType, tmp_path: Path) -> None:
    settings = cpu.Settings(
        parts=("fits",),
        shapes=(),
        data=("mnist",),
        dtypes=("float32",),
        threads=1,
        repeats=1,
        budget=1.0,
        limit=math.inf,
        quick=True,
        mnist=tmp_path / "nowhere",
    )
    missing: list[str] = []
    assert list(settings.problems(missing)) == []
    assert len(missing) == 1 and missing[0].startswith("mnist (--mnist: there is no ")


def test_mnist_is_read_from_its_own_format(cpu: ModuleType, tmp_path: Path) -> None:
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8)
    header = np.array([2051, 2, 3, 4], dtype=">i4").tobytes()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
    points = sys.modules["data"].mnist(tmp_path)
    assert np.array_equal(points, pixels.reshape(2, 12))


@pytest.mark.parametrize("text", ["5000x2", "5000x2xK", "0x2x3", "5000,2,50"])
def test_a_cell_that_cannot_be_read_is_refused(cpu: ModuleType, text: str) -> None:
    with pytest.raises(SystemExit):
        cpu.main(["--cells", text])
