"""Keeps what the door gave out, so that error bars can be made from it later. Holds noisy numbers only; charges
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1, Score
from lookalike.schema.domain import Clique
from lookalike.tables.contrasts import CellTable
from lookalike.tables.measurement import NoisyMarginal, NoisyResidual, on_finer_domain

MAX_REFERENCE_CELLS = 1_000_000
"""References beyond this many cells are not kept: a model file should not grow by more than some megabytes."""


class RecordingTable(GuardedTable):
    """A guarded table that also keeps its noisy marginals, in terms of the domain it was made with.

    What is measured after `coarsened` is kept as a measurement of groups of the finer cells.

    Attributes:
        released: the noisy marginals so far, in the order of release; shared with all coarsened views.
        residuals: noisy distances of marginals from public references, at most MAX_REFERENCE_CELLS cells of them.
    """

    def __init__(
        self,
        table: GuardedTable,
        released: list[NoisyMarginal] | None = None,
        refine: Callable[[NoisyMarginal], NoisyMarginal] | None = None,
    ) -> None:
        # The same rows behind the same accountant: nothing is opened or charged anew.
        self.__dict__.update(vars(table))
        self.released = [] if released is None else released
        self.residuals: list[NoisyResidual] = []
        self._refine = refine

    def measure(
        self,
        cliques: Sequence[Clique],
        stddev: float | Sequence[float],
        *,
        step: str,
        groups: Sequence[np.ndarray | None] | None = None,
    ) -> list[NoisyMarginal]:
        results = super().measure(cliques, stddev, step=step, groups=groups)
        self.released += results if self._refine is None else map(self._refine, results)
        return results

    def measure_contrasts(
        self, tables: Sequence[CellTable], stddevs: Sequence[float], *, step: str
    ) -> list[NoisyMarginal]:
        results = super().measure_contrasts(tables, stddevs, step=step)
        self.released += results if self._refine is None else map(self._refine, results)
        return results

    def noisy_scores(self, score: Score, stddev: float, *, step: str) -> NDArray[np.float64]:
        values = super().noisy_scores(score, stddev, step=step)
        if isinstance(score, ResidualL1) and self._refine is None:
            cells = sum(residual.reference.size for residual in self.residuals)
            for attrs, reference, value in zip(score.cliques, score.references, values, strict=True):
                cells += reference.size
                if cells <= MAX_REFERENCE_CELLS:
                    self.residuals.append(NoisyResidual(attrs, np.rint(reference), float(value), stddev))
        return values

    def coarsened(self, maps: Mapping[str, np.ndarray]) -> GuardedTable:
        def refine(measurement: NoisyMarginal) -> NoisyMarginal:
            finer = on_finer_domain(measurement, maps, self.domain)
            return finer if self._refine is None else self._refine(finer)

        return RecordingTable(super().coarsened(maps), self.released, refine)
