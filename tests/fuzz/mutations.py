"""Damage to valid files: edits of bytes, of JSON, and of the members of a zip.

A random file is refused at its first bytes. A valid file with small changes gets deeper into a
reader; checksums are computed again.
"""

import io
import json
import warnings
import zipfile
from copy import deepcopy

from hypothesis import strategies as st

TOKENS = (
    b"\x00",
    b"\xff",
    b"\n",
    b"\r",
    b",",
    b";",
    b"\t",
    b'"',
    b"'",
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"1,5",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x90\xba",
    b"\xd9\xa1",
    b"\xc3",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"9999999999999999999",
    b"<f8",
    b">f8",
    b"|O",
    b"True",
    b"(3,)",
    b"{}",
    b"../",
)

VALUES = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    10**400,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "nan",
    "KMeans",
    "TrimmedKMeans",
    "<script>",
    "\ud800",
    "../../x",
    [],
    [0],
    [[]],
    ["a", "b"],
    {},
    {"a": 1},
)
"""Replacements for a value in a JSON text."""

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "put", "cut", "copy", "token", "end"]),
        st.integers(0, 2**20),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=6,
)


def edited(content, edits):
    """Return the bytes after some edits, each (what, where, how much)."""
    data = bytearray(content)
    for what, where, amount in edits:
        at = where % (len(data) + 1)
        if what == "flip" and data:
            data[at % len(data)] ^= 1 << amount % 8
        elif what == "put" and data:
            data[at % len(data)] = amount
        elif what == "cut":
            del data[at : at + 1 + amount % 32]
        elif what == "copy":
            data[at:at] = data[max(0, at - amount) : at]
        elif what == "token":
            token = TOKENS[amount % len(TOKENS)]
            data[at : at + (len(token) if amount & 32 else 0)] = token
        elif what == "end":
            del data[at:]
    return bytes(data)


@st.composite
def damaged(draw, contents):
    """One of some contents, with edits or as it is; now and then nothing but random bytes."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=80))
    content = draw(st.sampled_from(contents))
    return content if kind == 1 else edited(content, draw(EDITS))


def _places(node, path=()):
    """All places of a JSON tree, as lists of keys."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, below in items:
        if isinstance(below, (dict, list)):
            yield from _places(below, (*path, key))
        else:
            yield (*path, key)


@st.composite
def changed_tree(draw, tree):
    """The tree with one to three of its places replaced, removed or doubled."""
    tree = json.loads(json.dumps(tree))
    for _ in range(draw(st.integers(1, 3))):
        if not isinstance(tree, (dict, list)):
            break
        places = list(_places(tree))
        path = places[draw(st.integers(0, len(places) - 1))]
        if not path:
            return deepcopy(draw(st.sampled_from(VALUES)))
        node = tree
        for key in path[:-1]:
            node = node[key]
        what = draw(st.integers(0, 5))
        if what == 0:
            del node[path[-1]]
        elif what == 1 and isinstance(node, dict):
            node[draw(st.sampled_from(["a", "", "__class__", "init", "k" * 99]))] = 1
        else:
            # A copy: the next change may be inside it.
            node[path[-1]] = deepcopy(draw(st.sampled_from(VALUES)))
    return tree


@st.composite
def changed_text(draw, content):
    """A JSON text with other values; where it is none any more, with other bytes."""
    try:
        tree = json.loads(content)
    except ValueError:
        tree = None
    if not isinstance(tree, (dict, list)):
        return edited(content, draw(EDITS))
    return json.dumps(draw(changed_tree(tree))).encode()


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members, packing=zipfile.ZIP_STORED):
    """A zip of (name, content) pairs, names repeated where they are."""
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", packing) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, packing)
    return file.getvalue()


@st.composite
def changed_archive(draw, contents, text):
    """A zip of JSON and arrays with another JSON, other arrays, or members missing or doubled."""
    if draw(st.integers(0, 4)) == 0:
        return draw(damaged(contents))
    members = members_of(draw(st.sampled_from(contents)))
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(members)))
        what = draw(st.integers(0, 6))
        if name == text and what:
            members[name] = draw(changed_text(members[name]))
        elif what == 0:
            members.pop(name)
        elif what == 1:
            other = draw(st.sampled_from(["more.npy", "../x.npy", "/x", "a/b.npy", "init.npy"]))
            members[other] = members[name]
        elif what == 2:
            members[name] = members[draw(st.sampled_from(sorted(members)))]
        else:
            members[name] = edited(members[name], draw(EDITS))
        if not members or text not in members:
            break
    pairs = sorted(members.items())
    if pairs and draw(st.integers(0, 9)) == 0:
        pairs.append(pairs[0])
    packing = draw(st.sampled_from([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED]))
    return zipped(pairs, packing)
