"""PPSyn as printed: Algorithms 1 to 4 with selection, partitions and budgets from true counts. NOT PRIVATE.

What these steps leak is not charged: which cells are alike, and by how much each marginal is wrong, are read off the
table (tests/privacy/test_printed_ppsyn.py shows by how much one row moves them). For comparison with `ppsyn-paper`,
which takes the same steps from noisy errors and from the model, and for Figure 2.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engine.cases import counts_of
from benchmarks.runs import Reference
from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.privacy.kernel.accounting import Budget
from lookalike.schema import codec
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.selection.grouping import merged_neighbours, partition_path
from lookalike.selection.model_size import SizeGate
from lookalike.selection.steps import allocate

ETA, PARTITIONED, MODEL_MS, STEPS = 0.7, 12, 3.0, 60
"""Eta is the paper's; the others are those of `ppsyn-paper`, so that only the leak differs."""


def synthesize(
    rows: pa.Table, *, schema: Schema, epsilon: float, delta: float, seed: int, eta: float = ETA, **_: Any
) -> Reference:
    """As many rows as the model of Algorithm 1 says, with all pairs as the workload; for tables of integer codes."""
    codes, noise = codec.encode(schema, rows), np.random.default_rng(seed)
    model = printed_model(codes, schema.domain, epsilon, delta, noise, eta)
    made = model.sample(round(model.total), np.random.default_rng([seed, 1]))
    return Reference(pa.table({name: made[:, place] for place, name in enumerate(schema.domain.names)}))


def printed_model(
    codes: np.ndarray, domain: Domain, epsilon: float, delta: float, rng: np.random.Generator, eta: float = ETA
) -> GraphicalModel:
    """The last model of Algorithm 1; noise is for zCDP, as in the paper, and repeatable."""
    rho = left = float(Budget(epsilon, delta, "zcdp").rho)
    rounds, sets = 4 * len(domain), list(combinations(domain.names, 2))
    true = {attrs: _counts(codes, domain, attrs) for attrs in [*((name,) for name in domain.names), *sets]}

    def noisy(attrs: ColumnSet, share: float, groups: np.ndarray | None = None) -> NoisyMarginal:
        stddev, exact = math.sqrt(1 / (2 * share)), true[attrs]
        sums = exact if groups is None else np.bincount(groups.ravel(), weights=exact.ravel())
        return NoisyMarginal(attrs, sums + rng.normal(0, stddev, sums.shape), stddev, groups)

    shares = allocate([domain.size(name) for name in domain.names], 0.1 * rho)
    measured = [noisy((name,), share) for name, share in zip(domain.names, shares, strict=True)]
    model, gate, left = fit(domain, measured), SizeGate(), 0.9 * rho
    for _ in range(rounds):
        left -= 0.1 * rho / rounds
        chosen = _choice(model, gate.admitted(model, sets, MODEL_MS), true, 0.1 * rho / rounds, rng, eta)
        if chosen is None or left <= 1e-3 * rho:
            break
        attrs, groups, price = chosen
        spent = min(price, left)
        left -= spent
        measured.append(noisy(attrs, spent, groups))
        model = fit(domain, measured, warm=model, iterations=STEPS)
    return fit(domain, measured, warm=model)


def _counts(codes: np.ndarray, domain: Domain, attrs: ColumnSet) -> np.ndarray:
    return counts_of(codes, [domain.position(name) for name in attrs], domain.shape(attrs)).astype(float)


def _choice(
    model: GraphicalModel,
    sets: list[ColumnSet],
    true: dict[ColumnSet, np.ndarray],
    share: float,
    rng: np.random.Generator,
    eta: float,
) -> tuple[ColumnSet, np.ndarray, float] | None:
    """Algorithm 2 with the exponential mechanism at the sensitivity of 1 that its scores do not have."""
    wrong = [np.abs(true[attrs] - now).sum() for attrs, now in zip(sets, model.marginals(sets), strict=True)]
    found = []
    for place in np.argsort(wrong)[::-1][:PARTITIONED]:
        path = partition_path(true[sets[place]])
        count, price = path.cheapest(float(wrong[place]), eta)
        if math.isfinite(price):
            noise = rng.gumbel() * 2 / math.sqrt(8 * share)
            found.append((wrong[place] / price + noise, len(found), sets[place], path, count, price))
    if not found:
        return None
    _, _, attrs, path, count, price = max(found, key=lambda entry: entry[:2])
    return attrs, path.partition(count), price


def budgets(counts: np.ndarray, contribution: float, eta: float = ETA) -> list[tuple[int, float]]:
    """Figure 2: for each number of groups of one column's cells, the budget that Algorithm 3 requires."""
    path = merged_neighbours(np.sort(counts))
    room = eta * contribution - path.errors
    return [(groups, groups**2 / (math.pi * r**2)) for groups, r in enumerate(room, start=1) if r > 0]
