"""MWEM+PGM: the rounds of MWEM with a graphical model in place of the table (McKenna, Sheldon and Miklau 2019)."""

from __future__ import annotations

import numpy as np

from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import estimated_total
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.model_size import SizeGate
from lookalike.selection.steps import EXPECTED_ABS, choose_worst
from lookalike.selection.workload import WorkloadSpec, as_workload
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.split import CHOICES, CHOSEN, Split, Step, count_rows


@method(
    "mwem-pgm",
    title="MWEM+PGM",
    paper="McKenna, Sheldon, Miklau: Graphical-model based estimation and inference (ICML 2019); authors' code",
    good_for="a workload with few marginals of interest; as the simpler relative of AIM",
    corrected="the penalty is the expected noise of measuring, sqrt(2/pi) * stddev * cells, where the authors' "
    "code takes the number of cells; the number of rows is measured, not taken as known; replaced rows count twice in "
    "choices too",
    page="docs/choosing_a_method.md",
    accounting="zcdp",
    rank=110,
    draws=True,
)
class MWEMPGM(Method):
    """In each round, choose the marginal of largest error in a graphical model, measure it, and fit the model again.

    Attributes:
        workload: the marginals to choose from, which compete with all their parts; see `lookalike.selection.workload`.
        rounds: how many marginals are measured; None means one per column.
        rows_share: part of the budget for the number of rows.
        choice_share: part of every round's budget for choosing.
        model_ms: maximum size of the last model, in predicted milliseconds per evaluation; in round i of T, i/T of it.
        iterations: maximum steps of the fit after every round but the last.
    """

    workload: WorkloadSpec = choice("all-3way")
    rounds: int | None = tuned(None)
    rows_share: float = tuned(0.02)
    choice_share: float = tuned(0.1)
    model_ms: float = tuned(3.0)
    iterations: int = tuned(50)

    def __post_init__(self) -> None:
        check_shares(self.rows_share)
        check_shares(self.choice_share)
        check_positive(rounds=self.rounds, model_ms=self.model_ms, iterations=self.iterations)

    def split(self, domain: Domain, rho: float) -> Split:
        as_workload(self.workload, domain).closure(domain)
        first = Step.number_of_rows(rho * self.rows_share)
        return Split.in_rounds(rho, first, self.rounds or len(domain), self.choice_share)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rounds = door.domain, self.rounds or len(door.domain)
        candidates = as_workload(self.workload, domain).closure(domain)
        gate = SizeGate()
        measured = count_rows(door, split)
        impossible = {attrs: np.where(table, -np.inf, 0.0) for attrs, table in model_zeros(door.schema).items()}
        model = GraphicalModel(domain, impossible, estimated_total(measured))
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}", number / rounds)
            share = door.remaining / (rounds - number)
            stddev = door.stddev_for(share * (1 - self.choice_share))
            usable = gate.admitted(model, candidates, self.model_ms * (number + 1) / rounds)
            penalties = EXPECTED_ABS * stddev * np.array([domain.cells(clique) for clique in usable])
            references, rho = model.marginals(usable), share * self.choice_share
            picked = choose_worst(door, usable, references, rho=rho, penalties=penalties, step=CHOICES)
            measured += door.measure([usable[picked]], stddev, step=CHOSEN)
            model = fit(domain, measured, warm=model, iterations=self.iterations if number < rounds - 1 else None)
        return model
