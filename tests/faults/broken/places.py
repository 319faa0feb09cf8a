"""Places where the package can be broken."""

from unittest.mock import patch

import numpy as np


def around(target, name, make):
    """Patch an attribute by what `make` makes of it."""
    return patch.object(target, name, make(getattr(target, name)))


def on_input(change):
    """Change X before the door sees it."""
    from wolfmeans.inputs import validation

    def make(validated):
        def admitted(estimator, X, **options):
            return validated(estimator, change(X), **options)

        return admitted

    return [around(validation, "validate_points", make)]


def on_finished(change):
    """Change a finished run, whatever the engine."""
    from wolfmeans.fitting.fit import Prepared

    def make(finish):
        def finished(self, *arguments):
            return change(self, finish(self, *arguments))

        return finished

    return [around(Prepared, "finish", make)]


def on_model(change):
    """Change a model after its fit."""
    from wolfmeans.estimators.kmeans import FitFromStarts

    def make(keep):
        def kept(self, fit, certificate, exponent):
            keep(self, fit, certificate, exponent)
            change(self)

        return kept

    return [around(FitFromStarts, "_keep", make)]


def rows_of(prepared):
    workspace = prepared.problem.workspace
    return workspace.rows(np.arange(workspace.n_points))
