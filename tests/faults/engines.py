"""Where the fault tests run: the engines, and what is left out unless asked for."""

import os

import pytest

from instances import ENGINES
from interpreted import needs_triton

ALL_ENGINES = (*ENGINES, pytest.param("gpu", marks=needs_triton))
"""With the gpu engine, which takes a second a fit where its kernels are interpreted."""

slow = pytest.mark.skipif(
    os.environ.get("WOLFMEANS_SLOW_TESTS") != "1", reason="takes long: WOLFMEANS_SLOW_TESTS=1"
)
