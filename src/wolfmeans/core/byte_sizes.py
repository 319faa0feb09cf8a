"""Sizes in bytes, as people write and read them."""

from __future__ import annotations

import re


def parse_bytes(text: str, what: str = "a size") -> int:
    """Return a size like 2GB or 512MiB in bytes; `what` is what an error calls it.

    Examples
    --------
    >>> parse_bytes("2GB"), parse_bytes("1.5 KiB"), parse_bytes("4096")
    (2000000000, 1536, 4096)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?)(I?)B?\s*", text.upper())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{what} must be a size like 2GB or 512MiB; got {text!r}")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix or " "))


def said(size: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> said(3 * 2**30), said(10_000_000)
    ('3.0 GiB', '9.5 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{size / 2**20:.1f} MiB"
