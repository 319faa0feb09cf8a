"""Clusterings of all kinds, and a strict reader of the HTML that is made of them."""

import warnings
from html.parser import HTMLParser

import numpy as np
from scipy import sparse

from wolfmeans import KMeans, TrimmedKMeans

HOSTILE = "<script>alert('x')</script> & \"quotes\" </title> <!-- ${x} --> </script></td></style>"
VOID = {"meta", "br", "img", "link", "input", "hr", "source"}


def points(n=120, d=3, seed=0):
    """Return points of some overlapping clusters."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 2 + 3.0 * rng.integers(0, 4, size=(n, 1))


def fit_quietly(model, X, **arguments):
    """Fit without the warnings of the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **arguments)


SITUATIONS = {
    "ordinary": lambda: (KMeans(4, random_state=0), points()),
    "one cluster": lambda: (KMeans(1), points()),
    "one column": lambda: (KMeans(3, random_state=0), points(d=1)),
    "two columns": lambda: (KMeans(3, random_state=0), points(d=2)),
    "one point": lambda: (KMeans(1), np.array([[1.0, 2.0, 3.0]])),
    "equal points": lambda: (KMeans(1), np.ones((5, 2))),
    "a point each": lambda: (KMeans(5, random_state=0), points(5)),
    "an empty cluster": lambda: (
        KMeans(3, init=[[0.0, 0], [9, 9], [500, 500]], n_init=1, empty="keep"),
        points(d=2),
    ),
    "outliers": lambda: (
        TrimmedKMeans(3, trim=9, random_state=0),
        np.vstack([points(), [[1e9] * 3]]),
    ),
    "trimmed": lambda: (TrimmedKMeans(3, alpha=0.1, random_state=0), points()),
    "float32": lambda: (KMeans(3, random_state=0), points().astype(np.float32)),
    "sparse": lambda: (KMeans(3, random_state=0), sparse.csr_array(np.maximum(points(), 0))),
    "stationary at once": lambda: (KMeans(2, init=[[0.0], [9.0]]), np.array([[0.0], [9.0]])),
    "not converged": lambda: (KMeans(4, random_state=0, time_limit=0.0), points()),
    "polished": lambda: (KMeans(6, random_state=0, polish="swap"), points()),
    "huge": lambda: (KMeans(3, random_state=0), points() * 1e200),
    "tiny": lambda: (KMeans(3, random_state=0), points() * 1e-200),
    "far": lambda: (KMeans(3, random_state=0), points() + 1e8),
    "many clusters": lambda: (KMeans(70, random_state=0, bound=None), points(300)),
    "many columns": lambda: (KMeans(3, random_state=0), points(d=60)),
}
"""A model that is not fitted, and its points."""


class Document(HTMLParser):
    """Collects tags, texts, tables and references; elements must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.attributes = [], [], []
        self.pieces, self.rows, self.blocks = {}, {}, {}
        self.table = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        given = dict(attributes)
        if "table" in given.get("class", "").split():
            self.table = given["data-name"]
        if tag == "tr":
            self.rows.setdefault(self.table, []).append([])
        if tag in {"th", "td"}:
            self.rows[self.table][-1].append("")
        if tag == "script":
            self.kind = given.get("type", "script")
            self.blocks[self.kind] = ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            self.attributes.append((tag, name, value))
            assert "url(" not in (value or ""), f"{tag} has {name}={value}"
            assert not name.startswith("on"), f"{tag} has {name}"

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        if not self.open:
            return
        self.pieces.setdefault(self.open[-1], []).append(data)
        if self.open[-1] == "script":
            self.blocks[self.kind] += data
        if {"th", "td"} & set(self.open):
            self.rows[self.table][-1][-1] += data

    @property
    def texts(self):
        """The whole text of all elements of a tag."""
        return {tag: "".join(pieces) for tag, pieces in self.pieces.items()}

    def values(self, *names):
        """The values of all attributes of these names."""
        return [value for _, name, value in self.attributes if name in names]
