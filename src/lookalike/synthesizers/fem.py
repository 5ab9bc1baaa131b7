"""FEM: the perturbed leader against the exponential mechanism (Vietri, Tian, Bun, Steinke and Wu 2020), corrected."""

from __future__ import annotations

import math

import numpy as np

from lookalike.estimate import fit
from lookalike.generate.best_rows import PerturbedLeader
from lookalike.generate.model import Model
from lookalike.generate.row_set import RowSet
from lookalike.privacy.door import GuardedTable
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.cell_queries import QueryPlayer, query_sets
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
from lookalike.synthesizers.split import Split, Step
from lookalike.tables.measurement import estimated_total

ROWS, ONEWAYS, QUERIES = "row count", "one-way marginals", "queries"
ROWS_SHARE = 0.02
PAPER_MARGINALS = 64
COLUMN_RATE = 0.3
"""How far one round corrects columns that have left their laws."""

_PAPER_ROWS = 50
_WINDOW = 5


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
    """Rounds of: draw queries that the latest rows get wrong, give their cells more or less weight, make new rows.

    A query is a cell of a marginal and a sign; it is drawn by an exponential mechanism and nothing is measured. New
    rows follow the perturbed leader: each maximises the weights of its cells plus noise of its own.

    The paper's leader starts from nothing, with exponential noise. The default's starts from noisy one-way marginals,
    with Gumbel noise around their logarithms, so that rows without any query are independent draws from them; columns
    are held to these marginals from round to round, which is free.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.select.workload`.
        rounds: how often rows are made; 0 means 15 for every column, from 50 to 200.
        per_round: queries drawn in each round; 0 means 3, and 1 if faithful.
        rows_per_round: rows made in each round; those of the second half of all rounds are the result (authors' code).
        oneway_share: part of the budget for one-way marginals.
        looked: marginals that each draw looks at, at random and from a random side.
        noise: scale of the rows' noise, against which a drawn query weighs 1.
        max_cells: larger marginals give way to parts of them.
        sweeps: passes of the search for the best row, over its columns.
        faithful: the paper's algorithm: one query per round out of 64 random marginals of the workload from both sides,
            no one-way marginals, exponential noise, 50 rows per round that are compared alone.
    """

    workload: WorkloadSpec = choice("all-2way")
    rounds: int | None = tuned(None)
    per_round: int = tuned(0)
    rows_per_round: int = tuned(1000)
    oneway_share: float = tuned(0.4)
    looked: int = tuned(32)
    noise: float = tuned(5.0)
    max_cells: int = tuned(20_000)
    sweeps: int = tuned(3)
    faithful: bool = choice(False)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_rounds(self.rounds)
        if self.per_round:
            check_positive(per_round=self.per_round)
        check_positive(
            rows_per_round=self.rows_per_round, looked=self.looked, noise=self.noise, max_cells=self.max_cells,
            sweeps=self.sweeps,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        draws = self._rounds(domain) * self._per_round()
        return query_split(domain, rho, draws, self.oneway_share, faithful=self.faithful)

    def _rounds(self, domain: Domain) -> int:
        return self.rounds or min(max(15 * len(domain), 50), 200)

    def _per_round(self) -> int:
        return self.per_round or (1 if self.faithful else 3)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rounds, draws = door.domain, self._rounds(door.domain), self._per_round()
        progress("measuring every column", 0.0)
        laws, total = first_look(door, self.oneway_share, faithful=self.faithful)
        leader = PerturbedLeader(domain, laws)
        count = _PAPER_ROWS if self.faithful else self.rows_per_round
        if asks_nothing(domain, faithful=self.faithful):
            return RowSet(domain, total, leader.rows(rounds * count, rng))
        player = query_player(domain, self.workload, self.max_cells, self.looked, rng, faithful=self.faithful)
        made = [self._rows(leader, count, rng)]
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            player.face(np.concatenate(made[-1 if self.faithful else -_WINDOW :]), total)
            share = door.remaining / ((rounds - number) * draws)
            for _ in range(draws):
                query = player.draw(door, math.sqrt(8 * share), step=QUERIES)
                leader.prefer(query.clique, query.cell, query.sign / self.noise)
            if not self.faithful:
                leader.keep_columns(laws, made[-1], COLUMN_RATE)
            made.append(self._rows(leader, count, rng))
        return RowSet(domain, total, np.concatenate(made[(rounds + 1) // 2 :]))

    def _rows(self, leader: PerturbedLeader, count: int, rng: np.random.Generator) -> np.ndarray:
        return leader.rows(count, rng, noise="exponential" if self.faithful else "gumbel", sweeps=self.sweeps)


def asks_nothing(domain: Domain, *, faithful: bool) -> bool:
    """Whether one-way marginals are all there is to know."""
    return len(domain) == 1 and not faithful


def query_split(domain: Domain, rho: float, draws: int, oneway_share: float, *, faithful: bool) -> Split:
    """The split of FEM and DualQuery: columns (the papers: the number of rows), then draws of queries."""
    if asks_nothing(domain, faithful=faithful):
        return Split.only_column(rho)
    first = Step.number_of_rows(rho * ROWS_SHARE, ROWS) if faithful else Step.columns(domain, rho * oneway_share)
    return Split.of(rho, first, rest=Step.choices(QUERIES, draws, "cells with more or fewer rows than there should be"))


def first_look(door: GuardedTable, oneway_share: float, *, faithful: bool) -> tuple[list[np.ndarray], float]:
    """A law for every column and the number of rows: from noisy one-way marginals, or even laws and a noisy count."""
    domain, rho = door.domain, door.remaining
    if faithful:
        count = door.measure([()], door.stddev_for(rho * ROWS_SHARE), step=ROWS)
        return [np.full(size, 1 / size) for size in domain.sizes], estimated_total(count)
    singles: list[Clique] = [(name,) for name in domain.names]
    shares = allocate(domain.sizes, rho if asks_nothing(domain, faithful=False) else rho * oneway_share)
    measured = door.measure(singles, [door.stddev_for(share) for share in shares], step=ONEWAYS)
    start = fit(domain, measured)
    return [counts / start.total for counts in start.marginals(singles)], start.total


def query_player(
    domain: Domain, workload: WorkloadSpec, max_cells: int, looked: int, rng: np.random.Generator, *, faithful: bool
) -> QueryPlayer:
    """Draws from a part of the workload every time, or, as in the papers, from 64 random marginals of it."""
    sets = query_sets(workload, domain, max_cells)
    if not faithful:
        return QueryPlayer(domain, sets, looked, rng)
    kept = rng.choice(len(sets), min(PAPER_MARGINALS, len(sets)), replace=False)
    return QueryPlayer(domain, [sets[i] for i in np.sort(kept)], len(kept), rng, both_sides=True)
