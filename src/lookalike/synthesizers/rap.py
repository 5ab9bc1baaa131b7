"""RAP: relaxed adaptive projection (Aydore, Brown, Kearns, Kenthapadi, Melis, Roth and Siva 2021), corrected."""

from __future__ import annotations

import math

import numpy as np

from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.graphical import fit
from lookalike.models.model import Model
from lookalike.models.relaxed_rows import RelaxedProjection, RelaxedRows, affordable_rows
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.cell_queries import random_sets
from lookalike.selection.steps import EXPECTED_ABS, choose_worst, measure_columns, more_for_budget, singles
from lookalike.selection.workload import WorkloadSpec, as_workload
from lookalike.synthesizers import papers
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.split import CHOICES, CHOSEN, ONEWAYS, Split, Step


@method(
    "rap",
    title="RAP",
    paper=papers.RAP,
    good_for="a workload whose marginals overlap too much for a graphical model; any number of rows from a mixture",
    corrected="counts of added or removed rows with a noisy number of rows, where the paper has fractions of a "
    "public one; the exponential mechanism, where the authors' code takes the largest of scores with Laplace noise "
    "of half the scale that its charge needs; fresh noise in every round, where that code draws the noise of all "
    "rounds from one key; whole marginals instead of single cells, at the same price",
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=150,
)
class RAP(Method):
    """In each round, choose the marginals of largest error, measure them, and move relaxed rows to all noisy counts.

    A relaxed row has a distribution in every column; a thousand of them are a mixture of products, whose marginals are
    matrix products, so that gradients exist however much the measured sets overlap.

    The paper's variant (`rap-paper`) measures single cells of marginals. A whole marginal costs the same, since a row
    is in only one of its cells, so this one measures whole marginals. It starts from noisy one-way marginals.

    Attributes:
        workload: the marginals to choose from, which compete with all their parts; see `lookalike.selection.workload`.
        rounds: how often the rows are fitted.
        per_round: marginals per round, without two columns in common where possible; None means one for every four
            columns, and more at large budgets (`lookalike.selection.steps.more_for_budget`).
        relaxed_rows: their number; fewer for columns of more than 20,000 values in all.
        oneway_share: part of the budget for one-way marginals.
        choice_share: part of every round's budget for choosing.
        noise_limit: sets are candidates while the expected noise on all their cells is below this part of the rows.
        max_cells: maximum number of cells of a candidate.
        candidates: maximum number of candidates of a round; of more, a random part is used.
        steps: gradient steps of every round; the last one takes three times as many.
        rate: size of the first steps, in logits.
        pull: towards independent columns; see `RelaxedProjection.approach`.
    """

    workload: WorkloadSpec = choice("all-3way")
    rounds: int = tuned(8)
    per_round: int | None = tuned(None)
    relaxed_rows: int = paper(1000)
    oneway_share: float = tuned(0.1)
    choice_share: float = tuned(0.1)
    noise_limit: float = tuned(0.5)
    max_cells: int = tuned(20_000)
    candidates: int = tuned(600)
    steps: int = tuned(100)
    rate: float = tuned(0.1)
    pull: float = tuned(0.25)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_shares(self.choice_share)
        check_positive(
            rounds=self.rounds, per_round=self.per_round, relaxed_rows=self.relaxed_rows, noise_limit=self.noise_limit,
            max_cells=self.max_cells, candidates=self.candidates, steps=self.steps, rate=self.rate, pull=self.pull,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        as_workload(self.workload, domain).closure(domain)
        if len(domain) == 1:
            return Split.only_column(rho)
        columns = Step.columns(domain, rho * self.oneway_share)
        per_round = self.per_round or more_for_budget(math.ceil(len(domain) / 4), rho)
        return Split.in_rounds(rho, columns, self.rounds * per_round, self.choice_share)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain = door.domain
        progress("measuring every column", 0.0)
        measured = measure_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        start = fit(domain, measured)
        columns = [counts / start.total for counts in start.marginals(singles(domain))]
        if len(domain) == 1:
            return RelaxedRows(domain, start.total, columns[0][:, None])
        model = RelaxedProjection(domain, columns, affordable_rows(self.relaxed_rows, domain), 0.2, rng)
        sets, wanted = as_workload(self.workload, domain).closure(domain), split.releases(CHOSEN) // self.rounds
        for number in range(self.rounds):
            progress(f"round {number + 1} of {self.rounds}", (number + 0.5) / (self.rounds + 2))
            rho = door.remaining / (self.rounds - number)
            measured += self._round(door, sets, model, measured, wanted, rho, rng)
            steps = self.steps * (3 if number == self.rounds - 1 else 1)
            model.approach(measured, estimated_total(measured), steps=steps, rate=self.rate, pull=self.pull)
        return RelaxedRows(domain, estimated_total(measured), model.distributions())

    def _round(
        self,
        door: GuardedTable,
        sets: list[ColumnSet],
        model: RelaxedProjection,
        measured: list[NoisyMarginal],
        wanted: int,
        rho: float,
        rng: np.random.Generator,
    ) -> list[NoisyMarginal]:
        """Choose `wanted` marginals of one round, which may spend `rho`, and measure them."""
        total = estimated_total(measured)
        stddev = door.stddev_for(rho * (1 - self.choice_share), wanted)
        candidates = self._candidates(door.domain, sets, wanted, EXPECTED_ABS * stddev / total, rng)
        chosen = self._choose(door, candidates, wanted, model, total, stddev, rho * self.choice_share)
        return door.measure(chosen, stddev, step=CHOSEN)

    def _candidates(
        self, domain: Domain, sets: list[ColumnSet], wanted: int, noise: float, rng: np.random.Generator
    ) -> list[ColumnSet]:
        """Return the sets that compete in a round, by public facts and chance; the smallest where all are too large."""
        max_cells = min(self.max_cells, self.noise_limit / noise)
        fitting = [clique for clique in sets if domain.cells(clique) <= max_cells]
        if len(fitting) < wanted:
            fitting = sorted(sets, key=domain.cells)[:wanted]
        return random_sets(fitting, self.candidates, rng) if len(fitting) > self.candidates else fitting

    def _choose(
        self,
        door: GuardedTable,
        candidates: list[ColumnSet],
        wanted: int,
        model: RelaxedProjection,
        total: float,
        stddev: float,
        rho: float,
    ) -> list[ColumnSet]:
        """Choose sets by exponential mechanisms, one after another, without two columns in common where possible."""
        references = dict(zip(candidates, (total * share for share in model.shares(candidates)), strict=True))
        chosen: list[ColumnSet] = []
        for _ in range(wanted):
            penalties = EXPECTED_ABS * stddev * np.array([references[clique].size for clique in candidates])
            tables = [references[clique] for clique in candidates]
            picked = choose_worst(door, candidates, tables, rho=rho / wanted, penalties=penalties, step=CHOICES)
            chosen.append(candidates[picked])
            taken = set(candidates[picked])
            apart = [clique for clique in candidates if len(taken & set(clique)) < min(2, len(taken))]
            candidates = apart or candidates
        return chosen
