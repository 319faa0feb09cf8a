"""What a page's script reads: one block of JSON, long arrays in it as base64 of their bytes."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.views.page.markup import readable

_LONG = 64


def data_block(content: Any) -> str:
    r"""Return the element with the data; nothing in it can end it or begin another one.

    Examples
    --------
    >>> data_block({"name": "</script>"})
    '<script type="application/json" id="data">{"name":"\\u003c/script\\u003e"}</script>'
    """
    text = json.dumps(_plain(content), allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="data">{text}</script>'


def packed(array: NDArray[Any], kind: str) -> dict[str, Any] | list[Any]:
    """Return an array for the script: `kind` is a NumPy name like f4, little-endian."""
    if array.size < _LONG:
        values: list[Any] = _plain(array.reshape(-1).tolist())
        return values
    contents = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
    return {"kind": kind, "bytes": base64.b64encode(contents).decode("ascii")}


def _plain(content: Any) -> Any:
    """Return the content with null where a number is not finite, for which JSON has no word.

    Texts are what can be written.
    """
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, str):
        return readable(content)
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
