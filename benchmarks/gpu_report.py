"""What gpu.py measured, as lines for the terminal and as a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from gpu_records import (
    OURS,
    PEERS,
    PLAIN,
    TARGET_EACH,
    TARGET_MEAN,
    Cell,
    Equality,
    Large,
    Outcome,
    Report,
    summary,
)
from pages import spaced, table

BEGIN = "<!-- gpu-benchmark:begin -->"
END = "<!-- gpu-benchmark:end -->"
TITLES = (OURS, *PEERS, PLAIN)
NAMES = {"steps": "Fits of a fixed number of iterations", "fits": "Whole fits"}


def line_of(cell: Cell) -> str:
    """One line for the terminal, with times and wrong labels."""
    told = [f"{cell.part} {cell.data} {cell.shape}{' (fixpoint)' if cell.fixpoint else ''}:"]
    for title, one in cell.outcomes.items():
        if isinstance(one, str):
            told.append(f"{title} {one};")
            continue
        device = "" if one.device is None else f" (events {1e3 * one.device:.2f})"
        wrong = f"wrong {one.verdict.wrong:,} of {one.verdict.checked:,}"
        told.append(f"{title} {1e3 * one.wall:.2f} ms{device}, {one.iterations} it., {wrong};")
    if cell.fastest is not None and (ratio := cell.ratio(cell.fastest)) is not None:
        told.append(f"{ratio:.2f} times {cell.fastest};")
    return " ".join([*told, _equality(cell.equality)])


def _equality(found: Equality | str | None) -> str:
    if isinstance(found, Equality):
        told = "equal to the CPU" if found.equal else f"DIFFERS in {', '.join(found.differing)}"
        return f"{told} after {found.iterations} it. ({found.cpu_seconds:.1f} s there)"
    return "" if found is None else f"not compared with the CPU: {found}"


def large_line(one: Large) -> str:
    peak = "" if one.peak_bytes is None else f", peak {one.peak_bytes / 1e9:.1f} GB"
    bound = ""
    if one.certify_seconds is not None:
        bound = f" Lower bound {one.lower_bound!r} ({one.lower_bound_kind}), found in "
        bound += f"{one.certify_seconds:.1f} s."
    most = "" if one.max_iterations is None else f" of at most {one.max_iterations:,}"
    return (
        f"({spaced(one.shape)}) {one.data}, init {one.init}, stop {one.stop}: {one.seconds:.2f} s "
        f"for {one.iterations}{most} iterations, {1e3 * one.step_seconds:.2f} ms for each further "
        f"one; data {one.data_bytes / 1e9:.1f} GB{peak}. {one.status} Gap {one.gap:.6g}, decrease "
        f"{one.decrease:.6g}, inertia {one.inertia!r}.{bound} Wrong labels: {one.verdict.wrong} of "
        f"{one.verdict.checked:,}; {_equality(one.equality)}."
    )


def ratio_table(cells: Sequence[Cell]) -> str:
    titles = _titles(cells)
    header = ["n, d, K", "data", "faster peer", "iterations", *(f"{t}, ms" for t in titles)]
    rows = []
    for cell in cells:
        fastest, ratio = cell.fastest, cell.ratio(cell.fastest or "")
        best = "–" if ratio is None else f"**{ratio:.2f}** {fastest}"
        ours = cell.finished(OURS)
        made = "–" if ours is None else f"{ours.iterations}{'' if cell.fixpoint else '+'}"
        times = [_milliseconds(cell.outcomes.get(title)) for title in titles]
        rows.append([spaced(cell.shape), cell.data, best, made, *times])
    return table(header, rows)


def wrong_table(cells: Sequence[Cell]) -> str:
    titles = _titles(cells)
    header = ["n, d, K", "data", "equal to the CPU engine", "labels checked", *titles]
    rows = []
    for cell in cells:
        ended = [one for one in cell.outcomes.values() if isinstance(one, Outcome)]
        checked = max((one.verdict.checked for one in ended), default=0)
        equal = "–"
        if isinstance(cell.equality, Equality):
            word = "yes" if cell.equality.equal else "**no**"
            equal = f"{word}, {cell.equality.iterations} iterations"
        wrong = [_wrong(cell.finished(title)) for title in titles]
        rows.append([spaced(cell.shape), cell.data, equal, f"{checked:,}", *wrong])
    return table(header, rows)


def _titles(cells: Sequence[Cell]) -> list[str]:
    return [title for title in TITLES if any(title in cell.outcomes for cell in cells)]


def _milliseconds(outcome: Outcome | str | None) -> str:
    if outcome is None:
        return "–"
    return "failed" if isinstance(outcome, str) else f"{1e3 * outcome.wall:.2f}"


def _wrong(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    return "0" if outcome.verdict.wrong == 0 else f"{100 * outcome.verdict.rate:.2g} %"


def summary_text(report: Report) -> str:
    lines = []
    for part, target in TARGET_MEAN.items():
        found = summary(report.part(part))
        if not found["cells"]:
            continue
        against = ", ".join(f"{title} {ratio:.2f}" for title, ratio in found["against"].items())
        lines.append(
            f"{NAMES[part]}, {found['cells']} cells: {found['fastest']:.2f} times as fast as the "
            f"faster peer of each cell (geometric mean; target {target:g}), least "
            f"{found['least']:.2f}{f' (target {TARGET_EACH:g})' if part == 'steps' else ''}. "
            f"{against}."
        )
        if found["short"]:
            short = "; ".join(f"{shape} {data}" for _, data, shape in found["short"])
            lines.append(f"Slower than the faster peer, {len(found['short'])} cells: {short}.")
    early = [
        cell
        for cell in report.part("steps")
        if (ours := cell.finished(OURS)) is not None and ours.iterations < cell.asked
    ]
    if early:
        lines.append(
            f"In {len(early)} cells wolfmeans was done before the {early[0].asked} iterations, "
            "which the peers make all the same; whole fits have the comparison without that."
        )
    lines += _wrong_lines(report.cells)
    compared = [one.equality for one in report.cells if isinstance(one.equality, Equality)]
    if compared:
        equal = sum(one.equal for one in compared)
        lines.append(
            f"Centers, labels, inertia and iterations equal to those of the CPU engine: {equal} of "
            f"{len(compared)} cells."
        )
    return "\n".join(f"- {line}" for line in lines)


def _wrong_lines(cells: Sequence[Cell]) -> list[str]:
    told = []
    for title in _titles(cells):
        verdicts = [one.verdict for cell in cells if (one := cell.finished(title)) is not None]
        if verdicts:
            wrong, checked = sum(v.wrong for v in verdicts), sum(v.checked for v in verdicts)
            worst = max(v.rate for v in verdicts)
            share = f"; {100 * worst:.2g} % at worst" if wrong else ""
            told.append(f"{title} {wrong:,} of {checked:,}{share}")
    return [f"Wrong labels: {'. '.join(told)}."] if told else []


def markdown(reports: Sequence[Report]) -> str:
    """Return everything that was measured, as a page; later runs replace cells of earlier ones."""
    parts = list(dict.fromkeys(_head(one) for one in reports))
    whole = merged(reports)
    parts.append(summary_text(whole))
    steps, fits = whole.part("steps"), whole.part("fits")
    if steps:
        parts += [
            f"Fits of {steps[0].asked} iterations: the time of the faster peer over that of "
            "wolfmeans, and median times by the wall clock. The iterations are those of wolfmeans, "
            "which ends at the fixpoint; a + says that it was not reached. The peers always make "
            f"all {steps[0].asked}.",
            ratio_table(steps),
        ]
    if fits:
        parts += [
            "Whole fits, until no label changes (a + marks a fit that was cut): the peers make as "
            "many iterations as wolfmeans made.",
            ratio_table(fits),
        ]
    if whole.cells:
        parts += [
            "Wrong labels: another center is nearer, in float64, among the centers that assigned "
            "them.",
            wrong_table(steps or fits),
        ]
    for one in whole.large:
        parts += [f"A large fit. {large_line(one)}", f"```text\n{one.certificate}\n```"]
    if whole.starts:
        rows = [
            [
                *(spaced(one.shape), one.data, "yes" if one.equal else "**no**", str(one.starts)),
                *(f"{1e3 * median(some):.1f}" for some in (one.together, one.apart)),
                f"{one.ratio:.2f}",
            ]
            for one in whole.starts
        ]
        header = ["n, d, K", "data", "same best", "starts", "in one call, ms", "apart, ms", "ratio"]
        parts += ["Several starts in one call, and one call for each.", table(header, rows)]
    for one in whole.streamed:
        parts.append(
            f"Streamed: ({spaced(one.shape)}) {one.data}, {one.data_bytes / 1e9:.1f} GB with "
            f"{one.budget_bytes / 1e9:.1f} GB on the device: {median(one.seconds):.2f} s, on the "
            f"device {median(one.resident_seconds):.2f} s for {one.iterations} iterations; "
            f"{'the same result' if one.equal else '**another result**'}."
        )
    return "\n\n".join(part for part in parts if part)


def merged(reports: Sequence[Report]) -> Report:
    """Put several runs together; of two that measured the same the later one counts."""
    cells = {cell.key: cell for one in reports for cell in one.cells}
    large = {(one.shape, one.init, one.stop): one for run in reports for one in run.large}
    starts = {(one.shape, one.data): one for run in reports for one in run.starts}
    streamed = {(one.shape, one.data): one for run in reports for one in run.streamed}
    return replace(
        reports[-1],
        cells=list(cells.values()),
        large=list(large.values()),
        starts=list(starts.values()),
        streamed=list(streamed.values()),
    )


def _head(report: Report) -> str:
    about = "; ".join(f"{key} {value}" for key, value in report.machine.items())
    libraries = ", ".join(f"{package} {version}" for package, version in report.versions.items())
    missing = f" Missing: {'; '.join(report.missing)}." if report.missing else ""
    return f"{report.date}. {about}. {libraries}. {report.selection}.{missing}"
