"""Several tables of one release: draws of its model with further noise, and how estimates from them are combined.

All tables that are made from one model share the noise of its measurements, so that they agree with each other more
than with the truth. The noise has a known distribution: y = counts + noise of standard deviation s. A draw of the model
is fitted to y + e with e of the same distribution, drawn anew. Draws of the model then differ from the model as the
model differs from one without noise. Only released numbers are used, so draws cost no budget.

Each table l = 1..m is made from a draw of the model (`FittedModel.draws`). An analysis of table l gives an estimate q_l
and its usual variance v_l, as if the rows were real. With k synthetic rows per private row, Rubin's rule is

    q = mean of q_l          v = k * mean of v_l          b = sum of (q_l - q)^2 / (m - 1)
    T = v + (1 + 1/m) b      degrees of freedom (m - 1) (1 + v / ((1 + 1/m) b))^2

v is the variance of the private rows as a sample of their population: q_l is about as precise as in the private table.
b is the variance by noise, which v knows nothing of, and by the making of rows; b / m of it is left in the mean. This
is the rule of Rubin (1987) for data that are missing: the private table is missing, what is known of it are noisy
counts, and each table is a guess of it. The rule of Raghunathan, Reiter and Rubin (2003), T = (1 + 1/m) b - v, is for
tables whose rows are sampled anew from the population. Ours are not: their counts follow the released ones closely.
docs/inference.md shows the coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

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
    network, settings = model.network, replace(model.settings, ridge=PENALTY, l1=0.0, rank=0.0)
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


@dataclass(frozen=True, slots=True)
class Combined:
    """Estimates from several tables, one entry per number that was estimated; see the module for the formulas.

    Attributes:
        estimate: q, the mean of the tables' estimates.
        stderr: its standard error, the square root of T.
        low: lower end of the interval.
        high: upper end of the interval.
        degrees: degrees of freedom of the t distribution of the interval.
        within: v, the variance by sampling of the private rows.
        between: b, the variance by noise and by the making of rows.
    """

    estimate: np.ndarray
    stderr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    degrees: np.ndarray
    within: np.ndarray
    between: np.ndarray


def combine(
    estimates: Sequence[Any], variances: Sequence[Any], *, level: float = 0.95, rows_ratio: float = 1.0
) -> Combined:
    """Return the estimate and interval of several tables of one release, each made from a draw of its model.

    Args:
        estimates: of each table, a number or a list of numbers, such as the coefficients of a regression.
        variances: of each table, the squared standard errors of these, as any analysis of real rows reports them.
        level: probability with which an interval is to hold the true number of the population.
        rows_ratio: synthetic rows per private row; 1 unless tables of another size were asked for.

    >>> found = combine([1.0, 1.2, 1.1], [0.01, 0.01, 0.01])
    >>> round(float(found.estimate), 2), round(float(found.stderr), 3), round(float(found.degrees), 1)
    (1.1, 0.153, 6.1)
    """
    q, v = np.asarray(estimates, dtype=float), np.asarray(variances, dtype=float)
    if q.shape != v.shape or q.ndim < 1 or len(q) < 2:
        raise InputError(
            f"Estimates of shape {q.shape} and variances of shape {v.shape} were given; give both for each of two or "
            "more tables."
        )
    if not (np.isfinite(q).all() and np.isfinite(v).all() and (v >= 0).all()):
        raise InputError("An estimate or a variance is not a number, or a variance is below 0. Check the analyses.")
    if not 0 < level < 1 or not rows_ratio > 0:
        raise InputError(
            f"The level is {level} and the rows_ratio {rows_ratio}; give a level below 1 and a ratio above 0."
        )
    m, between, within = len(q), q.var(axis=0, ddof=1), rows_ratio * v.mean(axis=0)
    noise = (1 + 1 / m) * between
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = np.where(noise > 0, (m - 1) * np.square(1 + within / noise), np.inf)
    estimate, stderr = q.mean(axis=0), np.sqrt(within + noise)
    half = stdtrit(np.minimum(degrees, 1e9), (1 + level) / 2) * stderr
    return Combined(estimate, stderr, estimate - half, estimate + half, degrees, within, between)
