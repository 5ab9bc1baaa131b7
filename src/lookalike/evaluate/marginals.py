"""Distances between the marginals, and between the range queries, of two integer-coded tables. NOT PRIVATE."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.errors import InputError
from lookalike.schema.domain import ColumnSet, Domain, cell_keys
from lookalike.sources.base import Source

# Counting touches every cell once, sorting every row about ten times: below this ratio counting is faster.
_DENSE_CELLS_PER_ROW = 4
MAX_COUNTED_CELLS = 1 << 22
"""Cells of the marginals of tables outside memory that are compared at a time: 64 MB of counts of both."""


@dataclass(frozen=True, slots=True, eq=False)
class MarginalDistances:
    """Total variation distances of a list of marginals.

    Attributes:
        cliques: the column sets, in the order in which they were compared.
        distances: one distance per column set, between 0 (equal) and 1 (no common row).
    """

    cliques: list[ColumnSet]
    distances: np.ndarray

    @property
    def mean(self) -> float:
        """The mean distance, which the papers plot."""
        return float(self.distances.mean())

    @property
    def worst(self) -> float:
        """The largest distance."""
        return float(self.distances.max())

    def ranked(self) -> list[tuple[ColumnSet, float]]:
        """Return the column sets with their distances, the worst first."""
        order = np.argsort(-self.distances, kind="stable")
        return [(self.cliques[i], float(self.distances[i])) for i in order]


class TablePair:
    """Two tables of one domain, stacked so that one pass computes the cell numbers of both.

    Args:
        real_codes: integer codes of shape (rows, columns), in domain order.
        synth_codes: the same for the other table; the numbers of rows may differ.
        domain: names and sizes of the columns.
    """

    def __init__(self, real_codes: np.ndarray, synth_codes: np.ndarray, domain: Domain) -> None:
        for name, codes in (("first", real_codes), ("second", synth_codes)):
            _check_codes(name, codes, domain)
        self.domain = domain
        self.real_rows = len(real_codes)
        self.synth_rows = len(synth_codes)
        self._columns = np.asfortranarray(np.concatenate([real_codes, synth_codes]).astype(np.int32, copy=False))

    @property
    def real(self) -> np.ndarray:
        """The codes of the first table."""
        return self._columns[: self.real_rows]

    @property
    def synth(self) -> np.ndarray:
        """The codes of the second table."""
        return self._columns[self.real_rows :]

    def keys(self, attrs: Iterable[str]) -> tuple[np.ndarray, int]:
        """Return the cell number of every stacked row on `attrs`, and a bound on the numbers; see `cell_keys`."""
        return cell_keys(self._columns, [self.domain.position(name) for name in attrs], self.domain.sizes)

    def counts(self, attrs: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts of both tables in the cells of the marginal, in C order.

        Cells that are empty in both tables are left out if the marginal has many.
        """
        keys, cells = self.keys(attrs)
        if cells <= _DENSE_CELLS_PER_ROW * len(keys):
            real, synth = keys[: self.real_rows], keys[self.real_rows :]
            return np.bincount(real, minlength=cells), np.bincount(synth, minlength=cells)
        keys *= 2
        keys[self.real_rows :] += 1
        keys = np.sort(keys.astype(np.int32) if cells < 2**30 else keys)
        starts = np.flatnonzero(np.concatenate(([True], (keys[1:] >> 1) != (keys[:-1] >> 1))))
        both = np.diff(np.append(starts, len(keys)))
        synth = np.add.reduceat(keys & 1, starts).astype(np.int64)
        return both - synth, synth

    def distance(self, attrs: Iterable[str]) -> float:
        """Return the total variation distance of the marginals on `attrs`: half the L1 distance of frequencies."""
        return _distance(*self.counts(attrs), self)

    def distances(self, cliques: Sequence[ColumnSet]) -> np.ndarray:
        """Return the distances of many marginals."""
        return np.array([self.distance(clique) for clique in cliques])

    def square(self, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the 2-way counts of both tables as matrices, without values that do not occur if there are many."""
        shape = self.domain.shape((first, second))
        if shape[0] * shape[1] <= 4 * (self.real_rows + self.synth_rows):
            one, two = self.counts((first, second))
            return one.reshape(shape), two.reshape(shape)
        stacked = self._columns[:, [self.domain.position(first), self.domain.position(second)]]
        rows, row_of = np.unique(stacked[:, 0], return_inverse=True)
        columns, column_of = np.unique(stacked[:, 1], return_inverse=True)
        key, cells = row_of * len(columns) + column_of, len(rows) * len(columns)
        one, two = (np.bincount(part, minlength=cells) for part in (key[: self.real_rows], key[self.real_rows :]))
        return one.reshape(len(rows), -1), two.reshape(len(rows), -1)


class CountedPair:
    """Two tables of one domain of which only counts are read, wherever their rows are.

    Args:
        real: exact counts of the first table.
        synth: exact counts of the other one.
    """

    def __init__(self, real: Source, synth: Source) -> None:
        self.domain, self._sources = real.domain, (real, synth)
        self.real_rows, self.synth_rows = (int(source.counts([()])[0]) for source in self._sources)
        for name, rows in (("first", self.real_rows), ("second", self.synth_rows)):
            if not rows:
                raise InputError(f"The {name} table has no rows; a comparison needs at least 1.")
        self._squares: dict[ColumnSet, tuple[np.ndarray, np.ndarray]] = {}

    def counts(self, attrs: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts of both tables in all cells of the marginal, in C order."""
        one, two = (source.counts([self.domain.canonical(attrs)])[0].ravel() for source in self._sources)
        return one, two

    def distances(self, cliques: Sequence[ColumnSet]) -> np.ndarray:
        """Return the total variation distances of many marginals, in few passes over the rows."""
        return np.array([_distance(one, two, self) for _, one, two in self._counted(cliques)])

    def distance(self, attrs: Iterable[str]) -> float:
        """Return the total variation distance of the marginals on `attrs`."""
        return _distance(*self.counts(attrs), self)

    def square(self, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the 2-way counts of both tables as matrices. Those of all pairs are counted at the first call."""
        if not self._squares:
            pairs = list(combinations(self.domain.names, 2))
            self._squares = {clique: (one, two) for clique, one, two in self._counted(pairs)}
        return self._squares[first, second]

    def _counted(self, cliques: Sequence[ColumnSet]) -> Iterator[tuple[ColumnSet, np.ndarray, np.ndarray]]:
        """The counts of column sets, as many at a time as fit into memory."""
        start = 0
        while start < len(cliques):
            cells = np.cumsum([self.domain.cells(clique) for clique in cliques[start:]])
            end = start + max(1, int(np.searchsorted(cells, MAX_COUNTED_CELLS, side="right")))
            asked = cliques[start:end]
            yield from zip(asked, *(source.counts(asked) for source in self._sources), strict=True)
            start = end


def _distance(real: np.ndarray, synth: np.ndarray, pair: TablePair | CountedPair) -> float:
    """Half the L1 distance of the frequencies."""
    return 0.5 * float(np.abs(real / pair.real_rows - synth / pair.synth_rows).sum())


def random_cliques(domain: Domain, k: int, sets: int | None = 300, seed: int = 0) -> list[ColumnSet]:
    """Return all sets of `k` columns, or `sets` random ones if there are more; equal arguments give equal sets.

    >>> random_cliques(Domain(("a", "b", "c"), (2, 2, 2)), 2)
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    d = len(domain)
    if not 1 <= k <= d:
        raise InputError(f"Marginals of {k} columns were asked for; this table has marginals of 1 to {d} columns.")
    if sets is None or math.comb(d, k) <= sets:
        return list(combinations(domain.names, k))
    rng = np.random.default_rng([seed, k])
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < sets:
        chosen.add(tuple(sorted(rng.permutation(d)[:k].tolist())))
    return [tuple(domain.names[i] for i in picked) for picked in sorted(chosen)]


def distances_of(pair: TablePair | CountedPair, cliques: Sequence[ColumnSet]) -> MarginalDistances:
    """Return the total variation distances of the marginals of these column sets: 1/2 * sum of |real/n - synth/m|.

    PrivMRF (section 5.1) prints the L1 distance, which is twice this; BSG (section 6.2) and the papers of MST and AIM
    have other factors again.

    >>> pair = TablePair(np.array([[0, 0], [1, 1]]), np.array([[0, 1], [1, 0]]), Domain(("x", "y"), (2, 2)))
    >>> distances_of(pair, [("x",), ("y",), ("x", "y")]).distances.tolist()
    [0.0, 0.0, 1.0]
    """
    return MarginalDistances(list(cliques), pair.distances(cliques))


def _check_codes(name: str, codes: np.ndarray, domain: Domain) -> None:
    if codes.ndim != 2 or codes.shape[1] != len(domain):
        raise InputError(f"The {name} table has shape {codes.shape}; the domain has {len(domain)} columns.")
    if not len(codes):
        raise InputError(f"The {name} table has no rows; a comparison needs at least 1.")
    if not np.issubdtype(codes.dtype, np.integer):
        raise InputError(f"The {name} table holds {codes.dtype}; encode it with the schema's codec first.")
    low, high = codes.min(axis=0), codes.max(axis=0)
    for column, size, smallest, largest in zip(domain.names, domain.sizes, low, high, strict=True):
        if smallest < 0 or largest >= size:
            raise InputError(f"Column {column!r} of the {name} table holds codes outside 0..{size - 1}.")


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The share of rows with low <= code <= high in every column of a set.

    Attributes:
        attrs: the columns, in domain order.
        low: the smallest code inside, for each column.
        high: the largest code inside, for each column.
    """

    attrs: ColumnSet
    low: tuple[int, ...]
    high: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.attrs) == len(self.low) == len(self.high):
            raise ValueError(f"{len(self.attrs)} columns need as many lower and upper ends")
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"a range of {self.attrs} ends before it starts")

    def share(self, codes: np.ndarray, domain: Domain) -> float:
        """Return the share of the rows of `codes` that are inside."""
        inside = np.ones(len(codes), dtype=bool)
        for name, low, high in zip(self.attrs, self.low, self.high, strict=True):
            column = codes[:, domain.position(name)]
            # Every row is inside an end at the edge of the domain, so no comparison is needed.
            if low > 0:
                inside &= column >= low
            if high < domain.size(name) - 1:
                inside &= column <= high
        return float(np.count_nonzero(inside)) / len(codes)


@dataclass(frozen=True, slots=True, eq=False)
class RangeErrors:
    """Errors of range queries, as shares of the rows.

    Attributes:
        queries: the queries.
        real: answers of the first table.
        synth: answers of the second table.
    """

    queries: list[RangeQuery]
    real: np.ndarray
    synth: np.ndarray

    @property
    def mean_squared(self) -> float:
        """The mean of squared differences: the range query error of PPSyn (section 5, metric 2)."""
        return float(((self.real - self.synth) ** 2).mean())

    @property
    def mean_absolute(self) -> float:
        return float(np.abs(self.real - self.synth).mean())

    @property
    def mean_relative(self) -> float:
        """The mean of |difference| / max(real, 0.1%); without the floor small answers would dominate."""
        return float((np.abs(self.real - self.synth) / np.maximum(self.real, 1e-3)).mean())


def skewed_cliques(domain: Domain, k: int, sets: int, seed: int = 0) -> list[ColumnSet]:
    """Return `sets` different sets of `k` columns, drawn by random weights of the columns.

    As in AIM and PPSyn (section 5.1.2): the weight of a column is the square of a standard exponential draw, and the
    columns of a set are drawn one after the other, in proportion to the weights of those left. Returns all sets if
    there are at most `sets`. Equal arguments give equal sets.

    >>> len(set(skewed_cliques(Domain(tuple("abcdef"), (2,) * 6), 3, 10)))
    10
    """
    if math.comb(len(domain), k) <= sets:
        return random_cliques(domain, k, None)
    rng = np.random.default_rng([seed, k, 11])
    weights = rng.exponential(size=len(domain)) ** 2
    chosen: dict[ColumnSet, None] = {}
    while len(chosen) < sets:
        # The k smallest of exponential times with rates `weights` are such a draw without replacement.
        times = rng.exponential(size=len(domain)) / weights
        chosen[tuple(domain.names[i] for i in sorted(np.argsort(times)[:k].tolist()))] = None
    return sorted(chosen, key=lambda attrs: [domain.position(name) for name in attrs])


def random_ranges(
    domain: Domain, k: int, sets: int, per_set: int = 10, seed: int = 0, *, skewed: bool = False
) -> list[RangeQuery]:
    """Return `per_set` queries on each of at most `sets` random column sets, with uniform ends.

    Equal arguments give equal queries. PPSyn takes 210 sets of three columns and 37 of five, `skewed` towards some
    columns; its paper does not say how many queries on each.
    """
    rng = np.random.default_rng([seed, k, 7])
    queries = []
    for attrs in (skewed_cliques if skewed else random_cliques)(domain, k, sets, seed):
        sizes = np.array(domain.shape(attrs))
        ends = np.sort(rng.integers(0, sizes[:, None], size=(per_set, k, 2)), axis=2)
        queries += [RangeQuery(attrs, tuple(e[:, 0].tolist()), tuple(e[:, 1].tolist())) for e in ends]
    return queries


def range_errors(
    pair: TablePair, k: int, sets: int = 210, per_set: int = 10, seed: int = 0, *, skewed: bool = False
) -> RangeErrors:
    """Return the errors of random range queries on `k` columns."""
    queries = random_ranges(pair.domain, k, sets, per_set, seed, skewed=skewed)
    real, synth = (np.array([q.share(codes, pair.domain) for q in queries]) for codes in (pair.real, pair.synth))
    return RangeErrors(queries, real, synth)
