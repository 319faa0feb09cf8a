"""`make fuzz`: run all targets, each in its own process, for equal shares of the time.

    python tests/fuzz --seconds 60 [--seed 0] [--only NAME] [--sanitized KIND=FOLDER ...]
    python tests/fuzz --child NAME --seed S        repeat one round, with its traceback

A target that dies (a sanitizer, a signal, memory) or hangs is a finding, reported with the seed of
its round; the next round runs in a new process. The exit code is 1 if there are findings that are
not listed in known.py.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "support"))
PER_ROUND = 25
MOST_SECONDS_OF_A_ROUND = 60.0
FILES = (
    *("text tables", "NPY", "Parquet", "Arrow", "Zarr", "several files", "models", "checkpoints"),
)
VECTOR_UNITS = ("avx512", "avx2", "baseline")  # by the seed of a round
PRELOADED = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
}


# --- in a child --------------------------------------------------------------------------------


def _hypothesis_round(module, name, seed, faults):
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    tried = 0

    @seeded(seed)
    @settings(
        max_examples=PER_ROUND,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(module.TARGETS[name][0]())
    def one(value):
        nonlocal tried
        tried += 1
        try:
            module.attempt(name, value)
        except Exception as error:
            faults.append((f"{type(error).__name__}: {error}", repr(value)[:300]))

    one()
    return tried


def _round(target, seed, faults, say):
    if target.startswith("native"):
        import fuzz_native
        import numpy as np

        fuzz_native.note = say
        os.environ["WOLFMEANS_VECTOR_UNIT"] = VECTOR_UNITS[seed % len(VECTOR_UNITS)]
        for place, (name, attempt) in enumerate(fuzz_native.ATTEMPTS.items()):
            try:
                attempt(np.random.default_rng([seed, place]))
            except Exception as error:
                faults.append((f"{type(error).__name__}: {error}", f"{name}, seed {seed}"))
        return len(fuzz_native.ATTEMPTS)
    import fuzz_command
    import fuzz_files

    module = fuzz_command if target == "command" else fuzz_files
    return _hypothesis_round(module, target, seed, faults)


def child(target, seed, seconds, report, package):
    """Run rounds until the time is over; log each one before it begins and after it ends."""
    if package:
        sys.meta_path = [f for f in sys.meta_path if "wolfmeans" not in type(f).__module__]
        sys.path.insert(0, package)
        import wolfmeans.exact._native as native

        if not str(native.__file__).startswith(package):
            raise SystemExit(f"the module under test is {native.__file__}, not one in {package}")
    deadline = time.monotonic() + seconds
    with Path(report).open("ab", buffering=0) as file:

        def log(**facts):
            file.write(json.dumps(facts).encode() + b"\n")

        while time.monotonic() < deadline:
            faults = []
            log(begins=seed)
            tried = _round(target, seed, faults, lambda what: log(calls=what))
            log(ended=seed, tried=tried, faults=faults)
            seed += 1


# --- the parent --------------------------------------------------------------------------------


def _environment(kind, temporary):
    environment = os.environ | OPTIONS | {"TMPDIR": temporary, "RUST_BACKTRACE": "0"}
    if kind is not None:
        compiler = os.environ.get("CXX", "c++")
        libraries = [
            subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
            for name in PRELOADED[kind]
        ]
        environment["LD_PRELOAD"] = " ".join(libraries)
    return environment


def _last_message(error):
    """Return the message of a dead process: the line of a sanitizer, or the last line."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    marks = ("SUMMARY:", "runtime error:", "memory allocation", "panicked", "Fatal")
    return next((line for line in lines if any(m in line for m in marks)), (lines or [""])[-1])[
        :200
    ]


def run_target(target, seed, seconds, kind=None, package=None):
    """Run one target in child processes until its time is over; return (tried, findings)."""
    tried, findings = 0, Counter()
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="wolf-fuzz-") as temporary:
        report = Path(temporary) / "report"
        while (left := deadline - time.monotonic()) > 0:
            report.write_bytes(b"")
            command = [sys.executable, str(HERE), "--child", target, "--seed", str(seed)]
            command += ["--seconds", str(left), "--report", str(report)]
            command += ["--package", str(package)] if package else []
            if kind == "thread":
                # ThreadSanitizer does not work with randomized addresses everywhere.
                command = ["setarch", "-R", *command]
            limit, hung = left + MOST_SECONDS_OF_A_ROUND, False
            with tempfile.TemporaryFile("w+", errors="replace") as errors:
                process = subprocess.Popen(
                    command, env=_environment(kind, temporary), stdout=errors, stderr=errors
                )
                try:
                    process.wait(timeout=limit)
                except subprocess.TimeoutExpired:
                    hung = True
                    process.kill()
                    process.wait()
                errors.seek(0)
                output = errors.read()
            calls = ""
            for line in report.read_bytes().splitlines():
                facts = json.loads(line)
                seed = facts.get("begins", seed)
                calls = facts.get("calls", calls)
                tried += facts.get("tried", 0)
                for text, value in facts.get("faults", []):
                    findings[f"{text} [{value}]"] += 1
            if process.returncode or hung:
                what = "hangs" if hung else f"dies ({process.returncode}): {_last_message(output)}"
                findings[f"{what} [seed {seed}, {calls}]"] += 1
                if not report.read_bytes():
                    break  # it does not start at all
            seed += 1
    return tried, findings


def _shares(chosen):
    """Return the targets with the package they run on, and the seconds of each."""
    targets = [(name, None, None) for name in (*FILES, "command", "native")]
    targets += [(f"native, {kind}", kind, folder) for kind, folder in chosen.sanitized]
    if chosen.only:
        targets = [one for one in targets if one[0] == chosen.only]
    return targets, chosen.seconds / max(1, len(targets))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; else by time")
    parser.add_argument("--only", help="one target")
    parser.add_argument(
        "--sanitized", nargs="*", default=[], type=lambda text: tuple(text.split("=", 1))
    )
    for hidden in ("--child", "--report", "--package"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    seed = int(time.time()) % 10**9 if chosen.seed is None else chosen.seed
    if chosen.child:
        if chosen.report is None:
            faults = []
            _round(chosen.child, seed, faults, print)
            print(*faults, sep="\n")
            return bool(faults)
        try:
            child(chosen.child, seed, chosen.seconds, chosen.report, chosen.package)
        except BaseException:
            traceback.print_exc()
            raise
        return 0
    return _all(chosen, seed)


def _all(chosen, seed):
    import known

    targets, share = _shares(chosen)
    new = Counter()
    print(f"seed {seed}, {share:.1f} s for each of {len(targets)} targets")
    for name, kind, folder in targets:
        package = None if folder is None else Path(folder).resolve()
        tried, findings = run_target(name, seed, share, kind, package)
        fresh = Counter()
        old = 0
        for text, number in findings.items():
            if known.names(name, text):
                old += number
            else:
                fresh[re.sub(r"\d{3,}", "#", text.split(" [")[0])[:160]] += number
                new[f"{name}: {text}"] += number
        print(
            f"{name:>16}: {tried:7,} tried, {sum(fresh.values()):4} new, {old:4} known", flush=True
        )
        for text, number in fresh.most_common(8):
            print(f"{'':>18}{number} x {text}")
    for text in list(new)[:12]:
        print("example:", text[:500])
    return 1 if new else 0


if __name__ == "__main__":
    raise SystemExit(main())
