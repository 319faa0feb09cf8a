"""Run the tests of the native module against a build with sanitizers (`make sanitize`).

Usage: python tests/run_sanitized.py FOLDER, where FOLDER holds the package `wolfmeans` with the
instrumented module. An editable install would come first otherwise, so its finder is taken out.
"""

import sys
from pathlib import Path

import pytest

TESTS = (
    "test_boxes.py",
    "test_native_exact.py",
    "test_native_points.py",
    "test_sparse_native.py",
    "test_engines.py",
    "test_kmeans_problem.py",
    "test_seeding.py",
    "test_neighbours.py",
    "test_one_dimensional.py",
    "test_polish.py",
    "test_prices.py",
    "test_trimmed.py",
)


def main() -> int:
    folder = str(Path(sys.argv[1]).resolve())
    sys.meta_path = [f for f in sys.meta_path if "wolfmeans" not in type(f).__module__]
    sys.path.insert(0, folder)
    import wolfmeans.exact._native as native

    if not str(native.__file__).startswith(folder):
        raise SystemExit(f"the module under test is {native.__file__}, not one in {folder}")
    here = Path(__file__).parent
    return pytest.main(["-q", "-p", "no:cacheprovider", *(str(here / name) for name in TESTS)])


if __name__ == "__main__":
    raise SystemExit(main())
