"""Settings shared by all tests."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# Before any file can import Triton, which reads it once; where there is a driver, PyTorch is asked
# whether it can use it (interpreted.py).
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
