"""Counts the rows that share each prefix, and so those that could have been the seed of a row.

A row made by plausible deniability (Bindschaedler, Shokri, Gunter 2017) keeps the first l values of a real seed row, in
an order in which the model's parents come first, and draws the rest from the model. A real row d makes y with
probability
    1[d agrees with y on the first l values] * product of q_i(y) over the other columns i,
since parents of drawn columns are kept or drawn, hence equal to y's. So for a fixed l all plausible seeds make y
equally often, and their number is the number of rows that share y's prefix: one look-up. Where l is random
and the test is for the mixture, the probability depends on d through its longest common prefix with y alone and grows
with it, so a class of probabilities is a range of prefix lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class PrefixCounts:
    """Numbers of rows that share each prefix: built in O(rows * columns), read in O(1) or O(columns) per row.

    Level l numbers the different prefixes of l values that occur. PRIVATE: exact counts.
    """

    def __init__(self, codes: Codes, sizes: Sequence[int]) -> None:
        """`codes`: one row per record, columns in the network's order; `sizes`: numbers of values of these columns."""
        self.rows, self.levels = codes.shape
        self._sizes = tuple(sizes)
        group = np.zeros(self.rows, dtype=np.int64)
        self._groups: list[Integers] = [group]
        self._keys: list[Integers] = [np.zeros(1, dtype=np.int64)]
        self._counts: list[Integers] = [np.array([self.rows], dtype=np.int64)]
        for level, size in enumerate(sizes):
            key = group * size + codes[:, level]
            keys, group, counts = _numbered(key, len(self._counts[-1]) * size)
            self._groups.append(group)
            self._keys.append(keys)
            self._counts.append(counts)

    def of_rows(self, rows: Integers, kept: Integers) -> Integers:
        """Number of records that share the first kept[i] values of record rows[i]: O(1) each."""
        found = np.empty(len(rows), dtype=np.int64)
        for level in np.unique(kept):
            asked = kept == level
            found[asked] = self._counts[level][self._groups[level][rows[asked]]]
        return found

    def of_codes(self, codes: Codes) -> Integers:
        """Number of records that share the first l values of each given row, for l = 0..columns: O(columns) each."""
        found = np.zeros((len(codes), self.levels + 1), dtype=np.int64)
        found[:, 0] = self.rows
        group, alive = np.zeros(len(codes), dtype=np.int64), np.full(len(codes), self.rows > 0)
        for level, size in enumerate(self._sizes):
            keys = self._keys[level + 1]
            key = group * size + codes[:, level]
            group = np.minimum(np.searchsorted(keys, key), max(0, len(keys) - 1))
            alive &= keys[group] == key if len(keys) else False
            found[alive, level + 1] = self._counts[level + 1][group[alive]]
        return found

    def cells(self, level: int) -> tuple[Codes, Integers]:
        """The different prefixes of `level` values that occur, and how many records have each."""
        counts, keys = self._counts[level], self._keys[level]
        values = np.zeros((len(counts), level), dtype=np.int32)
        for place in range(level - 1, -1, -1):
            values[:, place] = keys % self._sizes[place]
            keys = self._keys[place][keys // self._sizes[place]]
        return values, counts


def class_sizes(shared: Integers, classes: Integers) -> Integers:
    """Number of records in the class of a seed that shares exactly a values with the row, for a = 0..max(kept).

    Probabilities grow with a, so a class is a range lo..hi of a, and its records share lo values but not hi + 1.

    Args:
        shared: `PrefixCounts.of_codes` of the rows.
        classes: `probability_classes` of the rows. Class -1 has no size.
    """
    longest = classes.shape[1] - 1
    rows = np.arange(len(shared))
    below = np.zeros((len(shared), longest + 2), dtype=np.int64)
    below[:, : longest + 1] = shared[:, : longest + 1]
    first, sizes = np.zeros(len(shared), dtype=np.int64), np.zeros((len(shared), longest + 1), dtype=np.int64)
    starts = np.zeros_like(classes)
    for a in range(1, longest + 1):
        first = np.where(classes[:, a] == classes[:, a - 1], first, a)
        starts[:, a] = first
    last = np.full(len(shared), longest)
    for a in range(longest, -1, -1):
        if a < longest:
            last = np.where(classes[:, a] == classes[:, a + 1], last, a)
        sizes[:, a] = below[rows, starts[:, a]] - below[rows, last + 1]
    return np.where(classes >= 0, sizes, 0)


def probability_classes(logs: Floats, kept: Sequence[int], gamma: float) -> Integers:
    """Class i of a seed that shares exactly a values, gamma^(-i-1) < p_a <= gamma^(-i); -1 where p_a is 0.

    p_a = sum over kept l <= a of (1/len(kept)) * product of q_i over the columns i > l, for a = 0..max(kept).

    Args:
        logs: log q_i of every row, columns in the network's order.
        kept: the equally likely numbers of kept columns.
        gamma: the factor between the bounds of a class, above 1.
    """
    suffix = np.zeros((len(logs), logs.shape[1] + 1))
    suffix[:, :-1] = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
    total = np.full(len(logs), -math.inf)
    classes = np.full((len(logs), max(kept) + 1), -1, dtype=np.int64)
    for a in range(max(kept) + 1):
        if a in kept:
            total = np.logaddexp(total, suffix[:, a] - math.log(len(kept)))
        possible = total > -math.inf
        classes[possible, a] = np.floor(np.maximum(-total[possible], 0.0) / math.log(gamma)).astype(np.int64)
    return classes


def _numbered(key: Integers, limit: int) -> tuple[Integers, Integers, Integers]:
    """The different keys in order, each row's number among them, and how often each occurs."""
    if limit <= 4 * len(key) + 1024:
        counts = np.bincount(key, minlength=limit)
        keys = np.flatnonzero(counts)
        numbers = np.zeros(limit, dtype=np.int64)
        numbers[keys] = np.arange(len(keys))
        return keys, numbers[key], counts[keys]
    keys, group, counts = np.unique(key, return_inverse=True, return_counts=True)
    return keys, group.astype(np.int64), counts
