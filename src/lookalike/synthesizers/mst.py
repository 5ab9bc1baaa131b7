"""MST: a maximum spanning tree of noisy pairs (McKenna, Miklau and Sheldon 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.pair_selection import maximum_spanning_tree
from lookalike.selection.steps import fit_columns, measure_sets, score_pairs
from lookalike.synthesizers.base import Method, Progress, check_shares, method, tuned
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES, Split, Step

TREE = "pairs of the tree"


@method(
    "mst",
    title="MST",
    paper="McKenna, Miklau, Sheldon: Winning the NIST Contest (J. Privacy and Confidentiality 2021)",
    good_for="a robust, fast baseline; wide tables; many values per column",
    corrected="the tree comes from one noisy scoring of all pairs (sensitivity 1) instead of exponential "
    "mechanisms, so that the run is all-Gaussian and the exact curve applies; the number of rows is noisy",
    page="docs/choosing_a_method.md",
    rank=30,
    draws=True,
)
class MST(Method):
    """Measure the columns, score every pair, and measure the pairs of the tree of largest total score.

    Attributes:
        oneway_share: part of the budget for one-way marginals.
        score_share: part of the budget for scoring all pairs; the tree's pairs get the rest.
        known_share: part of `oneway_share` that is spent where discovery has counted the columns.
    """

    oneway_share: float = tuned(0.15)
    score_share: float = tuned(0.05)
    known_share: float = tuned(0.4, "docs/real_tables.md")

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.score_share)

    def informed(self, known: Sequence[NoisyMarginal]) -> Method:
        return replace(self, oneway_share=self.oneway_share * (self.known_share if known else 1.0))

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.only_column(rho)
        return Split.of(
            rho,
            Step.columns(domain, rho * self.oneway_share),
            Step.pair_scores(domain, rho * self.score_share),
            rest=Step.sets(TREE, len(domain) - 1, "counts of the tree's pairs"),
        )

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.05)
        oneways, independent = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        if TREE not in split:
            return independent
        progress("scoring every pair", 0.2)
        pairs, errors = score_pairs(door, independent, split.rho(PAIR_SCORES), step=PAIR_SCORES)
        progress("measuring the tree", 0.4)
        tree = measure_sets(door, maximum_spanning_tree(pairs, errors), door.remaining, step=TREE)
        progress("fitting the tree", 0.6)
        return fit(door.domain, [*oneways, *tree], warm=independent)
