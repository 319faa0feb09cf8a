"""What tells one pass over a source from another: a few bytes that stand for all numbers in order.

A hash of every number would take longer than to read it. Here numbers, taken as integers, are
added up in blocks, and by their place in a block; only the sums are hashed, which is as fast as to
add everything up. A number that is another changes a sum; so do numbers that change places, within
a block or from one to another.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024
"""Numbers: with fewer, adding them up takes longer."""


class Fingerprint:
    """A digest of numbers that come piece by piece; where a piece ends makes no difference.

    Parameters
    ----------
    by_place : bool, default=True
        Whether numbers may change places within a block, too. It takes half of the time.

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
        self._begun: list[NDArray[np.unsignedinteger[Any]]] = []
        """Pieces of a block that is not yet whole, as copies."""
        self._n_begun = 0

    def add(self, numbers: NDArray[np.floating]) -> None:
        """Take the next numbers, C-contiguous and always of the same dtype."""
        kind: Any = np.uint32 if numbers.dtype.itemsize == 4 else np.uint64
        words = numbers.reshape(-1).view(kind)
        if self._by_place is None:
            self._by_place = np.zeros(_BLOCK, dtype=kind)
        if self._n_begun:
            missing = _BLOCK - self._n_begun
            self._begin(words[:missing])
            words = words[missing:]
            if self._n_begun < _BLOCK:
                return
            self._take(np.concatenate(self._begun).reshape(1, _BLOCK))
            self._begun, self._n_begun = [], 0
        whole = len(words) // _BLOCK * _BLOCK
        if whole:
            self._take(words[:whole].reshape(-1, _BLOCK))
        if whole < len(words):
            self._begin(words[whole:])

    def _begin(self, words: NDArray[np.unsignedinteger[Any]]) -> None:
        self._begun.append(words.copy())
        self._n_begun += len(words)

    def _take(self, blocks: NDArray[np.unsignedinteger[Any]]) -> None:
        self._hash.update(blocks.sum(axis=1, dtype=blocks.dtype).tobytes())
        if self._places:
            self._by_place += blocks.sum(axis=0, dtype=blocks.dtype)

    def digest(self) -> bytes:
        """Return what stands for all numbers so far."""
        final = self._hash.copy()
        for words in self._begun:
            final.update(words.tobytes())
        if self._by_place is not None:
            final.update(self._by_place.tobytes())
        return final.digest()
