"""Tables, figures and page of a study, made from its folder alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from wolfmeans.files.atomic import written_whole
from wolfmeans.study import figures, page, tables
from wolfmeans.study.claims import all_findings, sky_distances
from wolfmeans.study.results import GAPS, Collection
from wolfmeans.study.summary import summary


def write_report(
    *directories: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    gaps: Sequence[str] = GAPS,
) -> Path:
    """Write tables, figures and the page of one or more studies and return the page's path.

    Parameters
    ----------
    *directories : path
        Folders with the results of a study in `scenarios/`.
    out : path or None, default=None
        Where the report goes; None is the first of the folders.
    gaps : sequence of {"published", "decrease", "gap"}
        Which gaps to tabulate and draw. The sentences are tested with all of them.
    """
    collection = Collection.load(*directories)
    folder = Path(directories[0] if out is None else out)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    texts = {
        "tables.csv": tables.tables_csv(collection, gaps),
        "scenarios.csv": tables.scenarios_csv(collection, gaps),
        "tables.md": tables.markdown(collection, gaps),
        "tables.tex": tables.latex(collection, gaps),
    }
    sky = sky_distances() if collection.segmentation() else None
    plates = figures.plates(collection, gaps)
    if sky is not None:
        plates.append(figures.sky_plate(sky))
    findings = all_findings(collection, sky)
    texts["page.html"] = page.document(
        collection, summary(collection, findings), findings, plates, gaps
    )
    for name, text in texts.items():
        with written_whole(folder / name) as file:
            file.write(text.encode())
    for plate in plates:
        plate.save(folder / "figures")
    return folder / "page.html"
