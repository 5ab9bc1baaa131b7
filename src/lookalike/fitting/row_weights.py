"""The fit of weights of rows to noisy marginals: what rows carry instead of a network.

A log-linear model with parameters theta, one for each measured cell, gives a row a weight that is proportional to the
exponential of the sum of the parameters of its cells. `fit_weights` finds the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike import guards
from lookalike.engine.executor import compiled
from lookalike.fitting.maximum_entropy import ROUNDING, minimise_dual
from lookalike.measurements import ContrastSpace, NoisyMarginal
from lookalike.schema.domain import Domain, cell_numbers

# Loops for numba, block by block so that the rows of a block stay in the cache. Four sets at a time: their cells are
# different, so that no addition has to wait for the one before, as it would where many rows share a cell.


def _add_potentials(cells: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """out[r] += sum over s of values[cells[s, r]]."""
    sets = cells.shape[0]
    for start in range(0, cells.shape[1], 4096):
        stop = min(cells.shape[1], start + 4096)
        for s in range(0, sets - sets % 4, 4):
            for r in range(start, stop):
                first = values[cells[s, r]] + values[cells[s + 1, r]]
                out[r] += first + values[cells[s + 2, r]] + values[cells[s + 3, r]]
        for s in range(sets - sets % 4, sets):
            for r in range(start, stop):
                out[r] += values[cells[s, r]]


def _add_counts(cells: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """out[cells[s, r]] += weights[r] for all s and r."""
    sets = cells.shape[0]
    for start in range(0, cells.shape[1], 4096):
        stop = min(cells.shape[1], start + 4096)
        for s in range(0, sets - sets % 4, 4):
            for r in range(start, stop):
                out[cells[s, r]] += weights[r]
                out[cells[s + 1, r]] += weights[r]
                out[cells[s + 2, r]] += weights[r]
                out[cells[s + 3, r]] += weights[r]
        for s in range(sets - sets % 4, sets):
            for r in range(start, stop):
                out[cells[s, r]] += weights[r]


def row_potentials(cells: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return for each row the sum of the values of its cells."""
    out = np.zeros(cells.shape[1])
    if guards.NUMBA and cells.size > 100_000:
        compiled(_add_potentials)(cells, values, out)
    else:
        for row in cells:
            out += values[row]
    return out


def cell_counts(cells: np.ndarray, weights: np.ndarray, length: int) -> np.ndarray:
    """Return the weighted counts of all cells."""
    out = np.zeros(length)
    if guards.NUMBA and cells.size > 100_000:
        compiled(_add_counts)(cells, weights, out)
    else:
        for row in cells:
            out += np.bincount(row, weights, minlength=length)
    return out


class MeasuredCells:
    """Noisy marginals as flat vectors, and the cells to which rows belong.

    Attributes:
        scopes: positions of the columns of each marginal.
        offsets: where each marginal's cells start in the flat vectors, and the end.
        observed: all noisy counts.
        sigma: the standard deviation of the noise of each.
        joint: 1 for the cells of marginals of two or more columns, else 0.
        counted: of each marginal, whether its counts were measured, not contrasts.
        measurable: removes from a flat vector the parts that contrasts do not measure; see `ContrastSpace`.
    """

    def __init__(self, domain: Domain, measurements: Sequence[NoisyMarginal]) -> None:
        self.domain = domain
        self.scopes = [[domain.position(name) for name in m.attrs] for m in measurements]
        self.groups = [m.groups for m in measurements]
        self.shapes = [domain.shape(m.attrs) for m in measurements]
        self.offsets = np.cumsum([0, *(m.values.size for m in measurements)])
        self.observed = np.concatenate([m.values.ravel() for m in measurements])
        self.sigma = np.repeat([m.stddev for m in measurements], np.diff(self.offsets))
        self.measurable = ContrastSpace(
            int(self.offsets[-1]),
            (
                (slice(start, start + m.cells), m.contrasts, np.indices(m.contrasts).reshape(len(m.contrasts), -1))
                for start, m in zip(self.offsets, measurements, strict=False)
                if m.contrasts is not None and len(m.contrasts) > 1
            ),
        )
        self.joint = np.repeat([float(len(m.attrs) > 1) for m in measurements], np.diff(self.offsets))
        self.counted = [m.contrasts is None for m in measurements]

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """Return flat cell numbers as a matrix with one row per marginal and one column per row of codes."""
        result = np.empty((len(self.scopes), len(codes)), np.int32)
        for s, scope in enumerate(self.scopes):
            cell, groups = cell_numbers(codes, scope, self.domain.sizes, np.int32), self.groups[s]
            result[s] = (cell if groups is None else groups.ravel()[cell]) + self.offsets[s]
        return result

    def misfit(self, codes: np.ndarray, total: float, weights: np.ndarray | None = None) -> float:
        """Return the mean squared difference of the rows' counts from the noisy ones, in variances of the noise.

        It is about 1 for rows of the true distribution. Without weights all rows have the same weight, and the variance
        of a sample of so many rows is added to that of the noise.
        """
        share = total / max(len(codes), 1)
        spread = np.full(len(codes), share) if weights is None else total * weights
        counts = cell_counts(self.cells(codes), spread, self.observed.size)
        variance = self.sigma**2 + (share * np.maximum(counts, 1.0) if weights is None else 0.0)
        return float(np.mean(self.measurable(counts - self.observed) ** 2 / variance))

    def numbers(self) -> list[np.ndarray]:
        """Return of each marginal the table of its measured numbers: each cell's own, or that of its group."""
        return [
            np.arange(math.prod(shape)).reshape(shape) if groups is None else groups
            for groups, shape in zip(self.groups, self.shapes, strict=True)
        ]

    def tables(self, flat: np.ndarray) -> list[np.ndarray]:
        """Return a flat vector as one table per marginal; cells of a group have the same entry."""
        return [flat[start + numbers] for start, numbers in zip(self.offsets, self.numbers(), strict=False)]


@dataclass(frozen=True, slots=True)
class WeightPenalty:
    """The penalties that keep parameters small where the noise alone could explain the counts.

    Attributes:
        ridge: strength of the quadratic penalty (ridge * sigma / 2) theta^2, as in `minimise_dual`.
        l1: strength of the absolute penalty l1 * sigma * |theta| on parameters of joint marginals. A cell that the
            other measurements explain to within l1 * sigma keeps the parameter 0.
        trust: parameters move at most this far from `base` in one fit, and not at all in cells without rows.
        grain: sampling variance per unit of count, since the rows are finitely many; added to sigma^2. Without it
            parameters fit random deviations of these rows, which other rows do not share.
        single: factor of the ridge on parameters of single columns. The ridge pulls counts towards equal ones, by
            ridge * sigma * theta. Joint parameters are small where columns depend little on each other, but those of
            rare values of single columns are large.
        rank: strength of the absolute penalty on the singular values of the parameters of pairs (`SingularValues`),
            which takes the place of `l1` there.
    """

    ridge: float = 0.5
    l1: float = 0.3
    trust: float = 2.0
    grain: float = 0.0
    single: float = 1.0
    rank: float = 0.0


class SingularValues:
    """The absolute penalty on singular values: how two columns go together mostly has few patterns.

    The parameters of a pair are a matrix with a row for each value of one column. Noise has about equal parts in all
    its singular values, the largest near stddev * (sqrt(rows) + sqrt(columns)) in counts; a dependence has large ones
    and few of them. The penalty is `strength` times that, times the sum of the singular values s, smoothed as the
    absolute penalty on cells is: sqrt(s^2 + rows * ROUNDING^2) for the shorter side. Only pairs whose counts were
    measured have it, of columns of `MIN_SIDE` values or more, as smaller matrices have hardly a pattern of their own.

    Attributes:
        cells: 1 for the measured cells of these pairs, else 0.
    """

    MIN_SIDE, MAX_SIDE = 3, 64

    def __init__(self, measured: MeasuredCells, sigma: np.ndarray, strength: float) -> None:
        self.cells = np.zeros(sigma.size)
        self._pairs: list[tuple[slice, np.ndarray, float]] = []
        spans = zip(measured.offsets, measured.offsets[1:], strict=False)
        for (start, stop), numbers, counted in zip(spans, measured.numbers(), measured.counted, strict=True):
            if not strength or not counted or numbers.ndim != 2:
                continue
            if self.MIN_SIDE <= min(numbers.shape) <= self.MAX_SIDE:
                self.cells[start:stop] = 1.0
                noise = float(np.median(sigma[start:stop])) * sum(math.sqrt(side) for side in numbers.shape)
                lying = numbers if numbers.shape[0] <= numbers.shape[1] else numbers.T
                self._pairs.append((slice(start, stop), lying, strength * noise))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalty and its slope."""
        value, slope = 0.0, np.zeros_like(theta)
        for where, numbers, strength in self._pairs:
            table = theta[where][numbers]
            least = len(table) * ROUNDING**2
            squares, patterns = np.linalg.eigh(table @ table.T)
            sizes = np.sqrt(np.maximum(squares, 0.0) + least)
            value += strength * float(sizes.sum())
            pull = strength * (patterns / sizes) @ (patterns.T @ table)
            slope[where] = np.bincount(numbers.ravel(), pull.ravel(), minlength=where.stop - where.start)
        return value, slope


def fit_weights(
    measured: MeasuredCells,
    cells: np.ndarray,
    total: float,
    base: np.ndarray,
    penalty: WeightPenalty,
    *,
    shares: np.ndarray | None = None,
    start: np.ndarray | None = None,
    iterations: int = 60,
) -> tuple[np.ndarray, np.ndarray]:
    """Return parameters and row weights (they add up to 1) of the penalised maximum-entropy problem on the rows.

    The problem is that of `minimise_dual` with log Z = log of the mean over rows r of exp((theta - base) . row r); the
    expected counts are those of the weighted rows. Parameters stay within `trust` of `base`. `shares` say how often
    each row was drawn, as parts of all draws; without them every row counts once.
    """
    sigma = np.sqrt(measured.sigma**2 + penalty.grain * np.maximum(measured.observed, 1.0))
    rows = cells.shape[1]
    room = np.where(cell_counts(cells, np.ones(rows), base.size) > 0, penalty.trust, 0.0)
    lower, upper = base - room, base + room
    drawn = -np.log(rows) if shares is None else np.log(shares)
    patterns = SingularValues(measured, sigma, penalty.rank)

    def weigh(theta: np.ndarray) -> tuple[float, np.ndarray]:
        weights = row_potentials(cells, theta - base) + drawn
        top = float(weights.max())
        np.exp(weights - top, out=weights)
        mass = float(weights.sum())
        weights /= mass
        return top + np.log(mass), weights

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        log_z, weights = weigh(theta)
        return log_z, total * cell_counts(cells, weights, theta.size)

    theta = minimise_dual(
        evaluate,
        np.clip(base if start is None else start, lower, upper),
        observed=measured.observed,
        sigma=sigma,
        total=total,
        measurable=measured.measurable,
        ridge=penalty.ridge * sigma * np.where(measured.joint > 0, 1.0, penalty.single),
        l1=penalty.l1 * sigma * measured.joint * (1 - patterns.cells),
        further=patterns if patterns.cells.any() else None,
        bounds=(lower, upper),
        iterations=iterations,
        tolerance=1e-9,
    )
    return theta, weigh(theta)[1]
