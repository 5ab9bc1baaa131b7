"""A log-linear model of any structure, represented by weighted rows.

A network can only hold column sets whose joint cost is small; rows can carry any column set. Rows are drawn from a
graphical model of some of the measured sets, with log-linear parameters `base`. Weights proportional to exp(sum over m
of (theta_m - base_m)[the row's cell in marginal m]) turn them into rows of the model with parameters theta, which are
fitted to all measured sets. Gibbs sweeps under the larger model then redraw the rows, so that there are rows in all its
likely cells, and weights are fitted once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri

from lookalike.fitting.row_weights import MeasuredCells, WeightPenalty, fit_weights
from lookalike.measurements import NoisyMarginal, group_means
from lookalike.models.graphical import GraphicalModel
from lookalike.models.intervals import measured_interval
from lookalike.models.linear import LinearEstimates
from lookalike.sampling.draws import draw_by_weight, gibbs_sweep, systematic
from lookalike.sampling.exchange import ExchangeSettings, choose_rows
from lookalike.schema.domain import Domain, cell_keys, counted, similar_rows_together
from lookalike.stored import Stored

_ROWS_PER_COUNT = 5
_MIN_ROWS = 20_000
_RENEWAL_ITERATIONS = 60
"""Before rows are redrawn the weights need not have converged, since they are fitted again afterwards."""
_EFFECTIVE, _NEARLY = 0.4, 0.9
"""Least share of effective rows in a step from one distribution to the next, and what counts as a whole step;
docs/laboratory/mosaic.md#step-by-step."""
_MAX_MISFIT = 3.0
"""Misfit up to which redrawn rows are used even if earlier rows have less; see `MeasuredCells.misfit`."""
_NOISE = 0.997
"""Probability that noise explains the differences of a column's counts from their estimates, and each of them; beyond
that, the weights are raked to the estimates. Nearer counts are left alone: the model may be closer than its noise."""
_NEAR = 0.5
"""Level of the intervals of the estimates into which counts are raked."""
_SWEEPS, _MOVED = 100, 1e-4
"""Rounds of raking at most, and the share of the rows that a column moves in the last one."""
_EXCHANGED, _MAX_EXCHANGED, _PART = 100_000, 150_000, 250_000
"""Rows that are exchanged where all cells are rows, and at most, and further rows that are drawn at a time."""


@dataclass(frozen=True, slots=True)
class SupportSettings:
    """How the weighted rows are made. `exchange` says how rows are chosen from them.

    Attributes:
        max_rows: maximum number of weighted rows at a time; five per row of the table are enough.
        whole_domain: of a domain of at most so many cells all cells become rows, and the weights are then exact.
        renewals: how often at most rows are redrawn by weight and changed by a Gibbs sweep; as often as it takes.
        iterations: maximum number of steps of the last fit of weights; earlier fits take no more.
        ridge, l1, single, rank: see `WeightPenalty`.
    """

    max_rows: int = 150_000
    whole_domain: int = 100_000
    renewals: int = 6
    iterations: int = 60
    ridge: float = 0.5
    l1: float = 0.3
    single: float = 1.0
    rank: float = 0.0
    exchange: ExchangeSettings = field(default_factory=ExchangeSettings)


_EXCHANGE_LIMITS = {
    "passes": (0, 100), "candidates": (1, 1000), "orders": (1, 8), "cells": (0, 20_000_000), "sets": (0, 100_000),
}  # fmt: skip
_LIMITS = {
    "max_rows": (1, 5_000_000), "whole_domain": (0, 1_000_000), "renewals": (0, 100), "iterations": (1, 2000),
    "ridge": (0.0, 1e6), "l1": (0.0, 1e6), "single": (0.0, 1e6), "rank": (0.0, 1e6), "exchange": _EXCHANGE_LIMITS,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows:
    """Rows of codes and weights that add up to 1.

    Attributes:
        theta: the parameters that the weights follow; None where the rows are all cells of the domain.
        raked: positions of columns whose counts were raked to their own estimates.
        drawn: how many rows were drawn, of which equal ones are one row here.
    """

    codes: np.ndarray
    weights: np.ndarray
    theta: np.ndarray | None = None
    raked: frozenset[int] = frozenset()
    drawn: int = 0


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
        """Return weighted rows drawn with this seed."""
        rng = np.random.default_rng([20, seed])
        measured = MeasuredCells(self.domain, self.measurements)
        if self.domain.cells() <= self.settings.whole_domain:
            grid = np.indices(self.domain.sizes, dtype=np.int32).reshape(len(self.domain), -1)
            return self._weighted_domain(measured, np.asfortranarray(self._possible(grid.T)))
        size = int(np.clip(_ROWS_PER_COUNT * self.total, _MIN_ROWS, max(self.settings.max_rows, _MIN_ROWS)))
        drawn, base = self._renewed(measured, self.network.sample(size, rng), rng)
        codes, shares = distinct_rows(self.domain, drawn)
        theta, weights = self._fit(measured, codes, shares, base, self.settings.iterations)
        return self._with_columns(WeightedRows(codes, weights, theta, drawn=size))

    def _renewed(
        self, measured: MeasuredCells, drawn: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of about the distribution that fits all measurements, and its parameters.

        From the network's rows it is reached in steps, each no further than leaves enough effective rows: weights that
        rest on few rows fit the accidents of these, and a Gibbs sweep then walks away from all. As parameters fitted to
        some rows need not be good elsewhere (nothing determines them in cells without rows), the rows of the step that
        explains the measurements best are returned, or the last ones if they explain them well.
        """
        base, theta = self._network_parameters(), None
        early = min(self.settings.iterations, _RENEWAL_ITERATIONS)
        found, least = (drawn, base), measured.misfit(drawn, self.total)
        for _ in range(self.settings.renewals):
            codes, shares = distinct_rows(self.domain, drawn)
            grain = self.total / len(drawn)
            theta, weights = self._fit(measured, codes, shares, base, early, start=theta, grain=grain)
            step, weights = furthest_step(np.log(np.maximum(weights, 1e-300) / shares), shares, _EFFECTIVE)
            base = base + step * (theta - base)
            drawn = np.asfortranarray(codes[draw_by_weight(weights, len(drawn), rng)])
            gibbs_sweep(self.domain, drawn, *self._factors(measured, base), rng)
            misfit = measured.misfit(drawn, self.total)
            if misfit <= max(least, _MAX_MISFIT):
                found, least = (drawn, base), misfit
            if step > _NEARLY:
                break
        return found

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return expected counts from the weighted rows, axes in domain order; they sum to `total`."""
        counts = counted(self.domain, self.rows.codes, attrs, self.rows.weights)
        return counts * (self.total / counts.sum())

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def variance(self, attrs: Iterable[str]) -> np.ndarray:
        """Return the variance of `marginal` that comes of finitely many rows; 0 where all cells are rows."""
        squares = 0.0 if self.rows.theta is None else np.square(self.rows.weights)
        return counted(self.domain, self.rows.codes, attrs, squares * np.ones(len(self.rows.codes))) * self.total**2

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows of codes whose marginals of few columns are close to the model's; see `exchange`.

        So many are chosen that the weighted rows offer a choice; the rest are `further_rows`.
        """
        source = self.rows
        first = min(rows, _EXCHANGED if source.theta is None else max(min(source.drawn // 2, _MAX_EXCHANGED), 1))
        codes = np.empty((rows, len(self.domain)), np.int32, order="F")
        chosen = choose_rows(source.codes, source.weights, first, self.settings.exchange, self.domain, rng)
        codes[:first] = source.codes[chosen]
        if rows > first:
            codes[first:] = self.further_rows(rows - first, rng)
        return np.asfortranarray(codes[rng.permutation(rows)])

    def further_rows(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows beyond those of `sample`, whose sampling error matters less.

        They are drawn by weight, and then changed by a Gibbs sweep, so that they are not copies of few.
        """
        codes = np.empty((rows, len(self.domain)), np.int32, order="F")
        for start in range(0, rows, _PART):
            codes[start : start + _PART] = self._drawn(min(_PART, rows - start), rng)
        return codes

    def _drawn(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Rows drawn by weight, swept if the parameters are good enough for rows that they were not fitted to."""
        source, sizes = self.rows, self.domain.sizes
        # In the order of the columns of fewest values, whose counts are the most precise, they are drawn exactly.
        together = similar_rows_together(source.codes, sorted(range(len(sizes)), key=sizes.__getitem__), sizes, rng)
        drawn = together[systematic(source.weights[together], rows, rng)]
        codes = np.asfortranarray(source.codes[rng.permutation(drawn)])
        return self._swept(codes, rng) if self._sweeps else codes

    def _swept(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        changed, theta = codes.copy(order="F"), self.rows.theta
        if theta is not None:
            measured = MeasuredCells(self.domain, self.measurements)
            free = [i for i in range(len(self.domain)) if i not in self.rows.raked]
            gibbs_sweep(self.domain, changed, *self._factors(measured, theta), rng, free)
        return changed

    @cached_property
    def _sweeps(self) -> bool:
        """Whether swept rows explain the measurements about as well as rows drawn by weight."""
        if self.rows.theta is None:
            return False
        rng, measured = np.random.default_rng(21), MeasuredCells(self.domain, self.measurements)
        codes = np.asfortranarray(self.rows.codes[draw_by_weight(self.rows.weights, _MIN_ROWS, rng)])
        swept = measured.misfit(self._swept(codes, rng), self.total)
        return swept <= max(1.5 * measured.misfit(codes, self.total), 1.0)

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
        self,
        measured: MeasuredCells,
        codes: np.ndarray,
        shares: np.ndarray,
        base: np.ndarray,
        iterations: int,
        *,
        start: np.ndarray | None = None,
        grain: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        given = self.settings
        penalty = WeightPenalty(given.ridge, given.l1, grain=grain, single=given.single, rank=given.rank)
        cells = measured.cells(codes)
        given_rows = {"shares": shares, "start": start, "iterations": iterations}
        return fit_weights(measured, cells, self.total, base, penalty, **given_rows)

    def _with_columns(self, rows: WeightedRows) -> WeightedRows:
        """The rows, raked to estimates of single columns whose counts are further from these than noise explains.

        A column is in many sets at once, so a fit of few steps gets its counts right last, and sets of many empty
        cells, which cannot be negative as their noise can, pull it away. The best linear estimates of its counts suffer
        from neither.
        """
        codes, weights = rows.codes, rows.weights
        estimates = LinearEstimates(self.domain, self.measurements)
        known = {i: estimates.linear_marginal((name,)) for i, name in enumerate(self.domain.names)}
        measured = {column: found for column, found in known.items() if not np.isnan(found[0]).any()}
        # Columns of few values, whose shares are the most precise, come last and hold exactly.
        in_order = sorted(measured, key=lambda column: -measured[column][0].size)
        wanted: dict[int, np.ndarray] = {}
        for _ in range(_SWEEPS):
            moved = 0.0
            for column in in_order:
                found = measured[column]
                held = np.bincount(codes[:, column], weights, minlength=found[0].size) / weights.sum()
                # Raking one column moves others, too.
                if column not in wanted and _beyond_noise(self.total * held, *found):
                    near = _nearest(self.total * held, *measured_interval(*found, 1.0, _NEAR))
                    wanted[column] = near / near.sum()
                shares = wanted.get(column, held)
                factors = np.divide(shares, held, out=np.ones(shares.size), where=held > 0)
                weights = weights * factors[codes[:, column]] if column in wanted else weights
                moved = max(moved, float(np.abs(held - shares).sum()) / 2)
            if moved < _MOVED:
                break
        return replace(rows, weights=weights / weights.sum(), raked=frozenset(wanted))

    def _weighted_domain(self, measured: MeasuredCells, codes: np.ndarray) -> WeightedRows:
        """All cells of the domain with their probabilities, fitted with the network's penalty, so that few steps do."""
        start = self._network_parameters()
        penalty = WeightPenalty(self.settings.ridge, l1=0.0, trust=np.inf, single=self.settings.single)
        uniform, steps, cells = np.zeros(start.size), 2 * self.settings.iterations, measured.cells(codes)
        fitted = fit_weights(measured, cells, self.total, uniform, penalty, start=start, iterations=steps)
        return WeightedRows(codes, fitted[1])


def furthest_step(potentials: np.ndarray, shares: np.ndarray, least: float) -> tuple[float, np.ndarray]:
    """Return the largest step t up to 1, and weights proportional to shares * exp(t * potentials), in sum 1.

    The effective rows 1 / (sum of weights^2 / shares) are at least the part `least` of all. 1 is even weights.

    >>> furthest_step(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 0.5)[0]
    1
    >>> step, weights = furthest_step(np.array([0.0, 9.0]), np.array([0.5, 0.5]), 0.8)
    >>> round(step, 3), weights.round(3).tolist()
    (0.122, [0.25, 0.75])
    """

    def weights(step: float) -> np.ndarray:
        found = shares * np.exp(step * (potentials - potentials.max()))
        return found / found.sum()

    def spare(step: float) -> float:
        return 1 / float((weights(step) ** 2 / shares).sum()) - least

    step: Any = 1 if spare(1.0) >= 0 else brentq(spare, 0.0, 1.0, xtol=1e-4)
    return step, weights(step)


def distinct_rows(domain: Domain, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row once, with its share of all rows: what is done with weights costs as much as there are rows.

    >>> rows = np.array([[1, 0], [0, 1], [1, 0], [1, 0]])
    >>> [found.tolist() for found in distinct_rows(Domain(("a", "b"), (2, 2)), rows)]
    [[[0, 1], [1, 0]], [0.25, 0.75]]
    """
    keys, _ = cell_keys(codes, range(len(domain)), domain.sizes)
    _, first, times = np.unique(keys, return_index=True, return_counts=True)
    return np.asfortranarray(codes[first]), times / len(codes)


def _beyond_noise(counts: np.ndarray, estimates: np.ndarray, stddevs: np.ndarray) -> bool:
    """Whether differences from estimates are too large for noise: their squares together, or a single one."""
    low, high = measured_interval(estimates, stddevs, 1.0, 1 - (1 - _NOISE) / counts.size)
    squares = float(np.square((counts - estimates) / stddevs).sum())
    return squares > float(chdtri(counts.size, 1 - _NOISE)) or bool(((counts < low) | (counts > high)).any())


def _nearest(counts: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the counts between `low` and `high`, all moved by the same number so that their sum stays, if it can.

    >>> _nearest(np.array([9.0, 4.0, 2.0]), np.array([3.0, 3.0, 3.0]), np.array([7.0, 7.0, 7.0])).round(6).tolist()
    [7.0, 5.0, 3.0]
    """
    if not low.sum() < counts.sum() < high.sum():
        return low if counts.sum() <= low.sum() else high
    excess = lambda shift: float(np.clip(counts + shift, low, high).sum() - counts.sum())  # noqa: E731
    shift: Any = brentq(excess, float((low - counts).min()), float((high - counts).max()))
    return np.clip(counts + shift, low, high)
