"""Results have the bits that were recorded (`python tests/digests`)."""

import importlib.util
import json
from pathlib import Path

import pytest

_place = Path(__file__).with_name("__main__.py")
_spec = importlib.util.spec_from_file_location("recorded_digests", _place)
digests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(digests)
PROBLEMS = digests.all_problems()
GROUPS = ("cpu", pytest.param("reference", marks=pytest.mark.long), "other")


def group_of(name):
    prefix = name.partition(":")[0]
    return prefix if prefix in ("cpu", "reference") else "other"


@pytest.mark.parametrize("group", GROUPS)
def test_results_have_the_bits_that_were_recorded(group):
    recorded = json.loads(digests.RECORDED.read_text(encoding="utf-8"))
    assert recorded.keys() == PROBLEMS.keys()
    differing = {}
    for name, run in PROBLEMS.items():
        if group_of(name) == group:
            found = digests.differing(recorded[name], digests.found_by(run))
            if found:
                differing[name] = found
    assert not differing


def test_another_result_is_seen():
    found = {"labels": "a", "bound": 1.0}
    assert digests.differing({"labels": "b", "bound": 1.0}, found) == ["labels"]
    assert digests.differing({"labels": "a", "bound": 1.0 + 1e-8}, found) == ["bound"]
    assert digests.differing({"labels": "a", "bound": 1.0 + 1e-12}, found) == []
    assert digests.differing({"labels": "a"}, found) == ["bound"]
