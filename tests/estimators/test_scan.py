"""Scans: values fall along both axes, bands hold the optimum, and the text says what was found."""

import itertools
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import wolfmeans
from wolfmeans import KMeans, LowerBound, TrimmedKMeans
from wolfmeans.estimators.scan_result import ticks_of


def blobs(n_blobs=4, each=40, d=2, spread=12.0, seed=0):
    rng = np.random.default_rng(seed)
    places = rng.uniform(-spread, spread, size=(n_blobs, d))
    return (places[:, None] + rng.normal(size=(n_blobs, each, d))).reshape(-1, d)


@pytest.fixture(scope="module", name="X")
def points():
    return blobs()


@pytest.fixture(scope="module")
def result(X):
    return wolfmeans.scan(X, n_clusters=range(1, 8), alpha=[0.0, 0.05, 0.1], random_state=0)


def test_every_cell_is_a_fit_with_its_own_numbers(X, result):
    assert len(result.cells) == 21
    for cell in result.cells:
        assert cell.model.n_clusters == cell.n_clusters
        assert cell.inertia == cell.model.inertia_
        kind = KMeans if cell.alpha == 0 else TrimmedKMeans
        assert type(cell.model) is kind
    plain = result[3].model
    assert -plain.score(X) == result[3].inertia


def test_the_sse_falls_along_both_axes(result):
    for alpha in result.alphas:
        values = [cell.inertia for cell in result.along_clusters(alpha)]
        assert all(later <= sooner for sooner, later in itertools.pairwise(values))
    for k in result.n_clusters:
        values = [cell.inertia for cell in result.along_alpha(k)]
        assert all(later <= sooner for sooner, later in itertools.pairwise(values))


def test_bands_hold_what_many_starts_find(X, result):
    for k in (2, 4, 6):
        best = KMeans(k, n_init=20, random_state=1).fit(X).inertia_
        cell = result[k]
        assert cell.lower_bound <= best * (1 + 1e-12)
        assert cell.inertia <= best * 1.02


def test_bounds_fall_along_both_axes_as_the_optimum_does(result):
    for alpha in result.alphas:
        bounds = [cell.lower_bound or 0.0 for cell in result.along_clusters(alpha)]
        assert all(later <= sooner for sooner, later in itertools.pairwise(bounds))
    for k in result.n_clusters:
        bounds = [cell.lower_bound or 0.0 for cell in result.along_alpha(k)]
        assert all(later <= sooner for sooner, later in itertools.pairwise(bounds))


def test_it_finds_the_number_of_well_separated_blobs(result):
    assert max(result.along_clusters(0.0), key=lambda cell: cell.silhouette).n_clusters == 4
    assert "K = 4" in result.sentences()[0]
    assert result.needed(0.0) >= 4


@pytest.mark.parametrize("counts", [4, [1, 4]])
def test_a_scan_of_one_number_of_clusters_names_no_best_one(X, counts):
    result = wolfmeans.scan(X, n_clusters=counts, random_state=0)
    assert result.clearest(0.0) is None and result.best is None
    [sentence] = result.sentences()
    assert "highest" not in sentence and "the only K in this scan with a silhouette" in sentence
    assert 'class="best"' not in result._repr_html_()
    both = wolfmeans.scan(X, n_clusters=[3, 4], random_state=0)
    assert both.clearest(0.0) is both[4] and "K = 4 is best" in both.sentences()[0]


@pytest.mark.parametrize("factor", [1e-6, 0.3, 1.0, 1e4, 1e6])
def test_sums_of_squares_in_a_table_have_one_format(factor):
    X = factor * blobs(each=10)
    result = wolfmeans.scan(X, n_clusters=range(1, 6), random_state=0)
    for cell, (_, _, inertia, bound, *_) in zip(result, result.texts()[1:], strict=True):
        for text in (inertia, bound):
            digits = text.partition("e")[0].replace(".", "").lstrip("0")
            assert len(digits) == 6, text
        # Where one has an exponent, so has the other, unless the bound is below the next limit.
        if cell.lower_bound > 0.99 * cell.inertia:
            assert inertia.partition("e")[2] == bound.partition("e")[2]
        assert float(bound) <= cell.lower_bound
        assert float(inertia) == pytest.approx(cell.inertia, rel=1e-5)


@pytest.mark.parametrize(
    "numbers",
    [[3], [2, 3], range(2, 6), range(1, 13), range(2, 31), [2, 3, 4, 100], [5, 5000],
     range(1, 1001), [2, 4, 8, 16, 32, 64], range(995, 1005)],
)  # fmt: skip
def test_ticks_of_k_are_whole_within_the_scan_and_not_crowded(numbers):
    ticks = ticks_of(numbers)
    assert all(isinstance(tick, int) for tick in ticks)
    assert numbers[0] <= ticks[0] and ticks[-1] <= numbers[-1]
    assert len(ticks) >= min(2, len(numbers)) and ticks == sorted(set(ticks))
    # As if all were as close as the closest two, numbers have room on a line of 24 digits.
    apart = min((b - a for a, b in itertools.pairwise(ticks)), default=1)
    assert (1 + (ticks[-1] - ticks[0]) / apart) * len(str(ticks[-1])) <= 24
    if len(numbers) <= 4 and numbers[-1] < 10:
        assert ticks == list(numbers)


def test_nothing_is_certified_without_bounds(X):
    result = wolfmeans.scan(X, n_clusters=[2, 3], bound=None, random_state=0)
    assert result[2].lower_bound is None
    assert result.needed(0.0) is None
    assert "unknown" in str(result)


def test_the_simplified_silhouette_is_what_it_says(X, result):
    model = result[4].model
    distances = np.sqrt(((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2))
    own, other = np.sort(distances, axis=1)[:, :2].T
    assert result[4].simplified_silhouette == pytest.approx(np.mean((other - own) / other))


def test_weights_are_copies(X):
    doubled = wolfmeans.scan(np.repeat(X, 2, axis=0), n_clusters=[4], random_state=0)
    weighted = wolfmeans.scan(X, n_clusters=[4], sample_weight=np.full(len(X), 2.0), random_state=0)
    assert weighted[4].inertia == pytest.approx(doubled[4].inertia)
    assert weighted[4].silhouette == pytest.approx(doubled[4].silhouette)
    assert weighted[4].simplified_silhouette == pytest.approx(doubled[4].simplified_silhouette)
    assert weighted[4].calinski_harabasz == pytest.approx(doubled[4].calinski_harabasz)


def test_tables_text_and_figure(result, tmp_path):
    table = result.to_pandas()
    assert list(table["n_clusters"][:7]) == list(range(1, 8))
    assert (table["inertia"] >= table["lower_bound"].fillna(0.0)).all()
    assert str(result).count("\n") == 21 + 3
    assert "<table>" in result._repr_html_()
    figure = result.plot()
    assert len(figure.axes) == 3
    figure.savefig(tmp_path / "scan.png")
    assert (tmp_path / "scan.png").stat().st_size > 1000


def test_frames_lists_and_sparse_data_go_in(X):
    frame = pd.DataFrame(X, columns=["left", "right"])
    by_frame = wolfmeans.scan(frame, n_clusters=[2, 3], random_state=0)
    assert list(by_frame[2].model.feature_names_in_) == ["left", "right"]
    by_list = wolfmeans.scan(X.tolist(), n_clusters=[2, 3], random_state=0)
    assert by_list[2].inertia == by_frame[2].inertia
    by_csr = wolfmeans.scan(sparse.csr_array(X), n_clusters=[2, 3], random_state=0)
    assert by_csr[2].inertia == pytest.approx(by_frame[2].inertia)


def test_the_same_seed_gives_the_same_scan(X):
    first, second = (
        wolfmeans.scan(X, n_clusters=[2, 5], alpha=[0.0, 0.1], random_state=3) for _ in range(2)
    )
    assert first.columns() == second.columns()


def test_progress_is_told(X):
    told = []
    wolfmeans.scan(
        X, [2, 3], random_state=0, progress=lambda share, text: told.append((share, text))
    )
    assert told[-1] == (1.0, "done")
    assert any("K = 3" in text for _, text in told)


def test_what_cannot_be_scanned_is_said(X, result):
    with pytest.raises(ValueError, match="at least one"):
        wolfmeans.scan(X, n_clusters=[])
    with pytest.raises(KeyError, match="n_clusters=99"):
        result[99]


def test_bounds_from_samples_hold_together_and_prove_nothing(X, monkeypatch):
    asked = []

    def likely(*asked_for):
        confidence = asked_for[-1].confidence
        asked.append(confidence)
        return LowerBound(1e9 if len(asked) == 1 else 1.0, "subsampled", confidence, 0.0)

    monkeypatch.setattr(sys.modules["wolfmeans.estimators.scan"], "bound_in_units", likely)
    result = wolfmeans.scan(X, n_clusters=[2, 3, 4], alpha=[0.0, 0.1], random_state=0)
    assert asked == [pytest.approx(1 - 0.05 / 6)] * 6
    # The first one lies above all values: it failed, and is not handed on.
    assert result[4, 0.1].lower_bound is None
    assert {cell.lower_bound for cell in result.cells} == {None, 1.0}
    assert {cell.confidence for cell in result.cells} == {None, 0.95}
    assert result.needed(0.0) is None
    assert "proven" not in str(result)


def test_a_gap_in_the_numbers_of_clusters_proves_nothing():
    X = np.repeat([[0.0], [1.0], [5.0], [9.0]], 5, axis=0)
    with pytest.warns(UserWarning, match="distinct clusters"):
        result = wolfmeans.scan(X, n_clusters=[2, 5], random_state=0)
    assert result.needed(0.0) is None


def test_models_of_a_scan_know_the_bound(X):
    result = wolfmeans.scan(X, n_clusters=[3, 4], random_state=0)
    for cell in result:
        assert cell.model.certificate_.lower_bound == pytest.approx(cell.lower_bound)


def test_arguments_that_make_no_scan_are_named(X):
    assert wolfmeans.scan(X, 3, random_state=0).n_clusters == [3]
    for wrong in ([2.7], "23", [0], [True]):
        with pytest.raises(ValueError, match="whole numbers"):
            wolfmeans.scan(X, wrong)
    with pytest.raises(ValueError, match="cannot take one_column"):
        wolfmeans.scan(X, [2], alpha=[0.0, 0.1], one_column="exact")
    for scale in (1e200, 1e-200):
        with pytest.raises(ValueError, match="do not fit into float64"):
            wolfmeans.scan(X * scale, [2, 3])


def test_points_alone_in_their_cluster_are_no_praise(X):
    some = X[:12]
    result = wolfmeans.scan(some, n_clusters=[12], random_state=0)
    assert result[12].silhouette == 0.0
    assert result[12].inertia == 0.0
    assert " 0 " in str(result)


def test_numbers_of_clusters_that_cannot_be_are_refused_before_any_fit():
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match="n_samples=6 should be >= n_clusters=7"):
        wolfmeans.scan(X, range(2, 8))
    with pytest.raises(ValueError, match="for example range"):
        wolfmeans.scan(X, "2:5")
