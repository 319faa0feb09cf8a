"""What notebooks show: well-formed, escaped, without scripts, readable on white and on black."""

import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from page_reader import HOSTILE, Document, points
from wolfmeans import KMeans, Record, Status, Trace, TrimmedKMeans, scan
from wolfmeans.views import notebook
from wolfmeans.views.colors import contrast, rgb
from wolfmeans.views.page import markup


def harmless(text):
    """Parse a fragment, which runs nothing, fetches nothing and belongs to one element."""
    page = Document(text)
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(page.tags)
    assert not page.values("src", "href", "style")
    assert "@import" not in page.texts["style"]
    assert "url(" not in page.texts["style"]
    assert ("div", "class", "wolfmeans") in page.attributes
    return page


@pytest.fixture(scope="module")
def model():
    return KMeans(4, random_state=0).fit(points())


# --- certificate -----------------------------------------------------------------------------


def test_the_verdict_of_a_certificate_comes_first(model):
    page = harmless(model.certificate_._repr_html_())
    assert page.pieces["p"] == [model.certificate_.verdict]
    assert page.tags.index("p") < page.tags.index("table")
    cells = page.pieces["td"]
    for row in model.certificate_.rows():
        assert all(cell in cells for cell in row if cell)


def test_a_certificate_escapes_its_texts(model):
    page = harmless(replace(model.certificate_, notes=(HOSTILE,))._repr_html_())
    assert HOSTILE in page.pieces["td"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.STATIONARY, "verdict plain"),
        (Status.MAX_ITER, "verdict open"),
        (Status.TIME_LIMIT, "verdict open"),
        (Status.REPEATED_STATE, "verdict failed"),
        (Status.DESCENT_VIOLATED, "verdict failed"),
    ],
)
def test_the_color_of_the_verdict_tells_how_the_run_ended(model, status, kind):
    # Without a bound: a proof has a color of its own.
    certificate = replace(model.certificate_, status=status, lower_bound=None)
    page = harmless(certificate._repr_html_())
    assert ("p", "class", kind) in page.attributes


@pytest.mark.parametrize(
    ("ratio", "confidence", "look"),
    [(1.0, 1.0, "proved"), (1.05, 1.0, "near"), (1.2, 1.0, "plain"), (1.0, 0.95, "plain")],
)
def test_only_a_strong_proof_is_green(model, ratio, confidence, look):
    certificate = replace(
        model.certificate_,
        lower_bound=model.inertia_ / ratio,
        lower_bound_kind="any",
        lower_bound_confidence=confidence,
    )
    page = harmless(certificate._repr_html_())
    assert ("p", "class", f"verdict {look}") in page.attributes
    early = harmless(replace(certificate, status=Status.MAX_ITER)._repr_html_())
    assert ("p", "class", "verdict open") in early.attributes
    colors = dict(re.findall(r"verdict\.?(\w*) { border-(?:left: 4px solid|color:) (\S+?)[;\s]",
                             notebook._STYLE))  # fmt: skip
    assert (colors.get(look, colors[""]) == "var(--good)") == (look == "proved")


def test_colors_stand_out_from_white_and_from_black():
    colors = re.findall(r"--\w+: (#[0-9a-f]{6})", notebook._STYLE)
    assert len(colors) == 4
    for color in colors:
        assert contrast(rgb(color), rgb("#ffffff")) >= 3
        assert contrast(rgb(color), rgb("#111111")) >= 3


def test_every_cell_is_escaped():
    page = harmless(
        notebook.fragment(
            markup.grid((HOSTILE, HOSTILE), [(HOSTILE, HOSTILE)], numbers=[1]),
            markup.paragraph(HOSTILE),
            notebook.sparkline([2.0, 1.0], HOSTILE),
        )
    )
    assert page.pieces["th"] == page.pieces["td"] == [HOSTILE, HOSTILE]
    assert page.pieces["p"] == page.pieces["title"] == [HOSTILE]
    assert ("svg", "aria-label", HOSTILE) in page.attributes


# --- trace -----------------------------------------------------------------------------------


def test_a_trace_shows_its_ways_and_its_rows(model):
    page = harmless(model.trace_._repr_html_())
    assert page.tags.count("svg") == 2
    assert page.tags.count("tr") - 1 == min(len(model.trace_), 12)
    first, last = model.trace_[0], model.trace_[-1]
    for record in (first, last):
        assert f"{record.value:.6g}" in page.pieces["td"]
    lines = page.values("points")
    places = np.array([pair.split(",") for pair in lines[0].split()], dtype=float)
    assert len(places) == len(model.trace_)
    assert (np.diff(places[:, 0]) > 0).all() and (np.diff(places[:, 1]) >= 0).all()
    assert places.min() == 0 and places[:, 0].max() == 150 and places[:, 1].max() == 34
    heights = 34 * (model.trace_.sse[0] - model.trace_.sse) / np.ptp(model.trace_.sse)
    np.testing.assert_allclose(places[:, 1], heights, atol=0.06)


def test_long_traces_are_cut_in_the_middle():
    records = [Record(t, 1000.0 - t, 1.0, 0.5, False, moved=t) for t in range(1000)]
    page = harmless(Trace(records)._repr_html_())
    assert page.tags.count("tr") == 1 + 12
    shown = page.pieces["td"][::7]
    assert shown == ["0", "1", "2", "3", "4", "5", "…", "995", "996", "997", "998", "999"]
    line = page.values("points")[0].split()
    assert 200 <= len(line) <= 300 and line[-1] == "150.0,34.0"


@pytest.mark.parametrize(
    "records",
    [
        [],
        [Record(0, 5.0, 0.0, 0.0, True)],
        [Record(t, 5.0, 0.0, 0.0, False) for t in range(3)],
        [Record(t, np.inf, np.nan, np.nan, False) for t in range(3)],
        [Record(t, 10.0 ** (300 - 300 * t), 1e-300, 0.0, False) for t in range(3)],
    ],
)
def test_odd_traces_are_shown(records):
    text = Trace(records)._repr_html_()
    page = harmless(text)
    assert not any("nan" in value for value in page.values("points"))
    assert page.tags.count("tr") == (1 + len(records) if records else 0)


# --- scan ------------------------------------------------------------------------------------


def test_a_scan_is_a_table_with_its_best_rows_marked():
    found = scan(points(80), range(1, 5), (0.0, 0.1), random_state=0)
    page = harmless(found._repr_html_())
    header, *rows = found.texts()
    assert page.pieces["th"] == list(header)
    assert page.pieces["td"] == [cell for row in rows for cell in row if cell]
    assert page.pieces["p"] == found.sentences()
    best = [row for row in re.split("<tr", found._repr_html_()) if row.startswith(' class="best"')]
    assert len(best) == 2
    for row, alpha in zip(best, found.alphas, strict=True):
        cells = found.along_clusters(alpha)
        highest = max(cells[1:], key=lambda cell: cell.silhouette)
        assert re.findall(r">([^<]*)</td>", row)[0] == str(highest.n_clusters)


# --- estimators ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
def test_a_fitted_estimator_is_its_diagram_and_its_certificate(kind):
    estimator = kind(3, random_state=0)
    unfitted = estimator._repr_mimebundle_()["text/html"]
    assert "sk-container" in unfitted and "wolfmeans" not in unfitted
    fitted = estimator.fit(points())
    view = fitted.certificate_._repr_html_()
    for shown in (fitted._repr_mimebundle_()["text/html"], fitted._repr_html_()):
        assert shown.endswith(view)
        assert shown.count('class="wolfmeans"') == 1
        assert "sk-container" in shown[: -len(view)]
    assert fitted._repr_mimebundle_()["text/plain"] == repr(fitted)
    assert "wolfmeans" not in clone(fitted)._repr_html_()


def test_who_wants_text_gets_text(model):
    with sklearn.config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(model, "_repr_html_")
    with sklearn.config_context(display="diagram"):
        assert hasattr(model, "_repr_html_")


def test_a_pipeline_shows_its_own_diagram():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline = make_pipeline(StandardScaler(), KMeans(3, random_state=0)).fit(points())
        shown = pipeline._repr_mimebundle_()["text/html"]
    assert "KMeans" in shown and 'class="wolfmeans"' not in shown


# --- progress --------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_a_kernel_shows_the_progress_of_certify(tmp_path, monkeypatch):
    certify = "certificate = km.certify(X, method='semidefinite', seconds=3)"
    [line] = executed([FIT, certify], tmp_path, monkeypatch)[1].outputs
    # The line was shown in this cell, and is empty at the end.
    assert line.output_type == "display_data"
    assert line.data["text/plain"] == line.data["text/html"] == ""


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_a_kernel_shows_the_progress_of_what_takes_longer_than_two_seconds(tmp_path, monkeypatch):
    """Every update is a message of its own, so a listener sees all of them."""
    spy = """
seen = []
shell = get_ipython().display_pub
original = shell.publish
def listening(data, *args, **kwargs):
    seen.append(data["text/plain"])
    return original(data, *args, **kwargs)
shell.publish = listening
"""
    work = "seen.clear(); KMeans(8, effort=3, random_state=0).fit(np.tile(X, (40, 1)))"
    cells = executed([FIT, spy, work + ".inertia_ > 0", "seen", "seen.clear(); km.fit(X); seen"],
                     tmp_path, monkeypatch)  # fmt: skip
    line, answer = cells[2].outputs
    assert (line.output_type, line.data["text/html"]) == ("display_data", "")
    assert answer.data["text/plain"] == "True"
    reports = cells[3].outputs[0].data["text/plain"]
    assert "search, inertia" in reports and "%" in reports
    # A short fit shows nothing.
    assert cells[4].outputs[0].data["text/plain"] == "[]"


# --- figures ---------------------------------------------------------------------------------

FIT = """
import sys
import numpy as np
from wolfmeans import KMeans
X = np.random.default_rng(0).normal(size=(60, 3))
km = KMeans(3, random_state=0).fit(X)
"""


def executed(sources, tmp_path, monkeypatch):
    """Run cells in a real kernel, and return them with their outputs."""
    import nbclient
    import nbformat

    # The kernel of this environment, without settings and startup files of the user.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    monkeypatch.delenv("MPLBACKEND", raising=False)
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return notebook.cells


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # those of the notebook's own packages are not ours
def test_a_kernel_shows_a_figure_once(tmp_path, monkeypatch):
    """In a real kernel; test_plot.py tests the PNG of a figure without one."""
    draw = "km.trace_.plot()"
    sources = [FIT, draw, "'matplotlib.pyplot' in sys.modules", "%matplotlib inline", draw,
               "import matplotlib.pyplot", draw, "sys.prefix"]  # fmt: skip
    cells = executed(sources, tmp_path, monkeypatch)
    [place] = cells[-1].outputs
    assert place.data["text/plain"] == repr(sys.prefix)
    for cell in cells:
        if cell.source == draw:
            [picture] = cell.outputs
            assert picture.output_type == "execute_result"
            assert set(picture.data) == {"text/plain", "image/png"}
    [answer] = cells[2].outputs
    assert answer.data["text/plain"] == "False"
