"""DualQuery: rows answer queries drawn by multiplicative weights (Gaboardi, Gallego Arias, Hsu, Roth, Wu 2014)."""

from __future__ import annotations

import numpy as np

from lookalike.errors import BudgetError
from lookalike.models.model import Model
from lookalike.models.rows import RowsModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.cell_queries import PerturbedLeader, QueryPlayer, query_sets, weigh_drawn_queries
from lookalike.selection.steps import more_for_budget
from lookalike.selection.workload import WorkloadSpec
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.fem import COLUMN_RATE, QUERIES, measured_columns, query_split
from lookalike.synthesizers.split import Split


@method(
    "dualquery",
    title="DualQuery",
    paper="Gaboardi, Gallego Arias, Hsu, Roth, Wu: Dual Query: Practical Private Query Release for High "
    "Dimensional Data (ICML 2014)",
    good_for="a historical baseline of query release; fem is the more accurate of the two",
    corrected="counts of added or removed rows with a noisy number of rows, where the paper has fractions of a "
    "public one; every draw is a separate exponential mechanism, charged by zCDP; coordinate ascent instead of "
    "an integer programme; many rows per round around noisy one-way marginals",
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=170,
)
class DualQuery(Method):
    """In each round, draw queries of large error in the rows so far, and add rows that satisfy as many as possible.

    Multiplicative weights over signed queries give round t the distribution Q_t(q) ~ exp(eta * sum over earlier rounds
    s of (q(D) - q(rows_s))), in counts. The sum is (t - 1) times the difference between the data and the average of the
    rounds, a score of sensitivity 1. So a draw from Q_t is an exponential mechanism on that difference with
    epsilon_t = 2 eta (t - 1), and costs epsilon_t^2/8. Here eta follows from the budget: epsilon_t grows in proportion
    to t - 1, and all draws together cost the whole budget. The first round draws no queries, so its rows are free.

    `dualquery-paper` has a single row per round and measures no columns.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.selection.workload`.
        rounds: how often rows are added.
        per_round: queries of different cells drawn in each round after the first, s in the paper; None means 3 for
            every column, at most 30, and more at large budgets (`lookalike.selection.steps.more_for_budget`).
        rows_per_round: rows added in each round, which all count the same.
        oneway_share: part of the budget for one-way marginals.
        marginals_per_draw: number of random marginals whose cells compete in one draw, each with a random sign.
        weight: of a drawn query, against noise of scale 1 in the logarithm of the columns' distributions.
        max_cells: marginals of more cells are replaced by parts of them.
        sweeps: passes of the search for the best row, over its columns.
    """

    workload: WorkloadSpec = choice("all-2way")
    rounds: int = tuned(50)
    per_round: int | None = tuned(None)
    rows_per_round: int = tuned(500)
    oneway_share: float = tuned(0.4)
    marginals_per_draw: int = tuned(32)
    weight: float = tuned(3.0)
    max_cells: int = tuned(20_000)
    sweeps: int = tuned(3)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_two_rounds(self.rounds)
        check_positive(
            per_round=self.per_round, rows_per_round=self.rows_per_round, marginals_per_draw=self.marginals_per_draw,
            weight=self.weight, max_cells=self.max_cells, sweeps=self.sweeps,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        draws = self.per_round or more_for_budget(draws_for(domain, None), rho)
        return query_split(domain, rho, self.oneway_share, (self.rounds - 1) * draws)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain = door.domain
        progress("measuring every column", 0.0)
        columns, total = measured_columns(door, split)
        leader = PerturbedLeader(domain, columns)
        if len(domain) == 1:
            return RowsModel(domain, total, leader.rows(self.rounds * self.rows_per_round, rng))
        made = [leader.rows(self.rows_per_round, rng)]
        sets, draws = query_sets(self.workload, domain, self.max_cells), split.releases(QUERIES) // (self.rounds - 1)
        player = QueryPlayer(domain, sets, self.marginals_per_draw, rng)
        for number in range(1, self.rounds):
            progress(f"round {number + 1} of {self.rounds}", number / self.rounds)
            so_far = np.concatenate(made)
            player.compare_with(so_far, total)
            leader.weights.clear()
            rho = round_budget(door.remaining, number, self.rounds) / draws
            weigh_drawn_queries(door, player, leader, draws, rho, weight=self.weight, step=QUERIES, distinct=True)
            leader.keep_columns(columns, so_far, COLUMN_RATE)
            made.append(leader.rows(self.rows_per_round, rng, sweeps=self.sweeps))
        return RowsModel(domain, total, np.concatenate(made))


def check_two_rounds(rounds: int) -> None:
    """Refuse a single round, which would draw no query."""
    check_positive(rounds=rounds)
    if rounds == 1:
        raise BudgetError("rounds is 1; it must be at least 2, as the first round of DualQuery draws no queries.")


def draws_for(domain: Domain, per_round: int | None) -> int:
    """Return the number of queries per round: the given one, or 3 for every column and at most 30."""
    return per_round or min(3 * len(domain), 30)


def round_budget(remaining: float, number: int, rounds: int) -> float:
    """Return what a round may spend of the rho that it and all later rounds share: epsilon_t^2 grows as t^2."""
    return remaining * number**2 / sum(later**2 for later in range(number, rounds))
