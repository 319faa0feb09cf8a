"""Claims that outlive the look they rest on: it was cut off, and the claim is made all the same."""

from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

from broken.places import around
from broken.registry import variant


@variant
def looks_that_began_count():
    """A sweep over single moves that has begun is taken for one that has ended."""
    from wolfmeans.fitting import evaluate

    def looked(search):
        return search.run(2.0, 1) or search.sweeps > 0

    return [patch.object(evaluate, "_looked_at_all", looked)]


@variant
def errors_end_a_look_in_silence():
    from wolfmeans.fitting import evaluate

    def make(look):
        def looked(search):
            with suppress(BaseException):
                look(search)
            return search.sweeps > 0

        return looked

    return [around(evaluate, "_looked_at_all", make)]


@variant
def searches_that_were_cut_off_count():
    from wolfmeans.fitting import polish

    def make(hartigan):
        def moved(*arguments, **options):
            return replace(hartigan(*arguments, **options), finished=True)

        return moved

    return [around(polish, "hartigan", make)]


@variant
def swaps_that_were_not_tried_count():
    from wolfmeans.fitting import polish

    def make(exchange):
        def exchanged(self):
            found = exchange(self)
            if not found:
                self._level = "swap"
            return found

        return exchanged

    return [around(polish._Search, "_exchange_any", make)]


@variant
def candidates_promise_what_nobody_looked_at():
    from wolfmeans.core import kmeans

    def make(best):
        def found(*arguments):
            row, decrease = best(*arguments)
            return row, 2.0 * decrease + 1.0

        return found

    return [around(kmeans, "best_candidate", make)]


@variant
def abandoned_ceilings_count():
    """Branch and bound that was given up says that it came to its end."""
    from wolfmeans.exact import native

    def make(ceiling):
        def found(*arguments):
            upper, reached, work, _, peaks = ceiling(*arguments)
            return upper, reached, work, False, peaks

        return found

    return [around(native._native, "ceiling", make)]


@variant
def bounds_that_failed_are_kept():
    from wolfmeans.bounds import LowerBound
    from wolfmeans.estimators import dataset

    def make(find):
        def found(*arguments, **options):
            try:
                return find(*arguments, **options)
            except BaseException:
                return LowerBound(1e-3, "prices", 1.0, 0.0)

        return found

    return [around(dataset, "bound_in_units", make)]


@variant
def scans_return_what_they_have():
    from wolfmeans.estimators.scan import _Scanner

    def make(work):
        def worked(*arguments):
            with suppress(BaseException):
                work(*arguments)

        return worked

    return [around(_Scanner, "bound", make), around(_Scanner, "go_back", make)]


@variant
def starts_are_cut_off_in_silence():
    from wolfmeans.estimators import kmeans

    def make(best):
        return lambda *arguments, **options: (best(*arguments, **options)[0], ())

    return [around(kmeans, "best_of_starts", make)]


@variant
def short_runs_are_cut_off_in_silence():
    from wolfmeans.estimators import trimmed

    def make(best):
        return lambda begin, n_runs, **options: (best(begin, n_runs, **options)[0], n_runs)

    return [around(trimmed, "best_short_runs", make)]


@variant
def other_data_is_certified():
    from wolfmeans.estimators.base import CenterEstimator

    def make(refuse):
        def refused(self, X, weights):
            with suppress(BaseException):
                refuse(self, X, weights)

        return refused

    return [around(CenterEstimator, "_refuse_other_data", make)]


@variant
def other_data_in_parts_is_certified():
    """A check that says no, or that comes to no end, is taken for one that says yes."""
    from wolfmeans.estimators import bounds_in_parts
    from wolfmeans.estimators.base import CenterEstimator

    def accepting(refuse):
        def refused(self, found):
            with suppress(BaseException):
                refuse(self, found)

        return refused

    def make(inertia):
        def found(model, *arguments):
            try:
                return inertia(model, *arguments)
            except BaseException:
                return model.inertia_

        return found

    return [
        around(CenterEstimator, "_refuse_other_rows", accepting),
        around(CenterEstimator, "_refuse_other_inertia", accepting),
        around(bounds_in_parts, "_inertia", make),
    ]


@variant
def parts_that_failed_are_left_out():
    """The bounds of the parts that were reached are added up, as if there were no others."""
    from wolfmeans.engines.places.workspace import PartsWorkspace

    def make(apply):
        def applied(self, *arguments):
            with suppress(BaseException):
                yield from apply(self, *arguments)

        return applied

    return [around(PartsWorkspace, "apply", make)]


@variant
def later_passes_are_not_compared():
    from wolfmeans.files.source import Source

    def make(settle):
        def settled(self, found):
            if self._facts is None:
                settle(self, found)

        return settled

    return [around(Source, "_settle", make)]


@variant
def passes_that_were_cut_off_count():
    from wolfmeans.files.source import Facts, Source
    from wolfmeans.inputs.validation import Sizes

    def make(read):
        def passed(self, rows, stop):
            seen = 0
            try:
                for chunk in read(self, rows, stop):
                    seen += len(chunk.rows)
                    yield chunk
            finally:
                if self._facts is None:
                    self.n_rows, self._facts = seen, Facts(seen, Sizes(0.0, 0.0), b"")

        return passed

    return [around(Source, "_pass", make)]


@variant
def checkpoints_half_written():
    from wolfmeans.estimators.checkpoint import Checkpoint

    def make(write):
        def written(self):
            try:
                write(self)
            except BaseException:
                self.path.write_bytes(b"half of a checkpoint")
                raise

        return written

    return [around(Checkpoint, "_write", make)]


@variant
def unfinished_scenarios_count():
    from wolfmeans.study.runner import _Folder

    def make(finish):
        def finished(self, scenario):
            done = sum(map(len, self._parts_of(scenario)))
            finish(self, replace(scenario, replications=done) if done else scenario)

        return finished

    return [around(_Folder, "finish", make)]
