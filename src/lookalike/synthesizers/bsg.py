"""BSG: a Bayesian network, and optionally seeds with plausible deniability (Bindschaedler, Shokri, Gunter 2017)."""

from __future__ import annotations

import numpy as np

from lookalike.errors import SchemaError
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.bayes_net import BayesNet
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import Domain
from lookalike.selection.feature_network import Network, learn_network, measure_families, network_of
from lookalike.selection.steps import measure_columns
from lookalike.synthesizers import papers
from lookalike.synthesizers.base import Progress, check_positive, method, tuned
from lookalike.synthesizers.seeded_network import FAMILIES, SeededNetwork
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES, Split, Step


@method(
    "bsg",
    title="BSG: Bayesian network with plausible deniability",
    paper=papers.BSG,
    good_for="rows that keep real prefixes (seeds) with a stated price; omega='all' is a plain private network",
    corrected="rows from seeds are charged one by one and refused past the budget (the paper prices one row and "
    "releases a million); failures of the test are hidden (its theorem leaves them out); parts of the table are "
    "amplified jointly; scores have sensitivity 1 whatever the number of rows; noise has no public seed",
    page="docs/reproductions/bsg.md",
    rank=130,
)
class BSG(SeededNetwork):
    """Fit a Bayesian network of families that the noise leaves visible; seeds are as in `SeededNetwork`.

    Attributes:
        oneway_share: part of the network's budget for one-way marginals.
        score_share: part of the network's budget for scoring all pairs; its families get the rest.
        parent_values: maximum number of values of a parent; columns of more are bucketed by noisy counts.
        max_cost: maximum number of configurations of a column's parents; None lets `usefulness` decide.
        usefulness: a family is affordable while its average cell is this many times the noise.
        prior: strength of the prior, in standard deviations of the noise.
    """

    oneway_share: float = tuned(0.15)
    score_share: float = tuned(0.15)
    parent_values: int = tuned(6)
    max_cost: int | None = tuned(None)
    usefulness: float = tuned(2.0)
    prior: float = tuned(0.2)

    def __post_init__(self) -> None:
        SeededNetwork.__post_init__(self)
        self._check_share("oneway_share")
        self._check_share("score_share")
        if self.oneway_share + self.score_share >= 1:
            raise SchemaError("bsg: oneway_share + score_share is 1 or more; leave something for the families.")
        if self.parent_values < 2:
            raise SchemaError(f"bsg: parent_values is {self.parent_values}; it must be at least 2.")
        check_positive(max_cost=self.max_cost)

    def _learning_steps(self, domain: Domain, rho: float, *, together: bool) -> list[Step]:
        """A single column needs no scores; their part goes to its family where one budget pays for both."""
        learning = self.oneway_share + self.score_share
        early, late = (rho * learning, rho * (1 - learning)) if together else (rho, rho)
        scores = early * self.score_share / learning
        steps = [Step.columns(domain, early * self.oneway_share / learning)]
        if len(domain) > 1:
            steps.append(Step.pair_scores(domain, scores))
        elif together:
            late += scores
        return [*steps, Step.sets(FAMILIES, len(domain), "counts of each column with its parents", late)]

    def _learnt(
        self,
        structure: GuardedTable,
        parameters: GuardedTable,
        split: Split,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> BayesNet:
        progress("measuring every column", 0.1)
        oneways = measure_columns(structure, split.rho(ONEWAYS), step=ONEWAYS)
        network, buckets = self._structure(structure, split, oneways, progress)
        progress("measuring families", 0.4)
        measured = measure_families(parameters, network, buckets, split.rho(FAMILIES), step=FAMILIES)
        # With parts, the columns were counted in other rows than the families.
        same_rows = oneways if structure is parameters else []
        return network_of(structure.domain, network, buckets, measured, same_rows, self.prior)

    def _structure(
        self, door: GuardedTable, split: Split, oneways: list[NoisyMarginal], progress: Progress
    ) -> tuple[Network, dict[str, np.ndarray]]:
        """Return the network and the buckets of its parents."""
        domain = door.domain
        if len(domain) == 1:
            return Network(domain.names, ((),)), {}
        progress("scoring every pair", 0.2)
        stddev = door.stddev_for(split.rho(FAMILIES), len(domain))
        cells = estimated_total(oneways) / (self.usefulness * stddev)

        def affordable(configurations: int, values: int) -> bool:
            return configurations * values <= cells if self.max_cost is None else configurations <= self.max_cost

        rho = split.rho(PAIR_SCORES)
        return learn_network(door, oneways, self.parent_values, affordable, rho, step=PAIR_SCORES)
