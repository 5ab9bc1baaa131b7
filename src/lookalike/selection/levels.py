"""The level of its public hierarchy at which a column is measured with others, chosen from released counts only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lookalike.measurements.marginals import NoisyMarginal
from lookalike.schema.domain import ColumnSet
from lookalike.schema.schema import Schema


def hierarchy_levels(schema: Schema, kept: Iterable[ColumnSet]) -> dict[str, tuple[np.ndarray, ...]]:
    """Return the levels of the columns that have a hierarchy, except for columns in `kept`, which stay as they are."""
    fine = {name for columns in kept for name in columns}
    return {column.name: column.levels for column in schema.columns if column.levels and column.name not in fine}


def coarse_maps(
    levels: Mapping[str, Sequence[np.ndarray]], oneways: Mapping[str, np.ndarray], stddev: float, limit: float
) -> dict[str, np.ndarray]:
    """Return maps from code to group for the columns whose pairs would be too large otherwise.

    A column is measured at the finest level at which its table with another column like it has at most `limit`
    effective cells; if no level is coarse enough, at the coarsest. The level thus depends on the column alone, and is
    the same in every column set.

    Args:
        levels: for each column that has some, maps from code to group, from fine to coarse.
        oneways: non-negative (noisy) counts of those columns.
        stddev: noise of a typical measurement.
        limit: maximum number of effective cells of a pair; see `pricing.useful_cells`.

    >>> age = np.full(100, 50.0)
    >>> coarse_maps({"age": [np.arange(100) // 5, np.arange(100) // 20]}, {"age": age}, 1.0, 500.0)["age"].max()
    np.int64(19)
    """
    maps: dict[str, np.ndarray] = {}
    for name, groupings in levels.items():
        counts = oneways[name]
        for groups in groupings:
            if _pair_cells(counts, stddev) <= limit:
                break
            maps[name] = groups
            counts = np.bincount(groups, weights=oneways[name])
    return maps


def _pair_cells(counts: np.ndarray, stddev: float) -> float:
    """Return the effective cells of a column and an independent copy of it, without computing their joint table."""
    rising = np.sort(counts)
    total = max(float(rising.sum()), 1e-12)
    # Of the cells of value i those with values above total * stddev / count_i count fully.
    partial = np.searchsorted(rising, total * stddev / np.maximum(rising, 1e-100))
    sums = np.concatenate([[0.0], np.cumsum(rising)])
    return max(1.0, float((len(rising) - partial).sum() + (rising * sums[partial]).sum() / (total * stddev)))


def merged_oneways(oneways: Sequence[NoisyMarginal], maps: Mapping[str, np.ndarray]) -> list[NoisyMarginal]:
    """Return the noisy counts of groups of values; their stddev is the root mean square over the groups.

    Columns without a map stay as they are.
    """
    merged = []
    for oneway in oneways:
        groups = maps.get(oneway.attrs[0])
        if groups is None:
            merged.append(oneway)
            continue
        values = np.bincount(groups, weights=oneway.values)
        merged.append(NoisyMarginal(oneway.attrs, values, oneway.stddev * (groups.size / values.size) ** 0.5))
    return merged


def spread_counts(oneways: Sequence[NoisyMarginal], maps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return counts of the values of every mapped column, in proportion to which groups are divided into values."""
    return {o.attrs[0]: within_groups(o, maps[o.attrs[0]]) for o in oneways if o.attrs[0] in maps}


def within_groups(oneway: NoisyMarginal, groups: np.ndarray) -> np.ndarray:
    """Return counts in proportion to which groups are divided into values: noisy counts, shrunk towards their mean.

    With v the noisy counts of a group and s^2 the noise, the values' own spread is estimated as t, the variance of v
    less s^2, not below 0; deviations from the mean are multiplied by t / (t + s^2), the best linear rule for known t.

    >>> within_groups(NoisyMarginal(("x",), np.array([11.0, 9.0, 50.0, 10.0]), 5.0), np.array([0, 0, 1, 1])).round(1)
    array([10. , 10. , 49.4, 10.6])
    """
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=oneway.values) / sizes
    apart = oneway.values - means[groups]
    # One degree of freedom goes into the mean.
    spread = np.bincount(groups, weights=apart**2) / np.maximum(sizes - 1, 1)
    own = np.maximum(spread - oneway.stddev**2, 0.0)
    shrunk = means[groups] + (own / (own + oneway.stddev**2))[groups] * apart
    return np.maximum(shrunk, 0.0)
