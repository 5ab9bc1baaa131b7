"""FEM: rows of a perturbed leader against queries of the exponential mechanism (Vietri and others 2020), corrected."""

from __future__ import annotations

import numpy as np

from lookalike.models.graphical import fit
from lookalike.models.model import Model
from lookalike.models.rows import RowsModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.cell_queries import PerturbedLeader, QueryPlayer, query_sets, weigh_drawn_queries
from lookalike.selection.steps import measure_columns, singles
from lookalike.selection.workload import WorkloadSpec
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.split import ONEWAYS, Split, Step

QUERIES = "queries"

COLUMN_RATE = 0.3
"""Part of a column's distance from its measured distribution that one round corrects."""

_COMPARED_ROUNDS = 5
"""Number of latest rounds with whose rows the data is compared."""


@method(
    "fem",
    title="FEM",
    paper="Vietri, Tian, Bun, Steinke, Wu: New Oracle-Efficient Algorithms for Private Synthetic Data Release "
    "(ICML 2020)",
    good_for="a historical baseline of query release; rows without any measured table but single columns",
    corrected="counts of added or removed rows with a noisy number of rows, where the paper has fractions of a "
    "public one; a draw costs epsilon^2/8, where the authors' code charges epsilon^2/2; no settings found by trial "
    "on the private table, as that code does unpaid; stops after a public number of rounds, not by the clock; "
    "coordinate ascent instead of an integer programme",
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=160,
)
class FEM(Method):
    """In each round, draw queries of large error in the latest rows, change the weights of their cells, make new rows.

    A query is a cell of a marginal and a sign; it is drawn by an exponential mechanism and nothing is measured. New
    rows follow the perturbed leader: each maximises the sum of the weights of its cells and of independent noise.

    The leader of the paper's variant (`fem-paper`) starts without weights, with exponential noise. This one starts from
    noisy one-way marginals, with Gumbel noise around their logarithms, so that rows without any query are independent
    draws from them; every round corrects the columns towards these marginals, which is free.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.selection.workload`.
        rounds: how often rows are made; None means 15 for every column, from 50 to 200.
        per_round: queries drawn in each round.
        rows_per_round: rows made in each round; those of the second half of all rounds are the result (authors' code).
        oneway_share: part of the budget for one-way marginals.
        marginals_per_draw: number of random marginals whose cells compete in one draw, each with a random sign.
        noise: scale of the rows' noise, against which a drawn query weighs 1.
        max_cells: marginals of more cells are replaced by parts of them.
        sweeps: passes of the search for the best row, over its columns.
    """

    workload: WorkloadSpec = choice("all-2way")
    rounds: int | None = tuned(None)
    per_round: int = tuned(3)
    rows_per_round: int = tuned(1000)
    oneway_share: float = tuned(0.4)
    marginals_per_draw: int = tuned(32)
    noise: float = tuned(5.0)
    max_cells: int = tuned(20_000)
    sweeps: int = tuned(3)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_positive(
            rounds=self.rounds, per_round=self.per_round, rows_per_round=self.rows_per_round,
            marginals_per_draw=self.marginals_per_draw, noise=self.noise, max_cells=self.max_cells, sweeps=self.sweeps,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        return query_split(domain, rho, self.oneway_share, rounds_for(domain, self.rounds) * self.per_round)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rounds = door.domain, rounds_for(door.domain, self.rounds)
        progress("measuring every column", 0.0)
        columns, total = measured_columns(door, split)
        leader = PerturbedLeader(domain, columns)
        if len(domain) == 1:
            return RowsModel(domain, total, leader.rows(rounds * self.rows_per_round, rng))
        sets = query_sets(self.workload, domain, self.max_cells)
        player = QueryPlayer(domain, sets, self.marginals_per_draw, rng)
        made = [leader.rows(self.rows_per_round, rng, sweeps=self.sweeps)]
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            player.compare_with(np.concatenate(made[-_COMPARED_ROUNDS:]), total)
            rho = door.remaining / ((rounds - number) * self.per_round)
            weigh_drawn_queries(
                door, player, leader, self.per_round, rho, weight=1 / self.noise, step=QUERIES, distinct=True
            )
            leader.keep_columns(columns, made[-1], COLUMN_RATE)
            made.append(leader.rows(self.rows_per_round, rng, sweeps=self.sweeps))
        return RowsModel(domain, total, np.concatenate(made[(rounds + 1) // 2 :]))


def rounds_for(domain: Domain, rounds: int | None) -> int:
    """Return the number of rounds: the given one, or 15 for every column within 50 and 200."""
    return rounds or min(max(15 * len(domain), 50), 200)


def query_split(domain: Domain, rho: float, oneway_share: float, draws: int) -> Split:
    """Return the split of FEM and DualQuery: counts of every column, then draws of queries."""
    if len(domain) == 1:
        return Split.only_column(rho)
    return Split.of(rho, Step.columns(domain, rho * oneway_share), rest=drawn_queries(draws))


def drawn_queries(draws: int) -> Step:
    """Return the step of drawing queries."""
    return Step.choices(QUERIES, draws, "cells in which the rows differ from the data")


def measured_columns(door: GuardedTable, split: Split) -> tuple[list[np.ndarray], float]:
    """Measure every column; return the distribution of each and the number of rows."""
    start = fit(door.domain, measure_columns(door, split.rho(ONEWAYS), step=ONEWAYS))
    return [counts / start.total for counts in start.marginals(singles(door.domain))], start.total
