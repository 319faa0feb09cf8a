"""Tensors of PyTorch at the door, on the CPU and away; and what is missing, said clearly."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from difficult import points
from interpreted import needs_triton
from wolfmeans import KMeans, TrimmedKMeans, lower_bound, scan
from wolfmeans.engines import get_engine
from wolfmeans.estimators.saving import load
from wolfmeans.fitting.evaluate import judge
from wolfmeans.views.page import page
from wolfmeans.views.portrait import portrait

torch = pytest.importorskip("torch")
pytestmark = needs_triton

QUICK = {"n_clusters": 3, "random_state": 0, "init": "random", "n_init": 1, "bound": None}


@pytest.fixture
def away(monkeypatch):
    """Return what puts points on a GPU; without one, on something that pretends to be one."""
    from away import place

    return place(monkeypatch)


@pytest.fixture(scope="module", name="X")
def some_points():
    return points("blobs", 36, 2, "float32")


@pytest.fixture(scope="module")
def expected(X):
    return KMeans(engine="cpu", **QUICK).fit(X)


def assert_tensor(found, given, values):
    """Check that what came back is a tensor on the given one's device, with these values."""
    assert isinstance(found, torch.Tensor)
    assert found.device.type == given.device.type
    assert np.array_equal(found.cpu().numpy(), values)


@pytest.mark.parametrize("engine", ["auto", "cpu", "gpu"])
def test_tensors_on_the_cpu(X, expected, engine):
    given = torch.from_numpy(X)
    model = KMeans(engine=engine, **QUICK).fit(given)
    assert isinstance(model.cluster_centers_, np.ndarray)
    assert np.array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert_tensor(model.labels_, given, expected.labels_)
    assert_tensor(model.predict(given), given, expected.labels_)
    assert_tensor(model.transform(given), given, expected.transform(X))
    assert model.score(given) == expected.score(X)
    # What comes out is like what goes in.
    assert isinstance(model.predict(X), np.ndarray)
    assert model.cluster_centers_.dtype == np.float32


@pytest.mark.parametrize("engine", ["auto", "cpu"])
def test_tensors_away(X, expected, away, engine):
    given = away(X)
    assert given.device.type == "cuda"
    with pytest.raises(TypeError):
        np.asarray(given)
    model = KMeans(engine=engine, **QUICK).fit(given)
    assert model.engine_ == ("cpu" if engine == "cpu" else "gpu")
    assert np.array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.inertia_ == expected.inertia_
    assert_tensor(model.labels_, given, expected.labels_)
    assert_tensor(model.predict(given), given, expected.labels_)
    assert_tensor(model.fit_predict(given), given, expected.labels_)
    assert model.score(given) == expected.score(X)
    assert np.array_equal(model.predict(X), expected.labels_)
    distances = model.transform(given)
    assert_tensor(distances, given, expected.transform(X))
    assert distances.dtype == torch.float32


def test_weights_and_centers_away(X, away):
    w = np.linspace(0.5, 2.0, len(X))
    settings = {**QUICK, "init": X[:3]}
    here = KMeans(engine="cpu", **settings).fit(X, sample_weight=w)
    settings["init"] = away(X[:3].copy())
    there = KMeans(**settings).fit(away(X), sample_weight=away(w))
    assert there.labels_.cpu().tolist() == here.labels_.tolist()
    assert there.inertia_ == here.inertia_
    assert there.score(away(X), sample_weight=away(w)) == -there.inertia_
    assert there.certify(away(X), sample_weight=away(w)).lower_bound > 0


def test_a_model_of_tensors_away_in_reports(X, expected, away, tmp_path):
    given = away(X)
    model = KMeans(**QUICK).fit(given)
    shown, plain = portrait(model, given), portrait(expected, X)
    assert [c.points for c in shown.clusters] == [c.points for c in plain.clusters]
    assert [c.sse for c in shown.clusters] == [c.sse for c in plain.clusters]
    assert np.array_equal(shown.map.labels, plain.map.labels)
    assert np.array_equal(shown.margins.values, plain.margins.values)
    assert (shown.replay is None) == (plain.replay is None)
    # The points may as well come from the host.
    assert portrait(model, X).clusters == shown.clusters
    assert "</html>" in page(model, given).html
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.labels_.tolist() == expected.labels_.tolist()
    assert again.predict(X).tolist() == expected.labels_.tolist()
    current, known = judge(given, model.labels_), judge(X, expected.labels_)
    assert current == known
    assert (
        lower_bound(given, 3, method="neighbours").value
        == lower_bound(X, 3, method="neighbours").value
    )
    assert (
        model.certify(given, method="neighbours").lower_bound
        == expected.certify(X, method="neighbours").lower_bound
    )
    assert repr(model)
    assert model._repr_html_inner()


def test_figures_of_tensors_away(X, away):
    pytest.importorskip("matplotlib")
    from wolfmeans.views import plot

    model = KMeans(**QUICK).fit(away(X))
    shown = portrait(model, away(X))
    assert plot.sizes_figure(shown) is not None
    assert plot.margins_figure(shown) is not None


def test_trimmed_models_of_tensors_away(X, away, tmp_path):
    settings = {**QUICK, "alpha": 0.1}
    here, there = TrimmedKMeans(engine="cpu", **settings).fit(X), TrimmedKMeans(**settings)
    there.fit(away(X))
    assert there.engine_ == "gpu"
    assert_tensor(there.labels_, away(X), here.labels_)
    assert_tensor(there.predict(away(X)), away(X), here.predict(X))
    assert portrait(there, away(X)).left_out == portrait(here, X).left_out
    there.save(tmp_path / "model")
    assert load(tmp_path / "model").labels_.tolist() == here.labels_.tolist()


def test_scans_of_tensors_away(X, away):
    found = scan(away(X[:9]), n_clusters=[1], random_state=0)
    plain = scan(X[:9], n_clusters=[1], random_state=0)
    for one, other in zip(found.cells, plain.cells, strict=True):
        assert np.array_equal(one.model.cluster_centers_, other.model.cluster_centers_)


@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize(
    ("where", "dtype"),
    [
        ("here", "float16"),
        ("here", "int64"),
        ("away", "bfloat16"),
        ("away", "float64"),
        ("away", "uint8"),
    ],
)
def test_kinds_of_numbers(away, where, dtype):
    whole = torch.from_numpy(points("lattice", 20, 2) + 2.0).to(getattr(torch, dtype))
    given = away(whole) if where == "away" else whole
    model = KMeans(init=given[:2], n_clusters=2, n_init=1, bound=None, max_iter=2)
    half = dtype in ("float16", "bfloat16")
    plain = whole.float().numpy() if half else whole.numpy()
    other = KMeans(init=plain[:2], n_clusters=2, n_init=1, bound=None, max_iter=2, engine="cpu")
    model.fit(given)
    other.fit(plain)
    assert model.cluster_centers_.dtype == (np.float32 if half else np.float64)
    assert np.array_equal(model.cluster_centers_, other.cluster_centers_)
    assert_tensor(model.labels_, given, other.labels_)


@pytest.mark.parametrize("where", ["here", "away"])
def test_layouts(X, away, where):
    init = X[:3]
    expected = KMeans(3, init=init, n_init=1, engine="cpu", tol=0.1, bound=None).fit(X)
    put = away if where == "away" else torch.from_numpy
    wide = np.concatenate([X, np.full_like(X, np.nan)], axis=1)
    for given in (
        put(np.ascontiguousarray(X.T)).T,
        put(wide)[:, :2],
        put(X.copy()).requires_grad_(),
        put(np.repeat(X, 2, axis=0))[::2],
    ):
        labels = KMeans(3, init=init, n_init=1, tol=0.1, bound=None).fit_predict(given)
        assert labels.cpu().tolist() == expected.labels_.tolist()
        assert not labels.requires_grad


@pytest.mark.parametrize("where", ["here", "away"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[0], "Expected 2D array, got 1D array"),
        (lambda X: X[:0], "Found array with 0 sample"),
        (lambda X: X[:, :0], "Found array with 0 feature"),
        (lambda X: X[None], "Found array with dim 3"),
        (lambda X: X.to(torch.complex64), "Complex data not supported"),
        (lambda X: X[:2], "n_samples=2 should be >= n_clusters=3"),
        (lambda X: (X * 0 + 2**60).long() + 1, "integers beyond 2"),
    ],
)
def test_what_is_refused(X, away, where, change, message):
    given = change(torch.from_numpy(X))
    given = away(given) if where == "away" else given
    with pytest.raises(ValueError, match=message):
        KMeans(**QUICK).fit(given)


@pytest.mark.parametrize("where", ["here", "away"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_place_of_what_is_not_finite(X, away, where, value):
    given = torch.from_numpy(X.copy())
    given[5, 1] = given[30, 0] = value
    given = away(given) if where == "away" else given
    word = "NaN" if math.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=f"contains {word}, first at row 5, column 1"):
        KMeans(**QUICK).fit(given)


@pytest.mark.filterwarnings("ignore:The squared distances")
def test_scales_away(X, away):
    given = X.astype(np.float64)
    for scale in (2.0**-600, 2.0**600):
        here = KMeans(engine="cpu", **QUICK).fit(given * scale)
        there = KMeans(**QUICK).fit(away(given * scale))
        assert np.array_equal(there.cluster_centers_, here.cluster_centers_)
        assert there.predict(away(given * scale)).cpu().tolist() == here.labels_.tolist()


def test_another_precision_at_predict(X, expected, away):
    model = KMeans(**QUICK).fit(away(X))
    wide = X.astype(np.float64)
    assert_tensor(model.predict(away(wide)), away(wide), expected.predict(wide))
    assert model.transform(away(wide)).dtype == torch.float64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU to pin memory for")
def test_pinned_memory(X, expected):
    given = torch.from_numpy(X).pin_memory()
    model = KMeans(engine="gpu", **QUICK).fit(given)
    assert_tensor(model.labels_, given, expected.labels_)


def test_tables_of_tensors_away(X, expected, away):
    pandas = pytest.importorskip("pandas")
    model = KMeans(**QUICK).set_output(transform="pandas").fit(away(X))
    for given in (away(X), torch.from_numpy(X)):
        table = model.transform(given)
        assert isinstance(table, pandas.DataFrame)
        assert np.array_equal(table.to_numpy(), expected.transform(X))


def test_sparse_data_are_refused(X):
    with pytest.raises(ValueError, match=r"dense data; use engine='cpu' .* or X.toarray\(\)"):
        KMeans(engine="gpu", **QUICK).fit(sparse.csr_array(X))


def test_out_of_memory_says_what_to_reduce(X, monkeypatch):
    from wolfmeans.engines.gpu import engine
    from wolfmeans.engines.tensors import OnDevice

    def full(*args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(engine, "Screened", full)
    there = OnDevice(torch.from_numpy(X.copy()).to(engine.device()))
    with pytest.raises(MemoryError, match=r"36 points of 2 columns need about .* to float32"):
        get_engine("gpu").open(there, None, 1)
    # An array of the host's is streamed, unless there is no room for that either.
    monkeypatch.setattr(engine, "Streamed", full)
    monkeypatch.setenv("WOLFMEANS_GPU_MEMORY", "1MB")
    for opened in (
        lambda: KMeans(engine="gpu", **QUICK).fit(X),
        lambda: get_engine("gpu").open(X, None, 1).trimmed(30.0),
    ):
        with pytest.raises(MemoryError, match=r"36 points of 2 .* 1\.0 MiB free: .* fewer rows"):
            opened()


def test_no_gpu_says_so():
    code = """
import numpy as np
from wolfmeans import KMeans
try:
    KMeans(2, engine="gpu").fit(np.arange(8.0).reshape(4, 2))
except OSError as error:
    print(error)
"""
    hidden = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**hidden, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert "no GPU that PyTorch can use" in run.stdout, run.stderr
    assert "or take engine='cpu'" in run.stdout


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_missing_packages_are_named(missing):
    # In a process of its own, where nothing has been imported yet.
    code = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == {missing!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)
sys.meta_path.insert(0, Hidden())
import numpy as np
from wolfmeans import KMeans
X = np.arange(8.0).reshape(4, 2)
KMeans(2, random_state=0).fit(X)
try:
    KMeans(2, engine="gpu").fit(X)
except ImportError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert run.returncode == 0, run.stderr
    assert f"{missing} cannot be imported: pip install 'wolfmeans[gpu]'" in run.stdout


def test_importing_the_package_needs_neither():
    code = "import sys, wolfmeans; print({'torch', 'triton'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "set()", run.stderr


def test_more_than_int32_can_count_is_refused(X, monkeypatch):
    from wolfmeans.engines.gpu import clusters

    many = np.broadcast_to(np.zeros((1, 1), dtype=np.float32), (2**31, 1))
    with pytest.raises(ValueError, match=r"up to 2146435072 rows; got 2147483648: .* engine='cpu'"):
        get_engine("gpu").open(many, None, 1)
    monkeypatch.setattr(clusters, "_MOST_SUMS", 12)
    with pytest.raises(ValueError, match=r"2 clusters of 2 columns have more sums than"):
        get_engine("gpu").open(X, None, 1).assign(X[:2])


def test_other_makers_are_refused(monkeypatch):
    from wolfmeans.engines.gpu import engine

    monkeypatch.setattr(engine, "INTERPRETED", False)
    monkeypatch.setattr(torch.version, "hip", "6.0")
    with pytest.raises(OSError, match=r"made for NVIDIA GPUs: .* Take engine='cpu'"):
        engine.device()
