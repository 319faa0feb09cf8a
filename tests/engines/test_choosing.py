"""engine="auto": what it chooses with a GPU and without one, what it says, what it does not import.

The GPUs here are made up; only whether PyTorch could be asked is looked at.
"""

import html
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from interpreted import needs_triton
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.engines import Work, choose_engine, choosing
from wolfmeans.engines.choosing import AutoChoice, Costs, cpu_or_gpu
from wolfmeans.engines.native import CpuEngine
from wolfmeans.engines.tensors import OnDevice

GIB = 2**30
SMALL = Work(n_clusters=8, n_threads=2, passes=20, seeding=True)
LARGE = Work(n_clusters=1000, n_threads=2, passes=20, seeding=True)
NOTHING = Costs(*[0.0] * 7)


class Shaped:
    """Stands for an array of any size; nothing looks at its entries."""

    def __init__(self, n, d, itemsize=4):
        self.shape, self.nbytes = (n, d), n * d * itemsize
        self.dtype = np.dtype(f"f{itemsize}")


@pytest.fixture
def card(monkeypatch):
    """A machine with a GPU of 100 GiB, PyTorch imported and kernels loaded.

    Its speed is made up, too, so that tests do not depend on what was measured last.
    """
    cpu = Costs(once=1e-9, start=1e-3, seed=1e-5, candidate=5e-12, point=6e-9, coordinate=5e-10,
                multiplication=1e-11)  # fmt: skip
    gpu = Costs(once=1e-11, start=8e-3, seed=1e-4, candidate=1e-13, point=1.5e-10,
                coordinate=1e-12, multiplication=4e-15)  # fmt: skip
    monkeypatch.setattr(choosing, "CPU", cpu)
    monkeypatch.setattr(choosing, "CPU_FEW_COLUMNS", replace(cpu, multiplication=1e-12))
    monkeypatch.setattr(choosing, "GPU", gpu)
    monkeypatch.setattr(choosing, "COPY", 1e10)
    there = SimpleNamespace(free=100 * GIB, waking=0.0, woken=0)

    def free_memory():
        there.woken += 1
        return there.free

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(choosing, "driver", lambda: True)
    monkeypatch.setattr(choosing, "cuda_of_torch", lambda: "12.8")
    monkeypatch.setattr(choosing, "is_installed", lambda _: True)
    monkeypatch.setattr(choosing, "start_up", lambda: there.waking)
    monkeypatch.setattr(choosing, "free_memory", free_memory)
    return there


def test_much_work_goes_to_the_gpu_and_says_so(card):
    choice = cpu_or_gpu(Shaped(1_000_000, 128), LARGE)
    assert choice.gpu
    assert choice.note.startswith("engine='auto' chose the GPU: an estimated ")
    assert choice.note.endswith("s on the CPU; any engine gives the same bits")
    assert "started" not in choice.note


def test_little_work_stays_without_a_look_for_a_gpu(card, monkeypatch):
    monkeypatch.setattr(choosing, "gpu_seems_available", lambda: pytest.fail("looked"))
    assert cpu_or_gpu(Shaped(2000, 4), SMALL) == AutoChoice(gpu=False)


def test_what_is_done_before_pytorch_is_imported_stays(card):
    points = Shaped(200_000, 32)
    assert cpu_or_gpu(points, LARGE).gpu
    card.waking, card.woken = 1e6, 0
    choice = cpu_or_gpu(points, LARGE)
    assert not choice.gpu
    assert card.woken == 0, "PyTorch was imported to find out"
    assert "chose the CPU" in choice.note
    assert "1e+06 s of them until PyTorch and kernels have started" in choice.note


def test_start_up_is_paid_where_the_work_is_worth_it(card):
    card.waking = 4.0
    choice = cpu_or_gpu(Shaped(4_000_000, 128), LARGE)
    assert choice.gpu
    assert "(4 s of them until PyTorch and kernels have started)" in choice.note


def test_one_pass_is_less_than_a_fit_and_many_threads_are_more_than_two(card):
    points = Shaped(1_000_000, 16)
    passes = [Work(64, 2, passes=n) for n in (1, 20)]
    assert [cpu_or_gpu(points, work).gpu for work in passes] == [False, True]
    threads = [Work(64, n, passes=20) for n in (1, 2, 64)]
    assert [cpu_or_gpu(points, work).gpu for work in threads] == [True, True, False]


@pytest.mark.parametrize("d", [2, 16, 768])
def test_a_choice_for_the_gpu_stays_one_with_more_work(card, d):
    taken = [
        cpu_or_gpu(Shaped(n, d), Work(n_clusters, 4, passes=20)).gpu
        for n_clusters in (10, 1000)
        for n in (1000, 10_000, 100_000, 1_000_000, 10_000_000)
    ]
    for half in (taken[:5], taken[5:]):
        assert half == sorted(half)
    assert all(few <= many for few, many in zip(taken[:5], taken[5:], strict=True))


def test_data_beyond_the_memory_pays_its_way_in_every_pass(card):
    points = Shaped(4_000_000, 16)
    work = Work(64, 8, passes=20)
    assert cpu_or_gpu(points, work).gpu
    card.free = 2 * GIB // 10 + GIB
    assert choosing.device_bytes(4_000_000, 16, 4) < card.free
    assert cpu_or_gpu(points, work).gpu
    many = Shaped(40_000_000, 16)
    assert choosing.device_bytes(40_000_000, 16, 4) > card.free
    choice = cpu_or_gpu(many, work)
    assert not choice.gpu
    assert "into whose memory the data does not fit" in choice.note
    assert cpu_or_gpu(Shaped(40_000_000, 768), Work(10_000, 8, passes=20)).gpu


def test_a_gpu_that_others_have_filled_is_left_to_them(card):
    card.free = GIB // 2
    choice = cpu_or_gpu(Shaped(1_000_000, 128), LARGE)
    assert not choice.gpu
    assert "only 0.50 GiB of the GPU's memory are free" in choice.note


def test_a_gpu_that_pytorch_cannot_use_is_named(card):
    card.free = None
    choice = cpu_or_gpu(Shaped(1_000_000, 128), LARGE)
    assert not choice.gpu
    assert "PyTorch finds no GPU" in choice.note


def test_sparse_data_stays(card):
    choice = cpu_or_gpu(sparse.csr_array((1_000_000, 100)), LARGE)
    assert not choice.gpu
    assert "dense data only" in choice.note


# --- Is there a GPU? -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [("CUDA_VISIBLE_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "-1"), ("TRITON_INTERPRET", "1")],
)
def test_a_hidden_gpu_is_none(card, monkeypatch, name, value):
    assert choosing.gpu_seems_available()
    monkeypatch.setenv(name, value)
    assert not choosing.gpu_seems_available()
    assert cpu_or_gpu(Shaped(1_000_000, 128), LARGE) == AutoChoice(gpu=False)


@pytest.mark.parametrize(
    ("part", "lacking"),
    [
        ("driver", lambda: False),
        ("cuda_of_torch", lambda: None),
        ("is_installed", lambda name: name != "triton"),
    ],
)
def test_without_driver_pytorch_or_triton_nothing_is_said(card, monkeypatch, part, lacking):
    monkeypatch.setattr(choosing, part, lacking)
    assert cpu_or_gpu(Shaped(1_000_000, 128), LARGE) == AutoChoice(gpu=False)
    assert card.woken == 0


def test_builds_of_pytorch_are_told_apart_without_importing_it(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(choosing, "find_spec", lambda _: spec)
    assert choosing.cuda_of_torch() is None
    for line, cuda in [
        ("cuda: Optional[str] = '12.8'", "12.8"),
        ("cuda = '13.0'", "13.0"),
        ("cuda: Optional[str] = None", None),
        ("cudart = '1'", None),
    ]:
        (tmp_path / "version.py").write_text(f"debug = False\n{line}\nhip = None\n")
        assert choosing.cuda_of_torch() == cuda
    monkeypatch.setattr(choosing, "find_spec", lambda _: None)
    assert choosing.cuda_of_torch() is None
    assert not choosing.is_installed("torch")


def test_blocked_packages_are_missing_ones(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choosing.cuda_of_torch() is None
    assert not choosing.is_installed("torch")


def test_start_up_counts_what_was_not_done_before(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.delitem(sys.modules, "wolfmeans.engines.gpu", raising=False)
    first = choosing.IMPORT + choosing.CONTEXT
    assert choosing.start_up() == first + choosing.COMPILE_KERNELS
    assert not choosing.kernels_are_cached()
    (tmp_path / "kernel").touch()
    assert choosing.start_up() == first + choosing.LOAD_KERNELS
    awake = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", awake)
    assert choosing.start_up() == choosing.LOAD_KERNELS
    monkeypatch.setitem(sys.modules, "wolfmeans.engines.gpu", SimpleNamespace())
    assert choosing.start_up() == 0.0
    awake.cuda.is_initialized = lambda: False
    assert choosing.start_up() == choosing.CONTEXT


def test_a_broken_pytorch_is_no_gpu(monkeypatch):
    def broken(_):
        raise OSError("libcudart.so: cannot open shared object file")

    monkeypatch.setattr(choosing, "import_module", broken)
    assert choosing.free_memory() is None
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setattr(choosing, "import_module", lambda _: SimpleNamespace(cuda=cuda))
    assert choosing.free_memory() is None
    cuda.is_available, cuda.mem_get_info = (lambda: True), (lambda: (5, 70))
    cuda.memory_reserved, cuda.memory_allocated = (lambda: 30), (lambda: 20)
    assert choosing.free_memory() == 15, "what PyTorch keeps for later is as good as free"


# --- Estimators ------------------------------------------------------------------------------


@pytest.fixture
def eager(card, monkeypatch):
    """A GPU that takes everything, and works like the CPU."""

    class Elsewhere(CpuEngine):
        name = "gpu"

        def open(self, *arguments):
            opened.append("fit")
            return super().open(*arguments)

    opened: list[str] = []
    monkeypatch.setattr(choosing, "GPU", NOTHING)
    monkeypatch.setattr(choosing, "COPY", np.inf)
    monkeypatch.setattr(choosing, "_SHORT_WORK", 0.0)
    monkeypatch.setattr(choosing, "_gpu_engine", Elsewhere)
    return opened


X = np.random.default_rng(0).normal(size=(300, 3))


def test_the_certificate_and_verbose_fits_tell(eager, capsys):
    km = KMeans(n_clusters=3, random_state=0, verbose=1).fit(X)
    [note] = km.certificate_.notes
    assert note.startswith("engine='auto' chose the GPU")
    assert note in str(km.certificate_)
    assert note in html.unescape(km.certificate_._repr_html_())
    assert note in capsys.readouterr().out.splitlines()
    assert eager == ["fit"]
    km.predict(X), km.score(X)
    assert eager == ["fit"] * 3
    km.transform(X)
    assert eager == ["fit"] * 3, "distances to all centers would have to come back"


def test_trimmed_fits_tell_too(eager):
    trimmed = TrimmedKMeans(n_clusters=2, alpha=0.1, n_init=2, random_state=0).fit(X)
    assert any("chose the GPU" in note for note in trimmed.certificate_.notes)
    assert eager == ["fit"]


def test_an_engine_that_was_named_is_taken_without_a_word(eager):
    km = KMeans(n_clusters=3, engine="cpu", random_state=0).fit(X)
    assert km.certificate_.notes == ()
    assert eager == []


def test_a_search_stays_on_the_cpu(eager):
    KMeans(n_clusters=3, effort=0.01, random_state=0).fit(X)
    assert eager == []


def test_a_gpu_that_is_not_taken_is_mentioned(card, monkeypatch):
    monkeypatch.setattr(choosing, "_SHORT_WORK", 0.0)
    card.waking = 4.0
    km = KMeans(n_clusters=3, random_state=0).fit(X)
    [note] = km.certificate_.notes
    assert note.startswith("engine='auto' chose the CPU")


def test_tensors_on_the_gpu_stay_there_whatever_the_work(monkeypatch):
    monkeypatch.setattr(choosing, "_gpu_engine", lambda: "there")
    table = OnDevice.__new__(OnDevice)
    assert choose_engine("auto", table, SMALL).engine == "there"
    assert choose_engine("auto", table, None).engine == "there"


def test_the_work_of_a_fit_follows_its_parameters():
    rows = X[:3]
    for settings, passes, starts, seeding in [
        ({}, 20, 1, True),
        ({"max_iter": 5}, 5, 1, True),
        ({"max_iter": None, "n_init": 7}, 20, 7, True),
        ({"init": "random"}, 20, 10, False),
        ({"init": rows}, 20, 1, False),
        ({"init": lambda *_, **__: rows, "n_init": 2}, 20, 2, False),
    ]:
        work = KMeans(n_clusters=3, **settings)._work(2)
        assert (work.passes, work.starts, work.seeding) == (passes, starts, seeding)


@needs_triton
def test_auto_gives_the_bits_of_the_cpu_from_the_gpu(eager, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(choosing, "gpu_seems_available", lambda: True)
    monkeypatch.setattr(choosing, "_SHORT_WORK", 0.0)
    monkeypatch.setattr(choosing, "GPU", NOTHING)
    monkeypatch.setattr(choosing, "COPY", np.inf)
    monkeypatch.setattr(choosing, "start_up", lambda: 0.0)
    monkeypatch.setattr(choosing, "free_memory", lambda: 8 * GIB)
    settings = {"n_clusters": 3, "random_state": 0, "max_iter": 3, "tol": 0.1}
    there, here = (KMeans(engine=name, **settings).fit(X) for name in ("auto", "cpu"))
    assert (there.engine_, here.engine_) == ("gpu", "cpu")
    assert np.array_equal(there.labels_, here.labels_)
    assert np.array_equal(there.cluster_centers_, here.cluster_centers_)
    assert there.certificate_.gap == here.certificate_.gap


NOT_IMPORTED = """
import sys
import numpy as np
from wolfmeans import KMeans
from wolfmeans.engines import choosing
choosing.driver = lambda: True
choosing.cuda_of_torch = lambda: "12.8"
choosing._SHORT_WORK = 0.0
X = np.random.default_rng(0).normal(size=(20_000, 8))
km = KMeans(n_clusters=4, random_state=0).fit(X)
km.predict(X)
print([name for name in ("torch", "triton") if name in sys.modules], km.certificate_.notes)
"""


def test_a_small_fit_does_not_import_pytorch():
    done = subprocess.run(
        [sys.executable, "-c", NOT_IMPORTED],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("[]"), done.stdout


def test_the_command_says_in_one_line_what_the_gpu_engine_lacks(tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(50)))
    command = [sys.executable, "-m", "wolfmeans.commands.cli", "fit", "data.csv", "-k", "2"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [*command, "--quiet", "--engine", "gpu"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("wolfmeans: engine='gpu' ")
