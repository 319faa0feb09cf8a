"""Findings that are known and not mended yet; each has a test in test_regressions.py."""

import re

KNOWN = (
    # target, what is found
    ("text tables", r"InvalidOperationError: cannot convert i128"),
    ("command", r"InvalidOperationError: cannot convert i128"),
    ("checkpoints", r"(KeyError|AttributeError|TokenError|SyntaxError|TypeError|IndexError): "),
    ("checkpoints", r"(NotImplementedError|OverflowError|EOFError|RuntimeError|error|UFuncT\w+): "),
    ("Zarr", r"\w+: "),
    ("Parquet", r"a refusal that says nothing: UnicodeDecodeError"),
    ("Arrow", r"a refusal that says nothing: UnicodeDecodeError"),
    ("Arrow", r"dies .*memory allocation of \d+ bytes failed"),
    ("native, address", r"misaligned address"),
    ("native, address", r"center_step\.cpp:\d+:\d+: runtime error: null pointer"),
    ("Parquet", r"dies .*memory allocation of \d+ bytes failed"),
)


def names(target, text):
    """Whether a finding of a target is among them."""
    return any(target == one and re.search(pattern, text) for one, pattern in KNOWN)
