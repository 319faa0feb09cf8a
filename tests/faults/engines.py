"""The engines that the fault tests run on."""

import pytest

from instances import ENGINES
from interpreted import needs_triton

ALL_ENGINES = (*ENGINES, pytest.param("gpu", marks=needs_triton))
"""With the gpu engine, which takes a second a fit where its kernels are interpreted."""
