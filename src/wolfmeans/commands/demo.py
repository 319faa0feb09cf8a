"""`wolfmeans demo`: the bundled image-segmentation data, clustered and certified."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from wolfmeans.commands.terminal import errors_in_one_line

_CLASSES = 7
_EFFORT = 2.0
"""Seconds in which a better clustering is looked for."""
_TARGET, _SECONDS = 0.009, 120.0
"""The distance from the optimum that is proven, and the most time that it may take."""


@errors_in_one_line
def demo(
    directory: Annotated[Path, typer.Argument(help="Output folder.", metavar="[DIR]")] = Path(
        "demo-output"
    ),
) -> None:
    """Cluster the bundled image data, print the certificate, write figures and a page.

    [bold]Examples[/bold]

      wolfmeans demo

      wolfmeans demo my-folder
    """
    demonstrate(directory)


def demonstrate(folder: Path) -> None:
    """Cluster, print the certificate, write figures and a page into a folder."""
    from wolfmeans.estimators import KMeans
    from wolfmeans.files.atomic import written_whole
    from wolfmeans.files.datasets import load_segmentation
    from wolfmeans.inputs.preparation import Preparation
    from wolfmeans.views.page import page
    from wolfmeans.views.plot import map_figure
    from wolfmeans.views.portrait import portrait

    folder.mkdir(parents=True, exist_ok=True)
    segmentation = load_segmentation()
    X = segmentation.standardized()
    print(
        f"Clustering {len(X):,} image regions ({X.shape[1]} standardized features) "
        f"into {_CLASSES} clusters.\n"
    )
    model = KMeans(n_clusters=_CLASSES, effort=_EFFORT, random_state=0).fit(X)
    print(f"Proving that it is within {100 * _TARGET:g} % of the optimum:\n")
    started = perf_counter()

    def show(share: float, text: str) -> None:
        if "optimum" in text:  # not of the quick bounds, which come first
            print(f"  {perf_counter() - started:5.1f} s  {text}", flush=True)

    print(f"\n{model.certify(X, target=_TARGET, seconds=_SECONDS, progress=show)}")
    print(f"\n{model.certificate_.verdict}")

    trace = model.trace_.plot()
    clusters = map_figure(portrait(model, X, replay=False))
    written = []
    for name, figure in (("trace", trace), ("clusters", clusters)):
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            with written_whole(written[-1]) as file:
                figure.savefig(file, format=kind, dpi=150)
    names = segmentation.feature_names
    target = page(
        model,
        X,
        names=names,
        title="Image segmentation in seven clusters",
        preparation=Preparation.standardizing(names, segmentation.data),
    ).save(folder / "page.html")
    print("\nWritten: " + ", ".join(str(path) for path in written))
    print(f"Page: {target} (open it in a browser)")
