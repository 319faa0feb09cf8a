"""Models in files: what is written can be read again, and what could not is not written."""

import numpy as np
import pandas as pd
import pytest
from broken import fails_when
from samples import bits, blobs

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans

ESTIMATORS = {
    "KMeans": lambda **more: KMeans(3, random_state=0, **more),
    "TrimmedKMeans": lambda **more: TrimmedKMeans(3, trim=2, random_state=0, **more),
}
CHANGES = {
    "another K": lambda model: model.set_params(n_clusters=7),
    "a setting that is none": lambda model: model.set_params(tol=-1.0),
    "centers that are none": lambda model: model.cluster_centers_.fill(np.nan),
    "fewer centers": lambda model: setattr(model, "cluster_centers_", model.cluster_centers_[:2]),
}


@fails_when("models_are_written_unseen", estimator="KMeans", change="another K")
@fails_when("models_are_written_unseen", estimator="TrimmedKMeans", change="fewer centers")
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_could_not_be_loaded_is_not_saved(estimator, change, tmp_path):
    X, _ = blobs()
    model = ESTIMATORS[estimator]().fit(X)
    model.save(tmp_path / "model.wolf")
    before = (tmp_path / "model.wolf").read_bytes()
    CHANGES[change](model)
    with pytest.raises(ValueError, match=r"n_clusters|tol|cluster_centers_"):
        model.save(tmp_path / "model.wolf")
    # What was there before is there still, and nothing else.
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]
    assert wolfmeans.load(tmp_path / "model.wolf").n_clusters == 3


@fails_when("runs_remember", estimator="KMeans")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_model_with_odd_names_and_numbers_comes_back_whole(estimator, tmp_path):
    X = blobs()[0] * 1e-100
    frame = pd.DataFrame(X, columns=["line\nend \x00 \u2028", "\u202e<&\"'\U0001f43a"])
    model = ESTIMATORS[estimator](init=frame[::20], max_iter=None).fit(frame)
    model.save(tmp_path / "model.wolf")
    again = wolfmeans.load(tmp_path / "model.wolf")
    assert bits(again) == bits(model)
    assert again.feature_names_in_.tolist() == frame.columns.tolist()
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    assert bits(again.set_params(init=frame[::20]).fit(frame)) == bits(model)
