"""RAP: relaxed adaptive projection (Aydore, Brown, Kearns, Kenthapadi, Melis, Roth and Siva 2021), corrected."""

from __future__ import annotations

import math

import numpy as np

from lookalike.estimate import fit
from lookalike.estimate.relaxed_projection import RelaxedProjection
from lookalike.generate.model import Model
from lookalike.generate.relaxed_rows import RelaxedRows
from lookalike.privacy.door import GuardedTable
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.cell_queries import draw_query, query_sets
from lookalike.select.residual import EXPECTED_ABS, choose_worst
from lookalike.select.workload import WorkloadSpec, as_workload
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
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ROWS, ONEWAYS, CHOICES, CHOSEN = "row count", "one-way marginals", "choices", "chosen marginals"
CELLS = "chosen cells"

_ROWS_SHARE = 0.02
_MOST_LOGITS = 20_000_000
_PAPER_MARGINALS, _PAPER_ROUNDS, _PAPER_QUERIES = 64, 10, 10


@method(
    "rap",
    title="RAP",
    paper="Aydore, Brown, Kearns, Kenthapadi, Melis, Roth, Siva: Differentially Private Query Release Through "
    "Adaptive Projection (ICML 2021)",
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
    """Rounds of: choose what relaxed rows get most wrong, measure it, move the rows towards all noisy counts.

    A relaxed row has a distribution in every column; a thousand of them are a mixture of products, whose marginals are
    matrix products and can be followed by gradients however much the measured sets overlap.

    The paper measures single queries, cells of marginals. A whole marginal costs the same, since a row is in one of its
    cells only, so the default chooses and measures whole marginals, and starts from noisy one-way marginals.

    Attributes:
        workload: the marginals to choose from, which compete with all their parts; see `lookalike.select.workload`.
        rounds: how often the rows are fitted; 0 means 8, and 10 if faithful.
        per_round: marginals (or cells) per round, without two columns in common where possible; 0 means one for every
            four columns, and 10 cells if faithful.
        relaxed_rows: how many, fewer for columns of more than 20,000 values in all; the default is the paper's.
        oneway_share: part of the budget for one-way marginals.
        choice_share: part of every round's budget for choosing; one half if faithful.
        noise_limit: sets are looked at while the expected noise on all their cells is below this part of the rows.
        max_cells: sets of more cells are not looked at.
        candidates: most sets looked at in a round; a random part of them where there are more.
        steps: gradient steps of every round; the last one takes three times as many.
        rate: size of the first steps, in logits.
        pull: towards independent columns; see `RelaxedProjection.approach`.
        faithful: single cells of 64 random marginals of the workload, half of the budget for choices, a random start,
            no pull: the paper's algorithm, with a softmax in place of its sparsemax and a noisy number of rows.
    """

    workload: WorkloadSpec = choice("all-3way")
    rounds: int | None = tuned(None)
    per_round: int = tuned(0)
    relaxed_rows: int = tuned(1000)
    oneway_share: float = tuned(0.1)
    choice_share: float = tuned(0.1)
    noise_limit: float = tuned(0.5)
    max_cells: int = tuned(20_000)
    candidates: int = tuned(600)
    steps: int = tuned(100)
    rate: float = tuned(0.1)
    pull: float = tuned(0.25)
    faithful: bool = choice(False)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_shares(self.choice_share)
        check_rounds(self.rounds)
        if self.per_round:
            check_positive(per_round=self.per_round)
        check_positive(
            relaxed_rows=self.relaxed_rows, noise_limit=self.noise_limit, max_cells=self.max_cells,
            candidates=self.candidates, steps=self.steps, rate=self.rate, pull=self.pull,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        as_workload(self.workload, domain).closure(domain)
        chosen = self._rounds() * self._per_round(domain)
        if self.faithful:
            half = rho * (1 - _ROWS_SHARE) / 2
            return Split.of(
                rho,
                Step.number_of_rows(rho * _ROWS_SHARE, ROWS),
                Step.choices(CHOICES, chosen, "which cells the rows get most wrong", half),
                rest=Step(CELLS, "gaussian", chosen, 0.0, "counts of the chosen cells"),
            )
        if len(domain) == 1:
            return Split.only_column(rho)
        first = Step.columns(domain, rho * self.oneway_share)
        return Split.of(
            rho,
            first,
            Step.choices(
                CHOICES, chosen, "which marginals the rows get most wrong", (rho - first.rho) * self.choice_share
            ),
            rest=Step.sets(CHOSEN, chosen, "counts of the chosen marginals"),
        )

    def _rounds(self) -> int:
        return self.rounds or (_PAPER_ROUNDS if self.faithful else 8)

    def _per_round(self, domain: Domain) -> int:
        return self.per_round or (_PAPER_QUERIES if self.faithful else math.ceil(len(domain) / 4))

    def _relaxed_rows(self, domain: Domain) -> int:
        return min(self.relaxed_rows, max(_MOST_LOGITS // sum(domain.sizes), 1))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        if self.faithful:
            return self._fit_cells(door, rng, progress)
        domain, rho, rounds = door.domain, door.remaining, self._rounds()
        progress("measuring every column", 0.0)
        singles: list[Clique] = [(name,) for name in domain.names]
        shares = allocate(domain.sizes, rho * self.oneway_share if len(domain) > 1 else rho)
        measured = door.measure(singles, [door.stddev_for(share) for share in shares], step=ONEWAYS)
        start = fit(domain, measured)
        laws = [counts / start.total for counts in start.marginals(singles)]
        if len(domain) == 1:
            return RelaxedRows(domain, start.total, laws[0][:, None])
        model = RelaxedProjection(domain, laws, self._relaxed_rows(domain), 0.2, rng)
        sets = as_workload(self.workload, domain).closure(domain)
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", (number + 0.5) / (rounds + 2))
            share, total = door.remaining / (rounds - number), estimated_total(measured)
            stddev = door.stddev_for(share * (1 - self.choice_share), self._per_round(domain))
            usable = self._usable(domain, sets, EXPECTED_ABS * stddev / total, rng)
            chosen = self._choose(door, usable, model, total, stddev, share * self.choice_share)
            measured += door.measure(chosen, stddev, step=CHOSEN)
            self._approach(model, measured, last=number == rounds - 1)
        return RelaxedRows(domain, estimated_total(measured), model.laws())

    def _usable(self, domain: Domain, sets: list[Clique], noise: float, rng: np.random.Generator) -> list[Clique]:
        """Sets that a round looks at, from public facts and chance; the smallest ones where noise drowns all others."""
        most = min(self.max_cells, self.noise_limit / noise)
        fitting = [clique for clique in sets if domain.cells(clique) <= most]
        if len(fitting) < self._per_round(domain):
            fitting = sorted(sets, key=domain.cells)[: self._per_round(domain)]
        if len(fitting) > self.candidates:
            fitting = [fitting[i] for i in np.sort(rng.choice(len(fitting), self.candidates, replace=False))]
        return fitting

    def _choose(
        self,
        door: GuardedTable,
        usable: list[Clique],
        model: RelaxedProjection,
        total: float,
        stddev: float,
        rho: float,
    ) -> list[Clique]:
        """Sets by exponential mechanisms, one after another, each without two columns in common with those before."""
        wanted = self._per_round(door.domain)
        references = dict(zip(usable, (total * share for share in model.shares(usable)), strict=True))
        chosen: list[Clique] = []
        for _ in range(wanted):
            penalties = EXPECTED_ABS * stddev * np.array([references[clique].size for clique in usable])
            tables = [references[clique] for clique in usable]
            picked = choose_worst(door, usable, tables, rho=rho / wanted, penalties=penalties, step=CHOICES)
            chosen.append(usable[picked])
            taken = set(usable[picked])
            usable = [clique for clique in usable if len(taken & set(clique)) < min(2, len(taken))] or usable
        return chosen

    def _approach(self, model: RelaxedProjection, measured: list[NoisyMarginal], *, last: bool) -> None:
        steps, pull = self.steps * (3 if last else 1), 0.0 if self.faithful else self.pull
        model.approach(measured, estimated_total(measured), steps=steps, rate=self.rate, pull=pull)

    def _fit_cells(self, door: GuardedTable, rng: np.random.Generator, progress: Progress) -> Model:
        """The paper's algorithm: single cells, chosen and measured at the same price."""
        domain, rho, rounds, wanted = door.domain, door.remaining, self._rounds(), self._per_round(door.domain)
        measured = door.measure([()], door.stddev_for(rho * _ROWS_SHARE), step=ROWS)
        even = [np.full(size, 1 / size) for size in domain.sizes]
        model = RelaxedProjection(domain, even, self._relaxed_rows(domain), 1.0, rng)
        sets = query_sets(self.workload, domain, self.max_cells)
        looked = rng.choice(len(sets), min(_PAPER_MARGINALS, len(sets)), replace=False)
        sets = [sets[i] for i in np.sort(looked)]
        asked = {clique: np.zeros(domain.shape(clique), dtype=bool) for clique in sets}
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            share, total = door.remaining / (rounds - number) / (2 * wanted), estimated_total(measured)
            references = [total * table for table in model.shares(sets)]
            stddev = door.stddev_for(share)
            for _ in range(wanted):
                query = draw_query(
                    door, [*sets, *sets], [*references, *references], [1] * len(sets) + [-1] * len(sets),
                    epsilon=math.sqrt(8 * share), step=CHOICES, asked=asked,
                )  # fmt: skip
                asked[query.clique][query.cell] = True
                others = np.ones(domain.shape(query.clique), dtype=np.int64)
                others[query.cell] = 0
                measured += door.measure([query.clique], stddev, step=CELLS, groups=[others])
            self._approach(model, measured, last=number == rounds - 1)
        return RelaxedRows(domain, estimated_total(measured), model.laws())
