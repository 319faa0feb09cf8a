"""Reports: self-contained pages that can be mailed to a colleague."""

from wolfmeans.report.page import write_page

__all__ = ["write_page"]
