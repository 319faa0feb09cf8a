"""Security: files from anywhere execute nothing, pages show nothing but text, nobody calls home."""

import io
import json
import os
import pickle
import tarfile
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from broken import fails_when
from processes import python
from samples import SCRIPT, blobs, cloud

import wolfmeans
from wolfmeans import KMeans, report
from wolfmeans.commands import cli
from wolfmeans.files import tables
from wolfmeans.inputs.opening import open_source

# --- models ----------------------------------------------------------------------------------


class Bomb:
    """Unpickling this makes a folder."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def _saved(path):
    KMeans(3, random_state=0).fit(blobs()[0]).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _pack(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _pickled(target):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(target)], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def _text(members, **changes):
    return {**members, "model.json": json.dumps({**json.loads(members["model.json"]), **changes})}


MALICIOUS = {
    "a pickle": lambda members, target: pickle.dumps(Bomb(target)),
    "a pickle as centers": lambda members, target: (
        members | {"cluster_centers_.npy": _pickled(target)}
    ),
    "a pickle as init": lambda members, target: members | {"init.npy": _pickled(target)},
    "a pickle under another name": lambda members, target: members | {"more.npy": _pickled(target)},
    "a pickle beside": lambda members, target: members | {"data.pkl": pickle.dumps(Bomb(target))},
    "another class": lambda members, target: _text(members, **{"class": "os.system"}),
    "a class of the package": lambda members, target: _text(
        members, **{"class": "CenterEstimator"}
    ),
    "an unknown parameter": lambda members, target: _text(
        members, parameters=json.loads(members["model.json"])["parameters"] | {"__reduce__": "x"}
    ),
    "a callback by name": lambda members, target: _text(
        members, parameters=json.loads(members["model.json"])["parameters"] | {"callback": "exit"}
    ),
    "a name that leads out": lambda members, target: members | {"../../labels_.npy": b"x"},
    "an absolute name": lambda members, target: members | {str(target): b"x"},
}


@fails_when("pickles_are_loaded", kind="a pickle")
@fails_when("pickles_are_loaded", kind="a pickle as centers")
@pytest.mark.parametrize("kind", MALICIOUS)
def test_loading_a_model_never_executes_code(kind, tmp_path):
    path, target = tmp_path / "model.wolf", tmp_path / "boom"
    members = MALICIOUS[kind](_saved(path), target)
    if isinstance(members, bytes):
        path.write_bytes(members)
    else:
        _pack(path, members)
    with pytest.raises(ValueError, match="not a wolfmeans model"):
        wolfmeans.load(path)
    assert sorted(tmp_path.iterdir()) == [path]
    assert not list(tmp_path.parent.glob("labels_*"))


@fails_when("pickles_in_tables_are_loaded")
def test_tables_that_hold_pickles_are_refused_and_not_executed(tmp_path):
    target = tmp_path / "boom"
    (tmp_path / "x.npy").write_bytes(_pickled(target))
    with pytest.raises((ValueError, TypeError)):
        tables.read([str(tmp_path / "x.npy")])
    with pytest.raises((ValueError, TypeError)):
        list(open_source(tmp_path / "x.npy").chunks(10))
    assert not target.exists()


@pytest.mark.skipif(find_spec("zarr") is None, reason="needs zarr")
@fails_when("pickles_in_tables_are_loaded", kind="a filter")
@fails_when("pickles_in_tables_are_loaded", kind="version 3")
@pytest.mark.parametrize("kind", ["a filter", "a compressor", "objects", "texts", "version 3"])
def test_zarr_arrays_whose_codec_unpickles_are_refused_and_not_executed(kind, tmp_path):
    target, folder = tmp_path / "boom", tmp_path / "x.zarr"
    codec = {"id": "pickle", "protocol": 4}
    two = {"zarr_format": 2, "shape": [4, 2], "chunks": [4, 2], "order": "C", "fill_value": 0}
    two |= {"dtype": "<f8", "compressor": None, "filters": None}
    metadata = {
        "a filter": two | {"filters": [codec]},
        "a compressor": two | {"compressor": codec},
        "objects": two | {"dtype": "|O", "filters": [codec]},
        "texts": two | {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, codec], "fill_value": ""},
        "version 3": {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [4, 2],
            "data_type": "float64",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 2]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0,
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "numcodecs.pickle", "configuration": {}},
            ],
        },
    }[kind]
    chunk = folder / ("c/0/0" if kind == "version 3" else "0.0")
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(pickle.dumps(Bomb(target)))
    (folder / ("zarr.json" if kind == "version 3" else ".zarray")).write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match=r"x\.zarr"):
        list(open_source(folder).chunks(10))
    assert not target.exists()
    with pytest.raises(ValueError, match=r"x\.zarr"):
        KMeans(2).fit(str(folder))
    assert not target.exists()


# --- pages -----------------------------------------------------------------------------------

HOSTILE = (
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "<!--",
    "javascript:alert(3)",
    "{{7*7}}${7*7}",
)


class Tags(HTMLParser):
    """Collects elements, and attributes that could run something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.running = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.running.append((tag, name, value))


def _shape(html):
    found = Tags(html)
    assert found.running == []
    return found.tags


@fails_when("strings_unescaped")
def test_a_page_escapes_the_names_of_columns():
    X = np.random.default_rng(0).normal(size=(60, len(HOSTILE)))
    model = KMeans(3, random_state=0).fit(X)
    plain = [f"column {j}" for j in range(len(HOSTILE))]
    pages = [
        report.page(model, X, names=names, title=title).html
        for names, title in ((plain, "title"), (list(HOSTILE), SCRIPT))
    ]
    assert _shape(pages[0]) == _shape(pages[1])
    assert SCRIPT not in pages[1]
    # They are shown, all the same.
    assert "&lt;script&gt;alert(" in pages[1]


@fails_when("strings_unescaped")
def test_a_page_escapes_the_names_that_a_frame_brings():
    X = np.random.default_rng(0).normal(size=(60, len(HOSTILE)))
    pages = []
    for names in ([f"column {j}" for j in range(len(HOSTILE))], HOSTILE):
        frame = pd.DataFrame(X, columns=list(names))
        pages.append(report.page(KMeans(3, random_state=0).fit(frame), frame).html)
    assert _shape(pages[0]) == _shape(pages[1])
    assert SCRIPT not in pages[1]


@fails_when("strings_unescaped")
def test_the_command_escapes_names_of_columns_and_files_in_its_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 2))
    name = "<img src=x onerror=alert(1)>.csv"
    pd.DataFrame(X, columns=[SCRIPT, HOSTILE[1]]).to_csv(name, index=False)
    assert cli.main(["fit", name, "-k", "3", "--page", "page.html", "--quiet"]) == 0
    html = (tmp_path / "page.html").read_text()
    assert Tags(html).running == []
    assert SCRIPT not in html
    assert "img" not in Tags(html).tags


@pytest.mark.long
@fails_when("strings_unescaped", command="scan")
@fails_when("strings_unescaped", command="study")
@pytest.mark.parametrize("command", ["scan", "study"])
def test_other_commands_escape_names_of_files_in_their_pages(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 2))
    pages = []
    for name in ("plain.csv", "<img src=x onerror=alert(1)>.csv"):
        pd.DataFrame(X, columns=[SCRIPT, HOSTILE[1]]).to_csv(name, index=False)
        arguments = {
            "scan": ["scan", name, "-k", "2:3", "--page", "page.html", "--quiet"],
            "study": ["study", "data", name, "--k", "2", "-r", "3", "--out", name[:4]],
        }[command]
        assert cli.main(arguments) == 0
        folder = tmp_path if command == "scan" else tmp_path / name[:4]
        pages.append((folder / "page.html").read_text())
    # Figures of a study write names as outlines: not the same elements, but none of other kinds.
    assert set(_shape(pages[0])) == set(_shape(pages[1]))
    assert "img src" in pages[1] and "<img src=x" not in pages[1]
    assert SCRIPT not in pages[1]


@fails_when("strings_unescaped")
def test_a_notebook_escapes_what_notes_say():
    model = KMeans(3, random_state=0).fit(blobs()[0])
    plain = model.certificate_._repr_html_()
    hostile = replace(model.certificate_, notes=HOSTILE)._repr_html_()
    assert SCRIPT not in hostile
    assert set(_shape(hostile)) == set(_shape(plain))


# --- the network -----------------------------------------------------------------------------

ALONE = """
import socket, sys
tried = []
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind",
                 "socket.sendto", "urllib.Request", "http.client.connect"):
        tried.append((event, str(arguments[-1])))
        raise PermissionError("there is no network here")
sys.addaudithook(refuse)
"""


@fails_when("usage_is_reported_home")
def test_no_network_access_from_python_and_from_the_command(tmp_path):
    X, _ = blobs()
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b", comments="")
    said = python(
        ALONE
        + """
import numpy as np
import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans, cli, report
from wolfmeans.files.datasets import load_banknotes, load_segmentation
X = np.loadtxt("x.csv", delimiter=",", skiprows=1)
for address in ("http://127.0.0.1:9/x.npy", "HTTPS://127.0.0.1:9/*.parquet", "s3://b/x.parquet"):
    for read in (KMeans(2, memory_limit="1GB").fit, wolfmeans.load):
        try:
            read(address)
        except (ValueError, OSError):
            continue
        print("read", address)
np.save("x.npy", X)
KMeans(3, init="k-means||", memory_limit="1GB", random_state=0).fit("x.npy")
model = KMeans(3, random_state=0).fit(X)
model._repr_html_(), wolfmeans.scan(X, [2, 3], random_state=0)
TrimmedKMeans(3, n_init=1, random_state=0).fit(X)
report.page(model, X).save("own.html")
load_banknotes(), load_segmentation()
commands = (
    "fit x.csv -k 3 --model m.wolf --labels l.csv --page p.html --quiet",
    "predict m.wolf x.csv --labels q.csv --quiet",
    "certify x.csv l.csv",
    "scan x.csv -k 2:4 --page s.html --quiet",
    "study data x.csv --k 2 -r 2 --out study --no-report",
    "info",
)
codes = [cli.main(command.split()) for command in commands]
print(f"\\ncodes {codes} tried {tried}")
""",
        cwd=tmp_path,
    )
    assert said.splitlines()[-1] == "codes [0, 0, 0, 0, 0, 0] tried []"
    assert "read" not in said.split()


@fails_when("strings_unescaped")
def test_a_page_asks_the_network_for_nothing():
    X = cloud(60, 2)
    html = report.page(
        KMeans(3, random_state=0).fit(X), X, names=["<link href='http://x/'>", "b"]
    ).html
    found = []

    class References(HTMLParser):
        def handle_starttag(self, tag, attributes):
            for name, value in attributes:
                if name in ("src", "href", "srcset", "action", "data") and tag != "a":
                    found.append(value or "")

    References().feed(html)
    assert not [value for value in found if not value.startswith(("#", "data:"))]


# --- paths -----------------------------------------------------------------------------------


@fails_when("archives_are_unpacked")
def test_an_archive_is_no_table_and_nothing_is_unpacked(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    payload = b"a,b\n1,2\n3,4\n"
    with tarfile.open(inside / "x.tar", "w") as archive:
        member = tarfile.TarInfo("../escaped.csv")
        member.size = len(payload)
        archive.addfile(member, io.BytesIO(payload))
    with zipfile.ZipFile(inside / "x.zip", "w") as archive:
        archive.writestr("../escaped.csv", payload)
    before = sorted(tmp_path.rglob("*"))
    for name in ("x.tar", "x.zip"):
        with pytest.raises((ValueError, TypeError, OSError)):
            tables.read([str(inside / name)])
        with pytest.raises((ValueError, TypeError, OSError)):
            open_source(inside / name)
    assert sorted(tmp_path.rglob("*")) == before


@fails_when("patterns_reach_further")
def test_a_pattern_reads_what_it_matches_and_nothing_else(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    X = cloud(10, 2)
    np.save(inside / "part-1.npy", X)
    np.save(inside / "part-2.npy", X)
    np.save(inside / "other.npy", X)
    np.save(outside / "part-3.npy", X)
    (inside / "below").mkdir()
    np.save(inside / "below" / "part-4.npy", X)
    assert open_source(str(inside / "part-*.npy")).n_rows == 20
    # A name that looks like a pattern is that file, if there is one.
    np.save(inside / "part-[1].npy", cloud(3, 2))
    assert open_source(inside / "part-[1].npy").n_rows == 3
