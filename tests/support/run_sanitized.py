"""Run the tests of the native module against a build with sanitizers (`make sanitize`).

Usage: python tests/support/run_sanitized.py FOLDER, where FOLDER holds the package `wolfmeans` with
the instrumented module. An editable install would come first otherwise, so its finder is taken out.
"""

import sys
from pathlib import Path

import pytest

TESTS = (
    "engines/test_boxes.py",
    "exact/test_native_sums.py",
    "engines/test_native.py",
    "engines/test_sparse.py",
    "engines/test_engines.py",
    "core/test_kmeans.py",
    "seeding/test_seeding.py",
    "bounds/test_neighbours.py",
    "bounds/test_one_dimensional.py",
    "fitting/test_polish.py",
    "bounds/test_prices.py",
    "estimators/test_trimmed.py",
)


def main() -> int:
    folder = str(Path(sys.argv[1]).resolve())
    sys.meta_path = [f for f in sys.meta_path if "wolfmeans" not in type(f).__module__]
    sys.path.insert(0, folder)
    import wolfmeans.exact._native as native

    if not str(native.__file__).startswith(folder):
        raise SystemExit(f"the module under test is {native.__file__}, not one in {folder}")
    here = Path(__file__).parents[1]
    return pytest.main(["-q", "-p", "no:cacheprovider", *(str(here / name) for name in TESTS)])


if __name__ == "__main__":
    raise SystemExit(main())
