"""Rows whose every value is a distribution: a mixture of as many products of columns as there are rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lookalike.generate.model import Parts
from lookalike.generate.stored import Stored
from lookalike.schema.domain import Domain
from lookalike.tables.one_hot import first_places


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedRows:
    """Equally likely rows in which each column has a distribution of its own, independent of the row's other columns.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        laws: one line per value of every column, columns one after another, and one column per relaxed row; the lines
            of a column add up to 1 in every relaxed row.
    """

    kind: ClassVar[str] = "relaxed-rows"

    domain: Domain
    total: float
    laws: np.ndarray

    def __post_init__(self) -> None:
        if self.laws.ndim != 2 or len(self.laws) != sum(self.domain.sizes) or not self.laws.shape[1]:
            raise ValueError(f"laws of shape {self.laws.shape} for {sum(self.domain.sizes)} values")

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Expected counts: the mean over all relaxed rows of products of their laws, times `total`."""
        clique = self.domain.canonical(attrs)
        blocks = [block.astype(np.float64) for block in self._blocks(clique)]
        counts = mixture(blocks).reshape(self.domain.shape(clique))
        return counts * (self.total / counts.sum())

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Randomised rounding: every relaxed row as often as any other, give or take one, its values drawn by its laws.

        The values of a relaxed row's copies are drawn together, at even distances from a random start and in random
        order, so that each value comes as often as its law says, give or take one.
        """
        count = self.laws.shape[1]
        whole, rest = divmod(rows, count)
        copies = np.full(count, whole)
        copies[rng.permutation(count)[:rest]] += 1
        owner = np.repeat(np.arange(count), copies)
        first = np.cumsum(copies) - copies
        codes = np.empty((rows, len(self.domain)), dtype=np.int32, order="F")
        for i, block in enumerate(self._blocks(self.domain.names)):
            # Sorting random keys within each owner shuffles the places of its copies, anew for every column.
            shuffled = np.lexsort((rng.random(rows), owner))
            place = np.empty(rows)
            place[shuffled] = np.arange(rows) - first[owner]
            points = (place + rng.random(count)[owner]) / np.maximum(copies, 1)[owner]
            ends = np.cumsum(block.astype(np.float64), axis=0)
            codes[:, i] = _drawn(ends / ends[-1], owner, points)
        return np.asfortranarray(codes[rng.permutation(rows)])

    def _blocks(self, names: Iterable[str]) -> list[np.ndarray]:
        starts = np.cumsum([0, *self.domain.sizes])
        places = [self.domain.position(name) for name in names]
        return [self.laws[starts[place] : starts[place + 1]] for place in places]

    def to_parts(self) -> Parts:
        meta = {"domain": dict(zip(self.domain.names, self.domain.sizes, strict=True)), "total": self.total}
        return meta, {"laws": self.laws}

    @classmethod
    def from_parts(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        stored = Stored(meta, arrays)
        domain = stored.domain()
        laws = stored.weights("laws", 2, 1.0)
        stored.require(
            len(laws) == sum(domain.sizes) and bool((laws >= 0).all()), "has laws that do not fit its columns"
        )
        sums = np.add.reduceat(laws, first_places(domain.sizes), axis=0, dtype=np.float64)
        stored.require(bool((np.abs(sums - 1) < 1e-3).all()), "has laws that do not add up to 1")
        return cls(domain, stored.total(), laws)


def mixture(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Sums over all relaxed rows of products of their laws: one matrix product of two halves, cells in row-major order.

    >>> mixture([np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.5, 0.25], [0.5, 0.75]])])
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    if not blocks:
        return np.ones(1)
    if len(blocks) == 1:
        return blocks[0].sum(axis=1)
    cut = balanced_cut([len(block) for block in blocks])
    return row_products(blocks[:cut]) @ row_products(blocks[cut:]).T


def balanced_cut(sizes: Sequence[int]) -> int:
    """How many of the columns make up the first of two parts whose larger one has as few cells as possible.

    >>> balanced_cut([2, 3, 40])
    2
    """
    return min(range(1, len(sizes)), key=lambda cut: max(math.prod(sizes[:cut]), math.prod(sizes[cut:])))


def row_products(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Products of the blocks' laws within each relaxed row: one line per cell, one column per relaxed row."""
    product = blocks[0]
    for block in blocks[1:]:
        product = (product[:, None, :] * block[None, :, :]).reshape(-1, block.shape[1])
    return product


def _drawn(ends: np.ndarray, owner: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The value at each point of its owner's cumulative law: one search among all laws laid end to end."""
    size, count = ends.shape
    line = (ends + np.arange(count)).T.ravel()
    found = np.searchsorted(line, points + owner, side="right") - owner * size
    return np.clip(found, 0, size - 1)
