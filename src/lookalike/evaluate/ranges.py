"""Random range queries, as in PPSyn (section 5.1.2) and AIM. NOT PRIVATE."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lookalike.evaluate.marginals import TablePair, random_cliques
from lookalike.schema.domain import Clique, Domain


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """How many rows have low <= code <= high for every attribute.

    Attributes:
        attrs: the attributes, in domain order.
        low: smallest code allowed, one per attribute.
        high: largest code allowed, one per attribute.
    """

    attrs: Clique
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


def skewed_cliques(domain: Domain, k: int, sets: int, seed: int = 0) -> list[Clique]:
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
    chosen: dict[Clique, None] = {}
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
