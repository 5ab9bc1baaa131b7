"""Relaxed rows, in which every column has a distribution instead of a value: a mixture of product distributions.

`RelaxedProjection` fits them to noisy counts by gradient descent, the step that RAP repeats (Aydore and others 2021,
section 4). Gradients are written out by hand as matrix products and a softmax.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.sampling.draws import values_at
from lookalike.schema.domain import ColumnSet, Domain, first_places
from lookalike.stored import Stored

# Adam's decay rates of the first and second moments, and the constant in its denominator.
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-12
_MIN_SHARE = 1e-6
_MIN_NOISE = 2e-4
"""The penalty is never weaker than for noise of this part of the rows. Adam's steps do not grow with the gradient:
without a penalty, rows that fit exact counts still move, and what no count says drifts."""

_MAX_LOGITS = 20_000_000
"""Maximum number of logits of all relaxed rows: one per row and value of a column."""


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    """All measurements of one column set: groups of cells, noisy shares of the rows, and weights of squared errors.

    Attributes:
        blocks: rows of the matrix of distributions that belong to each column.
        cut: number of columns in the first factor of the matrix product.
        cells: number of cells of each factor.
        parts: (group of every cell or None, noisy shares, weight) of every measurement.
    """

    blocks: tuple[slice, ...]
    cut: int
    cells: tuple[int, int]
    parts: tuple[tuple[np.ndarray | None, np.ndarray, float], ...]

    def error_slope(self, shares: np.ndarray) -> tuple[float, np.ndarray]:
        """Half the weighted squared error of these shares of the rows, and its derivative by each share."""
        slope = np.zeros_like(shares)
        error = 0.0
        for groups, wanted, weight in self.parts:
            if groups is None:
                gap = shares - wanted
                slope += weight * gap
            else:
                sums = np.bincount(groups, weights=shares.ravel(), minlength=len(wanted)).astype(shares.dtype)
                gap = sums - wanted
                slope += (weight * gap)[groups].reshape(shares.shape)
            error += 0.5 * weight * float((gap * gap).sum())
        return error, slope


class RelaxedProjection:
    """Softmax parameters of relaxed rows, fitted to noisy counts by Adam.

    Attributes:
        domain: names and sizes of the columns.
        base: logits of the distribution of every column towards which all relaxed rows are pulled.
        logits: a matrix with one row per value of every column and one column per relaxed row.
    """

    def __init__(
        self, domain: Domain, columns: Sequence[np.ndarray], rows: int, spread: float, rng: np.random.Generator
    ):
        """Start with rows near the distributions `columns`, plus normal numbers of standard deviation `spread`.

        Equal rows would stay equal, since their gradients are equal.
        """
        self.domain = domain
        self.base = np.log(np.maximum(np.concatenate(columns), _MIN_SHARE)).astype(np.float32)[:, None]
        self.logits = self.base + spread * rng.standard_normal((len(self.base), rows), dtype=np.float32)
        starts = np.cumsum([0, *domain.sizes])
        self._slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(starts)]

    def distributions(self) -> np.ndarray:
        """Return the distributions, a softmax of the logits over the values of every column."""
        distributions = np.empty_like(self.logits)
        for block in self._slices:
            part = self.logits[block]
            np.exp(part - part.max(axis=0), out=distributions[block])
            distributions[block] /= distributions[block].sum(axis=0)
        return distributions

    def shares(self, cliques: Sequence[ColumnSet]) -> list[np.ndarray]:
        """Return the marginals of the column sets as shares of all rows."""
        distributions = self.distributions()
        found = []
        for clique in cliques:
            target = self._target(clique, [], 1.0, 1.0)
            left, right = _factors(distributions, target)
            found.append((left @ right.T).reshape(self.domain.shape(clique)) / np.float32(distributions.shape[1]))
        return found

    def approach(
        self, measurements: Sequence[NoisyMarginal], total: float, *, steps: int, rate: float, pull: float
    ) -> float:
        """Take `steps` steps of Adam on half the squared errors plus a penalty; return the error before the last step.

        Errors are in shares of the rows, weighted by (least stddev / stddev)^2. The penalty is pull * (least stddev /
        total, at least `_MIN_NOISE`) times the mean over all relaxed rows of the KL divergence of their distributions
        from the base. Of all mixtures that explain the counts equally well, it prefers the one whose rows differ least
        from the base, and columns that no measurement connects stay independent. The rate falls to 0 along a half
        cosine.
        """
        counted = [measured for measured in measurements if measured.attrs]
        least = min((measured.stddev for measured in counted), default=1.0)
        by_set: dict[ColumnSet, list[NoisyMarginal]] = {}
        for measured in counted:
            by_set.setdefault(measured.attrs, []).append(measured)
        targets = [self._target(clique, found, total, least) for clique, found in by_set.items()]
        mean, square = np.zeros_like(self.logits), np.zeros_like(self.logits)
        error = 0.0
        for step in range(1, steps + 1):
            error, slope = self._slope(targets, pull * max(least / total, _MIN_NOISE))
            mean += (1 - _FIRST) * (slope - mean)
            square += (1 - _SECOND) * (slope * slope - square)
            size = 0.5 * rate * (1 + np.cos(np.pi * (step - 1) / steps))
            scale = np.sqrt(square / (1 - _SECOND**step)) + _TINY
            self.logits -= np.float32(size / (1 - _FIRST**step)) * mean / scale
        return error

    def _target(self, clique: ColumnSet, found: Sequence[NoisyMarginal], total: float, least: float) -> _Target:
        sizes = self.domain.shape(clique)
        cut = balanced_cut(sizes) if len(sizes) > 1 else 0
        cells = int(np.prod(sizes[:cut])), int(np.prod(sizes[cut:]))
        parts = []
        for measured in found:
            shares = (measured.values / total).astype(np.float32)
            groups = None if measured.groups is None else measured.groups.ravel()
            shares = shares.reshape(cells) if groups is None else shares
            parts.append((groups, shares, float((least / measured.stddev) ** 2)))
        blocks = tuple(self._slices[self.domain.position(name)] for name in clique)
        return _Target(blocks, cut, cells, tuple(parts))

    def _slope(self, targets: Sequence[_Target], pull: float) -> tuple[float, np.ndarray]:
        """Error of all targets, and the derivative of error and penalty by the logits times the number of rows."""
        distributions = self.distributions()
        slopes = np.zeros_like(distributions)
        error = 0.0
        for target in targets:
            left, right = _factors(distributions, target)
            found, slope = target.error_slope((left @ right.T) / np.float32(distributions.shape[1]))
            error += found
            _share_out(slopes, distributions, target.blocks[: target.cut], slope @ right)
            _share_out(slopes, distributions, target.blocks[target.cut :], slope.T @ left)
        # The KL divergence has the derivative log(distribution / base) + 1, which up to a constant is a difference of
        # logits; constants within a column vanish in the softmax's derivative below.
        slopes += np.float32(pull) * (self.logits - self.base)
        for block in self._slices:
            distribution, own = distributions[block], slopes[block]
            own -= (distribution * own).sum(axis=0)
            own *= distribution
        return error, slopes


def _factors(shares: np.ndarray, target: _Target) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices, cells by relaxed rows, whose product is the marginal; the first is ones for a single column."""
    chosen = [shares[block] for block in target.blocks]
    left = row_products(chosen[: target.cut]) if target.cut else np.ones((1, shares.shape[1]), shares.dtype)
    right = row_products(chosen[target.cut :]) if chosen else np.ones((1, shares.shape[1]), shares.dtype)
    return left, right


def _share_out(slopes: np.ndarray, shares: np.ndarray, blocks: Sequence[slice], slope: np.ndarray) -> None:
    """Add the derivative by a product of shares, cells by relaxed rows, to the derivatives by the shares."""
    if len(blocks) == 1:
        slopes[blocks[0]] += slope
        return
    chosen = [shares[block] for block in blocks]
    for i, block in enumerate(blocks):
        before, after = chosen[:i], chosen[i + 1 :]
        table = slope.reshape(-1, len(chosen[i]), int(np.prod([len(other) for other in after])), slope.shape[1])
        table = (table * row_products(after)[None, None]).sum(axis=2) if after else table[:, :, 0]
        slopes[block] += (table * row_products(before)[:, None]).sum(axis=0) if before else table[0]


def mixture(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Return sums over all relaxed rows of products of their distributions, as one matrix product of two halves.

    Cells are in row-major order.

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
    """Return how many columns to put into the first of two parts so that the larger part has the fewest cells.

    >>> balanced_cut([2, 3, 40])
    2
    """
    return min(range(1, len(sizes)), key=lambda cut: max(math.prod(sizes[:cut]), math.prod(sizes[cut:])))


def row_products(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Return the products of the blocks' distributions: a row per cell, a column per relaxed row."""
    product = blocks[0]
    for block in blocks[1:]:
        product = (product[:, None, :] * block[None, :, :]).reshape(-1, block.shape[1])
    return product


@dataclass(frozen=True, slots=True, eq=False)
class RelaxedRows:
    """Equally likely relaxed rows, each with independent columns of given distributions.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        distributions: a matrix with one row per value of every column, columns one after another, and one column per
            relaxed row; the probabilities of each column add up to 1.
    """

    kind: ClassVar[str] = "relaxed-rows"

    domain: Domain
    total: float
    distributions: np.ndarray

    def __post_init__(self) -> None:
        shape, values = self.distributions.shape, sum(self.domain.sizes)
        if len(shape) != 2 or shape[0] != values or not shape[1]:
            raise ValueError(f"distributions of shape {shape} for {values} values")

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return expected counts: the mean over all relaxed rows of products of their distributions, times `total`."""
        clique = self.domain.canonical(attrs)
        blocks = [block.astype(np.float64) for block in self._blocks(clique)]
        counts = mixture(blocks).reshape(self.domain.shape(clique))
        return counts * (self.total / counts.sum())

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows by randomised rounding: values drawn from relaxed rows that are used equally often, up to one.

        The values of a relaxed row's copies are drawn together, at even distances from a random start and in random
        order, so that the count of each value differs from its expectation by at most one.
        """
        count = self.distributions.shape[1]
        whole, rest = divmod(rows, count)
        copies = np.full(count, whole)
        copies[rng.permutation(count)[:rest]] += 1
        owner = np.repeat(np.arange(count), copies)
        first = np.cumsum(copies) - copies
        codes = np.empty((rows, len(self.domain)), dtype=np.int32, order="F")
        for i, block in enumerate(self._blocks(self.domain.names)):
            # Sorting random keys within each owner shuffles the places of its copies, for every column again.
            shuffled = np.lexsort((rng.random(rows), owner))
            place = np.empty(rows)
            place[shuffled] = np.arange(rows) - first[owner]
            points = (place + rng.random(count)[owner]) / np.maximum(copies, 1)[owner]
            codes[:, i] = values_at(block.T.astype(np.float64), owner, points)
        return np.asfortranarray(codes[rng.permutation(rows)])

    def _blocks(self, names: Iterable[str]) -> list[np.ndarray]:
        starts = np.cumsum([0, *self.domain.sizes])
        places = [self.domain.position(name) for name in names]
        return [self.distributions[starts[place] : starts[place + 1]] for place in places]

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain = stored.domain()
        found = stored.weights("distributions", 2, 1.0)
        fits = len(found) == sum(domain.sizes) and bool((found >= 0).all())
        stored.require(fits, "has distributions that do not fit its columns")
        sums = np.add.reduceat(found, first_places(domain.sizes), axis=0, dtype=np.float64)
        stored.require(bool((np.abs(sums - 1) < 1e-3).all()), "has distributions that do not add up to 1")
        return cls(domain, stored.total(), found)


def affordable_rows(rows: int, domain: Domain) -> int:
    """Return the number of relaxed rows: `rows`, or fewer where their logits would be too many."""
    return min(rows, max(_MAX_LOGITS // sum(domain.sizes), 1))
