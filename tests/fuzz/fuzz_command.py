"""The command line: any arguments, any files; a documented exit code, and no traceback.

Commands run in this process, in a folder of their own, with stand-ins for standard streams. No
file may appear but those that an option names, and none outside the folder.
"""

import contextlib
import io
import os
import sys
import warnings

from fuzz_files import Finding, arrays, columnar, folder, models, texts
from hypothesis import strategies as st
from mutations import damaged

from wolfmeans.commands import cli

CODES = {0, 1, 2}
"""Fine; not converged; wrong usage or input (docs/command-line.md). Nothing here is interrupted."""

_OUTPUTS = ("--labels", "--with-data", "--centers", "--model", "--certificate", "--page", "--csv")
_OPTIONS = {
    "fit": "--memory --memory --alpha --bound --columns --drop-missing --effort --empty "
    "--engine --exclude --format --init --json --max-iter --n-init --polish --quiet "
    "--require-converged --seed --standardize --stop --threads --time-limit --tol --trim --weights",
    "predict": "--memory --memory --columns --drop-missing --format --quiet --threads",
    "certify": "--columns --drop-missing --exclude --format --json --label-column --method "
    "--outlier --quiet --seed --standardize --threads --weights",
    "scan": "--alpha --bound --columns --drop-missing --exclude --format --json --n-init "
    "--plot --quiet --seed --standardize --threads --weights",
    "info": "--json",
}
_FLAGS = {"--drop-missing", "--json", "--quiet", "--require-converged", "--standardize", "--plot"}
_VALUES = (
    *("0", "1", "2", "3", "-1", "0.5", "1e-3", "nan", "inf", "1e999", "", " ", "a", "b", "a,b"),
    *("2:4", "2:", ":", "4:2", "1:3:1", "auto", "all", "none", "csv", "npy", "parquet", "cpu"),
    *("reference", "gpu", "plain-k-means++", "random", "k-means||", "keep", "best", "admissible"),
    *("decrease", "stationary", "shift", "swap", "hartigan", "spectral", "neighbours", "prices"),
    *("no such", "\u0661", "\udcff", "<b>", "[red]", "%s", "{}", "--", "-h", "\x00", "9" * 400),
)
_SIZES = ("100MB", "1GB", "20MB", "1e9", "0", "1", "2GiB", "-1GB", "GB", "nan")
_FILES = ("x.csv", "x.npy", "x.parquet", "m.wolf", "x*", "nothing.csv", ".", "-", "", "[x].csv")


@st.composite
def commands(draw):
    """(arguments, {name: content}, standard input)."""
    files = {
        "x.csv": draw(damaged(texts())),
        "x.npy": draw(damaged(arrays())) if draw(st.booleans()) else arrays()[0],
        "x.parquet": columnar("parquet")[0],
        "m.wolf": models()[0] if draw(st.integers(0, 3)) else draw(damaged(models())),
    }
    if draw(st.integers(0, 2)):
        files["x.csv"] = draw(st.sampled_from(texts()))
    name = draw(st.sampled_from(["fit"] * 5 + ["predict", "certify", "scan", "scan", "info"]))
    known = _OPTIONS[name].split()
    arguments = [name]
    if name != "info":
        arguments.append(draw(st.sampled_from(_FILES[:3] * 4 + _FILES)))
    if name == "predict" or draw(st.integers(0, 9)) == 0:
        arguments.append(draw(st.sampled_from(["m.wolf", "m.wolf", *_FILES])))
    if name in ("fit", "scan") and draw(st.integers(0, 9)):
        arguments += ["-k", draw(st.sampled_from(["1", "2", "2", "3", "12", "2:4", "0", "99"]))]
    for _ in range(draw(st.integers(0, 4))):
        option = draw(st.sampled_from(known))
        arguments.append(option)
        if option not in _FLAGS or draw(st.integers(0, 9)) == 0:
            values = _SIZES if option == "--memory" else _VALUES
            arguments.append(draw(st.sampled_from(values)))
    if draw(st.integers(0, 2)) == 0:
        target = draw(st.sampled_from(["out", "out.csv", "out.npy", "out.html", "", ".", "no/out"]))
        arguments += [draw(st.sampled_from(_OUTPUTS)), target]
    if draw(st.integers(0, 9)) == 0:
        arguments.insert(draw(st.integers(0, len(arguments))), draw(st.sampled_from(_VALUES)))
    # A fit may be asked to take its time.
    if "--effort" in arguments and name == "fit":
        arguments += ["--effort", "0.05"]
    stdin = draw(st.sampled_from([b"", *texts()]))
    return arguments, files, stdin


class _Stream(io.TextIOWrapper):
    """What a pipe looks like."""

    def __init__(self, content=b""):
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


@contextlib.contextmanager
def _inside(place, stdin):
    before, streams = os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)  # noqa: PTH109
    os.chdir(place)
    sys.stdin, sys.stdout, sys.stderr = _Stream(stdin), _Stream(), _Stream()
    try:
        yield sys.stdout, sys.stderr
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        os.chdir(before)


def run(arguments, files, stdin=b""):
    """Run one command; raise a Finding where it does what no command may do."""
    with folder() as outer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = outer / "inside"
        place.mkdir()
        for name, content in files.items():
            (place / name).write_bytes(content)
        with _inside(place, stdin) as (out, err):
            try:
                code = cli.main(arguments)
            except SystemExit as ending:
                code = ending.code
            said = out.buffer.getvalue() + err.buffer.getvalue()
            errors = err.buffer.getvalue().decode(errors="replace")
        if code not in CODES:
            raise Finding(f"exit code {code}")
        if b"Traceback" in said or b"internal error" in said:
            raise Finding(f"a traceback: {said[-600:]!r}")
        if code == 2 and not errors.startswith("wolfmeans: "):
            raise Finding(f"a refusal without a sentence: {errors[:200]!r}")
        for name, content in files.items():
            if name not in arguments[2:] and (place / name).read_bytes() != content:
                raise Finding(f"{name} was changed")
        if [path.name for path in outer.iterdir()] != ["inside"]:
            raise Finding("a file appeared outside")
        for path in place.iterdir():
            if path.name not in files and path.name not in arguments:
                raise Finding(f"{path.name!r} appeared, which no option names")


TARGETS = {"command": (commands, run)}


def attempt(name, value):
    """Try one value of a target."""
    run(*value)
