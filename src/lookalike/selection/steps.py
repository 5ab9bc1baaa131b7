"""Steps that many methods share: shares of a budget, noisy counts of column sets, noisy scores, the choice of a set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import CellTable, NoisyMarginal, averaged, completed, estimated_total
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.grouping import counted_table, effective_cells, visible_groups

MAX_SCORED_CELLS = 20_000_000
"""Maximum number of cells of all scored pairs together: their exact counts are held in memory at once."""
COARSE_COLUMNS = 0.05
"""Columns are known too coarsely if their noise is more than this part of the rows; docs/laboratory/mosaic.md."""


def singles(domain: Domain) -> list[ColumnSet]:
    """Return every column as a column set."""
    return [(name,) for name in domain.names]


def active_columns(domain: Domain) -> list[str]:
    """Return the columns with two or more values: in the others there is nothing to measure."""
    return [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]


def scored_pairs(domain: Domain) -> list[ColumnSet]:
    """Return all pairs of columns with two or more values, fewest cells first, that can be counted in memory."""
    pairs = sorted(combinations(active_columns(domain), 2), key=domain.cells)
    within = int(np.searchsorted(np.cumsum([domain.cells(pair) for pair in pairs]), MAX_SCORED_CELLS, side="right"))
    return pairs[:within]


def measure_columns(door: GuardedTable, rho: float, *, step: str) -> list[NoisyMarginal]:
    """The noisy counts of every column for rho in all, shared by numbers of values as `allocate` does."""
    return [with_known(m, door) for m in measure_sets(door, singles(door.domain), rho, step=step)]


def wanted_precision(oneways: Sequence[NoisyMarginal]) -> float:
    """Return by how much the precision of the columns should grow: 1 where their noise is a small part of the rows.

    >>> table = [NoisyMarginal(("x",), np.full(40, 50.0), 64.6)]
    >>> round(wanted_precision(table), 2)
    7.37
    """
    noise = [m.stddev * effective_cells(np.maximum(m.values, 0.0), m.stddev) for m in oneways]
    return max(1.0, float(np.mean(noise)) / (COARSE_COLUMNS * estimated_total(oneways))) ** (2 / 3)


def with_known(measured: NoisyMarginal, door: GuardedTable) -> NoisyMarginal:
    """The counts of a column, averaged with those that were released before, by inverse variance."""
    earlier = [m for m in door.known if m.attrs == measured.attrs and m.values.shape == measured.values.shape]
    return averaged([measured, *earlier])[0]


def fit_columns(door: GuardedTable, rho: float, *, step: str) -> tuple[list[NoisyMarginal], GraphicalModel]:
    """The noisy counts of every column for rho in all, and the model of independent columns that fits them."""
    oneways = measure_columns(door, rho, step=step)
    return oneways, fit(door.domain, oneways, zeros=model_zeros(door.schema))


def measure_sets(door: GuardedTable, sets: Sequence[ColumnSet], rho: float, *, step: str) -> list[NoisyMarginal]:
    """The noisy counts of the column sets for rho in all, shared by numbers of cells as `allocate` does."""
    shares = allocate([door.domain.cells(attrs) for attrs in sets], rho)
    return door.measure(sets, [door.stddev_for(share) for share in shares], step=step)


def measure_column_contrasts(
    door: GuardedTable, total: float, rho: float, *, step: str, known: Sequence[NoisyMarginal] | None = None
) -> list[NoisyMarginal]:
    """The noisy contrasts of every column of two or more values, completed by the number of rows; for rho in all.

    They are averaged with counts that were released before: those that the door knows, if `known` does not say others.
    """
    domain = door.domain
    tables = [CellTable((name,), domain.shape((name,))) for name in active_columns(domain)]
    shares = allocate([table.contrasts.dimensions for table in tables], rho)
    noise = [door.stddev_for(share, table=table) for table, share in zip(tables, shares, strict=True)]
    measured = door.measure_contrasts(tables, noise, step=step)
    return [_completed_by_known(m, total, door.known if known is None else known) for m in measured]


def _completed_by_known(measured: NoisyMarginal, total: float, known: Sequence[NoisyMarginal]) -> NoisyMarginal:
    """The contrasts of a column, completed by the number of rows; averaged with counts that were released before."""
    alone = completed(measured, np.full(measured.cells, total / measured.cells))
    for m in known:
        if m.attrs == measured.attrs and m.values.shape == measured.values.shape:
            own, other = measured.stddev**-2.0, m.stddev**-2.0
            mean = (own * alone.values + other * m.values) / (own + other)
            return replace(alone, values=mean, stddev=(own + other) ** -0.5)
    return alone


def columns_by_noise(
    door: GuardedTable, rho: float, max_more: float, *, step: str, more_step: str
) -> list[NoisyMarginal]:
    """The noisy counts of every column for rho in all, and for up to `max_more` once more where they are too coarse.

    Small tables show few sets, out of whose share their columns are measured again.
    """
    columns = measure_columns(door, rho, step=step)
    more = min(rho * (wanted_precision(columns) - 1.0), max_more)
    if more <= 0:
        return columns
    return averaged([*columns, *measure_sets(door, singles(door.domain), more, step=more_step)])


def contrasts_in_two(
    door: GuardedTable, total: float, rho: float, more: float, *, step: str, more_step: str
) -> list[NoisyMarginal]:
    """The noisy contrasts of every column for rho + more in all, charged to two steps."""
    columns = measure_column_contrasts(door, total, rho, step=step)
    if more <= 1e-6 * rho:
        return columns
    return averaged([*columns, *measure_column_contrasts(door, total, more, step=more_step, known=())])


def measure_set_contrasts(
    door: GuardedTable,
    independent: GraphicalModel,
    sets: Sequence[ColumnSet],
    shares: Sequence[float] | np.ndarray,
    *,
    group_mass: float,
    value_mass: float,
    step: str,
) -> list[NoisyMarginal]:
    """The noisy contrasts of the sets, for a share of rho each, completed by the counts of the independent model."""
    columns, ordered = {name: independent.marginal((name,)) for name in independent.domain.names}, door.schema.bins
    expected, tables = independent.marginals(sets), list[CellTable]()
    for attrs, counts, share in zip(sets, expected, shares, strict=True):
        typical, own = door.stddev_for(share), [columns[name] for name in attrs]
        tables.append(counted_table(attrs, counts, own, group_mass * typical, value_mass * typical, ordered))
    noise = [door.stddev_for(share, table=table) for table, share in zip(tables, shares, strict=True)]
    measured = door.measure_contrasts(tables, noise, step=step)
    return [completed(m, counts) for m, counts in zip(measured, expected, strict=True)]


def cell_groups(tables: Sequence[np.ndarray], noise: Sequence[float], mass: float) -> list[np.ndarray | None]:
    """Return the groups in which the cells of each public table are counted, of `mass` stddevs or more each."""
    if not mass:
        return [None] * len(tables)
    return [visible_groups(table, mass * stddev) for table, stddev in zip(tables, noise, strict=True)]


def score_sets(
    door: GuardedTable, sets: Sequence[ColumnSet], references: Sequence[np.ndarray], rho: float, *, step: str
) -> np.ndarray:
    """The noisy L1 distances of the counts of these sets from public references, for rho in all."""
    score = ResidualL1(tuple(sets), tuple(references))
    return door.noisy_scores(score, door.score_stddev_for(score, rho), step=step)


def score_pairs(
    door: GuardedTable, independent: GraphicalModel, rho: float, *, step: str
) -> tuple[list[ColumnSet], np.ndarray]:
    """All pairs of columns, and how far each is from the model of independent columns; for rho in all."""
    pairs: list[ColumnSet] = list(combinations(door.domain.names, 2))
    return pairs, score_sets(door, pairs, independent.marginals(pairs), rho, step=step)


EXPECTED_ABS = math.sqrt(2 / math.pi)
"""Mean absolute value of a standard normal; noise on c cells has an expected L1 norm of this * stddev * c."""

TYPICAL_SETS = 25
"""Typical number of sets that share a budget. An equal share of rho gives the stddev of a typical measurement, by which
sets are judged before their number is known. Chosen with the first version of privmrf and kept by ppsyn and mosaic; no
page compares other values."""

_MIN_ADDITION = 1e-3
"""Additions below this part of the mean one are left out: they would be charged without being of use."""


def allocate(cells: Sequence[float] | np.ndarray, rho: float) -> np.ndarray:
    """Return the shares of rho with the least total expected L1 error, rho * c_i^(2/3) / sum_j c_j^(2/3).

    A marginal of c cells measured with rho_i has noise of variance 1/(2 rho_i) per cell and so an expected L1 error
    of c / sqrt(pi rho_i); the shares solve the Lagrangian of their sum (PrivSyn eq. 1). c^(2/3) is called the weight of
    a marginal.

    >>> allocate([8, 64], 1.0)
    array([0.2, 0.8])
    """
    weights = np.asarray(cells, dtype=float) ** (2 / 3)
    return rho * weights / weights.sum()


def noise_error(weight: Any, rho: float) -> Any:
    """Return the expected L1 error of marginals that share rho by weight: (sum of weights)^(3/2) / sqrt(pi rho).

    Args:
        weight: sum of the marginals' weights, cells^(2/3) each; a number or an array of them.
        rho: the budget that they share.
    """
    return weight**1.5 / math.sqrt(math.pi * rho)


def top_up(weights: np.ndarray, spent: np.ndarray, rho: float) -> np.ndarray:
    """Return what to add to each measurement so that all together come as near to shares by weight as possible.

    The sum of the additions is rho; a set that has more than its share already gets nothing. Shares are lam * weight
    with the lam that solves sum max(0, lam * weight - spent) = rho. Tiny additions go to the other sets.

    >>> top_up(np.array([1.0, 1.0, 2.0]), np.array([3.0, 0.0, 0.0]), 3.0)
    array([0., 1., 2.])
    """
    order = np.argsort(spent / weights)
    weight, had = np.cumsum(weights[order]), np.cumsum(spent[order])
    level = (rho + had) / weight
    start = (spent / weights)[order]
    last = int(np.flatnonzero(start < level)[-1])
    additions = np.maximum(0.0, level[last] * weights - spent)
    additions[additions < _MIN_ADDITION * rho / len(additions)] = 0.0
    return additions * (rho / additions.sum())


def more_for_budget(count: int, rho: float) -> int:
    """Return a number of sets or queries: `count`, and up to three times as many where noise would hardly matter.

    From rho = 1/4 (epsilon about 4) on it grows with the fourth root of rho: more is asked, and each still more
    precisely than before.

    >>> [more_for_budget(4, rho) for rho in (0.02, 1.0, 1000.0)]
    [4, 6, 12]
    """
    return math.ceil(count * min(max((4 * rho) ** 0.25, 1.0), 3.0))


MANY_ROWS, MAX_GROWTH = 100_000, 3.0
"""From so many rows on, networks are larger, up to by this factor; docs/laboratory/discovery.md#late-flights."""
_PER_ROW, _MAX_SUPPORT, _MAX_NUMBERS = 3, 750_000, 100_000_000
"""Weighted rows for each row of a large table, at most, and cell numbers of all sets that are held in memory."""


def growth(total: float) -> float:
    """Return by how much more time a network gets on a table of many rows.

    >>> [growth(total) for total in (48_000, 200_000, 1e7)]
    [1.0, 2.0, 3.0]
    """
    return float(np.clip(total / MANY_ROWS, 1.0, MAX_GROWTH))


def support_of(least: int, total: float, sets: int) -> int:
    """Return how many weighted rows a model of so many sets has at most.

    Few rows carry the weights of many sets badly: of 400,000 rows for 270,000 of flights, counted in 100 sets, the
    weights left 34,000 effective ones, of 800,000 they left 320,000.

    >>> [support_of(150_000, total, 100) for total in (40_000, 200_000, 1e7)]
    [150000, 600000, 750000]
    """
    return int(max(least, min(_PER_ROW * total, _MAX_SUPPORT, _MAX_NUMBERS / max(sets, 1))))


def choose_worst(
    door: GuardedTable,
    cliques: Sequence[ColumnSet],
    references: Sequence[np.ndarray],
    *,
    rho: float,
    penalties: np.ndarray,
    weights: np.ndarray | None = None,
    step: str,
) -> int:
    """Return an index drawn by the exponential mechanism on weight_i * (|| M_i(D) - reference_i ||_1 - penalty_i).

    Costs rho. Penalties and weights are public; the usual penalty is the expected noise of measuring the marginal.
    """
    score = ResidualL1(tuple(cliques), tuple(references))
    return door.choose(score, math.sqrt(8 * rho), step=step, weights=weights, offsets=penalties)
