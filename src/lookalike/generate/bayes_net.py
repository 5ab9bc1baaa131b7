"""A Bayesian network: every column given a few others, with parents seen through public buckets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from lookalike.generate.model import Parts
from lookalike.generate.stored import Stored
from lookalike.schema.domain import Domain
from lookalike.tables.elimination import Factor, eliminated_cells, sum_product

MAX_CELLS = 20_000_000
"""Largest table of an exact marginal; beyond it, marginals are counted in a sample."""

SAMPLE_ROWS = 1_000_000
"""Rows of that sample. A cell of probability p is then off by sqrt(p / 1e6), about 0.001 at most."""


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
        buckets: public maps from code to bucket, for columns that parents show coarsely; others are shown as they are.
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
        """Number of values that children see of a column."""
        return int(self.buckets[name].max()) + 1 if name in self.buckets else self.domain.size(name)

    # Rows.

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of `rows` independent rows, by ancestral sampling: int32, columns in domain order."""
        codes = np.zeros((rows, len(self.domain)), dtype=np.int32, order="F")
        self.resample(codes, np.zeros(rows, dtype=np.int64), rng)
        return codes

    def resample(self, codes: np.ndarray, kept: np.ndarray, rng: Uniforms) -> None:
        """Redraw, in place, every row's columns after its first `kept` ones in the network's order.

        Equation (3) of the plausible-deniability paper: each new value depends on values kept and values just drawn.
        Parameters are posterior means; drawing them anew from their Dirichlet law for every row would give each row
        the same distribution.
        """
        for place, (name, table) in enumerate(zip(self.order, self.tables, strict=True)):
            asked = np.flatnonzero(kept <= place)
            if asked.size == 0:
                continue
            asked = slice(None) if asked.size == len(codes) else asked
            configuration = self._configurations(place, codes, asked)
            codes[asked, self.domain.position(name)] = _draw(table, configuration, rng)

    def log_probabilities(self, codes: np.ndarray) -> np.ndarray:
        """log P(column | parents) of every row and every column, columns in the network's order."""
        logs = np.empty(codes.shape)
        with np.errstate(divide="ignore"):
            for place, (name, table) in enumerate(zip(self.order, self.tables, strict=True)):
                flat = table.reshape(-1, table.shape[-1])
                rows = self._configurations(place, codes, slice(None))
                logs[:, place] = np.log(flat[rows, codes[:, self.domain.position(name)]])
        return logs

    def _configurations(self, place: int, codes: np.ndarray, rows: Any) -> np.ndarray:
        """Number of the parents' configuration in each row: the table's row."""
        count = len(codes) if isinstance(rows, slice) else len(rows)
        number = np.zeros(count, dtype=np.int64)
        for parent in self.parents[place]:
            value = codes[rows, self.domain.position(parent)]
            number *= self.bucket_count(parent)
            number += self.buckets[parent][value] if parent in self.buckets else value
        return number

    # Marginals.

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([tuple(attrs)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Expected counts of each marginal: exact by eliminating variables, or counted in a sample where that is large.

        The sample has a fixed seed, so equal questions get equal answers.
        """
        asked = [self.domain.canonical(clique) for clique in cliques]
        answers: dict[tuple[str, ...], np.ndarray] = {}
        sampled: np.ndarray | None = None
        for clique in dict.fromkeys(asked):
            factors = self._factors(clique)
            if eliminated_cells(factors, clique) <= MAX_CELLS:
                answers[clique] = sum_product(factors, clique)
                continue
            if sampled is None:
                sampled = self.sample(SAMPLE_ROWS, np.random.default_rng(0))
            answers[clique] = counted(self.domain, sampled, clique) / SAMPLE_ROWS
        return [self.total * answers[clique] for clique in asked]

    def _factors(self, clique: Sequence[str]) -> list[Factor]:
        """Conditional tables of the columns asked for and their ancestors, with the links from codes to buckets.

        A bucketed column stands as two variables, its code and its bucket, so no table is ever blown up to codes.
        """
        needed, factors = set(clique), []
        linked: set[str] = set()
        for name, parents, table in reversed(list(zip(self.order, self.parents, self.tables, strict=True))):
            if name not in needed:
                continue
            needed.update(parents)
            seen = tuple(f"{parent}/bucket" if parent in self.buckets else parent for parent in parents)
            linked.update(parent for parent in parents if parent in self.buckets)
            factors.append(Factor((*seen, name), table))
        for name in linked:
            link = np.zeros((self.domain.size(name), self.bucket_count(name)))
            link[np.arange(self.domain.size(name)), self.buckets[name]] = 1.0
            factors.append(Factor((name, f"{name}/bucket"), link))
        return factors

    # Storage.

    def to_parts(self) -> Parts:
        meta = {
            "domain": dict(zip(self.domain.names, self.domain.sizes, strict=True)),
            "total": self.total,
            "order": list(self.order),
            "parents": [list(parents) for parents in self.parents],
            "buckets": {name: [int(b) for b in mapping] for name, mapping in self.buckets.items()},
        }
        return meta, {f"table{place}": table for place, table in enumerate(self.tables)}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        stored = Stored(meta, arrays)
        domain, listed = stored.domain(), stored.part("buckets")
        buckets = {}
        for name in listed.meta:
            mapping = np.array(listed.wholes(name, 0, domain.size(name) - 1), dtype=np.int64)
            listed.require(mapping.shape == domain.shape([name]), f"maps {len(mapping):,} codes of {name!r}")
            buckets[name] = listed.grouped(mapping, name, int(mapping.max()) + 1)
            listed.require(mapping.size * (int(mapping.max()) + 1) <= MAX_CELLS, f"has too many buckets of {name!r}")
        order = stored.texts("order")
        parents = tuple(
            Stored({"parents": names}, what=f"parents of {stored.what}").texts("parents")
            for names in stored.value("parents", list)
        )
        seen = {name: int(buckets[name].max()) + 1 if name in buckets else domain.size(name) for name in domain.names}
        stored.require(
            len(order) == len(parents) == len(domain) and all(name in domain for names in parents for name in names),
            "has an order or parents that are not those of its columns",
        )
        shapes = [(*(seen[p] for p in names), domain.size(own)) for own, names in zip(order, parents, strict=True)]
        tables = tuple(stored.laws(f"table{place}", shape) for place, shape in enumerate(shapes))
        return cls(domain, stored.total(), order, parents, tables, buckets)


def counted(domain: Domain, codes: np.ndarray, attrs: Iterable[str]) -> np.ndarray:
    """Counts of a marginal of synthetic rows, axes in domain order."""
    clique = domain.canonical(attrs)
    shape = domain.shape(clique)
    columns = [codes[:, domain.position(name)] for name in clique]
    cells = np.ravel_multi_index(columns, shape) if clique else np.zeros(len(codes), dtype=np.int64)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64)


def dirichlet_means(counts: np.ndarray, prior: np.ndarray, strength: float) -> np.ndarray:
    """Mean of the Dirichlet law after seeing counts: (counts + strength * prior) / (total + strength), by last axis.

    Equation (13) of the plausible-deniability paper, with the column's own distribution as the prior's direction: a
    configuration that was hardly seen falls back on it. Noisy counts must not be negative here.

    >>> dirichlet_means(np.array([[3.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.5]), 1.0)
    array([[0.7, 0.3],
           [0.5, 0.5]])
    """
    grown = counts + strength * prior / prior.sum()
    return grown / grown.sum(axis=-1, keepdims=True)


def _draw(table: np.ndarray, configuration: np.ndarray, rng: Uniforms) -> np.ndarray:
    """One value per row from the table's row of that number.

    All rows of the table lie end to end on one line, row r on [r, r + 1), so one search finds every value.
    """
    flat = table.reshape(-1, table.shape[-1])
    ends = np.cumsum(flat, axis=1)
    ends /= ends[:, -1:]
    line = (ends + np.arange(len(flat))[:, None]).ravel()
    found = np.searchsorted(line, configuration + rng.random(len(configuration)), side="right")
    return np.minimum(found - configuration * flat.shape[1], flat.shape[1] - 1)
