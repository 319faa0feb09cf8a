"""The paper's study: worst-case gaps of K-means over many random starts, and their rate.

>>> from wolfmeans import study
>>> [scenario.name for scenario in study.grid(n=[500], d=[2], k=[5, 10])]
['blobs-n500-d2-k5', 'blobs-n500-d2-k10']
"""

from wolfmeans.study.report import write_report
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.runner import run
from wolfmeans.study.scenarios import Scenario, data, grid, segmentation
from wolfmeans.study.statistics import Regression, sidak, window

__all__ = [
    "GAPS",
    "Regression",
    "Scenario",
    "ScenarioResult",
    "data",
    "grid",
    "run",
    "segmentation",
    "sidak",
    "window",
    "write_report",
]
