"""MWEM: multiplicative weights and the exponential mechanism on the whole domain (Hardt, Ligett, McSherry 2012)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lookalike.errors import ModelTooLargeError
from lookalike.measurements import estimated_total
from lookalike.models.dense import DenseModel, multiplicative_weights
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.enforce import structural_zeros
from lookalike.selection.steps import choose_worst
from lookalike.selection.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.split import CHOICES, CHOSEN, Split, Step, count_rows


@method(
    "mwem",
    title="MWEM",
    paper="Hardt, Ligett, McSherry: A simple and practical algorithm for private data release (NIPS 2012)",
    good_for="domains of up to some million cells, such as a few binary columns; as a historical baseline",
    corrected="the number of rows is measured, not taken as known; whole marginals with Gaussian noise instead of "
    "single queries with Laplace noise, composed by zCDP; the last table is kept instead of the average of all",
    page="docs/choosing_a_method.md",
    accounting="zcdp",
    rank=120,
)
class MWEM(Method):
    """Start from the uniform table; in each round choose the marginal of largest error, measure it, reweight all cells.

    Attributes:
        workload: the marginals to choose from; see `lookalike.selection.workload`.
        rounds: how many marginals are measured; None means one per column.
        rows_share: part of the budget for the number of rows.
        choice_share: part of every round's budget for choosing.
        replays: passes over all measurements after each round.
        max_cells: maximum number of cells of the domain; all are held in memory and updated in every pass.
    """

    workload: WorkloadSpec = choice("all-3way")
    rounds: int | None = tuned(None)
    rows_share: float = tuned(0.02)
    choice_share: float = tuned(0.2)
    replays: int = tuned(20)
    max_cells: int = choice(2_000_000)

    def __post_init__(self) -> None:
        check_shares(self.rows_share)
        check_shares(self.choice_share)
        check_positive(rounds=self.rounds, replays=self.replays, max_cells=self.max_cells)

    def split(self, domain: Domain, rho: float) -> Split:
        self._check_size(domain)
        as_workload(self.workload, domain)
        first = Step.number_of_rows(rho * self.rows_share)
        return Split.in_rounds(rho, first, self.rounds or len(domain), self.choice_share)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rounds = door.domain, self.rounds or len(door.domain)
        self._check_size(domain)
        total = count_rows(door, split)
        candidates = as_workload(self.workload, domain).cliques
        possible = possible_cells(domain, structural_zeros(door.schema))
        model = DenseModel(domain, possible / possible.sum(), estimated_total(total))
        measured = []
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            share = door.remaining / (rounds - number)
            references = model.marginals(candidates)
            rho, penalties = share * self.choice_share, np.zeros(len(candidates))
            picked = choose_worst(door, candidates, references, rho=rho, penalties=penalties, step=CHOICES)
            stddev = door.stddev_for(share * (1 - self.choice_share))
            measured += door.measure([candidates[picked]], stddev, step=CHOSEN)
            rows = estimated_total([*total, *measured])
            table = multiplicative_weights(domain, model.probabilities, measured, rows, replays=self.replays)
            model = DenseModel(domain, table, rows)
        return model

    def _check_size(self, domain: Domain) -> None:
        cells = float(min(domain.cells(), 10**300))
        if cells > self.max_cells:
            remedy = "Use mwem-pgm or aim, which need no table of all cells, or coarser columns."
            raise ModelTooLargeError("The table of all possible rows", cells, self.max_cells, "cells", remedy)


def possible_cells(domain: Domain, zeros: Mapping[ColumnSet, np.ndarray]) -> np.ndarray:
    """Return a table of the whole domain that is 1 in every cell that no rule forbids, and 0 elsewhere."""
    possible = np.ones(domain.sizes)
    for attrs, table in zeros.items():
        shape = [domain.size(name) if name in attrs else 1 for name in domain.names]
        possible *= ~table.reshape(shape)
    return possible
