"""Bayesian networks: every column given a few others; the first columns may come from one noisy histogram."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from lookalike.sampling.draws import values_at
from lookalike.schema.domain import Domain, cell_keys, counted, mixed_radix
from lookalike.stored import MAX_COUNT, Stored

MAX_CELLS = 20_000_000
"""Largest table of an exact marginal; beyond it, marginals are counted in a sample."""

SAMPLE_ROWS = 1_000_000
"""Rows of that sample. The standard deviation of a cell of probability p is sqrt(p / 1e6), at most 0.001."""


class Uniforms(Protocol):
    """Anything that gives uniform numbers in [0, 1): a NumPy generator, or system entropy."""

    def random(self, size: int, /) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class BayesNet:
    """Columns in an order in which parents come first; P(row) = product of P(column | buckets of its parents).

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        order: all names, parents before children.
        parents: parents of each column of `order`.
        tables: for each column of `order`, probabilities of shape (buckets of each parent..., values), rows sum to 1.
        buckets: public maps from code to bucket, for columns whose children depend on the bucket instead of the code.
    """

    kind: ClassVar[str] = "bayes-net"

    domain: Domain
    total: float
    order: tuple[str, ...]
    parents: tuple[tuple[str, ...], ...]
    tables: tuple[np.ndarray, ...]
    buckets: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if sorted(self.order) != sorted(self.domain.names):
            raise ValueError(f"the order {self.order} does not name every column once")
        for place, (name, parents, table) in enumerate(zip(self.order, self.parents, self.tables, strict=True)):
            late = set(parents) - set(self.order[:place])
            if late:
                raise ValueError(f"parents {sorted(late)} of {name!r} come after it")
            shape = (*(self.bucket_count(parent) for parent in parents), self.domain.size(name))
            if table.shape != shape:
                raise ValueError(f"table of {name!r} has shape {table.shape}, expected {shape}")

    def bucket_count(self, name: str) -> int:
        """Return the number of values of a column as a parent."""
        return int(self.buckets[name].max()) + 1 if name in self.buckets else self.domain.size(name)

    # Rows.

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return codes of `rows` independent rows, by ancestral sampling: int32, columns in domain order."""
        codes = np.zeros((rows, len(self.domain)), dtype=np.int32, order="F")
        self.resample(codes, np.zeros(rows, dtype=np.int64), rng)
        return codes

    def resample(self, codes: np.ndarray, kept: np.ndarray, rng: Uniforms) -> None:
        """Redraw, in place, every row's columns after its first `kept` ones in the network's order.

        Equation (3) of the plausible-deniability paper: each new value depends on values kept and values just drawn.
        Parameters are posterior means; drawing them anew from their Dirichlet distribution for every row would give
        each row the same distribution.
        """
        for place, (name, table) in enumerate(zip(self.order, self.tables, strict=True)):
            redrawn = np.flatnonzero(kept <= place)
            if redrawn.size == 0:
                continue
            redrawn = slice(None) if redrawn.size == len(codes) else redrawn
            configuration = self._configurations(place, codes, redrawn)
            flat = table.reshape(-1, table.shape[-1])
            codes[redrawn, self.domain.position(name)] = values_at(flat, configuration, rng.random(len(configuration)))

    def log_probabilities(self, codes: np.ndarray) -> np.ndarray:
        """Return log P(column | parents) of every row and every column, columns in the network's order."""
        logs = np.empty(codes.shape)
        with np.errstate(divide="ignore"):
            for place, (name, table) in enumerate(zip(self.order, self.tables, strict=True)):
                flat = table.reshape(-1, table.shape[-1])
                rows = self._configurations(place, codes, slice(None))
                logs[:, place] = np.log(flat[rows, codes[:, self.domain.position(name)]])
        return logs

    def _configurations(self, place: int, codes: np.ndarray, rows: Any) -> np.ndarray:
        """Number of the parents' configuration in each row, which is a row of the column's table."""
        parents = self.parents[place]
        values = [codes[rows, self.domain.position(parent)] for parent in parents]
        buckets = [self.buckets[p][v] if p in self.buckets else v for p, v in zip(parents, values, strict=True)]
        count = len(codes) if isinstance(rows, slice) else len(rows)
        return mixed_radix(buckets, [self.bucket_count(parent) for parent in parents], count)

    # Marginals.

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([tuple(attrs)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Return expected counts: exact by variable elimination, or counted in a sample where that needs large tables.

        The sample has a fixed seed, so that equal calls have equal results.
        """
        wanted = [self.domain.canonical(clique) for clique in cliques]
        answers: dict[tuple[str, ...], np.ndarray] = {}
        sampled: np.ndarray | None = None
        for clique in dict.fromkeys(wanted):
            factors = self._factors(clique)
            if eliminated_cells(factors, clique) <= MAX_CELLS:
                answers[clique] = sum_product(factors, clique)
                continue
            if sampled is None:
                sampled = self.sample(SAMPLE_ROWS, np.random.default_rng(0))
            answers[clique] = counted(self.domain, sampled, clique) / SAMPLE_ROWS
        return [self.total * answers[clique] for clique in wanted]

    def _factors(self, clique: Sequence[str]) -> list[Factor]:
        """Conditional tables of the columns asked for and their ancestors, with the links from codes to buckets.

        A column with buckets becomes two variables, its code and its bucket, so that no table is expanded to codes.
        """
        needed, factors = set(clique), []
        linked: set[str] = set()
        for name, parents, table in reversed(list(zip(self.order, self.parents, self.tables, strict=True))):
            if name not in needed:
                continue
            needed.update(parents)
            variables = tuple(f"{parent}/bucket" if parent in self.buckets else parent for parent in parents)
            linked.update(parent for parent in parents if parent in self.buckets)
            factors.append(Factor((*variables, name), table))
        for name in linked:
            link = np.zeros((self.domain.size(name), self.bucket_count(name)))
            link[np.arange(self.domain.size(name)), self.buckets[name]] = 1.0
            factors.append(Factor((name, f"{name}/bucket"), link))
        return factors

    # Storage.

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain, listed = stored.domain(), stored.part("buckets")
        stored.require(all(name in domain for name in listed.meta), "has buckets of a column it does not have")
        buckets = {name: listed.labels(name, domain.shape([name])) for name in listed.meta}
        counts = {name: int(buckets[name].max()) + 1 if name in buckets else domain.size(name) for name in domain.names}
        for name in buckets:
            listed.require(counts[name] * domain.size(name) <= MAX_CELLS, f"has too many buckets of {name!r}")
        order, named = stored.texts("order"), stored.entries("parents")
        parents = tuple(named.texts(place) for place in named.meta)
        stored.require(
            len(order) == len(parents) == len(domain)
            and all(name in domain for names in (order, *parents) for name in names),
            "has an order or parents that are not those of its columns",
        )
        shapes = [(*(counts[p] for p in names), domain.size(own)) for own, names in zip(order, parents, strict=True)]
        return cls(domain, stored.total(), order, parents, stored.distributions("tables", shapes), buckets)


def dirichlet_means(counts: np.ndarray, prior: np.ndarray, strength: float) -> np.ndarray:
    """Return the posterior mean of a Dirichlet distribution given counts, along the last axis.

    (counts + strength * prior) / (total + strength)

    Equation (13) of the plausible-deniability paper, with the column's distribution as the prior's direction: a
    configuration with few counts falls back on it. Counts must not be negative.

    >>> dirichlet_means(np.array([[3.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.5]), 1.0)
    array([[0.7, 0.3],
           [0.5, 0.5]])
    """
    grown = counts + strength * prior / prior.sum()
    return grown / grown.sum(axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A table with one named variable per axis."""

    names: tuple[str, ...]
    values: np.ndarray


def sum_product(factors: Sequence[Factor], keep: Sequence[str]) -> np.ndarray:
    """Return the product of all factors summed over every variable outside `keep`; axes in the order of `keep`.

    Variables are eliminated one by one, next the one that needs the smallest table (greedy min-size).

    >>> a, b = Factor(("x",), np.array([0.4, 0.6])), Factor(("x", "y"), np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> sum_product([a, b], ["y"])
    array([0.7, 0.3])
    """
    left = list(factors)
    for name, _ in _elimination_steps(factors, keep):
        involved = [factor for factor in left if name in factor.names]
        left = [factor for factor in left if name not in factor.names]
        names = tuple(dict.fromkeys(n for factor in involved for n in factor.names if n != name))
        left.append(Factor(names, _contract(involved, names)))
    return _contract(left, tuple(keep))


def eliminated_cells(factors: Sequence[Factor], keep: Sequence[str]) -> int:
    """Return the cells of the largest table that `sum_product` would make, its result included."""
    sizes = _sizes(factors)
    return max([math.prod(sizes[name] for name in keep), *(cells for _, cells in _elimination_steps(factors, keep))])


def _elimination_steps(factors: Sequence[Factor], keep: Sequence[str]) -> list[tuple[str, int]]:
    """The variables in the order of elimination, each with the cells of the table that its elimination needs."""
    sizes = _sizes(factors)
    scopes = [frozenset(factor.names) for factor in factors]
    waiting = set(sizes) - set(keep)
    steps = []
    while waiting:
        unions = {name: frozenset().union(*(scope for scope in scopes if name in scope)) for name in waiting}
        cells = {name: math.prod(sizes[n] for n in union) for name, union in unions.items()}
        name = min(waiting, key=lambda n: (cells[n], n))
        scopes = [scope for scope in scopes if name not in scope] + [unions[name] - {name}]
        steps.append((name, cells[name]))
        waiting.discard(name)
    return steps


def _sizes(factors: Sequence[Factor]) -> dict[str, int]:
    return {name: size for factor in factors for name, size in zip(factor.names, factor.values.shape, strict=True)}


def _contract(factors: Sequence[Factor], names: tuple[str, ...]) -> np.ndarray:
    if not factors:
        return np.ones(())
    number = {name: i for i, name in enumerate(dict.fromkeys((*names, *(n for f in factors for n in f.names))))}
    operands: list[Any] = []
    for factor in factors:
        operands += [factor.values, [number[name] for name in factor.names]]
    return np.einsum(*operands, [number[name] for name in names], optimize=len(factors) > 2)


_TRIES = 20


@dataclass(frozen=True, slots=True, eq=False)
class PrefixHistogram:
    """Frequent prefixes with noisy counts; other prefixes, and all columns after a prefix, come from the network.

    Attributes:
        network: the network, whose first columns the prefixes give values to.
        cells: the prefixes kept, one row of codes each, columns in the network's order.
        counts: their noisy counts.
    """

    kind: ClassVar[str] = "prefix-histogram"
    stored_fields: ClassVar[tuple[str, ...]] = ("network", "columns", "cells", "counts")

    network: BayesNet
    cells: np.ndarray
    counts: np.ndarray

    @property
    def domain(self) -> Domain:
        return self.network.domain

    @property
    def total(self) -> float:
        return self.network.total

    @property
    def columns(self) -> int:
        """Number of columns that the prefixes give values to."""
        return self.cells.shape[1]

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([tuple(attrs)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Return expected counts, counted in a sample of a million rows with a fixed seed."""
        sampled = self.sample(SAMPLE_ROWS, np.random.default_rng(0))
        return [counted(self.domain, sampled, clique) * (self.total / SAMPLE_ROWS) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        codes = np.zeros((rows, len(self.domain)), dtype=np.int32, order="F")
        places = [self.domain.position(name) for name in self.network.order[: self.columns]]
        mass = float(self.counts.sum())
        frequent = rng.random(rows) < mass / max(mass, self.total)
        kept = np.where(frequent, self.columns, 0)
        if mass > 0:
            chosen = rng.choice(len(self.cells), size=int(frequent.sum()), p=self.counts / mass)
            for column, place in enumerate(places):
                codes[frequent, place] = self.cells[chosen, column]
        self.network.resample(codes, kept, rng)
        self._redraw_frequent(codes, np.flatnonzero(~frequent), places, rng)
        return codes

    def _redraw_frequent(
        self, codes: np.ndarray, rows: np.ndarray, places: list[int], rng: np.random.Generator
    ) -> None:
        """Redraw rows of the rare rest that have a frequent prefix, at most `_TRIES` times."""
        sizes = [self.domain.sizes[place] for place in places]
        for _ in range(_TRIES):
            drawn = codes[rows][:, places]
            keys, _ = cell_keys(np.concatenate([self.cells, drawn]), range(len(places)), sizes)
            rows = rows[np.isin(keys[len(self.cells) :], keys[: len(self.cells)])]
            if rows.size == 0:
                return
            again = np.asfortranarray(codes[rows])
            self.network.resample(again, np.zeros(len(rows), dtype=np.int64), rng)
            codes[rows] = again

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        network = BayesNet.from_stored(stored.part("network"))
        sizes = [network.domain.size(name) for name in network.order]
        cells = stored.codes("cells", sizes[: stored.whole("columns", 0, len(sizes))], min_rows=0)
        return cls(network, cells, stored.table("counts", (len(cells),), 0.0, MAX_COUNT))
