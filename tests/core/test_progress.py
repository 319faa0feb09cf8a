"""Progress: on a terminal, in a notebook, or nowhere."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from wolfmeans import KMeans, TrimmedKMeans, lower_bound, report, scan, study
from wolfmeans.core import progress
from wolfmeans.core.progress import progress_on_terminal


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
        monkeypatch.setattr(progress, "monotonic", lambda: self.clock)

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
    assert terminal.getvalue() == "\r\x1b[K 25% [######..................] a quarter\r\x1b[K"


def test_a_callback_of_the_caller_comes_first(monkeypatch):
    notebook = Notebook(monkeypatch)
    with progress_on_terminal(print) as report:
        assert report is print
    assert notebook.shown == []


def test_certify_shows_its_progress_in_a_notebook(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 3))
    km = KMeans(4, random_state=0, bound=None).fit(X)
    notebook = Notebook(monkeypatch)
    km.certify(X, method="semidefinite", seconds=2)
    assert "of the optimum" in repr(notebook.shown[0])
    assert repr(notebook.shown[-1]) == ""


# --- What shows progress ----------------------------------------------------------------------


def slow_problem():
    """Return points whose descent takes several blocks of steps."""
    return np.random.default_rng(0).normal(size=(4000, 3))


@pytest.fixture
def impatient(monkeypatch):
    """A terminal on which lines appear at once."""
    for name in ("core.progress", "fitting.lower_bound", "estimators.scan", "views.portrait.making",
                 "study.runner"):  # fmt: skip
        monkeypatch.setattr(sys.modules[f"wolfmeans.{name}"], "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_UPDATES", 0.0)
    terminal = Terminal()
    # Not sys.stderr itself, which pytest sets anew when the test begins.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal, modules={}))
    return terminal


def lines_of(terminal):
    """Return what was shown; the last line must have been erased."""
    first, *lines, last = terminal.getvalue().split("\r\x1b[K")
    assert (first, last) == ("", "")
    return lines


def test_a_fit_shows_how_far_it_is(impatient):
    KMeans(30, random_state=0, engine="reference").fit(slow_problem())
    lines = lines_of(impatient)
    shares = [int(line.partition("%")[0]) for line in lines]
    assert len(lines) > 5 and shares == sorted(shares) and 0 <= shares[0] < shares[-1] <= 100
    assert all("iteration" in line and "inertia" in line for line in lines)


def test_the_starts_of_a_fit_share_one_bar(impatient):
    KMeans(30, random_state=0, n_init=4, time_limit=60).fit(slow_problem())
    lines = lines_of(impatient)
    assert "start 1 of 4" in lines[0] and "start 4 of 4" in lines[-1]
    assert int(lines[-1].partition("%")[0]) >= 75


@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
@pytest.mark.parametrize("given", [{"verbose": 1}, {"callback": lambda record: False}])
def test_who_follows_the_steps_sees_no_bar(impatient, capsys, kind, given):
    kind(3, random_state=0, **given).fit(slow_problem())
    assert "\r" not in impatient.getvalue()


def test_a_search_shows_the_time(impatient):
    KMeans(30, random_state=0, effort=0.3).fit(slow_problem())
    assert any("search, inertia" in line for line in lines_of(impatient))


def test_a_scan_has_one_bar_for_all_fits(impatient):
    scan(slow_problem()[:200], n_clusters=[2, 3], random_state=0)
    lines = lines_of(impatient)
    assert "K = 2" in lines[0] and "done" in lines[-1]
    assert any("lower bound for K = 2" in line for line in lines)
    shares = [int(line.partition("%")[0]) for line in lines]
    assert shares == sorted(shares)
    assert not any("iteration" in line for line in lines)


def test_a_page_shows_its_stages(impatient):
    X = slow_problem()[:200]
    model = KMeans(4, random_state=0).fit(X)
    impatient.truncate(0), impatient.seek(0)
    report.page(model, X)
    lines = lines_of(impatient)
    assert any("map" in line for line in lines) and "replay" in lines[-1]


def test_a_study_and_a_bound_show_a_bar(impatient, tmp_path):
    study.run(study.grid(n=[60], d=[2], k=[3], replications=20), tmp_path / "study", workers=1)
    assert "20 of 20 runs" in lines_of(impatient)[-1]
    impatient.truncate(0), impatient.seek(0)
    lower_bound(slow_problem()[:100], 3, method="semidefinite", seconds=0.5)
    assert lines_of(impatient)


def test_short_fits_show_nothing_and_the_environment_can_say_never(impatient, monkeypatch):
    monkeypatch.setenv("WOLFMEANS_PROGRESS", "0")
    KMeans(30, random_state=0).fit(slow_problem())
    assert impatient.getvalue() == ""
    monkeypatch.delenv("WOLFMEANS_PROGRESS")
    monkeypatch.setattr(progress, "PATIENCE", 2.0)
    KMeans(3, random_state=0).fit(slow_problem())
    assert impatient.getvalue() == ""


def test_a_failed_fit_erases_its_line(impatient):
    model = KMeans(30, random_state=0, init=Failing(after=1), n_init=2, time_limit=60)
    with pytest.raises(KeyboardInterrupt):
        model.fit(slow_problem())
    assert lines_of(impatient) and progress.current.fits == progress.current.taken == 0


class Failing:
    """Seeds for some starts, and then Ctrl-C."""

    def __init__(self, after):
        self.left = after

    def __call__(self, X, n_clusters, random_state):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return X[:n_clusters]


def test_a_loop_without_a_fit_shows_nothing(impatient):
    from wolfmeans import ConcaveProblem, minimize_concave

    class Cube(ConcaveProblem):
        def value(self, x):
            return -float(x @ x)

        def supergradient(self, x):
            return -2 * x

        def minimize_linear(self, r):
            return np.where(r < 0, 2.0, -1.0)

    minimize_concave(Cube(), np.array([0.1, -0.1]))
    assert impatient.getvalue() == ""
