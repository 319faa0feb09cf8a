"""Validation of arrays, frames, sparse matrices and tensors: once, and without changing them.

Validated data is finite, two-dimensional, float32 or float64, C-contiguous or canonical CSR, and
aligned; squares of its values fit into float64. Errors name the row and column of what is wrong.
Parameters of estimators are validated by scikit-learn's rules, with a cache.
"""

from __future__ import annotations

import math
import sys
from copy import copy
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import make_constraint, validate_parameter_constraints
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from wolfmeans.engines.tensors import OnDevice, from_tensor, is_tensor, on_host, to_numpy
from wolfmeans.exact.native import (
    EXACT_INTEGERS,
    aligned,
    exponents_between,
    holds_texts,
    value_range,
    working_dtype,
)
from wolfmeans.exact.native import Sizes as Sizes
from wolfmeans.exact.sums import exponent_range

# Squares of differences, their sums over d columns and their weighted sums over n points stay
# below 2**1000; differences down to 53 bits below a value of 2**-400 keep their squares.
_TOP = 1000
_BOTTOM = -400
_MODERATE = 20
_WEIGHT_LIMIT = 300
_SLACK = 8
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_PLAIN_TYPES = frozenset({bool, int, float, str, type(None)})
"""Types of parameters whose values never change, so that a check of them can be cached."""
_MOST_CACHED = 1024


def validate_points(estimator: Any, X: Any, *, reset: bool, n_threads: int) -> tuple[Any, Sizes]:
    """Return X as float32 or float64, dense C-contiguous or canonical CSR; reject what is not.

    The smallest and largest magnitudes of its entries come from the same pass.
    """
    given = X
    if _is_plain(X):
        _check_columns(estimator, X, reset=reset)
    else:
        if is_tensor(X) or isinstance(X, OnDevice):
            on_gpu = getattr(estimator, "engine", "cpu") in ("auto", "gpu")
            X = given = from_tensor(X) if on_gpu and is_tensor(X) else X if on_gpu else on_host(X)
        if isinstance(X, OnDevice):
            return _validate_on_device(estimator, X, reset=reset)
        X = _converted(estimator, X, reset=reset)
    finite, *sizes = value_range(_values(X), n_threads)
    if not finite:
        _refuse_non_finite(X, estimator)
    if sizes[1] >= EXACT_INTEGERS:
        refuse_rounded_integers(given)
    return X, Sizes(*sizes)


def _converted(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return an array, a frame or a sparse matrix of any dtype and layout as one of ours."""
    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"X is a Dask {type(X).__name__}, but this function needs arrays in memory: use "
            "X.compute()"
        )
    refuse_lazy_frames(X)
    _refuse_what_is_no_table(X)
    if np.ma.is_masked(X):
        raise ValueError("Input X has masked entries; fill them or drop those rows first")
    given = X
    if sparse.issparse(X):
        refuse_stray_indices(X)
    if _is_half_precision(X):
        X = X.astype(working_dtype(np.float16))
    if _is_plain(X):
        _check_columns(estimator, X, reset=reset)
        return X
    refuse_dates(X, "X")
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
        )
    except ValueError:
        refuse_texts(given)
        raise
    if not sparse.issparse(X):
        return aligned(X)
    if X is not given:
        refuse_stray_indices(X)
    return _canonical(X)


def _validate_on_device(estimator: Any, X: OnDevice, *, reset: bool) -> tuple[OnDevice, Sizes]:
    """Validate a table of floats on a GPU, which needs no conversion.

    While the device computes their range, other checks run here.
    """
    X.look(getattr(estimator, "init", None) if reset else None)
    _check_columns(estimator, X, reset=reset)
    finite, *sizes = X.range
    if not finite:
        _refuse_non_finite(X, estimator)
    return X, Sizes(*sizes)


def _check_columns(estimator: Any, X: Any, *, reset: bool) -> None:
    """Check the number of columns of a table without names, or store it.

    The number is set here because scikit-learn tests for many kinds of tables, which takes longer
    than all other checks.
    """
    if not reset:
        validate_data(estimator, X, reset=False, skip_check_array=True)
        return
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    estimator.n_features_in_ = X.shape[1]


def _canonical(X: Any) -> Any:
    """Return a CSR matrix as an aligned one of ascending columns that says so."""
    canonical = is_canonical(X)
    if not canonical or not _is_aligned(X.data, X.indices, X.indptr):
        X = type(X)((X.data, X.indices, X.indptr), shape=X.shape, copy=True)
    if not canonical:
        X.sum_duplicates()
    seen = copy(X)
    seen.has_canonical_format = True
    return seen


def _is_plain(X: Any) -> bool:
    """Whether X is an array of native floats that needs no conversion."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.size > 0
        and (X.dtype == np.float32 or X.dtype == np.float64)
        and X.dtype.isnative
        and X.flags.c_contiguous
        and X.flags.aligned
    )


def _is_aligned(*arrays: NDArray[Any]) -> bool:
    return all(array.flags.aligned for array in arrays)


def _values(X: Any) -> NDArray[np.floating]:
    """Return all entries of dense data, the stored ones of sparse data."""
    values: NDArray[np.floating] = X.data if sparse.issparse(X) else X
    return values


def _is_half_precision(X: Any) -> bool:
    """Whether X is a float16 array or a pandas DataFrame of float16 columns."""
    dtypes = X.dtypes if hasattr(X, "iloc") else [getattr(X, "dtype", None)]
    return len(dtypes) > 0 and all(dtype == np.float16 for dtype in dtypes)


def _refuse_non_finite(X: Any, estimator: Any) -> None:
    X = np.asarray(X) if isinstance(X, OnDevice) else X
    values = _values(X)
    first = int(np.flatnonzero(~np.isfinite(values.ravel()))[0])
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, first, side="right")) - 1
        column = int(X.indices[first])
    else:
        row, column = divmod(first, X.shape[1])
    kind = "NaN" if np.isnan(values.ravel()[first]) else "infinity"
    names = getattr(estimator, "feature_names_in_", None)
    named = "" if names is None else f" ({names[column]!r})"
    raise ValueError(
        f"Input X contains {kind}, first at row {row}, column {column}{named}; "
        f"{type(estimator).__name__} does not accept missing or infinite values: "
        "drop those rows or impute them first"
    )


def validate_weights(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the weights in float64, or None when all are 1."""
    if sample_weight is None:
        return None
    if is_tensor(sample_weight):
        sample_weight = to_numpy(sample_weight.cpu())
    if np.ma.is_masked(sample_weight):
        raise ValueError("sample_weight has masked entries; fill them or drop those samples first")
    refuse_name(sample_weight)
    _refuse_bad_weights(sample_weight)
    weights: NDArray[np.float64] = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    low, high = exponents_between(*value_range(weights)[1:]) or (0, 0)
    if low < -_WEIGHT_LIMIT or high > _WEIGHT_LIMIT:
        raise ValueError(
            "sample_weight has positive values beyond 2**±300, whose products with squared "
            "distances float64 cannot hold; multiply all weights by a constant"
        )
    return None if (weights == 1.0).all() else aligned(weights)


def refuse_name(sample_weight: Any) -> None:
    """Refuse the name of a column where only weights will do."""
    if isinstance(sample_weight, (str, bytes)):
        raise ValueError(
            f"sample_weight={sample_weight!r}: names of columns are for Parquet and Arrow files "
            "that are given by their path; give the weights themselves, one for each row"
        )


def _refuse_bad_weights(sample_weight: Any) -> None:
    try:
        weights = np.asarray(sample_weight)
        if weights.dtype.kind == "c":
            raise ValueError("complex numbers have no order")
        if weights.dtype.kind in "mM":
            raise TypeError("dates and times are not numbers")
        if holds_texts(weights):
            raise ValueError("these are strings; convert them, as by np.asarray(weights, float)")
        weights = weights.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"sample_weight must be real numbers: {error}") from None
    for word, bad in (
        ("NaN", np.isnan(weights)),
        ("infinity", np.isinf(weights)),
        ("Negative values", weights < 0),
    ):
        if bad.any():
            raise ValueError(
                f"{word} in sample_weight, first at position {int(np.flatnonzero(bad.ravel())[0])}"
            )
    if weights.size and not (weights > 0).any():
        raise ValueError("sample_weight is zero for every sample; at least one must be positive")


def validate_centers(init: Any, n_clusters: int, X: Any) -> NDArray[np.floating]:
    """Return initial centers as a (K, d) copy in the centers' dtype."""
    if np.ma.is_masked(init):
        raise ValueError("Input init has masked entries; fill them first")
    if is_tensor(init):
        init = X.brought(init) if isinstance(X, OnDevice) else to_numpy(init.cpu())
    elif sparse.issparse(init):
        init = init.toarray()
    if _is_plain(init):
        given = init
    else:
        refuse_dates(init, "init")
        try:
            given = check_array(init, dtype=np.float64, input_name="init", ensure_all_finite=False)
        except (TypeError, ValueError) as error:
            raise type(error)(f"init: {error}") from error
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    longer = dtype is np.float32 and given.dtype != dtype
    if longer and np.isfinite(given).all() and np.abs(given).max() > _FLOAT32_MAX:
        raise ValueError(f"Input init has values beyond float32, the precision of X: {init!r}")
    centers: NDArray[np.floating] = np.array(given, dtype=dtype, order="C")
    if not value_range(centers)[0]:
        row, column = np.argwhere(~np.isfinite(centers))[0].tolist()
        raise ValueError(
            f"Input init contains NaN or infinity, first at row {row}, column {column}"
        )
    if centers.shape[0] != n_clusters:
        raise ValueError(
            f"The shape of the initial centers {centers.shape} does not match the number of "
            f"clusters {n_clusters}."
        )
    if centers.shape[1] != X.shape[1]:
        raise ValueError(
            f"The shape of the initial centers {centers.shape} does not match the number of "
            f"features of the data {X.shape[1]}."
        )
    return centers


def unwritable(X: Any) -> Any:
    """Return an array or CSR matrix as a read-only view, for functions of the caller."""
    if sparse.issparse(X):
        parts = [_unwritable(part) for part in (X.data, X.indices, X.indptr)]
        return type(X)(tuple(parts), shape=X.shape)
    return _unwritable(X) if isinstance(X, np.ndarray) else X


def _unwritable(values: NDArray[Any]) -> NDArray[Any]:
    seen = values.view()
    seen.flags.writeable = False
    return seen


def scale_exponent(X: Any, sizes: Sizes, weights: NDArray[np.float64] | None) -> int:
    """Return e such that 2**e X has squares that float64 can hold; almost always 0.

    Float32 data never needs it, since distances are float64.
    """
    if X.dtype == np.float32:
        return 0
    bounds = exponents_between(*sizes)
    if bounds is None:
        return 0
    low, high = bounds
    lightest = 0
    if weights is not None:
        lightest = min(0, (exponents_between(*value_range(weights)[1:]) or (0, 0))[0])
    highest = _highest_exponent(X, weights)
    if high <= highest and low >= _BOTTOM and 2 * low + lightest >= 2 * _BOTTOM:
        return 0
    exponent = highest - high
    if high <= highest:
        # Small numbers are scaled to about 1 if possible: centers may lie farther out.
        return min(exponent, max(-high, _BOTTOM - low - lightest // 2))
    if low + exponent < _BOTTOM:
        raise ValueError(
            f"Input X has values from about {_power(low)} to {_power(high)}: their squared "
            "distances do not fit into float64 together; remove the outliers or rescale columns"
        )
    return exponent


def proof_exponent(X: Any, sizes: Sizes, weights: NDArray[np.float64] | None) -> int:
    """Return e such that float32 can hold the squares of 2**e X, too; 0 for moderate numbers."""
    exponent = scale_exponent(X, sizes, weights)
    bounds = exponents_between(*sizes)
    if bounds is None or (exponent == 0 and abs(bounds[1]) <= _MODERATE):
        return exponent
    return max(-bounds[1], _BOTTOM - bounds[0])


def fitting_exponent(X: Any, sizes: Sizes, exponent: int) -> int:
    """Return the exponent for new data X of a model fitted at `exponent`: lower if X is larger."""
    if X.dtype == np.float32:
        return exponent
    bounds = exponents_between(*sizes)
    if bounds is None:
        return exponent
    return min(exponent, _highest_exponent(X, None) - bounds[1])


def refuse_far_centers(centers: NDArray[np.floating], X: Any, exponent: int) -> None:
    """Refuse initial centers whose distances to X float64 cannot hold."""
    bounds = None if X.dtype == np.float32 else exponent_range(centers)
    if bounds is None:
        return
    if bounds[1] + exponent > _highest_exponent(X, None) + _SLACK:
        raise ValueError(
            f"Input init has centers as far out as {_power(bounds[1])}: their squared distances "
            "to X do not fit into float64"
        )


def _highest_exponent(X: Any, weights: NDArray[np.float64] | None) -> int:
    """Return the exponent that values may have so that weighted sums of squares stay finite."""
    mass = float(X.shape[0] if weights is None else weights.sum())
    heaviest = 1.0 if weights is None else float(weights.max())
    spread = 2 + math.frexp(max(mass, heaviest, 1.0) * X.shape[1])[1]
    return (_TOP - spread) // 2


def _power(exponent: int) -> str:
    return f"1e{round(exponent * math.log10(2)):+d}"


def rescale(X: Any, exponent: int) -> Any:
    """Return 2**exponent X; the same object when the exponent is 0."""
    if exponent == 0:
        return X
    if isinstance(X, OnDevice):
        return X.scaled(exponent)
    if X.dtype == np.float32:
        X = X.astype(np.float64)
    if sparse.issparse(X):
        scaled = X.copy()
        scaled.data = ldexp(X.data, exponent)
        return scaled
    return ldexp(X, exponent)


def ldexp(
    values: NDArray[np.floating], exponent: int, out: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Return 2**exponent values, infinite or 0 where float64 cannot hold them."""
    with np.errstate(over="ignore", under="ignore"):
        scaled: NDArray[np.floating] = np.ldexp(values, exponent, out=out)
    return scaled


def unscaled(sum_of_squares: float, exponent: int) -> float:
    """Return a sum of squares of 2**exponent X in units of X; infinite when too large."""
    return _ldexp(sum_of_squares, -2 * exponent)


def scaled(sum_of_squares: float, exponent: int) -> float:
    """Return a sum of squares of X in units of 2**exponent X, kept finite."""
    return min(_ldexp(sum_of_squares, 2 * exponent), sys.float_info.max)


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


# --- What NumPy and SciPy would let pass: dates, stray indices and the like ---------------------


def refuse_stray_indices(X: Any) -> None:
    """Refuse sparse matrices whose indices point beyond their arrays."""
    if X.format in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        rows, columns = X.shape[::-1] if X.format == "csc" else X.shape
        rows, ends = rows // height, X.indptr
        if (
            len(ends) != rows + 1
            or ends[0] != 0
            or ends[-1] > min(len(X.indices), len(X.data))
            or (ends[1:] < ends[:-1]).any()
        ):
            raise ValueError(
                "Input X is not a valid sparse matrix: its indptr does not ascend from 0 to the "
                "number of its entries; rebuild it"
            )
        indices = {"indices": (X.indices[: ends[-1]], columns // width)}
    elif X.format == "coo" and X.ndim == 2:
        indices = {"row": (X.row, X.shape[0]), "col": (X.col, X.shape[1])}
    else:
        return
    for name, (given, limit) in indices.items():
        if len(given) and (given.min() < 0 or given.max() >= limit):
            first = int(np.flatnonzero((given < 0) | (given >= limit))[0])
            raise ValueError(
                f"Input X is not a valid sparse matrix: its {name}[{first}] is {given[first]}, "
                f"outside 0..{limit - 1}; rebuild it"
            )


def is_canonical(X: Any) -> bool:
    """Whether the rows of a CSR matrix have ascending columns, each once.

    SciPy caches the answer, and the cache is wrong after the indices are changed in place.
    """
    indices = X.indices[: X.indptr[-1]]
    rises = indices[1:] > indices[:-1]
    starts = X.indptr[1:-1]
    rises[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    return bool(rises.all())


def refuse_lazy_frames(given: Any) -> None:
    """Refuse tables of polars that are not computed yet, which look like tables of one object."""
    if type(given).__name__ == "LazyFrame" and hasattr(given, "collect"):
        raise TypeError("X is a LazyFrame, which is not computed yet: use X.collect()")


def _refuse_what_is_no_table(given: Any) -> None:
    """Refuse what NumPy or scikit-learn would refuse in words that do not name the mistake."""
    if given is None:
        raise ValueError("X is None; pass a table of numbers, one row for each point")
    if type(given) is dict:
        raise TypeError("X is a dict; pass a table, for example pandas.DataFrame(X)")
    if getattr(getattr(given, "dtype", None), "kind", "") == "c":
        raise ValueError(
            "Complex data not supported: pass the real and imaginary parts as columns of their own"
        )
    if hasattr(given, "iloc") and given.ndim == 2:
        names = list(given.columns)
        if not names:
            raise ValueError("X has no columns")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"X has {names.count(twice)} columns named {twice!r}; rename them, or pass "
                "X.to_numpy()"
            )
    if isinstance(given, list | tuple):
        lengths = [len(row) if isinstance(row, list | tuple) else -1 for row in given]
        other = next((row for row, many in enumerate(lengths) if many != lengths[0]), None)
        if other is not None and min(lengths) >= 0:
            raise ValueError(
                f"the rows of X are inhomogeneous: row 0 has {lengths[0]:,} entries, row {other:,} "
                f"has {lengths[other]:,}"
            )


def refuse_dates(given: Any, name: str) -> None:
    """Refuse dates and times, which NumPy takes for whole numbers, the missing ones too."""
    if hasattr(given, "iloc"):
        dtypes = given.dtypes if given.ndim == 2 else [given.dtype]
    elif hasattr(given, "dtype"):
        dtypes = [given.dtype]
    else:
        dtypes = [np.asarray(column).dtype for column in _columns(given)]
    timed = [j for j, dtype in enumerate(dtypes) if getattr(dtype, "kind", "") in ("m", "M")]
    boxed = given.flat if isinstance(given, np.ndarray) and given.dtype == object else ()
    if timed or any(isinstance(value, (np.datetime64, np.timedelta64)) for value in boxed):
        is_table = len(dtypes) > 1 or getattr(given, "columns", None) is not None
        where = f" in {_named_column(given, timed[0])}" if timed and is_table else ""
        raise TypeError(
            f"Input {name} has dates or times{where}, which have no scale of their own; convert "
            "them to numbers first, for example to days since the first"
        )


def refuse_texts(given: Any) -> None:
    """Refuse texts that are no numbers, with the first of them and its column."""
    if sparse.issparse(given) or getattr(given, "ndim", 2) != 2:
        return
    table = np.asarray(given, dtype=object) if isinstance(given, np.ndarray | list) else None
    if table is not None and table.ndim != 2:
        return
    columns = _columns(given) if table is None else table.T
    for j, column in enumerate(columns):
        for row, value in enumerate(np.asarray(column, dtype=object).ravel().tolist()):
            if isinstance(value, (str, bytes)) and not _is_number(value):
                raise ValueError(
                    f"Input X has text in {_named_column(given, j)}, first {value!r} at row {row}; "
                    "leave the column out, or encode it as numbers, for example with "
                    "sklearn.preprocessing.OneHotEncoder"
                )


def _is_number(value: str | bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _named_column(table: Any, place: int) -> str:
    """Return the number of a column, and its name if it has one."""
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    if names is None or not isinstance(names[place], str):
        return f"column {place}"
    return f"column {place} ({names[place]!r})"


def refuse_other_names(init: Any, names: NDArray[Any] | None) -> None:
    """Refuse initial centers whose column names, or their order, differ from those of X.

    Names that are not strings do not count.
    """
    own = list(getattr(init, "columns", ()))
    texts = len(own) > 0 and all(isinstance(name, str) for name in own)
    if names is not None and texts and own != list(names):
        raise ValueError(
            f"The columns of init are {own}, and those of X are {list(names)}: give them in one "
            "order, or init without names, as an array"
        )


def refuse_rounded_integers(given: Any) -> None:
    """Refuse integers that conversion to float64 changed; only values beyond 2**53 can be."""
    for column in _columns(given):
        entries = np.asarray(column)
        if entries.dtype.kind == "O":
            entries = np.array([v for v in entries.ravel() if isinstance(v, (int, np.integer))])
        elif entries.dtype.kind not in "iu":
            continue
        if entries.size and max(int(entries.max()), -int(entries.min())) > EXACT_INTEGERS:
            raise ValueError(
                "Input X has integers beyond 2**53, which float64 cannot hold exactly; "
                "subtract an offset or convert X to floats yourself"
            )


def _columns(X: Any) -> Any:
    """Return what has a dtype of its own: columns of a table, else the whole."""
    if sparse.issparse(X):
        return [X.tocsr().data]
    if hasattr(X, "iloc"):
        return [X.iloc[:, j] for j in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return X.get_columns()
    return X.columns if hasattr(X, "columns") else [X]


# --- Parameters of estimators -------------------------------------------------------------------


class _Constraints(NamedTuple):
    """The constraints of a class of estimators, and values that met them."""

    constraints: dict[str, Any]
    """The class attribute they were made from."""
    tests: dict[str, list[Any]]
    """scikit-learn's test objects for each parameter."""
    passed: set[tuple[str, type, Any]]
    """(name, type, value) of plain values that passed."""


_constraints: WeakKeyDictionary[type, _Constraints] = WeakKeyDictionary()


def validate_parameters(estimator: Any) -> None:
    """Refuse parameters that do not meet the constraints of the estimator, in scikit-learn's words.

    scikit-learn's check takes longer than some fits, so plain values that passed are cached.
    Arrays, callables and generators can change and are checked each time.
    """
    kind, constraints = type(estimator), estimator._parameter_constraints
    known = _constraints.get(kind)
    if known is None or known.constraints is not constraints:
        tests = {
            name: list(map(make_constraint, some))
            for name, some in constraints.items()
            if some != "no_validation"
        }
        known = _constraints[kind] = _Constraints(constraints, tests, set())
    passed, given = known.passed, vars(estimator)
    for name, tests_of_it in known.tests.items():
        value = given[name]
        plain = type(value) in _PLAIN_TYPES
        # True == 1, but only one of them may be valid: the type belongs to the key.
        if plain and (name, type(value), value) in passed:
            continue
        if not any(test.is_satisfied_by(value) for test in tests_of_it):
            validate_parameter_constraints(constraints, {name: value}, caller_name=kind.__name__)
        if plain:
            if len(passed) >= _MOST_CACHED:
                passed.clear()
            passed.add((name, type(value), value))
