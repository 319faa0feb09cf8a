"""What `wolfmeans fit` says and writes about its result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.commands import outputs
from wolfmeans.commands.out_of_core import FilePoints
from wolfmeans.commands.points import Points, title_of
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators import KMeans, TrimmedKMeans

    Model = KMeans | TrimmedKMeans

STRONGEST = "strongest"
"""The bound that takes the time it needs."""
_NAMED = 8
_LABELS_AT_ONCE = 1 << 18

_ADVICE = {
    "certify(X)": f"--certify {STRONGEST}",
    "effort=SECONDS": "--effort SECONDS",
    "max_iter": "--max-iter",
    "time_limit": "--time-limit",
    "memory_limit": "--memory",
    "the callback stopped the run": "the run was interrupted (Ctrl-C)",
}


def for_the_command(text: str, names: Sequence[str] = (), condition: str = "") -> str:
    """Turn advice for Python into advice for the command line, and columns into their names.

    A `condition` is what must be so for a bound to be found.
    """
    text = text.replace("certify(X)", f"{condition}certify(X)")
    for python, command in _ADVICE.items():
        text = text.replace(python, command)
    return (
        re.sub(r"\bcolumn (\d+)", lambda m: f"column {names[int(m[1])]!r}", text) if names else text
    )


def listed(names: Sequence[str]) -> str:
    """Return how many columns there are, and what the first of them are called."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    many = "1 column" if len(names) == 1 else f"{len(names):,} columns"
    first = ", ".join(name or "''" for name in names[:_NAMED])
    return f"{many}: {first}{more}"


def facts_of(
    estimator: Model, points: Points | FilePoints, preparation: Preparation, seconds: float
) -> dict[str, Any]:
    """Return the certificate and what it is about, ready for JSON."""
    return {
        **estimator.certificate_.to_dict(),
        "verdict": estimator.certificate_.verdict,
        "data": {
            "files": [part.name for part in points.parts],
            "n_samples": points.n_rows,
            "rows_left_out": points.left_out,
            "columns": list(points.names),
            "standardized": preparation.standardizes,
            "weighted": points.weights is not None,
        },
        "cluster_sizes": _sizes(estimator).tolist(),
        "seconds": seconds,
    }


def _sizes(estimator: Model) -> NDArray[np.int64]:
    """Return how many points each cluster has; labels may be in a file larger than memory."""
    sizes = np.zeros(estimator.n_clusters, dtype=np.int64)
    for begin in range(0, len(estimator.labels_), _LABELS_AT_ONCE):
        some = estimator.labels_[begin : begin + _LABELS_AT_ONCE]
        sizes += np.bincount(some[some >= 0], minlength=len(sizes))
    return sizes


def center_columns(
    estimator: Model, preparation: Preparation, sizes: NDArray[Any] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the columns of a table of centers, in the units of the data.

    `sizes` says how many points each cluster has, where the labels are not here.
    """
    centers = preparation.undo(estimator.cluster_centers_)
    own: dict[str, NDArray[Any]] = {
        "label": np.arange(len(centers), dtype=np.int32),
        "points": _sizes(estimator) if sizes is None else sizes,
    }
    named: dict[str, NDArray[Any]] = dict(zip(preparation.columns, centers.T, strict=True))
    # Columns of the data keep their names, whatever they are.
    return {f"{n}_" if n in named else n: values for n, values in own.items()} | named


def write_page(
    target: str, estimator: Model, points: Points, preparation: Preparation, files: list[str]
) -> None:
    """Write the page about the result."""
    from wolfmeans.views.page import page

    # The page is told what the columns are called; scikit-learn would miss the names on the array.
    del estimator.feature_names_in_
    name = title_of(files)
    made = page(
        estimator,
        preparation.apply(points.data),
        sample_weight=points.weights,
        names=points.names,
        title=f"{name}: {estimator.n_clusters} clusters",
        preparation=preparation,
        wording=lambda text: for_the_command(text, points.names),
    )
    with outputs.naming(target):
        made.save(target)
