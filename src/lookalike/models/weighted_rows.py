"""A log-linear model of any structure, represented by weighted rows.

A network can only hold column sets whose joint cost is small; rows can carry any column set. Rows are drawn from a
graphical model of some of the measured sets, with log-linear parameters `base`. Weights proportional to exp(sum over m
of (theta_m - base_m)[the row's cell in marginal m]) turn them into rows of the model with parameters theta, which are
fitted to all measured sets. Gibbs sweeps under the larger model then redraw the rows, so that there are rows in all its
likely cells, and weights are fitted once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from lookalike.engine.executor import compiled, numba_available
from lookalike.fitting.maximum_entropy import minimise_dual
from lookalike.measurements import ContrastSpace, NoisyMarginal, group_means
from lookalike.models.diagnosis import misfit_of
from lookalike.models.graphical import GraphicalModel
from lookalike.models.model import Stored
from lookalike.sampling.draws import draw_by_weight, gibbs_sweep
from lookalike.sampling.exchange import ExchangeSettings, choose_rows
from lookalike.schema.cells import cell_numbers, counted
from lookalike.schema.domain import Domain


def _add_potentials(cells: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """out[r] += sum over s of values[cells[s, r]], block by block so that a block of `out` stays in the cache."""
    for start in range(0, cells.shape[1], 4096):
        stop = min(cells.shape[1], start + 4096)
        for s in range(cells.shape[0]):
            for r in range(start, stop):
                out[r] += values[cells[s, r]]


def _add_counts(cells: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """out[cells[s, r]] += weights[r] for all s and r."""
    for start in range(0, cells.shape[1], 4096):
        stop = min(cells.shape[1], start + 4096)
        for s in range(cells.shape[0]):
            for r in range(start, stop):
                out[cells[s, r]] += weights[r]


def row_potentials(cells: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return for each row the sum of the values of its cells."""
    out = np.zeros(cells.shape[1])
    if numba_available() and cells.size > 100_000:
        compiled(_add_potentials)(cells, values, out)
    else:
        for row in cells:
            out += values[row]
    return out


def cell_counts(cells: np.ndarray, weights: np.ndarray, length: int) -> np.ndarray:
    """Return the weighted counts of all cells."""
    out = np.zeros(length)
    if numba_available() and cells.size > 100_000:
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

    def tables(self, flat: np.ndarray) -> list[np.ndarray]:
        """Return a flat vector as one table per marginal; cells of a group have the same entry."""
        parts = [flat[start:stop] for start, stop in zip(self.offsets, self.offsets[1:], strict=False)]
        return [
            part.reshape(shape) if groups is None else part[groups]
            for part, groups, shape in zip(parts, self.groups, self.shapes, strict=True)
        ]


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
    """

    ridge: float = 0.5
    l1: float = 0.3
    trust: float = 2.0
    grain: float = 0.0
    single: float = 1.0


def fit_weights(
    measured: MeasuredCells,
    cells: np.ndarray,
    total: float,
    base: np.ndarray,
    penalty: WeightPenalty,
    *,
    start: np.ndarray | None = None,
    iterations: int = 60,
) -> tuple[np.ndarray, np.ndarray]:
    """Return parameters and row weights (they add up to 1) of the penalised maximum-entropy problem on the rows.

    The problem is that of `minimise_dual` with log Z = log of the mean over rows r of exp((theta - base) . row r); the
    expected counts are those of the weighted rows. Parameters stay within `trust` of `base`.
    """
    sigma = np.sqrt(measured.sigma**2 + penalty.grain * np.maximum(measured.observed, 1.0))
    rows = cells.shape[1]
    room = np.where(cell_counts(cells, np.ones(rows), base.size) > 0, penalty.trust, 0.0)
    lower, upper = base - room, base + room

    def weigh(theta: np.ndarray) -> tuple[float, np.ndarray]:
        weights = row_potentials(cells, theta - base)
        top = float(weights.max())
        np.exp(weights - top, out=weights)
        mass = float(weights.sum())
        weights /= mass
        return top + np.log(mass / rows), weights

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
        l1=penalty.l1 * sigma * measured.joint,
        bounds=(lower, upper),
        iterations=iterations,
        tolerance=1e-9,
    )
    return theta, weigh(theta)[1]


_ROWS_PER_COUNT = 5
_MIN_ROWS = 20_000
_RENEWAL_ITERATIONS = 60
"""Before rows are redrawn the weights need not have converged, since they are fitted again afterwards."""
_MAX_MISFIT = 3.0
"""Misfit up to which redrawn rows are used even if the network's rows have less; see `MeasuredCells.misfit`."""
_RAKED = 2.0
"""Reduced chi-square of a single column above which weights are raked to the network's."""
_SWEEPS = 3


@dataclass(frozen=True, slots=True)
class SupportSettings:
    """How the weighted rows are made. `exchange` says how rows are chosen from them.

    Attributes:
        max_rows: maximum number of weighted rows at a time; five per row of the table are enough.
        whole_domain: of a domain of at most so many cells all cells become rows, and the weights are then exact.
        renewals: how often rows are redrawn by weight and changed by a Gibbs sweep.
        iterations: maximum number of steps of the last fit of weights; earlier fits take no more.
        ridge, l1, single: see `WeightPenalty`.
    """

    max_rows: int = 150_000
    whole_domain: int = 100_000
    renewals: int = 1
    iterations: int = 60
    ridge: float = 0.5
    l1: float = 0.3
    single: float = 1.0
    exchange: ExchangeSettings = field(default_factory=ExchangeSettings)


_EXCHANGE_LIMITS = {
    "passes": (0, 100), "candidates": (1, 1000), "orders": (1, 8), "cells": (0, 20_000_000), "sets": (0, 100_000),
}  # fmt: skip
_LIMITS = {
    "max_rows": (1, 5_000_000), "whole_domain": (0, 1_000_000), "renewals": (0, 100), "iterations": (1, 2000),
    "ridge": (0.0, 1e6), "l1": (0.0, 1e6), "single": (0.0, 1e6), "exchange": _EXCHANGE_LIMITS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows:
    """Rows of codes and weights that add up to 1."""

    codes: np.ndarray
    weights: np.ndarray


class ReweightedModel:
    """The maximum-entropy model of noisy marginals that may be too many for one graphical model.

    Marginals come from weighted rows that are made from a fixed seed, so they are the same at every call. They have the
    sampling error of `max_rows` rows except where all cells of the domain are rows. A function of noisy numbers only.

    Attributes:
        network: the graphical model that draws the rows.
        measurements: all noisy marginals, with or without groups of cells, each column set once.
        settings: how rows are made.
    """

    kind: ClassVar[str] = "reweighted"
    stored_fields: ClassVar[tuple[str, ...]] = ("network", "measurements", "settings")

    def __init__(
        self, network: GraphicalModel, measurements: Sequence[NoisyMarginal], settings: SupportSettings | None = None
    ) -> None:
        sets = [m.attrs for m in measurements]
        if not sets or len(set(sets)) != len(sets):
            raise ValueError("a reweighted model needs noisy marginals, each column set once")
        self.network, self.measurements = network, tuple(measurements)
        self.settings = settings or SupportSettings()

    @property
    def domain(self) -> Domain:
        return self.network.domain

    @property
    def total(self) -> float:
        return self.network.total

    @cached_property
    def rows(self) -> WeightedRows:
        """The weighted rows for marginals and for small samples."""
        return self.weighted_rows(seed=0)

    def weighted_rows(self, seed: int) -> WeightedRows:
        """Return weighted rows drawn with this seed.

        Parameters fitted to the rows need not be good elsewhere: nothing determines them in cells without rows, which a
        Gibbs sweep can reach. So redrawn rows that explain the measurements worse are not used.
        """
        rng = np.random.default_rng([20, seed])
        measured = MeasuredCells(self.domain, self.measurements)
        network = self._network_parameters()
        if self.domain.cells() <= self.settings.whole_domain:
            grid = np.indices(self.domain.sizes, dtype=np.int32).reshape(len(self.domain), -1)
            return self._weighted_domain(measured, np.asfortranarray(self._possible(grid.T)), network)
        size = int(np.clip(_ROWS_PER_COUNT * self.total, _MIN_ROWS, max(self.settings.max_rows, _MIN_ROWS)))
        codes, base = self.network.sample(size, rng), network
        early = min(self.settings.iterations, _RENEWAL_ITERATIONS)
        for _ in range(self.settings.renewals):
            theta, weights = self._fit(measured, codes, base, early, grain=self.total / size)
            renewed = np.asfortranarray(codes[draw_by_weight(weights, size, rng)])
            gibbs_sweep(self.domain, renewed, *self._factors(measured, theta), rng)
            if measured.misfit(renewed, self.total) > max(measured.misfit(codes, self.total), _MAX_MISFIT):
                break
            codes, base = renewed, theta
        weights = self._fit(measured, codes, base, self.settings.iterations)[1]
        return WeightedRows(codes, self._with_columns(codes, weights))

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return expected counts from the weighted rows, axes in domain order; they sum to `total`."""
        counts = counted(self.domain, self.rows.codes, attrs, self.rows.weights)
        return counts * (self.total / counts.sum())

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows of codes whose marginals of few columns are close to the model's; see `exchange`.

        More rows than half the number of weighted ones are made in parts, each from newly drawn weighted rows.
        """
        whole = self.domain.cells() <= self.settings.whole_domain
        part = max(rows if whole else len(self.rows.codes) // 2, 1)
        codes = np.empty((rows, len(self.domain)), np.int32, order="F")
        for number, first in enumerate(range(0, rows, part)):
            source = self.rows if number == 0 else self.weighted_rows(seed=number)
            wanted = min(part, rows - first)
            chosen = choose_rows(source.codes, source.weights, wanted, self.settings.exchange, self.domain, rng)
            codes[first : first + wanted] = source.codes[chosen]
        return np.asfortranarray(codes[rng.permutation(rows)])

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        """Return the stored model. Weighted rows are not stored; they are made again when they are needed."""
        network = GraphicalModel.from_stored(stored.part("network"))
        measured = [entry.measurement(network.domain) for entry in stored.parts("measurements")]
        return cls(network, measured, stored.part("settings").settings(SupportSettings, _LIMITS))

    def _network_parameters(self) -> np.ndarray:
        """The network's potentials as parameters of the measured sets; 0 for sets that the network does not have."""
        flat: list[np.ndarray] = []
        for m in self.measurements:
            table = self.network.potentials.get(m.attrs, np.zeros(self.domain.shape(m.attrs)))
            flat.append(group_means(m, np.nan_to_num(table, neginf=0.0)).ravel())
        return np.concatenate(flat)

    def _factors(self, measured: MeasuredCells, theta: np.ndarray) -> tuple[list[list[int]], list[np.ndarray]]:
        """Columns and tables of all factors: of the measured sets, and of the network's impossible cells."""
        zeros = {attrs: np.where(table, -np.inf, 0.0) for attrs, table in self.network.zeros.items()}
        scopes = [[self.domain.position(name) for name in attrs] for attrs in zeros]
        return [*measured.scopes, *scopes], [*measured.tables(theta), *zeros.values()]

    def _possible(self, codes: np.ndarray) -> np.ndarray:
        """The rows that are in no impossible cell of the network."""
        kept = np.ones(len(codes), dtype=bool)
        for attrs, table in self.network.zeros.items():
            kept &= ~table[tuple(codes[:, self.domain.position(name)] for name in attrs)]
        return codes[kept]

    def _fit(
        self, measured: MeasuredCells, codes: np.ndarray, base: np.ndarray, iterations: int, grain: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        penalty = WeightPenalty(self.settings.ridge, self.settings.l1, grain=grain, single=self.settings.single)
        return fit_weights(measured, measured.cells(codes), self.total, base, penalty, iterations=iterations)

    def _with_columns(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weights, raked to the network's counts of columns that the network explains and the weights do not.

        A column is in many sets at once, so a fit of few steps gets its counts right last. The network, whose fit is
        small and converges, has them right.
        """
        wanted: dict[int, np.ndarray] = {}
        for m in (m for m in self.measurements if len(m.attrs) == 1):
            column, network = self.domain.position(m.attrs[0]), self.network.marginal(m.attrs)
            held = self.total * np.bincount(codes[:, column], weights, minlength=network.size)
            own, better = (misfit_of(m, counts, self.total).chi_square for counts in (held, network))
            if own > max(_RAKED, better):
                wanted[column] = network / self.total
        for _ in range(_SWEEPS):
            for column, shares in wanted.items():
                held = np.bincount(codes[:, column], weights, minlength=shares.size)
                factors = np.divide(shares, held, out=np.ones(shares.size), where=held > 0)
                weights = weights * factors[codes[:, column]]
        return weights / weights.sum()

    def _weighted_domain(self, measured: MeasuredCells, codes: np.ndarray, start: np.ndarray) -> WeightedRows:
        """All cells of the domain with their probabilities.

        Fitted with the same penalty as the network, so that the network's parameters are near the optimum and few steps
        are needed for the other sets. With other penalties 120 steps are not enough.
        """
        penalty = WeightPenalty(self.settings.ridge, l1=0.0, trust=np.inf, single=self.settings.single)
        uniform, steps, cells = np.zeros(start.size), 2 * self.settings.iterations, measured.cells(codes)
        fitted = fit_weights(measured, cells, self.total, uniform, penalty, start=start, iterations=steps)
        return WeightedRows(codes, fitted[1])
