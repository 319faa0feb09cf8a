"""Readers of files: whatever the bytes are, a table, a model, or a refusal in one sentence.

`read(folder, ...)` of each target puts the bytes into a file and reads it. A ValueError, TypeError
or OSError with a text is a refusal; everything else that is raised is a finding, and so is a file
that appears, or a result that contradicts itself.
"""

import contextlib
import io
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from mutations import EDITS, changed_archive, changed_text, damaged, edited

import wolfmeans
from everywhere import streaming
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.estimators.saving import load_prepared
from wolfmeans.files import tables
from wolfmeans.inputs.opening import open_source

REFUSALS = (ValueError, TypeError, OSError)
MOST = 1 << 20
"""Numbers that a file of some hundred bytes may become; more is a blow-up."""


class Finding(AssertionError):  # noqa: N818 - that is what it is
    """Something that must not happen."""


@contextlib.contextmanager
def refusing():
    """Let refusals pass that say something in a line or a few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except REFUSALS as error:
            if isinstance(error, UnicodeError) or not str(error).strip():
                raise Finding(f"a refusal that says nothing: {error!r}") from error


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="wolf-fuzz-") as name:
        yield Path(name)


def _points():
    X = np.random.default_rng(0).normal(size=(12, 3))
    X[:6] += 9.0
    return X


def _npy(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=True)
    return file.getvalue()


def _npz():
    file = io.BytesIO()
    np.savez(file, X=_points())
    return file.getvalue()


@cache
def texts():
    """CSV and its relatives, as bytes."""
    rows = [[f"{value:.3f}" for value in row] for row in _points()]
    plain = "\n".join(",".join(row) for row in rows)
    return [
        b"a,b,c\n" + plain.encode(),
        plain.encode() + b"\n",
        plain.replace(",", "\t").encode(),
        b"a;b;c\n" + plain.replace(",", ";").replace(".", ",").encode(),
        b"\xef\xbb\xbf" + b'"a, b",c,d\r\n' + plain.replace("\n", "\r\n").encode(),
        b"a,b,c\r1,2,3\r4,5,6",
        b"name,x,y\nw,1,2\nv,3,4\n,5,\n",
        b"\n\n1\n2\n\n3\n",
        b",0,1\n0,1.5,2\n1,3,4e3\n",
    ]


@cache
def arrays():
    """NPY files, good and doubtful."""
    X = _points()
    return [
        _npy(X),
        _npy(X.astype(np.float32), (2, 0)),
        _npy(np.asfortranarray(X)),
        _npy(X.astype(">f8")),
        _npy(X.astype(np.float16)),
        _npy((X * 10).astype(np.int8)),
        _npy(X[:, 0]),
        _npy(X > 0),
        _npy(np.array([["a", "b"]])),
        _npy(np.array([[{}, 1]], dtype=object)),
        _npy(np.zeros((0, 3))),
        _npy(X.reshape(2, 6, 3)),
        _npz(),
    ]


@cache
def columnar(kind):
    """Parquet or Arrow files."""
    import polars

    X = _points()
    frames = [
        polars.DataFrame(X, schema=["a", "b", "c"], orient="row"),
        polars.DataFrame({"t": ["x", "y", None], "v": [1, None, 3], "b": [True, False, None]}),
        polars.DataFrame({"l": [[1.0, 2.0], [3.0], []], "f": [1.5, float("nan"), 2.0]}),
    ]
    contents = []
    for frame in frames:
        file = io.BytesIO()
        if kind == "parquet":
            frame.write_parquet(file)
            contents.append(file.getvalue())
            continue
        frame.write_ipc(file)
        contents.append(file.getvalue())
        stream = io.BytesIO()
        frame.write_ipc_stream(stream)
        contents.append(stream.getvalue())
    return contents


@cache
def models():
    X = _points()
    found = []
    with warnings.catch_warnings(), folder() as here:
        warnings.simplefilter("ignore")
        for model in (
            KMeans(2, random_state=0),
            KMeans(2, init=X[:2], n_init=1),
            TrimmedKMeans(2, random_state=0),
        ):
            model.fit(X).save(here / "m.wolf")
            found.append((here / "m.wolf").read_bytes())
    return found


@cache
def checkpoints():
    with warnings.catch_warnings(), folder() as here:
        warnings.simplefilter("ignore")
        _checkpointed(here / "c", max_iter=1)
        return [(here / "c").read_bytes()]


def _checkpointed(path, max_iter=300):
    X = np.random.default_rng(1).normal(size=(60, 2))
    model = KMeans(4, init=X[:4], n_init=1, tol=0.0, bound=None, checkpoint=path)
    return model.set_params(max_iter=max_iter).fit(X), X


@cache
def _zarr_files():
    import zarr

    found = []
    with folder() as here:
        for number, X in enumerate((_points(), _points().astype(np.float32)[:, :1])):
            place = here / f"{number}.zarr"
            kept = zarr.create_array(str(place), shape=X.shape, dtype=X.dtype, chunks=(5, 3))
            kept[:] = X
            found.append(
                {
                    str(path.relative_to(place)): path.read_bytes()
                    for path in sorted(place.rglob("*"))
                    if path.is_file()
                }
            )
    return found


# --- attempts ----------------------------------------------------------------------------------


def read_table(content, ending, kind=None):
    """Read a table, both ways where there are two."""
    with folder() as here:
        path = here / f"data{ending}"
        path.write_bytes(content)
        with refusing():
            table = tables.read([str(path)], kind)
            if table.n_rows * len(table.names) > MOST:
                raise Finding(f"{len(content)} bytes became {table.n_rows} rows")
            for name in table.names:
                if len(table.entries(name)) != table.n_rows:
                    raise Finding(f"column {name!r} has another length than the table")
        if kind is None:
            with refusing():
                source = open_source(path)
                rows = sum(len(chunk) for _, chunk in source.chunks(7))
                if source.n_rows is not None and rows != source.n_rows:
                    raise Finding(f"{rows} rows were read of {source.n_rows}")
        _nothing_else(here, {path.name})


def read_zarr(files):
    with folder() as here:
        for name, content in files.items():
            path = here / "data.zarr" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if not (here / "data.zarr").is_dir():
            return
        before = sorted(here.rglob("*"))
        with refusing():
            source = open_source(here / "data.zarr")
            if source.n_rows * source.n_columns > MOST:
                # Chunks that are not there are zeros: so large an array may well be meant.
                return
            for first, rows in source.chunks(7):
                if not np.isfinite(rows).all():
                    raise Finding(f"rows from {first} are not finite")
        if sorted(here.rglob("*")) != before:
            raise Finding("reading wrote a file")


def read_several(contents, ending, how):
    """Cluster files in chunks, by a pattern, a folder or their names; as if they were one array."""
    with folder() as here:
        place = here / "data"
        place.mkdir()
        paths = [place / f"{number}{ending}" for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        given = {"pattern": str(place / f"*{ending}"), "folder": place, "names": paths}[how]
        before = sorted(here.rglob("*"))
        with refusing(), streaming(5):
            source = open_source(given)
            if source.n_rows is not None and source.n_rows * source.n_columns > MOST:
                raise Finding(f"{before} became {source.n_rows} rows")
            model = KMeans(2, random_state=0, bound=None, memory_limit="1GB").fit(given)
            labels = np.asarray(model.predict(given))
            if labels.tolist() != np.asarray(model.labels_).tolist():
                raise Finding("predict is not labels_ for data in chunks")
            whole = KMeans(2, init="k-means||", random_state=0, bound=None).fit(source.whole())
            if whole.labels_.tolist() != labels.tolist():
                raise Finding("chunks have other labels than one array")
        if sorted(here.rglob("*")) != before:
            raise Finding("reading wrote a file")


def read_model(content):
    """Load a model and use it; what it was loaded as, it can be saved as."""
    with folder() as here:
        path = here / "m.wolf"
        path.write_bytes(content)
        with refusing():
            model, _ = load_prepared(path)
            _use(model, here)
        with refusing():
            wolfmeans.load(path)
        _nothing_else(here, {"m.wolf", "again.wolf"})


def _use(model, here):
    X = np.random.default_rng(2).normal(size=(5, model.n_features_in_))
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        labels = model.predict(X)
        if not ((labels >= -1) & (labels < model.n_clusters)).all():
            raise Finding(f"labels out of range: {labels}")
        if model.transform(X).shape != (5, model.n_clusters):
            raise Finding("transform has another shape")
    str(model.certificate_)
    repr(model)
    model.save(here / "again.wolf")
    again = wolfmeans.load(here / "again.wolf")
    if again.cluster_centers_.tobytes() != model.cluster_centers_.tobytes():
        raise Finding("a model is not what was saved")


def read_checkpoint(content):
    """Go on from a checkpoint: a refusal, or a fit that is what it says."""
    with folder() as here:
        path = here / "c"
        path.write_bytes(content)
        with refusing():
            model, X = _checkpointed(path, max_iter=20)
            if model.predict(X).tolist() != model.labels_.tolist():
                raise Finding("predict is not labels_ after a checkpoint")
            if model.score(X) != -model.inertia_:
                raise Finding("score is not -inertia_ after a checkpoint")
        _nothing_else(here, {"c"})


def _nothing_else(here, expected):
    others = {path.name for path in here.iterdir()} - expected
    if others:
        raise Finding(f"files appeared: {sorted(others)}")


# --- what is tried -----------------------------------------------------------------------------


@st.composite
def zarr_changes(draw):
    files = dict(draw(st.sampled_from(_zarr_files())))
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(files)))
        what = draw(st.integers(0, 4))
        if what == 0:
            files.pop(name)
            if not files:
                break
        elif name.endswith(".json") and what < 4:
            files[name] = draw(changed_text(files[name]))
        else:
            files[name] = edited(files[name], draw(EDITS))
    return files


@st.composite
def several(draw):
    kind = draw(st.sampled_from(["npy", "npy", "parquet", "arrow"]))
    good = arrays()[:6] if kind == "npy" else columnar(kind)[:2]
    contents = draw(st.lists(st.sampled_from(good), min_size=1, max_size=3))
    if draw(st.booleans()):
        contents[draw(st.integers(0, len(contents) - 1))] = draw(damaged(good))
    return contents, f".{kind}", draw(st.sampled_from(["pattern", "folder", "names"]))


@st.composite
def tables_with_endings(draw, contents, endings):
    return draw(damaged(contents)), draw(st.sampled_from(endings)), None


def _packed_texts():
    import gzip

    return [*texts(), *(gzip.compress(text, mtime=0) for text in texts()[:3])]


def _targets():
    texts_endings = [".csv", ".csv", ".tsv", ".txt", ".csv.gz", ".tab", ".npy"]
    return {
        "text tables": (lambda: tables_with_endings(_packed_texts(), texts_endings), read_table),
        "NPY": (
            lambda: tables_with_endings(arrays(), [".npy", ".npy", ".npy", ".csv"]),
            read_table,
        ),
        "Parquet": (
            lambda: tables_with_endings(columnar("parquet"), [".parquet", ".pq"]),
            read_table,
        ),
        "Arrow": (
            lambda: tables_with_endings(columnar("arrow"), [".arrow", ".feather", ".ipc"]),
            read_table,
        ),
        "Zarr": (zarr_changes, read_zarr),
        "several files": (several, read_several),
        "models": (lambda: changed_archive(models(), "model.json"), read_model),
        "checkpoints": (lambda: changed_archive(checkpoints(), "facts.json"), read_checkpoint),
    }


TARGETS = _targets()


def attempt(name, value):
    """Try one value of a target."""
    _, read = TARGETS[name]
    if read in (read_table, read_several):
        read(*value)
    else:
        read(value)
