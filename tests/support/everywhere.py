"""Where a fit can take place: on an engine, on blocks of a Dask array, or streamed in chunks."""

import importlib.util
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from scipy import sparse

from instances import ENGINES
from wolfmeans.inputs import streams
from wolfmeans.inputs.memory_budget import Budget

DASK = importlib.util.find_spec("dask") is not None
IN_PARTS = ("blocks", "stream") if DASK else ("stream",)
PLACES = (*ENGINES, *IN_PARTS)
ALL_POINTS = ("k-means++", "plain-k-means++", "random")
"""Seeds that need all points in one place; data in parts has k-means|| instead."""


EVERYWHERE = (*PLACES, "sparse", "gpu")
"""All places: those above, CSR rows that store all entries, and the GPU or its interpreter."""


def with_all_entries(X):
    """Return CSR rows in which zeros are stored, too: distances to these have the dense bits."""
    n, d = X.shape
    columns = np.tile(np.arange(d, dtype=np.int32), n)
    return sparse.csr_array((X.ravel(), columns, np.arange(0, n * d + 1, d)), shape=(n, d))


@contextmanager
def streaming(rows):
    """Stream whatever is given with a limit of memory, in chunks of so many rows."""

    class FewRows(Budget):
        def rows_to_load(self, *args, **more):
            return None

        def rows_per_chunk(self, *args, **more):
            return rows

    with patch.object(streams, "Budget", FewRows):
        yield


def fit_at(place, model, X, weights=None, rows=5):
    """Fit a model at a place, data in parts of so many rows; its labels are an array then."""
    if place == "stream":
        model.set_params(memory_limit="1GB", engine="auto")
        with streaming(rows):
            model.fit(
                [X[begin : begin + 2 * rows] for begin in range(0, len(X), 2 * rows)],
                sample_weight=weights,
            )
        assert any("chunks" in note for note in model.certificate_.notes)
        model.set_params(memory_limit=None)
    elif place == "blocks":
        import dask
        import dask.array as da

        model.set_params(engine="auto")
        heavy = None if weights is None else da.from_array(weights, chunks=(rows,))
        with dask.config.set(scheduler="synchronous"):
            model.fit(da.from_array(X, chunks=(rows, -1)), sample_weight=heavy)
            model.labels_ = np.asarray(model.labels_)
    elif place == "sparse":
        model.set_params(engine="auto").fit(with_all_entries(X), sample_weight=weights)
    else:
        model.set_params(engine=place).fit(X, sample_weight=weights)
    return model
