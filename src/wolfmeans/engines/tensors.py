"""PyTorch tensors as input: those on the CPU become NumPy arrays, those on a GPU stay there.

PyTorch is never imported here: a caller that has a tensor has imported it.
"""

from __future__ import annotations

import math
import sys
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import sampling_step


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def to_numpy(tensor: Any) -> NDArray[Any]:
    """Return a tensor on the CPU as the array it is; half precision becomes float32."""
    tensor = _without_halves(tensor.detach())
    array: NDArray[Any] = tensor.resolve_conj().resolve_neg().numpy()
    return array


def _without_halves(tensor: Any) -> Any:
    """Return a tensor of half precision in single precision, others as they are."""
    torch = sys.modules["torch"]
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def on_host(values: Any) -> Any:
    """Return tensors and tables on any device as arrays, and everything else as it is."""
    if isinstance(values, OnDevice):
        return np.asarray(values)
    return to_numpy(values.cpu()) if is_tensor(values) else values


def as_given(values: Any, given: Any) -> Any:
    """Return values as a tensor on the device of what was given, if that is a tensor."""
    if not is_tensor(given):
        return np.asarray(values)
    if isinstance(values, DeviceLabels):
        return values.tensor.to(given.device)
    return sys.modules["torch"].from_numpy(values).to(given.device)


class DeviceLabels:
    """Labels on a GPU; `numpy.asarray` copies them to the host."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.int32]:
        host: NDArray[np.int32] = self.tensor.cpu().numpy()
        return host if dtype is None else host.astype(dtype, copy=False)


class OnDevice:
    """A table of float32 or float64 on a GPU, with the interface of a NumPy array.

    The GPU engine takes the tensor; `numpy.asarray` copies it to the host.
    """

    ndim = 2

    def __init__(self, tensor: Any) -> None:
        # Kernels run on the current device.
        self.tensor = (tensor.to("cuda") if tensor.is_cuda else tensor).contiguous()
        self.shape: tuple[int, int] = tuple(tensor.shape)
        torch = sys.modules["torch"]
        self.dtype = np.dtype(np.float32 if tensor.dtype == torch.float32 else np.float64)
        # A look that is being taken, what comes along with it, and the same when it is here.
        self._look: Any = None
        self._beside: Any = None
        self._here: Any = None

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[np.floating]:
        chosen: NDArray[np.floating] = self.tensor[key].cpu().numpy()
        return chosen

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.floating]:
        host: NDArray[np.floating] = self.tensor.cpu().numpy()
        return host if dtype is None else host.astype(dtype, copy=False)

    def astype(self, dtype: Any) -> OnDevice:
        """Return the same numbers in another precision."""
        wide = np.dtype(dtype) == np.float64
        return OnDevice(self.tensor.double() if wide else self.tensor.float())

    def scaled(self, exponent: int) -> OnDevice:
        """Return 2**exponent times the numbers, in float64."""
        half = exponent // 2  # in two steps, for 2**exponent alone may be beyond float64
        wide = self.tensor.double() * 2.0**half
        return OnDevice(wide * 2.0 ** (exponent - half))

    @property
    def sample(self) -> NDArray[np.floating]:
        """Some rows, evenly spaced, on the host."""
        return self._looked_at[1]

    @property
    def range(self) -> tuple[bool, float, float]:
        """Whether all are finite, the smallest nonzero magnitude and the largest."""
        smallest, largest = self._looked_at[0]
        if not math.isfinite(largest):
            return False, 0.0, math.inf
        return True, smallest, largest

    def look(self, beside: Any = None) -> None:
        """Let the device look at the numbers, without waiting for what it finds.

        Another tensor may be given that will be asked for on the host (`brought`). What was looked
        at is known.
        """
        if "_looked_at" in vars(self):
            return
        try:
            from wolfmeans.engines.gpu.measuring import Measurement
        except ImportError:  # the engine will say what is missing
            return
        self._beside = beside if is_tensor(beside) else None
        self._look = Measurement(self.tensor, self._beside)

    @cached_property
    def _looked_at(self) -> tuple[tuple[float, float], NDArray[np.floating]]:
        if self._look is None:
            self.look()
        if self._look is None:
            host = np.abs(np.asarray(self))
            largest = float(host.max())
            smallest = float(host.min(where=host > 0, initial=largest))
            return (smallest, largest), self[:: sampling_step(len(self))]
        sizes, sample, self._here = self._look.found()
        self._look = None
        return sizes, sample

    def brought(self, tensor: Any) -> NDArray[Any]:
        """Return a tensor as an array on the host, where it may have come with the look."""
        here: NDArray[Any] | None = self._here if self._beside is tensor else None
        return to_numpy(tensor.cpu()) if here is None else here


def from_tensor(tensor: Any) -> Any:
    """Return a tensor on a GPU as a table there, any other one as a NumPy array."""
    if tensor.device.type != "cuda":
        return to_numpy(tensor.cpu())
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if tensor.ndim != 2 or 0 in tensor.shape or tensor.is_complex():
        # scikit-learn's words for whatever is wrong with it.
        return to_numpy(tensor.cpu())
    tensor = _without_halves(tensor)
    if tensor.dtype not in (torch.float32, torch.float64):
        if tensor.dtype == torch.uint64 or (
            tensor.dtype == torch.int64 and int(tensor.abs().max()) > 2**53
        ):
            return tensor.cpu().numpy()
        tensor = tensor.double()
    return OnDevice(tensor)
