"""Checkpoints: fits that are interrupted anywhere and go on to the same bits, and bad files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.exact.native import native_is_available

K = 5
IN_PARTS = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")
PLACES = ["memory", pytest.param("dask", marks=IN_PARTS), pytest.param("file", marks=IN_PARTS)]


class StoppedError(Exception):
    """What ends a fit before its end."""


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Nobody pulls the plug here."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def points(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    X[-n // 20 :] *= 8.0
    return X


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Return what makes data of an array, and the settings that a fit of it needs."""

    def there(X, place):
        if place == "memory":
            return X, {}
        if place == "dask":
            da = pytest.importorskip("dask.array")
            return da.from_array(X, chunks=(90, X.shape[1])), {}
        monkeypatch.setattr("wolfmeans.inputs.memory_budget.Budget.rows_per_chunk", lambda self: 90)
        monkeypatch.setattr("wolfmeans.inputs.memory_budget.Budget.rows_to_load", lambda *_: None)
        np.save(tmp_path / "x.npy", X)
        return tmp_path / "x.npy", {"memory_limit": "64MB"}

    return there


def same(ours, reference):
    for name in ("cluster_centers_", "initial_centers_", "labels_", "kept_", "margins_"):
        if hasattr(reference, name):
            mine, theirs = (np.asarray(getattr(m, name)) for m in (ours, reference))
            assert mine.dtype == theirs.dtype, name
            assert np.array_equal(mine, theirs), name
    for name in ("inertia_", "n_iter_", "radius_", "_threshold", "n_trimmed_", "trimmed_mass_"):
        assert getattr(ours, name, None) == getattr(reference, name, None), name
    assert ours.certificate_.to_dict() == reference.certificate_.to_dict()
    for column in ("sse", "gap", "movement", "moved", "empty", "shift"):
        pair = (getattr(model.trace_, column) for model in (ours, reference))
        assert np.array_equal(*pair, equal_nan=True), column


def stop_after(n):
    """Return a callback that ends a fit, from outside, at the n-th step of all starts."""
    seen = 0

    def callback(record):
        nonlocal seen
        seen += 1
        if seen == n:
            raise StoppedError

    return callback


KINDS = {
    "trimmed": (TrimmedKMeans, {"alpha": 0.1, "init": "seeds"}),
    "trimmed, a number": (TrimmedKMeans, {"trim": 20, "n_init": 1}),
    "trimmed, three starts": (TrimmedKMeans, {"n_init": 3}),
    "trimmed, short runs": (TrimmedKMeans, {"n_init": 7}),
    "trimmed, nothing": (TrimmedKMeans, {"alpha": 0.0, "init": "seeds"}),
    "k-means": (KMeans, {"init": "seeds"}),
    "k-means, three starts": (KMeans, {"init": "k-means||", "n_init": 3}),
}


def of_kind(kind, X, **more):
    make, settings = KINDS[kind]
    settings = {"stop": "stationary", "random_state": 3, "bound": None, **settings, **more}
    if isinstance(settings.get("init"), str) and settings["init"] == "seeds":
        settings["init"] = X[:K]
    return make(K, **settings)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_goes_on_to_the_same_bits(kind, place, weighted, put, tmp_path):
    X = points()
    weights = np.arange(1, len(X) + 1) % 4 / 2 + 0.5 if weighted else None
    if weights is not None and kind == "trimmed, a number":
        weights[0] = 0.0
    given, more = put(X, place)
    reference = of_kind(kind, X, **more).fit(given, sample_weight=weights)
    path = tmp_path / "fit.ckpt"
    for steps in (1, 2, 7):
        model = of_kind(kind, X, checkpoint=path, callback=stop_after(steps), **more)
        with pytest.raises(StoppedError):
            model.fit(given, sample_weight=weights)
    assert not list(tmp_path.glob("*.part"))
    resumed = of_kind(kind, X, checkpoint=str(path), **more).fit(given, sample_weight=weights)
    again = of_kind(kind, X, checkpoint=path, **more).fit(given, sample_weight=weights)
    for model in (resumed, again):
        same(model, reference)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_short_runs_that_leave_no_checkpoint_are_noted(tmp_path):
    X, path = points(), tmp_path / "c"

    def fit(**more):
        return TrimmedKMeans(K, alpha=0.1, random_state=0, bound=None, **more).fit(X)

    def notes(**more):
        noted = fit(time_limit=0.0, **more).certificate_.notes
        return [note for note in noted if "checkpoint" in note]

    for _ in range(2):
        [note] = notes(checkpoint=path)
        assert "No checkpoint was written" in note and "Increase time_limit" in note
        assert not path.exists()
    assert notes() == []
    # What the note advises leaves a file to go on from.
    for advice in ({"n_init": 5}, {"init": X[:K]}):
        assert notes(checkpoint=path, **advice) == []
        assert path.exists()
        same(fit(checkpoint=path, **advice), fit(**advice))
        path.unlink()


def test_every_step_is_a_place_to_go_on_from(tmp_path):
    X = points(seed=1)
    reference = of_kind("trimmed, three starts", X).fit(X)
    for steps in (1, 2, 3, 8, 13, 19, 24):
        path = tmp_path / str(steps)
        with pytest.raises(StoppedError):
            of_kind("trimmed, three starts", X, checkpoint=path, callback=stop_after(steps)).fit(X)
        same(of_kind("trimmed, three starts", X, checkpoint=path).fit(X), reference)


@pytest.mark.parametrize("make", [KMeans, TrimmedKMeans])
@pytest.mark.parametrize("empty", ["farthest", "keep", "best"])
@pytest.mark.parametrize("max_iter", [1, 2, 300])
@pytest.mark.filterwarnings("ignore")
def test_clusters_that_are_filled_after_the_end(make, empty, max_iter, tmp_path):
    """A run that has met its rule or its limit may need some steps more, which do not count."""
    rng = np.random.default_rng(7)
    X = rng.integers(6, size=(12, 1)).astype(float) ** 2
    init = rng.integers(60, size=(5, 1)).astype(float)
    settings = {"init": init, "tol": 0.0, "empty": empty, "max_iter": max_iter, "random_state": 0}
    reference = make(5, **settings).fit(X)
    if max_iter == 1 and empty == "farthest":
        assert reference.certificate_.extra_iterations == 1
    for steps in range(1, len(reference.trace_) + 1):
        path = tmp_path / str(steps)
        with pytest.raises(StoppedError):
            make(5, **settings, checkpoint=path, callback=stop_after(steps)).fit(X)
        for _ in range(2):
            same(make(5, **settings, checkpoint=path).fit(X), reference)


def test_sparse_and_single_precision_and_another_scale(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    X = points(seed=2)
    for number, given in enumerate((X.astype(np.float32), sparse.csr_array(X), X * 2.0**500)):
        kind, path = "trimmed, three starts", tmp_path / str(number)
        reference = of_kind(kind, X).fit(given)
        with pytest.raises(StoppedError):
            of_kind(kind, X, checkpoint=path, callback=stop_after(4)).fit(given)
        same(of_kind(kind, X, checkpoint=path).fit(given), reference)


@pytest.mark.long
@IN_PARTS
def test_a_process_that_is_killed(put, tmp_path):
    X = points(seed=3)
    given, _ = put(X, "file")
    path = tmp_path / "fit.ckpt"
    script = textwrap.dedent(f"""
        import os, signal
        from wolfmeans import TrimmedKMeans
        def kill(record):
            if record.t == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        TrimmedKMeans({K}, n_init=2, stop="stationary", random_state=3, bound=None,
                      checkpoint={str(path)!r}, callback=kill).fit({str(given)!r})
    """)
    ended = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert ended.returncode == -9
    settings = {"n_init": 2, "stop": "stationary", "random_state": 3, "bound": None}
    begun = []
    resumed = TrimmedKMeans(K, **settings, checkpoint=path, callback=begun.append).fit(X)
    assert [record.t for record in begun[:4]] == [0, 1, 2, 3]
    assert begun[0].seconds == begun[3].seconds, "these came from the file"
    same(resumed, TrimmedKMeans(K, **settings).fit(X))


@pytest.mark.filterwarnings("ignore:Not converged")
def test_short_runs_are_not_repeated(tmp_path, monkeypatch):
    X = points()
    settings = {"n_init": 8, "random_state": 0, "bound": None, "checkpoint": tmp_path / "c"}
    TrimmedKMeans(K, max_iter=2, **settings).fit(X)
    monkeypatch.setattr("wolfmeans.estimators.trimmed.best_short_runs", None)
    resumed = TrimmedKMeans(K, **settings).fit(X)
    monkeypatch.undo()
    same(resumed, TrimmedKMeans(K, **{**settings, "checkpoint": None}).fit(X))


@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"alpha": 0.2}, "alpha is 0.1 there and 0.2 here"),
        ({"alpha": None, "trim": 40}, "alpha is 0.1 there and None here"),
        ({"n_clusters": 4}, "n_clusters is 5 there and 4 here"),
        ({"random_state": 1}, "random_state is 0 there and 1 here"),
        ({"random_state": None}, "random_state is 0 there and None here"),
        ({"init": "random"}, "init is 'auto' there and 'random' here"),
        ({"init": points()[:K], "n_init": 1}, "init is 'auto' there and None here"),
        ({"n_init": 2}, "n_init is 3 there and 2 here"),
        ({"tol": 1e-3}, "tol is 0.0 there and 0.001 here"),
        ({"empty": "keep"}, "empty is 'farthest' there and 'keep' here"),
    ],
)
def test_the_checkpoint_of_another_fit(other, sentence, tmp_path):
    X, path = points(), tmp_path / "c"
    settings = {"alpha": 0.1, "n_init": 3, "tol": 0.0, "random_state": 0, "checkpoint": path}
    TrimmedKMeans(K, max_iter=2, **settings).fit(X)
    with pytest.raises(ValueError, match="c is the checkpoint of another fit") as refused:
        TrimmedKMeans(**{"n_clusters": K, **settings, **other}).fit(X)
    assert sentence in str(refused.value)
    assert "remove the file to start over" in str(refused.value)


@pytest.mark.filterwarnings("ignore:Not converged")
def test_the_checkpoint_of_another_estimator_and_of_other_data(tmp_path):
    X, path = points(), tmp_path / "c"
    settings = {"init": X[:K], "checkpoint": path, "tol": 0.0}
    KMeans(K, max_iter=3, **settings).fit(X)
    with pytest.raises(ValueError, match="estimator is 'KMeans' there and 'TrimmedKMeans' here"):
        TrimmedKMeans(K, alpha=0.0, **settings).fit(X)
    path.unlink()
    TrimmedKMeans(K, max_iter=3, **settings).fit(X)
    with pytest.raises(ValueError, match="estimator is 'TrimmedKMeans' there and 'KMeans' here"):
        KMeans(K, **settings).fit(X)
    with pytest.raises(ValueError, match="other initial centers"):
        TrimmedKMeans(K, **{**settings, "init": X[1 : K + 1]}).fit(X)
    with pytest.raises(ValueError, match="weighted is False there and True here"):
        TrimmedKMeans(K, **settings).fit(X, sample_weight=np.full(len(X), 2.0))
    for other in (X + 1.0, X * 2.0, np.vstack([X[:K], X[:K], X[2 * K :]])):
        with pytest.raises(ValueError, match="c was written for other data"):
            TrimmedKMeans(K, **settings).fit(other)
    with pytest.raises(ValueError, match="n_points is 400 there and 399 here"):
        TrimmedKMeans(K, **settings).fit(X[:-1])
    with pytest.raises(ValueError, match="c has 3 iterations already, but max_iter is 2"):
        TrimmedKMeans(K, max_iter=2, **settings).fit(X)


def test_what_does_not_go_with_it(tmp_path):
    for make, settings in (
        (KMeans, {"polish": "swap"}),
        (KMeans, {"effort": 1.0}),
        (KMeans, {"empty": "admissible"}),
        (TrimmedKMeans, {"empty": "resample"}),
    ):
        with pytest.raises(ValueError, match="checkpoint= cannot be combined with"):
            make(2, checkpoint=tmp_path / "c", **settings).fit(points())
    for make in (KMeans, TrimmedKMeans):
        with pytest.raises(FileNotFoundError, match="checkpoint: no such folder"):
            make(2, checkpoint=tmp_path / "no" / "c").fit(points())
        with pytest.raises(IsADirectoryError, match=r"checkpoint: .* is a folder"):
            make(2, checkpoint=tmp_path).fit(points())
    assert not list(tmp_path.iterdir())


def test_a_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "c")
    KMeans(K, random_state=0, checkpoint=tmp_path / "link").fit(points())
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "c").stat().st_size > 0
    with pytest.raises(ValueError, match="is not a file name"):
        KMeans(K, checkpoint="").fit(points())


def test_what_is_no_plain_file_is_neither_read_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is not a regular file"):
        KMeans(K, checkpoint=tmp_path / "pipe").fit(points())
    assert (tmp_path / "pipe").is_fifo()


def test_a_name_too_long_for_what_is_written_beside(tmp_path):
    with pytest.raises(OSError, match=r"checkpoint: .* cannot be written"):
        KMeans(K, checkpoint=tmp_path / ("c" * 250)).fit(points())


def test_fits_of_several_threads_write_the_same_file(tmp_path):
    X = points()
    settings = {"init": X[:K], "tol": 0.0}
    alone = KMeans(K, **settings).fit(X)
    with ThreadPoolExecutor(3) as pool:
        fits = [
            pool.submit(KMeans(K, **settings, checkpoint=tmp_path / "c").fit, X) for _ in range(6)
        ]
    for fit in fits:
        assert (fit.result().cluster_centers_ == alone.cluster_centers_).all()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_what_is_told_of_it(tmp_path, capsys):
    X = points()
    for make in (KMeans, TrimmedKMeans):
        settings = {"init": X[:K], "tol": 0.0, "checkpoint": tmp_path / make.__name__}
        with pytest.raises(StoppedError):
            make(K, **settings, callback=stop_after(3)).fit(X)
        make(K, **settings, verbose=1).fit(X)
        told = capsys.readouterr().out
        assert f"resuming from {tmp_path / make.__name__}: start 0 was at iteration 3\n" in told


def test_numbers_of_numpy_are_numbers(tmp_path):
    settings = {"n_init": np.int64(1), "random_state": np.int32(0), "tol": np.float32(0)}
    X = points()
    for _ in range(2):
        TrimmedKMeans(
            np.int64(K), alpha=np.float32(0.5), checkpoint=tmp_path / "c", **settings
        ).fit(X)


@pytest.mark.parametrize("make", [KMeans, TrimmedKMeans])
def test_a_model_does_not_remember_its_checkpoint(make, tmp_path):
    model = make(K, random_state=0, checkpoint=tmp_path / "c").fit(points())
    model.save(tmp_path / "m")
    assert wolfmeans.load(tmp_path / "m").checkpoint is None


def test_a_disk_that_takes_no_more(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        OSError, match=r"checkpoint: .*c cannot be written: No space left on device"
    ):
        KMeans(K, checkpoint=tmp_path / "c").fit(points())
    assert not list(tmp_path.iterdir())


# --- Damaged files ---------------------------------------------------------------------------


def array_of(content):
    return np.load(io.BytesIO(content))


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def changed_facts(members, change):
    facts = json.loads(members["facts.json"])
    return members | {"facts.json": json.dumps(change(facts)).encode()}


def with_start(facts, **fields):
    return facts | {"starts": [facts["starts"][0] | fields]}


def huge(content):
    """A header that claims more rows than any memory has."""
    shape = str(array_of(content).shape)
    claimed = "(9" + "0" * 12 + shape[shape.index(",") :]
    return content.replace(shape.encode(), claimed.encode(), 1)


DAMAGED = {
    "facts are a list": lambda m: m | {"facts.json": b"[]"},
    "facts are no JSON": lambda m: m | {"facts.json": b"{"},
    "facts are nested without end": lambda m: m | {"facts.json": b"[" * 100_000},
    "facts are no text": lambda m: m | {"facts.json": b"\xff\xfe\x00"},
    "no facts": lambda m: {name: m[name] for name in m if name != "facts.json"},
    "another format": lambda m: changed_facts(m, lambda f: f | {"format": "wolfmeans model"}),
    "format of a strange kind": lambda m: changed_facts(m, lambda f: f | {"format": [1]}),
    "no identity": lambda m: m | {"facts.json": b'{"format": "wolfmeans checkpoint 2"}'},
    "identity is a number": lambda m: changed_facts(m, lambda f: f | {"identity": 3}),
    "no starts": lambda m: changed_facts(m, lambda f: f | {"starts": []}),
    "starts are numbers": lambda m: changed_facts(m, lambda f: f | {"starts": [1]}),
    "starts are a group": lambda m: changed_facts(m, lambda f: f | {"starts": {"0": 1}}),
    "too many starts": lambda m: changed_facts(m, lambda f: f | {"starts": f["starts"] * 9}),
    "a value that is a word": lambda m: changed_facts(m, lambda f: with_start(f, value="much")),
    "a value that is none": lambda m: changed_facts(m, lambda f: with_start(f, value=None)),
    "a value that is NaN": lambda m: changed_facts(m, lambda f: with_start(f, value=np.nan)),
    "no point": lambda m: changed_facts(m, lambda f: with_start(f, point=None)),
    "moved is NaN": lambda m: changed_facts(
        m, lambda f: with_start(f, vertex=f["starts"][0]["vertex"] | {"moved": np.nan})
    ),
    "fewer records than it says": lambda m: changed_facts(m, lambda f: with_start(f, n_records=0)),
    "records of nobody": lambda m: m | {"records.npy": npy(array_of(m["records.npy"])[:0])},
    "records of one column": lambda m: m | {"records.npy": npy(array_of(m["records.npy"])[:, :1])},
    "records out of order": lambda m: m | {"records.npy": npy(array_of(m["records.npy"])[::-1])},
    "records without numbers": lambda m: (
        m | {"records.npy": npy(np.full_like(array_of(m["records.npy"]), np.nan))}
    ),
    "seeds cut off": lambda m: m | {"seeds.npy": m["seeds.npy"][:-5]},
    "only a part of the header": lambda m: m | {"seeds.npy": m["seeds.npy"][:20]},
    "the header cut off": lambda m: m | {"seeds.npy": m["seeds.npy"].replace(b"}", b"(")},
    "no array": lambda m: m | {"seeds.npy": b""},
    "objects": lambda m: m | {"seeds.npy": npy(np.array([[[object()]]], dtype=object))},
    "seeds of another shape": lambda m: m | {"seeds.npy": npy(array_of(m["seeds.npy"])[..., :1])},
    "seeds of another kind": lambda m: m | {"seeds.npy": npy(array_of(m["seeds.npy"]) > 0)},
    "seeds that are NaN": lambda m: m | {"seeds.npy": npy(array_of(m["seeds.npy"]) * np.nan)},
    "more seeds than there is memory for": lambda m: m | {"seeds.npy": huge(m["seeds.npy"])},
    "more records than there is memory for": lambda m: m | {"records.npy": huge(m["records.npy"])},
    "centers of one cluster less": lambda m: (
        m | {"point.centers.npy": npy(array_of(m["point.centers.npy"])[:, 1:])}
    ),
    "weights that are infinite": lambda m: (
        m | {"vertex.weights.npy": npy(array_of(m["vertex.weights.npy"]) / 0.0)}
    ),
    "something else beside": lambda m: m | {"more.npy": m["seeds.npy"]},
    **{
        f"no {name}": lambda m, name=name: {other: m[other] for other in m if other != name}
        for name in ("seeds.npy", "records.npy", "point.residuals.npy", "vertex.centers.npy")
    },
}


@pytest.fixture(scope="module", params=[KMeans, TrimmedKMeans], ids=["KMeans", "TrimmedKMeans"])
def kept(request, tmp_path_factory):
    """Return a fit that goes on from a file, and the content of a good one."""
    path, X = tmp_path_factory.mktemp("kept") / "c", points()

    def fit(path, max_iter=300):
        model = request.param(K, init=X[:K], tol=0.0, max_iter=max_iter, checkpoint=path)
        return model.fit(X)

    with pytest.warns(UserWarning, match="Not converged"):
        fit(path, 3)
    return fit, path.read_bytes()


def zipped(members, how=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_refused_by_name(kind, kept, tmp_path):
    fit, content = kept
    path = tmp_path / "bad.ckpt"
    path.write_bytes(zipped(DAMAGED[kind](members_of(content))))
    with pytest.raises(ValueError, match=r"bad\.ckpt is no checkpoint") as refused:
        fit(path)
    assert len(str(refused.value)) < 500


def test_files_that_are_no_whole_zip(kept, tmp_path):
    fit, content = kept
    path = tmp_path / "bad.ckpt"
    cut = [content[: len(content) * part // 7] for part in range(7)]
    flipped = bytearray(content)
    flipped[content.index(b"NUMPY") + 150] ^= 0xFF
    packed = zipped(members_of(content), zipfile.ZIP_DEFLATED)
    for bad in (*cut, bytes(flipped), packed, b"PK", b"nothing", content[100:]):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"bad\.ckpt is no checkpoint"):
            fit(path)
    path.write_bytes(content)
    assert fit(path).n_iter_ > 3
