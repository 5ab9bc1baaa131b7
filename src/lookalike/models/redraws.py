"""Draws of a model given the noise of what was measured: the uncertainty that one table of rows does not show.

All tables that are made from one model share the noise of its measurements, so that they agree with each other more
than with the truth. The noise has a known distribution: y = counts + noise of standard deviation s. A draw of the model
is fitted to y + e with e of the same distribution, drawn anew. Draws of the model then differ from the model as the
model differs from one without noise. Only released numbers are used, so draws cost no budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lookalike.errors import InputError
from lookalike.measurements import Contrasts, NoisyMarginal, averaged, estimated_total
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.models.weighted_rows import ReweightedModel

PENALTY = 0.1
"""Strength of the penalty of the fit of a draw, in units of the noise. The penalty of a release makes its rows more
precise and associations weaker; an interval around a weaker association would not hold the true one."""


def redrawn(model: Model, released: Sequence[NoisyMarginal], rng: np.random.Generator) -> Model:
    """Return the model fitted to the noisy numbers with further noise of the same distribution.

    Args:
        model: the model of a run.
        released: all noisy marginals of the run, whose noise has the recorded standard deviations.
        rng: source of the further noise. It protects nobody, so it may have a seed.
    """
    if isinstance(model, ReweightedModel):
        return _weighted(model, released, rng)
    if isinstance(model, GraphicalModel):
        measured = [m for m in averaged(released) if m.attrs in model.potentials]
        if measured:
            shaken = [_shaken(m, m.stddev, rng) for m in measured]
            total = _total(model, shaken, released, rng)
            return fit(model.domain, shaken, total=total, warm=model, penalty=PENALTY)
    raise InputError(
        f"Models of the kind {model.kind!r} are not fitted to noisy counts alone, so they cannot be drawn anew. For "
        "several tables choose mosaic, mst, aim or independent."
    )


def _weighted(model: ReweightedModel, released: Sequence[NoisyMarginal], rng: np.random.Generator) -> ReweightedModel:
    """The network and the weighted rows for shaken counts. Counts may be fitted as if they had more noise than it."""
    noise: dict[tuple[str, ...], float] = {}
    for m in averaged(released):
        noise[m.attrs] = min(m.stddev, noise.get(m.attrs, np.inf))
    shaken = [_shaken(m, min(m.stddev, noise.get(m.attrs, np.inf)), rng) for m in model.measurements]
    total = _total(model, shaken, released, rng)
    network, settings = model.network, replace(model.settings, ridge=PENALTY, l1=0.0)
    kept = [m for m in shaken if m.attrs in network.potentials]
    single = settings.single
    drawn = fit(model.domain, kept, total=total, warm=network, penalty=PENALTY, single=single, zeros=network.zeros)
    return ReweightedModel(drawn, shaken, settings)


def _shaken(m: NoisyMarginal, stddev: float, rng: np.random.Generator) -> NoisyMarginal:
    """The noisy numbers with further noise; of contrasts only the part that was measured."""
    noise = rng.normal(0.0, stddev, m.values.shape)
    return replace(m, values=m.values + (noise if m.contrasts is None else Contrasts(m.contrasts).of(noise)))


def _total(
    model: Model, shaken: Sequence[NoisyMarginal], released: Sequence[NoisyMarginal], rng: np.random.Generator
) -> float:
    """The number of rows by the shaken counts; where these are contrasts, that of the model with its own noise."""
    if any(m.contrasts is None for m in shaken):
        return estimated_total(shaken)
    precision = sum(1 / (m.cells * m.stddev**2) for m in released if m.contrasts is None)
    return max(1.0, model.total + float(rng.normal(0.0, precision**-0.5 if precision else 0.0)))
