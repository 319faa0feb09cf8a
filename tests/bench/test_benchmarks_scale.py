"""The model of the cost of many points: it runs, and what it counts is what happens.

Nothing here looks at how long anything takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from wolfmeans.bench.problems import Shape
from wolfmeans.engines.places import sampling_in_parts
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.limbs import range_of
from wolfmeans.seeding.in_parts import parallel_seeds_in_parts

pytest.importorskip("distributed")
MODULES = (
    "report_pages", "on_dask", "out_of_core", "scale_model", "scale_measured", "scale_report",
    "scale",
)  # fmt: skip


@pytest.fixture(scope="module")
def scale(scripts) -> Iterator[SimpleNamespace]:
    with scripts(MODULES) as found:
        yield found


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_quick_run_writes_its_tables(scale: SimpleNamespace, tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    marks = scale.report_pages.marks(scale.scale_report.MARK)
    page.write_text(
        f"Before.\n{marks[0]}\nfigures of yesterday\n{marks[1]}\nAfter.\n", encoding="utf-8"
    )
    scale.scale.main(["--quick", "--write", str(page)])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Before.") and text.endswith("After.\n") and "of yesterday" not in text
    for words in ("t_task", "within a factor of 1.5", "10^12", "a late step"):
        assert words in text
    for where in ("memory, 4 parts", "file, ", "Dask, 2 workers, 8 blocks"):
        assert f"| {where}" in text


def test_known_costs_are_found(scale: SimpleNamespace) -> None:
    model = scale.scale_model
    work = model.Work(2e-9, 3e-10, 4e-10, 5e-11)
    shapes = [Shape(1000, d, k) for d, k in ((2, 3), (8, 20), (16, 5), (4, 50), (30, 30))]
    found = model.relative_fit(
        [model.Work.features(shape) for shape in shapes], [work.first(s) for s in shapes]
    )
    assert found == pytest.approx([2e-9, 3e-10, 4e-10, 5e-11], rel=1e-6)


@pytest.mark.parametrize(("groups", "inner", "levels", "top"), [
    (1, 0, 0, 1), (8, 0, 0, 8), (9, 2, 1, 2), (64, 8, 1, 8), (65, 9 + 2, 2, 2), (512, 72, 2, 8),
])  # fmt: skip
def test_the_tree_is_that_of_the_cluster(
    scale: SimpleNamespace, groups: int, inner: int, levels: int, top: int
) -> None:
    assert scale.scale_model.tree(groups) == (inner, levels)
    assert scale.scale_model.top(groups) == top


@pytest.mark.parametrize("n", [16, 1_000, 100_000])
def test_sums_take_as_many_integers_as_the_model_says(scale: SimpleNamespace, n: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, 16)).astype(np.float32)
    points = PartsWorkspace(MemoryPlace([MemoryPart(X)]))
    assert range_of(X).high == points.grids.rows.high
    assert points.grids.sums.shape == scale.scale_model.limbs(16 * n)


def test_a_round_of_seeding_tells_as_many_values_as_the_model_says(
    scale: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wolfmeans.oversampling as oversampling

    n, k, bits = 20_000, 10, 8
    told: list[int] = []
    plain = sampling_in_parts.AllParts.listed

    def counted(self, *given):
        found = plain(self, *given)
        told.append(len(found.hashes))
        return found

    monkeypatch.setattr(sampling_in_parts.AllParts, "listed", counted)
    monkeypatch.setattr(oversampling, "_MOST_BUCKET_BITS", bits)
    monkeypatch.setattr(scale.scale_model, "BUCKETS", 1 << bits)
    X = np.random.default_rng(0).normal(size=(n, 4))
    points = PartsWorkspace(MemoryPlace([MemoryPart(X[:5000]), MemoryPart(X[5000:])]))
    parallel_seeds_in_parts(points, k, np.random.RandomState(0))
    assert np.mean(told[-5:]) == pytest.approx(scale.scale_model.listed(n, k), rel=0.1)
