"""DualQuery: rows answer queries drawn by multiplicative weights (Gaboardi, Gallego Arias, Hsu, Roth, Wu 2014)."""

from __future__ import annotations

import math

import numpy as np

from lookalike.errors import BudgetError
from lookalike.generate.best_rows import PerturbedLeader
from lookalike.generate.model import Model
from lookalike.generate.row_set import RowSet
from lookalike.privacy.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.select.cell_queries import query_sets
from lookalike.select.workload import WorkloadSpec
from lookalike.synthesizers.base import (
    Method,
    Progress,
    check_positive,
    check_rounds,
    check_shares,
    choice,
    method,
    tuned,
)
from lookalike.synthesizers.fem import COLUMN_RATE, QUERIES, asks_nothing, first_look, query_player, query_split
from lookalike.synthesizers.split import Split


@method(
    "dualquery",
    title="DualQuery",
    paper="Gaboardi, Gallego Arias, Hsu, Roth, Wu: Dual Query: Practical Private Query Release for High "
    "Dimensional Data (ICML 2014)",
    good_for="a historical baseline of query release; fem is the more accurate of the two",
    corrected="counts of added or removed rows with a noisy number of rows, where the paper has fractions of a "
    "public one; every draw is an exponential mechanism of its own, charged by zCDP; coordinate ascent instead of "
    "an integer programme; many rows per round around noisy one-way marginals",
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=170,
)
class DualQuery(Method):
    """Rounds of: draw queries that the rows so far get wrong, then add rows that satisfy as many of them as they can.

    Multiplicative weights over signed queries give round t the law Q_t(q) ~ exp(eta * sum over earlier rounds s of
    (q(D) - q(rows_s))), in counts. The sum is (t - 1) times the difference between the data and the average of the
    rounds, a score of sensitivity 1. So a draw from Q_t is an exponential mechanism on that difference with
    epsilon_t = 2 eta (t - 1), and costs epsilon_t^2/8. Here eta follows from the budget: epsilon_t grows in proportion
    to t - 1, and all draws together cost what there is. The first round's law is even, and its rows are free.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.select.workload`.
        rounds: how often rows are added; 0 means 50.
        per_round: queries drawn in each round after the first, s in the paper; 0 means 3 for every column, 30 at most.
        rows_per_round: rows added in each round, which all count the same.
        oneway_share: part of the budget for one-way marginals.
        looked: marginals that each draw looks at, at random and from a random side.
        weight: of a drawn query, against noise of scale 1 in the logarithm of the columns' laws.
        max_cells: larger marginals give way to parts of them.
        sweeps: passes of the search for the best row, over its columns.
        faithful: the paper's algorithm: queries out of 64 random marginals of the workload from both sides, no one-way
            marginals, and a single row per round that satisfies as many of the drawn queries as it can.
    """

    workload: WorkloadSpec = choice("all-2way")
    rounds: int | None = tuned(None)
    per_round: int = tuned(0)
    rows_per_round: int = tuned(500)
    oneway_share: float = tuned(0.4)
    looked: int = tuned(32)
    weight: float = tuned(3.0)
    max_cells: int = tuned(20_000)
    sweeps: int = tuned(3)
    faithful: bool = choice(False)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_rounds(self.rounds)
        if self.rounds == 1:
            raise BudgetError("rounds is 1; the first round of DualQuery asks nothing, so take 2 or more.")
        if self.per_round:
            check_positive(per_round=self.per_round)
        check_positive(
            rows_per_round=self.rows_per_round, looked=self.looked, weight=self.weight,
            max_cells=self.max_cells, sweeps=self.sweeps,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        draws = (self._rounds() - 1) * self._per_round(domain)
        return query_split(domain, rho, draws, self.oneway_share, faithful=self.faithful)

    def _rounds(self) -> int:
        return self.rounds or 50

    def _per_round(self, domain: Domain) -> int:
        return self.per_round or min(3 * len(domain), 30)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rounds, draws = door.domain, self._rounds(), self._per_round(door.domain)
        progress("measuring every column", 0.0)
        laws, total = first_look(door, self.oneway_share, faithful=self.faithful)
        count, weight = (1, 1e3) if self.faithful else (self.rows_per_round, self.weight)
        leader = PerturbedLeader(domain, laws)
        made = [leader.rows(rounds * count if asks_nothing(domain, faithful=self.faithful) else count, rng)]
        if asks_nothing(domain, faithful=self.faithful):
            return RowSet(domain, total, made[0])
        player = query_player(domain, self.workload, self.max_cells, self.looked, rng, faithful=self.faithful)
        for number in range(1, rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            so_far = np.concatenate(made)
            player.face(so_far, total)
            # epsilon_t^2 grows as t^2: this round's part of what is left for it and all later ones.
            share = door.remaining * number**2 / sum(later**2 for later in range(number, rounds)) / draws
            leader.weights.clear()
            for _ in range(draws):
                query = player.draw(door, math.sqrt(8 * share), step=QUERIES)
                leader.prefer(query.clique, query.cell, query.sign * weight)
            if not self.faithful:
                leader.keep_columns(laws, so_far, COLUMN_RATE)
            made.append(leader.rows(count, rng, sweeps=self.sweeps))
        return RowSet(domain, total, np.concatenate(made))
