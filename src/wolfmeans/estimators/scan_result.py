"""The result of a scan as a table, a figure and a few sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from wolfmeans.certificate.optimality import Standing, percent_sure, rounded_down
from wolfmeans.core.frames import to_frame
from wolfmeans.core.hooks import hook
from wolfmeans.estimators import KMeans, TrimmedKMeans
from wolfmeans.estimators.criteria import elbow, first_within_error

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Model = KMeans | TrimmedKMeans
_HEADER = (
    *("K", "alpha", "inertia", "lower bound", "optimality", "silhouette", "simplified"),
    *("Calinski-H.", "stability", "gap"),
)
_NONE = "-"
_COLUMNS = (
    *("n_clusters", "alpha", "inertia", "lower_bound", "ratio", "confidence", "silhouette"),
    *("simplified_silhouette", "calinski_harabasz", "stability", "gap", "gap_error"),
)
# Stabilities this close to the highest are as good; the largest K among them says most.
_AS_STABLE = 0.01
# The room on an axis of K: the number of ticks, and of digits on all of them together.
_MOST_TICKS, _MOST_DIGITS = 12, 24


@dataclass(frozen=True)
class Cell:
    """One fit of a scan."""

    n_clusters: int
    """K."""
    alpha: float
    """The trimmed fraction of the mass."""
    inertia: float
    """The inertia found, over the kept mass."""
    lower_bound: float | None
    """No clustering with this K and alpha has a lower inertia; None if no bound is known."""
    confidence: float | None
    """1.0 for a proof; else the probability that all such bounds of the scan hold jointly."""
    proven: float
    """The largest proven lower bound; 0 always holds."""
    silhouette: float
    """The mean silhouette, from all distances between points: of 2,000 of them if there are more.
    0 for one cluster, and for points that are alone in theirs."""
    seconds: float
    """Time taken by the fit and the bound."""
    model: Model
    """The fitted estimator."""
    simplified_silhouette: float = 0.0
    """Mean of (b - a) / b over the kept mass, where a is the distance to the own center and b the
    distance to the nearest other center; 0 for points that are alone in their cluster."""
    calinski_harabasz: float | None = None
    """Variance between clusters over variance within; None for one cluster."""
    stability: float | None = None
    """Mean adjusted Rand index of the clusterings of random halves; None if not computed."""
    gap: float | None = None
    """The gap statistic; None if not computed."""
    gap_error: float | None = None
    """Its standard error."""

    @property
    def ratio(self) -> float | None:
        """Inertia / lower bound; None if no bound is known."""
        if self.lower_bound is None:
            return None
        return 1.0 if self.inertia == self.lower_bound else self.inertia / self.lower_bound

    @property
    def standing(self) -> Standing:
        """What the lower bound says about the distance from the optimum."""
        return Standing(self.inertia, self.lower_bound, self.confidence)


@dataclass(frozen=True)
class Best:
    """The number of clusters that most criteria choose."""

    n_clusters: int
    alpha: float
    votes: dict[str, int]
    """The number of clusters that each criterion chooses."""
    reason: str
    """A sentence about the criteria."""


class Scan:
    """The cells of a scan as a table, a figure and a few sentences.

    Examples
    --------
    >>> import wolfmeans
    >>> result = wolfmeans.scan([[0.0], [1.0], [10.0], [11.0]], n_clusters=[1, 2], random_state=0)
    >>> result[2].inertia, result.needed(0.0), result.n_clusters
    (1.0, 2, [1, 2])
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.cells = tuple(sorted(cells, key=lambda cell: (cell.alpha, cell.n_clusters)))
        """One cell for each K and alpha, sorted by alpha and then by K."""

    def __getitem__(self, key: int | tuple[int, float]) -> Cell:
        """Return the cell of (K, alpha), or of K with the smallest alpha."""
        n_clusters, alpha = key if isinstance(key, tuple) else (key, self.alphas[0])
        for cell in self.cells:
            if cell.n_clusters == n_clusters and cell.alpha == alpha:
                return cell
        raise KeyError(f"no fit with n_clusters={n_clusters}, alpha={alpha} in this scan")

    @property
    def alphas(self) -> list[float]:
        """The trimmed fractions in ascending order."""
        return sorted({cell.alpha for cell in self.cells})

    @property
    def n_clusters(self) -> list[int]:
        """The numbers of clusters in ascending order."""
        return sorted({cell.n_clusters for cell in self.cells})

    def along_clusters(self, alpha: float) -> list[Cell]:
        """Return the cells of one alpha, sorted by K."""
        return [cell for cell in self.cells if cell.alpha == alpha]

    def along_alpha(self, n_clusters: int) -> list[Cell]:
        """Return the cells of one K, sorted by alpha."""
        return [cell for cell in self.cells if cell.n_clusters == n_clusters]

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def columns(self) -> dict[str, list[Any]]:
        """All columns by name."""
        return {name: [getattr(cell, name) for cell in self.cells] for name in _COLUMNS}

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame (needs pandas)."""
        return to_frame(self.columns())

    def plot(self) -> Figure:
        """Draw inertia with its certified bands, silhouettes and trimmed curves (matplotlib)."""
        figure: Figure = hook("scan_figure")(self)
        return figure

    def needed(self, alpha: float) -> int | None:
        """Return the largest K that is proven to beat every clustering with fewer clusters.

        Its inertia is below the proven lower bound for K - 1, which must be in the scan, too.
        """
        found = [
            more.n_clusters
            for fewer, more in pairwise(self.along_clusters(alpha))
            if more.n_clusters == fewer.n_clusters + 1 and more.inertia < fewer.proven
        ]
        return max(found, default=None)

    def clearest(self, alpha: float) -> Cell | None:
        """Return the cell with the highest silhouette; None if fewer than two cells have one.

        One cluster has no silhouette.
        """
        cells = [cell for cell in self.along_clusters(alpha) if cell.n_clusters > 1]
        return max(cells, key=lambda cell: cell.silhouette) if len(cells) > 1 else None

    @property
    def best(self) -> Best | None:
        """The number of clusters that most criteria choose, with the smallest alpha.

        None if the scan has fewer than two numbers of clusters above 1.
        """
        return self.best_of(self.alphas[0])

    def best_of(self, alpha: float) -> Best | None:
        """Return the number of clusters that most criteria choose; the silhouette breaks ties."""
        clearest = self.clearest(alpha)
        if clearest is None:
            return None
        votes = self._votes(alpha, clearest)
        counts = Counter(votes.values())
        most = max(counts.values())
        chosen = [k for k, count in counts.items() if count == most and k > 1]
        n_clusters = clearest.n_clusters if clearest.n_clusters in chosen or not chosen else 0
        n_clusters = n_clusters or min(chosen)
        return Best(n_clusters, alpha, votes, _reason(votes, n_clusters, self[n_clusters, alpha]))

    def _votes(self, alpha: float, clearest: Cell) -> dict[str, int]:
        """Return what each criterion chooses, where it chooses."""
        cells = self.along_clusters(alpha)
        several = [cell for cell in cells if cell.n_clusters > 1]
        votes = {"silhouette": clearest.n_clusters}
        known = [(c.calinski_harabasz, c.n_clusters) for c in several if c.calinski_harabasz]
        if len(known) > 1:
            votes["Calinski-Harabasz"] = max(known)[1]
        stable = [(c.stability, c.n_clusters) for c in several if c.stability is not None]
        if len(stable) > 1:
            enough = max(stable)[0] - _AS_STABLE
            votes["stability"] = max(k for value, k in stable if value >= enough)
        gaps = first_within_error([(c.n_clusters, c.gap, c.gap_error) for c in cells])
        further = {"gap statistic": gaps, "elbow": self.elbow(alpha)}
        return votes | {name: k for name, k in further.items() if k is not None}

    def elbow(self, alpha: float) -> int | None:
        """Return the K at which the curve of inertia bends most; None for fewer than three."""
        cells = self.along_clusters(alpha)
        return elbow([cell.n_clusters for cell in cells], [cell.inertia for cell in cells])

    def sentences(self) -> list[str]:
        """Return what the scan suggests, one sentence for each alpha."""
        result = []
        for alpha in self.alphas:
            cells = [cell for cell in self.along_clusters(alpha) if cell.n_clusters > 1]
            if not cells:
                continue
            best = self.best_of(alpha)
            text = f"alpha {alpha:g}: " if len(self.alphas) > 1 else ""
            if best is None:
                only = cells[0]
                text += (
                    f"the silhouette is {only.silhouette:.3f} at K = {only.n_clusters}, "
                    "the only K in this scan with a silhouette"
                )
            else:
                text += best.reason
            result.append(text + ".")
        return result

    def texts(self) -> list[tuple[str, ...]]:
        """Return the table as text, header first."""
        rows: list[tuple[str, ...]] = [_HEADER]
        for cell in self.cells:
            known = cell.lower_bound is not None
            unknown = "0" if cell.inertia == 0 else "unknown"
            # Rounded to the safe side first, and then written as all numbers here are.
            bound = unknown
            if cell.lower_bound:
                bound = written(float(rounded_down(cell.lower_bound, 6)), 6)
            if known and cell.confidence != 1.0:
                bound += f" ({percent_sure(cell.confidence or 0.0)})"
            rows.append(
                (
                    f"{cell.n_clusters}",
                    f"{cell.alpha:g}",
                    written(cell.inertia, 6),
                    bound,
                    cell.standing.brief,
                    *_criteria_texts(cell),
                )
            )
        shown = [j for j in range(len(_HEADER)) if any(row[j] != _NONE for row in rows[1:])]
        return [tuple(row[j] for j in shown) for row in rows]

    def __str__(self) -> str:
        rows = self.texts()
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        sides = [">" if j in number_columns(rows[0]) else "<" for j in range(len(widths))]
        columns = list(zip(sides, widths, strict=True))
        lines = [
            "  ".join(f"{c:{side}{w}}" for c, (side, w) in zip(row, columns, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self.sentences()])

    def __repr__(self) -> str:
        return f"<Scan: {len(self.cells)} fits; {' '.join(self.sentences())}>"

    def _repr_html_(self) -> str:
        html: str = hook("scan_view")(self)
        return html


def _criteria_texts(cell: Cell) -> list[str]:
    """Return the criteria of a cell as texts, with a mark for those that it does not have."""
    silhouettes = (cell.silhouette, cell.simplified_silhouette)
    several = [f"{value:.3f}" if cell.n_clusters > 1 else _NONE for value in silhouettes]
    ratio = cell.calinski_harabasz
    others = [f"{v:.3f}" if v is not None else _NONE for v in (cell.stability, cell.gap)]
    return [*several, _NONE if ratio is None else f"{ratio:.1f}", *others]


def _reason(votes: dict[str, int], chosen: int, cell: Cell) -> str:
    """Return a sentence: who chooses this K, and what the others choose."""
    values = {
        "silhouette": f" ({cell.silhouette:.3f})",
        "Calinski-Harabasz": "" if cell.calinski_harabasz is None else
        f" ({cell.calinski_harabasz:.1f})",
        "stability": "" if cell.stability is None else f" ({cell.stability:.3f})",
    }  # fmt: skip
    agree = [f"{name}{values.get(name, '')}" for name, k in votes.items() if k == chosen]
    others = [
        "the gap statistic finds no clusters" if k == 1 and "gap" in name else f"{name}: {k}"
        for name, k in votes.items()
        if k != chosen
    ]
    text = f"K = {chosen} is best by {_listed(agree)}"
    return text + (f"; {', '.join(others)}" if others else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def number_columns(header: Sequence[str]) -> list[int]:
    """Return which columns of the table hold numbers; words are aligned left."""
    return [place for place, name in enumerate(header) if name != "optimality"]


def written(value: float, digits: int) -> str:
    """Format a number with this many significant digits, including trailing zeros.

    Examples
    --------
    >>> written(168.14, 6), written(4.1451e9, 6), written(894450.0, 6), written(0.0, 6)
    ('168.140', '4.14510e+09', '894450', '0')
    """
    return f"{value:#.{digits}g}".removesuffix(".") if value else "0"


def ticks_of(numbers: Sequence[int]) -> list[int]:
    """Return the ticks of an axis of ascending integers: all of them if there is room.

    Otherwise, return multiples of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> ticks_of([2, 3, 4]), ticks_of(range(2, 31)), ticks_of([2, 3, 4, 100])
    ([2, 3, 4], [5, 10, 15, 20, 25, 30], [20, 40, 60, 80, 100])
    """
    first, last = numbers[0], numbers[-1]
    most = max(2, min(_MOST_TICKS, _MOST_DIGITS // len(str(last))))
    apart = min((after - before for before, after in pairwise(numbers)), default=1)
    if (last - first) / apart <= most - 1:
        return list(numbers)
    steps = (m * 10**power for power in count() for m in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step <= most - 1)
    return list(range(-(-first // step) * step, last + 1, step))
