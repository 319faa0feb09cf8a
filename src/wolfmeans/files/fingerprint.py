"""A digest of all numbers of a pass in order, to compare one pass over a source with another.

Hashing every number would take longer than reading it. Here numbers, taken as integers, are added
up in blocks and by their place in a block, and only the sums are hashed. This is as fast as adding
up everything. A changed number changes a sum, and so do numbers that change places, within a block
or between blocks.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024
"""Numbers in a block: sums of smaller blocks are slower."""


class Fingerprint:
    """A digest of numbers that are added piece by piece; the pieces do not matter.

    Parameters
    ----------
    by_place : bool, default=True
        Whether to notice numbers that change places within a block. It takes half of the time.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.arange(5000.0)
    >>> whole, pieces, turned = Fingerprint(), Fingerprint(), Fingerprint()
    >>> whole.add(numbers)
    >>> for piece in np.split(numbers, [7, 3000]):
    ...     pieces.add(piece)
    >>> turned.add(numbers[::-1].copy())
    >>> whole.digest() == pieces.digest(), whole.digest() == turned.digest()
    (True, False)
    """

    def __init__(self, *, by_place: bool = True) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._places = by_place
        self._by_place: NDArray[np.unsignedinteger[Any]] | None = None
        self._rest: NDArray[np.unsignedinteger[Any]] | None = None
        """A copy of the last numbers, which do not fill a block."""

    def add(self, numbers: NDArray[np.floating]) -> None:
        """Add the next numbers, C-contiguous and always of the same dtype."""
        kind: Any = np.uint32 if numbers.dtype.itemsize == 4 else np.uint64
        words = numbers.reshape(-1).view(kind)
        if self._by_place is None or self._rest is None:
            self._by_place, self._rest = np.zeros(_BLOCK, dtype=kind), words[:0]
        if len(self._rest):
            missing = _BLOCK - len(self._rest)
            self._rest = np.concatenate([self._rest, words[:missing]])
            words = words[missing:]
            if len(self._rest) < _BLOCK:
                return
            self._add_blocks(self._rest)
        whole = len(words) // _BLOCK * _BLOCK
        self._add_blocks(words[:whole])
        self._rest = words[whole:].copy()

    def _add_blocks(self, words: NDArray[np.unsignedinteger[Any]]) -> None:
        blocks = words.reshape(-1, _BLOCK)
        self._hash.update(blocks.sum(axis=1, dtype=words.dtype).tobytes())
        if self._places:
            self._by_place += blocks.sum(axis=0, dtype=words.dtype)

    def digest(self) -> bytes:
        """Return the digest of all numbers so far."""
        final = self._hash.copy()
        if self._rest is not None and self._by_place is not None:
            final.update(self._rest.tobytes())
            final.update(self._by_place.tobytes())
        return final.digest()
