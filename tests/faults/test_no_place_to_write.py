"""No place to write to, and an install that is read-only."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

import pytest
from broken import fails_when
from processes import environment, python

import wolfmeans

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


WITHOUT_WRITING = """
import os, sys
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink",
    "os.truncate", "shutil.copyfile", "tempfile.mkstemp", "tempfile.mkdtemp", "sqlite3.connect"}
tried = []
def refuse(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
    if (writes and arguments[0] != os.devnull) or event in _CHANGES:
        tried.append((event, arguments[0]))
        raise PermissionError(13, "nothing can be written here", str(arguments[0]))
sys.addaudithook(refuse)
"""

USED = """
import warnings
import numpy as np
from scipy import sparse
import wolfmeans
from samples import cloud
from wolfmeans import KMeans, TrimmedKMeans, lower_bound
warnings.simplefilter("ignore")
X = cloud(60, 3)
for engine in ("cpu", "reference"):
    model = KMeans(4, random_state=0, engine=engine).fit(X)
    assert model.predict(X).tolist() == model.labels_.tolist()
    KMeans(4, random_state=0, engine=engine).fit(sparse.csr_array(X))
TrimmedKMeans(3, n_init=2, random_state=0).fit(X)
KMeans(4, random_state=0, polish="swap").fit(X).certify(X, method="spectral")
lower_bound(X, 4, method="neighbours")
wolfmeans.scan(X, [2, 3], random_state=0)
str(model.certificate_), model._repr_html_()
"""


def _without_privileges():
    """Give up what lets root write where permissions do not (CAP_DAC_OVERRIDE)."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def _read_only(folder):
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def _writable(folder):
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755)


@linux
@fails_when("a_cache_is_written")
def test_no_write_access_anywhere(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    _read_only(home)
    places = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    env = environment(PYTHONDONTWRITEBYTECODE="1", **dict.fromkeys(places, str(home)))
    said = python(
        WITHOUT_WRITING + USED + "print(tried)",
        cwd=home,
        env=env,
        preexec_fn=_without_privileges,
    )
    assert said.split() == ["[]"]
    assert list(home.iterdir()) == []


@pytest.mark.long
@linux
@fails_when("something_is_written_beside_the_package")
def test_an_install_that_is_read_only(tmp_path):
    home = tmp_path / "site"
    ours = Path(wolfmeans.__file__).parent
    native = Path(sys.modules["wolfmeans.exact._native"].__file__)
    shutil.copytree(ours, home / "wolfmeans", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(native, home / "wolfmeans" / "exact")
    before = sorted(str(path) for path in home.rglob("*"))
    _read_only(home)
    try:
        # An editable install has a finder of its own, which would come first.
        first = (
            "import sys\n"
            "sys.meta_path = [f for f in sys.meta_path if 'wolfmeans' not in type(f).__module__]\n"
            f"sys.path.insert(0, {str(home)!r})\n"
            "import broken; broken.enter_from_environment()\n"
        )
        said = python(
            first + USED + "print(wolfmeans.__file__)",
            preexec_fn=_without_privileges,
            prelude="",
        )
    finally:
        _writable(home)
    assert said.strip() == str(home / "wolfmeans" / "__init__.py")
    assert sorted(str(path) for path in home.rglob("*")) == before
