"""Reports: self-contained pages that can be mailed to a colleague."""

from wolfmeans.views.page.clustering import page
from wolfmeans.views.page.document import Page
from wolfmeans.views.page.scanning import scan_page

__all__ = ["Page", "page", "scan_page"]
