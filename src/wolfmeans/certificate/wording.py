"""The certificate in plain words: one line a fact, one sentence for all of it.

Every printed number errs on the safe side: a ratio is rounded up, a lower bound down.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from wolfmeans.core.solution import Status

if TYPE_CHECKING:
    from wolfmeans.certificate.improvement import Polish
    from wolfmeans.certificate.record import Certificate

READINGS = {
    Status.STATIONARY: "no point changes its cluster any more",
    Status.DECREASE: "one more full step would gain no more than the tolerance",
    Status.GAP: "moving points to nearer centers would gain no more than the tolerance",
    Status.SHIFT: "the centers no longer move by more than the tolerance",
    Status.MAX_ITER: "the iteration limit came first; raise max_iter to go on",
    Status.TIME_LIMIT: "the time limit came first; raise time_limit to go on",
    Status.CALLBACK: "the callback asked to stop",
    Status.DESCENT_VIOLATED: "the books do not balance: a step gained less than its gap",
    Status.REPEATED_STATE: "the run came back to an earlier partition; it would circle",
}

LOCAL_OPTIMALITY = {
    "strict local minimum": "every point is strictly nearest to its own center",
    "stationary, with ties": "no point moves, but some point is as near to another center",
    "stationary, with empty clusters": "no point moves, but some clusters are not in use",
    "rule met": "the stopping rule was met; some points would still move",
    "not stationary": "the run ended early; going on would lower the inertia",
}

TRIMMED_OPTIMALITY = {
    "strict local minimum": "every kept point is strictly nearest to its own center, and every "
    "trimmed one strictly farther out",
    "stationary, with ties": "no point moves, but some point is as near to another center, or "
    "as far out as one on the other side of the threshold",
}

LEVELS = {
    "stationary": "no reassignment of points to the centers as they are lowers the SSE",
    "hartigan": "no single point can change its cluster at a gain",
    "swap": "no center can be exchanged for a data point at a gain, and no single point can move",
}
"""The ladder of local optimality; each rung includes those before it."""

# A bound this far off is worth another try.
_WEAK = 1.2
# So that 1.1, which is a little more in binary, is not printed as 1.101.
_NEARLY = 1.0 - 1e-13

Row = tuple[str, str, str]


def rows_of(certificate: Certificate) -> list[Row]:
    """Return (name, value, plain reading) of each line."""
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
    if certificate.empty_clusters:
        rows.append(_empty_row(certificate))
    if certificate.unit_exponent:
        rows.append(("unit", f"2^{certificate.unit_exponent}", "sums of squares are in this unit"))
    rows.extend(("note", "", note) for note in certificate.notes)
    return rows


def verdict_of(certificate: Certificate) -> str:
    """Return the certificate in one sentence."""
    ended = READINGS[certificate.status]
    head = "Converged" if certificate.status.converged else "Not converged"
    if certificate.inertia == 0:
        tail = "no clustering can be better"
    elif certificate.ratio is None:
        tail = "how far it is from the best possible clustering is not known"
    else:
        sure = "proven" if certificate.lower_bound_confidence == 1.0 else "likely"
        tail = f"its inertia is {sure} to be {_distance(certificate.ratio)} the best possible"
    steps = "1 step" if certificate.iterations == 1 else f"{certificate.iterations} steps"
    return f"{head} after {steps}: {ended}; {tail}."


def _percent(ratio: float) -> float:
    """The excess of a ratio over 1 in percent, rounded up to hundredths."""
    return math.ceil((ratio * _NEARLY - 1.0) * 1e4) / 100


def _distance(ratio: float) -> str:
    percent = _percent(ratio)
    return (
        f"within {percent:.2f}% of"
        if percent < 100
        else f"within a factor of {rounded_up(ratio, 3)} of"
    )


def _inertia(certificate: Certificate) -> str:
    kept = "" if certificate.threshold is None else " of kept points"
    summed = f"sum of squared distances{kept} to the nearest center"
    if certificate.effort is not None:
        return summed  # the start is where the search ended, and says little
    if not certificate.initial_sse > 0:
        return f"{summed}; every point sits on one"
    saved = 1.0 - certificate.inertia / certificate.initial_sse
    return f"{summed}; {saved:.1%} below the first partition"


def _gap(certificate: Certificate) -> str:
    if certificate.gap == 0:
        return "no point is nearer to another center than to its own"
    share = certificate.gap / certificate.inertia if certificate.inertia > 0 else math.inf
    return f"moving points to nearer centers would gain {share:.1e} of the inertia"


def _decrease(certificate: Certificate) -> str:
    tol = certificate.tol
    if certificate.stop == "shift":
        return f"one more full step would gain this (rule: shift of centers <= {tol:.3g})"
    if certificate.stop == "stationary":
        return "one more full step would gain this (rule: labels no longer change)"
    side = "no more than" if certificate.decrease <= tol else "more than"
    if certificate.stop == "gap" and certificate.gap <= tol < certificate.decrease:
        return f"one more full step would gain this; the gap is within {tol:.3g}"
    return f"one more full step would gain this, {side} the tolerance {tol:.3g}"


def _iterations(certificate: Certificate) -> str:
    extra = ""
    if certificate.extra_iterations:
        extra = f"; {certificate.extra_iterations} more filled empty clusters"
    if certificate.max_iterations is None:
        return f"steps; this rule promises no number in advance{extra}"
    why = "by the lower bound" if certificate.proven_bound > 0 else "known in advance"
    return f"steps; no more than {certificate.max_iterations:,} could be needed, {why}{extra}"


def _local(certificate: Certificate) -> str:
    level = certificate.local_optimality
    plain = LOCAL_OPTIMALITY[level]
    return plain if certificate.threshold is None else TRIMMED_OPTIMALITY.get(level, plain)


def _trimmed_row(certificate: Certificate) -> Row:
    count, mass = certificate.trimmed_points, certificate.trimmed_mass
    reading = f"left out: no center is nearer to them than {certificate.radius:.6g}"
    if mass != count:
        reading += f"; their weight is {mass:.6g}, one point may count in part"
    return ("trimmed", "1 point" if count == 1 else f"{count} points", reading)


def _polish_row(certificate: Certificate, polish: Polish) -> Row:
    counts = [(polish.moves, "single move"), (polish.swaps, "swap")]
    found = [f"{n:,} {what}{'s' if n > 1 else ''}" for n, what in counts if n]
    share = polish.decrease / (certificate.inertia + polish.decrease) if found else 0.0
    facts = [f"{' and '.join(found)} gained {share:.2g} of the SSE" if found else "nothing gained"]
    if polish.swaps_tried and certificate.level != "swap":
        facts.append(f"{polish.swaps_tried:,} points were tried as centers")
    if polish.timed_out:
        facts.append("time was up")
    level = certificate.level or "none"
    reading = LEVELS.get(level, "going on would lower the SSE")
    if certificate.level == "hartigan" and polish.tied:
        reading += ", but some could at no loss"
    return ("level", level, "; ".join([reading, *facts]))


def _global_row(certificate: Certificate) -> Row:
    if certificate.inertia == 0:
        return ("global", "optimal", "no clustering can have an inertia below 0")
    if certificate.lower_bound is None or certificate.ratio is None:
        return ("global", "unknown", _no_bound(certificate))
    percent = _percent(certificate.ratio)
    if percent <= 0 and certificate.lower_bound_confidence == 1.0:
        kind = certificate.lower_bound_kind
        return ("global", "optimal", f"no clustering is better, up to rounding ({kind} bound)")
    sure, hint = "", ""
    if certificate.lower_bound_confidence != 1.0:
        sure = f", with confidence {certificate.lower_bound_confidence:.1%}"
    if certificate.ratio > _WEAK and certificate.lower_bound_kind == "spectral":
        hint = "; certify(X) looks for a better one"
    reading = (
        f"{_distance(certificate.ratio)} the best possible{sure}: no clustering is below "
        f"{rounded_down(certificate.lower_bound, 6)} ({certificate.lower_bound_kind} bound{hint})"
    )
    ratio = f"{1.0 + percent / 100:.4f}" if percent < 100 else rounded_up(certificate.ratio, 4)
    return ("global", f"≤ {ratio}×", reading)


def _no_bound(certificate: Certificate) -> str:
    if certificate.lower_bound_kind is None:
        return "no lower bound was computed during the fit; certify(X) computes one"
    return (
        f"the {certificate.lower_bound_kind} bound says nothing here; certify(X) tries the others, "
        "and effort=SECONDS looks for a better clustering"
    )


def _empty_row(certificate: Certificate) -> Row:
    gain = certificate.candidate_decrease
    reading = f"gap without them (Clarke): {certificate.clarke_gap:.3g}"
    if gain is not None:
        reading += f"; one of them moved to a data point would gain at least {gain:.3g}"
    return ("empty", f"{certificate.empty_clusters} of {certificate.n_clusters}", reading)


def rounded_up(value: float, digits: int) -> str:
    """Write a positive number with so many digits, rounded up."""
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(value * _NEARLY):g}"


def rounded_down(value: float, digits: int) -> str:
    """Write a positive number with so many digits, rounded down."""
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(value):g}"
