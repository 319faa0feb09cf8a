"""Certificates that nobody asked more of: the bound that is computed when they are first read."""

import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from wolfmeans import KMeans, check_proof


@pytest.mark.parametrize(
    ("load", "k"),
    [(load_iris, 3), (load_wine, 3), (load_breast_cancer, 2)],
    ids=["iris", "wine", "breast cancer"],
)
def test_default_certificates_of_real_tables_are_useful(load, k):
    X = StandardScaler().fit_transform(load().data)
    km = KMeans(k, n_init=10, random_state=0).fit(X)
    certificate = km.certificate_
    assert certificate.lower_bound_kind == "semidefinite"
    assert certificate.ratio < 1.1
    assert check_proof(X, certificate.proof) == certificate.lower_bound
    assert km.certificate_ is certificate


def test_the_bound_does_not_depend_on_how_long_the_fit_took():
    X = StandardScaler().fit_transform(load_iris().data)
    quick = KMeans(4, random_state=0).fit(X)
    slow = KMeans(4, random_state=0, callback=lambda record: sum(range(300_000)) < 0).fit(X)
    assert quick.certificate_.lower_bound == slow.certificate_.lower_bound
