"""How well the association of every pair of columns is kept. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lookalike.evaluate.marginals import TablePair
from lookalike.schema.domain import Domain

_BLOCK_ROWS = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class PairAssociation:
    """Association of all pairs of columns in two tables, as symmetric matrices with ones on the diagonal.

    Attributes:
        real: association in the first table.
        synth: association in the second table.
        distances: total variation distance of the two 2-way marginals (1-way on the diagonal).
    """

    real: np.ndarray
    synth: np.ndarray
    distances: np.ndarray

    @property
    def mean_difference(self) -> float:
        """Mean of |real - synth| over pairs of different columns; 0 for a table of one column."""
        upper = np.triu_indices(len(self.real), 1)
        return float(np.abs(self.real - self.synth)[upper].mean()) if len(upper[0]) else 0.0

    @property
    def worst_difference(self) -> float:
        upper = np.triu_indices(len(self.real), 1)
        return float(np.abs(self.real - self.synth)[upper].max(initial=0.0))


def cramers_v(counts: np.ndarray) -> float:
    """Cramer's V of a two-way table of counts: sqrt(chi^2 / (n * (min(r, c) - 1))) over rows and columns that occur.

    0 means independent, 1 that one column determines the other. A column with one value has no association: 0.

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[4, 4], [2, 2]]))
    (1.0, 0.0)
    """
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    free = min(counts.shape) - 1
    if free < 1:
        return 0.0
    total = counts.sum()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    return float(np.sqrt(min(1.0, chi_squared / (total * free))))


def correlation(codes: np.ndarray) -> np.ndarray:
    """Pearson correlation matrix of integer codes; 0 where a column is constant (1 on the diagonal)."""
    rows, d = codes.shape
    centred_sums = np.zeros((d, d))
    means = codes.mean(axis=0)
    for start in range(0, rows, _BLOCK_ROWS):
        block = codes[start : start + _BLOCK_ROWS] - means
        centred_sums += block.T @ block
    spread = np.sqrt(np.diag(centred_sums))
    product = np.outer(spread, spread)
    result = np.divide(centred_sums, product, out=np.zeros((d, d)), where=product > 0)
    np.fill_diagonal(result, 1.0)
    return np.clip(result, -1.0, 1.0)


def pair_association(pair: TablePair, ordered: Collection[str] = ()) -> PairAssociation:
    """Association of every pair: Pearson correlation of codes where both columns are `ordered`, else Cramer's V."""
    domain, d = pair.domain, len(pair.domain)
    real, synth, distances = np.eye(d), np.eye(d), np.zeros((d, d))
    real_correlation, synth_correlation = correlation(pair.real), correlation(pair.synth)
    for i, first in enumerate(domain.names):
        distances[i, i] = pair.distance((first,))
        for j in range(i + 1, d):
            second = domain.names[j]
            one, two = _square_counts(pair, domain, first, second)
            distances[i, j] = distances[j, i] = 0.5 * np.abs(one / pair.real_rows - two / pair.synth_rows).sum()
            if first in ordered and second in ordered:
                real[i, j], synth[i, j] = real_correlation[i, j], synth_correlation[i, j]
            else:
                real[i, j], synth[i, j] = cramers_v(one), cramers_v(two)
            real[j, i], synth[j, i] = real[i, j], synth[i, j]
    return PairAssociation(real, synth, distances)


def column_shapes(pair: TablePair, ordered: Collection[str] = ()) -> dict[str, float]:
    """Likeness of every column, 1 for equal: 1 - Kolmogorov-Smirnov statistic where `ordered`, else 1 - distance.

    Equals sdmetrics' KSComplement and TVComplement, the parts of its 'Column Shapes' score.
    """
    shapes = {}
    for name in pair.domain.names:
        if name in ordered:
            column, size = pair.domain.position(name), pair.domain.size(name)
            one = np.bincount(pair.real[:, column], minlength=size).cumsum() / pair.real_rows
            two = np.bincount(pair.synth[:, column], minlength=size).cumsum() / pair.synth_rows
            shapes[name] = 1.0 - float(np.abs(one - two).max())
        else:
            shapes[name] = 1.0 - pair.distance((name,))
    return shapes


def pair_trends(association: PairAssociation, domain: Domain, ordered: Collection[str] = ()) -> np.ndarray:
    """Likeness of every pair, 1 for equal: 1 - |difference of correlations| / 2 where both are `ordered`, else
    1 - distance of the 2-way marginals.

    Equals sdmetrics' CorrelationSimilarity and ContingencySimilarity, the parts of its 'Column Pair Trends' score.
    """
    likeness = 1.0 - association.distances
    flags = np.array([name in ordered for name in domain.names])
    both = np.outer(flags, flags) & ~np.eye(len(flags), dtype=bool)
    likeness[both] = 1.0 - np.abs(association.real - association.synth)[both] / 2.0
    return likeness


def _square_counts(pair: TablePair, domain: Domain, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Both tables' 2-way counts as matrices: over all values, or where those are many over values that occur."""
    shape = domain.shape((first, second))
    if shape[0] * shape[1] <= 4 * (pair.real_rows + pair.synth_rows):
        one, two = pair.counts((first, second))
        return one.reshape(shape), two.reshape(shape)
    stacked = np.concatenate([pair.real, pair.synth])[:, [domain.position(first), domain.position(second)]]
    rows, row_of = np.unique(stacked[:, 0], return_inverse=True)
    columns, column_of = np.unique(stacked[:, 1], return_inverse=True)
    key, cells = row_of * len(columns) + column_of, len(rows) * len(columns)
    one, two = (np.bincount(part, minlength=cells) for part in (key[: pair.real_rows], key[pair.real_rows :]))
    return one.reshape(len(rows), -1), two.reshape(len(rows), -1)
