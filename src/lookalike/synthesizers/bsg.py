"""BSG: a Bayesian network, and optionally seeds with plausible deniability (Bindschaedler, Shokri, Gunter 2017)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np

from lookalike.errors import SchemaError
from lookalike.estimate.norm_sub import norm_sub
from lookalike.generate.bayes_net import BayesNet, dirichlet_means
from lookalike.generate.model import Model
from lookalike.generate.prefix_histogram import PrefixHistogram
from lookalike.generate.released_rows import ReleasedRows
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.rows import OccurringCells
from lookalike.privacy.scores import ResidualL1
from lookalike.privacy.seed_price import SeedTest
from lookalike.privacy.seeded_rows import SeededRows, affordable_test
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.feature_merit import Network, bucketed, correlations, greedy_network, mass_buckets
from lookalike.synthesizers.base import Method, Progress, method, tuned
from lookalike.synthesizers.split import ONEWAYS, PAIR_SCORES, Kind, Split, Step
from lookalike.tables.measurement import NoisyMarginal, estimated_total

FAMILIES = "families of the network"
SPLIT, COUNT, SEEDED, HISTOGRAM = "split into parts", "number of seeds", "rows from seeds", "prefix histogram"


@method(
    "bsg",
    title="BSG: Bayesian network with plausible deniability",
    paper="Bindschaedler, Shokri, Gunter: Plausible Deniability for Privacy-Preserving Data Synthesis (VLDB 2017)",
    good_for="rows that keep real prefixes (seeds) with a stated price; omega='all' is a plain private network",
    corrected="rows from seeds are charged one by one and refused past the budget (the paper prices one row and "
    "releases a million); failures of the test are hidden (its theorem leaves them out); parts of the table are "
    "amplified jointly; scores have sensitivity 1 whatever the number of rows; noise has no public seed",
    page="docs/reproductions/bsg.md",
    rank=130,
)
class BSG(Method):
    """Every column given a few others, learnt once; rows from that network alone, or grown from real rows.

    With `omega` "all" (or None), the default, no real row is ever used as a seed: the guarantee is the network's, for
    any number of rows. Otherwise `omega` columns of each row are drawn anew and the first ones, in the network's order,
    are those of a real row, if enough others share them. Each such row costs; what is not affordable is refused.

    Attributes:
        omega: "all", a number of columns to draw anew, or a range such as "9-11" to draw that number from, row by row.
        seeded_rows: how many rows to release from seeds.
        k: how many real rows must share what is kept.
        seeds: "rows", or "histogram": one noisy histogram of what is kept, for any number of rows.
        test: "randomised" (noise on the threshold: differentially private) or "deterministic" (NOT private: (k, gamma)-
            plausible deniability of each row and no more).
        mixture: test what the whole range of omega makes, not the number drawn for the row; needs gamma.
        gamma: seeds are plausible when their probabilities agree within this factor. Only matters with `mixture`.
        threshold_epsilon: strength of the threshold's noise; 0 takes the cheapest.
        seeded_share: share of rows that try a seed; the others, and failures, come from the network alone.
        max_plausible: stop counting seeds here; 0 counts all.
        max_check_plausible: count in a random subset of this many rows; 0 looks at all. Costs much, never needed here.
        parts: "" uses all rows for everything; "0.2,0.2" or "0.2,0.2,0.6" are shares of rows for structure, parameters
            and seeds, disjoint and at random, as in the paper.
        model_share: part of the budget for the network where seeds or a histogram follow.
        oneway_share: part of the network's budget for one-way marginals.
        score_share: part of the network's budget for scoring all pairs; its families get the rest.
        parent_values: most values that children see of a column; longer ones are bucketed by noisy counts.
        max_cost: most configurations of a column's parents; 0 takes what the noise allows.
        usefulness: a family is affordable while its average cell is this many times the noise.
        prior: strength of the prior, in standard deviations of the noise.
    """

    omega: str | int | None = tuned(None)
    seeded_rows: int = tuned(1000)
    k: int = tuned(50)
    seeds: str = tuned("rows")
    test: str = tuned("randomised")
    mixture: bool = tuned(False)
    gamma: float = tuned(4.0)
    threshold_epsilon: float = tuned(0.0)
    seeded_share: float = tuned(0.9)
    max_plausible: int = tuned(0)
    max_check_plausible: int = tuned(0)
    parts: str = tuned("")
    model_share: float = tuned(0.5)
    oneway_share: float = tuned(0.15)
    score_share: float = tuned(0.15)
    parent_values: int = tuned(6)
    max_cost: int = tuned(0)
    usefulness: float = tuned(2.0)
    prior: float = tuned(0.2)

    def __post_init__(self) -> None:
        self.kept(None)
        self.shares()
        for name, known in (("seeds", ("rows", "histogram")), ("test", ("randomised", "deterministic"))):
            if getattr(self, name) not in known:
                raise SchemaError(
                    f"bsg: {name} is {getattr(self, name)!r}; it must be {' or '.join(map(repr, known))}."
                )
        for name in ("model_share", "oneway_share", "score_share"):
            if not 0 < getattr(self, name) < 1:
                raise SchemaError(f"bsg: {name} is {getattr(self, name):g}; it must lie between 0 and 1.")
        if self.oneway_share + self.score_share >= 1:
            raise SchemaError(
                "bsg: oneway_share and score_share add up to 1 or more; leave something for the families."
            )
        if self.parent_values < 2:
            raise SchemaError(f"bsg: parent_values is {self.parent_values}; it must be at least 2.")

    # Settings as numbers.

    @property
    def max_rows(self) -> int | None:
        """The maximum number of rows that a run with these settings can give; None for any number."""
        return self.seeded_rows if self.omega not in (None, "all") and self.seeds == "rows" else None

    def kept(self, columns: int | None) -> tuple[int, ...]:
        """The numbers of columns that a seed keeps, equally likely; (0,) without seeds. None: only check omega."""
        if self.omega is None or self.omega == "all":
            return (0,)
        low, dash, high = str(self.omega).partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)):
            raise SchemaError(
                f"bsg: omega is {self.omega!r}; write 'all', a number such as '9' or a range such as '9-11'."
            )
        first, last = int(low), int(high) if dash else int(low)
        if first > last or (columns is not None and last > columns):
            raise SchemaError(f"bsg: omega is {self.omega!r}; it must be a rising range of at most all columns.")
        return tuple((columns or last) - omega for omega in range(first, last + 1))

    def shares(self) -> tuple[float, ...]:
        """Shares of the disjoint parts for structure, parameters and, with seeds, seeds; empty without parts."""
        try:
            shares = tuple(float(text) for text in self.parts.split(",")) if self.parts else ()
        except ValueError:
            shares = (math.nan,)
        wanted = 2 if self.omega in (None, "all") else 3
        if shares and not (len(shares) == wanted and min(shares) > 0 and math.fsum(shares) <= 1 + 1e-9):
            example = "0.2,0.2" if wanted == 2 else "0.2,0.2,0.6"
            raise SchemaError(
                f"bsg: parts is {self.parts!r}; with this omega give {wanted} shares such as '{example}'."
            )
        return shares

    # The run.

    def split(self, domain: Domain, rho: float) -> Split:
        width, kept = len(domain), self.kept(len(domain))
        model = rho if kept == (0,) else rho * self.model_share
        steps = []
        if self.shares():
            steps.append(Step(SPLIT, "disjoint parts", len(self.shares()), rho, "pays for all that follows"))
            model = rho = 0.0
        steps.append(Step.columns(domain, model * self.oneway_share))
        if width > 1:
            steps.append(Step.pair_scores(domain, model * self.score_share))
        rest = model * (1 - self.oneway_share - (self.score_share if width > 1 else 0.0))
        steps.append(Step.sets(FAMILIES, width, "counts of each column with its parents", rest))
        if kept == (0,):
            return Split(tuple(steps))
        if self.seeds == "histogram":
            note = f"counts of the first {max(kept)} columns together"
            return Split((*steps, Step(HISTOGRAM, "thresholded histogram", 1, rho - model, note, Kind.SETS)))
        counting = (rho - model) * _COUNT_SHARE
        steps.append(Step(COUNT, "gaussian", 1, counting, "number of rows that may be seeds", Kind.NUMBER_OF_ROWS))
        mechanism = "plausible deniability" if self.test == "randomised" else "none"
        note = f"rows that keep {min(kept)} to {max(kept)} values of a real row"
        if self.test == "deterministic":
            note += ": NOT PRIVATE, deniable one by one only"
        seeded = Step(SEEDED, mechanism, self.seeded_rows, rho - model - 0.99 * counting, note, Kind.ROWS)
        return Split((*steps, seeded))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        shares, kept = self.shares(), self.kept(len(door.domain))
        learning = self.oneway_share + self.score_share
        if shares:
            structure, parameters, *others = door.parts(shares, step=SPLIT)
            seeds = others[0] if others else door
            early, late = structure.remaining, parameters.remaining
            before = 0.0
        else:
            structure = parameters = seeds = door
            before = door.remaining * (1.0 if kept == (0,) else self.model_share)
            early, late = before * learning, before * (1 - learning)
        counted = self._counted(seeds, before, progress) if kept != (0,) and self.seeds == "rows" else None
        progress("measuring every column", 0.1)
        oneways = self._oneways(structure, early)
        network, buckets, spare = self._structure(structure, early, oneways, late, progress)
        progress("measuring families", 0.4)
        model = self._parameters(parameters, network, buckets, late + (0.0 if shares else spare), oneways, bool(shares))
        if shares:
            model = replace(model, total=model.total / shares[1])
        return model if kept == (0,) else self._from_seeds(seeds, model, kept, counted, progress)

    def _test(self) -> SeedTest:
        return SeedTest(
            k=self.k,
            epsilon0=self.threshold_epsilon or 1.0,
            gamma=self.gamma if self.mixture else 1.0,
            seeded_share=self.seeded_share,
            max_plausible=self.max_plausible or None,
            max_check=self.max_check_plausible or None,
        )

    def _counted(self, door: GuardedTable, before: float, progress: Progress) -> NoisyMarginal:
        """A noisy number of seeds. What it shows to be unaffordable is refused here, before the network is paid for."""
        progress("counting seeds", 0.05)
        rho, already = (door.remaining - before) * _COUNT_SHARE, float(door.budget.rho) - door.remaining
        counted = door.measure([()], door.stddev_for(rho), step=COUNT)[0]
        if self.test == "randomised":
            tune = not self.threshold_epsilon
            affordable_test(self._test(), self.seeded_rows, counted, door.budget, already + before + rho, tune=tune)
        return counted

    def _oneways(self, door: GuardedTable, rho: float) -> list[NoisyMarginal]:
        shares = allocate(door.domain.sizes, rho * self.oneway_share / (self.oneway_share + self.score_share))
        singles = [(name,) for name in door.domain.names]
        return door.measure(singles, [door.stddev_for(part) for part in shares], step=ONEWAYS)

    def _structure(
        self, door: GuardedTable, rho: float, oneways: list[NoisyMarginal], later: float, progress: Progress
    ) -> tuple[Network, dict[str, np.ndarray], float]:
        """The network, the buckets in which parents are seen, and the rho that was not needed."""
        domain = door.domain
        if len(domain) == 1:
            return Network(domain.names, ((),)), {}, rho * self.score_share / (self.oneway_share + self.score_share)
        progress("scoring every pair", 0.2)
        total = estimated_total(oneways)
        counts = [norm_sub(oneway.values, total) for oneway in oneways]
        maps = {name: mass_buckets(count, self.parent_values) for name, count in zip(domain.names, counts, strict=True)}
        maps = {name: mapping for name, mapping in maps.items() if mapping[-1] + 1 < domain.size(name)}
        coarse = [bucketed(count, maps.get(name)) for name, count in zip(domain.names, counts, strict=True)]
        pairs = tuple(combinations(range(len(domain)), 2))
        references = tuple(np.outer(coarse[a], coarse[b]) / total for a, b in pairs)
        score = ResidualL1(tuple((domain.names[a], domain.names[b]) for a, b in pairs), references)
        stddev = door.score_stddev_for(score, rho * self.score_share / (self.oneway_share + self.score_share))
        distances = door.coarsened(maps).noisy_scores(score, stddev, step=PAIR_SCORES)
        sizes = {name: len(count) for name, count in zip(domain.names, coarse, strict=True)}
        cells = total / (self.usefulness * door.stddev_for(later, len(domain)))

        def affordable(configurations: int, values: int) -> bool:
            return configurations <= self.max_cost if self.max_cost else configurations * values <= cells

        return greedy_network(domain, correlations(distances, coarse, stddev), sizes, affordable), maps, 0.0

    def _parameters(
        self,
        door: GuardedTable,
        network: Network,
        buckets: dict[str, np.ndarray],
        rho: float,
        oneways: list[NoisyMarginal],
        apart: bool,
    ) -> BayesNet:
        """Noisy counts of every family and the Dirichlet means they give. `apart`: the one-ways are of other rows."""
        sizes = [
            door.domain.size(name) * math.prod(_seen(door.domain, buckets, parent) for parent in parents)
            for name, parents in zip(network.order, network.parents, strict=True)
        ]
        measured = []
        for name, parents, part in zip(network.order, network.parents, allocate(sizes, rho), strict=True):
            view = door.coarsened({parent: buckets[parent] for parent in parents if parent in buckets})
            family = view.domain.canonical((name, *parents))
            measured.append(view.measure([family], door.stddev_for(part), step=FAMILIES)[0])
        known = {} if apart else {oneway.attrs[0]: oneway for oneway in oneways}
        total = estimated_total([*measured, *known.values()])
        tables = []
        for name, parents, family in zip(network.order, network.parents, measured, strict=True):
            axes = [family.attrs.index(attr) for attr in (*parents, name)]
            counts = norm_sub(family.values, total).transpose(axes)
            own = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
            if not parents and name in known:
                own = counts = norm_sub(_average(family, known[name]), total)
            tables.append(dirichlet_means(counts, own + 1e-3, max(1.0, self.prior * family.stddev)))
        return BayesNet(door.domain, total, network.order, network.parents, tuple(tables), buckets)

    def _from_seeds(
        self,
        door: GuardedTable,
        model: BayesNet,
        kept: tuple[int, ...],
        counted: NoisyMarginal | None,
        progress: Progress,
    ) -> Model:
        progress("using seeds", 0.7)
        if counted is None:
            cells, counts = door.release_rows(OccurringCells(model.order[: max(kept)]), step=HISTOGRAM)
            return PrefixHistogram(model, cells, counts)
        request = SeededRows(
            model,
            self.seeded_rows,
            kept,
            self._test(),
            counted,
            mixture=self.mixture,
            tune=not self.threshold_epsilon,
            deterministic=self.test == "deterministic",
        )
        return ReleasedRows(model, door.release_rows(request, step=SEEDED))


_COUNT_SHARE = 0.02
"""Part of what the seeds may spend that tells their number."""


def _seen(domain: Domain, buckets: dict[str, np.ndarray], name: str) -> int:
    return int(buckets[name].max()) + 1 if name in buckets else domain.size(name)


def _average(first: NoisyMarginal, second: NoisyMarginal) -> np.ndarray:
    """The two noisy counts of one marginal, each weighted by its precision."""
    weights = [1 / first.stddev**2, 1 / second.stddev**2]
    return np.average([first.values, second.values], axis=0, weights=weights)
