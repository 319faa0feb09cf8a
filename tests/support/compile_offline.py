"""Compile kernels for a GPU that is not here: reads launches as JSON lines, writes what came out.

Run as a process of its own, without TRITON_INTERPRET: Triton decides for good when it defines a
kernel whether it is compiled or interpreted.
"""

import json
import re
import sys
from importlib import import_module

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

HOPPER = GPUTarget("cuda", 90, 32)


class NoDevice:
    """As much of a driver as it takes to compile."""

    def get_current_target(self):
        return HOPPER

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def described(value):
    """Return what to compile for: the dtype of a tensor, other values as they are."""
    return getattr(torch, value["tensor"]) if isinstance(value, dict) else value


def compiled(launch):
    kernel = getattr(import_module(launch["module"]), launch["kernel"])
    arguments = [described(value) for value in launch["arguments"]]
    named = {name: described(value) for name, value in launch["named"].items()}
    return kernel.warmup(*arguments, grid=(1,), **named).asm["ptx"]


def main():
    driver.set_active(NoDevice())
    for line in sys.stdin:
        launch = json.loads(line)
        answer = {"kernel": launch["kernel"], "error": None}
        try:
            ptx = compiled(launch)
            answer["fused"] = sorted(set(re.findall(r"fma\.rn[.\w]*?\.(f32|f64)", ptx)))
            answer["matrices"] = "mma" in ptx
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
