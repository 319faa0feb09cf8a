"""The way through the package stays short: files of one fit, and classes that hold points."""

import ast
import sys
from pathlib import Path

import layers
import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans
from wolfmeans.exact.native import native_is_available

MOST_FILES = 15
MOST_CLASSES = 6
PACKAGE = Path(wolfmeans.__file__).parent


def files_touched(call):
    """Return the files of the package whose functions run during a call."""
    touched = set()

    def watch(frame, event, _):
        if event == "call":
            touched.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(
        Path(name).relative_to(PACKAGE).as_posix()
        for name in touched
        if Path(name).is_relative_to(PACKAGE)
    )


def workspaces_and_parts(package=layers.PACKAGE):
    """Return the classes that label points: `assign`, `labels` and `fork`, own or inherited.

    Protocols do not count. Nor do oracles, which pass questions on to the points that they hold
    (`__getattr__`).
    """
    bases, methods = {}, {}
    for path in layers.modules(package).values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).partition("[")[0] for base in node.bases]
                own = (part for part in node.body if isinstance(part, ast.FunctionDef))
                methods[node.name] = {part.name for part in own}

    def all_methods(name):
        own = methods.get(name, set())
        return own.union(*(all_methods(base) for base in bases.get(name, ())))

    return sorted(
        name
        for name in bases
        if {"assign", "labels", "fork"} <= all_methods(name)
        and "__getattr__" not in all_methods(name)
        and "Protocol" not in bases[name]
    )


@pytest.mark.skipif(not native_is_available(), reason="counts the files of the native engine")
def test_a_fit_of_an_array_touches_few_files():
    X = np.random.default_rng(0).normal(size=(150, 4))
    # The first fit also fills caches.
    KMeans(3, random_state=0).fit(X)
    model = KMeans(3, random_state=0)
    files = files_touched(lambda: model.fit(X))
    assert "core/frank_wolfe.py" in files
    assert len(files) <= MOST_FILES, files


def test_few_classes_are_workspaces_or_parts():
    found = workspaces_and_parts()
    assert {"ReferencePoints", "PartsWorkspace", "MemoryPart"} <= set(found)
    assert len(found) <= MOST_CLASSES, found


def test_a_further_workspace_is_seen(tmp_path):
    package = tmp_path / "wolfmeans"
    (package / "engines").mkdir(parents=True)
    (package / "engines" / "points.py").write_text(
        "class Workspace(Protocol):\n"
        "    def assign(self): ...\n    def labels(self): ...\n    def fork(self): ...\n"
        "class Points:\n"
        "    def assign(self): ...\n    def labels(self): ...\n    def fork(self): ...\n"
        "class Faster(Points):\n    def assign(self): ...\n"
        "class Oracle(Points):\n    def __getattr__(self, name): ...\n"
        "class Trimmer:\n    def assign(self): ...\n    def labels(self): ...\n"
    )
    assert workspaces_and_parts(package) == ["Faster", "Points"]
