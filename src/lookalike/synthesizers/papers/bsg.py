"""BSG as in its paper: noisy entropies, semantic buckets, drawn parameters; corrected only where privacy demands it."""

from __future__ import annotations

import numpy as np

from lookalike.errors import SchemaError
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.bayes_net import BayesNet
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.laplace_counts import LaplaceCounts
from lookalike.schema.domain import Domain
from lookalike.selection.feature_network import (
    Network,
    drawn_network,
    greedy_network,
    measure_families,
    semantic_buckets,
    uncertainties,
)
from lookalike.synthesizers import papers
from lookalike.synthesizers.base import Progress, check_choice, check_positive, choice, method, paper, tuned
from lookalike.synthesizers.seeded_network import FAMILIES, SeededNetwork
from lookalike.synthesizers.split import UNKNOWN, Kind, Split, Step, count_rows

ENTROPIES = "entropies of columns and pairs"
MOST_ROWS = 1 << 30
"""Entropies are filled up to at most this many rows; of larger tables they have the noise of this one."""


@method(
    "bsg-paper",
    title="BSG, the paper's variant",
    paper=papers.BSG,
    good_for="repeating the paper's experiments; bsg is more accurate",
    corrected="the noise of entropies is right whatever the number of rows (the paper divides by a noisy number, which "
    "may be too large); all entropies that are used are paid for (the paper leaves out those between parents); parts "
    "of the table are amplified jointly; rows from seeds as in bsg; noise has no public seed",
    page="docs/reproductions/bsg.md",
    rank=130,
    is_paper_variant=True,
)
class BSGPaper(SeededNetwork):
    """Follow sections 3.3 and 3.4: symmetric uncertainty, Dirichlet parameters; seeds are as in `SeededNetwork`.

    Attributes:
        structure_share: part of the network's budget for its structure, where no parts of the rows have budgets of
            their own.
        count_share: part of that for the number of rows; entropies get the rest.
        max_buckets: maximum number of buckets of numbers and times as parents. Hierarchies of the schema give those of
            other columns.
        max_cost: maximum number of configurations of a column's parents (maxcost in equation 6).
        prior: sum of the Dirichlet prior's parameters.
        parameters: "drawn" from their Dirichlet distribution, once for the network, or its "means".
        noise: of the families' counts: "gaussian" has the exact account, "laplace" is the paper's, composed by advanced
            composition, for tables in memory.
    """

    structure_share: float = paper(0.5, "both parts of its table have the same epsilon")
    count_share: float = tuned(0.05)
    max_buckets: int = paper(8, "its buckets of age and hours")
    max_cost: int = tuned(300)
    prior: float = paper(1.0, "the authors' program")
    parameters: str = paper("drawn")
    noise: str = choice("gaussian")

    def __post_init__(self) -> None:
        SeededNetwork.__post_init__(self)
        self._check_share("structure_share")
        self._check_share("count_share")
        check_positive(max_cost=self.max_cost, prior=self.prior)
        check_choice("parameters", self.parameters, ("drawn", "means"))
        check_choice("noise", self.noise, ("gaussian", "laplace"))
        if self.max_buckets < 2:
            raise SchemaError(f"bsg-paper: max_buckets is {self.max_buckets}; it must be at least 2.")
        if self.noise == "laplace" and self.omega not in (None, "all") and not self.shares():
            raise SchemaError(
                "bsg-paper: noise='laplace' spends all that is left on families, so that nothing is left for seeds. "
                "Set parts, such as '0.2,0.2,0.6', or omega='all'."
            )

    def _learning_steps(self, domain: Domain, rho: float, *, together: bool) -> list[Step]:
        early, late = (rho * self.structure_share, rho * (1 - self.structure_share)) if together else (rho, rho)
        note = "how much columns and pairs of them vary"
        steps = [Step.number_of_rows(early * self.count_share)]
        if len(domain) > 1:
            steps.append(Step.scores(ENTROPIES, UNKNOWN, note, early * (1 - self.count_share)))
        elif together:
            late += early * (1 - self.count_share)
        mechanism, families = self.noise, "counts of each column with its parents"
        return [*steps, Step(FAMILIES, mechanism, len(domain), late, families, Kind.SETS)]

    def _learnt(
        self,
        structure: GuardedTable,
        parameters: GuardedTable,
        split: Split,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> BayesNet:
        progress("counting rows", 0.1)
        count = count_rows(structure, split)[0]
        buckets = semantic_buckets(structure.schema, self.max_buckets)
        network = self._structure(structure, split, float(count.values), buckets, progress)
        progress("measuring families", 0.4)
        families = self._families(parameters, network, buckets, split)
        total = estimated_total([*families, count] if structure is parameters else families)
        drawing = rng if self.parameters == "drawn" else None
        return drawn_network(structure.domain, network, buckets, families, max(1.0, total), self.prior, drawing)

    def _structure(
        self, door: GuardedTable, split: Split, counted: float, buckets: dict[str, np.ndarray], progress: Progress
    ) -> Network:
        """Return the network of greatest merit that equation (6) allows."""
        domain = door.domain
        if len(domain) == 1:
            return Network(domain.names, ((),))
        progress("measuring entropies", 0.2)
        rows = round(min(max(counted, 2.0), MOST_ROWS))
        mixed, among = uncertainties(door, buckets, rows, split.rho(ENTROPIES), step=ENTROPIES)
        sizes = {n: int(buckets[n].max()) + 1 if n in buckets else domain.size(n) for n in domain.names}
        return greedy_network(domain, mixed, sizes, lambda configurations, _: configurations <= self.max_cost, among)

    def _families(
        self, door: GuardedTable, network: Network, buckets: dict[str, np.ndarray], split: Split
    ) -> list[NoisyMarginal]:
        """Return the noisy counts of every column with its parents, all with the same noise, equation (14)."""
        if self.noise == "gaussian":
            return measure_families(door, network, buckets, split.rho(FAMILIES), step=FAMILIES, alike=True)
        pairs = list(zip(network.order, network.parents, strict=True))
        sets = tuple(door.domain.canonical((name, *parents)) for name, parents in pairs)
        maps = tuple({p: buckets[p] for p in parents if p in buckets} for _, parents in pairs)
        return door.release_rows(LaplaceCounts(sets, maps), step=FAMILIES)
