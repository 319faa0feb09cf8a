"""Models on disk: everything comes back, nothing is executed, no half file is left."""

import io
import json
import os
import pickle
import stat
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.estimators.saving import certificate_from, load_prepared
from wolfmeans.estimators.saving import save as save_prepared
from wolfmeans.inputs.preparation import Preparation

STOCK = ("cluster_centers_", "labels_", "inertia_", "n_iter_", "n_features_in_", "engine_")


def points(n=80, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 6.0 * rng.integers(0, 3, size=(n, 1))


def roundtrip(model, folder):
    model.save(folder / "model.wolf")
    return wolfmeans.load(folder / "model.wolf")


def assert_same_model(a, b):
    for name in STOCK:
        mine, other = getattr(a, name), getattr(b, name)
        assert type(mine) is type(other), name
        assert np.array_equal(mine, other), name
    assert a.cluster_centers_.dtype == b.cluster_centers_.dtype
    assert a.labels_.dtype == b.labels_.dtype
    assert a.certificate_ == b.certificate_
    assert str(a.certificate_) == str(b.certificate_)
    assert list(a.trace_) == list(b.trace_)
    assert a.trace_.lower_bound == b.trace_.lower_bound
    fitted = {name for name in vars(a) if name not in a.get_params()}
    assert fitted == {name for name in vars(b) if name not in b.get_params()}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_a_model_comes_back_whole(tmp_path, dtype):
    X = (10 * points()).astype(dtype)
    weights = np.linspace(0, 3, len(X))
    model = KMeans(4, random_state=0, stop="gap", tol=1e-3, empty="best", verbose=0)
    model.fit(X, sample_weight=weights)
    again = roundtrip(model, tmp_path)
    assert_same_model(model, again)
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.predict(X), model.labels_)
    assert again.score(X, sample_weight=weights) == -model.inertia_
    assert np.array_equal(again.transform(X), model.transform(X))
    assert again.transform(X).dtype == model.transform(X).dtype
    assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())


def test_the_proof_is_left_out_of_the_file_and_kept_in_pickles(tmp_path):
    X = points(30)
    model = KMeans(3, random_state=0).fit(X)
    assert model.certify(X, method="semidefinite", seconds=5).proof is not None
    again = roundtrip(model, tmp_path)
    assert again.certificate_.proof is None and again.certificate_ == model.certificate_
    pickled = pickle.loads(pickle.dumps(model)).certificate_
    model.certificate_.proof.save(tmp_path / "proof.npz")
    loaded = model.certificate_.proof.load(tmp_path / "proof.npz")
    for proof in (model.certificate_.proof, pickled.proof, loaded):
        bound = wolfmeans.check_proof(X, proof)
        assert bound == pytest.approx(pickled.lower_bound, rel=1e-9)
    content = {"certificate": {**model.certificate_.to_dict(), "proof": {"n_clusters": 1}}}
    assert certificate_from(content, 3).proof is None


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e6])
def test_the_proof_of_a_certificate_is_for_the_data_as_given(scale):
    X = points(30) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = KMeans(3, random_state=0, bound=None).fit(X)
        certificate = model.certify(X, method="semidefinite", seconds=2)
    bound = wolfmeans.check_proof(X, certificate.proof)
    if certificate.unit_exponent == 0:
        assert bound == pytest.approx(certificate.lower_bound, rel=1e-9)
    assert certificate.proof.n_clusters == 3


def test_a_loaded_model_can_be_cloned_refitted_and_saved_again(tmp_path):
    X = points()
    model = KMeans(np.int64(4), random_state=np.int32(3), tol=np.float64(1e-3)).fit(X)
    again = roundtrip(roundtrip(model, tmp_path), tmp_path)
    refitted = again.fit(X)
    assert np.array_equal(refitted.cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("names", [list("abc"), ["größe", "naïve\n", "日本"]])
def test_feature_names_come_back(tmp_path, names):
    frame = pd.DataFrame(points(), columns=names)
    model = KMeans(3, random_state=0).fit(frame)
    again = roundtrip(model, tmp_path)
    assert list(again.feature_names_in_) == names
    assert again.feature_names_in_.dtype == model.feature_names_in_.dtype
    assert np.array_equal(again.predict(frame), model.labels_)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[names[::-1]])


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e150, 1e200])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_a_model_of_extreme_scale_comes_back_whole(tmp_path, scale):
    X = points() * scale
    model = KMeans(3, random_state=0).fit(X)
    again = roundtrip(model, tmp_path)
    assert_same_model(model, again)
    assert np.array_equal(again.predict(X), model.labels_)
    assert again.score(X) == -model.inertia_


@pytest.mark.parametrize("wrap", [np.asarray, np.ndarray.tolist, pd.DataFrame])
def test_an_array_init_comes_back_as_an_array(tmp_path, wrap):
    X = points()
    again = roundtrip(KMeans(3, init=wrap(X[:3])).fit(X), tmp_path)
    assert np.array_equal(np.asarray(again.init), X[:3])
    assert np.array_equal(again.fit(X).predict(X), again.labels_)


def test_a_callable_init_is_refused_by_name(tmp_path):
    model = KMeans(3, init=lambda X, k, random_state: X[:k]).fit(points())
    with pytest.raises(ValueError, match=r"init.*callable"):
        model.save(tmp_path / "model.wolf")
    assert list(tmp_path.iterdir()) == []
    model.set_params(init="random").save(tmp_path / "model.wolf")
    assert np.array_equal(wolfmeans.load(tmp_path / "model.wolf").labels_, model.labels_)


def test_a_callback_does_not_prevent_saving(tmp_path):
    model = KMeans(3, callback=lambda record: None, random_state=0).fit(points())
    again = roundtrip(model, tmp_path)
    assert again.callback is None
    assert np.array_equal(again.labels_, model.labels_)


def test_paths_may_be_strings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = KMeans(2, random_state=0).fit(points())
    model.save("model.wolf")
    assert np.array_equal(wolfmeans.load("model.wolf").labels_, model.labels_)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        wolfmeans.load(tmp_path / "nothing.wolf")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_saved_model_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("x")
    KMeans(2, random_state=0).fit(points()).save(tmp_path / "model.wolf")
    mode = stat.S_IMODE((tmp_path / "model.wolf").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


# --- nothing is executed ---------------------------------------------------------------------


class Bomb:
    """Unpickling this would create a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def _members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _pack(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.wolf"
    KMeans(3, random_state=0).fit(points()).save(path)
    return path


def test_a_file_with_the_old_name_of_a_parameter_is_read(saved):
    members = _members(saved)
    content = json.loads(members["model.json"])
    content["parameters"]["certify"] = content["parameters"].pop("bound")
    _pack(saved, {**members, "model.json": json.dumps(content)})
    assert wolfmeans.load(saved).get_params() == KMeans(3, random_state=0).get_params()


def test_the_file_holds_plain_arrays_and_json_alone(saved):
    for name, content in _members(saved).items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content), allow_pickle=False)
            assert array.dtype.kind in "fiuU"
        else:
            json.loads(content)


@pytest.mark.parametrize("member", ["labels_.npy", "cluster_centers_.npy", "extra.npy"])
def test_a_pickle_inside_an_array_is_refused_and_not_executed(saved, tmp_path, member):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(tmp_path / "boom")], dtype=object), allow_pickle=True)
    _pack(saved, {**_members(saved), member: buffer.getvalue()})
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(saved)
    assert not (tmp_path / "boom").exists()


def test_a_pickle_is_refused_and_not_executed(tmp_path):
    (tmp_path / "model.wolf").write_bytes(pickle.dumps(Bomb(tmp_path / "boom")))
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(tmp_path / "model.wolf")
    assert not (tmp_path / "boom").exists()


# --- damaged files ---------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(saved)


def test_random_bytes_are_refused(tmp_path):
    path = tmp_path / "model.wolf"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(path)


def test_flipped_bytes_are_refused_or_harmless(saved):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    original = wolfmeans.load(saved)
    refused = 0
    for position in rng.integers(0, len(content), size=300).tolist():
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bytes(damaged))
        try:
            model = wolfmeans.load(saved)
        except ValueError:
            refused += 1
        else:
            assert np.array_equal(model.cluster_centers_, original.cluster_centers_)
            assert np.array_equal(model.labels_, original.labels_)
    assert refused > 200


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "null",
        "not json",
        '{"format": "other"}',
        '{"format": "wolfmeans-model"}',
        '{"format": "wolfmeans-model", "version": 1}',
        '{"format": "wolfmeans-model", "version": 1, "parameters": {}, "attributes": {}}',
        "[" * 100_000,
    ],
    ids=["{}", "[]", "null", "text", "other", "bare", "version", "half", "deep"],
)
def test_another_json_text_is_refused(saved, text):
    _pack(saved, {**_members(saved), "model.json": text})
    with pytest.raises(ValueError, match=str(saved)):
        wolfmeans.load(saved)


def _edited(saved, edit):
    members = _members(saved)
    content = json.loads(members["model.json"])
    edit(content)
    _pack(saved, {**members, "model.json": json.dumps(content)})


@pytest.mark.parametrize(
    "edit",
    [
        lambda c: c["parameters"].update(surprise=1),
        lambda c: c["certificate"].pop("gap"),
        lambda c: c["certificate"].update(status_name="GREAT"),
        lambda c: c["trace"]["records"][0].update(surprise=1),
        lambda c: c["attributes"].pop("n_features_in_"),
        lambda c: c["attributes"].update(n_features_in_=7),
        lambda c: c.update({"class": "SomethingElse"}),
        lambda c: c.update(parameters=[1, 2]),
    ],
    ids=["parameter", "gap", "status", "record", "missing", "features", "class", "list"],
)
def test_a_file_whose_parts_do_not_fit_is_refused(saved, edit):
    _edited(saved, edit)
    with pytest.raises(ValueError, match=str(saved)):
        wolfmeans.load(saved)


@pytest.mark.parametrize("member", ["cluster_centers_.npy", "labels_.npy"])
def test_a_file_without_its_arrays_is_refused(saved, member):
    members = _members(saved)
    del members[member]
    _pack(saved, members)
    with pytest.raises(ValueError, match=str(saved)):
        wolfmeans.load(saved)


def test_a_file_of_a_later_version_says_so(saved):
    _edited(saved, lambda content: content.update(version=99))
    with pytest.raises(ValueError, match="version 99"):
        wolfmeans.load(saved)


def test_another_zip_is_refused(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(tmp_path / "arrays.npz")


def test_an_array_header_that_asks_for_too_much_memory_is_refused(saved):
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, "
    header += b"'shape': (4000000000000, 3), }"
    header = header.ljust(127) + b"\n"
    _pack(saved, {**_members(saved), "cluster_centers_.npy": header})
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(saved)


# --- files that mean harm --------------------------------------------------------------------


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


@pytest.fixture
def trimmed(tmp_path):
    path = tmp_path / "trimmed.wolf"
    X = points()
    model = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(pd.DataFrame(X, columns=list("abc")))
    save_prepared(model, path, Preparation.standardizing(tuple("abc"), X))
    return path


BAD_ARRAYS = {
    "nan": ("cluster_centers_", np.full((3, 3), np.nan)),
    "inf": ("cluster_centers_", np.full((3, 3), -np.inf)),
    "whole": ("cluster_centers_", np.zeros((3, 3), np.int64)),
    "half": ("cluster_centers_", np.zeros((3, 3), np.float16)),
    "complex": ("cluster_centers_", np.zeros((3, 3), np.complex128)),
    "texts": ("cluster_centers_", np.full((3, 3), "a")),
    "many": ("cluster_centers_", np.zeros((4, 3))),
    "start": ("initial_centers_", np.full((3, 3), np.nan)),
    "scaled": ("_scaled_centers", np.full((3, 3), np.nan)),
    "scaled shape": ("_scaled_centers", np.zeros((3, 5))),
    "label": ("labels_", np.full(80, 3, np.int32)),
    "low label": ("labels_", np.full(80, -2, np.int32)),
    "no labels": ("labels_", np.zeros(0, np.int32)),
    "one name": ("feature_names_in_", np.array(["a"])),
    "other names": ("feature_names_in_", np.array(["a", "b", "d"])),
    "numbers": ("feature_names_in_", np.arange(3)),
    "kept": ("kept_", np.full(80, 2.0)),
    "few kept": ("kept_", np.ones(79)),
    "few margins": ("margins_", np.ones(79)),
    "text init": ("init", np.array([["a"]])),
}


@pytest.mark.parametrize("what", BAD_ARRAYS)
def test_an_array_that_no_model_has_is_refused_by_name(trimmed, what):
    load_prepared(trimmed)
    name, array = BAD_ARRAYS[what]
    _pack(trimmed, {**_members(trimmed), f"{name}.npy": _npy(array)})
    with pytest.raises(ValueError, match=str(trimmed)) as refusal:
        load_prepared(trimmed)
    assert name in str(refusal.value) or "columns" in str(refusal.value)


BAD_FIELDS = {
    "attributes": {
        "_scale_exponent": ["x", 1.5, None, True, 2201, -(10**12), 2000],
        "n_features_in_": [3.0, True, "3", 0],
        "n_iter_": [-1, "many"],
        "inertia_": [float("nan"), "0", -1.0, None, 10**400],
        "engine_": [1],
        "_threshold": [float("nan"), "x", None, -1.0],
        "_share": ["1/0", "1e999999999", "2/1", "-1/2", 0.5, "1" * 3000 + "/3", "１/２"],
        "radius_": [None, float("nan")],
        "trimmed_mass_": [float("inf"), "1"],
        "n_trimmed_": [1.0],
    },
    "parameters": {
        "engine": ["evil", 1],
        "stop": ["never"],
        "n_clusters": [3.0, "3", -1],
        "n_threads": [-5, "x"],
        "tol": ["a"],
        "init": [[[1.0, 2.0, 3.0]] * 3, None],
    },
    "certificate": {
        "inertia": ["<b>", None, [1]],
        "gap": [None, float("nan")],
        "iterations": [1.0],
        "notes": [5, [5]],
        "local_optimality": ["splendid"],
        "n_clusters": [4],
        "lower_bound": [1e-320, "x"],
        "unit_exponent": [10**9, 1],
        "polish": [5, {"level": 1}],
        "level": [3],
    },
    "trace": {"records": [[], 5, [5]], "lower_bound": ["x", None]},
    "preparation": {
        "scale": [[0.0, 1.0, 1.0], [-1.0] * 3, [float("nan")] * 3, [1.0], None, "abc"],
        "center": [[float("inf")] * 3, ["a", "b", "c"]],
        "columns": [["a", "b"], ["c", "b", "a"], [1, 2, 3], None],
    },
}


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        pytest.param(group, name, value, id=f"{name}-{str(value)[:20]}")
        for group, fields in BAD_FIELDS.items()
        for name, values in fields.items()
        for value in values
    ],
)
def test_a_field_that_no_model_has_is_refused(trimmed, group, name, value):
    _edited(trimmed, lambda content: content[group].update({name: value}))
    with pytest.raises(ValueError, match=str(trimmed)) as refusal:
        load_prepared(trimmed)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("name", "value"), [("t", 2**63), ("value", None), ("stationary", 0)])
def test_a_record_that_no_trace_has_is_refused(saved, name, value):
    _edited(saved, lambda content: content["trace"]["records"][0].update({name: value}))
    with pytest.raises(ValueError, match=name):
        wolfmeans.load(saved)


def test_a_model_that_trims_nothing_comes_back(tmp_path):
    model = TrimmedKMeans(3, alpha=0.0, random_state=0).fit(points())
    assert_same_model(model, roundtrip(model, tmp_path))


def test_arrays_of_another_order_are_read(saved):
    """As a machine with the bytes the other way round would write them."""
    original = wolfmeans.load(saved)
    turned = np.asfortranarray(original.cluster_centers_.astype(">f8"))
    _pack(saved, {**_members(saved), "cluster_centers_.npy": _npy(turned)})
    again = wolfmeans.load(saved)
    assert again.cluster_centers_.dtype == np.float64
    assert again.cluster_centers_.dtype.isnative
    assert again.cluster_centers_.flags.c_contiguous
    assert np.array_equal(again.predict(points()), original.labels_)


@pytest.mark.parametrize("name", ["evil.npy", "../evil.npy", "a/labels_.npy", "note.txt"])
def test_a_file_with_parts_that_no_model_has_is_refused(saved, name):
    _pack(saved, {**_members(saved), name: _npy(np.zeros(3))})
    with pytest.raises(ValueError, match="which no such model has"):
        wolfmeans.load(saved)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_with_two_parts_of_one_name_is_refused(saved):
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("labels_.npy", _npy(np.zeros(80, np.int32)))
    with pytest.raises(ValueError, match="two parts of one name"):
        wolfmeans.load(saved)


@pytest.mark.parametrize(
    ("name", "packing"),
    [
        ("labels_.npy", zipfile.ZIP_DEFLATED),
        ("model.json", zipfile.ZIP_DEFLATED),
        ("model.json", zipfile.ZIP_LZMA),
    ],
)
def test_what_would_unfold_to_much_is_refused_unread(saved, monkeypatch, name, packing):
    members = _members(saved)
    if name == "model.json":
        members[name] = members[name] + b" " * (1 << 23)
    else:
        members[name] = _npy(np.zeros(1 << 21, np.int32))
    with zipfile.ZipFile(saved, "w", packing) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    assert saved.stat().st_size < 1 << 16
    read = []
    whole = zipfile.ZipExtFile._read1

    def noting(member, n):
        found = whole(member, n)
        read.append(len(found))
        return found

    monkeypatch.setattr(zipfile.ZipExtFile, "_read1", noting)
    with pytest.raises(ValueError, match=r"packed|too large"):
        wolfmeans.load(saved)
    assert sum(read) < 1 << 20


def test_an_array_that_is_shorter_or_longer_than_it_says_is_refused(saved):
    members = _members(saved)
    for content in (members["labels_.npy"][:-4], members["labels_.npy"] + b"more"):
        _pack(saved, {**members, "labels_.npy": content})
        with pytest.raises(ValueError, match="labels_ is not as long"):
            wolfmeans.load(saved)


# --- a failing save --------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_save_that_fails_midway_keeps_the_old_file_and_leaves_no_other(
    saved, monkeypatch, failure
):
    before = saved.read_bytes()
    model = KMeans(4, random_state=1).fit(points())
    write = np.lib.format.write_array
    written = []

    def failing(file, array, **options):
        written.append(array)
        if len(written) == 2:
            raise failure
        write(file, array, **options)

    monkeypatch.setattr(np.lib.format, "write_array", failing)
    with pytest.raises(type(failure)):
        model.save(saved)
    assert len(written) == 2
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_saving_replaces_the_old_file(saved):
    model = KMeans(5, random_state=1).fit(points())
    model.save(saved)
    assert len(wolfmeans.load(saved).cluster_centers_) == 5
    assert list(saved.parent.iterdir()) == [saved]


def test_saving_into_a_missing_folder_names_it(tmp_path):
    model = KMeans(2, random_state=1).fit(points())
    with pytest.raises(FileNotFoundError, match="missing"):
        model.save(tmp_path / "missing" / "model.wolf")
