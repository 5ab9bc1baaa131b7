"""Estimates and intervals from several tables of one release: Rubin's rule for the noise of the run.

Each table l = 1..m is made from a draw of the model (`FittedModel.draws`): a model of the released counts with further
noise of the distribution that theirs has. An analysis of table l gives an estimate q_l and its usual variance v_l, as
if the rows were real. With k synthetic rows per private row,

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
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from lookalike.errors import InputError


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
