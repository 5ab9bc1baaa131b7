"""A log-linear model of any structure, carried by weighted rows.

A graphical model of the sets that fit together draws the rows; weights make them match all measured sets; Gibbs sweeps
under the enlarged model renew the rows, so that its regions are populated; and weights are fitted once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from lookalike.fitting.row_weights import MeasuredCells, WeightPenalty, fit_weights
from lookalike.measurements.marginals import NoisyMarginal, group_means
from lookalike.models.diagnosis import misfit_of
from lookalike.models.graphical import GraphicalModel
from lookalike.models.stored import Stored
from lookalike.sampling.draws import draw_by_weight, gibbs_sweep
from lookalike.sampling.exchange import ExchangeSettings, choose_rows
from lookalike.schema.cells import counted
from lookalike.schema.domain import Domain

_ROWS_PER_COUNT = 5
_LEAST_ROWS = 20_000
_RENEWAL_ITERATIONS = 60
"""Before a renewal the weights need not have converged: rows are redrawn and weighed again."""
_SOUND = 3.0
"""Misfit up to which renewed rows are taken, even if the network's own rows have less; see `MeasuredCells.misfit`."""
_RAKED = 2.0
"""Reduced chi-square of a single column above which weights are raked to the network's."""
_SWEEPS = 3


@dataclass(frozen=True, slots=True)
class SupportSettings:
    """How the weighted rows are made.

    Attributes:
        max_rows: at most so many weighted rows at a time; five per row of the table are enough.
        whole_domain: a domain of at most so many cells is listed whole instead, and the weights are then exact.
        renewals: how often rows are redrawn by weight and renewed by a Gibbs sweep.
        iterations: steps of the last fit of weights, and at most so many of those before.
        ridge: see `WeightPenalty`.
        l1: see `WeightPenalty`.
        single: see `WeightPenalty`.
        exchange: how rows are chosen out of the weighted ones.
    """

    max_rows: int = 150_000
    whole_domain: int = 100_000
    renewals: int = 1
    iterations: int = 60
    ridge: float = 0.5
    l1: float = 0.3
    single: float = 1.0
    exchange: ExchangeSettings = field(default_factory=ExchangeSettings)


_LIMITS = {
    "max_rows": (1, 5_000_000),
    "whole_domain": (0, 1_000_000),
    "renewals": (0, 100),
    "iterations": (1, 2000),
    "ridge": (0.0, 1e6),
    "l1": (0.0, 1e6),
    "single": (0.0, 1e6),
    "exchange": {
        "passes": (0, 100),
        "candidates": (1, 1000),
        "orders": (1, 8),
        "cells": (0, 20_000_000),
        "sets": (0, 100_000),
    },
}


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows:
    """Rows of codes and weights that add up to 1."""

    codes: np.ndarray
    weights: np.ndarray


class ReweightedModel:
    """Maximum entropy given noisy marginals that need not fit a network together.

    Marginals come from weighted rows that are made from a fixed seed, so they are the same at every call. They carry
    the sampling error of `max_rows` rows except where the domain was listed whole. A function of noisy numbers only.

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
        self.network = network
        self.measurements = tuple(measurements)
        self.settings = settings or SupportSettings()

    @property
    def domain(self) -> Domain:
        return self.network.domain

    @property
    def total(self) -> float:
        return self.network.total

    @cached_property
    def rows(self) -> WeightedRows:
        """The weighted rows behind `marginal` and behind small samples."""
        return self.weighted_rows(seed=0)

    def weighted_rows(self, seed: int) -> WeightedRows:
        """Weighted rows drawn with a seed of their own.

        Parameters that weights find on rows need not make a model of their own: nothing holds them in cells where no
        row is, and a Gibbs sweep goes there. Renewed rows that explain the measurements worse are left aside.
        """
        rng = np.random.default_rng([20, seed])
        measured = MeasuredCells(self.domain, self.measurements)
        network = self._network_parameters()
        if self.domain.cells() <= self.settings.whole_domain:
            grid = np.indices(self.domain.sizes, dtype=np.int32).reshape(len(self.domain), -1)
            return self._weighed(measured, np.asfortranarray(self._possible(grid.T)), network)
        size = int(np.clip(_ROWS_PER_COUNT * self.total, _LEAST_ROWS, max(self.settings.max_rows, _LEAST_ROWS)))
        codes = self.network.sample(size, rng)
        base = network
        early = min(self.settings.iterations, _RENEWAL_ITERATIONS)
        for _ in range(self.settings.renewals):
            theta, weights = self._fit(measured, codes, base, early, grain=self.total / size)
            renewed = np.asfortranarray(codes[draw_by_weight(weights, size, rng)])
            gibbs_sweep(self.domain, renewed, *self._factors(measured, theta), rng)
            if measured.misfit(renewed, self.total) > max(measured.misfit(codes, self.total), _SOUND):
                break
            codes, base = renewed, theta
        weights = self._fit(measured, codes, base, self.settings.iterations)[1]
        return WeightedRows(codes, self._with_columns(codes, weights))

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Expected counts from the weighted rows, axes in domain order; they sum to `total`."""
        counts = counted(self.domain, self.rows.codes, attrs, self.rows.weights)
        return counts * (self.total / counts.sum())

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of codes whose two- and three-way marginals are close to the model's; see `exchange`.

        More than about half as many rows as there are weighted ones are made in parts, each from weighted rows of its
        own.
        """
        part = max(len(self.rows.codes) // 2, 1)
        if self.domain.cells() <= self.settings.whole_domain:
            part = max(rows, 1)
        codes = np.empty((rows, len(self.domain)), np.int32, order="F")
        for number, first in enumerate(range(0, rows, part)):
            source = self.rows if number == 0 else self.weighted_rows(seed=number)
            wanted = min(part, rows - first)
            chosen = choose_rows(source.codes, source.weights, wanted, self.settings.exchange, self.domain, rng)
            codes[first : first + wanted] = source.codes[chosen]
        return np.asfortranarray(codes[rng.permutation(rows)])

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        """Only the network and the noisy marginals are stored; weighted rows are made again when they are needed."""
        network = GraphicalModel.from_stored(stored.part("network"))
        measured = [entry.measurement(network.domain) for entry in stored.parts("measurements")]
        return cls(network, measured, stored.part("settings").settings(SupportSettings, _LIMITS))

    def _network_parameters(self) -> np.ndarray:
        """The network's potentials as parameters of the measured sets; sets outside the network start at 0."""
        flat: list[np.ndarray] = []
        for m in self.measurements:
            table = self.network.potentials.get(m.attrs)
            if table is None:
                flat.append(np.zeros(m.cells))
                continue
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
        cells = measured.cells(codes)
        return fit_weights(measured, cells, self.total, base, penalty, iterations=iterations)

    def _with_columns(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weights, raked to the network's single columns where those explain the measured ones and these do not.

        A column is in many sets at once, so its counts are what a fit of few steps gets right last. The network has
        them right: its fit is small and converges.
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

    def _weighed(self, measured: MeasuredCells, codes: np.ndarray, start: np.ndarray) -> WeightedRows:
        """The whole domain with its probabilities.

        Under the network's own penalty: its parameters are then near the optimum from the start, and the few sets
        outside are soon learnt. With others 120 steps are not enough.
        """
        penalty = WeightPenalty(self.settings.ridge, l1=0.0, trust=np.inf, single=self.settings.single)
        uniform = np.zeros(start.size)
        steps = 2 * self.settings.iterations
        cells = measured.cells(codes)
        return WeightedRows(
            codes, fit_weights(measured, cells, self.total, uniform, penalty, start=start, iterations=steps)[1]
        )
