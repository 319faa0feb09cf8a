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
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from wolfmeans.bench import peers, problems, race

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# Those of the GPU need PyTorch; test_benchmarks_gpu.py has them.
MODULES = tuple(
    path.stem
    for path in BENCHMARKS.glob("*.py")
    if path.stem != "stopping_rules" and not path.stem.startswith("gpu")
)


@pytest.fixture(scope="module")
def bench(scripts) -> Iterator[SimpleNamespace]:
    """The modules of all scripts, and those of the package."""
    with scripts(MODULES) as found:
        yield SimpleNamespace(**vars(found), peers=peers, problems=problems, race=race)


@pytest.fixture(scope="module")
def quick(
    bench: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict, str, Path]:
    """One tiny cell through the command line: its JSON, its page and where that is."""
    folder = tmp_path_factory.mktemp("cpu")
    page = folder / "benchmarks.md"
    begin, end = bench.report_pages.marks(bench.cpu_report.MARK)
    page.write_text(f"Before.\n{begin}\nold\n{end}\nAfter.\n", encoding="utf-8")
    options = ("--quick", "--cells", "5000x2x50", "--data", "blobs", "segmentation")
    few = ("--dtype", "float32", "--repeats", "1", "--threads", "1")
    bench.cpu.main([*options, *few, "--json", str(folder / "all.json"), "--write", str(page)])
    record = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    return record, page.read_text(encoding="utf-8"), page


@pytest.mark.long
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
    assert [one["data"] for one in record["sparse"]] == ["uniform, 5.0%", "tf-idf, 5.0%"]
    for one in record["starts"]:
        assert one["starts"] == 20
        assert one["ratio"] == one["peer_seconds"] / one["seconds"]
    assert len(record["starts"]) == 1
    assert [one["speedup"] for one in record["scaling"]] == [{"1": 1.0}]
    assert len(record["dense"]) == len(record["memory"]) == 1
    assert record["start_up"]["fit_of_100"] > 0
    assert record["machine"]["vector unit"] and record["versions"]["scikit-learn"]


@pytest.mark.long
def test_scikit_learn_agrees(quick: tuple[dict, str, Path]) -> None:
    dense = [(one, ("sklearn lloyd", "sklearn elkan")) for one in quick[0]["races"]]
    for one, titles in [*dense, *((one, ("sklearn lloyd",)) for one in quick[0]["sparse"])]:
        for title in titles:
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


def test_page_without_marks_is_refused(bench: SimpleNamespace, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to replace\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="must contain"):
        bench.report_pages.write_between_marks(page, "text", "<!-- a -->", "<!-- b -->")
    assert page.read_text(encoding="utf-8") == "nothing to replace\n"


def wrong_peer(bench: SimpleNamespace):
    """A peer that moves its centers a little and counts one iteration less."""

    class Wrong(bench.peers.Method):
        title = "wrong"
        package = "numpy"

        def fit(self, problem, limits):
            fitted = bench.peers.ScikitLearn("lloyd").fit(problem, limits)
            return type(fitted)(fitted.centers + 0.01, fitted.iterations - 1)

    return Wrong()


def failing_peer(bench: SimpleNamespace):
    class Failing(bench.peers.Method):
        title = "failing"
        package = "numpy"

        def fit(self, problem, limits):
            raise MemoryError("too large")

    return Failing()


def test_a_peer_with_wrong_centers_is_marked(bench: SimpleNamespace) -> None:
    problem = bench.problems.uniform_problem(bench.problems.Shape(600, 2, 8), "float64")
    limits = bench.peers.Limits(100, 1)
    peers = [bench.peers.ScikitLearn("lloyd"), wrong_peer(bench), failing_peer(bench)]
    one = bench.race.race(problem, bench.peers.Wolfmeans(), peers, limits, repeats=2, budget=1.0)

    assert one.marked == ["wrong"]
    assert one.peers["wrong"].excess > 1e-6
    assert not one.peers["wrong"].same_inertia
    assert not one.peers["wrong"].same_iterations
    assert one.peers["sklearn lloyd"].same_inertia
    assert one.peers["failing"] == "failed: MemoryError('too large')"
    assert set(one.exact) == {"sklearn lloyd", "wrong"}  # a marked peer still counts

    row = bench.cpu_report.ratio_table([one]).splitlines()[-1]
    assert f"(≠ {one.peers['wrong'].excess:+.0e}, {one.peers['wrong'].iterations} it)" in row
    assert "failed: MemoryError" in row
    assert "≠" in bench.cpu_report.line_of(one)


@pytest.mark.parametrize(
    ("skip_slow", "always_repeated", "runs"),
    [(1e-9, 0.0, 1), (math.inf, 0.0, 3), (1e-9, math.inf, 3)],
)
def test_a_slow_peer_is_run_once_and_still_checked(
    bench: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    skip_slow: float,
    always_repeated: float,
    runs: int,
) -> None:
    monkeypatch.setattr(bench.race, "ALWAYS_REPEATED", always_repeated)
    problem = bench.problems.uniform_problem(bench.problems.Shape(600, 2, 8), "float64")
    ours, peers = bench.peers.Wolfmeans(), [wrong_peer(bench)]
    limits = bench.peers.Limits(100, 1)
    one = bench.race.race(problem, ours, peers, limits, repeats=3, budget=60.0, skip_slow=skip_slow)
    assert one.ours.repeats == 3
    assert one.peers["wrong"].repeats == runs
    assert one.marked == ["wrong"]


def test_inertia_is_the_sum_of_least_squared_distances(bench: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 3)).astype(np.float32)
    centers = rng.normal(size=(7, 3)).astype(np.float32)
    differences = points[:, None, :].astype(np.float64) - centers.astype(np.float64)
    expected = np.square(differences).sum(axis=2).min(axis=1).sum()
    for kind in (np.asarray, sparse.csr_array):
        assert bench.race.inertia(kind(points), centers) == pytest.approx(expected, rel=1e-12)


def test_tf_idf_has_zipf_columns_and_unit_rows(bench: SimpleNamespace) -> None:
    points = bench.data.tf_idf(bench.problems.Shape(500, 200, 1), 0.05, np.random.default_rng(0))
    assert points.nnz / (500 * 200) == pytest.approx(0.05, rel=0.1)
    assert points.power(2).sum(axis=1) == pytest.approx(np.ones(500))
    rows_with = np.bincount(points.indices, minlength=200)
    assert rows_with[:10].sum() > 5 * rows_with[100:110].sum()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="what is inherited differs")
def test_memory_sees_the_copy_that_scikit_learn_makes(bench: SimpleNamespace) -> None:
    ballast = np.ones(1 << 24)  # a large parent must not hide the growth of its child
    settings = argparse.Namespace(threads=1)
    found = bench.cpu_parts.measure_memory(
        bench.problems.Shape(400_000, 16, 2), "float64", settings
    )
    assert found.peer_extra >= 0.9 * 16 * 8
    assert found.extra > 0
    assert ballast[-1] == 1.0


def test_a_peer_that_is_not_installed_is_named(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)  # makes its import fail
    peers, missing = bench.peers.installed_peers()
    assert any(entry.startswith("faiss-cpu") for entry in missing)
    assert {"sklearn lloyd", "sklearn elkan"} <= {peer.title for peer in peers}


def test_missing_data_is_named(bench: SimpleNamespace, tmp_path: Path) -> None:
    settings = bench.cpu_parts.Settings(
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


def test_mnist_is_read_from_its_own_format(bench: SimpleNamespace, tmp_path: Path) -> None:
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8)
    header = np.array([2051, 2, 3, 4], dtype=">i4").tobytes()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(header + pixels.tobytes())
    points = bench.data.mnist(tmp_path)
    assert np.array_equal(points, pixels.reshape(2, 12))


@pytest.mark.parametrize("text", ["5000x2", "5000x2xK", "0x2x3", "5000,2,50"])
def test_a_cell_that_cannot_be_read_is_refused(bench: SimpleNamespace, text: str) -> None:
    with pytest.raises(SystemExit):
        bench.cpu.main(["--cells", text])


def test_the_search_benchmark_reports_every_method(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench.effort, "FIXED", 0.01)
    page = tmp_path / "effort.md"
    bench.effort.main(["--seeds", "1", "--only", "iris", "--out", str(page)])
    text = page.read_text(encoding="utf-8")
    assert "| iris | 150 × 4, K = 10 |" in text
    assert "In 0.01 s: wolfmeans is below scikit-learn on" in text


def test_the_search_benchmark_counts_who_is_below(bench: SimpleNamespace) -> None:
    row = bench.effort.Row("made up", "2 × 1, K = 1")
    for method, sse in (("scikit-learn", 12.0), ("wolfmeans", 10.0)):
        row.add("fixed", method, bench.effort.Outcome(sse, 1.0))
    assert row.excess("fixed", "scikit-learn") == pytest.approx(0.2)
    text = bench.effort.summary([row], breathing=False)
    assert "below scikit-learn on 1 of 1 data sets and above it on 0" in text
    assert "mean excess 0.000 % against 20.000 %" in text


def test_the_benchmark_out_of_core_compares_passes(bench: SimpleNamespace, tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("\n".join(bench.report_pages.marks(bench.out_of_core.MARK)), encoding="utf-8")
    pytest.importorskip("pyarrow")
    few = ("--megabytes", "1", "--passes", "2", "--repeats", "1", "--states", "bounds", "nothing")
    bench.out_of_core.main([*few, "--write", str(page)])
    assert page.read_text(encoding="utf-8").count("| npy, float32 |") == 10


@pytest.mark.long
def test_the_command_line_benchmark_checks_its_labels(
    bench: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    bench.command_line.main(["--rows", "400", "--turns", "1", "--write", str(page)])
    text = page.read_text(encoding="utf-8")
    assert "a CSV file of 400 × 10" in text
    assert "not those of `wolfmeans.KMeans` in Python: 0." in text
    assert "**" in text and "1 turns of each" in text
    data, labels = tmp_path / "d.csv", tmp_path / "l.csv"
    bench.command_line.make(data, 400)
    labels.write_text("label\n" + "9\n" * 400)
    assert bench.command_line.check(data, labels) == 400


def test_the_costs_of_engines_are_found_from_the_times_of_fits(bench: SimpleNamespace) -> None:
    module = bench.engine_choice
    costs = module.Costs(2e-9, 1e-3, 3e-5, 4e-12, 5e-9, 6e-10, 7e-12)
    timings = []
    for shape in module.SHAPES:
        for passes, seeding in ((5, False), (20, True)):
            work = module.Work(shape.n_clusters, 4, passes, seeding=seeding)
            seconds = costs.seconds(shape.n, shape.d, work, 4)
            timings.append(module.Timing(str(shape), "blobs", "cpu", seconds, passes, seeding))
    found = module.fit_costs(timings, 4)
    for name, value in vars(costs).items():
        assert getattr(found, name) == pytest.approx(value, rel=0.06), name


def test_the_way_to_the_gpu_is_not_its_engine(bench: SimpleNamespace) -> None:
    module = bench.engine_choice
    shape, work = module.Shape(1_000_000, 10, 8), module.Work(8, 1, 20)
    way = 4 * shape.n * shape.d / 1e10
    timing = module.Timing(str(shape), "blobs", "gpu", 1.0 + way, 20, False)
    found = module.fit_costs([timing], 1, copy=1e10)
    assert found.seconds(shape.n, shape.d, work, 1) == pytest.approx(1.0, rel=0.02)
    assert module.predicted(timing, {"GPU": found, "COPY": 1e10}, 4) == pytest.approx(
        1.0 + way, rel=0.02
    )


def test_the_choice_of_engines_is_measured(
    bench: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = bench.engine_choice
    monkeypatch.setattr(module, "gpu_name", lambda: None)
    target = tmp_path / "choice.json"
    module.main(["--quick", "--repeats", "1", "--threads", "1", "--json", str(target)])
    printed = capsys.readouterr().out
    assert "GPU none" in printed
    assert "CPU_FEW_COLUMNS = Costs(once=" in printed
    record = json.loads(target.read_text(encoding="utf-8"))
    assert record["figures"].keys() == {"CPU", "CPU_FEW_COLUMNS"}
    assert {timing["engine"] for timing in record["timings"]} == {"cpu"}
