"""scikit-learn's own checks, on every engine."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfmeans import KMeans
from wolfmeans.exact.native import native_is_available

ENGINES = ["reference", "cpu"] if native_is_available() else ["reference"]


@parametrize_with_checks([KMeans(engine=engine) for engine in ENGINES])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_checks(estimator, check):
    check(estimator)
