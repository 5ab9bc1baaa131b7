"""Multiplicative weights on a table over the whole domain (Hardt, Ligett and McSherry 2012)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.schema.domain import Domain
from lookalike.tables.measurement import NoisyMarginal


def multiplicative_weights(
    domain: Domain, start: np.ndarray, measurements: Sequence[NoisyMarginal], total: float, *, replays: int
) -> np.ndarray:
    """Probabilities of all cells after `replays` passes over the measurements.

    One update multiplies every cell by exp((y - x) / (2 N)), where y is the noisy and x the model's count of the
    marginal cell that it lies in, then normalises: the paper's rule with all cells of a marginal at once, which do not
    overlap. The number of passes regularises; the noise is not modelled.

    Args:
        domain: names and sizes.
        start: probabilities to start from, in the domain's shape.
        measurements: noisy marginals without groups.
        total: number of rows N.
        replays: passes over all measurements.
    """
    table = start.copy()
    for _ in range(replays):
        for measurement in measurements:
            held = set(measurement.attrs)
            dropped = tuple(axis for axis, name in enumerate(domain.names) if name not in held)
            model = total * table.sum(axis=dropped, keepdims=True)
            step = (measurement.values.reshape(model.shape) - model) / (2.0 * total)
            # With few rows the noise exceeds the counts by far; a factor beyond exp(20) would only overflow.
            table *= np.exp(np.clip(step, -20.0, 20.0))
            table /= table.sum()
    return table
