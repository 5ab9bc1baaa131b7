"""Which sets of parents a column may have in a Bayesian network (PrivBayes, section 4.4), from public sizes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.schema.domain import Clique, Domain

MOST_LISTED = 20_000
"""Sets that are listed one by one; where there are more, random ones are drawn."""


@dataclass(frozen=True, slots=True)
class Family:
    """A column and its parents, which are in the order of the domain."""

    child: str
    parents: Clique

    def clique(self, domain: Domain) -> Clique:
        return domain.canonical((self.child, *self.parents))


def parent_sets(
    sizes: Sequence[int], limit: float, degree: int, most: int, rng: np.random.Generator, *, maximal: bool = True
) -> np.ndarray:
    """Sets of columns with at most `limit` cells together and at most `degree` members, as a boolean matrix of rows.

    Args:
        sizes: number of values of each column.
        limit: most cells. The empty set has one cell and is always allowed.
        degree: most columns in a set.
        most: where there are more sets than this, so many random ones (fewer where some coincide).
        rng: public randomness.
        maximal: only sets that no further column fits into, the paper's "maximal parent sets".

    >>> parent_sets([2, 3, 4], 8.0, 3, 100, np.random.default_rng(0)).astype(int).tolist()
    [[1, 0, 1], [1, 1, 0]]
    """
    values = np.asarray(sizes, dtype=float)
    limit *= 1 + 1e-9
    listed = _listed(values, limit, degree)
    if listed is None:
        return _drawn(values, limit, degree, most, rng, maximal)
    cells = np.exp2(listed @ np.log2(values))
    if maximal:
        smallest = np.where(listed, np.inf, values).min(axis=1, initial=np.inf)
        listed = listed[(cells * smallest > limit) | (listed.sum(axis=1) >= degree)]
    if len(listed) > most:
        listed = listed[np.sort(rng.choice(len(listed), most, replace=False))]
    return listed


def _listed(values: np.ndarray, limit: float, degree: int) -> np.ndarray | None:
    """Every allowed set, or None where they are too many."""
    members, cells = np.zeros((1, len(values)), dtype=bool), np.ones(1)
    for i, size in enumerate(values):
        fits = (cells * size <= limit) & (members.sum(axis=1) < degree)
        grown = members[fits]
        grown[:, i] = True
        members, cells = np.concatenate([grown, members]), np.concatenate([cells[fits] * size, cells])
        if len(members) > MOST_LISTED:
            return None
    return members


def _drawn(
    values: np.ndarray, limit: float, degree: int, most: int, rng: np.random.Generator, maximal: bool
) -> np.ndarray:
    """Random sets: columns in random order, each taken if it fits; without `maximal`, up to a random number."""
    order = rng.permuted(np.tile(np.arange(len(values)), (most, 1)), axis=1)
    wanted = np.full(most, degree) if maximal else rng.integers(1, min(degree, len(values)) + 1, most)
    members, cells, taken = np.zeros((most, len(values)), dtype=bool), np.ones(most), np.zeros(most, dtype=int)
    rows = np.arange(most)
    for column in order.T:
        fits = (cells * values[column] <= limit) & (taken < wanted)
        members[rows[fits], column[fits]] = True
        cells[fits] *= values[column[fits]]
        taken += fits
    return np.unique(members, axis=0)


def family_candidates(
    domain: Domain,
    used: Iterable[str],
    waiting: Iterable[str],
    most_cells: float,
    degree: int,
    most: int,
    rng: np.random.Generator,
    *,
    maximal: bool = True,
) -> list[Family]:
    """Every waiting column with every allowed set of used columns as its parents, or `most` random ones of these.

    A family has at most `most_cells` cells; a column that has more by itself gets no parents. Sets are listed once per
    number of values of the child, which is all that matters to them.
    """
    parents, by_size = domain.canonical(used), dict[int, list[Clique]]()
    families: list[Family] = []
    for child in waiting:
        size = domain.size(child)
        if size not in by_size:
            sets = parent_sets(domain.shape(parents), most_cells / size, degree, most, rng, maximal=maximal)
            by_size[size] = [tuple(parents[i] for i in np.flatnonzero(row)) for row in sets] or [()]
        families += [Family(child, chosen) for chosen in by_size[size]]
    if len(families) > most:
        families = [families[i] for i in np.sort(rng.choice(len(families), most, replace=False))]
    return families


def binary_degree(columns: int, useful_cells: Callable[[int], float]) -> int:
    """PrivBayes' k for binary tables: the most parents with which families are useful; at least 0.

    Only columns - k marginals are measured, as the family of the last of the first k + 1 columns holds all before it.

    Args:
        columns: of the table.
        useful_cells: most cells of a useful marginal where so many marginals share the budget.

    >>> binary_degree(16, lambda marginals: 1200 / marginals**0.5)
    7
    """
    return max((k for k in range(columns) if 2 ** (k + 1) <= useful_cells(columns - k)), default=0)
