"""Models on disk: a zip of plain arrays and one JSON text. Loading one never executes code."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.certificate import Certificate
from wolfmeans.effort import Effort
from wolfmeans.files import written_whole
from wolfmeans.polish import Polish
from wolfmeans.preparation import Preparation
from wolfmeans.solution import Record, Status, Trace

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
    """Write a fitted model, and what its columns went through before; whole or not at all."""
    kind = type(model).__name__
    if kind not in _LOADABLE:
        raise ValueError(f"only a {' or a '.join(_LOADABLE)} can be saved, not a {kind}")
    array_names, plain_names = _names(kind)
    parameters = model.get_params(deep=False)
    arrays = {name: getattr(model, name) for name in array_names if _has(model, name)}
    if "feature_names_in_" in arrays:
        arrays["feature_names_in_"] = np.asarray(arrays["feature_names_in_"], dtype=np.str_)
    if callable(parameters["init"]):
        raise ValueError("init is a callable, which a model file cannot hold; set it to a name")
    if not isinstance(parameters["init"], str):
        arrays["init"] = np.asarray(parameters["init"])
        parameters["init"] = None
    parameters["callback"] = None
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
    _write(path, json.dumps(content), arrays)


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


def _write(path: Path, text: str, arrays: dict[str, Any]) -> None:
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.json", text, zipfile.ZIP_DEFLATED)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


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
            f"{path} is a model of standardized columns, and its predict alone would not "
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
            content, arrays = _read(file)
            if content["version"] == VERSION:
                model = _rebuild(content, arrays)
                return model, _preparation(content.get("preparation"), model.n_features_in_)
        # Whatever is wrong inside a file from anywhere, it is the file that is wrong.
        except Exception as error:
            raise ValueError(f"{path} is not a wolfmeans model, or is damaged: {error}") from error
    raise ValueError(
        f"{path} has model version {content['version']}; this wolfmeans reads version {VERSION}"
    )


def _read(file: IO[bytes]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        content = json.loads(archive.read("model.json"))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError("it does not say that it is one")
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as member:
                    arrays[name[:-4]] = np.lib.format.read_array(member, allow_pickle=False)
    return content, arrays


def _rebuild(content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CenterEstimator:
    from wolfmeans import estimators

    kind = content["class"]
    if kind not in _LOADABLE:
        raise ValueError(f"it holds a {kind}")
    array_names, plain_names = _names(kind)
    parameters = dict(content["parameters"])
    if "init" in arrays:
        parameters["init"] = arrays.pop("init")
    model: CenterEstimator = getattr(estimators, kind)(**parameters)
    for name in plain_names:
        setattr(model, name, content["attributes"][name])
    for name in array_names:
        if name in arrays:
            setattr(model, name, arrays[name])
    if "feature_names_in_" in arrays:
        model.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    model._scaled_centers = arrays.get("_scaled_centers")
    model._n_features_out = len(model.cluster_centers_)
    model.certificate_ = _certificate(content["certificate"])
    model.trace_ = Trace(
        (Record(**record) for record in content["trace"]["records"]),
        lower_bound=content["trace"]["lower_bound"],
    )
    _check_shapes(model)
    return model


def _preparation(fields: dict[str, Any] | None, n_features: int) -> Preparation | None:
    if fields is None:
        return None
    center, scale = (
        None if fields[name] is None else np.array(fields[name], dtype=np.float64)
        for name in ("center", "scale")
    )
    lengths = {len(fields["columns"]), *(len(a) for a in (center, scale) if a is not None)}
    if lengths != {n_features} or (center is None) != (scale is None):
        raise ValueError("what it says about its columns does not fit its centers")
    return Preparation(tuple(map(str, fields["columns"])), center, scale)


def _check_shapes(model: CenterEstimator) -> None:
    expected = (model.n_clusters, model.n_features_in_)
    if model.cluster_centers_.shape != expected:
        raise ValueError(f"its centers have shape {model.cluster_centers_.shape}, not {expected}")
    if _has(model, "initial_centers_") and model.initial_centers_.shape != expected:
        raise ValueError(f"its initial centers have shape {model.initial_centers_.shape}")
    if model.labels_.ndim != 1 or model.labels_.dtype != np.int32:
        raise ValueError("its labels are not a list of integers")


def _certificate(fields: dict[str, Any]) -> Certificate:
    names = set(Certificate.__dataclass_fields__)
    values = {name: value for name, value in fields.items() if name in names}
    values["status"] = Status[fields["status_name"]]
    values["notes"] = tuple(values["notes"])
    for name, kind in (("polish", Polish), ("effort", Effort)):
        if values.get(name) is not None:
            values[name] = kind(**values[name])
    return Certificate(**values)
