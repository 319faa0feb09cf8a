"""`python tests/digests`: results have the bits that they had.

    python tests/digests [--only WORD]          compare with digests.json
    python tests/digests --gpu [--only WORD]    the GPU engine, with the digests of the CPU engine
    python tests/digests --write                record them anew, after a change that is wanted

The exit code is 1 when a result differs.
"""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from digest_problems import Value, all_problems, digest, gpu_problems  # noqa: E402

RECORDED = HERE / "digests.json"


def found_by(run):
    """Run a problem; return its digests by name, numbers for what is compared as one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = run()
    return {
        name: result.number if isinstance(result, Value) else digest(result)
        for name, result in results.items()
    }


def differing(recorded, found):
    """Return the names of the results that differ."""
    names = sorted(recorded.keys() | found.keys())
    return [name for name in names if not _same(recorded.get(name), found.get(name))]


def _same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return one == other


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="problems with this word")
    parser.add_argument("--gpu", action="store_true", help="on the GPU engine")
    parser.add_argument("--write", action="store_true", help="record the digests anew")
    options = parser.parse_args()
    problems = gpu_problems() if options.gpu else all_problems()
    chosen = {name: run for name, run in problems.items() if options.only in name}
    recorded = {} if options.write else json.loads(RECORDED.read_text(encoding="utf-8"))
    results, wrong = {}, 0
    for name, run in chosen.items():
        results[name] = found_by(run)
        differs = [] if options.write else differing(recorded.get(name, {}), results[name])
        if differs:
            wrong += 1
            print(f"{name}: {', '.join(differs)}", flush=True)
    if options.write:
        RECORDED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    else:
        print(f"{len(results)} problems, {wrong} with other results")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
