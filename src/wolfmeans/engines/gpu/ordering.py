"""The lexicographic order of the rows on the device, and their hashes.

Specifications: `exact.ordering` and `exact.hashing`.

A sort by the first columns, two at once where they are float32, settles nearly all rows of
continuous data. Of the rest one row of each value is kept, so that duplicates cost one hash; and
each group of tied rows goes on at the first column that splits it, so that constant columns cost
one look.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton

from wolfmeans.engines.gpu.kernels.ordering import find_differences, hash_rows
from wolfmeans.engines.gpu.launching import UNFUSED, launch


class _Tied(NamedTuple):
    """Rows whose order is not decided yet, group after group."""

    rows: torch.Tensor
    """(m,) rows; equal ones in the order of their numbers."""
    groups: torch.Tensor
    """(m,) the place where each row's group begins; the groups are in their order."""
    places: torch.Tensor
    """(m,) the places that the rows share out, ascending."""


def lexicographic_order(X: torch.Tensor) -> torch.Tensor:
    """Return the (n,) rows of (n, d) finite data in lexicographic order; equal rows keep theirs."""
    d = X.shape[1]
    keys, columns = _first_keys(X)
    keys, order = torch.sort(keys, stable=True)
    differ = keys[1:] != keys[:-1]
    if bool(differ.all()):
        return order
    tied = _still_tied(order, differ, torch.arange(len(order), device=X.device))
    if columns == 1 < d:
        tied = _split(tied, _key(X[tied.rows, 1]), order)
        columns = 2
    if columns == d or not len(tied.rows):
        return order
    leaders, value = _distinct(X, tied.rows)
    among = torch.arange(len(leaders), device=X.device)
    ordered = among.clone()
    left = _Tied(among, tied.groups[leaders], among)
    while len(left.rows):
        rows = tied.rows[leaders[left.rows]]
        column = _next_columns(X, rows, left.groups)
        some = column < d
        left = _Tied(*(part[some] for part in left))
        left = _split(left, _key(X[rows[some], column[some]]), ordered)
    rank = torch.empty_like(ordered)
    rank[ordered] = among
    order[tied.places] = tied.rows[torch.sort(rank[value], stable=True).indices]
    return order


def row_hashes(X: torch.Tensor) -> torch.Tensor:
    """Return the hashes of all rows (`exact.hashing`), their bits as int64."""
    return _hashes(X, None)


def _hashes(X: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    n, d = X.shape
    many = n if rows is None else len(rows)
    hashes = torch.empty(many, dtype=torch.int64, device=X.device)
    launch(
        hash_rows, triton.cdiv(many, 64),
        X, rows, hashes, many, d, BLOCK=64, COLUMNS=min(64, triton.next_power_of_2(d)), **UNFUSED,
    )  # fmt: skip
    return hashes


def _key(values: torch.Tensor) -> torch.Tensor:
    """Return what values are sorted by: adding 0 makes zeros of both signs the same."""
    return values + 0.0


def _first_keys(X: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return what all rows are sorted by first, and how many columns that stands for."""
    if X.dtype != torch.float32 or X.shape[1] == 1:
        return _key(X[:, 0]), 1
    bits = _key(X[:, :2]).view(torch.int32)
    # Integers in the order of the numbers.
    bits ^= (bits >> 31) & 0x7FFFFFFF
    wide = bits.long()
    return (wide[:, 0] << 32) + wide[:, 1], 2


def _split(tied: _Tied, keys: torch.Tensor, order: torch.Tensor) -> _Tied:
    """Sort tied rows by the keys within their groups, write that down, return those still tied."""
    if not len(keys):
        return tied
    keys, sorting = torch.sort(keys, stable=True)
    groups, again = torch.sort(tied.groups[sorting], stable=True)
    keys, sorting = keys[again], sorting[again]
    rows = tied.rows[sorting]
    order[tied.places] = rows
    differ = (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])
    return _still_tied(rows, differ, tied.places)


def _still_tied(rows: torch.Tensor, differ: torch.Tensor, places: torch.Tensor) -> _Tied:
    """Return those of sorted rows that do not differ from a neighbor, and what they share."""
    begins = torch.ones_like(rows, dtype=torch.bool)
    begins[1:] = differ
    ends = torch.ones_like(begins)
    ends[:-1] = differ
    starts = places[begins][torch.cumsum(begins, 0) - 1]
    still = torch.nonzero(~(begins & ends)).flatten()
    return _Tied(rows[still], starts[still], places[still])


def _differences(X: torch.Tensor, rows: torch.Tensor, related: torch.Tensor) -> torch.Tensor:
    """Return for each row but the first the column where it differs from the one before it.

    d where the two are equal, or not related.
    """
    d = X.shape[1]
    columns = torch.empty(len(rows) - 1, dtype=torch.int64, device=X.device)
    if len(columns):
        launch(
            find_differences, triton.cdiv(len(columns), 128),
            X, rows[1:], rows[:-1], related.to(torch.int8), columns, len(columns), d,
            BLOCK=128, COLUMNS=min(32, triton.next_power_of_2(d)), **UNFUSED,
        )  # fmt: skip
    return columns


def _next_columns(X: torch.Tensor, rows: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return for each row the first column in which its group is not constant; d without one."""
    number = torch.zeros_like(groups)
    number[1:] = torch.cumsum(groups[1:] != groups[:-1], 0)
    found = _differences(X, rows, groups[1:] == groups[:-1])
    first = torch.full_like(groups, X.shape[1])
    first.scatter_reduce_(0, number[1:], found, "amin")
    return first[number]


def _distinct(X: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which of the rows are the first of their value, and the number of each row's value.

    Two different rows with one hash are all but impossible; then every row counts as a value.
    """
    d = X.shape[1]
    hashes, sorting = torch.sort(_hashes(X, rows), stable=True)
    same = hashes[1:] == hashes[:-1]
    everything = torch.arange(len(rows), device=X.device)
    if bool((same & (_differences(X, rows[sorting], same) < d)).any()):
        return everything, everything
    first = torch.ones_like(hashes, dtype=torch.bool)
    first[1:] = ~same
    leaders = torch.sort(sorting[first]).values
    number = torch.empty_like(everything)
    number[leaders] = torch.arange(len(leaders), device=X.device)
    value = torch.empty_like(everything)
    value[sorting] = number[sorting[first]][torch.cumsum(first, 0) - 1]
    return leaders, value
