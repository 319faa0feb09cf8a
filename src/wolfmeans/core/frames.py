"""Tables for pandas, which is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def to_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return the columns as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("tables need pandas: pip install pandas") from error
    return pd.DataFrame(columns)
