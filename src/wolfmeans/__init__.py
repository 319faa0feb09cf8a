"""wolfmeans: K-means that proves its answer.

>>> import numpy as np
>>> from wolfmeans import KMeans
>>> X = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
>>> KMeans(n_clusters=2, random_state=0).fit(X).certificate_.status.name
'STATIONARY'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wolfmeans.certificate import Certificate
    from wolfmeans.estimators import KMeans, TrimmedKMeans
    from wolfmeans.frank_wolfe import ConcaveProblem, minimize_concave
    from wolfmeans.lower_bounds import LowerBound, lower_bound
    from wolfmeans.scanned import Scan
    from wolfmeans.scanning import scan
    from wolfmeans.solution import Record, Solution, Status, Trace
    from wolfmeans.storage import load

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "ConcaveProblem",
    "KMeans",
    "LowerBound",
    "Record",
    "Scan",
    "Solution",
    "Status",
    "Trace",
    "TrimmedKMeans",
    "load",
    "lower_bound",
    "minimize_concave",
    "scan",
]

# Where the public names live. Each is imported when it is first asked for, and so are modules: the
# command says its help, or reads a file, long before scikit-learn would be there.
_HOMES = {
    "Certificate": "certificate",
    "ConcaveProblem": "frank_wolfe",
    "KMeans": "estimators",
    "LowerBound": "lower_bounds",
    "Record": "solution",
    "Scan": "scanned",
    "Solution": "solution",
    "Status": "solution",
    "Trace": "solution",
    "TrimmedKMeans": "estimators",
    "load": "storage",
    "lower_bound": "lower_bounds",
    "minimize_concave": "frank_wolfe",
    "scan": "scanning",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = f"{__name__}.{_HOMES.get(name, name)}"
    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message) from None
    found = getattr(module, name) if name in _HOMES else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
