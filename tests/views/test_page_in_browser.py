"""The page in a browser: nothing is fetched, everything moves, sorts, prints and stays legible.

Drives Debian's chromium through Playwright and never downloads a browser. Skipped where one of them
is missing, unless WOLFMEANS_REQUIRE_BROWSER=1.
"""

import csv
import io
import os
import re
import shutil
import time
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans, report
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.colors import contrast as contrast_of
from wolfmeans.views.portrait import portrait

CHROMIUM = os.environ.get("WOLFMEANS_CHROMIUM", "/usr/bin/chromium")
HOSTILE = (
    "<img src=x onerror=\"document.title='hurt'\">'\"</script>"
    "<script>document.title = 'hurt'</script>"
)
DESK = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}


def missing(what):
    if os.environ.get("WOLFMEANS_REQUIRE_BROWSER") == "1":
        pytest.fail(f"WOLFMEANS_REQUIRE_BROWSER=1, but {what}")
    pytest.skip(f"pages are not tested in a browser: {what}")


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    if shutil.which(CHROMIUM) is None:
        missing(f"there is no {CHROMIUM}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class Opened:
    """A page in the browser, with everything that it complained about or asked for."""

    def __init__(self, browser, path, viewport=DESK, **more):
        self.context = browser.new_context(viewport=viewport, accept_downloads=True, **more)
        self.tab = self.context.new_page()
        self.complaints, self.requests = [], []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.address = path.as_uri()
        self.tab.goto(self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def __getattr__(self, name):
        return getattr(self.tab, name)

    def check(self):
        assert self.complaints == []
        # Only the page itself, and data that it made.
        assert [r for r in self.requests if not r.startswith(("data:", "blob:"))] == [self.address]

    def chart(self, name, what):
        return self.tab.evaluate(
            f"() => {{ const chart = document.querySelector('.chart.{name}'); return {what}; }}"
        )

    def centers(self):
        drawn = self.chart("map", "chart.data.slice(3).map(c => [c.text[0], c.x[0], c.y[0]])")
        return np.array([[x, y] for _, x, y in sorted(drawn, key=lambda entry: int(entry[0]))])

    def color(self, selector, name="color"):
        return self.tab.evaluate(
            "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]",
            [selector, name],
        )

    def slide_to(self, frame):
        self.tab.locator(".steps input").evaluate(
            """(slider, frame) => {
                slider.value = frame;
                slider.dispatchEvent(new Event("input"));
            }""",
            frame,
        )

    def until(self, met, seconds=10.0):
        """Wait; the page's policy forbids what Playwright's own waiting evaluates."""
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, "waited too long"
            self.tab.wait_for_timeout(20)

    def column(self, table, number):
        cells = f'[data-name="{table}"] tbody tr > :nth-child({number})'
        return self.tab.locator(cells).all_inner_texts()

    def saved(self, table):
        with self.tab.expect_download() as download:
            self.tab.click(f'[data-name="{table}"] .csv')
        assert download.value.suggested_filename == f"{table}.csv"
        text = Path(download.value.path()).read_text(encoding="utf-8")
        return list(csv.reader(io.StringIO(text)))


def blobs(n=400, k=5, d=4, seed=3):
    rng = np.random.default_rng(seed)
    return 4.0 * rng.normal(size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


NAMES = ["alpha", HOSTILE, 'say "hi", all', "=1+1"]


@pytest.fixture(scope="module", name="X")
def points():
    return blobs()


@pytest.fixture(scope="module")
def model(X):
    return KMeans(7, random_state=1, init="random", n_init=1, bound="neighbours").fit(X)


@pytest.fixture(scope="module")
def path(model, X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return report.page(model, X, names=NAMES, title="Seven clusters").save(folder / "page.html")


@pytest.fixture(scope="module")
def desk(browser, path):
    with Opened(browser, path) as page:
        yield page
        page.check()


def number(text):
    return float(text.replace(",", "").replace("−", "-").rstrip("%"))


def contrast(*colors):
    """Contrast of two colors as the browser writes them, like rgb(255, 255, 255)."""
    return contrast_of(
        *([float(c) / 255 for c in re.findall(r"[\d.]+", color)[:3]] for color in colors)
    )


# --- Everything is there ---------------------------------------------------------------------


def test_the_page_draws_all_its_charts_and_asks_for_nothing(desk, model):
    for name in ("map", "sizes", "margins", "gap", "sse", "moved"):
        assert desk.locator(f".chart.{name} .main-svg").count() > 0, name
    gap = desk.chart("gap", "chart.data[2].y")
    assert [g or 0 for g in gap] == pytest.approx(model.trace_.gap.tolist())
    assert desk.chart("gap", "chart.data[0].y") == pytest.approx(model.trace_.rate_bound.tolist())
    assert desk.chart("gap", "[chart.layout.xaxis.type, chart.layout.yaxis.type]") == ["log", "log"]
    assert desk.chart("sse", "chart.data[0].y") == pytest.approx(model.trace_.sse.tolist())
    assert desk.chart("sse", "chart.data[1].y") == pytest.approx([model.trace_.lower_bound] * 2)
    assert desk.chart("moved", "chart.data[0].y") == model.trace_.moved.tolist()
    assert desk.chart("sizes", "chart.data[0].customdata") == np.bincount(model.labels_).tolist()
    desk.check()


def test_no_button_takes_the_charts_elsewhere(desk):
    titles = desk.evaluate(
        """() => [...document.querySelectorAll(".modebar-btn")].map(b => b.dataset.title)"""
    )
    assert set(titles) == {"Download plot as a PNG", "Zoom", "Pan", "Reset axes"}
    settings = "[chart._context.showSendToCloud, chart._context.plotlyServerURL]"
    for name in ("map", "sizes", "margins", "gap", "sse", "moved"):
        assert desk.chart(name, settings) == [False, ""], name
    assert desk.locator("a[href]:not([href^='#'])").count() == 0


def test_margins_fall_within_each_cluster(desk, model, X):
    drawn = desk.chart("margins", "chart.data.map(trace => trace.y)")
    shown = portrait(model, X).margins
    assert len(drawn) == 7
    for k, values in enumerate(drawn):
        expected = np.sort(shown.values[shown.labels == k])[::-1]
        assert values[:-1] == pytest.approx(expected.tolist(), abs=1e-6)


def test_hostile_names_are_shown_and_do_nothing(desk):
    desk.locator('[data-name="profiles"] .units').click()
    desk.locator('[data-name="profiles"] .units').click()
    assert sorted(desk.column("profiles", 1)) == sorted(NAMES)
    assert desk.title() == "Seven clusters"
    assert desk.locator("main img").count() == 0


# --- The replay ------------------------------------------------------------------------------


def test_the_slider_moves_the_centers_and_ends_at_the_models(desk, model, X):
    frames = portrait(model, X).replay.frames
    assert len(frames) > 4
    last = len(frames) - 1
    for place in (0, 2, last):
        desk.slide_to(place)
        np.testing.assert_allclose(desk.centers(), frames[place].centers, rtol=1e-5, atol=1e-5)
        assert frames[place].title in desk.inner_text(".readout")
        rings = desk.chart("map", "chart.data[1].x.length")
        assert rings == int(frames[place].changed.sum())
        colors = desk.chart("map", "chart.data[0].marker.color")
        assert len(set(colors)) == len(set(frames[place].labels.tolist()))
        # A tail has a place for each frame so far, and a break.
        assert desk.chart("map", "chart.data[2].x.length") == 7 * (place + 2)
    np.testing.assert_allclose(desk.centers(), portrait(model, X).map.centers, atol=1e-5)
    assert number(desk.locator(".readout dd").nth(1).inner_text()) == pytest.approx(model.inertia_)


def test_the_slider_obeys_the_keyboard(desk):
    desk.focus(".steps input")
    desk.keyboard.press("Home")
    first = desk.centers()
    desk.keyboard.press("ArrowRight")
    assert desk.input_value(".steps input") == "1"
    assert "iteration 1" in desk.get_attribute(".steps input", "aria-valuetext")
    assert not np.allclose(first, desk.centers())
    desk.keyboard.press("End")
    assert desk.input_value(".steps input") == desk.get_attribute(".steps input", "max")


def test_play_runs_to_the_end_and_can_be_stopped(desk):
    last = int(desk.get_attribute(".steps input", "max"))
    desk.slide_to(0)
    desk.focus(".play")
    desk.keyboard.press("Space")
    assert "Pause" in desk.inner_text(".play")
    desk.until(lambda: desk.input_value(".steps input") == "1")
    desk.click(".play")
    assert "Play" in desk.inner_text(".play")
    desk.slide_to(last - 1)
    desk.click(".play")
    desk.until(lambda: "Play" in desk.inner_text(".play"))
    assert desk.input_value(".steps input") == str(last)


def test_a_cluster_can_be_highlighted(desk, model):
    desk.slide_to(int(desk.get_attribute(".steps input", "max")))
    chip = desk.locator(".chips button").nth(2)
    chip.click()
    strong = [value > 0.5 for value in desk.chart("map", "chart.data[0].marker.opacity")]
    assert sum(strong) == int(np.sum(model.labels_ == 2))
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    assert isinstance(desk.chart("map", "chart.data[0].marker.opacity"), float)


# --- Tables ----------------------------------------------------------------------------------


def test_tables_sort_numbers_as_numbers(desk):
    head = desk.locator('[data-name="clusters"] thead th').nth(1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    points = [number(text) for text in desk.column("clusters", 2)]
    assert points == sorted(points, reverse=True) and len(set(points)) > 1
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [number(text) for text in desk.column("clusters", 2)] == points[::-1]
    other = desk.locator('[data-name="clusters"] thead th').nth(0)
    other.locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    assert [int(text) for text in desk.column("clusters", 1)] == list(range(7))


def test_profiles_sort_by_a_cluster(desk):
    desk.locator('[data-name="profiles"] thead th').nth(5).locator("button").click()
    values = [number(text) for text in desk.column("profiles", 6)]
    assert values == sorted(values, reverse=True)


def test_tables_are_saved_as_csv(desk, model, X):
    header, *rows = desk.saved("clusters")
    assert header[:3] == ["cluster", "points", "share"]
    rows.sort(key=lambda row: int(row[0]))
    assert [int(row[1]) for row in rows] == np.bincount(model.labels_).tolist()
    expected = [cluster.sse for cluster in portrait(model, X).clusters]
    assert [float(row[3]) for row in rows] == expected
    header, *rows = desk.saved("profiles")
    assert header == ["column", "between", "mean of all", *(f"cluster {k}" for k in range(7))]
    assert sorted(row[0] for row in rows) == sorted(NAMES)
    profiles = portrait(model, X).profiles
    for row in rows:
        j = NAMES.index(row[0])
        assert [float(v) for v in row[3:]] == pytest.approx(profiles.deviation[:, j].tolist())
    desk.click('[data-name="profiles"] .units')
    for row in desk.saved("profiles")[1:]:
        j = NAMES.index(row[0])
        assert [float(value) for value in row[3:]] == profiles.means[:, j].tolist()
    desk.click('[data-name="profiles"] .units')
    desk.click("summary")
    assert [float(row[1]) for row in desk.saved("iterations")[1:]] == model.trace_.sse.tolist()


# --- Light, dark, phone, paper ---------------------------------------------------------------

TEXTS = ("h1", ".lead", ".verdict p", ".tiles dt", "figcaption", "td", "thead th", "summary")


def legible(page):
    for selector in TEXTS:
        ground = ".verdict" if selector == ".verdict p" else "body"
        found = contrast(page.color(selector), page.color(ground, "backgroundColor"))
        assert found >= 4.5, selector
    paper = page.color("body", "backgroundColor")
    assert contrast(page.color(".chart.gap .xtick text", "fill"), paper) >= 4.5
    for color in page.chart("sizes", "[...chart.data[0].marker.color]"):
        channels = ", ".join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))
        assert contrast(f"rgb({channels})", paper) >= 2.95


def test_light_and_dark_follow_the_system_and_the_button(browser, path):
    with Opened(browser, path, color_scheme="light") as page:
        light = page.color("body", "backgroundColor")
        assert light == "rgb(255, 255, 255)"
        legible(page)
        page.emulate_media(color_scheme="dark")
        page.until(lambda: "Light" in page.inner_text("button.theme"))
        dark = page.color("body", "backgroundColor")
        assert contrast(dark, "rgb(0, 0, 0)") < 1.5
        legible(page)
        page.click("button.theme")
        assert page.color("body", "backgroundColor") == light
        legible(page)
        page.click("button.theme")
        assert page.color("body", "backgroundColor") == dark
        page.check()


def test_the_choice_of_colors_is_remembered(browser, path):
    with Opened(browser, path, color_scheme="light") as page:
        light = page.color("body", "backgroundColor")
        page.click("button.theme")
        dark = page.color("body", "backgroundColor")
        assert dark != light
        page.reload()
        assert page.color("body", "backgroundColor") == dark
        assert "Light" in page.inner_text("button.theme")
        assert page.complaints == []


def test_centers_of_larger_clusters_are_drawn_above(desk, model):
    order = [int(k) for k in desk.chart("map", "chart.data.slice(3).map(c => c.text[0])")]
    sizes = np.bincount(model.labels_)
    assert sorted(order) == list(range(7))
    assert (np.diff(sizes[order]) >= 0).all()


def test_numbers_of_centers_in_one_place_stand_side_by_side(browser, tmp_path):
    """In the plane of two components, centers that differ in the third are in one place."""
    rng = np.random.default_rng(0)
    sizes = [40, 60, 80, 20]
    middles = np.array([[0, 0, 0], [0, 0, 5], [90, 0, 0], [-90, 60, 0]])
    X = np.repeat(middles, sizes, axis=0) + 0.1 * rng.normal(size=(200, 3))
    model = KMeans(4, init=middles.astype(float), n_init=1).fit(X)
    path = report.page(model, X).save(tmp_path / "page.html")
    with Opened(browser, path) as page:
        drawn = page.chart("map", "chart.data.slice(3).map(c => [c.text[0], c.textposition[0]])")
        sides = dict(drawn)
        assert sides.pop("0") in ("middle left", "middle right", "top center", "bottom center")
        assert set(sides.values()) == {"middle center"}
        page.check()


@pytest.mark.parametrize("scale", [1e200, 1e-50, 1e-200, 1e40])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_points_of_extreme_scale_are_on_the_map(browser, tmp_path, X, scale):
    model = KMeans(3, random_state=0).fit(scale * X)
    shown = portrait(model, scale * X).map
    path = report.page(model, scale * X).save(tmp_path / "page.html")
    with Opened(browser, path) as page:
        power = int(
            re.search(r"10<sup>(-?\d+)", page.chart("map", "chart.layout.xaxis.title.text"))[1]
        )
        x = np.array(page.chart("map", "Array.from(chart.data[0].x)"))
        unit = 10.0 ** (power // 2), 10.0 ** (power - power // 2)
        np.testing.assert_allclose(x, shown.points[:, 0] / unit[0] / unit[1], rtol=1e-5, atol=1e-5)
        assert 1 <= np.abs(x).max() < 10
        np.testing.assert_allclose(
            page.centers(), shown.centers / unit[0] / unit[1], rtol=1e-5, atol=1e-5
        )
        places = page.evaluate(
            """() => [...document.querySelectorAll(".chart.map .points path")]
                .map(p => p.getBoundingClientRect().x)"""
        )
        assert np.ptp(places) > 200
        unit = f"2^{model.certificate_.unit_exponent}"
        assert (unit in page.inner_text(".readout")) == (model.certificate_.unit_exponent != 0)
        page.check()


def test_a_phone_scrolls_in_one_direction_only(browser, path):
    with Opened(browser, path, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths == [360, 360]
        outside = page.evaluate(
            """() => [...document.querySelectorAll("h1, p, .chart, .plate, button, input, dd")]
            .filter(e => !e.closest(".scroll, nav") && e.getBoundingClientRect().right > 360.5)
            .map(e => e.outerHTML.slice(0, 80))"""
        )
        assert outside == []
        page.check()


def test_paper_is_light_and_shows_the_charts(browser, path):
    with Opened(browser, path, color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        page.until(lambda: page.get_attribute("html", "data-theme") == "print")
        assert page.color("body", "backgroundColor") == "rgb(255, 255, 255)"
        legible(page)
        for selector in ("nav", "button.theme", ".tools", ".steps"):
            assert page.color(selector, "display") == "none", selector
        drawn, place = page.chart("map", "[chart._fullLayout.width, chart.clientWidth]")
        assert drawn == place <= 700
        page.emulate_media(media="screen", color_scheme="dark")
        page.until(lambda: page.get_attribute("html", "data-theme") is None)
        assert contrast(page.color("body", "backgroundColor"), "rgb(0, 0, 0)") < 1.5
        fits = "Math.abs(chart._fullLayout.width - chart.clientWidth) < 1"
        page.until(lambda: page.chart("map", fits))
        assert page.pdf(format="A4").startswith(b"%PDF")
        page.check()


def test_without_scripts_the_tables_are_there(browser, path, model):
    with Opened(browser, path, java_script_enabled=False) as page:
        assert model.certificate_.verdict in page.inner_text(".verdict")
        assert page.locator('[data-name="clusters"] tbody tr').count() == 7
        assert page.locator("[data-name=certificate] tbody tr").first.is_visible()
        assert not page.locator(".chart").first.is_visible()


# --- Other pages -----------------------------------------------------------------------------


def one_cluster():
    return report.page(KMeans(1).fit(blobs()), blobs())


def one_column():
    X = blobs(d=1)
    return report.page(KMeans(3, random_state=0).fit(X), X)


def trimmed():
    X = np.vstack([blobs(), np.full((20, 4), 100.0)])
    return report.page(TrimmedKMeans(4, trim=20, random_state=0).fit(X), X)


def standardized():
    X = blobs() * 1e3
    names = tuple("abcd")
    preparation = Preparation.standardizing(names, X)
    Z = preparation.apply(X)
    model = KMeans(4, random_state=0).fit(Z)
    return report.page(model, Z, names=names, preparation=preparation, replay=False)


def wide():
    X = blobs(n=300, k=45, d=40)
    return report.page(
        KMeans(45, random_state=0).fit(X), X, names=[HOSTILE + str(j) for j in range(40)]
    )


def scan():
    found = wolfmeans.scan(blobs(120), n_clusters=[1, 2], alpha=[0.0, 0.1], random_state=0)
    return report.scan_page(found, title=HOSTILE)


@pytest.mark.parametrize("make", [one_cluster, one_column, trimmed, standardized, wide, scan])
def test_other_pages_open_without_complaint(browser, tmp_path, make):
    page = make()
    assert len(page.html.encode()) < 5_000_000
    with Opened(browser, page.save(tmp_path / "page.html"), viewport=PHONE) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth") == 360
        assert opened.title() == page.title
        for button in opened.locator(".unfold").all():
            button.click()
        if make is trimmed:
            assert "20 of them are out of view" in opened.inner_text("#map figcaption")
        if make is wide:
            assert opened.locator('[data-name="profiles"] tbody tr').count() == 40
        opened.check()


WORDS = "(found) => found.map((one) => one.textContent.trim())"
BOXES = """(found) => found.filter((one) => one.textContent.trim()).map((one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  return [left, right, top, bottom];
})"""


def overlap(one, other):
    (left, right, top, bottom), (left_2, right_2, top_2, bottom_2) = one, other
    return left < right_2 and left_2 < right and top < bottom_2 and top_2 < bottom


@pytest.mark.parametrize("counts", [[3], [2, 3, 4, 5], range(2, 13)])
def test_charts_of_a_scan_can_be_read(browser, tmp_path, counts):
    found = wolfmeans.scan(blobs(60), counts, [0.0, 0.05, 0.1], bound=None, random_state=0)
    path = report.scan_page(found).save(tmp_path / "page.html")
    with Opened(browser, path) as opened:
        opened.wait_for_selector(".chart.trimming .xtick")
        for name in ("inertia", "silhouette"):
            ticks = opened.eval_on_selector_all(f".chart.{name} .xtick text", WORDS)
            assert ticks == [str(k) for k in counts]
            boxes = opened.eval_on_selector_all(f".chart.{name} .xtick text", BOXES)
            assert not any(overlap(*pair) for pair in combinations(boxes, 2))
            # Buttons come when the mouse does, and hide no name of a line.
            buttons = opened.eval_on_selector_all(
                f".chart.{name} .modebar-btn",
                BOXES.replace("one.textContent.trim()", "true"),
            )
            lines = opened.eval_on_selector_all(f".chart.{name} .legendtext", BOXES)
            assert len(lines) >= 3 and len(buttons) == 4
            assert not any(overlap(*pair) for pair in product(buttons, lines))
        names = opened.eval_on_selector_all(".chart.trimming .textpoint text", WORDS)
        assert next(filter(None, names)) == str(counts[0])
        boxes = opened.eval_on_selector_all(".chart.trimming .textpoint text", BOXES)
        assert not any(overlap(*pair) for pair in combinations(boxes, 2))
        opened.check()


def test_a_notebook_runs_the_page_in_its_sandbox(browser, model, X, tmp_path):
    frame = tmp_path / "notebook.html"
    text = report.page(model, X)._repr_html_()
    frame.write_text(f"<!DOCTYPE html><title>t</title><body>{text}", encoding="utf-8")
    with Opened(browser, frame) as page:
        inside = page.tab.frame_locator("iframe")
        inside.locator(".chart.moved .main-svg").first.wait_for()
        assert inside.locator(".steps input").count() == 1
        assert page.complaints == []


# --- Axes, colors, distributions, filters ------------------------------------------------------


@pytest.fixture(scope="module")
def rich(browser, model, X, tmp_path_factory):
    """A page with everything that can be given for it."""
    rng = np.random.default_rng(0)
    page = report.page(
        model,
        X,
        names=NAMES,
        id={"key": np.array([f"<b>id</b> {i}" for i in range(len(X))])},
        color={"kind": rng.choice(["one", HOSTILE], len(X))},
        compare={"half": X[:, 0] > 0},
        cluster_names={0: HOSTILE, 3: "third"},
        nonlinear="t-sne",
        title="Rich",
    )
    with Opened(browser, page.save(tmp_path_factory.mktemp("rich") / "page.html")) as opened:
        yield opened
        opened.check()
        assert opened.title() == "Rich"


def choose(page, name, option):
    page.locator(f".choice.{name} select").select_option(label=option)


def test_the_reader_chooses_the_axes(rich, model, X):
    assert rich.chart("map", "chart.layout.xaxis.title.text") == "t-SNE 1"
    assert (
        not rich.locator(".choice.across").is_visible() and not rich.locator(".steps").is_visible()
    )
    choose(rich, "map", "components or columns")
    assert rich.locator(".steps").is_visible()
    shown = portrait(model, X).map
    x = rich.chart("map", "Array.from(chart.data[0].x)")
    np.testing.assert_allclose(x, shown.points[:, 0], rtol=1e-5, atol=1e-5)
    choose(rich, "across", "alpha")
    choose(rich, "up", "=1+1")
    x, y = (rich.chart("map", f"Array.from(chart.data[0].{axis})") for axis in "xy")
    np.testing.assert_allclose(np.column_stack([x, y]), X[:, [0, 3]], rtol=1e-5)
    centers = rich.chart("map", "chart.data.slice(3).map(c => [c.x[0], c.y[0]])")
    means = np.array([X[model.labels_ == k][:, [0, 3]].mean(axis=0) for k in range(7)])
    order = np.argsort(np.bincount(model.labels_), kind="stable")
    np.testing.assert_allclose(np.sort(centers, axis=0), np.sort(means[order], axis=0), rtol=1e-5)
    assert not rich.locator(".steps").is_visible()
    assert "replayed on the map of components 1 and 2" in rich.inner_text("#map figcaption")
    choose(rich, "up", f"component 3 ({100 * shown.more.explained[0]:.0f}%)")
    y = rich.chart("map", "Array.from(chart.data[0].y)")
    np.testing.assert_allclose(y, shown.more.points[:, 0], rtol=1e-5, atol=1e-5)


def test_the_reader_chooses_the_colors(rich, X):
    choose(rich, "color", "kind")
    assert len(set(rich.chart("map", "chart.data[0].marker.color"))) == 2
    assert rich.inner_text(".legend").startswith("kind:") and HOSTILE[:20] in rich.inner_text(
        ".legend"
    )
    choose(rich, "color", "alpha")
    np.testing.assert_allclose(rich.chart("map", "chart.data[0].marker.color"), X[:, 0], rtol=1e-5)
    assert rich.chart("map", "chart.data[0].marker.showscale") is True
    choose(rich, "color", "cluster")
    assert len(set(rich.chart("map", "chart.data[0].marker.color"))) == 7


def test_a_point_says_what_it_is(rich, X):
    title, margin, lines = rich.chart("map", "chart.data[0].customdata[5]")
    assert title == "key &#60;b&#62;id&#60;/b&#62; 5"
    assert 0 <= margin <= 1 and "<br>alpha: " in lines and "<br>kind: " in lines
    value = lines.split("<br>alpha: ")[1].split("<br>")[0]
    assert number(value) == pytest.approx(X[5, 0], rel=1e-3)


def test_every_column_has_a_panel_with_a_row_for_each_cluster(rich, model, X):
    panels = rich.locator(".panel-of-column")
    assert sorted(panels.locator("h3").all_inner_texts()) == sorted(NAMES)
    alpha = panels.filter(has=rich.tab.get_by_text("alpha", exact=True))
    rows = alpha.locator(".row").all()
    assert len(rows) == 7
    largest = int(np.argmax(np.bincount(model.labels_)))
    median = np.median(X[model.labels_ == largest, 0])
    said = rows[0].get_attribute("title").split("median ")[1].split(";")[0]
    assert number(said) == pytest.approx(median, rel=1e-2)


def test_long_tables_are_filtered(browser, tmp_path):
    page = wide()
    with Opened(browser, page.save(tmp_path / "page.html")) as opened:
        opened.fill('[data-name="profiles"] input[type=search]', "</script>7")
        opened.until(lambda: opened.locator('[data-name="profiles"] tbody tr').count() == 1)
        opened.fill('[data-name="summary"] input[type=search]', "no such text")
        opened.until(lambda: opened.locator('[data-name="summary"] tbody tr').count() == 0)
        assert len(opened.saved("profiles")) == 2
        assert opened.locator(".panel-of-column").first.locator(".row").count() == 16
        opened.check()


def foreign():
    X = blobs()
    return report.page(labels=np.where(X[:, 0] > 0, "a", np.where(X[:, 1] > 0, "b", "-1")), X=X)


def numbered_names():
    X = blobs()
    return report.page(KMeans(2, random_state=0).fit(X), X, cluster_names=["a" * 300, "b" * 300])


@pytest.mark.parametrize("make", [foreign, numbered_names])
@pytest.mark.parametrize("viewport", [DESK, PHONE])
def test_pages_with_names_fit_the_window(browser, tmp_path, make, viewport):
    with Opened(browser, make().save(tmp_path / "page.html"), viewport=viewport) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        assert opened.locator(".chart.map .main-svg").count() > 0
        opened.check()
