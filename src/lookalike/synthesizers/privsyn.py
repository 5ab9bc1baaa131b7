"""PrivSyn: many marginals chosen by noisy pair scores, made consistent, and rows fitted to them (Zhang et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lookalike.fitting.consistency import norm_sub
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.model import Model
from lookalike.models.refine import RefinedModel
from lookalike.models.rows import GumSettings, Start, gum_model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.requests import Score
from lookalike.privacy.scores import IndependenceGap, ResidualL1
from lookalike.sampling.row_update import GumSchedule
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.grouping import merged_oneways, merged_values
from lookalike.selection.pair_selection import (
    above_noise,
    candidate_pairs,
    combine_cliques,
    connect_isolated,
    cover_pairs,
    greedy_pairs,
    in_batches,
    independent_tables,
)
from lookalike.selection.steps import measure_columns, measure_sets
from lookalike.synthesizers.base import Method, Progress, check_choice, check_shares, choice, method, paper, tuned
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES, UNKNOWN, Split, Step

SELECTED = "selected marginals"


@method(
    "privsyn",
    title="PrivSyn",
    paper="Zhang, Wang, Li, Honorio, Backes, He, Chen, Zhang: PrivSyn (USENIX Security 2021)",
    good_for="many columns with many dependencies: no limit on the treewidth, seconds for tables of usual size",
    corrected="noise variances 8m/rho' and 1/(2 rho_i) instead of the printed slips; scores against the noisy "
    "independent model (sensitivity 1 instead of 4); exact Gaussian accounting; weights and corrections of the "
    "consistency step; rows start from a reweighted tree; the number of rows is noisy",
    page="docs/reproductions/privsyn.md",
    sets_per_column=4.2,
    rank=60,
)
class PrivSyn(Method):
    """Measure the columns, score every pair, and measure as many marginals as the noise allows; rows by GUM.

    Attributes:
        oneway_share: part of the budget for one-way marginals.
        score_share: part of the budget for scoring all pairs; the selected marginals get the rest.
        score: "residual" (distance from the noisy independent model, sensitivity 1) or "indif" (the paper's, 4).
        noise_weight: weight of expected noise against dependency left out when pairs are selected; the paper has 1.
        combine: "cover" joins pairs into marginals that cost less than they do, "cliques" is the paper's Algorithm 2,
            "pairs" joins none.
        max_cells: maximum number of cells of a joined marginal (the paper's gamma).
        merge_below: values with a noisy count below this many standard deviations are modelled as one; 0 merges none.
        merge_share: only values below this share of all rows are merged, however small the budget.
        start: rows that GUM starts from: "raked", "tree" or, as in the paper, "independent".
        sweeps: sweeps of GUM. None means 50 as in the paper, or at most 5 after a raked start, and none of these where
            raking alone has fitted the marginals.
    """

    oneway_share: float = tuned(0.08)
    score_share: float = tuned(0.05)
    score: Literal["residual", "indif"] = choice("residual")
    noise_weight: float = tuned(0.6)
    combine: Literal["cover", "cliques", "pairs"] = tuned("cover")
    max_cells: int = paper(5000)
    merge_below: float = tuned(3.0)
    merge_share: float = tuned(0.01)
    start: Start = tuned("raked")
    sweeps: int | None = tuned(None)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.score_share)
        check_choice("score", self.score, ("residual", "indif"))
        check_choice("combine", self.combine, ("cover", "cliques", "pairs"))
        check_choice("start", self.start, ("raked", "tree", "independent"))

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.only_column(rho)
        return Split.of(
            rho,
            Step.columns(domain, rho * self.oneway_share),
            Step.pair_scores(domain, rho * self.score_share),
            rest=Step.sets(SELECTED, UNKNOWN, "counts of the selected marginals"),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        fine = door.domain
        progress("measuring every column", 0.0)
        oneways = measure_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        counts = {oneway.attrs[0]: oneway.values for oneway in oneways}
        limit = self.merge_share * estimated_total(oneways)
        codes = {
            o.attrs[0]: merged_values(o.values, min(self.merge_below * o.stddev, limit), keep_largest=True)
            for o in oneways
        }
        maps = {name: new for name, new in codes.items() if new.max() + 1 < len(new)}
        door, oneways = door.coarsened(maps), merged_oneways(oneways, maps)
        cliques = self._select(door, oneways, split.rho(PAIR_SCORES), progress) if SELECTED in split else []
        progress("measuring the selected marginals", 0.4)
        measured = measure_sets(door, cliques, door.remaining, step=SELECTED) if cliques else []
        progress("making the marginals consistent and updating rows", 0.5)
        raked = self.start == "raked"
        settings = GumSettings(self.start, GumSchedule(self.sweeps or (5 if raked else 50), stop_early=raked))
        model = gum_model(door.domain, [*oneways, *measured], rng=rng, settings=settings)
        return RefinedModel.of(fine, model, maps, counts)

    def _select(
        self, door: GuardedTable, oneways: Sequence[NoisyMarginal], rho: float, progress: Progress
    ) -> list[ColumnSet]:
        """Return the column sets to measure with what is left after scoring."""
        domain = door.domain
        progress("scoring every pair", 0.1)
        pairs = candidate_pairs(domain)
        total = estimated_total(oneways)
        counts = {oneway.attrs[0]: norm_sub(oneway.values, total) for oneway in oneways}
        errors: list[float] = []
        for batch in in_batches(domain, pairs):
            score: Score = IndependenceGap(tuple(batch))
            if self.score == "residual":
                score = ResidualL1(tuple(batch), tuple(independent_tables(batch, counts, total)))
            stddev = door.score_stddev_for(score, rho * len(batch) / len(pairs))
            errors.extend(above_noise(door.noisy_scores(score, stddev, step=PAIR_SCORES), stddev, len(domain)).tolist())
        progress("selecting marginals", 0.3)
        cells = np.array([domain.cells(pair) for pair in pairs])
        places = greedy_pairs(np.array(errors), cells, door.remaining, noise_weight=self.noise_weight)
        picked = connect_isolated(domain, [pairs[i] for i in places], dict(zip(pairs, errors, strict=True)))
        if self.combine == "pairs":
            return picked
        join = cover_pairs if self.combine == "cover" else combine_cliques
        return join(domain, picked, max_cells=self.max_cells)
