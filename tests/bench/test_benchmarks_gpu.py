"""The benchmark on the GPU, in Triton's interpreter: its records, and that its checks can fail.

Nothing here looks at how long anything takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from interpreted import needs_triton

pytestmark = needs_triton

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("report_pages", *sorted(path.stem for path in BENCHMARKS.glob("gpu*.py")))
OPTIONS = ("--device", "cpu", "--quick", "--repeats", "1", "--kinds", "gauss", "--cap", "4")


@pytest.fixture(scope="module")
def bench(scripts) -> Iterator[SimpleNamespace]:
    with scripts(MODULES) as found:
        yield found


@pytest.fixture(scope="module")
def quick(bench: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """Tiny cells through the command line: their record, and the file that has it."""
    path = tmp_path_factory.mktemp("gpu") / "gpu.json"
    parts = ("--steps", "--fits", "--starts", "--n-starts", "2")
    bench.gpu.main([*OPTIONS, *parts, "--shapes", "90x2x4", "--output", str(path)])
    return json.loads(path.read_text(encoding="utf-8")), path


@pytest.mark.long
def test_the_record_has_every_figure(quick: tuple[dict, Path]) -> None:
    record, _ = quick
    assert [(one["part"], one["data"]) for one in record["cells"]] == [
        ("steps", "gauss"),
        ("fits", "gauss"),
    ]
    for one in record["cells"]:
        assert one["shape"] == {"n": 90, "d": 2, "n_clusters": 4}
        ours = one["outcomes"]["wolfmeans"]
        assert len(ours["seconds"]) == 1 and ours["seconds"][0] > 0
        assert ours["device_seconds"] == []  # there is no device
        assert ours["iterations"] <= one["asked"]
        assert ours["excess"] == 0
        for verdict in (ours["verdict"], ours["returned"]):
            assert verdict == {"checked": 90, "wrong": 0, "other": 0}
    steps, fits = record["cells"]
    assert steps["asked"] == steps["outcomes"]["wolfmeans"]["iterations"] == 3
    assert steps["equality"]["equal"] and steps["equality"]["differing"] == []
    assert "PyTorch" in steps["outcomes"] and "PyTorch" not in fits["outcomes"]
    assert fits["equality"] is None  # the data is the same
    assert [one["equal"] for one in record["starts"]] == [True]
    assert {"GPU", "CPU"} <= set(record["machine"])
    assert {"wolfmeans", "torch", "triton"} <= set(record["versions"])


def test_missing_peers_are_named(quick: tuple[dict, Path]) -> None:
    missing = quick[0]["missing"]
    assert [entry.partition(" ")[0] for entry in missing] == ["flashlib", "flash-kmeans"]


def test_the_page_is_made_of_records(
    bench: SimpleNamespace, quick: tuple[dict, Path], tmp_path: Path
) -> None:
    page = tmp_path / "benchmarks.md"
    begin, end = bench.report_pages.marks(bench.gpu_report.MARK)
    page.write_text(f"Before.\n{begin}\nold\n{end}\nAfter.\n", encoding="utf-8")
    bench.gpu.main(["--report", str(quick[1]), "--write", str(page)])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n") and "\nold\n" not in text
    assert len([line for line in text.splitlines() if line.startswith("| 90, 2, 4 | gauss |")]) == 3
    assert "Wrong labels: wolfmeans 0 of 180." in text
    assert "equal to those of the CPU engine: 1 of 1 cells" in text


def problem_of(bench: SimpleNamespace, n: int = 80):
    shape = bench.gpu_options.Shape(n, 3, 5)
    return bench.gpu_contenders.problem_of("gauss", shape, "cpu")


def test_wrong_labels_are_counted(bench: SimpleNamespace) -> None:
    problem = problem_of(bench)
    distances = bench.gpu_checks.canonical_distances(problem.points, problem.start)
    labels = distances.argmin(dim=1)
    judged = bench.gpu_checks.judge(problem.points, problem.start, labels, 1e10)
    assert (judged.checked, judged.wrong, judged.other) == (80, 0, 0)
    labels[:7] = distances[:7].argmax(dim=1)
    judged = bench.gpu_checks.judge(problem.points, problem.start, labels, 1e10)
    assert (judged.wrong, judged.other, judged.rate) == (7, 7, 7 / 80)


def test_a_tie_is_not_wrong_but_has_a_label(bench: SimpleNamespace) -> None:
    import torch

    points, centers = torch.tensor([[0.0], [1.0]]), torch.tensor([[-1.0], [1.0]])
    for tied, other in ((0, 0), (1, 1)):
        judged = bench.gpu_checks.judge(points, centers, torch.tensor([tied, 1]), 1e10)
        assert (judged.wrong, judged.other) == (0, other)


def test_distances_are_the_canonical_ones(bench: SimpleNamespace) -> None:
    from wolfmeans.exact.distances import DenseKernels

    problem = problem_of(bench)
    expected = DenseKernels(problem.points.numpy()).to_all(slice(None), problem.start.numpy())
    found = bench.gpu_checks.canonical_distances(problem.points, problem.start)
    assert np.array_equal(found.numpy(), expected)
    inertia = bench.gpu_checks.inertia_of(problem.points, problem.start)
    assert inertia == pytest.approx(expected.min(axis=1).sum(), rel=1e-12)


def test_a_sample_is_spread_over_all_rows(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.gpu_checks, "LEAST_ROWS", 10)
    rows = bench.gpu_checks.rows_to_check(1000, 2, 5, 200.0)
    assert len(rows) == 20 and rows[0] == 0 and rows[-1] == 950
    assert len(bench.gpu_checks.rows_to_check(1000, 2, 5, 1e10)) == 1000


def test_other_bits_are_noticed(bench: SimpleNamespace) -> None:
    problem = problem_of(bench)
    model = bench.gpu_contenders.model_of(problem.start, 50, engine="reference").fit(problem.points)
    assert bench.gpu_checks.differences(model, model) == []
    moved = bench.gpu_contenders.model_of(problem.start, 50, engine="reference").fit(problem.points)
    moved.cluster_centers_ = np.nextafter(moved.cluster_centers_, np.float32(np.inf))
    moved.labels_ = moved.labels_.clone()
    moved.labels_[0] += 1
    assert bench.gpu_checks.differences(model, moved) == ["centers", "labels"]


@pytest.fixture
def peer(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch):
    """The adapter of flash-kmeans around a library like it: it writes into its start."""

    def lloyd(x, n_clusters, *, max_iters, tol, init_centroids):
        assert tol < 0 and x.ndim == 3
        ended = bench.gpu_contenders.PlainPyTorch().run(x[0], init_centroids[0], max_iters)
        init_centroids.fill_(float("nan"))
        return ended.labels[None].int(), ended.centers[None], max_iters

    library = SimpleNamespace(batch_kmeans_Euclid=lloyd)
    monkeypatch.setitem(sys.modules, "flash_kmeans", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "flash_kmeans.kmeans_triton_impl", library)
    return bench.gpu_contenders.FlashKMeans(autotune=False)


def test_peers_get_a_copy_and_are_judged_by_the_centers_that_assigned(
    bench: SimpleNamespace, peer
) -> None:
    problem = problem_of(bench, n=400)
    start = problem.start.clone()
    ended = peer.run(problem.points, problem.start, 2)
    assert bool((problem.start == start).all())
    lane = bench.gpu_timing.Lane("cpu", walls=[1.0], ended=ended)
    outcome = bench.gpu_parts._outcome(peer, lane, problem, 1e10, 100.0)
    assert outcome.returned.wrong > 0  # the centers have moved on
    assert outcome.verdict.wrong == 0
    assert outcome.iterations == 2


def test_the_faster_peer_sets_the_pace(bench: SimpleNamespace) -> None:
    records = bench.gpu_report
    verdict = records.Verdict(100, 0, 0)

    def outcome(*seconds: float, wrong: int = 0):
        judged = replace(verdict, wrong=wrong)
        return records.Outcome(20, list(seconds), [], judged, judged, 0.0)

    cell = records.Cell(
        part="steps",
        data="blobs",
        shape=bench.gpu_options.SHAPES[0],
        asked=20,
        fixpoint=False,
        outcomes={
            "wolfmeans": outcome(1.0, 9.0, 2.0),
            "flashlib": outcome(4.0),
            "flash-kmeans": outcome(6.0, wrong=3),
            "PyTorch": "failed: MemoryError()",
        },
    )
    slow = replace(cell, data="gauss", outcomes={**cell.outcomes, "flashlib": outcome(1.0)})
    ours = replace(slow.outcomes["wolfmeans"], iterations=7)
    slow = replace(slow, fixpoint=True, outcomes={**slow.outcomes, "wolfmeans": ours})
    assert cell.fastest == "flashlib" and cell.ratio("flashlib") == 2.0
    assert cell.ratio("PyTorch") is None
    found = records.summary([cell, slow])
    assert found["fastest"] == pytest.approx(1.0) and found["least"] == 0.5
    assert found["short"] == [("steps", "gauss", "1000000x2x100")]
    report = records.Report({}, {}, "", "", [], cells=[cell, slow])
    text = bench.gpu_report.markdown([report])
    assert "Slower than the faster peer, 1 cells: 1000000x2x100 gauss." in text
    assert "flash-kmeans 6 of 200; 3 % at worst" in text
    assert "In 1 cells wolfmeans was done before the 20 iterations" in text
    assert "failed" in text
    again = records.decoded(records.Report, json.loads(records.as_json(report)))
    assert again == report


def test_a_failing_contender_does_not_end_the_run(bench: SimpleNamespace, capsys) -> None:
    def fail():
        raise MemoryError("too large")

    lane = bench.gpu_timing.Lane("cpu")
    lane.run(fail)
    lane.run(lambda: 1 / 0)  # not called any more
    assert lane.failure == "failed: MemoryError('too large')"
    assert not lane.wants_more(5, 1.0)
    assert "too large" in capsys.readouterr().err


def test_the_time_limit_leaves_out_and_says_so(
    bench: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.gpu.main([*OPTIONS, "--large", "--starts", "--time-limit", "0"])
    told = capsys.readouterr().out
    assert "Missing:" in told and "large (the time limit); starts gauss" in told


@pytest.mark.parametrize("text", ["5000x2", "0x2x3"])
def test_a_shape_that_cannot_be_read_is_refused(bench: SimpleNamespace, text: str) -> None:
    with pytest.raises(SystemExit):
        bench.gpu.main(["--shapes", text])
