"""What every fitted model is, the rows that it makes, and whether it explains the noisy counts to which it was fitted.

All of it uses released numbers only, so it costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
from scipy.special import chdtri

from lookalike.measurements import CellTable, Contrasts, NoisyMarginal, averaged, estimated_total
from lookalike.schema.decode import decode
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.draw import Part
from lookalike.schema.schema import Schema
from lookalike.stored import Stored

CHI_LIMIT = 4.0
"""Reduced chi-square above which a measurement is not explained: an error of 1.7 stddevs besides the noise."""
CHANCE = 1e-6
"""Probability with which noise alone may be taken for a misfit; for few numbers this raises the limit of chi-square."""
COLUMN_LIMIT, SET_LIMIT = 0.01, 0.05
"""Share of the rows that must be in a wrong cell, beyond the noise, before a column or a column set is reported."""
_MAX_SETS, _MAX_CELLS = 300, 1_000_000
_MAX_NAMED = 5
_SAMPLE = 0.5
"""A model of less than this part of the measured rows is a sample."""


class Model(Protocol):
    """A distribution over the rows of a domain, made from noisy numbers only: using it costs no budget."""

    kind: ClassVar[str]

    @property
    def domain(self) -> Domain: ...

    @property
    def total(self) -> float:
        """Estimated number of rows of the private table."""
        ...

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the expected counts of the marginal, axes in domain order, adding up to `total`."""
        ...

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        """Return several marginals, which may be much faster than one by one."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return the codes of `rows` synthetic rows: int32, columns in domain order."""
        ...

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        """Return the model that `stored.taken_apart` took apart; a ModelFileError if the parts do not make a model."""
        ...


@dataclass(frozen=True, eq=False)
class RowParts:
    """A synthetic table in parts, each of which can be made alone, in any order and anywhere, with the same rows.

    Attributes:
        rows: number of rows of all parts.
        chunk: rows of a part; the last one may have fewer. A table of one part is that of `FittedModel.sample`.
        seed: of all random choices; without an entropy of its own it draws one, which is kept.
    """

    model: Model
    schema: Schema
    rows: int
    chunk: int
    seed: np.random.SeedSequence = field(default_factory=np.random.SeedSequence)

    def __len__(self) -> int:
        return -(-self.rows // self.chunk)

    def __getitem__(self, number: int) -> pa.Table:
        if not 0 <= number < len(self):
            raise IndexError(number)
        if len(self) == 1:
            rng = np.random.default_rng(self.seed)
            return decode(self.schema, self.model.sample(self.rows, rng), rng=rng)
        first = number * self.chunk
        rows = min(self.chunk, self.rows - first)
        rng = np.random.default_rng(np.random.SeedSequence(self.seed.entropy, spawn_key=(number,)))
        codes = self._drawn(number, rows, rng) if self.apart else self._codes[first : first + rows]
        return decode(self.schema, codes, rng=rng, part=Part(first, self.rows, self._order))

    def __iter__(self) -> Iterator[pa.Table]:
        return map(self.__getitem__, range(len(self)))

    @property
    def apart(self) -> bool:
        """Whether each part is drawn independently; where rows are the model, parts would repeat them."""
        return not hasattr(self.model, "codes")

    @property
    def structure(self) -> pa.Schema:
        """Names and types of the columns."""
        none = np.zeros((1, len(self.schema.columns)), np.int32, order="F")
        return decode(self.schema, none, rng=np.random.default_rng(0)).schema

    def _drawn(self, number: int, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Codes of one part; models that choose rows with care do so in the first part, as they would in one table."""
        further = getattr(self.model, "further_rows", self.model.sample) if number else self.model.sample
        return further(rows, rng)

    @property
    def _order(self) -> tuple[int, ...]:
        return tuple(int(word) for word in self.seed.generate_state(4))

    @cached_property
    def _codes(self) -> np.ndarray:
        return self.model.sample(self.rows, np.random.default_rng(self._order))


# Whether a model explains its measurements. A count of the model differs from the noisy one by the noise, whose size is
# known, and by errors of the fit. The mean squared difference in variances of the noise (reduced chi-square) is about 1
# or below where a fit is good. Models have few parameters, finitely many rows and no negative counts, so at large
# budgets every model is above 1 somewhere. A misfit is reported where it is larger than the noise *and* concerns many
# rows.


@dataclass(frozen=True, slots=True)
class Misfit:
    """How one measurement and a model differ.

    Attributes:
        attrs: the measured columns.
        chi_square: mean squared difference per measured number, in variances of the noise.
        excess: share of the rows in a wrong cell, less the expected share due to noise; at least 0.
        numbers: number of independent numbers that were measured.
    """

    attrs: ColumnSet
    chi_square: float
    excess: float
    numbers: int

    @property
    def explained(self) -> bool:
        """Whether the difference is within the noise, or concerns few rows."""
        limit = COLUMN_LIMIT if len(self.attrs) == 1 else SET_LIMIT
        noise = float(chdtri(self.numbers, CHANCE)) / self.numbers
        return self.chi_square <= max(CHI_LIMIT, noise) or self.excess <= limit


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All misfits of a model: single columns first, then column sets, each from the worst to the best."""

    misfits: tuple[Misfit, ...]

    @property
    def unexplained(self) -> tuple[Misfit, ...]:
        return tuple(misfit for misfit in self.misfits if not misfit.explained)

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages to the user, none where the model explains the measurements."""
        found = self.unexplained
        if not found:
            return ()
        worst = [f"{', '.join(m.attrs)} ({m.excess:.1%} of the rows)" for m in found[:_MAX_NAMED]]
        more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        return (
            f"The model does not explain {len(found)} of {len(self.misfits)} noisy measurements to within their noise. "
            f"Worst: {'; '.join(worst)}{more}. The rows are as private as stated, but less accurate than the budget "
            "allows. Try --method privsyn or --generator gum, or a schema with fewer columns.",
        )


def misfit_of(measurement: NoisyMarginal, expected: np.ndarray, total: float) -> Misfit:
    """Return the difference of a measurement from the model's counts `expected` of its marginal.

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


def diagnose(model: Model, measurements: Iterable[NoisyMarginal]) -> Diagnosis:
    """Return how well the model explains the measurements: all columns, and column sets up to a million cells.

    Repeats of a measurement are averaged. A model of far fewer rows than were measured, such as released rows of a
    chosen number, is a sample and not a fit: its diagnosis is empty.
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
