"""Maximum-entropy weights on a fixed set of rows, so that they match many noisy marginals at once.

A network can only hold sets of attributes whose joint cost is small. Rows carry any set: the weight of row r is
proportional to exp(sum_m (theta_m - base_m)[cell of r in marginal m]), where the rows were drawn with parameters `base`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from lookalike.schema.domain import Domain
from lookalike.tables.measurement import NoisyMarginal

try:
    from numba import njit
except ImportError:  # numba is optional at run time
    njit = None

_BLOCK = 4096


def _add_loops(cells: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    sets, rows = cells.shape
    for start in range(0, rows, _BLOCK):
        stop = min(rows, start + _BLOCK)
        for s in range(sets):
            for r in range(start, stop):
                out[r] += values[cells[s, r]]


def _add_numpy(cells: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    for row in cells:
        out += values[row]


def _count_loops(cells: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    sets, rows = cells.shape
    for start in range(0, rows, _BLOCK):
        stop = min(rows, start + _BLOCK)
        for s in range(sets):
            for r in range(start, stop):
                out[cells[s, r]] += weights[r]


def _count_numpy(cells: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    for row in cells:
        out += np.bincount(row, weights, minlength=out.size)


add_potentials = _add_numpy if njit is None else njit(cache=True)(_add_loops)
add_counts = _count_numpy if njit is None else njit(cache=True)(_count_loops)


class MeasuredCells:
    """Noisy marginals as flat vectors, and the cells that rows fall in.

    Attributes:
        columns: for each marginal the positions of its attributes.
        offsets: where each marginal's cells start in the flat vectors.
        observed: all noisy counts.
        sigma: the noise of each.
    """

    def __init__(self, domain: Domain, measurements: Sequence[NoisyMarginal]) -> None:
        self.domain = domain
        self.measurements = list(measurements)
        self.columns = [[domain.position(name) for name in m.attrs] for m in self.measurements]
        self.offsets = np.cumsum([0, *(m.values.size for m in self.measurements)])
        self.observed = np.concatenate([m.values.ravel() for m in self.measurements])
        self.sigma = np.repeat([m.stddev for m in self.measurements], np.diff(self.offsets))
        self.multi = np.repeat([float(len(m.attrs) > 1) for m in self.measurements], np.diff(self.offsets))

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """Flat cell numbers, one row per marginal."""
        result = np.empty((len(self.columns), len(codes)), np.int32)
        for s, columns in enumerate(self.columns):
            cell = codes[:, columns[0]].astype(np.int32)
            for column in columns[1:]:
                cell *= self.domain.sizes[column]
                cell += codes[:, column]
            result[s] = cell + self.offsets[s]
        return result


def fit_weights(
    measured: MeasuredCells,
    cells: np.ndarray,
    total: float,
    base: np.ndarray,
    start: np.ndarray,
    *,
    penalty: float,
    iterations: int,
    soft: float = 0.0,
    width: float = 0.05,
    trust: float = 2.0,
    grain: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Parameters theta and row weights (they add up to 1) that minimise the same penalised dual as the network's fit."""
    sigma = np.sqrt(measured.sigma**2 + grain * np.maximum(measured.observed, 1.0))
    ridge = penalty * sigma
    scale = np.sqrt(np.maximum(measured.observed, sigma) + ridge)
    l1 = soft * sigma * measured.multi
    rows = cells.shape[1]
    weights = np.empty(rows)
    present = np.zeros(base.size)
    add_counts(cells, np.ones(rows), present)
    room = np.where(present > 0, trust, 0.0)
    lower, upper = (base - room) * scale, (base + room) * scale
    start = np.clip(start, base - room, base + room)

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        theta = scaled / scale
        weights[:] = 0.0
        add_potentials(cells, theta - base, weights)
        top = weights.max()
        np.exp(weights - top, out=weights)
        mass = weights.sum()
        np.divide(weights, mass, out=weights)
        answers = np.zeros(theta.size)
        add_counts(cells, weights, answers)
        answers *= total
        root = np.sqrt(theta * theta + width * width)
        value = total * (top + np.log(mass / rows)) - float(theta @ measured.observed) + 0.5 * float(ridge @ (theta * theta)) + float(l1 @ root)
        return value, (answers - measured.observed + ridge * theta + l1 * theta / root) / scale

    result = minimize(
        objective,
        start * scale,
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([lower, upper]),
        options={"maxiter": iterations, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-6, "maxfun": 2 * iterations + 20},
    )
    import os
    v0=objective(start * scale)[0]
    v,g=objective(result.x)
    if os.environ.get('DBG'): print('fit', result.nit, result.nfev, v0, v, 'gradL1/total', np.abs(g*scale).sum()/total/len(measured.columns), 'absmax theta', np.abs(result.x/scale).max(), 'ess', 1/(weights**2).sum()/rows)
    return result.x / scale, weights
