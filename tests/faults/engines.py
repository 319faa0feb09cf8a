"""Where the fault tests run: the engines, short fits, and what is left out unless asked for."""

import pytest

from instances import ENGINES
from interpreted import needs_triton
from wolfmeans import KMeans

ALL_ENGINES = (*ENGINES, pytest.param("gpu", marks=needs_triton))
"""With the gpu engine, which takes a second a fit where its kernels are interpreted."""


def small(engine, k=3, **more):
    """A fit that is short even where kernels are interpreted."""
    return KMeans(k, engine=engine, random_state=0, bound=None, **more)
