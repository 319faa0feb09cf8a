"""wolfmeans: K-means that proves its answer.

>>> import numpy as np
>>> from wolfmeans import KMeans
>>> X = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
>>> KMeans(n_clusters=2, random_state=0).fit(X).certificate_.status.name
'STATIONARY'
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from wolfmeans.core import hooks

if TYPE_CHECKING:
    from wolfmeans import bench as bench
    from wolfmeans import study as study
    from wolfmeans.bounds import LowerBound
    from wolfmeans.certificate import Certificate
    from wolfmeans.core.divergence import Divergence
    from wolfmeans.core.frank_wolfe import ConcaveProblem, minimize_concave
    from wolfmeans.core.solution import Record, Solution, Status, Trace
    from wolfmeans.estimators import (
        ConstrainedKMeans,
        KMeans,
        SphericalKMeans,
        TrimmedKMeans,
        TrimmedSphericalKMeans,
    )
    from wolfmeans.estimators.centroids import CentroidClustering
    from wolfmeans.estimators.pipelines import certify
    from wolfmeans.estimators.saving import load
    from wolfmeans.estimators.scan import scan
    from wolfmeans.estimators.scan_result import Scan
    from wolfmeans.files import datasets as datasets
    from wolfmeans.fitting.evaluate import judge
    from wolfmeans.fitting.lower_bound import check_proof, lower_bound
    from wolfmeans.views import page as _page
    from wolfmeans.views import plot as plot
    from wolfmeans.views import portrait as portrait

    report = _page

__version__ = "0.1.0"

__all__ = [
    "CentroidClustering",
    "Certificate",
    "ConcaveProblem",
    "ConstrainedKMeans",
    "Divergence",
    "KMeans",
    "LowerBound",
    "Record",
    "Scan",
    "Solution",
    "SphericalKMeans",
    "Status",
    "Trace",
    "TrimmedKMeans",
    "TrimmedSphericalKMeans",
    "certify",
    "check_proof",
    "judge",
    "load",
    "lower_bound",
    "minimize_concave",
    "scan",
]

# Public names are imported on first use: the command line prints its help and reads files before
# it needs scikit-learn.
_HOMES = {
    "CentroidClustering": "estimators.centroids",
    "Certificate": "certificate",
    "ConcaveProblem": "core.frank_wolfe",
    "ConstrainedKMeans": "estimators",
    "Divergence": "core.divergence",
    "KMeans": "estimators",
    "LowerBound": "bounds",
    "Record": "core.solution",
    "Scan": "estimators.scan_result",
    "Solution": "core.solution",
    "SphericalKMeans": "estimators",
    "Status": "core.solution",
    "Trace": "core.solution",
    "TrimmedKMeans": "estimators",
    "TrimmedSphericalKMeans": "estimators",
    "certify": "estimators.pipelines",
    "check_proof": "fitting.lower_bound",
    "judge": "fitting.evaluate",
    "load": "estimators.saving",
    "lower_bound": "fitting.lower_bound",
    "minimize_concave": "core.frank_wolfe",
    "scan": "estimators.scan",
}
_MODULES = ("bench", "datasets", "plot", "portrait", "report", "study")
"""Public modules."""
_ALIASES = {
    "cli": "commands.cli",
    "datasets": "files.datasets",
    "divergences": "core.divergence",
    "frank_wolfe": "core.frank_wolfe",
    "judgement": "fitting.evaluate",
    "lower_bounds": "fitting.lower_bound",
    "oversampling": "seeding.oversampling",
    "plot": "views.plot",
    "portrait": "views.portrait",
    "preparation": "inputs.preparation",
    "report": "views.page",
    "scanned": "estimators.scan_result",
    "solution": "core.solution",
    "sources": "inputs.opening",
    "stopping": "core.stopping",
    "storage": "estimators.saving",
}
"""Documented import paths whose modules are in one of the folders."""

hooks.register(
    ConstrainedKMeans="wolfmeans.estimators.constrained",
    KMeans="wolfmeans.estimators.kmeans",
    TrimmedKMeans="wolfmeans.estimators.trimmed",
    SphericalKMeans="wolfmeans.estimators.spherical",
    TrimmedSphericalKMeans="wolfmeans.estimators.spherical",
    certificate_view="wolfmeans.views.notebook",
    quick_centers="wolfmeans.estimators.quick_fits",
    good_centers="wolfmeans.estimators.quick_fits",
    improved_centers="wolfmeans.estimators.quick_fits",
    scan_figure="wolfmeans.views.plot",
    scan_view="wolfmeans.views.notebook",
    judgement_view="wolfmeans.views.notebook",
    trace_figure="wolfmeans.views.plot",
    trace_view="wolfmeans.views.notebook",
)


class _Aliases(MetaPathFinder, Loader):
    """Lets `import wolfmeans.plot` find `wolfmeans.views.plot`: the same module, two names."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != __name__ or name not in _ALIASES:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> Any:
        module = import_module(f"{__name__}.{_ALIASES[spec.name.rpartition('.')[2]]}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        # The import system has just put the alias's spec on the module.
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_Aliases())


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _ALIASES or name in _MODULES:
        found = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
