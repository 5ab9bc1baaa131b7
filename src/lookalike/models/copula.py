"""A Gaussian copula: correlated normal variables, one per column, cut into the column's values at its quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

from lookalike.schema.domain import Domain, counted
from lookalike.stored import Stored

SAMPLE_ROWS = 200_000
"""Rows of the sample for marginals of several columns; a cell of probability p has the stddev sqrt(p / 2e5)."""

_HERMITE_ORDERS, _MAX_CORRELATION = 150, 0.98
_special = cast(Any, special)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianCopula:
    """Ordered columns, each with a distribution, which depend on each other by one matrix of correlations.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        margins: probabilities of every column's values, in domain order.
        correlation: correlations of the normal variables: symmetric, positive definite, ones on the diagonal.
    """

    kind: ClassVar[str] = "copula"

    domain: Domain
    total: float
    margins: tuple[np.ndarray, ...]
    correlation: np.ndarray

    def __post_init__(self) -> None:
        if tuple(len(margin) for margin in self.margins) != self.domain.sizes:
            raise ValueError(f"margins of {[len(margin) for margin in self.margins]} values for {self.domain.sizes}")
        if self.correlation.shape != (len(self.domain),) * 2:
            raise ValueError(f"correlations of shape {self.correlation.shape} for {len(self.domain)} columns")

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return codes of `rows` independent rows."""
        normals = rng.standard_normal((rows, len(self.domain))) @ np.linalg.cholesky(self.correlation).T
        codes = np.empty(normals.shape, dtype=np.int32, order="F")
        for i, margin in enumerate(self.margins):
            codes[:, i] = np.searchsorted(thresholds(margin), normals[:, i], side="right")
        return codes

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([tuple(attrs)])[0]

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        """Return expected counts: exact for single columns, counted in a sample of a fixed seed for several."""
        sampled: np.ndarray | None = None
        answers = []
        for clique in map(self.domain.canonical, cliques):
            if len(clique) == 1:
                answers.append(self.total * self.margins[self.domain.position(clique[0])])
                continue
            if sampled is None:
                sampled = self.sample(SAMPLE_ROWS, np.random.default_rng(0))
            answers.append(counted(self.domain, sampled, clique) * (self.total / SAMPLE_ROWS))
        return answers

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain = stored.domain()
        margins = stored.distributions("margins", [(size,) for size in domain.sizes])
        correlation = stored.table("correlation", (len(domain),) * 2, -1.0 - 1e-6, 1.0 + 1e-6)
        sound = np.allclose(correlation, correlation.T) and np.allclose(np.diag(correlation), 1.0)
        stored.require(sound and float(np.linalg.eigvalsh(correlation)[0]) > 1e-9, "has an invalid correlation matrix")
        return cls(domain, stored.total(), margins, correlation)


def thresholds(margin: np.ndarray) -> np.ndarray:
    """Return the limits of the normal variable between successive values, one fewer than there are values."""
    return _special.ndtri(np.minimum(np.cumsum(margin)[:-1] / margin.sum(), 1.0))


def grades(margin: np.ndarray, resolution: int) -> np.ndarray:
    """Return a rising score in [-1, 1] of every value, its centred mean rank, in multiples of 1/resolution.

    >>> grades(np.array([0.5, 0.25, 0.25]), 4)
    array([-0.75,  0.25,  1.  ])
    """
    share = margin / margin.sum()
    ranks = 2 * np.cumsum(share) - share - 1
    return np.rint(ranks / max(float(np.abs(ranks).max()), 1e-12) * resolution) / resolution


def normal_correlation(first: Grades, second: Grades, products: float) -> float:
    """Return the correlation of two normal variables at which the mean product of the columns' grades is `products`.

    With a_k the Hermite coefficients of a column's grade as a function of its normal variable, the mean product is
    sum_k a_k b_k r^k (Mehler), which rises with r as grades rise. A value that no correlation gives is replaced by the
    nearest one.
    """
    grid = _MAX_CORRELATION * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 401))
    means = np.polynomial.polynomial.polyval(grid, first.coefficients * second.coefficients)
    return float(np.interp(products, np.maximum.accumulate(means), grid))


@dataclass(frozen=True, slots=True, eq=False)
class Grades:
    """A column's grades as a step function of its normal variable.

    Attributes:
        values: the grade of every code.
        coefficients: coefficients of the normalised Hermite polynomials, from order 0.
    """

    values: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def of(cls, margin: np.ndarray, resolution: int) -> Grades:
        """Return the grades of a column with this distribution.

        The integral of h_k phi over an interval is a difference of h_(k-1) phi / sqrt(k) at its ends.
        """
        values, cuts = grades(margin, resolution), thresholds(margin)
        steps, cuts = np.diff(values)[np.isfinite(cuts)], cuts[np.isfinite(cuts)]
        before, now = np.zeros(len(cuts)), np.exp(-(cuts**2) / 2) / np.sqrt(2 * np.pi)
        coefficients = [float(values @ margin / margin.sum())]
        for order in range(1, _HERMITE_ORDERS):
            coefficients.append(float(steps @ now) / np.sqrt(order))
            before, now = now, (cuts * now - np.sqrt(order - 1) * before) / np.sqrt(order)
        return cls(values, np.array(coefficients))


def nearest_correlation(matrix: np.ndarray, smallest: float = 1e-4) -> np.ndarray:
    """Return the matrix with eigenvalues raised to `smallest` and its diagonal scaled back to ones.

    >>> nearest_correlation(np.array([[1.0, 2.0], [2.0, 1.0]])).round(2)
    array([[1., 1.],
           [1., 1.]])
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    raised = (vectors * np.maximum(values, smallest)) @ vectors.T
    scale = np.sqrt(np.diag(raised))
    return raised / np.outer(scale, scale)
