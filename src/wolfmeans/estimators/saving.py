"""Models on disk: a zip of plain arrays and one JSON text. Loading one never executes code.

A file from anywhere may ask for more memory than there is. Arrays are stored as they are, so that
one takes no more than the file does; only the text is compressed, and its size is bounded. Every
field is checked before it is used.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable, Collection
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfmeans.certificate.improvement import Effort, Polish
from wolfmeans.certificate.record import Certificate
from wolfmeans.core.hooks import hook
from wolfmeans.core.solution import Record, Status, Trace
from wolfmeans.core.trimmed import parsed_share
from wolfmeans.engines.tensors import on_host
from wolfmeans.estimators.parameters import renamed
from wolfmeans.files.atomic import written_whole
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator

Made = TypeVar("Made")

FORMAT = "wolfmeans-model"
VERSION = 1
_TEXT = "model.json"
# A text may be as large as a long trace is, but must not expand from next to nothing.
_LARGEST_TEXT, _SMALL_TEXT, _MOST_EXPANSION = 1 << 28, 1 << 22, 100
# No sums of squares of float64 need a larger one: 2 * (1024 + 1074) and some weight.
_LARGEST_EXPONENT = 2200
_LARGEST_INT64 = 2**63 - 1
# A guaranteed number of steps may be beyond all counting.
_LARGEST_GUARANTEE = 2**1024


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _number(value: Any) -> bool:
    """Whether a value is a number that float64 holds, or infinite, or none (NaN)."""
    return type(value) is float or (type(value) is int and abs(value) < _LARGEST_GUARANTEE)


def _at_least_0(value: Any) -> bool:
    return _number(value) and value >= 0


def _is_share(value: Any) -> bool:
    try:
        parsed_share(value)
    except ValueError:
        return False
    return True


def _are_parts(value: Any) -> bool:
    """Whether a value is a list of (row, cluster, high, low)."""
    index = _whole(0, _LARGEST_INT64)
    return isinstance(value, list) and all(
        isinstance(part, list)
        and len(part) == 4
        and all(map(index, part[:2]))
        and all(map(_at_least_0, part[2:]))
        for part in value
    )


_ARRAYS = (
    "cluster_centers_",
    # Older files lack it, and so do their models.
    "initial_centers_",
    "labels_",
    "_scaled_centers",
    "feature_names_in_",
)
_TRIMMED_ARRAYS = ("kept_", "margins_")
_ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "inertia_": (_at_least_0, "a number of at least 0"),
    "n_iter_": (_whole(1, _LARGEST_INT64), "a number of iterations"),
    "n_features_in_": (_whole(1, _LARGEST_INT64), "a number of columns"),
    "engine_": (lambda value: isinstance(value, str), "a name"),
    "_scale_exponent": (
        _whole(-_LARGEST_EXPONENT, _LARGEST_EXPONENT),
        f"a whole number from {-_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}",
    ),
}
"""Plain values of a model: how each is checked, and what it must be."""
_TRIMMED_ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    # Infinite where nothing is trimmed.
    "radius_": (_at_least_0, "a number of at least 0"),
    "n_trimmed_": (_whole(0, _LARGEST_INT64), "a number of points"),
    "trimmed_mass_": (lambda v: _at_least_0(v) and math.isfinite(v), "a weight"),
    "_threshold": (_at_least_0, "a number of at least 0"),
    "_share": (_is_share, "a fraction from 0 to 1"),
}
_SPHERICAL_ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "_total": (lambda v: _at_least_0(v) and math.isfinite(v), "a weight"),
    "_norm_error": (lambda v: _at_least_0(v) and v < 1, "a number from 0 to 1"),
}
_SIZED_ARRAYS = ("sizes_", "prices_")
_SIZED_ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "duality_gap_": (_at_least_0, "a number of at least 0"),
    "_parts": (_are_parts, "a list of parts of split points"),
}
_CLASSES = {
    "ConstrainedKMeans": (_ARRAYS + _SIZED_ARRAYS, _ATTRIBUTES | _SIZED_ATTRIBUTES),
    "KMeans": (_ARRAYS, _ATTRIBUTES),
    "SphericalKMeans": (_ARRAYS, _ATTRIBUTES | _SPHERICAL_ATTRIBUTES),
    "TrimmedSphericalKMeans": (
        _ARRAYS + _TRIMMED_ARRAYS,
        _ATTRIBUTES | _TRIMMED_ATTRIBUTES | _SPHERICAL_ATTRIBUTES,
    ),
    "TrimmedKMeans": (_ARRAYS + _TRIMMED_ARRAYS, _ATTRIBUTES | _TRIMMED_ATTRIBUTES),
}
"""The arrays and plain values of models of each class."""


def save(model: CenterEstimator, path: Path, preparation: Preparation | None = None) -> None:
    """Write a fitted model and the preparation of its columns to a file, atomically.

    The proof of the lower bound is left out; `certificate_.proof.save` writes it.
    """
    kind = type(model).__name__
    if kind not in _CLASSES:
        raise ValueError(f"only a {' or a '.join(_CLASSES)} can be saved, not a {kind}")
    _refuse_unloadable(model)
    array_names, plain_names = _CLASSES[kind]
    parameters = model.get_params(deep=False)
    found = {name: getattr(model, name, None) for name in array_names}
    arrays = {name: on_host(array) for name, array in found.items() if array is not None}
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
    seed = parameters["random_state"]
    parameters["random_state"] = int(seed) if isinstance(seed, (int, np.integer)) else None
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
        content["preparation"] = {
            "columns": list(preparation.columns),
            "center": _plain(preparation.center),
            "scale": _plain(preparation.scale),
        }
    with written_whole(path) as file:
        write_archive(file, _TEXT, json.dumps(content), arrays, zipfile.ZIP_DEFLATED)


def _refuse_unloadable(model: CenterEstimator) -> None:
    """Raise an error if the model was changed since its fit so that `load` would reject it."""
    model._validate_params()
    model._refuse_other_number_of_clusters()
    if not np.isfinite(model.cluster_centers_).all():
        raise ValueError("cluster_centers_ was changed after the fit: it is not finite")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


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
    """Read a model and the preparation of its columns; None if that was not saved."""
    path = Path(path)
    with path.open("rb") as file:
        try:
            members = Members(file, _TEXT, "model")
            content = members.text()
            if content.get("format") != FORMAT or type(content.get("version")) is not int:
                raise ValueError("it does not say that it is one")
            if content["version"] == VERSION:
                model = _rebuild(members, content)
                names = getattr(model, "feature_names_in_", None)
                return model, preparation_from(content, model.n_features_in_, names)
        # A file from anywhere may be wrong in any way.
        except Exception as error:
            raise ValueError(f"{path} is not a wolfmeans model, or is damaged: {error}") from error
    raise ValueError(
        f"{path} has model version {content['version']}; this wolfmeans reads version {VERSION}"
    )


def _rebuild(members: Members, content: dict[str, Any]) -> CenterEstimator:
    """Make the model from fields that are checked first."""
    kind = content.get("class")
    if kind not in _CLASSES:
        raise ValueError("its class is none that can be loaded")
    array_names, checks = _CLASSES[kind]
    members.refuse_others((*array_names, "init"))
    parameters = renamed(group(content, "parameters"), silently=True)
    attributes = group(content, "attributes")
    for name, (is_valid, what) in checks.items():
        if name not in attributes:
            raise ValueError(f"it has no {name}")
        if not is_valid(attributes[name]):
            raise ValueError(f"its {name} is {_shown(attributes[name])}, not {what}")
    if not isinstance(parameters.get("init", ""), str | None):
        raise ValueError("its init is not the name of one")
    if "init" in members:
        # The next fit validates it.
        parameters["init"] = members.array("init", (None, None), ("number",))
    model: CenterEstimator = hook(kind)(**parameters)
    model._validate_params()
    for name in checks:
        setattr(model, name, attributes[name])
    model._scaled_centers = None
    _add_arrays(model, members)
    _add_points(model, members)
    model._n_features_out = model.n_clusters
    model.certificate_ = certificate_from(content, model.n_clusters)
    model.trace_ = trace_from(content)
    return model


def _add_arrays(model: CenterEstimator, members: Members) -> None:
    """Read the centers and the names of the columns."""
    shape = (model.n_clusters, model.n_features_in_)
    for name in ("cluster_centers_", "initial_centers_", "_scaled_centers"):
        if name in members or name == "cluster_centers_":
            array = members.array(name, shape, (np.float64, np.float32))
            setattr(model, name, finite(array, name))
    with np.errstate(over="ignore"):
        finite(model._centers_at_scale(), "cluster_centers_ at its _scale_exponent")
    if "feature_names_in_" in members:
        names = members.array("feature_names_in_", (model.n_features_in_,), ("U",))
        model.feature_names_in_ = names.astype(object)


def _add_points(model: CenterEstimator, members: Members) -> None:
    """Read the arrays with one entry for each point."""
    trimmed = "kept_" in _CLASSES[type(model).__name__][0]
    labels = members.array("labels_", (None,), (np.int32,))
    lowest = -1 if trimmed else 0
    model.labels_ = within(labels, "labels_", lowest, model.n_clusters - 1)
    if hasattr(model, "_parts"):
        shape = (model.n_clusters,)
        model.sizes_ = members.array("sizes_", shape, (np.float64,))
        model.prices_ = members.array("prices_", shape, (np.float64,))
        model._set_parts(model._parts, len(labels))
    if trimmed:
        kept = members.array("kept_", labels.shape, (np.float64,))
        model.kept_ = within(kept, "kept_", 0, 1)
        model.margins_ = members.array("margins_", labels.shape, (np.float64,))


def certificate_from(content: dict[str, Any], n_clusters: int) -> Certificate:
    """Return the certificate; its wording is tried, too."""
    found = group(content, "certificate")
    known = {field.name for field in fields(Certificate)} - {"proof", "better_centers"}
    values = {name: value for name, value in found.items() if name in known}
    name = found.get("status_name")
    if not isinstance(name, str) or name not in Status.__members__:
        raise ValueError(f"its certificate's status_name is {_shown(name)}, which is no ending")
    values["status"] = Status[name]
    notes = values.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("its certificate's notes are not a list of texts")
    values["notes"] = tuple(notes)
    for part, kind in (("polish", Polish), ("effort", Effort)):
        if values.get(part) is not None:
            values[part] = _made(kind, values[part], f"certificate's {part}")
    certificate = _made(Certificate, values, "certificate")
    if certificate.n_clusters != n_clusters:
        raise ValueError(f"its certificate is about {certificate.n_clusters} clusters")
    if abs(certificate.unit_exponent) > 2 * _LARGEST_EXPONENT or certificate.unit_exponent % 2:
        raise ValueError("its certificate's unit_exponent is none that could be needed")
    for name in ("inertia", "gap", "decrease"):
        if math.isnan(getattr(certificate, name)):
            raise ValueError(f"its certificate's {name} is not a number")
    if certificate.ratio == math.inf:
        raise ValueError("its certificate's lower_bound is none that could be found")
    try:
        _ = certificate.rows(), certificate.verdict
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ValueError("its certificate's numbers do not go together") from error
    return certificate


def trace_from(content: dict[str, Any]) -> Trace:
    """Return the trace, of one record at least."""
    found = group(content, "trace")
    records, bound = found.get("records"), found.get("lower_bound")
    if not isinstance(records, list) or not records:
        raise ValueError("its trace's records are not a list of records")
    if bound is None or not _number(bound):
        raise ValueError(f"its trace's lower_bound is {_shown(bound)}, not a number")
    made = (_made(Record, record, "trace's records") for record in records)
    return Trace(made, lower_bound=bound)


def preparation_from(
    content: dict[str, Any], n_features: int, names: NDArray[Any] | None
) -> Preparation | None:
    """Return the preparation of the columns; None if it was not saved."""
    if content.get("preparation") is None:
        return None
    found = group(content, "preparation")
    columns = found.get("columns")
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("its preparation's columns are not a list of names")
    # Both as arrays of texts, which drop trailing zeros.
    same = names is None or np.array_equal(np.array(columns, np.str_), names.astype(np.str_))
    if len(columns) != n_features or not same:
        raise ValueError("its preparation's columns are not those of its centers")
    center, scale = (_numbers(found, name, n_features) for name in ("center", "scale"))
    if (center is None) != (scale is None):
        raise ValueError("its preparation has one of center and scale only")
    if scale is not None and not (scale > 0).all():
        raise ValueError("its preparation's scale is not positive everywhere")
    return Preparation(tuple(columns), center, scale)


def _numbers(found: dict[str, Any], name: str, length: int) -> NDArray[np.float64] | None:
    values = found.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != length or not all(map(_number, values)):
        raise ValueError(f"its preparation's {name} is not a list of {length} numbers")
    return finite(np.array(values, dtype=np.float64), f"preparation's {name}")


def _made(kind: Callable[..., Made], values: Any, what: str) -> Made:
    """Make a record after checking the types of its fields."""
    if not isinstance(values, dict):
        raise ValueError(f"its {what} is not a group of fields")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise ValueError(f"its {what} has a field {_shown(name)}, which is unknown")
    for name, field in known.items():
        if name in values:
            _check_type(values[name], str(field.type), f"{what}: {name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"its {what} has no {name}")
    return kind(**values)


def _check_type(value: Any, annotation: str, what: str) -> None:
    """Raise an error if a value has none of the plain types in an annotation."""
    most = _LARGEST_GUARANTEE if what.endswith("max_iterations") else _LARGEST_INT64
    checks: dict[str, Callable[[Any], bool]] = {
        "float": _number,
        "int": _whole(-most, most),
        "bool": lambda v: isinstance(v, bool),
        "str": lambda v: isinstance(v, str),
        "None": lambda v: v is None,
    }
    kinds = annotation.split(" | ")
    if not any(checks[kind](value) if kind in checks else True for kind in kinds):
        raise ValueError(f"its {what} is {_shown(value)}, not {' or '.join(kinds)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


# --- The archive, which checkpoints share ---------------------------------------------------------


def write_archive(
    file: IO[bytes], name: str, text: str, arrays: dict[str, Any], compression: int
) -> None:
    """Write a zip of a text and arrays; `compression` is that of the text."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, text, compression)
        for array_name, array in arrays.items():
            with archive.open(f"{array_name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


class Members:
    """The members of a file: a JSON text of this name, and the arrays of a model or checkpoint."""

    def __init__(self, file: IO[bytes], text: str, what: str) -> None:
        self._text, self._what = text, what
        self._archive = zipfile.ZipFile(file)
        self._length = file.seek(0, 2)
        infos = self._archive.infolist()
        self._infos = {info.filename: info for info in infos}
        if len(self._infos) < len(infos):
            raise ValueError("it holds two parts of one name")

    def text(self) -> dict[str, Any]:
        """Return the JSON text, parsed."""
        if self._text not in self._infos:
            raise ValueError(f"it holds no {self._text}")
        info = self._infos[self._text]
        self._check_inside(info)
        most = min(_LARGEST_TEXT, max(_SMALL_TEXT, _MOST_EXPANSION * info.compress_size))
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its {self._text} is packed in a way that no {self._what} is")
        if info.file_size > most:
            raise ValueError(f"its {self._text} is too large, {info.file_size:,} bytes")
        content = json.loads(self._archive.read(info))
        if not isinstance(content, dict):
            raise ValueError("it does not say that it is one")
        return content

    def refuse_others(self, names: Collection[str]) -> None:
        """Raise an error if the file holds anything but the text and arrays of these names."""
        known = {self._text, *(f"{name}.npy" for name in names)}
        for name in self._infos:
            if name not in known:
                raise ValueError(f"it holds {name[:80]!r}, which no such {self._what} has")

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._infos

    def array(
        self, name: str, shape: tuple[int | None, ...], kinds: Collection[Any]
    ) -> NDArray[Any]:
        """Return an array of this shape, any length where it says None, and of one of these types.

        A type is a dtype, or "U" for texts, or "number" for whole or floating-point numbers.
        This, and that the size is right, is checked before the array is read.
        """
        if name not in self:
            raise ValueError(f"it has no {name}")
        info = self._infos[f"{name}.npy"]
        self._check_inside(info)
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"its {name} is packed, as no array of a {self._what} is")
        with self._archive.open(info) as member:
            found, dtype = _header(member)
            at = member.tell()
        if len(found) != len(shape) or any(
            s not in (None, f) for s, f in zip(shape, found, strict=True)
        ):
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise ValueError(f"its {name} has shape {found}, not ({wanted})")
        if not any(_is(dtype, kind) for kind in kinds):
            raise ValueError(f"its {name} has the type {dtype}, which no {self._what}'s has")
        size = dtype.itemsize
        for length in found:
            size *= length
        if at + size != info.file_size:
            raise ValueError(f"its {name} is not as long as it says")
        with self._archive.open(info) as member:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return np.ascontiguousarray(array, dtype=dtype.newbyteorder("="))

    def _check_inside(self, info: zipfile.ZipInfo) -> None:
        """Raise an error if a member would be larger than the file."""
        if info.header_offset + info.compress_size > self._length:
            raise ValueError(f"its {info.filename} is larger than the file")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an array: its shape and type."""
    version = np.lib.format.read_magic(member)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError("an array in it is of an unknown format")
    shape, _, dtype = readers[version](member)
    return shape, dtype


def _is(dtype: np.dtype[Any], kind: Any) -> bool:
    if kind == "U":
        return dtype.kind == "U"
    if kind == "number":
        return dtype.kind in "iufb" and dtype.itemsize <= 16
    return bool(dtype.newbyteorder("=") == np.dtype(kind))


def group(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a group of fields."""
    found = content.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"its {name} is not a group of fields")
    return found


def finite(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the array; raise an error if it is not finite."""
    if not np.isfinite(array).all():
        raise ValueError(f"its {name} is not finite everywhere")
    return array


def within(array: NDArray[Any], name: str, low: float, high: float) -> NDArray[Any]:
    """Return the array; raise an error if some value is not from `low` to `high`."""
    if not (array.size and array.min() >= low and array.max() <= high):
        raise ValueError(f"its {name} has no values, or some outside of {low} to {high}")
    return array
