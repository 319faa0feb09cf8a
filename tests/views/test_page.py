"""The page as a file: complete, escaped, self-contained, small; and the demonstration."""

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from html import unescape
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import wolfmeans
from page_reader import HOSTILE, SITUATIONS, Document, points
from wolfmeans import KMeans, LowerBound, Status, TrimmedKMeans, report
from wolfmeans.commands import cli, demo
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.colors import DARK, LIGHT, cluster_colors, contrast, rgb, theme_css
from wolfmeans.views.page import clustering, markup
from wolfmeans.views.page.clustering import thinned
from wolfmeans.views.page.document import data_block, packed
from wolfmeans.views.portrait import portrait

LIMIT = 5_000_000


@pytest.fixture(scope="module")
def model():
    return KMeans(4, random_state=0).fit(points())


@pytest.fixture(scope="module")
def page(model):
    return report.page(model, points(), title="A page")


def data_of(page):
    return json.loads(Document(page.html).blocks["application/json"])


# --- The document ----------------------------------------------------------------------------


def test_a_page_is_self_contained_and_well_formed(page):
    found = Document(page.html)
    assert not {"link", "iframe", "object", "embed", "base", "img", "form"} & set(found.tags)
    ids = found.values("id")
    references = found.values("src", "href", "xlink:href", "srcset", "data", "action", "poster")
    assert references
    assert all(reference[1:] in ids for reference in references)
    assert len(set(ids)) == len(ids)
    assert "@import" not in found.texts["style"] and "url(" not in found.texts["style"]
    assert found.texts["h1"] == found.texts["title"] == page.title == "A page"
    assert "default-src 'none'" in page.html
    assert len(page.html.encode()) < LIMIT


def test_a_page_embeds_the_charts_once_and_as_published(page):
    vendored = files("wolfmeans.views.page") / "vendor"
    script = (vendored / "plotly-basic.min.js").read_bytes()
    named = (vendored / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(script).hexdigest() in named
    assert re.search(r"v(\S+)", script[:200].decode())[1] in named
    assert "MIT" in (vendored / "LICENSE-plotly.txt").read_text(encoding="utf-8")
    assert page.html.count("Copyright 2012-2026, Plotly") == 1
    # Either would end the element that holds it, or change how it is read.
    assert b"</script" not in script.lower() and b"<!--" not in script


def test_a_page_has_every_section_readable_without_scripts(page, model):
    found = Document(page.html)
    sections = {"certificate", "map", "clusters", "profiles", "margins", "run"}
    assert sections <= set(found.values("id"))
    assert model.certificate_.verdict in found.texts["p"]
    rows = [tuple(row) for row in found.rows["certificate"][1:]]
    assert rows == model.certificate_.rows()
    counts = [int(row[1]) for row in found.rows["clusters"][1:]]
    assert counts == np.bincount(model.labels_).tolist()
    assert len(found.rows["profiles"]) == 1 + 3
    assert len(found.rows["iterations"]) == 1 + len(model.trace_)
    assert "noscript" in found.tags


def test_clusters_come_first_in_words(page, model):
    found = Document(page.html)
    ids = [each for each in found.values("id") if each in ("summary", "clusters", "certificate")]
    assert ids == ["summary", "clusters", "certificate"]
    header, *rows = found.rows["summary"]
    assert header == ["cluster", "share", "what sets it apart", "typical rows"]
    X, shares = points(), np.bincount(model.labels_) / len(model.labels_)
    order = [int(row[0]) for row in rows]
    assert shares[order].tolist() == sorted(shares, reverse=True)
    for k, (_, _, said, typical) in zip(order, rows, strict=True):
        away = (X[model.labels_ == k].mean(axis=0) - X.mean(axis=0)) / X.std(axis=0)
        strongest = int(np.argmax(np.abs(away)))
        if abs(away[strongest]) < 0.5:
            assert said == "close to the mean of all points in every column"
        else:
            word = "high" if away[strongest] > 0 else "low"
            assert said.startswith(f"{word} column {strongest} (")
        nearest = ((X - model.cluster_centers_[k]) ** 2).sum(axis=1)
        nearest[model.labels_ != k] = np.inf
        assert int(typical.split(", ")[0]) == int(np.argmin(nearest))


def test_everything_that_came_from_data_is_escaped(model):
    names = [HOSTILE, "<b>bold</b>", "</table>"]
    page = report.page(model, points(), names=names, title=HOSTILE)
    found = Document(page.html)
    assert found.texts["h1"] == found.texts["title"] == HOSTILE
    assert {row[0] for row in found.rows["profiles"][1:]} == set(names)
    assert found.tags.count("script") == 3 and "b" not in found.tags
    assert set(data_of(page)["profiles"]["names"]) == set(names)


def test_the_data_block_is_strict_json_and_cannot_be_left():
    text = data_block({"a": [1.5, float("nan"), float("inf")], "b": "</script><!--&\u2028"})
    inside = text.removeprefix('<script type="application/json" id="data">')
    inside = inside.removesuffix("</script>")
    assert not set("<>&\u2028") & set(inside)
    assert json.loads(inside) == {"a": [1.5, None, None], "b": "</script><!--&\u2028"}


def test_long_arrays_are_packed_as_their_bytes():
    values = np.linspace(0, 1, 100)
    found = packed(values, "f8")
    assert np.array_equal(np.frombuffer(base64.b64decode(found["bytes"]), "<f8"), values)
    assert packed(values[:3], "f8") == values[:3].tolist()


# --- What it says ----------------------------------------------------------------------------


def test_the_replay_ends_at_the_models_labels_and_centers(model, page):
    found, shown = data_of(page), portrait(model, points())
    frames = found["map"]["replay"]["frames"]
    assert len(frames) == len(shown.replay.frames)

    def unpacked(entry):
        if isinstance(entry, list):
            return np.array(entry)
        return np.frombuffer(base64.b64decode(entry["bytes"]), f"<{entry['kind']}")

    labels = unpacked(found["map"]["replay"]["labels"]).astype(int)
    for frame, expected in zip(frames, shown.replay.frames, strict=True):
        labels[unpacked(frame["rows"]).astype(int)] = unpacked(frame["labels"])
        assert np.array_equal(labels, expected.labels)
        np.testing.assert_allclose(unpacked(frame["centers"]), expected.centers.ravel(), rtol=1e-6)
    assert np.array_equal(labels, model.labels_[shown.map.rows])
    assert frames[-1]["sse"] == model.inertia_


def test_standardized_columns_are_shown_in_their_own_units():
    raw = points() * [1.0, 50.0, 1e-3] + [7.0, -1e3, 0.0]
    names = ("a", "b", "c")
    preparation = Preparation.standardizing(names, raw)
    X = preparation.apply(raw)
    model = KMeans(3, random_state=0).fit(X)
    found = data_of(report.page(model, X, names=names, preparation=preparation))["profiles"]
    without = data_of(report.page(model, X, names=names))["profiles"]
    order = [names.index(name) for name in found["names"]]
    means = np.array(found["means"]).reshape(3, 3)
    for row, j in enumerate(order):
        for k in range(3):
            assert means[row, k] == pytest.approx(raw[model.labels_ == k, j].mean())
    assert found["overall"] == pytest.approx(raw.mean(axis=0)[order])
    assert found["spread"] == pytest.approx(raw.std(axis=0)[order])
    deviations = (means.T - found["overall"]) / found["spread"]
    plain = np.array(without["means"]).reshape(3, 3).T - without["overall"]
    np.testing.assert_allclose(deviations, plain / without["spread"], atol=1e-9)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.filterwarnings("ignore")
def test_every_clustering_gets_a_page(situation):
    unfitted, X = SITUATIONS[situation]()
    model = unfitted.fit(X)
    page = report.page(model, X)
    found = Document(page.html)
    assert len(found.rows["clusters"]) == 1 + model.n_clusters
    assert ("profiles" in found.values("id")) == (model.n_clusters > 1)
    assert model.certificate_.verdict in found.texts["p"]
    assert len(data_of(page)["shares"]) == model.n_clusters


def test_weights_are_shown():
    weights = np.arange(1.0, 121.0)
    model = KMeans(4, random_state=0).fit(points(), sample_weight=weights)
    page = report.page(model, points(), sample_weight=weights)
    found = Document(page.html)
    assert "weighted points" in found.texts["p"]
    assert found.rows["clusters"][0][2] == "weight"
    shares = data_of(page)["shares"]
    expected = np.bincount(model.labels_, weights) / weights.sum()
    assert shares == pytest.approx(expected.tolist())


def test_left_out_points_are_told():
    X = np.vstack([points(), np.full((5, 3), 500.0)])
    model = TrimmedKMeans(3, trim=5, random_state=0).fit(X)
    found = Document(report.page(model, X).html)
    assert "5 points left out" in found.texts["p"]
    assert "left-out points" in found.texts["figcaption"]


def test_a_page_without_replay_has_none(model):
    assert data_of(report.page(model, points(), replay=False))["map"]["replay"] is None


def test_a_page_of_other_data_is_refused(model):
    with pytest.raises(ValueError, match="column"):
        report.page(model, points(d=2))
    with pytest.raises(ValueError, match="not the data of the fit"):
        report.page(model, 1e3 * points())


def test_many_columns_and_clusters_fit_into_a_page(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 600)) + 4.0 * rng.normal(size=(200, 600))[rng.integers(0, 200, 3000)]
    model = KMeans(200, random_state=0).fit(X)
    names = [f"a column with a rather long name {j}" for j in range(600)]
    shown = portrait(model, X, names=names)
    # As many frames as there can be, each of them with new labels everywhere.
    frame = shown.replay.frames[0]
    changed = np.ones(len(frame.labels), dtype=bool)
    frames = [replace(frame, labels=(frame.labels + t) % 200, changed=changed) for t in range(60)]
    shown = replace(shown, replay=replace(shown.replay, frames=tuple(frames)))
    monkeypatch.setattr(clustering, "portrait", lambda *_, **__: shown)
    page = report.page(model, X, title="large")
    assert len(page.html.encode()) < LIMIT
    assert "first 500 of 600 columns" in page.html
    assert len(Document(page.html).rows["profiles"]) == 1 + 15


def test_long_runs_are_thinned_and_keep_both_ends():
    assert thinned(10, 300).tolist() == list(range(10))
    rows = thinned(100_000, 300)
    assert len(rows) <= 300 and rows[0] == 0 and rows[-1] == 99_999
    assert rows[:5].tolist() == [0, 1, 2, 3, 4]


# --- Colors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_texts_and_clusters_stand_out_from_the_paper(theme):
    paper = rgb(theme["paper"])
    for name in ("ink", "soft", "accent", "bound", "good", "open"):
        assert contrast(rgb(theme[name]), paper) >= 4.5, name
    for ground in ("band", "tint", "high", "low", "higher", "lower"):
        assert contrast(rgb(theme["ink"]), rgb(theme[ground])) >= 4.5, ground
    colors = cluster_colors(200, theme["paper"])
    assert len(set(colors[:60])) == 60 and len(set(colors)) > 190
    assert min(contrast(rgb(color), paper) for color in colors) >= 2.95


def test_every_color_that_the_style_names_is_there():
    style = (files("wolfmeans.views.page") / "page.css").read_text(encoding="utf-8")
    named = set(re.findall(r"var\(--([a-z]+)\)", style)) - {"c", "v", "mark"}
    assert named <= set(LIGHT) and set(LIGHT) == set(DARK)
    assert "--k2: #" in theme_css(3) and "--k3: #" not in theme_css(3)


# --- Files and notebooks ---------------------------------------------------------------------


def test_a_page_is_saved_whole_into_a_new_folder(page, tmp_path):
    path = page.save(tmp_path / "new" / "page.html")
    assert path == tmp_path / "new" / "page.html"
    assert path.read_text(encoding="utf-8") == page.html
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_a_page_that_cannot_be_written_leaves_nothing(model, tmp_path):
    (tmp_path / "page.html").write_text("old")
    page = report.page(model, points())
    with pytest.raises(UnicodeEncodeError):
        replace(page, html="\ud800").save(tmp_path / "page.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


def test_a_notebook_shows_the_page_in_a_sandbox(page):
    shown = page._repr_html_()
    tag, source = re.fullmatch(r'<iframe ([^<>]*) srcdoc="([^"<>]*)"></iframe>', shown).groups()
    assert 'sandbox="allow-scripts' in tag and "allow-same-origin" not in tag
    assert unescape(source) == page.html
    assert len(repr(page)) < 100


def test_the_same_fit_gives_the_same_page(model, page):
    assert report.page(model, points(), title="A page").html == page.html


def test_pages_need_no_matplotlib(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert report.page(model, points()).html


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-7, 123456.789, 1e15, 99999.6, 0.099999999])
def test_figures_say_the_number(value):
    text = markup.figures(value).replace(",", "").replace("−", "-")
    assert float(text) == pytest.approx(value, rel=1e-3)


def test_means_that_are_rounding_are_shown_as_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1.0, 1e6, 1e-6] + [215.0, -4e6, 0.0]
    X -= X.mean(axis=0)
    assert (X.mean(axis=0) != 0).any()
    preparation = Preparation.standardizing(("a", "b", "c"), X)
    prepared = preparation.apply(X)
    for data, how in ((X, None), (prepared, None), (prepared, preparation)):
        page = report.page(KMeans(3, random_state=0).fit(data), data, preparation=how)
        header, *rows = Document(page.html).rows["profiles"]
        assert [row[header.index("mean of all")] for row in rows] == ["0"] * 3
        assert list(data_of(page)["profiles"]["overall"]) == [0.0] * 3


def test_small_means_of_float32_columns_are_shown():
    """Rounding leaves far less than 1e-4 standard deviations, also of float32 columns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.linspace(-1, 1, 401) * 1.7e6 + 100, rng.normal(size=(401, 2))])
    X[:, 1:] -= X[:, 1:].mean(axis=0)
    X = X.astype(np.float32)
    page = report.page(KMeans(3, random_state=0).fit(X), X, names=["a", "b", "c"])
    header, *rows = Document(page.html).rows["profiles"]
    means = {row[0]: row[header.index("mean of all")] for row in rows}
    assert means == {"a": "100", "b": "0", "c": "0"}
    profiles = data_of(page)["profiles"]
    shown = dict(zip(profiles["names"], profiles["overall"], strict=True))
    assert shown["a"] == pytest.approx(100, rel=1e-3)
    assert shown["b"] == shown["c"] == 0


# --- Scans -----------------------------------------------------------------------------------


def test_a_scan_gets_a_page_of_its_own():
    found = wolfmeans.scan(points(), n_clusters=[1, 2, 3], alpha=[0.0, 0.1], random_state=0)
    page = report.scan_page(found, title=HOSTILE, n_points=120)
    read = Document(page.html)
    assert read.texts["h1"] == HOSTILE
    header, *rows = read.rows["scan"]
    assert [tuple(header), *map(tuple, rows)] == found.texts()
    for sentence in found.sentences():
        assert sentence[1:] in read.texts["p"]
    assert [len(part["cells"]) for part in data_of(page)["scan"]] == [3, 3]
    assert data_of(page)["ticks"] == [1, 2, 3]


def test_a_page_of_a_single_fit_names_no_best_k():
    found = wolfmeans.scan(points(), n_clusters=3, random_state=0)
    read = Document(report.scan_page(found, n_points=120).html)
    assert "1 fit with a certificate" in read.texts["p"] and "highest" not in read.texts["p"]


# --- Commands --------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A file of data, in the folder where commands run that have no matplotlib."""
    monkeypatch.chdir(tmp_path)
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    rows = points() * [1.0, 50.0, 1e-3] + [7.0, -1e3, 0.0]
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    (tmp_path / "d<b>.csv").write_text("\n".join(["a,<i>b</i>,w", *lines]))
    return rows


@pytest.mark.parametrize("more", [[], ["--alpha", "0.05"], ["--standardize"]])
def test_fit_writes_a_page_in_the_units_of_the_file(table, more, tmp_path):
    options = ["-k", "3", "-q", "--page", "p.html", "--labels", "l.npy", *more]
    assert cli.main(["fit", "d<b>.csv", *options]) == 0
    found = Document((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert found.texts["h1"] == "d<b>.csv: 3 clusters"
    profiles = json.loads(found.blocks["application/json"])["profiles"]
    assert sorted(profiles["names"]) == ["<i>b</i>", "a", "w"]
    labels, j = np.load(tmp_path / "l.npy"), profiles["names"].index("<i>b</i>")
    means = np.array(profiles["means"]).reshape(3, 3)[j]
    assert means == pytest.approx([table[labels == k, 1].mean() for k in range(3)])
    assert ("standardized" in found.texts["p"]) == ("--standardize" in more)


def test_fit_writes_a_page_about_weighted_rows(table, tmp_path):
    rows = [f"{i},{i * i % 17},{1 + i % 3}" for i in range(60)]
    (tmp_path / "w.csv").write_text("\n".join(["x,y,w", *rows]))
    assert cli.main(["fit", "w.csv", "-k", "3", "-q", "--weights", "w", "--page", "p.html"]) == 0
    assert "60 weighted points" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_scan_writes_a_page(table, tmp_path, capsys):
    assert cli.main(["scan", "d<b>.csv", "-k", "1:3", "--page", "s.html"]) == 0
    assert "s.html" in capsys.readouterr().err
    found = Document((tmp_path / "s.html").read_text(encoding="utf-8"))
    assert found.texts["h1"] == "d<b>.csv: how many clusters?"
    assert [row[0] for row in found.rows["scan"]] == ["K", "1", "2", "3"]


# --- Extreme numbers, odd texts ---------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_sums_of_squares_have_their_unit_wherever_the_certificate_has_one():
    X = np.random.default_rng(0).normal(size=(60, 3)) * 1e200
    model = KMeans(3, random_state=0).fit(X)
    unit = f"2^{model.certificate_.unit_exponent}"
    html = report.page(model, X).html
    found = Document(html)
    assert ["unit", unit] in [row[:2] for row in found.rows["certificate"]]
    assert f"inertia, in {unit}" in found.rows["clusters"][0]
    assert {f"inertia, in {unit}", f"gap, in {unit}"} <= set(found.rows["iterations"][0])
    assert f"<dt>Inertia, in {unit}</dt>" in html
    assert f"<dt>Gap, in {unit}</dt>" in html


def test_the_larger_a_deviation_the_stronger_its_color():
    shown = [markup.heat_of(value) for value in (0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 12.5)]
    assert shown[:3] == [("high", 0.0), ("high", 50.0), ("high", 100.0)]
    assert shown[3:] == [("higher", 25.0), ("higher", 75.0), ("higher", 100.0), ("higher", 100.0)]
    assert [markup.heat_of(-value)[0] for value in (1.0, 3.0)] == ["low", "lower"]


def test_texts_that_are_no_characters_can_be_written(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = KMeans(2, random_state=0).fit(X)
    page = report.page(model, X, names=["a\ud800", "b\N{GRINNING FACE}"], title="odd\udcff.csv")
    assert page.title == "odd\ufffd.csv"
    text = page.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert Document(text).texts["h1"] == "odd\ufffd.csv"
    assert {row[0] for row in Document(text).rows["profiles"][1:]} == {
        "a\ufffd",
        "b\N{GRINNING FACE}",
    }
    assert "\\ud800" not in text


@pytest.mark.parametrize(
    ("ratio", "confidence", "mark", "look"),
    [
        (1.0, 1.0, "✓", "proved"),
        (1.009, 1.0, "✓", "proved"),
        (1.05, 1.0, "≈", "near"),
        (1.5, 1.0, "≈", "plain"),
        (1.0, 0.95, "≈", "plain"),
        (2.5, 1.0, "?", "plain"),
    ],
)
def test_only_a_strong_proof_gets_a_tick(ratio, confidence, mark, look):
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = KMeans(2, random_state=0, bound=None).fit(X)
    bound = LowerBound(model.inertia_ / ratio, "any", confidence, 0.0)
    model.certificate_ = model.certificate_.bounded_by(bound)
    html = report.page(model, X).html
    assert f'<div class="verdict {look}"><span class="mark" aria-hidden="true">{mark}<' in html
    model.certificate_ = replace(model.certificate_, status=Status.MAX_ITER)
    html = report.page(model, X).html
    assert '<div class="verdict open"><span class="mark" aria-hidden="true">!<' in html


def test_advice_is_worded_as_the_caller_likes():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = KMeans(2, random_state=0, bound=None).fit(X)
    assert "certify(X)" in report.page(model, X).html
    page = report.page(model, X, wording=lambda text: text.replace("certify(X)", "--bound"))
    assert "certify(X)" not in page.html and "--bound" in page.html


def test_a_page_of_the_command_gives_advice_for_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 1e4]
    np.savetxt("d.csv", X, delimiter=",", header="a,b", comments="")
    assert cli.main(["fit", "d.csv", "-k", "2", "--bound", "none", "--page", "p.html", "-q"]) == 0
    text = " ".join(map(" ".join, Document(Path("p.html").read_text()).rows["certificate"]))
    assert "certify(X)" not in text and "--bound strongest" in text
    assert "column 'b'" in text and "column 1" not in text


# --- The demonstration -----------------------------------------------------------------------


def test_the_demonstration_writes_its_files_and_prints_the_certificate(tmp_path, capsys):
    demo.demonstrate(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"trace.png", "trace.svg", "clusters.png", "clusters.svg", "page.html"}
    printed = capsys.readouterr().out
    assert "Certificate" in printed
    assert "global" in printed and "of the optimum" in printed
    assert printed.splitlines()[-1].startswith("Page:")
    found = Document((tmp_path / "out" / "page.html").read_text(encoding="utf-8"))
    assert found.texts["h1"] == "Image segmentation in seven clusters"
    means = {row[0]: row for row in found.rows["profiles"]}
    assert float(means["rawblue-mean"][2]) == pytest.approx(44.19, abs=0.02)


def test_a_demonstration_that_is_stopped_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    def stopped(self, file, **_):
        with file if hasattr(file, "write") else Path(file).open("wb") as target:
            target.write(b"half")
            raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", stopped)
    # A weak proof does here.
    monkeypatch.setattr(demo, "_SECONDS", 1.0)
    with pytest.raises(KeyboardInterrupt):
        demo.demonstrate(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
