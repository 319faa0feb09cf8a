"""Renew the lock files of continuous integration (`make lock`): ci.txt and torch.txt.

Versions are the newest that go together, for the oldest Python that is supported; hashes are those
of all files of a version, so that any platform can be served. PyTorch is the exception: its build
for CPUs, for Linux on x86-64 and one Python. `make venv LOCKED=1` installs them.

No address is written: where packages come from is for each machine to say.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HEADER = "# Made by requirements/lock.py (make lock) from {}. Do not edit.\n"
TORCH = "torch==2.13.0"


def compiled() -> str:
    """Return everything but PyTorch, pinned, with hashes."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    command = [uv, "pip", "compile", "--quiet", "--upgrade", "--generate-hashes", "--universal"]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    command += ["--python-version", "3.11", "--extra", "test", "--extra", "docs"]
    command += ["--allow-unsafe", "pyproject.toml", "requirements/ci.in"]
    done = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def torch() -> str:
    """Return PyTorch, pinned to the wheel that pip takes here: a build for CPUs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", folder, TORCH], check=True)
        [wheel] = Path(folder).iterdir()
        version = wheel.name.split("-")[1]
        if not version.endswith("+cpu"):
            raise SystemExit(f"{wheel.name} is no build for CPUs; give pip an index that has one")
        digest = hashlib.file_digest(wheel.open("rb"), "sha256").hexdigest()
    return f"torch=={version} \\\n    --hash=sha256:{digest}\n"


def main() -> None:
    """Write both files, unless one would hold an address."""
    made = {"ci.txt": (compiled(), "pyproject.toml and ci.in"), "torch.txt": (torch(), TORCH)}
    for name, (text, source) in made.items():
        if "://" in text or "--index" in text:
            raise SystemExit(f"{name} would hold an address")
        (HERE / name).write_text(HEADER.format(source) + text, encoding="utf-8")


if __name__ == "__main__":
    main()
