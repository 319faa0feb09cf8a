"""Polish and effort for trimmed problems: search among the kept points, and trim again.

With the kept points fixed, a trimmed problem is one of K-means with the kept masses as weights.
What polishing or searching gains there is gained for the trimmed problem, too: a trimmed run from
the new centers begins no higher, and can only lower the value by keeping other points. So both
alternate between the two problems until nothing is gained or the time is over.

No level of local optimality is claimed: with other points kept, a single move might still gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from wolfmeans.certificate.improvement import Effort, Polish
from wolfmeans.core import progress
from wolfmeans.core.draws import RandomSource
from wolfmeans.core.trimmed import TrimmedProblem
from wolfmeans.core.workspace import Centers, Workspace
from wolfmeans.engines import get_engine
from wolfmeans.fitting.fit import Fit, Start, run
from wolfmeans.fitting.polish import polish
from wolfmeans.fitting.search import search

# A search among the kept points takes this share of the time, and as long as some runs at least.
_SHARE_OF_SEARCH = 0.05
_RUNS_OF_SEARCH = 20.0


@dataclass(frozen=True)
class TrimmedRuns:
    """What a search needs to know about a trimmed problem in memory."""

    X: Any
    """(n, d) the points, dense or CSR, at the scale of the runs."""
    weights: Any
    """(n,) their weights; None for ones."""
    again: Callable[[Centers], Fit]
    """Run the trimmed problem from centers."""
    fresh: Callable[[], Centers]
    """Draw new seeds."""
    random: RandomSource
    n_threads: int

    def kept(self, fit: Fit) -> Workspace:
        """Return the points that a fit keeps, with the kept masses as weights."""
        assert isinstance(fit.problem, TrimmedProblem)
        shares = np.asarray(fit.problem.workspace.shares(), dtype=np.float64)
        masses = shares if self.weights is None else shares * self.weights
        rows = np.flatnonzero(masses > 0)
        plain = self.weights is None and bool((masses[rows] == 1.0).all())
        weights = None if plain else masses[rows]
        return get_engine().open(self.X[rows], weights, self.n_threads)


def searched_trimmed(fit: Fit, runs: TrimmedRuns, seconds: float) -> Fit:
    """Spend some time on a better clustering; the effort is recorded in the fit."""
    begun = perf_counter()
    best = now = fit
    done: list[Effort] = []
    starts = 0
    each = max(_SHARE_OF_SEARCH * seconds, _RUNS_OF_SEARCH * fit.solution.trace[-1].seconds)
    while (left := seconds - (perf_counter() - begun)) > 0:
        with progress.silence():
            found, effort = search(
                runs.kept(now),
                now.centers,
                runs.random,
                seconds=min(each, left),
                n_threads=runs.n_threads,
            )
            done.append(effort)
            better = runs.again(found) if effort.after < effort.before else now
            if better.inertia < now.inertia:
                now = better
            elif perf_counter() - begun < seconds:
                # Nothing is gained near this clustering.
                starts += 1
                now = runs.again(runs.fresh())
        if now.inertia < best.inertia:
            best = now
        _tell_progress(perf_counter() - begun, seconds, best.inertia)
    total = Effort(
        seconds=perf_counter() - begun,
        rounds=sum(effort.rounds for effort in done),
        tried=sum(effort.tried for effort in done),
        accepted=sum(effort.accepted for effort in done),
        starts=starts + sum(effort.starts for effort in done),
        before=fit.inertia,
        after=best.inertia,
    )
    return replace(best, effort=total)


def _tell_progress(elapsed: float, seconds: float, inertia: float) -> None:
    if elapsed >= progress.PATIENCE:
        progress.tick(elapsed / seconds, f"search, inertia {inertia:.6g}")


def polished_trimmed(fit: Fit, runs: TrimmedRuns, kind: str, deadline: float = math.inf) -> Fit:
    """Improve a fit by moves of kept points, and trim again, until nothing is gained."""
    before, effort = fit.inertia, fit.effort
    moves = swaps = tried = iterations = 0
    while True:
        start = Start(runs.kept(fit), fit.centers, runs.random)
        settled = run(
            start, max_steps=None, stop="stationary", tol=0.0, tol_scale="absolute", empty="keep"
        )
        record = polish(settled.problem, settled.solution, kind, runs.random, deadline)
        moves, swaps = moves + record.record.moves, swaps + record.record.swaps
        tried, iterations = tried + record.record.swaps_tried, iterations + record.record.iterations
        better = runs.again(record.solution.point.centers)
        timed_out = record.record.timed_out or perf_counter() >= deadline
        gained = better.inertia < fit.inertia
        fit = better if gained else fit
        if timed_out or not gained:
            break
    done = Polish(
        level=None,
        tied=False,
        moves=moves,
        swaps=swaps,
        swaps_tried=tried,
        iterations=iterations,
        decrease=before - fit.inertia,
        timed_out=timed_out,
    )
    return replace(fit, polish=done, effort=effort)
