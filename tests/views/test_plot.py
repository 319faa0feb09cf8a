"""Figures show the numbers of the portrait, and every clustering can be drawn."""

import logging
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

import wolfmeans
from page_reader import SITUATIONS, fit_quietly, points
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.views.colors import color_of
from wolfmeans.views.plot import (
    map_figure,
    margins_figure,
    profiles_figure,
    replay_figure,
    scan_figure,
    sizes_figure,
    trace_figure,
)
from wolfmeans.views.portrait import portrait

OF_PORTRAITS = (map_figure, sizes_figure, profiles_figure, margins_figure, replay_figure)


def draws(figure, caplog):
    """The figure can be drawn, and matplotlib has nothing to complain about."""
    assert isinstance(figure, Figure)
    with caplog.at_level(logging.WARNING):
        figure.draw_without_rendering()
    assert not caplog.records


def texts_of(figure):
    figure.draw_without_rendering()
    return [text.get_text() for text in figure.findobj(lambda o: hasattr(o, "get_text"))]


@pytest.fixture(scope="module")
def shown():
    X = points(300)
    return portrait(KMeans(4, random_state=0).fit(X), X, names=["a", "b", "c"])


# --- every situation -------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_clustering_can_be_drawn(situation, caplog):
    model, X = SITUATIONS[situation]()
    seen = portrait(fit_quietly(model, X), X)
    for draw in OF_PORTRAITS:
        draws(draw(seen), caplog)
    draws(model.trace_.plot(), caplog)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_figures_become_files(shown, kind, tmp_path):
    for draw in OF_PORTRAITS:
        draw(shown).savefig(tmp_path / f"figure.{kind}", dpi=40)
        assert (tmp_path / f"figure.{kind}").stat().st_size > 1000


def size_of_png(contents):
    """Width and height in the header of a PNG file."""
    assert contents[:8] == b"\x89PNG\r\n\x1a\n" and contents[12:16] == b"IHDR"
    return int.from_bytes(contents[16:20]), int.from_bytes(contents[20:24])


def test_every_figure_shows_itself_in_a_notebook_without_pyplot(shown):
    model = KMeans(3, random_state=0).fit(points(60))
    figures = [draw(shown) for draw in OF_PORTRAITS]
    figures += [model.trace_.plot(), wolfmeans.scan(points(60), [2, 3], random_state=0).plot()]
    for figure in figures:
        difference = size_of_png(figure._repr_png_()) - figure.get_size_inches() * figure.dpi
        assert (np.abs(difference) <= 1).all()  # in pixels
        # Another kind beside it would be a second picture for programs that show all kinds.
        assert figure._repr_html_() is None
    # Figures that pyplot knows are shown again by it.
    assert not [figure for figure in figures if hasattr(figure, "number")]


@pytest.mark.parametrize("alpha", [(0.0,), (0.0, 0.1)])
def test_every_scan_can_be_drawn(alpha, caplog):
    found = wolfmeans.scan(points(80), range(1, 4), alpha, random_state=0)
    figure = scan_figure(found)
    assert len(figure.axes) == len(alpha) + 1
    draws(figure, caplog)


@pytest.mark.parametrize("numbers", [[3], [2, 3], range(2, 6)])
def test_a_scan_has_ticks_at_its_numbers_of_clusters_alone(numbers):
    figure = scan_figure(wolfmeans.scan(points(60), numbers, random_state=0))
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert [text.get_text() for text in ax.get_xticklabels()] == [str(k) for k in numbers]


def test_names_of_trimmed_curves_do_not_hide_each_other():
    found = wolfmeans.scan(points(60), range(2, 13), [0.0, 0.1], bound=None, random_state=0)
    figure = scan_figure(found)
    figure.draw_without_rendering()
    curves = figure.axes[2]
    names = [text for text in curves.texts if text.get_text().isdigit()]
    assert [names[0].get_text(), names[-1].get_text()] == ["2", "12"] and len(names) > 3
    boxes = [text.get_window_extent() for text in names]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


# --- trace -----------------------------------------------------------------------------------


def test_the_trace_of_a_run_with_a_lower_bound_shows_it():
    trace = KMeans(2, random_state=0, bound="spectral").fit(points(300)).trace_
    figure = trace_figure(trace)
    gap, sse, moved = figure.axes
    assert any("lower bound" in line.get_label() for line in sse.lines)
    assert gap.get_xscale() == gap.get_yscale() == "log"
    assert np.array_equal(sse.lines[0].get_ydata(), trace.sse)
    assert [bar.get_height() for bar in moved.patches] == trace.moved.tolist()


# --- map and replay --------------------------------------------------------------------------


def test_the_map_shows_points_centers_and_numbers(shown):
    figure = map_figure(shown)
    (ax,) = figure.axes
    drawn = np.vstack([collection.get_offsets() for collection in ax.collections])
    for place in (*shown.map.points, *shown.map.centers):
        assert (drawn == place).all(axis=1).any()
    texts = texts_of(figure)
    assert {"0", "1", "2", "3"} <= set(texts)
    assert "4 clusters" in texts and "300 points" in texts
    assert f"{shown.map.explained[0]:.0%} of the variance" in ax.get_xlabel()
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    assert x0 < drawn[:, 0].min() and drawn[:, 0].max() < x1
    assert y0 < drawn[:, 1].min() and drawn[:, 1].max() < y1


def test_points_have_the_colors_of_their_clusters(shown):
    (ax,) = map_figure(shown).axes
    colors = [to_hex(color) for color in ax.collections[0].get_facecolors()]
    assert colors == [color_of(k) for k in shown.map.labels.tolist()]


def test_outliers_do_not_squeeze_the_clusters():
    X = np.vstack([points(300), [[1e6, 0, 0], [0, 1e6, 0]]])
    seen = portrait(TrimmedKMeans(3, trim=12, random_state=0).fit(X), X)
    figure = map_figure(seen)
    assert max(figure.axes[0].get_xlim()) < 100
    (remark,) = [text for text in texts_of(figure) if "left out" in text]
    assert remark.startswith("302 points, 12 left out (grey), 2 of those")


def hidden_numbers(seen):
    """How many pairs of numbers on a map cover each other."""
    figure = map_figure(seen)
    figure.draw_without_rendering()
    numbers = [text for text in figure.axes[0].texts if text.get_text().isdigit()]
    assert [text.get_text() for text in numbers] == [str(k) for k in range(seen.n_clusters)]
    boxes = [Text.get_window_extent(text) for text in numbers]
    return sum(
        min(a.x1, b.x1) - max(a.x0, b.x0) > 3 and min(a.y1, b.y1) - max(a.y0, b.y0) > 3
        for a, b in combinations(boxes, 2)
    )


@pytest.mark.parametrize("k", [8, 40])
def test_numbers_of_clusters_do_not_hide_each_other(k):
    X = points(600, d=2, seed=4)
    seen = portrait(KMeans(k, random_state=0, bound=None).fit(X), X, replay=False)
    assert hidden_numbers(seen) == 0


def test_numbers_of_centers_in_one_place_step_aside():
    X = points(600, d=2, seed=4)
    seen = portrait(KMeans(8, random_state=0).fit(X), X, replay=False)
    together = np.tile(seen.map.centers.mean(axis=0), (8, 1))
    assert hidden_numbers(replace(seen, map=replace(seen.map, centers=together))) == 0


def test_a_sampled_map_says_so():
    X = points(300)
    seen = portrait(KMeans(2, random_state=0).fit(X), X, at_most=50)
    assert "50 of 300 points" in texts_of(map_figure(seen))


def test_the_replay_shows_the_first_and_the_last_frame(shown):
    frames = shown.replay.frames
    assert len(frames) > 6
    figure = replay_figure(shown, n_frames=4)
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()]
    assert len(titles) == 4
    assert titles[0] == "the start" and titles[-1] == frames[-1].title
    for ax in figure.axes[1:4]:
        (frame,) = [f for f in frames if f.title == ax.get_title(loc="left")]
        drawn = np.vstack([c.get_offsets() for c in ax.collections])
        assert all((drawn == center).all(axis=1).any() for center in frame.centers)
        assert any(f"{frame.sse:.5g}" in text.get_text() for text in ax.texts)
    assert len([ax for ax in replay_figure(shown, 100).axes if ax.get_visible()]) == len(frames)
    (only,) = replay_figure(shown, 1).axes
    assert only.get_title(loc="left") == frames[-1].title


def test_without_a_replay_there_is_nothing_to_draw(shown):
    with pytest.raises(ValueError, match="no replay to draw: because"):
        replay_figure(replace(shown, replay=None, replay_note="because"))
    with pytest.raises(ValueError, match="made with replay=False"):
        replay_figure(replace(shown, replay=None, replay_note=""))
    with pytest.raises(ValueError, match="n_frames must be at least 1"):
        replay_figure(shown, 0)


# --- clusters --------------------------------------------------------------------------------


def test_sizes_are_sorted_and_add_up(shown):
    (ax,) = sizes_figure(shown).axes
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted((c.points for c in shown.clusters), reverse=True)
    names = [label.get_text() for label in ax.get_yticklabels()]
    for name, width in zip(names, widths, strict=True):
        assert shown.clusters[int(name)].points == width


def test_sizes_of_weighted_and_trimmed_points():
    X = points(300)
    weights = np.full(len(X), 0.5)
    model = TrimmedKMeans(3, trim=10, random_state=0).fit(X, sample_weight=weights)
    seen = portrait(model, X, sample_weight=weights)
    (ax,) = sizes_figure(seen).axes
    widths = [bar.get_width() for bar in ax.patches]
    assert sum(widths) == pytest.approx(150) and widths[-1] == pytest.approx(10)
    assert ax.get_title(loc="left") == "weight in each cluster"


def test_profiles_show_the_most_distinguishing_features_first(shown):
    figure = profiles_figure(shown)
    bars, cells = figure.axes[:2]
    order = shown.profiles.order
    assert [bar.get_height() for bar in bars.patches] == shown.profiles.strength[order].tolist()
    names = [label.get_text() for label in cells.get_xticklabels()]
    assert names == [shown.names[j] for j in order]
    assert np.array_equal(cells.images[0].get_array(), shown.profiles.deviation[:, order])
    some = profiles_figure(shown, at_most=2)
    assert any("2 of 3 features" in text for text in texts_of(some))


def test_long_and_strange_names_are_cut_and_not_typeset(caplog):
    X = points(300, d=2)
    names = ["an endless name " * 20, "$x_{broken $ \n\t line"]
    seen = portrait(KMeans(2, random_state=0).fit(X), X, names=names)
    figure = profiles_figure(seen)
    written = {label.get_text() for label in figure.axes[1].get_xticklabels()}
    assert written == {"an endless name an endles…", "$x_{broken $ line"}
    draws(figure, caplog)


def test_margins_are_all_there(shown):
    (ax,) = margins_figure(shown).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2", "3"]
    assert ax.lines[0].get_xdata()[0] == shown.margins.mean
    for k, area in enumerate(ax.collections):
        largest = shown.margins.values[shown.margins.labels == k].max()
        assert area.get_paths()[0].vertices[:, 0].max() == largest


def cielab(rgb):
    """CIE 1976 L*a*b*, in which differences of about 2 can just be seen."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = linear @ to_xyz.T / [0.9505, 1.0, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_colors_of_clusters_are_distinct():
    colors = cielab(np.array([to_rgb(color_of(k)) for k in range(-1, 24)]))
    apart = np.sqrt(((colors[:, None] - colors) ** 2).sum(axis=2))
    assert apart[~np.eye(len(colors), dtype=bool)].min() > 20
    assert all(0 <= channel <= 1 for k in range(500) for channel in to_rgb(color_of(k)))
