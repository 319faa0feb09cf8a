"""Sums of clusters where many rows move: sorted by clusters first, to the same sums."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from test_gpu_few_sums import DIGIT, numbers

from both_engines import assert_same_fits
from interpreted import needs_triton

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton


class Lists:
    """Rows and clusters with no more than what moving takes."""

    def __init__(self, X, K, high, digits, replicas=2):
        import torch

        from wolfmeans.engines.gpu.kernels.bulk_sums import tally_size
        from wolfmeans.engines.gpu.rows import Rows

        n, d = X.shape
        device = "cuda" if torch.cuda.is_available() else "cpu"

        def filled(value, *shape, dtype=torch.int32):
            return torch.full(shape, value, dtype=dtype, device=device)

        self.rows = Rows.__new__(Rows)
        self.rows.masses = None
        self.rows.data = SimpleNamespace(
            n=n, d=d, X=torch.from_numpy(X).to(device), high=high, digits=digits
        )
        # What is in the lists is of no use, and wrong.
        lists = filled(-7, 6, -(-n // 4) * 4)
        self.rows.active, self.rows.open_rows, self.rows.crowded, self.rows.hard_rows = lists[:4]
        self.rows.moved_rows, self.rows.moved_from = lists[4:]
        self.rows.candidates = filled(-7, n, 8)
        self.rows.labels = filled(-1, n)
        self.clusters = SimpleNamespace(
            n_clusters=K,
            state=filled(0, 16),
            sums=filled(0, digits, replicas, K * d, dtype=torch.int64),
            arrivals=filled(0, K, dtype=torch.int64),
            tally=filled(0, tally_size(K)),
            replicas=replicas,
        )
        self.labels = np.full(n, -1, dtype=np.int32)
        unit = Fraction(2) ** (high - 32 * digits)
        whole = [[int(Fraction(x) / unit) for x in row] for row in X.tolist()]
        self.whole = np.array(whole, dtype=object)

    def move(self, rows, new, before=None):
        """Give rows new labels; their old ones are those that they have, unless they are given."""
        import torch

        from wolfmeans.engines.gpu.kernels.lists import MOVED

        old = self.labels[rows] if before is None else before
        self.labels[rows] = new
        at = len(rows)
        self.rows.labels.copy_(torch.from_numpy(self.labels))
        self.rows.moved_rows[:at] = torch.tensor(rows, dtype=torch.int32)
        self.rows.moved_from[:at] = torch.tensor(old, dtype=torch.int32)
        self.clusters.state[MOVED.value] = at
        self.rows.move(self.clusters)
        left = self.clusters.tally.cpu().numpy()
        assert not left[8:].any()
        assert left[0] == 0

    def found(self):
        """Return the sums as whole numbers of the lowest unit, and the members."""
        sums = self.clusters.sums.cpu().numpy().sum(axis=1).astype(object)
        total = sums[0]
        for lower in sums[1:]:
            total = total * DIGIT + lower
        d = self.rows.data.d
        return total.reshape(-1, d), self.clusters.arrivals.cpu().numpy()


def expected(whole, labels, K):
    sums = np.zeros((K, whole.shape[1]), dtype=object)
    for row, k in enumerate(labels):
        if k >= 0:
            sums[k] += whole[row]
    return sums, np.bincount(labels[labels >= 0], minlength=K)


@pytest.fixture
def sorting(monkeypatch):
    """Sort however few rows there are; return a list of the kernels that were launched."""
    from wolfmeans.engines.gpu import rows as module

    monkeypatch.setattr(module, "_MANY_NUMBERS", 1)
    monkeypatch.setattr(module, "_MANY_OF_A_CLUSTER", 0)
    monkeypatch.setattr(module, "FEW_CLUSTERS", 0)
    launched = []

    def launch(kernel, *args, **named):
        launched.append(kernel.fn.__name__)
        original(kernel, *args, **named)

    original = module.launch
    monkeypatch.setattr(module, "launch", launch)
    return launched


def check(lists, K):
    sums, members = lists.found()
    their_sums, their_members = expected(lists.whole, lists.labels, K)
    assert (sums == their_sums).all()
    assert (members == their_members).all()


@pytest.mark.parametrize(
    ("n", "d", "K", "kind", "dtype"),
    [
        (64, 1, 1, "whole", "float32"),  # one digit, one cluster, a piece that is full
        (400, 40, 1, "plain", "float32"),  # several pieces of one run
        (129, 3, 2, "plain", "float32"),
        (300, 5, 37, "plain", "float64"),
        (260, 33, 20, "plain", "float32"),
        (80, 130, 3, "plain", "float32"),  # two blocks of columns
        (150, 4, 7, "wide", "float32"),  # three digits
        (90, 2, 5, "wide", "float64"),  # four
        (600, 2, 70, "whole", "float32"),
    ],
)
def test_all_rows_come_some_move_and_some_return(n, d, K, kind, dtype, sorting):
    X, high, digits = numbers(n, d, kind, dtype)
    rng = np.random.default_rng(K)
    lists = Lists(X, K, high, digits)
    lists.move(rng.permutation(n), rng.integers(0, K, n))
    check(lists, K)
    before = lists.labels.copy()
    some = rng.permutation(n)[: n // 2]
    lists.move(some, rng.integers(0, K, len(some)))
    check(lists, K)
    lists.move(some, before[some])
    check(lists, K)
    lists.move(some[:1], (before[some[:1]] + 1) % K)
    check(lists, K)
    assert set(sorting) == {"move_or_count", "sort_rows", "add_runs"}


@pytest.mark.parametrize("counts", [[63, 1, 64, 0, 65, 128, 2], [0, 0, 0, 321, 0], [129, 127, 256]])
@pytest.mark.parametrize(("d", "shares"), [(3, 1), (40, 1), (3, 8)])
def test_borders_of_pieces(counts, d, shares, sorting, monkeypatch):
    from wolfmeans.engines.gpu.kernels import bulk_sums

    monkeypatch.setattr(bulk_sums, "most_shares", lambda K: shares)
    K, n = len(counts), sum(counts)
    X, high, digits = numbers(n, d, "plain", "float32")
    lists = Lists(X, K, high, digits)
    rng = np.random.default_rng(n)
    rows = rng.permutation(n)
    lists.move(rows, np.repeat(np.arange(K), counts)[rows])
    check(lists, K)
    # All of them go where the next ones were.
    lists.move(rows, (lists.labels[rows] + 1) % K)
    check(lists, K)


def test_some_come_while_others_move_and_some_stay_where_they_are(sorting):
    n, d, K = 200, 6, 9
    X, high, digits = numbers(n, d, "plain", "float32")
    rng = np.random.default_rng(1)
    lists = Lists(X, K, high, digits)
    lists.move(np.arange(0, n, 2), rng.integers(0, K, n // 2))
    new = rng.integers(0, K, n)
    new[::4] = lists.labels[::4]
    lists.move(np.arange(n), new)
    check(lists, K)


@pytest.mark.parametrize("K", [3, 300])
def test_few_rows_and_many_clusters_go_by_atomics(K, sorting, monkeypatch):
    from wolfmeans.engines.gpu import rows as module

    n, d = 60, 5
    X, high, digits = numbers(n, d, "plain", "float32")
    rng = np.random.default_rng(2)
    monkeypatch.setattr(module, "_MANY_NUMBERS", 20 * d)
    lists = Lists(X, K, high, digits)
    lists.move(np.arange(19), rng.integers(0, K, 19))
    check(lists, K)
    lists.move(np.arange(n), rng.integers(0, K, n))
    check(lists, K)
    assert ("add_runs" in sorting) == (n >= 8 * K)


@pytest.mark.parametrize(("count", "done"), [(0, 0), (90, 1)])
def test_nothing_moves_without_rows_or_after_the_end(count, done, sorting):
    from wolfmeans.engines.gpu.kernels.lists import DONE

    X, high, digits = numbers(90, 3, "plain", "float32")
    lists = Lists(X, 4, high, digits)
    lists.clusters.state[DONE.value] = done
    lists.move(np.arange(count), np.zeros(count, dtype=np.int32))
    sums, members = lists.found()
    assert not sums.any()
    assert not members.any()


@pytest.mark.parametrize(
    ("n", "K", "d", "dtype", "offset"),
    [(150, 2, 9, "float64", 0.0), (200, 7, 17, "float32", 0.0), (300, 30, 12, "float64", 1e8)],
)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_fits_are_those_of_the_cpu_engine(n, K, d, dtype, offset, sorting):
    X = (np.random.default_rng(5).normal(size=(n, d)) + offset).astype(dtype)
    assert_same_fits(X, K)
    assert "add_runs" in sorting
