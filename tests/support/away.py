"""Tensors that behave like those on a GPU where there is none: nothing reads them by accident."""

import torch


class _Device:
    """What a tensor that is away says of its place."""

    type = "cuda"

    def __str__(self):
        return "cuda:0"


class Away(torch.Tensor):
    """A tensor on the CPU that claims to be on a GPU.

    `contiguous`, with which the engine takes it, and `cpu` give the tensor that it is: where
    kernels are interpreted, the CPU is the device.
    """

    device = property(lambda self: _Device())

    def __array__(self, *args, **kwargs):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )

    def numpy(self, *args, **kwargs):
        self.__array__()

    def cpu(self):
        return self.as_subclass(torch.Tensor)

    def contiguous(self):
        return self.cpu().contiguous()


def place(monkeypatch):
    """Return what puts an array or a tensor on a GPU, a real one or a pretended one."""
    if torch.cuda.is_available():
        return lambda X: torch.as_tensor(X).to("cuda")
    to = torch.Tensor.to

    def sent(self, *args, **kwargs):
        if args and isinstance(args[0], _Device):
            return self.as_subclass(Away)
        return to(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", sent)
    return lambda X: torch.as_tensor(X).as_subclass(Away)
