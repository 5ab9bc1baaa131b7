"""FEM as in its paper (Vietri, Tian, Bun, Steinke and Wu 2020), corrected only where privacy demands it."""

from __future__ import annotations

import numpy as np

from lookalike.measurements import estimated_total
from lookalike.models.model import Model
from lookalike.models.rows import RowsModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.cell_queries import PerturbedLeader, query_sets, random_player, weigh_drawn_queries
from lookalike.selection.workload import WorkloadSpec
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.fem import FEM, QUERIES, drawn_queries, rounds_for
from lookalike.synthesizers.split import Split, Step, count_rows


@method(
    "fem-paper",
    title="FEM, the paper's variant",
    paper=FEM.info.paper,
    good_for="repeating the paper's experiments; fem is more accurate",
    corrected=FEM.info.corrected,
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=160,
    is_paper_variant=True,
)
class FEMPaper(Method):
    """In each round, draw a query of large error in the latest rows, change the weight of its cell, and make new rows.

    Queries are the cells of a few random marginals, with both signs. No column is measured: the first rows are uniform.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.selection.workload`.
        marginals: how many of them are used, drawn at random.
        rounds: how often rows are made; None means 15 for every column, from 50 to 200.
        per_round: queries drawn in each round.
        rows_per_round: rows made in each round; those of the second half of all rounds are the result (authors' code).
        count_share: part of the budget for the number of rows.
        noise: scale of the rows' exponential noise, against which a drawn query weighs 1.
        max_cells: marginals of more cells are replaced by parts of them.
        sweeps: passes of the search for the best row, over its columns.
    """

    workload: WorkloadSpec = choice("all-2way")
    marginals: int = paper(64)
    rounds: int | None = tuned(None)
    per_round: int = paper(1)
    rows_per_round: int = paper(50, "the authors' program")
    count_share: float = tuned(0.02)
    noise: float = tuned(5.0)
    max_cells: int = tuned(20_000)
    sweeps: int = tuned(3)

    def __post_init__(self) -> None:
        check_shares(self.count_share)
        check_positive(
            marginals=self.marginals, rounds=self.rounds, per_round=self.per_round, rows_per_round=self.rows_per_round,
            noise=self.noise, max_cells=self.max_cells, sweeps=self.sweeps,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        draws = rounds_for(domain, self.rounds) * self.per_round
        return Split.of(rho, Step.number_of_rows(rho * self.count_share), rest=drawn_queries(draws))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rounds = door.domain, rounds_for(door.domain, self.rounds)
        progress("counting rows", 0.0)
        leader, total = PerturbedLeader.uniform(domain), estimated_total(count_rows(door, split))
        player = random_player(domain, self.workload, self.max_cells, self.marginals, rng)
        made = [self._rows(leader, rng)]
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            player.compare_with(made[-1], total)
            rho = door.remaining / ((rounds - number) * self.per_round)
            weigh_drawn_queries(door, player, leader, self.per_round, rho, weight=1 / self.noise, step=QUERIES)
            made.append(self._rows(leader, rng))
        return RowsModel(domain, total, np.concatenate(made[(rounds + 1) // 2 :]))

    def _rows(self, leader: PerturbedLeader, rng: np.random.Generator) -> np.ndarray:
        return leader.rows(self.rows_per_round, rng, noise="exponential", sweeps=self.sweeps)
