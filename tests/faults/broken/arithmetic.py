"""Wrong numbers, and wrong claims about them."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np

from broken.places import around, on_finished, on_model, rows_of
from broken.registry import variant


@variant
def sums_in_float32():
    """Means are float32 sums divided by counts, step by step."""
    from wolfmeans.core.kmeans import KMeansProblem

    def make(minimize):
        def minimized(self, centers):
            found = minimize(self, centers)
            workspace = self.workspace
            X = workspace.rows(np.arange(workspace.n_points)).astype(np.float32)
            given = workspace.weights
            ones = np.ones(len(X)) if given is None else np.asarray(given)
            weights = ones.astype(np.float32)[:, None]
            labels = np.asarray(workspace.labels())
            means = found.centers.copy()
            for k in range(len(means)):
                rows = labels == k
                if (weights[rows] > 0).any():
                    total = np.cumsum(weights[rows] * X[rows], axis=0, dtype=np.float32)[-1]
                    mass = np.cumsum(weights[rows], dtype=np.float32)[-1]
                    means[k] = total / mass
            return replace(found, centers=means)

        return minimized

    return [
        around(KMeansProblem, "minimize_linear", make),
        patch.object(KMeansProblem, "limits", lambda *arguments: None),
    ]


@variant
def ties_to_the_highest():
    def change(prepared, fit):
        from samples import distances

        to_all = distances(rows_of(prepared), fit.centers)
        return replace(
            fit, labels=(to_all.shape[1] - 1 - to_all[:, ::-1].argmin(axis=1)).astype(np.int32)
        )

    return on_finished(change)


@variant
def distances_by_expansion():
    """Labels by x.x - 2 x.c + c.c in float32, as fast programs do it."""

    def change(prepared, fit):
        X = rows_of(prepared).astype(np.float32)
        C = fit.centers.astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            to_all = (X * X).sum(axis=1)[:, None] - 2 * X @ C.T + (C * C).sum(axis=1)
        return replace(fit, labels=to_all.argmin(axis=1).astype(np.int32))

    return on_finished(change)


@variant
def labels_one_step_behind():
    def change(prepared, fit):
        labels = np.array(fit.labels)
        labels[0] = (labels[0] + 1) % len(fit.centers)
        return replace(fit, labels=labels)

    return on_finished(change)


@variant
def inertia_of_the_ledger():
    return on_finished(
        lambda prepared, fit: replace(fit, inertia=fit.inertia * (1 + 1e-14) + 1e-300)
    )


@variant
def gap_overstated():
    """The ledger books more than a step gained."""
    from wolfmeans.core.kmeans import KMeansProblem

    def make(minimize):
        def minimized(self, centers):
            found = minimize(self, centers)
            return replace(found, gap=found.gap * 1.001)

        return minimized

    return [
        around(KMeansProblem, "minimize_linear", make),
        patch.object(KMeansProblem, "limits", lambda *arguments: None),
        patch.object(KMeansProblem, "audit", lambda self, solution, inertia: solution),
    ]


@variant
def sse_rises():
    """Records of a run whose value goes up again."""

    def change(prepared, fit):
        trace = fit.solution.trace
        last = trace[-1]
        trace.append(replace(last, t=last.t + 1, value=last.value + trace[0].value))
        return fit

    return on_finished(change)


@variant
def overflow_on_the_way():
    def change(prepared, fit):
        np.float64(1e300) * np.float64(1e300)
        return fit

    return on_finished(change)


@variant
def empty_clusters_left_alone():
    from wolfmeans.core.kmeans import KMeansProblem

    return [patch.object(KMeansProblem, "empty", property(lambda self: "keep"))]


@variant
def centers_of_empty_clusters_are_nan():
    def change(model):
        used = np.bincount(np.asarray(model.labels_), minlength=model.n_clusters) > 0
        model.cluster_centers_[~used] = np.nan

    return on_model(change)


@variant
def centers_in_float32():
    def change(model):
        model.cluster_centers_ = model.cluster_centers_.astype(np.float32).astype(np.float64)

    return on_model(change)


@variant
def warnings_swallowed():
    from wolfmeans.estimators import kmeans

    return [patch.object(kmeans, "warn_about", lambda *arguments, **options: None)]


@variant
def row_order_matters():
    from wolfmeans.estimators import kmeans

    def first_rows(workspace, n_clusters, method, random):
        return workspace.rows(np.arange(n_clusters))

    return [patch.object(kmeans, "choose_seeds", first_rows)]


@variant
def bounds_too_high():
    """Lower bounds without their rounding margin, and a little more."""
    from wolfmeans.fitting import fit, lower_bound

    def make(find):
        def found(*arguments, **options):
            bound = find(*arguments, **options)
            return None if bound is None else replace(bound, value=bound.value * 1.001 + 1e-9)

        return found

    return [around(fit, "best_bound", make), around(lower_bound, "best_bound", make)]


@variant
def strictness_claimed():
    from wolfmeans.core.kmeans import KMeansProblem

    return [patch.object(KMeansProblem, "tied", lambda self, point: False)]
