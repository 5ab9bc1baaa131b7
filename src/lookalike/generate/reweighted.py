"""A log-linear model of any structure, carried by weighted rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from lookalike.estimate.graphical import GraphicalModel
from lookalike.generate.exchange import Features, exchange, systematic
from lookalike.generate.gibbs import gibbs_sweep
from lookalike.generate.particles import MeasuredCells, fit_weights
from lookalike.schema.domain import Domain
from lookalike.tables.measurement import NoisyMarginal


class ReweightedModel:
    kind: ClassVar[str] = "reweighted"

    def __init__(self, network: GraphicalModel, measurements: Sequence[NoisyMarginal], settings: dict) -> None:
        self.network = network
        self.measurements = list(measurements)
        self.domain = network.domain
        self.total = network.total
        self.settings = settings
        self._support = None

    def support(self, size: int, rng: np.random.Generator):
        s = self.settings
        measured = MeasuredCells(self.domain, self.measurements)
        base = np.concatenate([
            self.network.potentials.get(m.attrs, np.zeros(m.values.shape)).ravel() for m in self.measurements
        ])
        codes = self.network.sample(size, rng)
        cells = measured.cells(codes)
        theta, weights = fit_weights(measured, cells, self.total, base, base, grain=s["grain"] * self.total / size if s["refresh"] else 0.0, penalty=s["penalty"], iterations=s["iterations"], trust=s["trust"], soft=s["soft"], width=s["width"])
        for turn in range(s["refresh"]):
            order = rng.permutation(len(codes))
            codes = np.asfortranarray(codes[order[systematic(weights[order], size, rng)]])
            tables = [theta[a:b].reshape(m.values.shape) for a, b, m in zip(measured.offsets, measured.offsets[1:], self.measurements)]
            for _ in range(s["sweeps"]):
                gibbs_sweep(self.domain, codes, measured.columns, tables, rng)
            cells = measured.cells(codes)
            if s.get("ess"):
                print("ess", 1 / (weights**2).sum() / size)
            theta, weights = fit_weights(measured, cells, self.total, theta, theta, grain=s["grain"] * self.total / size if turn + 1 < s["refresh"] else 0.0, penalty=s["penalty"], iterations=s["iterations"], trust=s["trust"], soft=s["soft"], width=s["width"])
        if s.get("ess"):
            print("ess", 1 / (weights**2).sum() / size)
        return codes, weights

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        return self.marginals([attrs])[0]

    def marginals(self, sets):
        if self._support is None:
            self._support = self.support(self.settings["support"], np.random.default_rng(0))
        codes, weights = self._support
        out = []
        for attrs in sets:
            c = self.domain.canonical(attrs)
            cell = np.ravel_multi_index([codes[:, self.domain.position(a)] for a in c], self.domain.shape(c))
            out.append(self.total * np.bincount(cell, weights, minlength=self.domain.cells(c)).reshape(self.domain.shape(c)))
        return out

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        s = self.settings
        codes, weights = self.support(s["support"], rng)
        chosen = exchange(codes, weights, rows, Features(self.domain, s["features"], tuple(s["orders"])), rng, passes=s["passes"], candidates=s["candidates"], power=s["power"])
        return np.asfortranarray(codes[rng.permutation(chosen)])

    def to_parts(self):
        raise NotImplementedError

    @classmethod
    def from_parts(cls, meta, arrays):
        raise NotImplementedError
