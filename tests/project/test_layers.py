"""The layers hold, and what checks them sees a fault."""

import layers
import pytest


def package(folder, **texts):
    """Make a package `wolfmeans` of modules whose names are written with two underscores."""
    root = folder / "wolfmeans"
    for name, text in texts.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return layers.graph(root)


def test_no_import_goes_up_and_none_in_a_circle():
    edges = layers.graph()
    assert len(edges) > 100
    assert layers.upward(edges) == []
    # So every module can be imported first, whatever was imported before.
    assert layers.circle(edges) == []


@pytest.mark.parametrize(
    "text",
    [
        "from wolfmeans.views.page import page\n",
        "import wolfmeans.views.page\n",
        "def late():\n    from wolfmeans.views import page\n",
    ],
)
def test_an_import_that_goes_up_is_seen(tmp_path, text):
    edges = package(tmp_path, views__page="page = 1\n", core__loop=text)
    assert layers.upward(edges) == ["wolfmeans.core.loop imports wolfmeans.views.page"]


def test_rooms_of_one_layer_do_not_know_each_other(tmp_path):
    text = "from wolfmeans.bench import race\n"
    edges = package(tmp_path, bench__race="", study__runs=text)
    assert layers.upward(edges) == ["wolfmeans.study.runs imports wolfmeans.bench.race"]


def test_imports_for_type_checkers_do_not_count(tmp_path):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import wolfmeans.views.page\n"
    edges = package(tmp_path, views__page="", core__loop=text)
    assert layers.upward(edges) == []


def test_a_circle_is_seen(tmp_path):
    lazy = "def late():\n    from wolfmeans.core.a import x\n"
    edges = package(tmp_path, core__a="import wolfmeans.core.b\n", core__b=lazy)
    assert layers.circle(edges) == ["wolfmeans.core.a", "wolfmeans.core.b", "wolfmeans.core.a"]
    assert layers.upward(edges) == []
