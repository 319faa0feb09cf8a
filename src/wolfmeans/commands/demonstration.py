"""The demonstration: cluster the bundled image-segmentation data and show the certificate.

Run it with ``python -m wolfmeans.commands.demonstration [DIRECTORY]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wolfmeans.estimators import KMeans
from wolfmeans.files.atomic import written_whole
from wolfmeans.files.datasets import load_segmentation
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.page import page
from wolfmeans.views.plot import map_figure
from wolfmeans.views.portrait import portrait

_CLASSES = 7


def main(directory: str = "demo-output") -> None:
    """Cluster, print the certificate, write figures and a page into `directory`."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    segmentation = load_segmentation()
    X = segmentation.standardized()
    print(
        f"Clustering {len(X):,} image regions ({X.shape[1]} standardized features) "
        f"into {_CLASSES} clusters.\n"
    )
    model = KMeans(n_clusters=_CLASSES, random_state=0).fit(X)
    print(model.certify(X))
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


if __name__ == "__main__":
    main(*sys.argv[1:2])
