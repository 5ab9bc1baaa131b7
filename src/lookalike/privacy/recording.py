"""Keeps what the door gave out, so that error bars can be made from it later. Holds noisy numbers only; charges
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lookalike.privacy.door import GuardedTable
from lookalike.schema.domain import Clique
from lookalike.tables.measurement import NoisyMarginal, on_finer_domain


class RecordingTable(GuardedTable):
    """A guarded table that also keeps its noisy marginals, in terms of the domain it was made with.

    What is measured after `coarsened` is kept as a measurement of groups of the finer cells.

    Attributes:
        released: the noisy marginals so far, in the order of release; shared with all coarsened views.
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

    def coarsened(self, maps: Mapping[str, np.ndarray]) -> GuardedTable:
        def refine(measurement: NoisyMarginal) -> NoisyMarginal:
            finer = on_finer_domain(measurement, maps, self.domain)
            return finer if self._refine is None else self._refine(finer)

        return RecordingTable(super().coarsened(maps), self.released, refine)
