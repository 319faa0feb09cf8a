"""The package as a whole: what importing it needs, and life without the native module."""

import ast
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import wolfmeans
from wolfmeans.files import datasets

ROOT = Path(__file__).parents[2]


def run(code):
    """Run code in a fresh interpreter and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WITHOUT_NATIVE = """
import sys
sys.modules["wolfmeans.exact._native"] = None
import warnings
import numpy as np
import wolfmeans
X = np.random.default_rng(0).normal(size=(50, 2))
"""


OTHERS = ("pandas", "polars", "pyarrow", "matplotlib", "dask", "torch", "typer", "rich")


BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OTHERS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def test_importing_and_fitting_need_nothing_but_numpy_scipy_and_scikit_learn():
    fits = (
        "import numpy as np, wolfmeans, wolfmeans.files.datasets\n"
        "X = wolfmeans.datasets.load_banknotes().data\n"
        "print(wolfmeans.KMeans(2, random_state=0).fit(X).certificate_)"
    )
    assert run(BLOCKED + fits).startswith("Certificate")


def test_without_matplotlib_a_figure_says_what_to_install():
    printed = run(
        BLOCKED
        + """
import wolfmeans
try:
    wolfmeans.KMeans(1).fit([[1.0], [2.0]]).trace_.plot()
except ImportError as error:
    print(error)
"""
    )
    assert "pip install matplotlib" in printed


def test_importing_loads_nothing_that_scikit_learn_does_not_load():
    listing = f"print(*[name for name in {OTHERS!r} if name in sys.modules])"
    # scikit-learn itself loads pandas where it finds it.
    theirs = run("import sys, sklearn.cluster\n" + listing).split()
    ours = run("import sys, wolfmeans\n" + listing).split()
    assert set(ours) <= set(theirs)
    assert "matplotlib" not in ours


def test_names_are_imported_when_they_are_asked_for():
    listing = "print(*[n for n in ('numpy', 'scipy', 'sklearn') if n in sys.modules])"
    assert run("import sys, wolfmeans, wolfmeans.commands.cli\ndir(wolfmeans)\n" + listing) == ""
    assert set(wolfmeans.__all__) <= set(dir(wolfmeans))
    assert run("from wolfmeans import *\nprint(KMeans.__name__, callable(scan))") == "KMeans True"
    with pytest.raises(AttributeError, match="no attribute 'KMedians'"):
        wolfmeans.KMedians  # noqa: B018
    assert run("import wolfmeans\nprint(wolfmeans.storage.load is wolfmeans.load)") == "True"
    assert run("import wolfmeans\nprint(hasattr(wolfmeans, '__wrapped__'))") == "False"


def test_public_names_are_found_where_type_checkers_find_them():
    source = (ROOT / "src/wolfmeans/__init__.py").read_text()
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    homes = {
        alias.name: node.module.removeprefix("wolfmeans.")
        for node in imports
        if node.module and node.module.startswith("wolfmeans.") and node.module != "wolfmeans.core"
        for alias in node.names
        # Public modules are imported there, too.
        if not (ROOT / "src" / node.module.replace(".", "/") / alias.name).is_dir()
        and alias.name not in wolfmeans._MODULES
    }
    assert homes == wolfmeans._HOMES
    assert sorted(homes) == wolfmeans.__all__


@pytest.mark.long
@pytest.mark.parametrize(
    "before",
    [
        "import wolfmeans",
        "import wolfmeans.estimators.scan, wolfmeans.estimators.scan_result",
        "import wolfmeans.commands.scan",
        "from wolfmeans import KMeans, cli; cli.application()",
        "import wolfmeans; wolfmeans.scan",
    ],
)
def test_scan_is_the_function_whatever_was_imported_before(before):
    check = "import wolfmeans\nfrom wolfmeans import scan\nprint(scan is wolfmeans.scan, "
    assert run(f"{before}\n{check}type(scan).__name__)") == "True function"


def test_choices_are_those_there_are():
    from wolfmeans import bounds
    from wolfmeans.core import choices
    from wolfmeans.files import tables
    from wolfmeans.seeding import methods
    from wolfmeans.study import mixtures

    assert tuple(bounds.REGISTRY) == choices.BOUNDS
    assert ("multilevel", *methods.METHODS) == choices.SEEDINGS
    assert tuple(methods.TRIMMED_METHODS) == choices.TRIMMED_SEEDINGS
    assert tuple(mixtures.MIXTURES) == choices.MIXTURES
    kinds = {*tables.SUFFIXES.values(), *tables.ONLY_READ.values()}
    assert kinds == set(choices.FORMATS)


def test_importing_and_fitting_print_and_warn_nothing():
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import numpy as np, wolfmeans\n"
            "X = np.random.default_rng(0).normal(size=(50, 2))\n"
            "wolfmeans.KMeans(3, random_state=0).fit(X)",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == done.stderr == ""


def test_without_the_native_module_the_reference_engine_says_so_once():
    printed = run(
        WITHOUT_NATIVE
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for seed in range(3):
        model = wolfmeans.KMeans(3, random_state=seed).fit(X)
        model.predict(X)
print(model.engine_, len(caught), caught[0].category.__name__, "native" in str(caught[0].message))
"""
    )
    assert printed == "reference 1 RuntimeWarning True"


def test_without_the_native_module_the_results_are_the_same():
    code = """
print(wolfmeans.KMeans(3, random_state=0, engine=ENGINE).fit(X).cluster_centers_.tobytes().hex())
"""
    without = run(WITHOUT_NATIVE + code.replace("ENGINE", "'reference'"))
    rng = np.random.default_rng(0)
    model = wolfmeans.KMeans(3, random_state=0, engine="cpu").fit(rng.normal(size=(50, 2)))
    assert model.cluster_centers_.tobytes().hex() == without


def test_asking_for_the_reference_engine_says_nothing_about_the_native_module():
    printed = run(
        WITHOUT_NATIVE
        + """
warnings.simplefilter("error")
print(wolfmeans.KMeans(3, random_state=0, engine="reference").fit(X).engine_)
"""
    )
    assert printed == "reference"


def test_without_the_native_module_the_cpu_engine_is_a_clear_import_error():
    printed = run(
        WITHOUT_NATIVE
        + """
try:
    wolfmeans.KMeans(3, engine="cpu").fit(X)
except ImportError as error:
    print(error)
"""
    )
    assert "engine='cpu'" in printed
    assert "native module" in printed
    assert "reference" in printed


def test_public_names_exist_and_are_documented():
    assert sorted(wolfmeans.__all__) == wolfmeans.__all__
    for name in wolfmeans.__all__:
        assert inspect.getdoc(getattr(wolfmeans, name)), name


@pytest.mark.parametrize("name", wolfmeans.__all__)
def test_public_methods_are_documented(name):
    thing = getattr(wolfmeans, name)
    if not inspect.isclass(thing):
        return
    for method, value in vars(thing).items():
        if inspect.isfunction(value) and not method.startswith("_"):
            assert value.__doc__, f"{name}.{method}"


def test_every_parameter_of_kmeans_is_documented():
    documentation = wolfmeans.KMeans.__doc__
    missing = [p for p in wolfmeans.KMeans().get_params() if f"\n    {p} : " not in documentation]
    assert missing == []


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert wolfmeans.__version__ == project["version"]


def required(project, extra):
    """Yield what an extra asks for, the extras that it names among them."""
    for line in project["optional-dependencies"][extra]:
        requirement = Requirement(line)
        if requirement.name == project["name"]:
            for other in requirement.extras:
                yield from required(project, other)
        else:
            yield requirement


def pinned(name):
    """Return {name: versions} of a lock file, where every line must have a version and hashes."""
    found = {}
    text = (ROOT / "requirements" / name).read_text()
    assert "://" not in text, "where packages come from is for each machine to say"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for entry in "\n".join(lines).replace("\\\n", "").splitlines():
        requirement, *hashes = entry.split("--hash=sha256:")
        requirement = Requirement(requirement)
        [pin] = requirement.specifier
        assert pin.operator == "==", entry
        assert hashes, entry
        found.setdefault(canonicalize_name(requirement.name), []).append(pin.version)
    return found


def test_the_lock_files_are_in_step_with_the_project():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    lines = [*settings["build-system"]["requires"], *project["dependencies"]]
    lines += (ROOT / "requirements/ci.in").read_text().splitlines()
    asked = [Requirement(line) for line in lines if not line.startswith("#")]
    for extra in ("test", "docs", "dask", "stream", "gpu"):
        asked += required(project, extra)
    locked = pinned("ci.txt") | pinned("torch.txt")
    for requirement in asked:
        versions = locked.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement} is in no lock file: make lock"
        for version in versions:
            assert version in requirement.specifier, (
                f"{requirement} is locked as {version}: make lock"
            )


@pytest.mark.parametrize(
    ("load", "shape", "classes"),
    [(datasets.load_segmentation, (2310, 14), 7), (datasets.load_banknotes, (200, 6), 2)],
)
def test_bundled_data_is_complete(load, shape, classes):
    data = load()
    assert data.data.shape == shape
    assert np.isfinite(data.data).all()
    assert len(data.feature_names) == len(set(data.feature_names)) == shape[1]
    names, counts = np.unique(data.target, return_counts=True)
    assert len(names) == classes
    assert (counts == shape[0] // classes).all()
    z = data.standardized()
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis=0), 1.0)


def test_bundled_data_is_read_anew_each_time():
    first = datasets.load_banknotes()
    first.data[:] = 0.0
    assert datasets.load_banknotes().data.any()
