"""The work of a Dask worker on a block: prepare it, inspect it, answer questions.

Nothing here needs Dask. A block becomes rows as the engines take them, and weights; problems are
reported with their place in the block. Parts are kept in this process, by fit and number, with
their labels and bounds. All of that can be lost: a question names the labels that it is about
(engines.places.memory), so a part that is made again from its block gives the same bits.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.places.memory import Description, MemoryPart
from wolfmeans.exact.directions import unit_rows, without_direction
from wolfmeans.exact.limbs import Grids, Range, combined
from wolfmeans.exact.native import EXACT_INTEGERS, aligned, holds_texts, value_range
from wolfmeans.exact.sums import exponent_range

Block = tuple[Any, NDArray[np.float64] | None, str | None]
"""Rows (an array or CSR), weights, and a problem with them, or None.

A tuple, so that Dask knows how large it is.
"""


@dataclass(frozen=True)
class PartOfFit:
    """A part by its number, in one fit of one client; and how it is opened."""

    client: str
    fit: str
    number: int
    engine: str = "auto"
    n_threads: int = 1
    algorithm: str = "auto"


@dataclass(frozen=True)
class Inspection:
    """Facts about a block that are needed before work begins."""

    description: Description | None
    """None if there is a problem."""
    problem: str | None
    column: int | None = None
    """The column of the problem, if it is in one."""
    total: float = 0.0
    """The sum of its weights."""
    exponents: tuple[int, int] | None = None
    """Of its positive weights; None without any."""


class BlockError(Exception):
    """A problem of a block, in words that follow "partition 3 of X"."""


def prepared(given: Any, weights: Any, n_features: int, dtype: Any, unit: bool = False) -> Block:
    """Return a block of an array or of a data frame as the engines take it.

    With `unit`, rows are divided by their norms.
    """
    try:
        rows = _rows(given, np.dtype(dtype))
        if rows.shape[1] != n_features:
            raise BlockError(f"has {rows.shape[1]} columns; X has {n_features}")
        if unit:
            rows = _directions(rows)
    except (BlockError, TypeError, ValueError) as error:
        known = isinstance(error, BlockError)
        problem = str(error) if known else f"cannot be read as numbers: {error}"
        return np.empty((0, n_features), dtype=dtype), None, problem
    return weighted((rows, None, None), weights)


def _rows(given: Any, dtype: np.dtype[Any]) -> Any:
    """Return the rows of a block, as an array or as CSR with each column once and in order."""
    if hasattr(given, "iloc"):
        for j in range(given.shape[1]):
            _refuse_large_integers(given.iloc[:, j].to_numpy())
        return aligned(given.to_numpy(dtype=dtype, na_value=np.nan))
    if sparse.issparse(given):
        _refuse_numbers(given.data if hasattr(given, "data") else given.tocoo().data, dtype)
        rows = sparse.csr_array(given, dtype=dtype, copy=True)
        rows.sum_duplicates()
        return rows
    if hasattr(given, "tocsr") or hasattr(given, "todense"):
        kind = type(given).__name__
        raise BlockError(f"is a {kind}; blocks must be NumPy arrays, data frames or SciPy's CSR")
    if np.ma.is_masked(given):
        raise BlockError("has masked entries; fill them or drop those rows first")
    array = np.asarray(given)
    if array.ndim != 2:
        raise BlockError(f"has {array.ndim} dimensions; 2 are needed")
    _refuse_numbers(array, dtype)
    return aligned(array, dtype=dtype)


def _directions(rows: Any) -> Any:
    """Return the rows divided by their norms."""
    none = without_direction(rows)
    if none.any():
        row = int(np.flatnonzero(none)[0])
        raise BlockError(f"has a row of norm 0, its row {row}, which has no direction")
    with np.errstate(invalid="ignore"):  # what is not finite is refused later
        return unit_rows(rows)


def _refuse_numbers(array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    if array.dtype.kind == "c":
        raise BlockError("has complex numbers, which have no order")
    if array.dtype.kind == "f" and array.dtype.itemsize > dtype.itemsize:
        raise BlockError(f"has {array.dtype} although X says {dtype}; use X.astype(...)")
    _refuse_large_integers(array)


def _refuse_large_integers(array: NDArray[Any]) -> None:
    if array.dtype.kind not in "iu" or array.size == 0:
        return
    if max(int(array.max()), -int(array.min())) > EXACT_INTEGERS:
        raise BlockError("has integers beyond 2**53, which float64 cannot hold exactly")


def weighted(block: Block, given: Any) -> Block:
    """Return the block with weights; None for none."""
    rows, _, problem = block
    if problem is not None or given is None:
        return block
    try:
        if holds_texts(np.asarray(given)):
            raise ValueError("these are texts; convert them first")
        weights = aligned(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        return rows, None, f"has weights that are no real numbers: {error}"
    if weights.shape != (rows.shape[0],):
        return rows, None, f"has {rows.shape[0]} rows and weights of shape {weights.shape}"
    return rows, weights, None


def rescaled(block: Block, exponent: int) -> Block:
    """Return the block with 2**exponent times its rows."""
    rows, weights, problem = block
    if sparse.issparse(rows):
        larger = rows.copy()
        larger.data = np.ldexp(rows.data, exponent)
        return larger, weights, problem
    return np.ldexp(rows, exponent), weights, problem


def inspect(block: Block, part: PartOfFit) -> Inspection:
    """Inspect a block, in one look through it."""
    rows, weights, problem = block
    problem = problem or _bad_weight(weights)
    if problem is not None:
        return Inspection(None, problem)
    entry = _bad_entry(rows, part.n_threads)
    if entry is not None:
        return Inspection(None, *entry)
    if rows.shape[0] == 0:
        grids = Grids(Range(), None if weights is None else Range())
        kind = (rows.shape[1], rows.dtype, "", weights is not None)
        return Inspection(Description(0, *kind, True, 0.0, 0.0, grids), None)
    described = _opened(block, part).describe()
    if weights is None:
        return Inspection(described, None, total=float(rows.shape[0]))
    exponents = exponent_range(weights)
    return Inspection(described, None, total=math.fsum(weights), exponents=exponents)


def _bad_entry(rows: Any, n_threads: int) -> tuple[str, int] | None:
    """Return what is wrong with the first entry that is not finite, and its column."""
    values = rows.data if sparse.issparse(rows) else rows
    if values.size == 0 or value_range(values, n_threads)[0]:
        return None
    if sparse.issparse(rows):
        entry = int(np.argmax(~np.isfinite(values)))
        row = int(np.searchsorted(rows.indptr, entry, "right")) - 1
        column = int(rows.indices[entry])
    else:
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
    kind = "NaN" if np.isnan(rows[row, column]) else "infinity"
    return f"contains {kind}, first at row {row} of the partition, column {column}", column


def _bad_weight(weights: NDArray[np.float64] | None) -> str | None:
    if weights is None:
        return None
    for word, bad in (
        ("NaN", np.isnan(weights)),
        ("infinity", np.isinf(weights)),
        ("a negative value", weights < 0),
    ):
        if bad.any():
            return f"has {word} in sample_weight, first at row {int(np.argmax(bad))} of it"
    return None


# --- Questions -------------------------------------------------------------------------------


def ask(block: Block, part: PartOfFit, method: str, given: Sequence[Any]) -> Any:
    """Ask the part that a block is; one question at a time."""
    held = _kept.held(part)
    with held.lock:
        if held.part is None:
            held.part = _opened(block, part)
        return getattr(held.part, method)(*given)


def ask_group(
    blocks: Sequence[Block],
    places: Sequence[int],
    question: tuple[PartOfFit, Sequence[int], str, Sequence[Sequence[Any]]],
    summing: bool,
) -> Any:
    """Ask some parts of a group; return the sum of their answers, or all of them in a list.

    The question has the fit, the numbers of the parts, the method, and the arguments for each
    part, or once for all.
    """
    part, numbers, method, given = question
    own = given if len(given) == len(numbers) else [given[0]] * len(numbers)
    answers = (
        ask(blocks[place], replace(part, number=number), method, one)
        for place, number, one in zip(places, numbers, own, strict=True)
    )
    return combined(answers) if summing else list(answers)


def called_for_each(
    blocks: Sequence[Block], function: Callable[..., Any], given: Sequence[Sequence[Any]]
) -> list[Any]:
    """Return what a function returns for each block of a group and its own arguments."""
    return [function(block, *own) for block, own in zip(blocks, given, strict=True)]


def _opened(block: Block, part: PartOfFit) -> MemoryPart:
    rows, weights, _ = block
    return MemoryPart(rows, weights, part.engine, part.n_threads, part.algorithm)


def itself(given: Any) -> Any:
    """Return the argument: a task that puts it on a worker."""
    return given


def forget(client: str, fits: Sequence[str]) -> None:
    """Free the parts of fits that have ended."""
    _kept.forget(client, fits)


@dataclass
class _Held:
    lock: threading.Lock = field(default_factory=threading.Lock)
    part: MemoryPart | None = None


@dataclass
class _Fit:
    parts: dict[int, _Held] = field(default_factory=dict)
    asked: float = 0.0
    """When the last question came."""


class _Kept:
    """The parts in this process.

    A fit that ends calls `forget`. Of the fits of one client that died, only the last few are kept,
    and none that has been idle for long.
    """

    MOST_FITS = 4
    IDLE_SECONDS = 900.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fits: dict[tuple[str, str], _Fit] = {}
        """By client and fit, the one that was asked last at the end."""

    def held(self, part: PartOfFit) -> _Held:
        name = (part.client, part.fit)
        with self._lock:
            fit = self._fits.pop(name, None)
            new = fit is None
            fit = self._fits[name] = fit or _Fit()
            fit.asked = time.monotonic()
            if new:
                self._make_room(part.client)
            return fit.parts.setdefault(part.number, _Held())

    def _make_room(self, client: str) -> None:
        of_client = [name for name in self._fits if name[0] == client]
        oldest = time.monotonic() - self.IDLE_SECONDS
        idle = [name for name, fit in self._fits.items() if fit.asked < oldest]
        for name in {*of_client[: -self.MOST_FITS], *idle}:
            del self._fits[name]

    def forget(self, client: str, fits: Sequence[str]) -> None:
        with self._lock:
            for fit in fits:
                self._fits.pop((client, fit), None)

    def __len__(self) -> int:
        with self._lock:
            return sum(len(fit.parts) for fit in self._fits.values())


_kept = _Kept()
