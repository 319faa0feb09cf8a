"""A figure that notebooks show. This module imports matplotlib, so it is imported late."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class NotebookFigure(Figure):  # type: ignore[misc, unused-ignore] # where matplotlib is missing
    """A matplotlib figure that a notebook shows as a picture, without pyplot.

    Notebooks can show matplotlib's own figures only after pyplot has set up a backend; before that
    they print the name of the class. This figure gives them a picture. It has no window and is not
    in pyplot's list of open figures, so a backend that shows that list does not show it again.

    It offers PNG only. That is what ``%matplotlib inline`` makes of figures by default, so a cell
    has one picture with or without it.
    """

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
