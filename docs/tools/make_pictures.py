"""Draw the pictures of the documentation: python docs/tools/make_pictures.py [NAME ...]

Every picture is drawn from bundled data with seed 0. Without names, all pictures are drawn; `study`
runs 40,000 fits and takes some minutes. Pictures of pages need Playwright and Chromium, whose path
may be in WOLFMEANS_CHROMIUM.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans, report, study
from wolfmeans.files.datasets import load_banknotes, load_segmentation
from wolfmeans.views import plot
from wolfmeans.views.portrait import portrait

IMAGES = Path(__file__).parents[1] / "images"
_DOTS_PER_INCH = 110


@cache
def _segments() -> Any:
    """The image data in seven clusters, as in the README, and its portrait."""
    data = load_segmentation()
    X = data.standardized()
    model = KMeans(n_clusters=7, random_state=0).fit(X)
    return model, portrait(model, X, names=data.feature_names)


def _trimmed_notes() -> Any:
    notes = load_banknotes()
    model = TrimmedKMeans(n_clusters=2, alpha=0.1, random_state=0).fit(notes.data)
    return portrait(model, notes.data, names=notes.feature_names)


def _scan() -> Any:
    notes = load_banknotes().data
    return wolfmeans.scan(
        notes, n_clusters=range(1, 7), alpha=[0.0, 0.05, 0.1], random_state=0
    ).plot()


FIGURES: dict[str, Callable[[], Any]] = {
    "trace": lambda: _segments()[0].trace_.plot(),
    "map": lambda: plot.map_figure(_segments()[1]),
    "profiles": lambda: plot.profiles_figure(_segments()[1]),
    "margins": lambda: plot.margins_figure(_segments()[1]),
    "replay": lambda: plot.replay_figure(_segments()[1]),
    "outliers": lambda: plot.map_figure(_trimmed_notes()),
    "scan": _scan,
}


def draw_study(path: Path) -> None:
    """One of the figures that a report on the paper's grid has."""
    with tempfile.TemporaryDirectory() as folder:
        study.run(study.grid(n=[5000], d=[2]), folder)
        study.write_report(folder, gaps=["published"])
        shutil.copy(Path(folder) / "figures" / "blobs-n5000-d2-published.png", path)


PAGES: dict[str, tuple[int, int, str, str]] = {
    "page-light": (1280, 1560, "light", ""),
    "page-dark": (1280, 1560, "dark", "#distributions"),
    "page-phone": (390, 844, "light", "#map"),
}
"""Width and height of the window, its colors, and the section that it shows."""


def draw_page(path: Path, width: int, height: int, colors: str, section: str) -> None:
    """A part of a page in a browser."""
    from playwright.sync_api import sync_playwright

    data = load_segmentation()
    page = report.page(
        _segments()[0], data.standardized(), names=data.feature_names, title="Image regions"
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        saved = page.save(Path(folder) / "page.html")
        chromium = os.environ.get("WOLFMEANS_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme=colors,
            device_scale_factor=2 if width < 500 else 1,
        )
        tab.goto(saved.as_uri() + section)
        tab.wait_for_timeout(1000)
        tab.screenshot(path=path)
        browser.close()


def main(names: list[str]) -> None:
    for name in names or [*FIGURES, *PAGES, "study"]:
        path = IMAGES / f"{name}.png"
        if name == "study":
            draw_study(path)
        elif name in PAGES:
            draw_page(path, *PAGES[name])
        else:
            # Without matplotlib's version, which would change the file but not the picture.
            FIGURES[name]().savefig(path, dpi=_DOTS_PER_INCH, metadata={"Software": None})
        print(f"{path} ({path.stat().st_size // 1024} KB)")


if __name__ == "__main__":
    main(sys.argv[1:])
