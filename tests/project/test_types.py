"""What type checkers know: a user's script, and the options of estimators."""

import re
import shutil
import subprocess
import sys
from typing import get_args

import pytest

from wolfmeans.core import choices
from wolfmeans.estimators import parameters

SCRIPT = """
import numpy as np

import wolfmeans
from wolfmeans import (
    ConstrainedKMeans,
    KMeans,
    SphericalKMeans,
    TrimmedKMeans,
    judge,
    lower_bound,
    report,
    scan,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 2))

km = KMeans(n_clusters=3, init="k-means++", random_state=0, polish="swap").fit(X)
reveal_type(km)
reveal_type(km.cluster_centers_)
reveal_type(km.labels_)
reveal_type(km.inertia_)
reveal_type(km.n_iter_)
reveal_type(km.cluster_sizes_)
reveal_type(km.predict(X))
reveal_type(km.transform(X))
reveal_type(km.fit_predict(X))
reveal_type(km.fit_transform(X))
reveal_type(km.score(X))
reveal_type(km.margins(X))
reveal_type(km.soft_labels(X))
reveal_type(km.typical_rows(X))
reveal_type(km.set_params(n_clusters=4))
reveal_type(km.set_output(transform="pandas"))

certificate = km.certify(X, method="spectral")
reveal_type(certificate)
reveal_type(certificate.gap)
reveal_type(certificate.ratio)
reveal_type(certificate.status)
reveal_type(certificate.verdict)
reveal_type(km.certificate_)
reveal_type(wolfmeans.certify(km, X))
reveal_type(km.get_params())
reveal_type(km.get_feature_names_out())
judged = judge(X, km.labels_)
reveal_type(judged)
reveal_type(judged.verdict)

for record in km.trace_:
    reveal_type(record.gap)
reveal_type(km.trace_.sse)
reveal_type(km.trace_.lower_bound)

trimmed = TrimmedKMeans(3, alpha=0.1, stop="gap", engine="cpu").fit(X)
reveal_type(trimmed)
reveal_type(trimmed.kept_)
reveal_type(trimmed.radius_)
reveal_type(trimmed.n_trimmed_)
reveal_type(trimmed.certify(X))
spherical = SphericalKMeans(3, stop="gap", zero_rows="apart", bound="neighbours").fit(X)
reveal_type(spherical)
reveal_type(spherical.labels_)
reveal_type(spherical.certify(X).ratio)
sized = ConstrainedKMeans(3, size_min=10, empty="best", bound=None).fit(X)
reveal_type(sized)
reveal_type(sized.sizes_)
reveal_type(sized.prices_)
reveal_type(sized.duality_gap_)
reveal_type(sized.splits_)
reveal_type(sized.assign(X))
reveal_type(sized.certify(X).verdict)

found = scan(X, n_clusters=range(2, 5))
reveal_type(found)
reveal_type(found[2].inertia)
reveal_type(found[2].model)
reveal_type(found[2].model.labels_)
reveal_type(found.best)
if found.best is not None:
    reveal_type(found.best.n_clusters)
    reveal_type(found.best.reason)

bound = lower_bound(X, 3)
reveal_type(bound.value)
page = report.page(km, X)
reveal_type(page)
reveal_type(page.save("page.html"))
model = wolfmeans.load("model.npz")
reveal_type(model)
reveal_type(model.predict(X))
"""
WRONG = """
from wolfmeans import ConstrainedKMeans, KMeans, SphericalKMeans

KMeans(3, stop="never")
KMeans(3, engine="fpga").fit([[1.0]]).no_such_attribute_
KMeans(3, bound="magic")
SphericalKMeans(3, stop="shift")
ConstrainedKMeans(3, empty="drop")
"""


def types_of(checker, script, tmp_path):
    """Return what a type checker prints about a script."""
    path = tmp_path / "script.py"
    path.write_text(script)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    if checker == "pyright":
        if shutil.which("pyright") is None:
            pytest.skip("pyright is not installed")
        command = ["pyright", "--pythonpath", sys.executable]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_user_sees_types_after_fit(checker, tmp_path):
    printed = types_of(checker, SCRIPT, tmp_path)
    revealed = re.findall(r'(?:Revealed type|Type of ".*") is "(.*)"', printed)
    assert len(revealed) == SCRIPT.count("reveal_type("), printed
    assert not {"Any", "Unknown"} & set(revealed), printed
    assert "error" not in printed.replace("0 errors", ""), printed
    assert "KMeans" in revealed[0]


@pytest.mark.long
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_user_hears_about_mistakes(checker, tmp_path):
    printed = types_of(checker, WRONG, tmp_path)
    # scikit-learn has no types, so for mypy any attribute may come from there.
    unknown = ("no_such_attribute_",) if checker == "pyright" else ()
    for mistake in ("never", "fpga", "magic", "shift", "drop", *unknown):
        assert mistake in printed, printed


@pytest.mark.parametrize(
    ("literal", "names"),
    [
        (parameters.Algorithm, choices.ALGORITHMS),
        (parameters.Stop, choices.STOPS),
        (parameters.ToleranceScale, choices.TOLERANCE_SCALES),
        (parameters.Empty, choices.POLICIES),
        (parameters.PolishKind, choices.POLISHES),
        (parameters.EngineName, choices.ENGINES),
        (parameters.Bound, ("auto", *choices.BOUNDS)),
    ],
)
def test_types_list_all_options(literal, names):
    assert set(get_args(literal)) == set(names)
