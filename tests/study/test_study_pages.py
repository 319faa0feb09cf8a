"""What a study shows: tables, figures, tested sentences and page, from made-up results."""

import csv
import io
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from wolfmeans.study import claims, figures, page, tables
from wolfmeans.study.claims import (
    SkyDistances,
    Verdict,
    by_share,
    counted,
    listed,
    reduced_to_rank,
    sky_distances,
)
from wolfmeans.study.report import write_report
from wolfmeans.study.results import GAPS, Collection, ScenarioResult
from wolfmeans.study.scenarios import Scenario
from wolfmeans.study.summary import summary
from wolfmeans.study.tables import signed

HOLDS, PARTLY, FAILS, NOT_RUN = Verdict
HOSTILE = "file:<script>alert('x')</script> & \"q\" </title>"


def decay(slope=-1.3, length=27, start=100.0, noise=0.02):
    """Worst-case gaps along a line, with a ripple so that standard errors are positive."""
    t = np.arange(1, length + 1)
    ripple = np.exp(noise * np.cos(2.0 * t))
    return tuple((start * t**slope * ripple).tolist())


def result(
    data="blobs", n=500, d=2, k=5, *, worst=None, slope=-1.3, scatter=150.0, ratio=0.5, steps=None,
    median=2.0, **settings,
):  # fmt: skip
    settings = {"replications": 100} | settings
    if not isinstance(worst, dict):
        worst = dict.fromkeys(GAPS, worst or decay(slope))
    return ScenarioResult(
        scenario=Scenario(data, n, d, k, **settings),
        worst=worst,
        worst_minimum=worst,
        iterations=steps or {8: 40, 12: 60},
        empty_runs=3,
        scatter_max=scatter,
        scatter_mean=scatter / 2,
        worst_ratio={"gap": ratio, "decrease": ratio},
        separation={"median_nearest": median},
    )


def collect(*results):
    return Collection.of(results)


def judge(test, *results):
    return test(collect(*results)).verdict


GRID = [
    result(n=n, d=d, k=k, worst=decay(start=100 / k * d), scatter=150.0 * d)
    for n in (500, 1000)
    for d in (2, 5)
    for k in (5, 10)
]


# --- Tables ----------------------------------------------------------------------------------


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_csv_has_exactly_the_columns_and_a_row_for_each_scenario_and_gap():
    text = tables.tables_csv(collect(*GRID))
    assert text.splitlines()[0] == (
        "n,d,k,gap,replications,n_points,slope,slope_se,intercept,intercept_se,bound_intercept,"
        "p_value,printed_bound_intercept,printed_slope,printed_slope_se,printed_intercept,"
        "printed_intercept_se,printed_p_value"
    )
    rows = read(text)
    keys = [(row["n"], row["d"], row["k"], row["gap"]) for row in rows]
    assert len(keys) == len(set(keys)) == 8 * 3


def test_the_csv_has_our_numbers_and_the_printed_ones():
    made = result(worst=tuple(50.0 / t for t in range(1, 28)), scatter=math.e**3)
    [row, *_] = read(tables.tables_csv(collect(made)))
    assert (row["gap"], row["n_points"], row["replications"]) == ("published", "9", "100")
    assert float(row["slope"]) == pytest.approx(-1.0)
    assert float(row["intercept"]) == pytest.approx(math.log(50))
    assert float(row["bound_intercept"]) == pytest.approx(3.0)
    assert (row["printed_slope"], row["printed_slope_se"]) == ("-0.8559", "0.1273")
    assert (row["printed_bound_intercept"], row["printed_p_value"]) == ("11.1017", "0.1409")


@pytest.mark.parametrize(
    "other",
    [
        {"n": 501}, {"data": "elliptic"}, {"seeding": "plain-k-means++"}, {"alpha": 0.1},
        {"empty": "farthest"}, {"data": "file:iris"},
    ],
)  # fmt: skip
def test_nothing_is_printed_beside_what_the_paper_did_not_run(other):
    [row, *_] = read(tables.tables_csv(collect(result(**other))))
    assert not any(value for name, value in row.items() if name.startswith("printed_"))


def test_segmentation_has_the_printed_slope_alone():
    made = result("segmentation-standardized", 2310, 14, 7)
    [row, *_] = read(tables.tables_csv(collect(made)))
    assert (row["printed_slope"], row["printed_slope_se"]) == ("-1.2451", "0.1228")
    assert row["printed_intercept"] == row["printed_bound_intercept"] == ""


def test_printed_numbers_enter_no_result(monkeypatch):
    before = read(tables.tables_csv(collect(*GRID)))
    verdicts = [f.verdict for f in claims.all_findings(collect(*GRID), None)]
    monkeypatch.setattr(
        "wolfmeans.study.paper.printed_row",
        lambda n, d, k: dict.fromkeys(tables.PRINTED, 77.0),
    )
    after = read(tables.tables_csv(collect(*GRID)))
    assert after[0]["printed_slope"] == "77.0000"
    for old, new in zip(before, after, strict=True):
        assert all(old[c] == new[c] for c in tables.COLUMNS if not c.startswith("printed_"))
    assert [f.verdict for f in claims.all_findings(collect(*GRID), None)] == verdicts


def test_runs_too_short_for_a_line_leave_cells_empty():
    short = result(worst=(5.0, 2.0))
    [row, *_] = read(tables.tables_csv(collect(short)))
    assert row["slope"] == row["p_value"] == ""
    assert row["n_points"] == "1"
    assert tables.MISSING in tables.markdown(collect(short))


def test_repeats_are_in_the_full_file_and_only_the_first_in_the_table():
    some = collect(result(repeat=1, slope=-2.0), result(repeat=0), result("elliptic"))
    shown = [float(row["slope"]) for row in read(tables.tables_csv(some))][::3]
    assert shown == pytest.approx([-1.3, -1.3], abs=0.02)
    rows = read(tables.scenarios_csv(some))
    assert [(row["data"], row["repeat"]) for row in rows[::3]] == [
        ("blobs", "0"), ("blobs", "1"), ("elliptic", "0"),
    ]  # fmt: skip


def test_one_gap_can_be_chosen():
    assert {row["gap"] for row in read(tables.tables_csv(collect(*GRID), ["decrease"]))} == {
        "decrease"
    }


def test_markdown_has_a_table_for_each_dimension_with_the_printed_row_beside_ours():
    text = tables.markdown(collect(*GRID), ["published"])
    assert text.count("**Simulation results for d = ") == 2
    [line] = [line for line in text.splitlines() if line.startswith("| 500 | 5 |")][:1]
    assert "−0.8559 (0.1273)" in line
    assert "10.6940 (0.2399)" in line
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {11}


def test_names_cannot_break_markdown():
    text = tables.markdown(collect(result("file:a|b<i>\n*c*")), ["gap"])
    row = text.splitlines()[-1]
    assert "a\\|b&lt;i>" in row
    assert "<i>" not in row


def unescaped(text, letter):
    return len(re.findall(r"(?<!\\)" + re.escape(letter), text))


@pytest.mark.parametrize("data", ["blobs", "file:50% & more_{x}#~^\\ $"])
def test_latex_is_balanced_and_its_rows_have_as_many_cells_as_columns(data):
    text = tables.latex(collect(*GRID, result(data, 77)))
    assert text.count("\\begin{table}") == text.count("\\end{table}") == 3 * 3
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}")
    assert unescaped(text, "{") == unescaped(text, "}")
    assert unescaped(text, "$") % 2 == 0
    for table in text.split("\\begin{tabular}")[1:]:
        columns = len(table[1 : table.index("}")])
        body = table[table.index("\\midrule") : table.index("\\bottomrule")]
        lines = [line for line in body.splitlines() if line.endswith("\\\\")]
        assert lines
        assert {unescaped(line, "&") + 1 for line in lines} == {columns}


# --- Collections -----------------------------------------------------------------------------


def test_a_scenario_that_is_there_twice_counts_once():
    assert len(collect(result(), result(), result(repeat=1)).results) == 2
    assert len(collect(result(), result(repeat=1)).repeats()) == 1


def test_of_several_numbers_of_replications_the_most_are_shown():
    some = collect(result(replications=10), result(replications=1000), result(replications=100))
    assert [r.scenario.replications for r in some.firsts()] == [1000]
    assert [r.scenario.replications for r in some.grid()] == [1000]
    assert some.beyond() == []
    assert len(some.repeats()) == 3


def test_the_grid_is_the_paper_s_and_the_rest_is_beyond():
    some = collect(result(), result(n=77), result("elliptic"), result("segmentation-raw", k=7))
    assert [r.scenario.name for r in some.grid()] == ["blobs-n500-d2-k5"]
    assert [r.scenario.data for r in some.segmentation()] == ["segmentation-raw"]
    assert [r.scenario.n for r in some.beyond()] == [77, 500]


def test_folders_without_results_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no study"):
        Collection.load(tmp_path)
    (tmp_path / "scenarios").mkdir()
    with pytest.raises(ValueError, match="no scenario is finished"):
        Collection.load(tmp_path)
    for text in ("{", "[]", json.dumps({"format": "wolfmeans-study", "version": 1})):
        (tmp_path / "scenarios" / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"x\.json"):
            Collection.load(tmp_path)


# --- Sentences -------------------------------------------------------------------------------


def test_rejections_follow_the_p_values():
    steep, flat = decay(-1.3), decay(-0.5)
    with_decrease = {"published": steep, "decrease": flat, "gap": steep}
    assert judge(claims.rejections, result()) is HOLDS
    assert judge(claims.rejections, result(worst=with_decrease)) is PARTLY
    assert judge(claims.rejections, result(worst=flat)) is FAILS
    assert judge(claims.rejections, result("elliptic", worst=flat)) is NOT_RUN
    assert judge(claims.rejections, result(worst=(3.0,))) is NOT_RUN


def test_rejections_use_the_sidak_level_of_the_tests_that_were_run():
    # p is between the level of one test and that of four.
    worst = decay(-0.8, noise=0.33)
    p_value = result(worst=worst).regression("gap").p_value
    assert 1 - 0.95**0.25 < p_value < 0.05
    assert judge(claims.rejections, result(worst=worst)) is FAILS
    others = [result(k=k) for k in (10, 20, 50)]
    assert judge(claims.rejections, result(worst=worst), *others) is HOLDS


def test_the_theorem_holds_up_to_a_ratio_of_one():
    assert judge(claims.theorem, result(ratio=1.0)) is HOLDS
    assert judge(claims.theorem, result(), result(k=10, ratio=1.0 + 1e-9)) is FAILS
    assert judge(claims.theorem) is NOT_RUN


def test_the_line_bounds_what_lies_below_it():
    assert judge(claims.bound_line, result(scatter=200.0)) is HOLDS
    assert judge(claims.bound_line, result(scatter=50.0)) is FAILS
    above = {"published": decay(start=300.0), "decrease": decay(), "gap": decay()}
    assert judge(claims.bound_line, result(worst=above, scatter=200.0)) is PARTLY
    assert judge(claims.bound_line, result("uniform")) is NOT_RUN


def test_monotone_counts_rises_within_the_window():
    falling = tuple(float(100 - t) for t in range(27))
    assert claims.rises(result(worst=falling), "gap") == (0, 8)
    late = (*falling[:20], 1e3, *falling[21:])
    assert claims.rises(result(worst=late), "gap") == (0, 8)
    early = (*falling[:3], 1e3, *falling[4:])
    assert claims.rises(result(worst=early), "gap") == (1, 8)
    assert judge(claims.monotone, result(worst=late)) is HOLDS
    assert judge(claims.monotone, result(worst=early)) is PARTLY
    zigzag = tuple(100.0 + 50 * (t % 2) for t in range(27))
    assert judge(claims.monotone, result(worst=zigzag)) is FAILS
    assert judge(claims.monotone, result("heavy")) is NOT_RUN


def test_points_on_the_line_are_not_above_it():
    made = result(worst=tuple(60.0 / t for t in range(1, 6)), scatter=60.0)
    assert claims.above_line(made, "gap") == 0
    made = result(worst=(61.0, 29.0, 21.0), scatter=60.0)
    assert claims.above_line(made, "gap") == 2


def test_a_plateau_is_no_rise():
    assert claims.rises(result(worst=(9.0, 9.0, 8.0) * 9), "gap") == (2, 8)


@pytest.mark.parametrize(
    ("factor", "values", "as_claimed"),
    [
        ("k", (5, 10, 20), (1, 2, 3)),
        ("d", (2, 5, 10), (1, 2, 3)),
        ("n", (500, 1000, 5000), (3, 2, 1)),
    ],
)
def test_discrepancy_compares_neighbors_in_one_factor(factor, values, as_claimed):
    def at(value, distance):
        return result(
            **{factor: value}, worst=decay(start=1000.0 * math.exp(-distance)), scatter=1e3
        )

    def verdict(distances):
        some = [at(value, x) for value, x in zip(values, distances, strict=True)]
        return claims.discrepancy(collect(*some), factor).verdict

    assert verdict(as_claimed) is HOLDS
    assert verdict(as_claimed[::-1]) is FAILS
    assert claims.discrepancy(collect(at(values[0], 1)), factor).verdict is NOT_RUN
    others = {"k", "d", "n"} - {factor}
    for other in others:
        some = [at(value, x) for value, x in zip(values, as_claimed, strict=True)]
        assert claims.discrepancy(collect(*some), other).verdict is NOT_RUN


def test_a_fit_above_the_line_is_as_far_as_one_below():
    def at(k, distance):
        return result(k=k, worst=decay(start=1000.0 * math.exp(-distance)), scatter=1e3)

    assert claims.discrepancy(collect(at(5, -2.0), at(10, 1.0)), "k").verdict is FAILS


def test_separation_depends_on_the_distances():
    assert judge(claims.separation, result(median=1.4), result(d=5, median=3.9)) is HOLDS
    assert judge(claims.separation, result(median=5.4), result(d=5, median=9.0)) is FAILS
    many = [result(k=k, median=m) for k, m in zip((5, 10, 20), (1.0, 2.0, 9.0), strict=True)]
    assert judge(claims.separation, *many) is PARTLY
    assert judge(claims.separation, result(median=None)) is NOT_RUN


def test_runtime_compares_steps_with_blobs_of_the_same_size():
    slow, fast = {20: 50, 22: 50}, {3: 50, 4: 50}
    assert judge(claims.runtime, result(), result("elliptic", steps=slow)) is HOLDS
    assert judge(claims.runtime, result(), result("elliptic", steps=fast)) is FAILS
    assert judge(claims.runtime, result(), result("elliptic")) is FAILS
    three = [result("heavy", steps=slow), result("uniform", steps=slow), result("elliptic")]
    assert judge(claims.runtime, result(), *three) is PARTLY
    assert judge(claims.runtime, result(), result("elliptic", n=1000, steps=slow)) is NOT_RUN
    assert judge(claims.runtime, result("elliptic")) is NOT_RUN


def test_mean_iterations_come_from_the_histogram():
    assert claims.mean_iterations(result(steps={2: 1, 4: 1})) == (3.0, 1.0)


def test_segmentation_is_judged_by_the_standardized_columns():
    standard, raw = (lambda s, name=name, **o: result(f"segmentation-{name}", k=7, slope=s, **o)
                     for name in ("standardized", "raw"))  # fmt: skip
    test = claims.segmentation
    assert judge(test, standard(-1.2), raw(-1.2)) is HOLDS
    assert judge(test, standard(-1.2), raw(-0.5)) is PARTLY
    assert judge(test, standard(-0.5), raw(-1.2)) is FAILS
    assert judge(test, standard(-1.2), standard(-0.5, repeat=1)) is FAILS
    assert judge(test, result()) is NOT_RUN


def test_other_data_and_what_is_beyond_follow_their_slopes():
    for test, data in ((claims.other_data, "file:iris"), (claims.beyond, "heavy")):
        assert judge(test, result(data)) is HOLDS
        assert judge(test, result(data, slope=-0.5)) is FAILS
        assert judge(test, result()) is NOT_RUN
    for settings in ({"seeding": "plain-k-means++"}, {"alpha": 0.1}, {"n": 10**6}):
        assert judge(claims.beyond, result(**settings)) is HOLDS


def test_sky_is_judged_by_its_quantiles():
    rng = np.random.default_rng(0)
    usual = np.sum(rng.standard_normal((330, 9)) ** 2, axis=1)
    test = claims.sky_is_not_gaussian
    assert test(SkyDistances(9, 10 * usual, usual)).verdict is HOLDS
    assert test(SkyDistances(9, 0.9 * usual, usual)).verdict is FAILS
    assert test(None).verdict is NOT_RUN


def test_the_real_sky_has_rank_nine_and_is_far_from_gaussian():
    sky = sky_distances()
    assert sky.dimension == 9
    assert len(sky.squared) == len(sky.gaussian) == 330
    assert claims.sky_is_not_gaussian(sky).verdict is HOLDS
    assert abs(np.median(sky.gaussian) / np.median(sky.expected) - 1) < 0.15


def test_reduction_drops_constant_and_dependent_columns():
    x = np.random.default_rng(0).standard_normal((40, 3))
    assert reduced_to_rank(np.column_stack([x, x[:, 0] + x[:, 1], np.ones(40)])).shape == (40, 3)


def test_every_sentence_says_not_run_when_nothing_was():
    found = claims.all_findings(Collection(()), None)
    assert len(found) >= 12
    assert {finding.verdict for finding in found} == {NOT_RUN}
    assert all("Not run" in finding.evidence for finding in found)


def test_words():
    assert [signed(x) for x in (-0.001, 0.004, -0.016)] == ["+0.00", "+0.00", "−0.02"]
    assert [by_share(k, 10) for k in (10, 9, 8, 6, 5, 0)] == [HOLDS] * 2 + [PARTLY] * 2 + [
        FAILS
    ] * 2
    assert [counted(k, "row") for k in range(3)] == ["no row", "1 row", "2 rows"]
    assert [listed(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip


# --- Summary and comparison ------------------------------------------------------------------


def said(*results):
    some = collect(*results)
    return {point.heading: point.text for point in summary(some, claims.all_findings(some, None))}


def like_printed(gap):
    """A result whose gap of that name has the printed line of (500, 2, 5)."""
    near, far = decay(-0.8559, start=math.exp(10.694)), decay(-2.0, start=1.0)
    return result(worst={name: near if name == gap else far for name in GAPS})


@pytest.mark.parametrize("gap", GAPS)
def test_the_summary_finds_the_gap_that_was_printed(gap):
    assert f"closest to `{gap}`" in said(like_printed(gap))["The printed tables"]


def test_the_summary_says_when_replications_are_fewer_than_the_paper_s():
    assert "instead of 10,000" in said(result())["The printed tables"]
    assert "instead of" not in said(result(replications=10_000))["The printed tables"]


def test_the_summary_counts_what_was_run_and_rejected():
    text = said(*GRID, result("heavy"), result("segmentation-raw", k=7))
    assert text["What was run"].startswith("8 of the 36")
    assert "1 scenario beyond the paper" in text["What was run"]
    assert "`gap` 0 of 8" in text["Rejections"]
    assert "`gap` 1 of 1 at (500, 2, 5)" in said(result(slope=-0.4))["Rejections"]


def test_the_summary_finds_the_columns_that_are_nearer():
    a, b = ("segmentation-standardized", "segmentation-raw")
    slopes = [("standardized", (-1.24, -0.7)), ("raw", (-0.7, -1.24))]
    slopes += [("standardized", (-1.24, -2.0)), ("raw", (-2.0, -1.24))]
    for nearer, (x, y) in slopes:
        text = said(result(a, k=7, slope=x), result(b, k=7, slope=y))["Image segmentation"]
        assert f"nearer to that of {nearer} columns" in text


def test_the_summary_measures_noise_only_with_repeats():
    assert "Not run" in said(result())["Noise of a worst case"]
    some = [result(slope=s, repeat=r) for r, s in enumerate((-1.1, -1.2, -1.3))]
    assert "deviation of 0.10" in said(*some)["Noise of a worst case"]


def test_spreads_are_measured_in_units_of_a_further_study():
    def repeated(replications):
        slopes = enumerate((-1.0, -1.1, -1.2))
        made = (result(slope=s, repeat=r, replications=replications) for r, s in slopes)
        return tables.spreads(collect(*made))[0]

    spread = repeated(10_000)
    slopes = spread.slopes
    expected = (-0.8559 - np.mean(slopes)) / (np.std(slopes, ddof=1) * math.sqrt(4 / 3))
    assert spread.away("slope", slopes) == pytest.approx(expected)
    assert repeated(9_999).away("slope", slopes) is None
    assert tables.spreads(collect(result(), result(repeat=1))) == []


def off_by(slope, intercept=0.0, **settings):
    """A result whose lines differ from the printed ones of (500, 2, 5) by this much."""
    gaps = decay(-0.8559 + slope, start=math.exp(10.694 + intercept), noise=0.0)
    return result(worst=gaps, scatter=math.exp(11.1017 + intercept), **settings)


def test_differences_are_ours_minus_printed():
    [row, *_] = tables.table_rows([off_by(0.25, 0.5)], ["gap"])
    assert tables.difference(row, "slope") == pytest.approx(0.25)
    assert tables.difference(row, "intercept") == pytest.approx(0.5)
    assert tables.difference(row, "bound_intercept") == pytest.approx(0.5)


def test_intercepts_are_near_on_both_sides():
    near = {x: tables.near_bounds(collect(off_by(0.0, x))) for x in (-0.2, -0.09, 0.09, 0.2)}
    assert near == {-0.2: (0, 1), -0.09: (1, 1), 0.09: (1, 1), 0.2: (0, 1)}


def test_differences_of_both_signs_do_not_cancel():
    assert tables.Agreement("gap", [3.0, -3.0], [4.0, -4.0]).distance == math.sqrt(12.5)
    assert tables.Agreement("gap", [], []).distance == math.inf


def test_the_summary_counts_printed_slopes_on_both_sides():
    for away, inside in ((1.0, 0), (0.15, 1), (-0.15, 1), (-1.0, 0)):
        some = [
            off_by(away + x, repeat=r, replications=10_000) for r, x in enumerate((-0.1, 0.0, 0.1))
        ]
        assert f"within two such spreads in {inside} of 1." in said(*some)["Noise of a worst case"]


def test_the_summary_says_the_median_and_the_largest_deviation():
    some = [
        off_by(width * x, repeat=r, replications=replications)
        for replications, width in ((10, 0.1), (20, 0.2), (30, 0.9))
        for r, x in enumerate((-1.0, 0.0, 1.0))
    ]
    text = said(*some)["Noise of a worst case"]
    assert "deviation of 0.20 (median of 3 settings; largest 0.90)" in text


def test_the_summary_says_when_any_scenario_has_fewer_replications():
    text = said(result(replications=10_000), result(k=10, replications=50))["The printed tables"]
    assert "With 50 replications instead of 10,000" in text


# --- Figures ---------------------------------------------------------------------------------

SIGNATURES = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<?xml"}


def test_a_figure_for_each_n_d_and_gap_with_k_as_series():
    drawn = figures.plates(collect(*GRID), GAPS)
    assert len(drawn) == 4 * 3
    first = drawn[0]
    assert first.name == "blobs-n500-d2-published"
    [ax] = first.figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    fit = GRID[0].regression("published")
    assert legend[0] == f"K = 5:  {fit.slope:.3f} ({fit.slope_se:.3f})".replace("-", "−")
    assert legend[1].startswith("K = 10:")
    lines = [line.get_xydata() for line in ax.lines if line.get_linestyle() != "None"]
    slopes = [np.diff(np.log(line), axis=0)[0] for line in lines]
    assert [s[1] / s[0] for s in slopes] == pytest.approx([fit.slope, -1.0] * 2)


def test_the_marks_outside_the_window_are_hollow():
    [drawn] = figures.plates(collect(result()), ["gap"])
    marks = [line for line in drawn.figure.axes[0].lines if line.get_linestyle() == "None"]
    assert [len(line.get_xdata()) for line in marks] == [9, 18]
    assert marks[1].get_markerfacecolor() == figures.PAPER


def test_figures_are_written_in_three_formats_with_the_same_bytes_each_time(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        [drawn] = figures.plates(collect(result("file:../../<x>")), ["gap"])
        drawn.save(tmp_path / folder)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(names) == 3
    for name in names:
        content = (tmp_path / "a" / name).read_bytes()
        assert content.startswith(SIGNATURES[name.rpartition(".")[2]])
        assert content == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("worst", [(5.0,), (5.0, 0.0, 3.0, 0.0, 1.0), ()])
def test_short_and_broken_series_are_drawn(worst, tmp_path):
    made = result(worst=dict.fromkeys(GAPS, worst))
    [drawn] = figures.plates(collect(made), ["gap"])
    assert drawn.svg


def test_segmentation_is_one_figure_with_its_columns_as_series():
    some = [result(f"segmentation-{name}", k=7) for name in ("standardized", "raw", "shifted")]
    [drawn] = figures.plates(collect(*some), ["gap"])
    legend = [text.get_text() for text in drawn.figure.axes[0].get_legend().get_texts()]
    assert [text.partition(":")[0] for text in legend[:3]] == ["standardized", "raw", "shifted"]


def test_powers_of_ten_are_text():
    assert [figures._power(x) for x in (1e-3, 1.0, 1e12)] == ["10⁻³", "10⁰", "10¹²"]


# --- The page --------------------------------------------------------------------------------

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Collects tags, names and references, and checks that elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.references, self.names = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), f"{tag} has {name}"
            if name in {"src", "href", "xlink:href", "srcset", "data", "action"}:
                self.references.append(value)
            if name == "id":
                self.names.append(value)
            self.references += re.findall(r"url\((.*?)\)", value or "")

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report on a little of everything, with a hostile name."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "scenarios").mkdir()
    some = [
        *(result(slope=s, repeat=r) for r, s in enumerate((-1.1, -1.2, -1.3))),
        result("segmentation-standardized", 2310, 14, 7, median=None),
        result(HOSTILE, 60, 3, 2, median=None),
    ]
    for number, one in enumerate(some):
        one.save(folder / "scenarios" / f"{number}.json")
    write_report(folder, gaps=["published"])
    return folder


def test_the_report_writes_everything(written):
    names = {path.name for path in written.iterdir() if path.is_file()}
    assert names == {"tables.csv", "scenarios.csv", "tables.md", "tables.tex", "page.html"}
    drawn = [path.name for path in (written / "figures").iterdir()]
    assert len(drawn) == 4 * 3
    assert {"segmentation-sky.png", "blobs-n500-d2-published.pdf"} <= set(drawn)


def test_the_page_is_well_formed_and_complete(written):
    text = (written / "page.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert parsed.tags.count("svg") == 4
    assert len(parsed.names) == len(set(parsed.names))
    for heading in ("In short", "sentences, tested", "Tables", "Figures", "How noisy", "The runs"):
        assert heading in text
    for finding in claims.all_findings(Collection.load(written), sky_distances()):
        assert finding.verdict in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_the_page_needs_no_network(written):
    text = (written / "page.html").read_text(encoding="utf-8")
    parsed = Page(text)
    assert parsed.references
    assert all(reference.startswith("#") for reference in parsed.references)
    assert {reference[1:] for reference in parsed.references} <= set(parsed.names)
    assert "http" not in text
    assert "@import" not in text


def test_the_page_escapes_names(written):
    text = (written / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "<code>" in text and "&lt;code" not in text
    assert Page(text).tags.count("title") == 1


def test_figures_in_the_page_take_the_colors_of_the_theme(written):
    text = (written / "page.html").read_text(encoding="utf-8")
    body = text[text.index("<body") :]
    for color in (figures.INK, figures.LINE, figures.PAPER):
        assert color not in body
    assert "var(--ink)" in body


def test_a_report_on_several_folders_goes_where_it_is_told(tmp_path):
    for name in ("heavy", "blobs"):
        (tmp_path / name / "scenarios").mkdir(parents=True)
        result(name).save(tmp_path / name / "scenarios" / "one.json")
    target = tmp_path / "new" / "both"
    written = write_report(tmp_path / "heavy", tmp_path / "blobs", out=target, gaps=["gap"])
    assert written == target / "page.html"
    rows = read((target / "scenarios.csv").read_text())
    assert [row["data"] for row in rows] == ["blobs", "heavy"]
    assert not (tmp_path / "heavy" / "page.html").exists()


def test_a_page_of_one_scenario_leaves_out_what_is_not_there():
    some = collect(result("heavy"))
    found = claims.all_findings(some, None)
    text = page.document(some, summary(some, found), found, [], GAPS)
    Page(text)
    assert "How noisy" not in text
    assert "Figures" not in text
    assert "ours − printed</th>" not in text
