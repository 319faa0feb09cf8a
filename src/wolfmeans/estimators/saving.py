"""Models on disk: a zip of plain arrays and one JSON text. Loading one never executes code."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfmeans.core.hooks import hook
from wolfmeans.engines.tensors import on_host
from wolfmeans.estimators import saved_fields
from wolfmeans.estimators.saved_fields import preparation_from
from wolfmeans.estimators.saved_members import Members, write_members
from wolfmeans.files.atomic import written_whole
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator

FORMAT = "wolfmeans-model"
VERSION = 1
_LOADABLE = ("KMeans", "TrimmedKMeans")
_ARRAYS = (
    "cluster_centers_",
    # Files from before it was kept lack it, and so do their models.
    "initial_centers_",
    "labels_",
    "_scaled_centers",
    "feature_names_in_",
)
_PLAIN = ("inertia_", "n_iter_", "n_features_in_", "engine_", "_scale_exponent")
_OF_CLASS = {
    "TrimmedKMeans": (
        ("kept_", "margins_"),
        ("radius_", "n_trimmed_", "trimmed_mass_", "_threshold", "_share"),
    )
}
"""Arrays and plain values that models of one class have besides."""


def save(model: CenterEstimator, path: Path, preparation: Preparation | None = None) -> None:
    """Write a fitted model and the preparation of its columns to a file, atomically."""
    kind = type(model).__name__
    if kind not in _LOADABLE:
        raise ValueError(f"only a {' or a '.join(_LOADABLE)} can be saved, not a {kind}")
    _refuse_unloadable(model)
    array_names, plain_names = _names(kind)
    parameters = model.get_params(deep=False)
    arrays = {name: on_host(getattr(model, name)) for name in array_names if _has(model, name)}
    if "feature_names_in_" in arrays:
        arrays["feature_names_in_"] = np.asarray(arrays["feature_names_in_"], dtype=np.str_)
    if callable(parameters["init"]):
        raise ValueError("init is a callable, which cannot be saved; set init to a name or array")
    if not isinstance(parameters["init"], str):
        arrays["init"] = np.asarray(on_host(parameters["init"]))
        parameters["init"] = None
    parameters["callback"] = None
    if "checkpoint" in parameters:
        parameters["checkpoint"] = None  # it belongs to the fit, not to the model
    parameters["random_state"] = _seed(parameters["random_state"])
    content = {
        "format": FORMAT,
        "version": VERSION,
        "class": kind,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "attributes": {name: _plain(getattr(model, name)) for name in plain_names},
        "certificate": model.certificate_.to_dict(),
        "trace": {
            "lower_bound": model.trace_.lower_bound,
            "records": [asdict(record) for record in model.trace_],
        },
    }
    if preparation is not None:
        content["preparation"] = _preparation_fields(preparation)
    with written_whole(path) as file:
        write_members(file, json.dumps(content), arrays)


def _refuse_unloadable(model: CenterEstimator) -> None:
    """Refuse a model that was changed since its fit into one that `load` would not take."""
    model._validate_params()
    model._refuse_other_number_of_clusters()
    if not np.isfinite(model.cluster_centers_).all():
        raise ValueError("cluster_centers_ was changed after the fit: it is not finite")


def _preparation_fields(preparation: Preparation) -> dict[str, Any]:
    center, scale = preparation.center, preparation.scale
    return {
        "columns": list(preparation.columns),
        "center": None if center is None else center.tolist(),
        "scale": None if scale is None else scale.tolist(),
    }


def _names(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the arrays and of the plain values that a model of this class has."""
    arrays, plain = _OF_CLASS.get(kind, ((), ()))
    return (*_ARRAYS, *arrays), (*_PLAIN, *plain)


def _has(model: Any, name: str) -> bool:
    return getattr(model, name, None) is not None


def _seed(random_state: Any) -> int | None:
    return int(random_state) if isinstance(random_state, (int, np.integer)) else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def load(path: str | os.PathLike[str]) -> CenterEstimator:
    """Read a model that `save` wrote.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, wolfmeans
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> km = wolfmeans.KMeans(n_clusters=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     km.save(pathlib.Path(folder) / "model.wolf")
    ...     again = wolfmeans.load(pathlib.Path(folder) / "model.wolf")
    >>> bool((again.predict(X) == km.labels_).all())
    True
    """
    model, preparation = load_prepared(path)
    if preparation is not None and preparation.standardizes:
        raise ValueError(
            f"{path} is a model of standardized columns, but its predict alone would not "
            "standardize; use wolfmeans.storage.load_prepared, or the command wolfmeans predict"
        )
    return model


def load_prepared(
    path: str | os.PathLike[str],
) -> tuple[CenterEstimator, Preparation | None]:
    """Read a model and what its columns go through first; None where that was not kept."""
    path = Path(path)
    with path.open("rb") as file:
        try:
            members = Members(file)
            content = members.text()
            if content.get("format") != FORMAT or type(content.get("version")) is not int:
                raise ValueError("it does not say that it is one")
            if content["version"] == VERSION:
                model = _rebuild(members, content)
                names = getattr(model, "feature_names_in_", None)
                return model, preparation_from(content, model.n_features_in_, names)
        # Whatever is wrong inside a file from anywhere, it is the file that is wrong.
        except Exception as error:
            raise ValueError(f"{path} is not a wolfmeans model, or is damaged: {error}") from error
    raise ValueError(
        f"{path} has model version {content['version']}; this wolfmeans reads version {VERSION}"
    )


def _rebuild(members: Members, content: dict[str, Any]) -> CenterEstimator:
    """Make the model; whatever is in it was checked before."""
    kind = content.get("class")
    if kind not in _LOADABLE:
        raise ValueError("its class is none that can be loaded")
    array_names, plain_names = _names(kind)
    members.refuse_others((*array_names, "init"))
    parameters = dict(saved_fields.group(content, "parameters"))
    attributes = saved_fields.group(content, "attributes")
    values = {name: saved_fields.plain(attributes, name) for name in plain_names}
    if not isinstance(parameters.get("init", ""), str | None):
        raise ValueError("its init is not the name of one")
    if "init" in members:
        # Whether it fits is for the next fit to say.
        parameters["init"] = members.array("init", (None, None), ("number",))
    model: CenterEstimator = hook(kind)(**parameters)
    model._validate_params()
    for name, value in values.items():
        setattr(model, name, value)
    model._scaled_centers = None
    _add_arrays(model, members)
    _add_points(model, members)
    model._n_features_out = model.n_clusters
    model.certificate_ = saved_fields.certificate_from(content, model.n_clusters)
    model.trace_ = saved_fields.trace_from(content)
    return model


def _add_arrays(model: CenterEstimator, members: Members) -> None:
    """Read the centers, and what the columns are called."""
    shape = (model.n_clusters, model.n_features_in_)
    for name in ("cluster_centers_", "initial_centers_", "_scaled_centers"):
        if name in members or name == "cluster_centers_":
            array = members.array(name, shape, (np.float64, np.float32))
            setattr(model, name, saved_fields.finite(array, name))
    with np.errstate(over="ignore"):
        saved_fields.finite(model._centers_at_scale(), "cluster_centers_ at its _scale_exponent")
    if "feature_names_in_" in members:
        names = members.array("feature_names_in_", (model.n_features_in_,), ("U",))
        model.feature_names_in_ = names.astype(object)


def _add_points(model: CenterEstimator, members: Members) -> None:
    """Read what is known of each point."""
    trimmed = "kept_" in _names(type(model).__name__)[0]
    labels = members.array("labels_", (None,), (np.int32,))
    lowest = -1 if trimmed else 0
    model.labels_ = saved_fields.within(labels, "labels_", lowest, model.n_clusters - 1)
    if trimmed:
        kept = members.array("kept_", labels.shape, (np.float64,))
        model.kept_ = saved_fields.within(kept, "kept_", 0, 1)
        model.margins_ = members.array("margins_", labels.shape, (np.float64,))
