"""What the interpreter cannot show: tensor cores, 64-bit addresses, sizes that matter."""

import math

import numpy as np
import pytest

from interpreted import needs_triton
from tensor_cores import AMPERE, HOPPER, climb, error_bound, exact_dot, hurting_pairs, modelled_dot
from wolfmeans import KMeans
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import get_engine
from wolfmeans.engines.tensors import OnDevice

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

pytestmark = [
    needs_triton,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="needs an NVIDIA GPU: the interpreter has no tensor cores",
    ),
]


@triton.jit
def multiply(
    x, c, out, WIDTH: tl.constexpr, DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Multiply pairs of vectors with tensor cores, as the screen does: tiles of many, one by one.

    x, c  IN   (n, WIDTH) float16; n is a multiple of COLUMNS
    out   OUT  (n,) float32
    """
    begin = tl.program_id(0) * COLUMNS
    i = tl.arange(0, ROWS)
    k = tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    row = (begin + i % COLUMNS) * WIDTH
    column = (begin + k) * WIDTH
    if WIDTH == DEPTH:
        a = tl.load(x + row[:, None] + depth[None, :])
        b = tl.load(c + column[None, :] + depth[:, None])
        products = tl.dot(a, b)
    else:
        products = tl.zeros((ROWS, COLUMNS), tl.float32)
        for j in range(0, WIDTH, DEPTH):
            a = tl.load(x + row[:, None] + (j + depth)[None, :])
            b = tl.load(c + column[None, :] + (j + depth)[:, None])
            products = tl.dot(a, b, products)
    mine = tl.sum(tl.where(i[:, None] == k[None, :], products, 0.0), axis=1)
    tl.store(out + begin + i, mine, mask=i < COLUMNS)


SHAPES = {
    16: (16, 128, 32, 4),
    32: (32, 128, 32, 4),
    64: (64, 128, 64, 4),
    128: (128, 128, 64, 4),
    768: (64, 128, 128, 8),
}
"""Columns: depth of a product, rows and columns of a tile, warps; those of the screen."""


def dot_on_device(x, c):
    """Multiply (n, d) pairs of float16 vectors on the device."""
    n, d = x.shape
    depth, rows, columns, warps = SHAPES[d]
    pad = -n % columns
    sent = [torch.from_numpy(np.pad(v, ((0, pad), (0, 0)))).cuda() for v in (x, c)]
    out = torch.empty(n + pad, dtype=torch.float32, device="cuda")
    multiply[((n + pad) // columns,)](
        *sent, out, WIDTH=d, DEPTH=depth, ROWS=rows, COLUMNS=columns, num_warps=warps,
        num_stages=3, enable_fp_fusion=True,
    )  # fmt: skip
    return out[:n].cpu().numpy()


@pytest.fixture(scope="module")
def cores():
    """The model for this device."""
    return HOPPER if torch.cuda.get_device_capability()[0] >= 9 else AMPERE


@pytest.mark.parametrize("d", SHAPES)
def test_tensor_cores_are_no_worse_than_their_model(d, cores, record_property):
    rng = np.random.default_rng(d)
    count, steps = (2048, 150) if d < 768 else (256, 30)
    worst, unlike, total = 0.0, 0, 0
    for name, x, c in hurting_pairs(d, count, rng):
        x, c = x.astype(np.float16), c.astype(np.float16)
        found, exact = dot_on_device(x, c), exact_dot(x, c)
        bound = error_bound(x, c, cores)
        errors = np.abs(found.astype(np.float64) - exact)
        assert (errors <= bound).all(), (name, float((errors / bound).max()))
        unlike += int((found != modelled_dot(x, c, cores)).sum())
        total += count
        climbed = climb(dot_on_device, x, c, steps, rng, cores)
        assert climbed <= 1.0, (name, climbed)
        worst = max(worst, float((errors / bound).max()), climbed)
    # What the screen allows for, over what was seen: -2 x.c of a size |x||c| = 1.
    allowed = 2.0 * (d + 16) * 2.0**-23
    model = 2.0 * float(error_bound(np.eye(1, d), np.eye(1, d), cores)[0])
    margin = allowed / (model * worst)
    record_property("largest error in units of the model's bound", worst)
    record_property("margin of products_error over the largest error", margin)
    record_property("products that differ from the model", f"{unlike} of {total}")
    print(
        f"\nd = {d}: {worst:.3f} of the model's bound, {model / 2 / d * 2**25:.3f} d 2**-25; "
        f"margin {margin:.2f}; {unlike} of {total} products are not the model's"
    )
    assert margin > (3.0 if cores is HOPPER else 1.5)


@pytest.mark.parametrize("d", [3, 12])
@pytest.mark.parametrize("scale", [1e-40, 1e60])
def test_scales_beyond_float32_reach_the_kernels(d, scale):
    X = np.random.default_rng(d).normal(size=(5000, d)) * scale
    here, there = (
        KMeans(20, random_state=0, n_init=1, engine=engine, bound=None, max_iter=300).fit(X)
        for engine in ("cpu", "gpu")
    )
    assert np.array_equal(here.labels_, there.labels_)
    assert np.array_equal(here.cluster_centers_, there.cluster_centers_)
    assert (here.inertia_, here.n_iter_) == (there.inertia_, there.n_iter_)


def test_more_entries_than_32_bits_count():
    n, d, n_clusters, last = 2_200_000, 1024, 5, 3000
    assert n * d > 2**31
    free, _ = torch.cuda.mem_get_info()
    if free < 20 * 2**30:
        pytest.skip(f"needs 20 GiB on the GPU, which has {free / 2**30:.0f} free")
    torch.manual_seed(0)
    X = torch.randn(n, d, device="cuda")
    centers = X[-n_clusters:].cpu().numpy()
    workspace = get_engine("gpu").open(OnDevice(X), None, 1)
    found = workspace.assign(centers)
    assert found.moved == n
    assert found.weights.sum() == n
    labels = workspace.labels()
    # The last rows alone have the same labels, and all rows the means that PyTorch finds.
    end = X[-last:].cpu().numpy()
    here = get_engine("cpu").open(end, None, 1)
    expected = here.assign(centers)
    assert np.array_equal(labels[-last:], here.labels())
    assert np.array_equal(np.bincount(labels, minlength=n_clusters), found.weights)
    for k in range(n_clusters):
        mine = X[torch.from_numpy(labels == k).cuda()].mean(dim=0, dtype=torch.float64)
        np.testing.assert_allclose(found.means[k], mine.cpu().numpy(), rtol=0, atol=1e-6)
    assert np.array_equal(workspace.distances(centers)[-last:], here.distances(centers))
    assert np.array_equal(workspace.roots(centers[:1])[-last:], here.roots(centers[:1]))
    assert np.array_equal(workspace.rows(np.array([n - 1, 0])), X[[n - 1, 0]].cpu().numpy())
    assert expected.weights.sum() == last


def data(kind, n, d, dtype=np.float32):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    if kind == "blobs":
        centers = rng.uniform(-10.0, 10.0, size=(100, d))
        X = 2.0 * X + centers[rng.integers(0, 100, n)]
    return X.astype(dtype)


@pytest.mark.parametrize("kind", ["blobs", "gauss"])
@pytest.mark.parametrize(
    ("n", "d", "n_clusters", "dtype"),
    [
        (200_000, 2, 1000, "float32"),
        (200_000, 3, 100, "float64"),
        (200_000, 16, 300, "float32"),
        (100_000, 16, 100, "float64"),
        (200_000, 128, 200, "float32"),
        (50_000, 768, 200, "float32"),
    ],
)
def test_ten_steps_have_the_bits_of_the_cpu(kind, n, d, n_clusters, dtype):
    X = data(kind, n, d, dtype)
    limits = Limits(10, math.inf, keep_empty=True)
    runs = []
    for engine in ("cpu", "gpu", "gpu"):
        workspace = get_engine(engine).open(X, None, 16)
        start = workspace.assign(X[:n_clusters].copy())
        progress = workspace.advance(start.means, start.weights, math.inf, limits)
        runs.append((workspace.labels(), start, progress))
    (labels, start, progress), *others = runs
    for found_labels, found_start, found in others:
        assert np.array_equal(labels, found_labels)
        assert np.array_equal(start.means, found_start.means)
        assert np.array_equal(start.residuals, found_start.residuals)
        assert np.array_equal(progress.evaluations[:, :5], found.evaluations[:, :5])
        for one, other in zip(progress.vertex, found.vertex, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("d", [2, 16])
def test_whole_fits_of_tensors_that_stay_on_the_device(d):
    X = data("blobs", 100_000, d)
    here = KMeans(100, random_state=0, n_init=1, engine="cpu", bound=None).fit(X)
    for given in (torch.from_numpy(X).cuda(), torch.from_numpy(X).pin_memory()):
        there = KMeans(100, random_state=0, n_init=1, engine="gpu", bound=None).fit(given)
        assert there.labels_.device == given.device
        assert np.array_equal(there.labels_.cpu().numpy(), here.labels_)
        assert np.array_equal(there.cluster_centers_, here.cluster_centers_)
        assert (there.inertia_, there.n_iter_) == (here.inertia_, here.n_iter_)
        assert np.array_equal(there.trace_.gap, here.trace_.gap)
        assert there.predict(given).device == given.device


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@pytest.mark.parametrize("moment", ["beside", "between"])
def test_a_capture_that_is_interrupted_breaks_no_later_one(moment):
    from wolfmeans.engines.gpu.launching import Graph, Tape, beside, do, together

    def interrupt():
        raise KeyboardInterrupt

    def launches():
        if moment == "beside":
            beside(lambda: do(interrupt))
        else:
            beside(lambda: None)
            do(interrupt)
        together()

    with pytest.raises(KeyboardInterrupt):
        Graph([Tape(launches)])
    X = np.random.default_rng(0).normal(size=(5000, 16)).astype(np.float32)
    settings = {"init": X[:200], "max_iter": 30, "tol": 0.0, "stop": "stationary", "bound": None}
    ours, known = (KMeans(200, engine=engine, **settings).fit(X) for engine in ("gpu", "cpu"))
    assert np.array_equal(ours.cluster_centers_, known.cluster_centers_)
    assert np.array_equal(ours.labels_, known.labels_)
