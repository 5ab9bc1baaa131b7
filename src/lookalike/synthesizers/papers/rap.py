"""RAP as in its paper (Aydore and others 2021), corrected only where privacy demands it."""

from __future__ import annotations

import math

import numpy as np

from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.model import Model
from lookalike.models.relaxed_rows import RelaxedProjection, RelaxedRows, affordable_rows
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.cell_queries import CellQuery, draw_query, query_sets, random_sets
from lookalike.selection.workload import WorkloadSpec
from lookalike.synthesizers import papers
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.split import CHOICES, Split, Step, count_rows

CELLS = "chosen cells"


@method(
    "rap-paper",
    title="RAP, the paper's variant",
    paper=papers.RAP,
    good_for="repeating the paper's experiments; rap is more accurate",
    corrected="counts of added or removed rows with a noisy number of rows, where the paper has fractions of a "
    "public one; the exponential mechanism, where the authors' code takes the largest of scores with Laplace noise "
    "of half the scale that its charge needs; fresh noise in every round, where that code draws the noise of all "
    "rounds from one key",
    page="docs/reproductions/query_methods.md",
    accounting="zcdp",
    rank=150,
    is_paper_variant=True,
)
class RAPPaper(Method):
    """In each round, choose the cells of largest error, measure them, and move relaxed rows to all noisy counts.

    Queries are the cells of a few random marginals, with both signs. Choosing a cell costs as much as measuring it.
    The rows start at random. A softmax replaces the paper's sparsemax.

    Attributes:
        workload: the marginals whose cells are queries; see `lookalike.selection.workload`.
        marginals: how many of them are used, drawn at random.
        rounds: how often the rows are fitted.
        per_round: cells that are measured in each round.
        relaxed_rows: their number; fewer for columns of more than 20,000 values in all.
        count_share: part of the budget for the number of rows.
        max_cells: marginals of more cells are replaced by parts of them.
        steps: gradient steps of every round; the last one takes three times as many.
        rate: size of the first steps, in logits.
    """

    workload: WorkloadSpec = choice("all-3way")
    marginals: int = paper(64)
    rounds: int = paper(10)
    per_round: int = paper(10)
    relaxed_rows: int = paper(1000)
    count_share: float = tuned(0.02)
    max_cells: int = tuned(20_000)
    steps: int = tuned(100)
    rate: float = tuned(0.1)

    def __post_init__(self) -> None:
        check_shares(self.count_share)
        check_positive(
            marginals=self.marginals, rounds=self.rounds, per_round=self.per_round, relaxed_rows=self.relaxed_rows,
            max_cells=self.max_cells, steps=self.steps, rate=self.rate,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        query_sets(self.workload, domain, self.max_cells)
        chosen, half = self.rounds * self.per_round, rho * (1 - self.count_share) / 2
        return Split.of(
            rho,
            Step.number_of_rows(rho * self.count_share),
            Step.choices(CHOICES, chosen, "which cells the rows get most wrong", half),
            rest=Step(CELLS, "gaussian", chosen, 0.0, "counts of the chosen cells"),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain = door.domain
        measured = count_rows(door, split)
        uniform = [np.full(size, 1 / size) for size in domain.sizes]
        model = RelaxedProjection(domain, uniform, affordable_rows(self.relaxed_rows, domain), 1.0, rng)
        sets = random_sets(query_sets(self.workload, domain, self.max_cells), self.marginals, rng)
        asked = {clique: np.zeros(domain.shape(clique), dtype=bool) for clique in sets}
        for number in range(self.rounds):
            progress(f"round {number + 1} of {self.rounds}", number / self.rounds)
            rho, total = door.remaining / (self.rounds - number) / (2 * self.per_round), estimated_total(measured)
            references, stddev = [total * table for table in model.shares(sets)], door.stddev_for(rho)
            for _ in range(self.per_round):
                query = _choose(door, sets, references, asked, rho)
                measured += _measure_cell(door, query, stddev)
            steps = self.steps * (3 if number == self.rounds - 1 else 1)
            model.approach(measured, estimated_total(measured), steps=steps, rate=self.rate, pull=0.0)
        return RelaxedRows(domain, estimated_total(measured), model.distributions())


def _choose(
    door: GuardedTable,
    sets: list[ColumnSet],
    references: list[np.ndarray],
    asked: dict[ColumnSet, np.ndarray],
    rho: float,
) -> CellQuery:
    """Draw a cell with both signs of all sets in competition, and mark it as asked so that it is not drawn again."""
    signs = [1] * len(sets) + [-1] * len(sets)
    query = draw_query(
        door, [*sets, *sets], [*references, *references], signs, epsilon=math.sqrt(8 * rho), step=CHOICES, asked=asked
    )
    asked[query.clique][query.cell] = True
    return query


def _measure_cell(door: GuardedTable, query: CellQuery, stddev: float) -> list[NoisyMarginal]:
    """Measure a cell as the marginal in two groups: the cell, and all others."""
    groups = np.ones(door.domain.shape(query.clique), dtype=np.int64)
    groups[query.cell] = 0
    return door.measure([query.clique], stddev, step=CELLS, groups=[groups])
