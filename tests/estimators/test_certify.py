"""Certifying afterwards, polishing and searching: what estimators do with bounds and levels."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV

import wolfmeans
import wolfmeans.datasets
from wolfmeans import (
    CentroidClustering,
    ConstrainedKMeans,
    KMeans,
    SphericalKMeans,
    TrimmedKMeans,
    TrimmedSphericalKMeans,
)


def blobs(n=300, d=2, k=6, seed=0, spread=1.0):
    return make_blobs(n, n_features=d, centers=k, random_state=seed, cluster_std=spread)[0]


@pytest.mark.parametrize(("shape", "most"), [((500, 10, 20), 1.01), ((500, 5, 50), 1.08)])
@pytest.mark.parametrize("seed", range(3))
def test_clear_clusters_are_certified_to_a_few_percent(shape, most, seed):
    n, d, k = shape
    X = blobs(n, d, k, seed)
    km = KMeans(k, n_init=10, polish="swap", random_state=0, bound=None).fit(X)
    assert km.certificate_.ratio is None
    assert 1.0 <= km.certify(X).ratio <= most
    assert km.certificate_.lower_bound_confidence == 1.0


def test_bound_is_a_parameter_and_certify_a_method():
    km = KMeans(3, bound="spectral", random_state=0)
    assert km.bound == km.get_params()["bound"] == "spectral"
    assert clone(km).get_params()["bound"] == "spectral"
    assert km.set_params(bound=None).get_params()["bound"] is None
    assert "bound=None" in repr(km)
    assert "certify" not in km.get_params()
    assert callable(km.certify)
    assert callable(KMeans.certify)
    X = blobs(60)
    fitted = pickle.loads(pickle.dumps(km.fit(X)))
    assert fitted.get_params()["bound"] is None
    assert fitted.certify(X).ratio < 2.0
    search = GridSearchCV(KMeans(3, random_state=0), {"bound": [None, "spectral"]}, cv=2).fit(X)
    assert search.best_params_["bound"] in (None, "spectral")


@pytest.mark.parametrize(
    "make",
    [
        KMeans,
        TrimmedKMeans,
        SphericalKMeans,
        TrimmedSphericalKMeans,
        ConstrainedKMeans,
        CentroidClustering,
    ],
)
def test_the_old_name_of_bound_is_accepted_with_a_warning(make):
    with pytest.warns(FutureWarning, match="certify is now called bound") as heard:
        km = make(3, certify=None)
    assert heard[0].filename == __file__
    assert km.get_params()["bound"] is None
    with pytest.warns(FutureWarning, match="certify is now called bound"):
        assert km.set_params(certify="auto").bound == "auto"
    assert callable(km.certify)
    with pytest.raises(TypeError, match="pass only bound"):
        make(3, certify=None, bound="auto")


def test_a_scan_accepts_the_old_name_of_bound():
    with pytest.warns(FutureWarning, match="certify is now called bound"):
        found = wolfmeans.scan(blobs(30), [2], certify=None, random_state=0, resamples=0)
    assert found[2].ratio is None


def test_a_pickle_with_the_old_name_of_bound_is_read():
    km = KMeans(3, bound="spectral", random_state=0).fit(blobs(60))
    old = {"certify" if name == "bound" else name: value for name, value in vars(km).items()}
    again = KMeans.__new__(KMeans)
    again.__setstate__(old)
    assert again.get_params() == km.get_params()
    assert callable(again.certify)


def test_certifying_gives_the_bound_of_the_function_and_tightens_the_guarantee():
    X = blobs()
    km = KMeans(6, random_state=0, bound=None).fit(X)
    loose = km.certificate_
    method = "neighbours"
    bound = wolfmeans.lower_bound(X, 6, centers=km.cluster_centers_, method=method)
    certificate = km.certify(X, method=method)
    assert certificate is km.certificate_
    assert certificate.lower_bound == bound.value
    assert certificate.lower_bound_kind == bound.kind
    assert certificate.max_iterations < loose.max_iterations
    assert km.trace_.lower_bound == bound.value
    assert np.all(np.minimum.accumulate(km.trace_.gap) <= km.trace_.rate_bound)


def test_certifying_asks_for_the_data_of_the_fit():
    X = blobs()
    km = KMeans(6, random_state=0).fit(X)
    before = km.certificate_
    with pytest.raises(ValueError, match="not the data of the fit"):
        km.certify(X[:-1])
    with pytest.raises(ValueError, match="not the data of the fit"):
        km.certify(X, sample_weight=np.arange(len(X)))
    with pytest.raises(ValueError, match="method must be one of"):
        km.certify(X, method="magic")
    assert km.certificate_ is before


@pytest.mark.parametrize("scale", [2.0**-480, 2.0**480])
def test_a_scale_inside_changes_no_ratio(scale):
    X = blobs(60)
    ratio = KMeans(6, random_state=0, bound="neighbours").fit(X).certificate_.ratio
    km = KMeans(6, random_state=0, bound=None).fit(X * scale)
    assert km.certify(X * scale, method="neighbours").ratio == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**700])
def test_bounds_come_in_the_units_of_the_certificate(scale):
    X = blobs(60)
    ratio = KMeans(6, random_state=0, bound="neighbours").fit(X).certificate_.ratio
    with pytest.warns(RuntimeWarning, match="are outside the range of float64"):
        km = KMeans(6, random_state=0, bound="neighbours").fit(X * scale)
    assert km.certificate_.unit_exponent != 0
    assert km.certificate_.ratio == pytest.approx(ratio, rel=1e-9)


def test_a_method_that_does_not_hold_is_refused_in_a_sentence():
    X = blobs()
    with pytest.raises(ValueError, match="for one column only"):
        KMeans(3, bound="exact").fit(X)
    with pytest.raises(ValueError, match="must be a str among"):
        TrimmedKMeans(3, bound="spectral").fit(X)
    with pytest.raises(ValueError, match="does not hold for trimmed"):
        TrimmedKMeans(3, random_state=0).fit(X).certify(X, method="spectral")


@pytest.mark.parametrize("weighted", [False, True])
def test_trimmed_fits_are_certified_for_what_they_keep(weighted):
    X = np.vstack([blobs(200, 2, 3, 1), np.full((10, 2), 1e4) * np.arange(1, 11)[:, None]])
    weights = np.random.default_rng(0).integers(1, 4, size=len(X)) if weighted else None
    km = TrimmedKMeans(3, alpha=0.1, random_state=0, bound=None)
    km.fit(X, sample_weight=weights)
    certificate = km.certify(X, sample_weight=weights)
    assert 1.0 <= certificate.ratio < 1.5
    # Untrimmed, the outliers alone cost more than all the rest.
    assert certificate.lower_bound < 1e-3 * wolfmeans.lower_bound(X, 3, sample_weight=weights).value


@pytest.mark.parametrize("polish", ["hartigan", "swap"])
def test_polish_lowers_the_inertia_and_names_the_level(polish):
    X = blobs(400, 2, 25, seed=3, spread=0.4)
    plain = KMeans(25, init="random", n_init=1, random_state=1).fit(X)
    km = KMeans(25, init="random", n_init=1, random_state=1, polish=polish).fit(X)
    certificate = km.certificate_
    assert km.inertia_ < plain.inertia_
    assert certificate.level == polish
    assert certificate.gap == 0
    assert (km.predict(X) == km.labels_).all()
    assert km.inertia_ == -km.score(X)
    assert certificate.iterations == plain.certificate_.iterations
    assert certificate.polish.decrease == pytest.approx(
        plain.inertia_ + plain.certificate_.gap - km.inertia_, rel=1e-6
    )
    assert list(km.trace_.t) == list(range(len(km.trace_)))
    assert f"level       {polish}" in str(certificate)


def test_the_ladder_has_three_rungs():
    X = blobs(400, 2, 25, seed=3, spread=0.4)
    settings = {"init": "random", "n_init": 1, "random_state": 1}
    levels = [
        KMeans(25, polish=polish, **settings).fit(X).certificate_.level
        for polish in (None, "hartigan", "swap")
    ]
    assert levels == ["stationary", "hartigan", "swap"]
    with pytest.warns(UserWarning, match="Not converged"):
        early = KMeans(25, max_iter=1, **settings).fit(X)
    assert early.certificate_.level is None


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_polish_is_the_same_on_every_engine_and_with_many_starts(engine):
    X = blobs(120, 3, 8, seed=2).astype(np.float32)
    models = [
        KMeans(8, init="random", n_init=3, random_state=0, polish="swap", **settings).fit(X)
        for settings in ({"engine": "cpu", "n_threads": 1}, {"engine": engine, "n_threads": 3})
    ]
    assert (models[0].labels_ == models[1].labels_).all()
    assert (models[0].cluster_centers_ == models[1].cluster_centers_).all()
    assert models[0].certificate_.polish == models[1].certificate_.polish


def test_effort_never_does_worse_and_says_what_it_gained():
    X = blobs(400, 2, 25, seed=3, spread=0.4)
    plain = KMeans(25, init="random", n_init=1, random_state=1).fit(X)
    km = KMeans(25, init="random", n_init=1, random_state=1, effort=0.5).fit(X)
    effort = km.certificate_.effort
    assert km.inertia_ < plain.inertia_
    assert effort.before == plain.inertia_
    assert effort.after >= km.inertia_
    assert (km.predict(X) == km.labels_).all()
    assert "lowered the inertia of the first fit by" in str(km.certificate_)


def test_a_bound_may_take_as_long_as_the_search_took():
    X = blobs(2000, 5, 8, spread=2.0)
    # In K > d dimensions the spectral bound, the cheapest one, says nothing.
    assert vars(KMeans(8, random_state=0).fit(X))["certificate_"].ratio is None
    found = vars(KMeans(8, random_state=0, effort=0.5).fit(X))["certificate_"]
    assert found.lower_bound_kind == "neighbours"
    assert found.ratio < 2.0


def test_what_polish_and_effort_did_is_saved_with_the_model(tmp_path):
    X = blobs()
    km = KMeans(6, random_state=0, polish="swap", effort=0.1).fit(X)
    km.save(tmp_path / "model.wolf")
    again = wolfmeans.load(tmp_path / "model.wolf")
    assert again.certificate_ == km.certificate_
    assert str(again.certificate_) == str(km.certificate_)
    assert again.get_params() == km.get_params()


def test_effort_and_polish_must_be_what_they_can_be():
    with pytest.raises(ValueError, match="effort"):
        KMeans(2, effort=0).fit(blobs())
    with pytest.raises(ValueError, match="polish"):
        KMeans(2, polish="shine").fit(blobs())


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**700])
def test_certifying_afterwards_knows_the_units_of_the_certificate(scale):
    X = blobs(60)
    ratio = KMeans(6, random_state=0, bound="neighbours").fit(X).certificate_.ratio
    with pytest.warns(RuntimeWarning, match="are outside the range of float64"):
        km = KMeans(6, random_state=0, bound=None).fit(X * scale)
    assert km.certify(X * scale, method="neighbours").ratio == pytest.approx(ratio, rel=1e-9)


@pytest.mark.long
def test_the_price_bound_does_not_depend_on_threads():
    X = wolfmeans.datasets.load_banknotes().data
    found = {
        wolfmeans.lower_bound(X, 5, method="prices", n_threads=threads).value
        for threads in (1, 2, 3, 2)
    }
    assert len(found) == 1


@pytest.mark.parametrize(("confidence", "said"), [(1.0, "optimal"), (0.9, "within 0.0001 %")])
def test_only_a_proof_that_meets_the_inertia_is_called_optimal(confidence, said):
    bare = KMeans(3, random_state=0, bound=None).fit(blobs(40)).certificate_
    bounded = bare.bounded_by(wolfmeans.LowerBound(bare.inertia, "any", confidence, 0.0))
    assert next(row[1] for row in bounded.rows() if row[0] == "global") == said


def test_ctrl_c_is_heard_between_the_layers_of_the_exact_bound():
    code = (
        "import os, signal, sys, threading, time\n"
        "import numpy as np, wolfmeans\n"
        "x = np.random.default_rng(0).normal(size=(400_000, 1))\n"
        "def press():\n"
        "    time.sleep(0.3)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=press).start()\n"
        "try:\n"
        "    wolfmeans.lower_bound(x, 2000, method='exact')\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 7
