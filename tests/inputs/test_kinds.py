"""Kinds of data are told apart by one function; a fit of an array runs no code of the others."""

import sys

import numpy as np
import pytest
from scipy import sparse

from wolfmeans import KMeans
from wolfmeans.inputs.kinds import DataKind, kind_of_data
from wolfmeans.inputs.opening import open_source

X = np.random.default_rng(0).normal(size=(20, 2))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (X, DataKind.MEMORY),
        (X.tolist(), DataKind.MEMORY),
        (sparse.csr_array(X), DataKind.MEMORY),
        (None, DataKind.MEMORY),
        ({"a": X}, DataKind.MEMORY),
        ("x.npy", DataKind.CHUNKS),
        (["x.npy", "y.npy"], DataKind.CHUNKS),
        ([X, X], DataKind.CHUNKS),
        (open_source(X), DataKind.CHUNKS),
        (lambda: iter([X]), DataKind.CHUNKS),
        (iter([X]), DataKind.CHUNKS),
    ],
    ids=range(11),
)
def test_kinds_of_data(data, kind):
    assert kind_of_data(data) is kind_of_data(data, limited=True) is kind


def test_a_mapped_array_is_read_in_chunks_only_within_a_memory_limit(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert kind_of_data(mapped) is DataKind.MEMORY
    assert kind_of_data(mapped, limited=True) is DataKind.CHUNKS


def test_a_dask_collection_is_one():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    import pandas as pd

    for data in (da.from_array(X), dd.from_pandas(pd.DataFrame(X), npartitions=2)):
        assert kind_of_data(data) is kind_of_data(data, limited=True) is DataKind.DASK


def test_a_fit_of_an_array_runs_no_code_for_other_kinds():
    files = set()
    sys.setprofile(lambda frame, event, of: files.add(frame.f_code.co_filename))
    try:
        KMeans(2, random_state=0).fit(X)
    finally:
        sys.setprofile(None)
    assert any(file.endswith("kinds.py") for file in files)
    assert not any(file.endswith(("streams.py", "dask_collections.py")) for file in files)
