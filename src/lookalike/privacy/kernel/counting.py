"""Noise on exact counts and on their contrasts, for the door's `measure` and `measure_contrasts`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from lookalike.errors import SchemaError
from lookalike.measurements import CellTable, NoisyMarginal
from lookalike.privacy.kernel.accounting import gaussian_rho
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.privacy.kernel.noise import rounded_gaussian
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.sources.base import check_cliques


def noisy_counts(
    clique: ColumnSet,
    groups: np.ndarray | None,
    counts: np.ndarray,
    stddev: float,
    ledger_entry: int,
    insecure_rng: Generator | None,
) -> NoisyMarginal:
    """Return counts, or sums of groups of them, plus Gaussian noise rounded to integers.

    Counts are integers, so round(count + z) = count + round(z): post-processing of the Gaussian mechanism, whose exact
    privacy curve therefore holds.
    """
    if groups is not None:
        counts = np.bincount(groups.ravel(), weights=counts.ravel(), minlength=int(groups.max()) + 1)
    noise = rounded_gaussian(stddev, counts.shape, insecure_rng=insecure_rng)
    return NoisyMarginal(clique, (counts + noise).astype(np.float64), stddev, groups, ledger_entry)


def checked_tables(domain: Domain, tables: Sequence[CellTable]) -> list[ColumnSet]:
    """Return the tables' column sets; refuse, uncharged, a table that does not fit the domain or has no contrasts."""
    cliques = [table.attrs for table in tables]
    check_cliques(domain, cliques)
    for table in tables:
        cells = table.shape if table.groups is None else table.groups.shape
        places = range(1) if table.groups is None else (table.groups.min(), table.groups.max())
        if cells != domain.shape(table.attrs) or min(places) < 0 or max(places) >= table.contrasts.cells:
            raise SchemaError(f"The table of {table.attrs} has shape {cells} or groups beyond it, unlike the domain.")
        if table.contrasts.dimensions < 1:
            raise SchemaError(f"A table of shape {table.shape} of {table.attrs} has no contrasts to be measured.")
    return cliques


def contrasts_rho(tables: Sequence[CellTable], stddevs: Sequence[float], neighbours: Neighbours) -> Fraction:
    """Return what `noisy_contrasts` of all tables cost: the sum of squared_contrasts / (2 stddev^2).

    Computed for the numbers that get the noise: the contrasts times the number of cells, in exact arithmetic.
    """
    rho = Fraction(0)
    for table, stddev in zip(tables, stddevs, strict=True):
        squared = neighbours.squared_contrasts(table.contrasts) * table.contrasts.cells**2
        rho += squared * gaussian_rho(1, Fraction(stddev) * table.contrasts.cells)
    return rho


def noisy_contrasts(
    table: CellTable, counts: np.ndarray, stddev: float, ledger_entry: int, insecure_rng: Generator | None
) -> NoisyMarginal:
    """Return contrasts of the table (`measurements.py`) with Gaussian noise of `stddev` on every cell.

    The contrasts times the number of cells are integers, so noise of that many times the stddev can be rounded to
    integers, which is post-processing of the Gaussian mechanism. What the noise adds outside of the contrasts does
    not depend on the table; it is removed, and so is the factor.
    """
    exact = table.contrasts.scaled(table.sums(counts))
    noise = rounded_gaussian(Fraction(stddev) * exact.size, exact.shape, insecure_rng=insecure_rng)
    values = table.contrasts.of((exact + noise) / exact.size)
    return NoisyMarginal(table.attrs, values, stddev, table.groups, ledger_entry, table.shape)
