"""The certificate in plain words: one line for each fact, and a one-sentence verdict.

Every printed number errs on the safe side: ratios are rounded up, lower bounds down.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wolfmeans.certificate.optimality import NO_USEFUL_BOUND, WEAK, rounded_down, rounded_up
from wolfmeans.core.solution import Status

if TYPE_CHECKING:
    from wolfmeans.certificate.improvement import Polish
    from wolfmeans.certificate.record import Certificate

READINGS = {
    Status.STATIONARY: "no point changes cluster",
    Status.DECREASE: "one more step would lower inertia by no more than the tolerance",
    Status.GAP: "reassigning points would lower inertia by no more than the tolerance",
    Status.SHIFT: "the centers move by no more than the tolerance",
    Status.MAX_ITER: "the iteration limit was reached; increase max_iter to continue",
    Status.TIME_LIMIT: "the time limit was reached; increase time_limit to continue",
    Status.CALLBACK: "the callback stopped the run",
    Status.DESCENT_VIOLATED: "internal check failed: a step lowered inertia by less than its gap",
    Status.REPEATED_STATE: "the run returned to an earlier partition and would cycle",
}

LOCAL_OPTIMALITY = {
    "strict local minimum": "every point is strictly closest to its own center",
    "stationary, with ties": "no point moves, but some point is equally close to another center",
    "stationary, with empty clusters": "no point moves, but some clusters are empty",
    "rule met": "the stopping rule was met, but some points would still move",
    "not stationary": "the run ended early; more steps would lower inertia",
}

TRIMMED_OPTIMALITY = {
    "strict local minimum": "every kept point is strictly closest to its own center, and every "
    "trimmed point is strictly farther away",
    "stationary, with ties": "no point moves, but some point is equally close to another center, "
    "or a kept and a trimmed point are equally far away",
}

SIZED_OPTIMALITY = {
    "strict local minimum": "every other assignment within the size limits costs strictly more",
    "stationary, with ties": "no point moves, but another assignment within the size limits may "
    "cost as little",
}

LEVELS = {
    "stationary": "reassigning points to the current centers does not lower inertia",
    "hartigan": "moving any single point to another cluster does not lower inertia",
    "swap": "neither moving a single point nor replacing a center by a data point lowers inertia",
}
"""Levels of local optimality; each one includes those before it."""

Row = tuple[str, str, str]


def aligned_rows(title: str, rows: list[Row]) -> str:
    """Return a title and a table of name, value and meaning.

    Examples
    --------
    >>> print(aligned_rows("Certificate", [("gap", "0", "no point moves"), ("status", "ok", "")]))
    Certificate
      gap     0   no point moves
      status  ok
    """
    names = max(len(name) for name, _, _ in rows)
    values = max(len(value) for _, value, _ in rows)
    lines = [f"  {n:<{names}}  {v:<{values}}  {text}".rstrip() for n, v, text in rows]
    return "\n".join([title, *lines])


def rows_of(certificate: Certificate) -> list[Row]:
    """Return (name, value, meaning) for each line."""
    status, local = certificate.status, certificate.local_optimality
    rows = [
        ("status", status.value.partition(":")[0].lower(), READINGS[status]),
        ("inertia", f"{certificate.inertia:.6g}", _inertia(certificate)),
        ("gap", f"{certificate.gap:.3g}", _gap(certificate)),
        ("decrease", f"{certificate.decrease:.3g}", _decrease(certificate)),
        ("iterations", f"{certificate.iterations}", _iterations(certificate)),
        ("local", local, _local(certificate)),
    ]
    if certificate.effort is not None:
        rows.append(("effort", f"{certificate.effort.seconds:.3g} s", str(certificate.effort)))
    if certificate.polish is not None:
        rows.append(_polish_row(certificate, certificate.polish))
    rows.append(_global_row(certificate))
    if certificate.threshold is not None:
        rows.append(_trimmed_row(certificate))
    if certificate.size_min is not None:
        rows.append(_sizes_row(certificate))
    if certificate.empty_clusters:
        rows.append(_empty_row(certificate))
    if certificate.unit_exponent:
        rows.append(("unit", f"2^{certificate.unit_exponent}", "unit of all sums of squares"))
    rows.extend(("note", "", note) for note in certificate.notes)
    return rows


def verdict_of(certificate: Certificate) -> str:
    """Return the certificate in one sentence."""
    ended = READINGS[certificate.status]
    head = "Converged" if certificate.status.converged else "Not converged"
    steps = "1 step" if certificate.iterations == 1 else f"{certificate.iterations} steps"
    return f"{head} after {steps}: {ended}; {certificate.standing.sentence}."


def _inertia(certificate: Certificate) -> str:
    kept = "" if certificate.threshold is None else " of kept points"
    center = "the nearest center" if certificate.size_min is None else "the center of its cluster"
    summed = f"sum of {certificate.cost}{kept} to {center}"
    if certificate.effort is not None:
        return summed  # the first partition is the result of the search
    if not certificate.initial_sse > 0:
        return f"{summed}; every point coincides with a center"
    saved = 1.0 - certificate.inertia / certificate.initial_sse
    return f"{summed}; {100 * saved:.1f} % below the first partition"


def _gap(certificate: Certificate) -> str:
    if certificate.gap == 0 and certificate.size_min is not None:
        return "no reassignment within the size limits lowers inertia"
    if certificate.gap == 0:
        return "no point is closer to another center than to its own"
    share = certificate.gap / certificate.inertia if certificate.inertia > 0 else math.inf
    return f"reassigning points would lower inertia by this, {share:.1e} of its value"


def _decrease(certificate: Certificate) -> str:
    tol = certificate.tol
    gain = "one more step would lower inertia by this"
    if certificate.stop == "shift":
        return f"{gain} (stopping rule: center shift <= {tol:.3g})"
    if certificate.stop == "stationary":
        return f"{gain} (stopping rule: no label changes)"
    if certificate.stop == "gap" and certificate.gap <= tol < certificate.decrease:
        return f"{gain} (stopping rule: gap <= {tol:.3g})"
    above = "" if certificate.decrease <= tol else "above the "
    return f"{gain} ({above}stop threshold: {tol:.3g})"


def _iterations(certificate: Certificate) -> str:
    more, limit = certificate.extra_iterations, certificate.max_iterations
    extra = f"; {more} more to fill empty clusters" if more else ""
    if limit is None:
        return f"steps (this stopping rule guarantees no limit){extra}"
    return f"steps (guaranteed to finish within {limit:,}){extra}"


def _local(certificate: Certificate) -> str:
    level = certificate.local_optimality
    plain = LOCAL_OPTIMALITY[level]
    if certificate.size_min is not None:
        return SIZED_OPTIMALITY.get(level, plain)
    return plain if certificate.threshold is None else TRIMMED_OPTIMALITY.get(level, plain)


def _trimmed_row(certificate: Certificate) -> Row:
    count, mass = certificate.trimmed_points, certificate.trimmed_mass
    reading = f"left out as outliers: at least {certificate.radius:.6g} from every center"
    if mass != count:
        reading += f"; total weight {mass:.6g}, where one point may count in part"
    return ("trimmed", "1 point" if count == 1 else f"{count} points", reading)


def _sizes_row(certificate: Certificate) -> Row:
    low, high, most = certificate.size_min, certificate.size_max, certificate.largest_size
    limits = f"at least {low:g}" if high is None else f"{low:g} to {high:g}"
    reading = f"sizes of clusters; limits: {limits}"
    if certificate.split_points:
        count = certificate.split_points
        reading += f"; {count} weighted point{'s are' if count > 1 else ' is'} split"
    if certificate.duality_gap is not None:
        reading += (
            f"; no other assignment to these centers within the limits lowers inertia by more "
            f"than {rounded_up(certificate.duality_gap)} (duality gap)"
        )
    return ("sizes", f"{certificate.smallest_size:g} to {most:g}", reading)


def _polish_row(certificate: Certificate, polish: Polish) -> Row:
    counts = [(polish.moves, "single move"), (polish.swaps, "swap")]
    found = [f"{n:,} {what}{'s' if n > 1 else ''}" for n, what in counts if n]
    share = polish.decrease / (certificate.inertia + polish.decrease) if found else 0.0
    gained = f"{' and '.join(found)} lowered inertia by {share:.2g} of its value"
    facts = [gained if found else "no improvement found"]
    if polish.swaps_tried and certificate.level != "swap":
        facts.append(f"{polish.swaps_tried:,} points were tried as centers")
    if polish.timed_out:
        facts.append("stopped by the time limit")
    level = certificate.level or "none"
    reading = LEVELS.get(level, "more steps would lower inertia")
    if certificate.level == "hartigan" and polish.tied:
        reading += ", but some move would leave it unchanged"
    return ("level", level, "; ".join([reading, *facts]))


def _global_row(certificate: Certificate) -> Row:
    standing = certificate.standing
    if certificate.inertia == 0 or certificate.lower_bound is None or not standing.useful:
        meaning = standing.meaning if standing.useful else _no_bound(certificate)
        return ("global", standing.brief, meaning)
    weak = standing.ratio > WEAK and not certificate.bound_seconds
    hint = "; certify(X) looks longer" if weak else ""
    if certificate.outlook:
        hint += f"; {certificate.outlook}"
    reading = (
        f"{standing.meaning}: no clustering has inertia below "
        f"{rounded_down(certificate.lower_bound, 6)} ({certificate.lower_bound_kind} bound{hint})"
    )
    return ("global", standing.brief, reading)


def _no_bound(certificate: Certificate) -> str:
    if certificate.lower_bound_kind is None and not certificate.bound_seconds:
        return "no lower bound was computed during the fit; certify(X) computes one"
    if not certificate.bound_seconds:
        return f"{NO_USEFUL_BOUND}; certify(X) looks longer"
    seconds = certificate.bound_seconds
    spent = "within a second" if seconds < 1.0 else f"in {seconds:,.0f} s"
    return f"{NO_USEFUL_BOUND} {spent}; certify(X, seconds=S) with more seconds may find one"


def _empty_row(certificate: Certificate) -> Row:
    gain = certificate.candidate_decrease
    reading = f"the gap without them (Clarke gap) is {certificate.clarke_gap:.3g}"
    if gain is not None:
        reading += (
            f"; moving one of them to a data point would lower inertia by at least {gain:.3g}"
        )
    return ("empty", f"{certificate.empty_clusters} of {certificate.n_clusters}", reading)
