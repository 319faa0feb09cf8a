"""Reports: self-contained pages that can be mailed to a colleague."""

from wolfmeans.report.clustering import page
from wolfmeans.report.document import Page
from wolfmeans.report.scanning import scan_page

__all__ = ["Page", "page", "scan_page"]
