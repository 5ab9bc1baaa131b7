"""DualQuery as in its paper (Gaboardi and others 2014), corrected only where privacy demands it."""

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
from lookalike.synthesizers.dualquery import DualQuery, check_two_rounds, draws_for, round_budget
from lookalike.synthesizers.fem import QUERIES, drawn_queries
from lookalike.synthesizers.split import Split, Step, count_rows

_WEIGHT = 1e3
"""Weight of a drawn query: so large against the noise of scale 1 that a row satisfies as many queries as it can."""


@method(
    "dualquery-paper",
    title="DualQuery, the paper's variant",
    paper=DualQuery.info.paper,
    good_for="repeating the paper's experiments; dualquery is more accurate",
    corrected="counts of added or removed rows with a noisy number of rows, where the paper has fractions of a "
    "public one; every draw is a separate exponential mechanism, charged by zCDP; coordinate ascent instead of "
    "an integer programme",
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=170,
    is_paper_variant=True,
)
class DualQueryPaper(Method):
    """In each round, draw queries of large error in the rows so far, and add the row that satisfies most of them.

    Queries are the cells of a few random marginals, with both signs. No column is measured. `DualQuery` explains the
    price of a draw.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.selection.workload`.
        marginals: how many of them are used, drawn at random.
        rounds: how often a row is added.
        per_round: queries drawn in each round after the first, s in the paper; None means 3 for every column, at most
            30.
        count_share: part of the budget for the number of rows.
        max_cells: marginals of more cells are replaced by parts of them.
        sweeps: passes of the search for the best row, over its columns.
    """

    workload: WorkloadSpec = choice("all-2way")
    marginals: int = paper(64)
    rounds: int = tuned(50)
    per_round: int | None = tuned(None)
    count_share: float = tuned(0.02)
    max_cells: int = tuned(20_000)
    sweeps: int = tuned(3)

    def __post_init__(self) -> None:
        check_shares(self.count_share)
        check_two_rounds(self.rounds)
        check_positive(
            marginals=self.marginals, per_round=self.per_round, max_cells=self.max_cells, sweeps=self.sweeps
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        draws = (self.rounds - 1) * draws_for(domain, self.per_round)
        return Split.of(rho, Step.number_of_rows(rho * self.count_share), rest=drawn_queries(draws))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, draws = door.domain, draws_for(door.domain, self.per_round)
        progress("counting rows", 0.0)
        leader, total = PerturbedLeader.uniform(domain), estimated_total(count_rows(door, split))
        made = [leader.rows(1, rng)]
        player = random_player(domain, self.workload, self.max_cells, self.marginals, rng)
        for number in range(1, self.rounds):
            progress(f"round {number + 1} of {self.rounds}", number / self.rounds)
            player.compare_with(np.concatenate(made), total)
            leader.weights.clear()
            rho = round_budget(door.remaining, number, self.rounds) / draws
            weigh_drawn_queries(door, player, leader, draws, rho, weight=_WEIGHT, step=QUERIES)
            made.append(leader.rows(1, rng, sweeps=self.sweeps))
        return RowsModel(domain, total, np.concatenate(made))
