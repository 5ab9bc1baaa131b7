"""Keeps the noisy answers of the door, from which error bars are computed later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookalike.guards import MAX_REFERENCE_CELLS
from lookalike.measurements import NoisyMarginal, NoisyResidual, on_finer_domain
from lookalike.privacy.kernel.requests import Recorder, Score
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain


@dataclass(frozen=True, slots=True)
class Recording:
    """The releases of a door with this recorder, on the domain of the door.

    Attributes:
        released: the noisy marginals so far, in the order of release, those of coarsened tables included.
        residuals: noisy distances of marginals from public references, at most MAX_REFERENCE_CELLS cells of them.
    """

    released: list[NoisyMarginal] = field(default_factory=list[NoisyMarginal])
    residuals: list[NoisyResidual] = field(default_factory=list[NoisyResidual])

    def measured(self, measurements: Sequence[NoisyMarginal], /) -> None:
        self.released.extend(measurements)

    def scored(self, score: Score, values: NDArray[np.float64], stddev: float, /) -> None:
        if not isinstance(score, ResidualL1):
            return
        cells = sum(residual.reference.size for residual in self.residuals)
        for attrs, reference, value in zip(score.cliques, score.references, values, strict=True):
            cells += reference.size
            if cells <= MAX_REFERENCE_CELLS:
                self.residuals.append(NoisyResidual(attrs, np.rint(reference), float(value), stddev))

    def coarsened(self, domain: Domain, maps: Mapping[str, np.ndarray], /) -> Recorder:
        return _CoarseRecording(self, domain, maps)


@dataclass(frozen=True, slots=True)
class _CoarseRecording:
    """Passes what a coarsened table releases on to the finer table's recorder, as measurements of groups of cells."""

    finer: Recorder
    domain: Domain
    maps: Mapping[str, np.ndarray]

    def measured(self, measurements: Sequence[NoisyMarginal], /) -> None:
        self.finer.measured([on_finer_domain(measurement, self.maps, self.domain) for measurement in measurements])

    def scored(self, score: Score, values: NDArray[np.float64], stddev: float, /) -> None:
        """Distances from references of coarser cells are not kept."""

    def coarsened(self, domain: Domain, maps: Mapping[str, np.ndarray], /) -> Recorder:
        return _CoarseRecording(self, domain, maps)
