"""First steps that most methods share: noisy counts of every column, and a noisy score for every pair of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lookalike.estimate import GraphicalModel
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.tables.measurement import NoisyMarginal


def singles(domain: Domain) -> list[Clique]:
    """Every column as a column set."""
    return [(name,) for name in domain.names]


def measure_columns(door: GuardedTable, rho: float, *, step: str) -> list[NoisyMarginal]:
    """The noisy counts of every column for rho in all, shared by numbers of values as `allocate` does."""
    return measure_sets(door, singles(door.domain), rho, step=step)


def measure_sets(door: GuardedTable, sets: Sequence[Clique], rho: float, *, step: str) -> list[NoisyMarginal]:
    """The noisy counts of the column sets for rho in all, shared by numbers of cells as `allocate` does."""
    shares = allocate([door.domain.cells(attrs) for attrs in sets], rho)
    return door.measure(sets, [door.stddev_for(share) for share in shares], step=step)


def score_sets(
    door: GuardedTable, sets: Sequence[Clique], references: Sequence[np.ndarray], rho: float, *, step: str
) -> np.ndarray:
    """The noisy L1 distances of the counts of these sets from public references, for rho in all."""
    score = ResidualL1(tuple(sets), tuple(references))
    return door.noisy_scores(score, door.score_stddev_for(score, rho), step=step)


def score_pairs(
    door: GuardedTable, independent: GraphicalModel, rho: float, *, step: str
) -> tuple[list[Clique], np.ndarray]:
    """All pairs of columns, and how far each is from the model of independent columns; for rho in all."""
    pairs: list[Clique] = list(combinations(door.domain.names, 2))
    return pairs, score_sets(door, pairs, independent.marginals(pairs), rho, step=step)
