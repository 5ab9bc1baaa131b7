"""Whether a model explains the noisy numbers that it was fitted to: seen from released values, so it costs no budget.

A count of the model differs from the noisy one by the noise, whose size is known, and by what the fit got wrong. The
mean squared difference in units of the noise (reduced chi-square) is about 1 or below where a fit went well. Models
have few parameters, finitely many rows and no negative counts, so at large budgets every one of them is above 1
somewhere. A misfit is announced where it is beyond the noise *and* large in rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import chdtri

from lookalike.measurements.contrasts import CellTable, Contrasts
from lookalike.measurements.marginals import NoisyMarginal, averaged, estimated_total
from lookalike.schema.domain import ColumnSet

CHI_LIMIT = 4.0
"""Reduced chi-square above which a measurement is not explained: an error of 1.7 stddevs beside the noise."""
CHANCE = 1e-6
"""Probability with which the noise alone may pass for a misfit: a few numbers need more than CHI_LIMIT to be sure."""
COLUMN_LIMIT, SET_LIMIT = 0.01, 0.05
"""Share of the rows that must be in a wrong cell, beyond the noise, before a column or a set is announced."""
_MAX_SETS, _MAX_CELLS = 300, 1_000_000
_NAMED = 5
_SAMPLE = 0.5
"""Part of the measured rows below which a model is a sample."""


class Marginals(Protocol):
    """A model as far as it is judged here; see `generate.model.Model`."""

    @property
    def total(self) -> float: ...

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]: ...


@dataclass(frozen=True, slots=True)
class Misfit:
    """How one measurement and a model differ.

    Attributes:
        attrs: the measured columns.
        chi_square: mean squared difference per measured number, in variances of the noise.
        excess: share of the rows in a wrong cell, less what the noise alone accounts for; at least 0.
        numbers: how many independent numbers were measured.
    """

    attrs: ColumnSet
    chi_square: float
    excess: float
    numbers: int

    @property
    def explained(self) -> bool:
        limit = COLUMN_LIMIT if len(self.attrs) == 1 else SET_LIMIT
        noise = float(chdtri(self.numbers, CHANCE)) / self.numbers
        return self.chi_square <= max(CHI_LIMIT, noise) or self.excess <= limit


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All misfits of a model, single columns first, each kind from the worst on."""

    misfits: tuple[Misfit, ...]

    @property
    def unexplained(self) -> tuple[Misfit, ...]:
        return tuple(misfit for misfit in self.misfits if not misfit.explained)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know: nothing where the model explains what was measured."""
        found = self.unexplained
        if not found:
            return ()
        worst = [f"{', '.join(m.attrs)} ({m.excess:.1%} of the rows)" for m in found[:_NAMED]]
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return (
            f"The model does not explain {len(found)} of {len(self.misfits)} noisy measurements to within their noise. "
            f"Worst: {'; '.join(worst)}{more}. The guarantee holds, but the rows are further from the private table "
            "than the noise explains. Try --method privsyn or --generator gum, or a schema with fewer columns.",
        )


def misfit_of(measurement: NoisyMarginal, expected: np.ndarray, total: float) -> Misfit:
    """The difference of a measurement from the model's counts `expected` of its marginal.

    >>> misfit_of(NoisyMarginal(("a",), np.array([8.0, 2.0]), 1.0), np.array([5.0, 5.0]), 10.0).chi_square
    9.0
    """
    shape = measurement.contrasts or measurement.values.shape
    sums = CellTable(measurement.attrs, shape, measurement.groups).sums(expected)
    difference, numbers = sums - measurement.values, measurement.cells
    if measurement.contrasts is not None:
        difference, numbers = Contrasts(shape).of(difference), max(Contrasts(shape).dimensions, 1)
    chi = float(np.square(difference).sum()) / (measurement.stddev**2 * numbers)
    noise = measurement.stddev * math.sqrt(2 / math.pi * numbers * measurement.cells)
    excess = max(0.0, float(np.abs(difference).sum()) - noise) / (2 * max(total, 1.0))
    return Misfit(measurement.attrs, chi, excess, numbers)


def diagnose(model: Marginals, measurements: Iterable[NoisyMarginal]) -> Diagnosis:
    """How well the model explains the measurements: all columns, and sets as far as a million cells go.

    Repeats of a measurement count as their mean. A model that stands for far fewer rows than were measured, such as the
    number of seeded rows that was asked for, is a sample and no fit: nothing is said of it.
    """
    joined = [m for m in averaged(measurements) if m.attrs]
    counts = [m for m in joined if m.contrasts is None]
    if counts and model.total < _SAMPLE * estimated_total(counts):
        return Diagnosis(())
    singles = [m for m in joined if len(m.attrs) == 1]
    sets = [m for m in joined if len(m.attrs) > 1][:_MAX_SETS]
    ends = np.cumsum([m.values.size if m.groups is None else m.groups.size for m in sets])
    judged = [*singles, *sets[: int(np.searchsorted(ends, _MAX_CELLS, side="right"))]]
    tables = model.marginals([m.attrs for m in judged])
    found = [misfit_of(m, table, model.total) for m, table in zip(judged, tables, strict=True)]
    return Diagnosis(tuple(sorted(found, key=lambda m: (len(m.attrs) > 1, -m.excess))))
