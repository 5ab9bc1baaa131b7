"""The Bayesian network of PrivBayes: which parents a column may have (section 4.4), choosing them, and the models.

A family is a column with its parents. Which families are allowed follows from public sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.bayes_net import BayesNet
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.model_size import fitting_parts

if TYPE_CHECKING:
    from lookalike.privacy.kernel.door import GuardedTable
    from lookalike.privacy.kernel.requests import Score

MAX_LISTED = 20_000
"""Maximum number of sets that are listed one by one; of more, random ones are drawn."""

_MAX_CELLS = 100_000
"""Maximum number of cells of a family, for any number of rows."""

_MAX_COUNTED = 100_000_000
"""Maximum number of cells of all families that compete in one choice."""


@dataclass(frozen=True, slots=True)
class Family:
    """A column and its parents, which are in the order of the domain."""

    child: str
    parents: ColumnSet

    def clique(self, domain: Domain) -> ColumnSet:
        return domain.canonical((self.child, *self.parents))


def parent_sets(
    sizes: Sequence[int], limit: float, degree: int, max_sets: int, rng: np.random.Generator, *, maximal: bool = True
) -> np.ndarray:
    """Return the sets of at most `degree` columns and `limit` cells, as rows of a boolean matrix.

    Args:
        sizes: number of values of each column.
        limit: maximum number of cells. The empty set has one cell and is always allowed.
        degree: maximum number of columns in a set.
        max_sets: maximum number of sets; of more, this number of random ones is drawn, of which some may coincide.
        rng: public randomness.
        maximal: only sets that no further column fits into, the paper's "maximal parent sets".

    >>> parent_sets([2, 3, 4], 8.0, 3, 100, np.random.default_rng(0)).astype(int).tolist()
    [[1, 0, 1], [1, 1, 0]]
    """
    values = np.asarray(sizes, dtype=float)
    limit *= 1 + 1e-9
    listed = _listed(values, limit, degree)
    if listed is None:
        return _drawn(values, limit, degree, max_sets, rng, maximal)
    cells = np.exp2(listed @ np.log2(values))
    if maximal:
        smallest = np.where(listed, np.inf, values).min(axis=1, initial=np.inf)
        listed = listed[(cells * smallest > limit) | (listed.sum(axis=1) >= degree)]
    if len(listed) > max_sets:
        listed = listed[np.sort(rng.choice(len(listed), max_sets, replace=False))]
    return listed


def _listed(values: np.ndarray, limit: float, degree: int) -> np.ndarray | None:
    """Return every allowed set, or None where they are too many."""
    members, cells = np.zeros((1, len(values)), dtype=bool), np.ones(1)
    for i, size in enumerate(values):
        fits = (cells * size <= limit) & (members.sum(axis=1) < degree)
        grown = members[fits]
        grown[:, i] = True
        members, cells = np.concatenate([grown, members]), np.concatenate([cells[fits] * size, cells])
        if len(members) > MAX_LISTED:
            return None
    return members


def _drawn(
    values: np.ndarray, limit: float, degree: int, count: int, rng: np.random.Generator, maximal: bool
) -> np.ndarray:
    """Return random sets: columns in random order, each taken if it fits; without `maximal`, up to a random number."""
    order = rng.permuted(np.tile(np.arange(len(values)), (count, 1)), axis=1)
    wanted = np.full(count, degree) if maximal else rng.integers(1, min(degree, len(values)) + 1, count)
    members, cells, taken = np.zeros((count, len(values)), dtype=bool), np.ones(count), np.zeros(count, dtype=int)
    rows = np.arange(count)
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
    max_cells: float,
    degree: int,
    max_families: int,
    rng: np.random.Generator,
    *,
    maximal: bool = True,
) -> list[Family]:
    """Return every waiting column with every allowed set of used columns as parents, or `max_families` random ones.

    A family has at most `max_cells` cells; a column that has more by itself gets no parents. Sets are listed once per
    number of values of the child, which is all that matters to them.
    """
    parents, by_size = domain.canonical(used), dict[int, list[ColumnSet]]()
    families: list[Family] = []
    for child in waiting:
        size = domain.size(child)
        if size not in by_size:
            sets = parent_sets(domain.shape(parents), max_cells / size, degree, max_families, rng, maximal=maximal)
            by_size[size] = [tuple(parents[i] for i in np.flatnonzero(row)) for row in sets] or [()]
        families += [Family(child, chosen) for chosen in by_size[size]]
    if len(families) > max_families:
        families = [families[i] for i in np.sort(rng.choice(len(families), max_families, replace=False))]
    return families


def binary_degree(columns: int, useful_cells: Callable[[int], float]) -> int:
    """Return PrivBayes' k for binary tables: the largest number of parents with which families are useful.

    Only columns - k marginals are measured, as the family of the last of the first k + 1 columns holds all before it.

    Args:
        columns: number of columns of the table.
        useful_cells: maximum number of cells of a useful marginal, by the number of marginals that share the budget.

    >>> binary_degree(16, lambda marginals: 1200 / marginals**0.5)
    7
    """
    return max((k for k in range(columns) if 2 ** (k + 1) <= useful_cells(columns - k)), default=0)


def allowed_cells(useful: float, candidates: int) -> float:
    """Return the maximum number of cells of a family: at most useful, and small enough to be counted in a choice."""
    return min(useful, _MAX_CELLS, _MAX_COUNTED / candidates)


def choose_network(
    door: GuardedTable,
    score: Callable[[tuple[ColumnSet, ...], tuple[str, ...]], Score],
    max_cells: float,
    degree: int,
    candidates: int,
    rho: float,
    rng: np.random.Generator,
    *,
    step: str,
) -> list[Family]:
    """Choose families in an order in which parents come first. The first column is drawn at random, as in the paper.

    Args:
        door: the table.
        score: how much the child depends on its parents, for families as column sets and their children.
        max_cells: maximum number of cells of a family.
        degree: maximum number of parents.
        candidates: how many random families compete in a choice where there are more.
        rho: budget of all choices together.
        rng: public randomness.
        step: name of the step that is charged.
    """
    domain = door.domain
    order = [domain.names[int(rng.integers(len(domain)))]]
    families = [Family(order[0], ())]
    for _ in range(len(domain) - 1):
        waiting = [name for name in domain.names if name not in order]
        options = family_candidates(domain, order, waiting, max_cells, degree, candidates, rng)
        asked = score(tuple(f.clique(domain) for f in options), tuple(f.child for f in options))
        chosen = options[door.choose(asked, math.sqrt(8 * rho / (len(domain) - 1)), step=step)]
        order.append(chosen.child)
        families.append(chosen)
    return families


def network_model(
    domain: Domain,
    total: float,
    families: Sequence[Family],
    tables: dict[ColumnSet, np.ndarray],
    estimate: Callable[[np.ndarray, ColumnSet], np.ndarray],
) -> BayesNet:
    """Return the Bayesian network of the families, each from the smallest table that holds it.

    `estimate` turns counts with the child on the last axis, and the column set of their table, into the probabilities
    of the child given its parents.
    """
    found = []
    for family in families:
        held = min((clique for clique in tables if set(family.clique(domain)) <= set(clique)), key=domain.cells)
        found.append(estimate(_turned(tables[held], held, (*family.parents, family.child)), held))
    order = tuple(family.child for family in families)
    return BayesNet(domain, total, order, tuple(family.parents for family in families), tuple(found), {})


def fit_families(
    door: GuardedTable, known: Sequence[NoisyMarginal], measured: Sequence[NoisyMarginal]
) -> GraphicalModel:
    """Return the model of maximum entropy that explains all counts; the order of the network plays no part in it."""
    both = [*known, *measured]
    counted = [marginal for marginal in both if marginal.attrs]
    return fit(door.domain, counted, total=estimated_total(both), zeros=model_zeros(door.schema))


def _turned(table: np.ndarray, attrs: ColumnSet, wanted: Sequence[str]) -> np.ndarray:
    """Return the marginal of the wanted columns, with its axes in that order."""
    left = [name for name in attrs if name in wanted]
    summed = table.sum(axis=tuple(i for i, name in enumerate(attrs) if name not in wanted))
    return summed.transpose([left.index(name) for name in wanted])


def maximal_sets(cliques: Sequence[ColumnSet]) -> list[ColumnSet]:
    """Return the sets that lie inside no other one."""
    sets = [set(clique) for clique in cliques]
    return [clique for clique, own in zip(cliques, sets, strict=True) if not any(own < other for other in sets)]


def fitting_families(
    domain: Domain, families: Sequence[Family], rules: Iterable[ColumnSet], model_ms: float
) -> list[Family]:
    """Return the families, without some of their parents where the model of them and the rules would be too large.

    A family loses the parents with the most values first. Depends on public sizes only, so it is free.
    """
    parts = [[attrs] for attrs in rules]
    known = len(parts)
    for family in families:
        parents = sorted(family.parents, key=lambda name: (domain.size(name), domain.position(name)))
        parts.append([domain.canonical((family.child, *parents[:kept])) for kept in range(len(parents), -1, -1)])
    return [
        Family(family.child, tuple(name for name in clique or () if name != family.child))
        for family, clique in zip(families, fitting_parts(domain, parts, model_ms)[known:], strict=True)
    ]
