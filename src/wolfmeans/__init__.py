"""wolfmeans: K-means that proves its answer.

>>> import numpy as np
>>> from wolfmeans import KMeans
>>> X = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
>>> KMeans(n_clusters=2, random_state=0).fit(X).certificate_.status.name
'STATIONARY'
"""

from wolfmeans.certificate import Certificate
from wolfmeans.estimators import KMeans, TrimmedKMeans
from wolfmeans.frank_wolfe import ConcaveProblem, minimize_concave
from wolfmeans.lower_bounds import LowerBound, lower_bound
from wolfmeans.scan import scan
from wolfmeans.scanned import Scan
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
