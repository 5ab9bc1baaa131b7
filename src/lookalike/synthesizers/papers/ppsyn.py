"""PPSyn as in its paper's Algorithm 1, corrected where privacy demands it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.grouping import PartitionPath, partition_path
from lookalike.selection.model_size import SizeGate
from lookalike.selection.steps import fit_columns, singles
from lookalike.selection.workload import WorkloadSpec
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.ppsyn import ERRORS, GROUPS, MIN_LEFT, PPSyn, candidate_sets, check_eta
from lookalike.synthesizers.split import ONEWAYS, Split, Step

_PARTITIONED = 12
"""Candidates whose partitions are computed in a round: those with the largest contributions."""
_MOVED = 0.02
"""A partition is kept until its marginal has moved by this part of the rows."""


@method(
    "ppsyn-paper",
    title="PPSyn, the paper's variant",
    paper=PPSyn.info.paper,
    good_for="repeating the paper's experiments; ppsyn is more accurate",
    corrected="partitions and required budgets come from the model and from noisy errors that were paid for, not "
    "from true counts; budgets are clipped to what is left; group sums enter the fit as such",
    page="docs/reproductions/ppsyn.md",
    rank=70,
    is_paper_variant=True,
)
class PPSynPaper(Method):
    """Measure the columns, score all candidates, then measure the best marginal of each round in groups of cells.

    A candidate's contribution is its noisy error less the distance that the model has moved on it since. A round takes
    the marginal of the largest contribution per unit of budget, with the budget that the paper's formula requires, and
    at least an even share of what is left.

    Attributes:
        workload: the marginals that should be accurate; their parts are the candidates.
        eta: maximum part of a marginal's error that noise and grouping may cost.
        rounds: how many marginals are measured; None means four for every column. The last one takes what is left.
        oneway_share: part of the budget for one-way marginals.
        error_share: part of the budget for noisy errors of candidates.
        model_ms: maximum size of the model, in predicted milliseconds per evaluation.
        iterations: maximum steps of the fit after each round; the last fit takes more.
    """

    workload: WorkloadSpec = choice("all-3way")
    eta: float = paper(0.7)
    rounds: int | None = tuned(None)
    oneway_share: float = paper(0.1)
    error_share: float = tuned(0.2)
    model_ms: float = tuned(3.0)
    iterations: int = tuned(60)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.error_share)
        check_positive(rounds=self.rounds, model_ms=self.model_ms, iterations=self.iterations)
        check_eta(self.eta)

    def split(self, domain: Domain, rho: float) -> Split:
        candidates = candidate_sets(self.workload, domain)
        if not candidates:
            return Split((Step.columns(domain, rho),))
        return Split.of(
            rho,
            Step.columns(domain, rho * self.oneway_share),
            Step.scores(ERRORS, len(candidates), "how wrong the independent model is", rho * self.error_share),
            rest=Step(GROUPS, "gaussian", self._rounds(domain), 0.0, "sums of groups of cells"),
        )

    def _rounds(self, domain: Domain) -> int:
        return self.rounds or 4 * len(domain)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        rho, candidates = door.remaining, candidate_sets(self.workload, door.domain)
        progress("measuring every column", 0.0)
        measured, model = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        if not candidates:
            return model
        progress("measuring the errors of the independent model", 0.05)
        score = ResidualL1(tuple(candidates), tuple(model.marginals(candidates)))
        errors = door.noisy_scores(score, door.score_stddev_for(score, split.rho(ERRORS)), step=ERRORS)
        model, measured = self._measure(door, model, measured, score, errors, rho, progress)
        progress("fitting the last model", 0.9)
        return fit(door.domain, measured, warm=model)

    def _measure(
        self,
        door: GuardedTable,
        model: GraphicalModel,
        measured: list[NoisyMarginal],
        score: ResidualL1,
        errors: np.ndarray,
        rho: float,
        progress: Progress,
    ) -> tuple[GraphicalModel, list[NoisyMarginal]]:
        """Return the last but one model and all measurements after the rounds of Algorithm 1; everything is spent."""
        domain, candidates = door.domain, score.cliques
        gate, rounds, partitions = SizeGate(), self._rounds(domain), _Partitions(_MOVED * model.total)
        for number in range(rounds):
            progress("choosing and measuring", 0.1 + 0.8 * number / rounds)
            usable = set(gate.admitted(model, candidates, self.model_ms))
            places = [i for i, clique in enumerate(candidates) if clique in usable]
            if not places:  # every pair is too large for the model: what is left makes the columns better
                stddev = door.stddev_for(door.remaining, len(domain))
                measured += door.measure(singles(domain), stddev, step=GROUPS)
                break
            left = door.remaining
            min_price = left / (rounds - number)
            present = model.marginals([candidates[i] for i in places])
            moved = [np.abs(now - score.references[i]).sum() for now, i in zip(present, places, strict=True)]
            contributions = np.maximum(errors[places] - np.array(moved), 0.0)
            cliques = [candidates[i] for i in places]
            choice, path, price = self._choose(cliques, present, contributions, min_price, partitions)
            stddev = door.stddev_for(min(price, left) if number < rounds - 1 else left)
            groups = path.partition(path.finest_worthwhile(stddev))
            measured += door.measure([cliques[choice]], stddev, step=GROUPS, groups=[groups])
            if door.remaining <= MIN_LEFT * rho:
                break
            model = fit(domain, measured, warm=model, iterations=self.iterations)
        return model, measured

    def _choose(
        self,
        cliques: Sequence[ColumnSet],
        present: Sequence[np.ndarray],
        contributions: np.ndarray,
        min_price: float,
        partitions: _Partitions,
    ) -> tuple[int, PartitionPath, float]:
        """Return index, partitions and price of the marginal with the best contribution per unit of budget.

        A price is at least `min_price`, and exactly that where no partition is affordable.
        """
        found = []
        for i in np.argsort(-contributions, kind="stable")[:_PARTITIONED]:
            path = partitions.of(cliques[i], present[i])
            _, price = path.cheapest(float(contributions[i]), self.eta)
            price = min_price if math.isinf(price) else max(price, min_price)
            found.append((contributions[i] / price, -len(found), int(i), path, price))
        _, _, choice, path, price = max(found, key=lambda entry: entry[:2])
        return choice, path, price


class _Partitions:
    """Partitions of marginals by the model's counts, computed anew only where the model has moved enough."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._known: dict[ColumnSet, tuple[np.ndarray, PartitionPath]] = {}

    def of(self, clique: ColumnSet, counts: np.ndarray) -> PartitionPath:
        """Return the partitions of a marginal."""
        known = self._known.get(clique)
        if known is None or np.abs(known[0] - counts).sum() > self._tolerance:
            known = self._known[clique] = counts, partition_path(counts)
        return known[1]
