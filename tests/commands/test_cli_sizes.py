"""`wolfmeans fit --size-min --size-max`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import wolfmeans
from wolfmeans import ConstrainedKMeans

pytest.importorskip("typer")

from wolfmeans.commands import cli


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of 90 rows in three uneven groups."""
    monkeypatch.chdir(tmp_path)
    X = (
        np.random.default_rng(0).normal(size=(90, 2))
        + np.repeat([0.0, 5.0, 9.0], [60, 20, 10])[:, None]
    )
    np.savetxt("points.csv", X, delimiter=",", header="x,y", comments="")
    return np.loadtxt("points.csv", delimiter=",", skiprows=1)


def test_sizes_are_within_the_limits(table, capsys):
    line = ["fit", "points.csv", "-k", "3", "--size-min", "25", "--size-max", "35"]
    assert cli.main([*line, "--json", "--model", "model.wolf"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert min(facts["cluster_sizes"]) >= 25
    assert max(facts["cluster_sizes"]) <= 35
    assert (facts["size_min"], facts["size_max"]) == (25.0, 35.0)
    km = ConstrainedKMeans(3, size_min=25, size_max=35, random_state=0).fit(table)
    assert facts["inertia"] == km.inertia_
    model, _ = wolfmeans.storage.load_prepared("model.wolf")
    assert np.array_equal(model.labels_, km.labels_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size-max", "20"], "size_max leaves no room: 20 + 20 + 20 = 60, but there are 90"),
        (["--size-min", "5", "--alpha", "0.1"], "--alpha cannot be combined with --size-min"),
        (["--size-min", "5", "--memory", "1GB"], "--memory cannot be combined"),
        (["--size-min", "5", "--page", "page.html"], "--page cannot be combined"),
        (["--size-min", "5", "--engine", "gpu"], "--engine gpu cannot be combined"),
    ],
)
def test_what_cannot_be(table, capsys, options, message):
    assert cli.main(["fit", "points.csv", "-k", "3", *options]) == 2
    assert message in capsys.readouterr().err
