"""Progress: on a terminal, in a notebook, or nowhere."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from wolfmeans import KMeans
from wolfmeans.core import notices
from wolfmeans.core.notices import progress_on_terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Notebook:
    """IPython inside a kernel, as far as it is used: what was shown, and what it became."""

    def __init__(self, monkeypatch, *, kernel=True):
        self.shown = []
        shell = SimpleNamespace(kernel=object()) if kernel else SimpleNamespace()
        display = SimpleNamespace(display=self.display)
        ipython = SimpleNamespace(get_ipython=lambda: shell, display=display)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        self.clock = 0.0
        monkeypatch.setattr(notices, "monotonic", lambda: self.clock)

    def display(self, thing, display_id):
        assert display_id is True and self.shown == []
        self.shown.append(thing)
        return SimpleNamespace(update=self.shown.append)


def test_a_notebook_shows_the_bound_as_it_rises(monkeypatch):
    notebook = Notebook(monkeypatch)
    with progress_on_terminal(None) as report:
        for share, bound in ((0.1, 120.1), (0.4, 123.4), (0.8, 124.5)):
            report(share, f"semidefinite bound: about {bound}")
            notebook.clock += 1.0
    *lines, last = notebook.shown
    assert [repr(line) for line in lines] == [
        "10%  semidefinite bound: about 120.1",
        "40%  semidefinite bound: about 123.4",
        "80%  semidefinite bound: about 124.5",
    ]
    assert 'value="0.400"' in lines[1]._repr_html_() and "123.4" in lines[1]._repr_html_()
    assert (repr(last), last._repr_html_()) == ("", "")


def test_a_notebook_is_not_flooded(monkeypatch):
    notebook = Notebook(monkeypatch)
    with progress_on_terminal(None) as report:
        for step in range(1000):
            report(step / 1000, f"step {step}")
            notebook.clock += 0.01
    assert 40 <= len(notebook.shown) <= 60


def test_texts_are_escaped(monkeypatch):
    notebook = Notebook(monkeypatch)
    with progress_on_terminal(None) as report:
        report(0.5, "<script>")
    assert "<script>" not in notebook.shown[0]._repr_html_()


def test_the_line_goes_away_after_an_error_and_is_not_shown_without_a_report(monkeypatch):
    notebook = Notebook(monkeypatch)
    with progress_on_terminal(None):
        pass
    assert notebook.shown == []
    with pytest.raises(KeyboardInterrupt), progress_on_terminal(None) as report:
        report(0.5, "half")
        raise KeyboardInterrupt
    assert [repr(thing) for thing in notebook.shown] == ["50%  half", ""]


def test_outside_of_a_kernel_there_is_no_notebook(monkeypatch):
    Notebook(monkeypatch, kernel=False)
    with progress_on_terminal(None) as report:
        assert report is None
    monkeypatch.delitem(sys.modules, "IPython")
    with progress_on_terminal(None) as report:
        assert report is None


def test_a_terminal_has_one_line(monkeypatch):
    Notebook(monkeypatch)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_on_terminal(None) as report:
        report(0.25, "a quarter")
    assert terminal.getvalue() == "\r\x1b[K 25%  a quarter\r\x1b[K"


def test_a_callback_of_the_caller_comes_first(monkeypatch):
    notebook = Notebook(monkeypatch)
    with progress_on_terminal(print) as report:
        assert report is print
    assert notebook.shown == []


def test_certify_shows_its_progress_in_a_notebook(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 3))
    km = KMeans(4, random_state=0, certify=None).fit(X)
    notebook = Notebook(monkeypatch)
    km.certify(X, method="semidefinite", seconds=2)
    assert "of the optimum" in repr(notebook.shown[0])
    assert repr(notebook.shown[-1]) == ""
