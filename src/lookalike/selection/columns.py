"""Steps that many methods share: noisy counts of columns and column sets, and noisy scores of pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lookalike.measurements.contrasts import CellTable
from lookalike.measurements.marginals import NoisyMarginal, averaged, completed
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.allocation import allocate
from lookalike.selection.grouping import counted_table, visible_groups
from lookalike.selection.model_size import model_zeros

MAX_SCORED_CELLS = 20_000_000
"""Maximum number of cells of all scored pairs together: their exact counts are held in memory at once."""


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


def measure_column_contrasts(door: GuardedTable, total: float, rho: float, *, step: str) -> list[NoisyMarginal]:
    """The noisy contrasts of every column of two or more values, completed by the number of rows; for rho in all."""
    domain = door.domain
    tables = [CellTable((name,), domain.shape((name,))) for name in active_columns(domain)]
    shares = allocate([table.contrasts.dimensions for table in tables], rho)
    noise = [door.stddev_for(share, table=table) for table, share in zip(tables, shares, strict=True)]
    measured = door.measure_contrasts(tables, noise, step=step)
    return [completed(m, np.full(m.cells, total / m.cells)) for m in measured]


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
    columns = {name: independent.marginal((name,)) for name in independent.domain.names}
    expected, tables = independent.marginals(sets), list[CellTable]()
    for attrs, counts, share in zip(sets, expected, shares, strict=True):
        typical, own = door.stddev_for(share), [columns[name] for name in attrs]
        tables.append(counted_table(attrs, counts, own, group_mass * typical, value_mass * typical))
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
