"""AIM: choose, measure, fit again, for a workload (McKenna, Mullins, Sheldon and Miklau 2022)."""

from __future__ import annotations

import numpy as np

from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.model_size import SizeGate
from lookalike.selection.steps import EXPECTED_ABS, choose_worst, singles
from lookalike.selection.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.split import CHOICES, CHOSEN, ONEWAYS, UNKNOWN, Split, Step

PUBLISHED_ROUNDS_PER_COLUMN = 16
MAX_SETS = 3000
"""Maximum candidates of a round; beyond it, larger sets are left out until two of their parts are in the model."""


@method(
    "aim",
    title="AIM",
    paper="McKenna, Mullins, Sheldon, Miklau: AIM, an Adaptive and Iterative Mechanism (VLDB 2022)",
    good_for="a workload of your own: some marginals matter more than others, or one column is to be predicted",
    corrected="every charge is added up as it is made; the size of a model is the predicted time of an evaluation "
    "instead of megabytes of a junction tree",
    page="docs/choosing_a_method.md",
    accounting="zcdp",
    sets_per_column=2.8,
    rank=40,
    draws=True,
)
class AIM(Method):
    """Measure the columns; then in each round choose the marginal of largest error, measure it, and fit again.

    The first round spends 1/rounds of the budget. When a measurement moves the model by less than its noise, the later
    rounds spend four times as much each, which halves their noise. The maximum size of the model grows with the budget
    spent. The last round spends the rest.

    Attributes:
        workload: the marginals that should be accurate, with weights; see `lookalike.selection.workload`.
        rounds: the first round spends 1/rounds of the budget; None means the paper's 16 per column. The actual number
            is smaller, because later rounds spend more. On Adult, 100 gave a lower error than the paper's 240, faster.
        oneway_share: part of the budget for the one-way marginals; the default is the paper's.
        choice_share: part of every round's budget for choosing.
        noise_limit: sets of three and more columns are candidates while the expected noise on all their cells is below
            this part of the table's rows; from 2 on no set can gain anything (the paper has no such limit).
        model_ms: maximum size of the last model, in predicted milliseconds per evaluation.
        iterations: maximum steps of the fit after each round; the last fit takes more.
        penalty: of the fit, in units of 1/stddev; see `lookalike.fitting.maximum_entropy`.
    """

    workload: WorkloadSpec = choice("all-3way")
    rounds: int | None = tuned(100)
    oneway_share: float = paper(0.9 / PUBLISHED_ROUNDS_PER_COLUMN)
    choice_share: float = tuned(0.05)
    noise_limit: float = tuned(0.03)
    model_ms: float = tuned(3.0)
    iterations: int = tuned(30)
    penalty: float = tuned(0.2)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_shares(self.choice_share)
        check_positive(
            rounds=self.rounds, noise_limit=self.noise_limit, model_ms=self.model_ms, iterations=self.iterations,
            penalty=self.penalty,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        as_workload(self.workload, domain).closure(domain)
        if len(domain) == 1:
            return Split.only_column(rho)
        columns = Step.columns(domain, rho * self.oneway_share, alike=True)
        return Split.in_rounds(rho, columns, UNKNOWN, self.choice_share)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        progress("measuring every column", 0.0)
        measured = door.measure(singles(domain), door.stddev_for(split.rho(ONEWAYS), len(domain)), step=ONEWAYS)
        model = fit(domain, measured, penalty=self.penalty, zeros=model_zeros(door.schema))
        if CHOSEN not in split:
            return model
        candidates = Candidates(domain, self.workload)
        round_rho = rho / (self.rounds or PUBLISHED_ROUNDS_PER_COLUMN * len(domain))
        while True:
            last = door.remaining < 2 * round_rho
            round_rho = door.remaining if last else round_rho
            spent = 1.0 if last else 1.0 - (door.remaining - round_rho) / rho
            progress("choosing and measuring", 0.9 * spent)
            clique, before = self._choose(door, model, candidates, round_rho, self.model_ms * spent)
            stddev = door.stddev_for(door.remaining if last else (1 - self.choice_share) * round_rho)
            measured += door.measure([clique], stddev, step=CHOSEN)
            if last:
                break
            model = fit(domain, measured, warm=model, iterations=self.iterations, penalty=self.penalty)
            if np.abs(model.marginal(clique) - before).sum() <= EXPECTED_ABS * stddev * domain.cells(clique):
                round_rho *= 4
        progress("fitting the last model", 0.9)
        return fit(domain, measured, warm=model, penalty=self.penalty)

    def _choose(
        self, door: GuardedTable, model: GraphicalModel, candidates: Candidates, round_rho: float, model_ms: float
    ) -> tuple[ColumnSet, np.ndarray]:
        """Return the chosen column set and the model's present counts of it."""
        stddev = door.stddev_for((1 - self.choice_share) * round_rho)
        cliques, weights, penalties = candidates.usable(model, stddev, self.noise_limit, model_ms)
        references = model.marginals(cliques)
        rho = self.choice_share * round_rho
        picked = choose_worst(door, cliques, references, rho=rho, penalties=penalties, weights=weights, step=CHOICES)
        return cliques[picked], references[picked]


class Candidates:
    """The column sets that a round may choose from: all parts of the workload's, with their weights. All public."""

    def __init__(self, domain: Domain, spec: WorkloadSpec) -> None:
        workload = as_workload(spec, domain)
        self.cliques = workload.closure(domain)
        self.weights = dict(zip(self.cliques, workload.relevance(domain, self.cliques), strict=True))
        self.cells = {clique: domain.cells(clique) for clique in self.cliques}
        self._gate = SizeGate()

    def usable(
        self, model: GraphicalModel, stddev: float, noise_limit: float, model_ms: float
    ) -> tuple[list[ColumnSet], np.ndarray, np.ndarray]:
        """Return the sets that fit the model and may gain something at this noise, their weights and expected L1 noise.

        A score is the L1 distance of two tables of N rows, at most 2 N, less the expected noise. A set whose expected
        noise exceeds 2 N cannot win against a single column and is left out; sets of three and more columns already at
        `noise_limit` N. Of more than `MAX_SETS`, larger sets are left out until two of their parts are in the model.
        """
        noise = EXPECTED_ABS * stddev
        max_cells = (2 * model.total / noise, min(noise_limit, 2.0) * model.total / noise)
        possible = [c for c in self.cliques if len(c) == 1 or self.cells[c] < max_cells[len(c) > 2]]
        if len(possible) > MAX_SETS:
            factors = [frozenset(leaf) for leaf in model.plan.leaves]
            possible = [c for c in possible if len(c) < 3 or _parts_inside(c, factors) >= 2]
        cliques = self._gate.admitted(model, possible, model_ms)
        weights = np.array([self.weights[clique] for clique in cliques])
        return cliques, weights, noise * np.array([self.cells[clique] for clique in cliques], dtype=float)


def _parts_inside(clique: ColumnSet, factors: list[frozenset[str]]) -> int:
    """Return how many subsets of the column set with one column less lie inside some factor of the model."""
    parts = [frozenset(clique) - {name} for name in clique]
    return sum(any(part <= factor for factor in factors) for part in parts)
