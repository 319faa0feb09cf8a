"""What is added to a page: names, ids, colors, comparisons, distributions, maps, foreign labels."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans as OtherKMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from page_reader import HOSTILE, Document, points
from wolfmeans import KMeans, SphericalKMeans, TrimmedKMeans, report
from wolfmeans.commands import cli
from wolfmeans.fitting.evaluate import judge
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.page import markup
from wolfmeans.views.page.given import Column
from wolfmeans.views.portrait import portrait
from wolfmeans.views.portrait.distributions import LEVELS


def data_of(page):
    return json.loads(Document(page.html).blocks["application/json"])


@pytest.fixture(scope="module")
def model():
    return KMeans(4, random_state=0).fit(points())


@pytest.fixture(scope="module")
def frame():
    """Points with ids, words and missing values beside them."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(points(), columns=["a", "b", "c"])
    made.insert(0, "key", [f"K{i:03}" for i in range(len(made))])
    made["town"] = rng.choice(["Rome", "Oslo", "Bern"], len(made))
    made["size"] = rng.normal(size=len(made))
    made.loc[3, "town"] = None
    made.loc[5, "size"] = np.nan
    return made


@pytest.fixture(scope="module")
def named(frame):
    return KMeans(4, random_state=0).fit(frame[["a", "b", "c"]])


# --- Names -----------------------------------------------------------------------------------


def test_names_of_clusters_are_shown_everywhere(model):
    names = ["north", HOSTILE, "east", "west"]
    page = report.page(model, points(), cluster_names=names, compare={"half": points()[:, 0] > 0})
    found = Document(page.html)
    order = np.argsort(-np.bincount(model.labels_), kind="stable")
    by_size = [names[k] for k in order]
    assert [row[0] for row in found.rows["summary"][1:]] == by_size
    assert [row[0] for row in found.rows["clusters by half"][1:-1]] == by_size
    assert [row[:2] for row in found.rows["clusters"][1:]] == [
        [n, str(k)] for k, n in enumerate(names)
    ]
    nearest = found.rows["clusters"][0].index("nearest")
    assert {row[nearest] for row in found.rows["clusters"][1:]} <= set(names)
    assert found.rows["profiles"][0][3:] == names
    assert {row[0] for row in found.rows["typical rows"][1:]} == set(names)
    assert data_of(page)["names"] == names
    assert data_of(page)["by_size"] == order.tolist()


def test_some_clusters_can_have_names(model):
    page = report.page(model, points(), cluster_names={2: "large"})
    assert data_of(page)["names"] == ["0", "1", "large", "3"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "4 clusters and 2 names"),
        ("abcd", "4 clusters and 1 names"),
        ({7: "x"}, "there is no cluster '7'"),
        (["a", "b", "a", "c"], "two clusters would be called 'a'"),
        ({0: "3"}, "two clusters would be called '3'"),
    ],
)
def test_names_that_do_not_fit_are_refused(model, names, message):
    with pytest.raises(ValueError, match=message):
        report.page(model, points(), cluster_names=names)


# --- Ids, colors, comparisons ----------------------------------------------------------------


def test_rows_are_called_by_their_ids(named, frame):
    page = report.page(named, frame, id="key")
    found, shown = Document(page.html), data_of(page)
    assert shown["ids"] == {"name": "key", "values": frame["key"].tolist()}
    typical = named.typical_rows(frame[["a", "b", "c"]], 3)
    summary = {row[0]: row[3] for row in found.rows["summary"][1:]}
    for k in range(4):
        assert summary[str(k)] == ", ".join(frame["key"][typical[k]])
    header, *rows = found.rows["typical rows"]
    assert header[:2] == ["cluster", "key"]
    strongest = header[2:]
    assert sorted(strongest) == ["a", "b", "c"]
    for row in rows:
        [own] = frame[frame["key"] == row[1]][strongest].to_numpy()
        read = [float(value.replace("−", "-")) for value in row[2:]]
        assert read == pytest.approx(own, rel=1e-3)


@pytest.mark.parametrize("how", ["series", "array", "dict"])
def test_ids_may_be_given_beside_the_data(model, frame, how):
    keys = frame["key"]
    given = {"series": keys, "array": keys.to_numpy(), "dict": {"my key": keys.to_numpy()}}[how]
    shown = data_of(report.page(model, points(), id=given))["ids"]
    assert shown["name"] == {"series": "key", "array": "id", "dict": "my key"}[how]
    assert shown["values"] == keys.tolist()


def test_columns_that_are_not_there_are_named(named, frame):
    with pytest.raises(ValueError, match="id: X has no column 'none'; it has key, a, b"):
        report.page(named, frame, id="none")
    with pytest.raises(ValueError, match="color must have one entry for each row: X has 120 rows"):
        report.page(named, frame, color=[1, 2, 3])


def test_a_known_label_colors_the_points_and_is_compared(named, frame):
    page = report.page(named, frame, color="town")
    shown = data_of(page)["color"]
    counts = frame["town"].value_counts()
    assert shown["levels"] == [*counts.index, "missing"]
    values = np.array(decoded(shown["values"]))
    expected = frame["town"].fillna("missing")
    assert [shown["levels"][value] for value in values] == expected.tolist()
    assert "clusters by town" in Document(page.html).rows


def test_numbers_color_the_points_on_a_scale(model):
    X = points()
    shown = data_of(report.page(model, X, color={"first": X[:, 0]}))["color"]
    assert shown["levels"] is None
    assert decoded(shown["values"]).tolist() == X[:, 0].tolist()


def test_a_cross_table_counts_the_points(named, frame):
    page = report.page(named, frame, compare=["town", "size"])
    found = Document(page.html)
    header, *rows = found.rows["clusters by town"]
    assert header[:2] == ["cluster", "points"] and header[-1] == "missing"
    expected = pd.crosstab(named.labels_, frame["town"].fillna("missing"))
    for row in rows[:-1]:
        own = expected.loc[int(row[0])]
        assert int(row[1]) == own.sum()
        for level, text in zip(header[2:], row[2:], strict=True):
            many = 0 if text == "–" else int(text.split(" (")[0])
            assert many == own[level]
            if many:
                share = 100 * many / own.sum()
                assert float(text.split("(")[1].rstrip("%)")) == pytest.approx(share, abs=0.51)
    assert rows[-1][0] == "all" and rows[-1][1] == "120"
    index = adjusted_rand_score(frame["town"].fillna("missing"), named.labels_)
    assert f"Adjusted Rand index: {round(index, 2) + 0.0:.2f}." in found.texts["p"]


def test_numbers_are_compared_by_ranges(named, frame):
    header, *rows = Document(report.page(named, frame, compare="size").html).rows[
        "clusters by size"
    ]
    levels = header[2:]
    assert len(levels) == 6 and levels[0].startswith("up to") and levels[-1] == "missing"
    totals = [int(text.split(" (")[0]) for text in rows[-1][2:]]
    assert sum(totals) == 120 and totals[-1] == 1
    # 119 values in five ranges of about the same size.
    assert min(totals[:-1]) >= 23 and max(totals[:-1]) <= 25


def test_rare_words_are_counted_together():
    words = np.repeat([f"w{i}" for i in range(30)], np.arange(40, 10, -1))
    levels, places = Column("word", words).levels()
    assert levels == [*(f"w{i}" for i in range(19)), "other"]
    assert np.bincount(places)[-1] == sum(range(11, 22))


def test_further_columns_of_a_frame_are_left_out_of_the_data(named, frame):
    page = report.page(named, frame, id="key")
    assert sorted(data_of(page)["profiles"]["names"]) == ["a", "b", "c"]
    pipe = make_pipeline(StandardScaler(), KMeans(3, random_state=0)).fit(frame[["a", "b", "c"]])
    shown = data_of(report.page(pipe, frame, id="key", compare="town"))
    assert sorted(column["name"] for column in shown["columns"]["list"]) == ["a", "b", "c"]
    values = {column["name"]: decoded(column["values"]) for column in shown["columns"]["list"]}
    np.testing.assert_allclose(values["b"], frame["b"], rtol=1e-6)


def test_hostile_ids_levels_and_names_do_nothing(model):
    texts = np.array([HOSTILE, "<b>x</b>"] * 60)
    page = report.page(
        model, points(), id=texts, color=texts, compare={HOSTILE: texts}, cluster_names={0: HOSTILE}
    )
    found = Document(page.html)
    assert found.tags.count("script") == 3 and "b" not in found.tags
    assert found.rows[f"clusters by {HOSTILE}"][0][2:] == sorted([HOSTILE, "<b>x</b>"])


def decoded(entry):
    import base64

    if isinstance(entry, list):
        return np.array([np.nan if value is None else value for value in entry])
    return np.frombuffer(base64.b64decode(entry["bytes"]), f"<{entry['kind']}")


# --- Distributions ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_distributions_are_those_of_the_clusters(form):
    X = np.maximum(points(d=5), 0)
    model = KMeans(3, random_state=0).fit(form(X))
    shown = portrait(model, form(X), replay=False, n_distributions=4)
    found = shown.distributions
    assert [one.column for one in found.columns] == shown.profiles.order[:4].tolist()
    assert found.n_rows == 120 and not found.sampled
    for one in found.columns:
        bins = one.histograms.shape[1]
        edges = np.linspace(one.low, one.high, bins + 1)
        np.testing.assert_array_equal(one.values, X[:, one.column])
        for k in range(3):
            own = X[model.labels_ == k, one.column]
            np.testing.assert_allclose(one.quantiles[k], np.quantile(own, LEVELS))
            counts = np.histogram(np.clip(own, one.low, one.high), edges)[0]
            np.testing.assert_allclose(one.histograms[k], counts / len(own), atol=1.01 / len(own))
            np.testing.assert_allclose(one.histograms[k].sum(), 1.0)
            rows = shown.typical[k]
            np.testing.assert_array_equal(one.typical[k], X[rows, one.column])


def test_weights_count_as_copies_in_distributions():
    X, weights = points(), np.random.default_rng(0).integers(1, 4, 120)
    model = KMeans(3, random_state=0).fit(X, sample_weight=weights)
    one = portrait(model, X, sample_weight=weights, replay=False, n_distributions=1)
    shown = one.distributions.columns[0]
    for k in range(3):
        inside = model.labels_ == k
        copies = np.repeat(X[inside, shown.column], weights[inside])
        expected = np.quantile(copies, LEVELS, method="inverted_cdf")
        np.testing.assert_array_equal(shown.quantiles[k], expected)


def test_few_whole_numbers_have_a_bar_each():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 100), rng.normal(size=100)])
    model = KMeans(2, random_state=0).fit(X)
    found = portrait(model, X, replay=False, n_distributions=2).distributions
    [one] = [one for one in found.columns if one.column == 0]
    assert (one.low, one.high, one.whole) == (-0.5, 1.5, True)
    share = X[model.labels_ == 0, 0].mean()
    np.testing.assert_allclose(one.histograms[0], [1 - share, share])


def test_distributions_of_many_rows_come_from_a_sample(monkeypatch):
    monkeypatch.setattr("wolfmeans.views.portrait.distributions._MOST_ROWS", 50)
    X = points()
    page = report.page(KMeans(3, random_state=0).fit(X), X)
    assert "a sample of 50 of 120 points" in Document(page.html).texts["p"]


def test_standardized_columns_have_distributions_in_their_own_units():
    raw = points() * [1.0, 50.0, 1e-3] + [7.0, -1e3, 0.0]
    preparation = Preparation.standardizing(("a", "b", "c"), raw)
    X = preparation.apply(raw)
    model = KMeans(3, random_state=0).fit(X)
    shown = data_of(report.page(model, X, names=list("abc"), preparation=preparation))["columns"]
    for column in shown["list"]:
        values = raw[:, "abc".index(column["name"])]
        np.testing.assert_allclose(decoded(column["values"]), values, rtol=1e-5)
        medians = decoded(column["quantiles"]).reshape(3, 5)[:, 2]
        expected = [np.median(values[model.labels_ == k]) for k in range(3)]
        np.testing.assert_allclose(medians, expected, rtol=1e-5)


# --- Maps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [6, 150])
def test_further_axes_are_the_next_principal_components(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, d)) * np.geomspace(9, 1, d)
    model = KMeans(3, random_state=0).fit(X)
    shown = portrait(model, X, replay=False).map
    exact = PCA(4).fit(X)
    np.testing.assert_allclose(shown.more.explained, exact.explained_variance_ratio_[2:], rtol=1e-2)
    expected = np.abs(exact.transform(X)[:, 2:])
    np.testing.assert_allclose(np.abs(shown.more.points), expected, atol=0.05 * expected.max())


def test_a_nonlinear_map_comes_where_two_components_say_little():
    rng = np.random.default_rng(0)
    X = 6.0 * rng.normal(size=(8, 20))[rng.integers(0, 8, 200)] + rng.normal(size=(200, 20))
    model = KMeans(8, random_state=0).fit(X)
    first, again = (portrait(model, X, replay=False, nonlinear="auto") for _ in range(2))
    assert sum(first.map.explained) < 0.5
    np.testing.assert_array_equal(first.nonlinear.points, again.nonlinear.points)
    # Near neighbours are in the same cluster.
    away = np.linalg.norm(first.nonlinear.points[:, None] - first.nonlinear.points, axis=2)
    np.fill_diagonal(away, np.inf)
    assert (model.labels_[away.argmin(axis=1)] == model.labels_).mean() > 0.95
    page = report.page(model, X, replay=False)
    assert data_of(page)["map"]["nonlinear"]["method"] == "t-SNE"
    assert "t-SNE of 200 points" in data_of(page)["captions"]["nonlinear"]
    flat = portrait(KMeans(4, random_state=0).fit(points()), points(), nonlinear="auto")
    assert sum(flat.map.explained) >= 0.5 and flat.nonlinear is None
    assert data_of(report.page(model, X, replay=False, nonlinear=None))["map"]["nonlinear"] is None


def test_a_nonlinear_map_of_many_points_places_a_sample(monkeypatch):
    monkeypatch.setattr("wolfmeans.views.portrait.nonlinear._MOST_ROWS", 60)
    model = KMeans(4, random_state=0).fit(points())
    found = portrait(model, points(), replay=False, nonlinear="t-sne").nonlinear
    assert found.n_placed == np.isfinite(found.points[:, 0]).sum() == 60


def test_a_nonlinear_map_that_is_not_there_is_told(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match="pip install umap-learn"):
        report.page(model, points(), nonlinear="umap")
    with pytest.raises(ValueError, match="nonlinear must be auto, t-sne, umap or None"):
        report.page(model, points(), nonlinear="pca")


# --- Labels from elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numbers", "words", "noise"])
def test_a_page_of_labels_shows_what_was_verified(kind):
    X = points()
    labels = OtherKMeans(4, n_init=1, random_state=0).fit(X).labels_
    if kind == "words":
        labels = np.array(["red", "green", "blue", "gray"])[labels]
    if kind == "noise":
        labels = np.where(np.arange(120) % 10 == 0, -1, labels)
    found = judge(X, labels, random_state=0)
    page = report.page(labels=labels, X=X)
    read = Document(page.html)
    assert [tuple(row) for row in read.rows["certificate"][1:]] == found.rows()
    assert found.verdict in read.texts["p"] and "judged here as a K-means clustering" in page.html
    assert "run" not in read.values("id") and data_of(page)["map"]["replay"] is None
    own = np.unique(labels[labels.astype(str) != "-1"]).astype(str).tolist()
    assert data_of(page)["names"] == own
    assert data_of(page)["points"] == [int(np.sum(labels.astype(str) == name)) for name in own]
    assert ("12 points in no cluster" in read.texts["p"]) == (kind == "noise")


def test_centers_and_typical_rows_of_labels_are_those_of_the_means():
    X = points()
    labels = (X[:, 0] > 3).astype(int) * 5
    shown = portrait(X=X, labels=labels)
    assert shown.cluster_names == ("0", "5")
    for k, label in enumerate((0, 5)):
        inside = np.flatnonzero(labels == label)
        mean = X[inside].mean(axis=0)
        np.testing.assert_allclose(shown.profiles.means[k], mean)
        away = ((X[inside] - mean) ** 2).sum(axis=1)
        assert shown.typical[k].tolist() == inside[np.argsort(away)[:3]].tolist()
        assert shown.clusters[k].sse == pytest.approx(away.sum())


def test_margins_of_labels_are_negative_beyond_the_border():
    X = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]])
    shown = portrait(X=X, labels=[0, 0, 0, 0, 1, 1]).margins
    means = np.array([3.0, 10.5])
    own, other = np.abs(X[3, 0] - means)
    assert shown.values[3] == pytest.approx((other - own) / own) and shown.values[3] < 0
    assert (np.delete(shown.values, 3) > 0).all()


def test_a_clustering_that_can_be_improved_gets_no_tick():
    X = np.repeat([0.0, 1.0, 100.0, 101.0], 100)[:, None]
    labels = np.repeat([0, 1], 200)
    marks = []
    for wrong in (0, 1):
        labels[200] = 1 - wrong
        page = report.page(labels=labels, X=X)
        marks.append(page.html.split('aria-hidden="true">')[1][0])
    assert marks[0] == "✓" and marks[1] != "✓"


def test_a_judgement_of_other_labels_is_refused():
    X = points()
    one, other = (X[:, 0] > 3).astype(int), (X[:, 1] > 3).astype(int)
    assert report.page(labels=one, X=X, judgement=judge(X, one, method=None))
    with pytest.raises(ValueError, match="not that of these labels"):
        report.page(labels=one, X=X, judgement=judge(X, other, method=None))


def test_a_judgement_without_a_bound_claims_none():
    X = points()
    labels = (X[:, 0] > 3).astype(int)
    found = judge(X, labels, method=None)
    page = report.page(labels=labels, X=X, judgement=found)
    assert "smaller" not in Document(page.html).texts["p"].replace("smaller is better", "")
    assert 'aria-hidden="true">?<' in page.html


def test_labels_may_be_a_column_of_the_frame(frame):
    full = frame.drop(columns=["size"]).fillna({"town": "Rome"})
    page = report.page(X=full, labels="town", id="key", outlier="Oslo")
    assert data_of(page)["names"] == ["Bern", "Rome"]
    assert sorted(data_of(page)["profiles"]["names"]) == ["a", "b", "c"]


def test_a_missing_label_is_told_with_its_row(frame):
    with pytest.raises(ValueError, match="first at row 3; leave these rows out, or give them"):
        report.page(X=frame.drop(columns=["size"]), labels="town", id="key")
    with pytest.raises(ValueError, match="labels are missing, the first at row 1"):
        judge(np.eye(3), [0.0, np.nan, 1.0])


def test_models_of_others_are_asked_for_their_labels():
    other = OtherKMeans(2, n_init=1).fit(points())
    with pytest.raises(TypeError, match=r"report.page\(labels=model.labels_, X=X\)"):
        report.page(other, points())
    with pytest.raises(TypeError, match="either a fitted model or labels"):
        report.page(X=points())
    with pytest.raises(TypeError, match="a page needs X"):
        report.page(labels=other.labels_)


def test_the_plain_words_never_promise_more_than_the_bound(model):
    certificate = replace(
        model.certificate_, lower_bound=model.inertia_ / 1.0661, lower_bound_confidence=1.0
    )
    shown = KMeans(4, random_state=0).fit(points())
    shown.certificate_ = certificate
    text = Document(report.page(shown, points()).html).texts["p"]
    # 1 - 1/1.0661 is 6.2002 %.
    assert "more than 6.3 % smaller." in text
    shown.certificate_ = replace(certificate, lower_bound_confidence=0.95)
    text = Document(report.page(shown, points()).html).texts["p"]
    assert "more than 6.3 % smaller, with 95% confidence." in text


def test_the_plain_words_say_what_the_inertia_is():
    X = np.abs(points()) + 1.0
    text = Document(report.page(SphericalKMeans(2, random_state=0).fit(X), X).html).texts["p"]
    assert "it is the sum of cosine distances" in text and "squared" not in text
    text = Document(report.page(KMeans(2, random_state=0).fit(X), X).html).texts["p"]
    assert "it is the sum of squared distances to the nearest center, and smaller" in text


def test_trimmed_pages_compare_with_clusterings_that_leave_out_as_much():
    X = np.vstack([points(), np.full((5, 3), 500.0)])
    model = TrimmedKMeans(3, trim=5, random_state=0).fit(X)
    model.certificate_ = replace(
        model.certificate_, lower_bound=model.inertia_ / 1.2, lower_bound_confidence=1.0
    )
    assert "that leaves out as much" in Document(report.page(model, X).html).texts["p"]


# --- Without Jinja ---------------------------------------------------------------------------


def test_without_jinja_pages_say_what_they_need_and_notebooks_show_text(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    markup.environment.cache_clear()
    markup._kit.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'wolfmeans\[page\]'"):
        report.page(model, points())
    shown = model.certificate_._repr_html_()
    assert shown.startswith("<pre>") and "inertia" in Document(shown).texts["pre"]
    assert model.trace_._repr_html_().startswith("<pre>")


# --- Commands --------------------------------------------------------------------------------


@pytest.fixture
def table(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.assign(team=np.where(frame["a"] > 3, "up", "down")).to_csv("t.csv", index=False)
    return frame


def test_fit_writes_names_ids_and_comparisons(table, tmp_path):
    options = ["--columns", "a,b,c", "--id", "key", "--color", "town", "--compare", "team"]
    command = ["fit", "t.csv", "-k", "2", "-q", "--page", "p.html", "--names", "0=low,1=high"]
    assert cli.main([*command, *options]) == 0
    found = Document((tmp_path / "p.html").read_text(encoding="utf-8"))
    data = json.loads(found.blocks["application/json"])
    assert data["names"] == ["low", "high"] and data["ids"]["name"] == "key"
    assert data["ids"]["values"] == table["key"].tolist()
    assert data["color"]["name"] == "town" and "clusters by team" in found.rows


def test_columns_of_the_page_are_not_clustered(table, tmp_path):
    command = ["fit", "t.csv", "-k", "2", "-q", "--page", "p.html", "--drop-missing"]
    assert cli.main([*command, "--compare", "size"]) == 0
    found = Document((tmp_path / "p.html").read_text(encoding="utf-8"))
    data = json.loads(found.blocks["application/json"])
    assert sorted(data["profiles"]["names"]) == ["a", "b", "c"]
    assert cli.main(command) == 0
    found = Document((tmp_path / "p.html").read_text(encoding="utf-8"))
    data = json.loads(found.blocks["application/json"])
    # Row 5 has no size, and rows have their numbers in the file.
    assert data["ids"]["values"] == [str(row) for row in range(120) if row != 5]


def test_certify_writes_a_page(table, tmp_path, capsys):
    command = ["certify", "t.csv", "--label-column", "team", "--columns", "a,b,c", "--standardize"]
    assert cli.main([*command, "--page", "p.html", "--id", "key", "--compare", "town"]) == 0
    assert "p.html" in capsys.readouterr().err
    found = Document((tmp_path / "p.html").read_text(encoding="utf-8"))
    data = json.loads(found.blocks["application/json"])
    assert data["names"] == ["down", "up"] and data["ids"]["values"] == table["key"].tolist()
    assert "standardized" in found.texts["p"]
    means = dict(
        zip(data["profiles"]["names"], np.reshape(data["profiles"]["means"], (3, 2)), strict=True)
    )
    for name in "abc":
        expected = [table.loc[table["a"] <= 3, name].mean(), table.loc[table["a"] > 3, name].mean()]
        np.testing.assert_allclose(means[name], expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--id", "key"], "--id needs --page"),
        (["--names", "a,b"], "--names needs --page"),
        (["--page", "p.html", "--id", "none"], "--id: t.csv has no column 'none'"),
        (["--page", "p.html", "--compare", "none"], "--compare: t.csv has no column 'none'"),
        (["--page", "p.html", "--names", "0=a,b"], "--names takes LABEL=NAME"),
    ],
)
def test_options_of_the_page_are_checked(table, capsys, options, message):
    assert cli.main(["fit", "t.csv", "-k", "2", "--columns", "a,b,c", *options]) == 2
    assert message in capsys.readouterr().err
