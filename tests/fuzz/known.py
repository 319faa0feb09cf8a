"""Known findings that are not fixed yet, or that other projects must fix."""

import re

KNOWN = (
    # target, what is found
    # Polars asks for the memory that a damaged file claims to need, and ends the process.
    ("Arrow", r"dies .*memory allocation of \d+ bytes failed"),
    ("Parquet", r"dies .*memory allocation of \d+ bytes failed"),
)


def names(target, text):
    """Return whether a finding of a target is listed."""
    return any(target == one and re.search(pattern, text) for one, pattern in KNOWN)
