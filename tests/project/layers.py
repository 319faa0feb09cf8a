"""`python tests/project/layers.py`: no import goes up the layers, and none goes in a circle.

Imports inside functions count. Those for type checkers alone do not.
"""

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "wolfmeans"
LAYERS = (
    ("exact",),
    ("core",),
    ("engines",),
    ("seeding",),
    ("bounds",),
    ("certificate",),
    ("files",),
    ("inputs",),
    ("fitting",),
    ("estimators",),
    ("views",),
    ("study", "bench"),
    ("commands",),
)
"""From the lowest to the highest; rooms of one layer do not know each other."""


def modules(package=PACKAGE):
    """Return the files of a package by the names of their modules."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports_of(tree):
    """Yield the dotted names that a module imports, whenever it does."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A relative import would hide its target: it counts as one of the highest layer.
            home = node.module if node.level == 0 else "wolfmeans.commands"
            yield from (f"{home}.{alias.name}" for alias in node.names)


def graph(package=PACKAGE):
    """Return which modules of the package each of them imports."""
    known = modules(package)
    edges = {}
    for name, path in known.items():
        targets = set()
        for target in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target and target != name:
                targets.add(target)
        edges[name] = targets
    return edges


def room(module):
    """Return the room of a module, "" for the package itself."""
    return (module + ".").split(".")[1]


def upward(edges):
    """Return the imports that go up, or to another room of the same layer."""
    rank = {name: place for place, names in enumerate(LAYERS) for name in names}
    found = []
    for module, targets in edges.items():
        for target in sorted(targets):
            here, there = room(module), room(target)
            if not here or not there or here == there:
                continue
            if rank[there] >= rank[here]:
                found.append(f"{module} imports {target}")
    return found


def circle(edges):
    """Return modules that import each other in a circle, an empty list if there are none.

    A package's `__init__` names what is inside; that modules inside import the package is a circle
    only where they need one of those names.
    """
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        path.append(module)
        for target in sorted(edges[module]):
            if target != "wolfmeans" and (found := visit(target)):
                return found
        path.pop()
        done.add(module)
        return []

    for module in edges:
        if found := visit(module):
            return found
    return []


def main():
    """Print what is wrong and return 1 if anything is."""
    edges = graph()
    faults = upward(edges)
    if ring := circle(edges):
        faults.append("in a circle: " + " -> ".join(ring))
    print("\n".join(faults) or f"{len(edges)} modules, no import against the layers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
