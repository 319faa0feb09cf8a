"""The zip of a model or a checkpoint: a JSON text and plain arrays. Nothing is read that none has.

A file from anywhere may ask for more memory than there is. Arrays are stored as they are, so that
one takes no more than the file does; only the text is compressed, and its size is bounded.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

TEXT = "model.json"
# A text may be as large as a long trace is, but not the blow-up of next to nothing.
_LARGEST_TEXT, _SMALL_TEXT, _MOST_BLOW_UP = 1 << 28, 1 << 22, 100


def write_members(
    file: IO[bytes], text: str, arrays: dict[str, NDArray[Any]], name_of_text: str = TEXT
) -> None:
    """Write the zip of a model or a checkpoint: a compressed text, and arrays as they are."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name_of_text, text, zipfile.ZIP_DEFLATED)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


class Members:
    """What a file holds, read one by one: a text of that name, and the arrays of what it is."""

    def __init__(self, file: IO[bytes], text: str = TEXT, what: str = "model") -> None:
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
        most = min(_LARGEST_TEXT, max(_SMALL_TEXT, _MOST_BLOW_UP * info.compress_size))
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its {self._text} is packed in a way that no {self._what} is")
        if info.file_size > most:
            raise ValueError(f"its {self._text} is too large, {info.file_size:,} bytes")
        content = json.loads(self._archive.read(info))
        if not isinstance(content, dict):
            raise ValueError("it does not say that it is one")
        return content

    def refuse_others(self, names: Collection[str]) -> None:
        """Refuse a file that holds anything but the text and arrays of these names."""
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
        Whether it is so is known, and whether that fits the size, before the array is read.
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
        """Refuse a part that would be larger than the file."""
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
