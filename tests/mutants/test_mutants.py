"""The table of mutants fits the code: `python tests/mutants` runs them, this only reads."""

import ast
from functools import cache

import pytest
from mutant_table import NATIVE_MUTANTS, PYTHON_MUTANTS, ROOT

MUTANTS = [*PYTHON_MUTANTS, *NATIVE_MUTANTS]


@cache
def names_in(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_names_tests_that_exist(mutant):
    changed = mutant.text()
    assert mutant.before != mutant.after
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert name in names_in(file)


def test_names_tell_mutants_apart():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert all(mutant.why for mutant in MUTANTS)
