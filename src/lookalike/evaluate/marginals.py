"""How far apart the marginals and range queries of two integer-coded tables are. NOT PRIVATE."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.errors import InputError
from lookalike.schema.cells import cell_keys
from lookalike.schema.domain import ColumnSet, Domain

# Dense counting touches every cell, sorting every row about ten times: below this ratio the dense path is the faster.
_DENSE_CELLS_PER_ROW = 4


@dataclass(frozen=True, slots=True, eq=False)
class MarginalDistances:
    """Total variation distances of a list of marginals.

    Attributes:
        cliques: the attribute sets, in the order in which they were compared.
        distances: one distance per clique, between 0 (equal) and 1 (no common row).
    """

    cliques: list[ColumnSet]
    distances: np.ndarray

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.distances):
            raise ValueError(f"{len(self.cliques)} cliques but {len(self.distances)} distances")

    @property
    def mean(self) -> float:
        """Average distance: what the papers plot."""
        return float(self.distances.mean())

    @property
    def worst(self) -> float:
        """Largest distance."""
        return float(self.distances.max())

    def ranked(self) -> list[tuple[ColumnSet, float]]:
        """Cliques with their distances, worst first."""
        order = np.argsort(-self.distances, kind="stable")
        return [(self.cliques[i], float(self.distances[i])) for i in order]


class TablePair:
    """Two tables of one domain, stacked column by column so that one pass makes the cell keys of both.

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
        """Codes of the first table."""
        return self._columns[: self.real_rows]

    @property
    def synth(self) -> np.ndarray:
        """Codes of the second table."""
        return self._columns[self.real_rows :]

    def keys(self, attrs: Iterable[str]) -> tuple[np.ndarray, int]:
        """The cell number of every stacked row on `attrs`, and a bound on the numbers; see `cell_keys`."""
        return cell_keys(self._columns, [self.domain.position(name) for name in attrs], self.domain.sizes)

    def counts(self, attrs: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Counts of both tables over the cells of the marginal that occur in either (all cells where they are few).

        The order of the cells is that of the marginal in C order; absent cells may be missing.
        """
        keys, cells = self.keys(attrs)
        if cells <= _DENSE_CELLS_PER_ROW * len(keys):
            return (
                np.bincount(keys[: self.real_rows], minlength=cells),
                np.bincount(keys[self.real_rows :], minlength=cells),
            )
        keys *= 2
        keys[self.real_rows :] += 1
        keys = np.sort(keys.astype(np.int32) if cells < 2**30 else keys)
        starts = np.flatnonzero(np.concatenate(([True], (keys[1:] >> 1) != (keys[:-1] >> 1))))
        both = np.diff(np.append(starts, len(keys)))
        synth = np.add.reduceat(keys & 1, starts).astype(np.int64)
        return both - synth, synth

    def distance(self, attrs: Iterable[str]) -> float:
        """Total variation distance of the two marginals on `attrs`: half the L1 distance of relative frequencies."""
        real, synth = self.counts(attrs)
        return 0.5 * float(np.abs(real / self.real_rows - synth / self.synth_rows).sum())


def random_cliques(domain: Domain, k: int, sets: int | None = 300, seed: int = 0) -> list[ColumnSet]:
    """All attribute sets of size `k`, or `sets` different random ones where there are more, the same for every call.

    >>> random_cliques(Domain(("a", "b", "c"), (2, 2, 2)), 2)
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    d = len(domain)
    if not 1 <= k <= d:
        raise InputError(f"Marginals of {k} attributes of a table of {d} columns; take between 1 and {d}.")
    if sets is None or math.comb(d, k) <= sets:
        return list(combinations(domain.names, k))
    rng = np.random.default_rng([seed, k])
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < sets:
        chosen.add(tuple(sorted(rng.permutation(d)[:k].tolist())))
    return [tuple(domain.names[i] for i in picked) for picked in sorted(chosen)]


def marginal_distances(
    real_codes: np.ndarray,
    synth_codes: np.ndarray,
    domain: Domain,
    k: int,
    sets: int | None = 300,
    seed: int = 0,
) -> MarginalDistances:
    """Total variation distances of the k-way marginals of two tables.

    The distance is 1/2 * sum over cells of |real/n - synth/m|, between 0 and 1. PrivMRF (section 5.1) prints the L1
    distance, twice this; BSG (section 6.2), MST and AIM papers differ likewise: compare like with like.

    Args:
        real_codes: integer codes of shape (rows, columns), columns in domain order.
        synth_codes: the other table.
        domain: names and sizes of the columns.
        k: attributes per marginal.
        sets: at most this many marginals, drawn with `seed` (the papers take 300); None for all.
        seed: fixes which marginals are drawn; nothing else is random.

    >>> a, b = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [1, 0], [0, 1], [1, 0]])
    >>> two = Domain(("x", "y"), (2, 2))
    >>> marginal_distances(a, b, two, 1).mean, marginal_distances(a, b, two, 2).mean
    (0.0, 1.0)
    """
    return distances_of(TablePair(real_codes, synth_codes, domain), random_cliques(domain, k, sets, seed))


def distances_of(pair: TablePair, cliques: Sequence[ColumnSet]) -> MarginalDistances:
    """Total variation distances of given marginals."""
    return MarginalDistances(list(cliques), np.array([pair.distance(clique) for clique in cliques]))


def _check_codes(name: str, codes: np.ndarray, domain: Domain) -> None:
    if codes.ndim != 2 or codes.shape[1] != len(domain):
        raise InputError(f"The {name} table has shape {codes.shape}; the domain has {len(domain)} columns.")
    if not len(codes):
        raise InputError(f"The {name} table has no rows; there is nothing to compare.")
    if not np.issubdtype(codes.dtype, np.integer):
        raise InputError(f"The {name} table holds {codes.dtype}; encode it with the schema's codec first.")
    low, high = codes.min(axis=0), codes.max(axis=0)
    for column, size, smallest, largest in zip(domain.names, domain.sizes, low, high, strict=True):
        if smallest < 0 or largest >= size:
            raise InputError(f"Column {column!r} of the {name} table holds codes outside 0..{size - 1}.")


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """How many rows have low <= code <= high for every attribute.

    Attributes:
        attrs: the attributes, in domain order.
        low: smallest code allowed, one per attribute.
        high: largest code allowed, one per attribute.
    """

    attrs: ColumnSet
    low: tuple[int, ...]
    high: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.attrs) == len(self.low) == len(self.high):
            raise ValueError(f"{len(self.attrs)} attributes need as many lower and upper ends")
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"a range of {self.attrs} ends before it starts")

    def share(self, codes: np.ndarray, domain: Domain) -> float:
        """Share of the rows of `codes` that are inside."""
        inside = np.ones(len(codes), dtype=bool)
        for name, low, high in zip(self.attrs, self.low, self.high, strict=True):
            column = codes[:, domain.position(name)]
            # Ends at the edge of the domain hold for every row: half of the comparisons need not be made.
            if low > 0:
                inside &= column >= low
            if high < domain.size(name) - 1:
                inside &= column <= high
        return float(np.count_nonzero(inside)) / len(codes)


@dataclass(frozen=True, slots=True, eq=False)
class RangeErrors:
    """Errors of range queries, in shares of the rows.

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
        """Mean of squared differences: PPSyn's range query error (section 5, metric 2)."""
        return float(((self.real - self.synth) ** 2).mean())

    @property
    def mean_absolute(self) -> float:
        return float(np.abs(self.real - self.synth).mean())

    @property
    def mean_relative(self) -> float:
        """Mean of |difference| / max(real, 0.1%): small answers would dominate without the floor."""
        return float((np.abs(self.real - self.synth) / np.maximum(self.real, 1e-3)).mean())


def skewed_cliques(domain: Domain, k: int, sets: int, seed: int = 0) -> list[ColumnSet]:
    """`sets` different attribute sets of size `k`, drawn by attribute weights from a squared exponential distribution.

    As in AIM and PPSyn (section 5.1.2): a weight per attribute is the square of a standard exponential draw, and a set
    takes `k` attributes one after the other with probabilities in proportion to the weights of those left. All sets
    where there are no more than `sets`. The same for every call with the same arguments.

    >>> len(set(skewed_cliques(Domain(tuple("abcdef"), (2,) * 6), 3, 10)))
    10
    """
    if math.comb(len(domain), k) <= sets:
        return random_cliques(domain, k, None)
    rng = np.random.default_rng([seed, k, 11])
    weights = rng.exponential(size=len(domain)) ** 2
    chosen: dict[ColumnSet, None] = {}
    while len(chosen) < sets:
        # The k smallest of exponential clocks with rates `weights` are such a draw without replacement.
        clocks = rng.exponential(size=len(domain)) / weights
        chosen[tuple(domain.names[i] for i in sorted(np.argsort(clocks)[:k].tolist()))] = None
    return sorted(chosen, key=lambda attrs: [domain.position(name) for name in attrs])


def random_ranges(
    domain: Domain, k: int, sets: int, per_set: int = 10, seed: int = 0, *, skewed: bool = False
) -> list[RangeQuery]:
    """`per_set` queries on each of at most `sets` random attribute sets; both ends uniform, swapped if need be.

    The same for every call with the same arguments, so that methods are asked the same. PPSyn takes 210 sets of three
    attributes and 37 of five, `skewed` towards some attributes; how many intervals on each is not printed there.
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
    """Errors of random range queries on `k` attributes."""
    queries = random_ranges(pair.domain, k, sets, per_set, seed, skewed=skewed)
    real, synth = pair.real, pair.synth
    return RangeErrors(
        queries,
        np.array([query.share(real, pair.domain) for query in queries]),
        np.array([query.share(synth, pair.domain) for query in queries]),
    )
