"""The engine for a name and some data; for "auto" the one with the lowest estimated time.

Results are identical, so only time matters. PyTorch is not imported to decide: a driver must be
present, and the GPU must be faster even with the time for importing PyTorch.
"""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scipy import sparse
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from wolfmeans.core.choices import ENGINES
from wolfmeans.core.notices import warn
from wolfmeans.core.workspace import Engine
from wolfmeans.engines.native import CpuEngine
from wolfmeans.engines.reference import ReferenceEngine
from wolfmeans.engines.tensors import OnDevice
from wolfmeans.exact.native import native_is_available

_warned = False
_MOST_THREADS = 1024
STEPS = 20
"""Of a fit, as far as one can say beforehand; `max_iter` may be less."""


@dataclass(frozen=True)
class Work:
    """What is asked of an engine: starts, each of them seeds and then passes over all points."""

    n_clusters: int
    n_threads: int
    passes: int
    """In which every point looks for its nearest center."""
    starts: int = 1
    seeding: bool = False
    """Whether seeds are chosen by greedy k-means++, one after the other."""

    @property
    def readings(self) -> int:
        """How often all points are read: in every pass, and for every seed."""
        return self.starts * (self.passes + (self.n_clusters if self.seeding else 0))

    @property
    def candidates(self) -> int:
        """Number of candidates that a start tries for its seeds."""
        trials = 2 + int(math.log(self.n_clusters))
        return self.n_clusters * trials if self.seeding else 0


@dataclass(frozen=True)
class Costs:
    """What one engine needs, in seconds. benchmarks/engine_choice.py measures such figures.

    With n points, d columns and K clusters a fit costs n d once, and each of its starts
    start + K seed + n d candidate for each candidate, and for each pass
    n (point + d (coordinate + K multiplication)). Threads share what is multiplied by n.
    """

    once: float
    """For each coordinate: looking at the data, copies and trees of it."""
    start: float
    """Python, the certificate, threads or kernels that are set going."""
    seed: float
    """Choosing a seed, whatever the number of points: one round follows the other."""
    candidate: float
    """A coordinate's part in the distance from a point to a candidate for a seed."""
    point: float
    """In each pass: label and bounds."""
    coordinate: float
    """In each pass: reading the data, sums of clusters."""
    multiplication: float
    """In each pass: a point's coordinate times a center's, for distances. Most of them are saved by
    bounds or boxes, which makes this less than a multiplication takes."""

    def seconds(self, n: int, d: int, work: Work, threads: int) -> float:
        """Return what the work costs, data in its place."""
        of_pass = self.point + d * (self.coordinate + work.n_clusters * self.multiplication)
        of_point = d * work.candidates * self.candidate + work.passes * of_pass
        seeds = self.seed * work.n_clusters if work.seeding else 0.0
        once = n * d * self.once / threads
        return once + work.starts * (self.start + seeds + n * of_point / threads)


# Measured by benchmarks/engine_choice.py on a machine with an H200 and 16 cores, all of them used.
# Of 152 times there, 131 were estimated within a factor of 1.5, and all within 3.
CPU = Costs(
    once=1.8e-08,
    start=0.0041,
    seed=0.00014,
    candidate=1.1e-10,
    point=1.2e-07,
    coordinate=4.7e-10,
    multiplication=6.1e-11,
)
"""Per thread, for more than FEW_COLUMNS."""
CPU_FEW_COLUMNS = Costs(
    once=1.4e-07,
    start=0.0055,
    seed=0.0,
    candidate=7.4e-10,
    point=2.2e-07,
    coordinate=0.0,
    multiplication=6.9e-12,
)
"""Per thread, where boxes of a tree take the place of most points."""
GPU = Costs(
    once=9.6e-11,
    start=0.0061,
    seed=5.9e-05,
    candidate=0.0,
    point=6.2e-10,
    coordinate=1.1e-12,
    multiplication=1.3e-13,
)
COPY = 6.7e9
"""Bytes a second from NumPy's memory to the GPU."""
IMPORT = 3.6
"""Seconds to import PyTorch."""
CONTEXT = 0.16
"""Seconds until the GPU answers for the first time."""
LOAD_KERNELS = 1.1
"""Seconds that the first fit of a process takes longer, kernels from Triton's cache on disk."""
COMPILE_KERNELS = 23.0
"""The same with an empty cache."""

FEW_COLUMNS = 4
# The costs were measured on one machine, so the GPU must be clearly faster.
_CLEARLY = 2.0
# For such short work no GPU is searched, and no note is written.
_SHORT_WORK = 0.01
_SAME = "any engine gives the same bits"
# With less free memory the GPU is in use by another process.
_LEAST_MEMORY = 1 << 30


@dataclass(frozen=True)
class AutoChoice:
    """What `auto` chose for data on the host."""

    gpu: bool
    note: str | None = None
    """What to say about it; None on machines without a GPU, and for short work."""


def cpu_or_gpu(X: Any, work: Work) -> AutoChoice:
    """Choose the engine with the shorter estimated time for an array or a sparse matrix."""
    n, d = X.shape
    costs = CPU_FEW_COLUMNS if d <= FEW_COLUMNS else CPU
    on_cpu = costs.seconds(n, d, work, work.n_threads)
    if on_cpu < _SHORT_WORK or not gpu_seems_available():
        return AutoChoice(gpu=False)
    if sparse.issparse(X):
        return _cpu("the gpu engine takes dense data only")
    copied = X.nbytes / COPY
    on_gpu = GPU.seconds(n, d, work, threads=1) + copied
    startup = start_up()
    if _CLEARLY * (on_gpu + startup) >= on_cpu:
        return _cpu(_slower(on_cpu, on_gpu, startup))
    free = free_memory()
    if free is None:
        return _cpu("PyTorch finds no GPU that it can use")
    if free < _LEAST_MEMORY:
        return _cpu(f"only {free / 2**30:.2f} GiB of the GPU's memory are free")
    if device_bytes(n, d, X.dtype.itemsize) > free:
        # What does not fit passes through the GPU again in every pass.
        on_gpu += (work.readings - 1) * copied
        if _CLEARLY * on_gpu >= on_cpu:
            return _cpu(f"{_slower(on_cpu, on_gpu, 0.0)}, into whose memory the data does not fit")
    estimate = f"an estimated {_in_words(on_gpu, startup)} there, {on_cpu:.2g} s on the CPU"
    return AutoChoice(True, f"engine='auto' chose the GPU: {estimate}; {_SAME}")


def device_bytes(n: int, d: int, itemsize: int) -> int:
    """Return about how many bytes n points take on the GPU: rows, short copies, lists, bounds."""
    return n * (d * (itemsize + 2) + 72)


def gpu_seems_available() -> bool:
    """Whether there seem to be an NVIDIA GPU and what drives it, without importing anything."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
    if hidden or os.environ.get("TRITON_INTERPRET") == "1" or not driver():
        return False
    return cuda_of_torch() is not None and is_installed("triton")


def is_installed(name: str) -> bool:
    """Whether a package could be imported; it is not."""
    return sys.modules.get(name) is not None or _spec(name) is not None


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):  # an import hook forbids it
        return None


def cuda_of_torch() -> str | None:
    """Return the version of CUDA that PyTorch was built for; None for CPU builds and without it.

    Where PyTorch is not imported its file of versions is read.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        version: str | None = torch.version.cuda
        return version
    found = _spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    line = re.search(r"^cuda\b.*= *'([^']+)'", text, flags=re.MULTILINE)
    return None if line is None else line[1]


def driver() -> bool:
    """Whether an NVIDIA driver is there."""
    if sys.platform == "win32":
        return Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32/nvcuda.dll").exists()
    # The second one is Linux under Windows.
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def start_up() -> float:
    """Return the seconds until kernels run, by what this process has done already."""
    torch = sys.modules.get("torch")
    seconds = IMPORT if torch is None else 0.0
    if torch is None or not torch.cuda.is_initialized():
        seconds += CONTEXT
    if "wolfmeans.engines.gpu" not in sys.modules:
        seconds += LOAD_KERNELS if kernels_are_cached() else COMPILE_KERNELS
    return seconds


def kernels_are_cached() -> bool:
    """Whether Triton has compiled anything on this machine before."""
    given = os.environ.get("TRITON_CACHE_DIR")
    try:
        home = Path(os.environ.get("TRITON_HOME") or Path.home())
        return any(Path(given or home / ".triton" / "cache").iterdir())
    except (OSError, RuntimeError):  # no such folder, or not even a home
        return False


def free_memory() -> int | None:
    """Return the bytes of the GPU that a fit can have, None without a GPU. Imports PyTorch."""
    try:
        cuda = import_module("torch").cuda
        import_module("triton")
        if not cuda.is_available():
            return None
        # What PyTorch keeps for later is as good as free.
        kept = cuda.memory_reserved() - cuda.memory_allocated()
        return int(cuda.mem_get_info()[0] + kept)
    # Broken installations and drivers may raise anything; "auto" must not fail because of them.
    except Exception:
        return None


def _cpu(reason: str) -> AutoChoice:
    return AutoChoice(False, f"engine='auto' chose the CPU: {reason}; {_SAME}")


def _slower(on_cpu: float, on_gpu: float, startup: float) -> str:
    return f"an estimated {on_cpu:.2g} s there, {_in_words(on_gpu, startup)} on the GPU"


def _in_words(seconds: float, startup: float) -> str:
    starting = f" ({startup:.2g} s of them until PyTorch and kernels have started)"
    return f"{seconds + startup:.2g} s{starting if startup else ''}"


@dataclass(frozen=True)
class Chosen:
    """An engine, and notes on why it was chosen."""

    engine: Engine
    notes: tuple[str, ...] = ()


def choose_engine(name: str, X: Any, work: Work | None) -> Chosen:
    """Return the engine of that name, for `auto` the one that does the work on X soonest.

    Tensors on a GPU stay there. Data on the host goes there if the
    estimated time is shorter; if the amount of work is unknown, it stays.
    """
    if name != "auto" or isinstance(X, OnDevice) or work is None:
        return Chosen(get_engine(name, X))
    choice = cpu_or_gpu(X, work)
    notes = () if choice.note is None else (choice.note,)
    return Chosen(_gpu_engine() if choice.gpu else get_engine(), notes)


def get_engine(name: str = "auto", X: Any = None) -> Engine:
    """Return the engine of that name; `auto` is the fastest one where the data X is."""
    if name == "reference":
        return ReferenceEngine()
    if name == "cpu":
        return CpuEngine()
    if name == "gpu":
        return _gpu_engine()
    if name != "auto":
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}; got {name!r}")
    if isinstance(X, OnDevice):
        return _gpu_engine()
    return CpuEngine() if native_is_available() else _without_native()


def _gpu_engine() -> Engine:
    """Return the engine on the GPU, or say what it lacks."""
    try:
        gpu = import_module("wolfmeans.engines.gpu")
    except ImportError as error:
        missing = error.name if error.name in ("torch", "triton") else "torch and triton"
        raise ImportError(
            f"engine='gpu' needs PyTorch and Triton; {missing} cannot be imported: "
            "pip install 'wolfmeans[gpu]'"
        ) from error
    engine: Engine = gpu.GpuEngine()
    return engine


def _without_native() -> Engine:
    global _warned
    if not _warned:
        _warned = True
        warn(
            "wolfmeans' native module is missing, so the slow reference engine is used; results "
            "are the same. Install a wheel, or install from source with a C++ compiler present.",
            RuntimeWarning,
        )
    return ReferenceEngine()


def effective_threads(n_threads: int | None) -> int:
    """Return the number of threads to use: the caller's, or as many as scikit-learn would.

    That is the cores this process may run on, fewer where OMP_NUM_THREADS, threadpoolctl or a
    surrounding joblib worker say so. Beyond some number a process ends where it starts one more.
    """
    return min(int(_openmp_effective_n_threads(n_threads)), max(_MOST_THREADS, _cores()))


@cache
def _cores() -> int:
    """Return how many cores the machine has; to ask for it takes longer than the rest."""
    return os.cpu_count() or 1
