"""What the two variants of BSG share: a Bayesian network, parts of the rows for learning it, and rows from seeds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from lookalike.errors import InputError, SchemaError
from lookalike.measurements import NoisyMarginal
from lookalike.models.bayes_net import BayesNet, PrefixHistogram
from lookalike.models.model import Model
from lookalike.models.rows import ReleasedRows
from lookalike.privacy.kernel.accounting import DISJOINT_PARTS
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.row_level.seed_price import SeedTest
from lookalike.privacy.row_level.seeded_rows import SeededRows, affordable_test
from lookalike.schema.domain import Domain
from lookalike.synthesizers.base import Method, Progress, check_choice, check_positive, choice, paper, tuned
from lookalike.synthesizers.split import Kind, Split, Step

FAMILIES = "families of the network"
PARTS, COUNT, SEEDED, HISTOGRAM = "split into parts", "number of seeds", "rows from seeds", "prefix histogram"

COUNT_SHARE = 0.02
"""Part of the budget of the seeds that is spent on their noisy number."""


@dataclass(frozen=True, slots=True)
class SeededNetwork(Method):
    """A Bayesian network; rows come from it alone, or start each from values of a real row, its seed.

    With `omega` "all" (or None), the default, no real row is used as a seed: the guarantee is the network's, for any
    number of rows. Otherwise `omega` columns of each row are drawn anew and the others, the first in the network's
    order, are copied from a real row, if enough real rows share them. Each such row is charged, and a run that the
    budget cannot pay is refused. Seeds and parts need a schema that leaves nothing open, since their price holds only
    if what is spent before them is fixed.

    Attributes:
        omega: "all", a number of columns to draw anew, or a range such as "9-11" to draw that number from, row by row.
        seeded_rows: how many rows to release from seeds.
        k: how many real rows must share the copied values.
        seeds: "rows", or "histogram": one noisy histogram of the copied columns, for any number of rows.
        test: "randomised" (noise on the threshold: differentially private) or "deterministic" (NOT private: (k, gamma)-
            plausible deniability of each row and no more).
        mixture: test with the probabilities over the whole range of omega, not for the number drawn; needs gamma.
        gamma: seeds are plausible when their probabilities agree within this factor. Only matters with `mixture`.
        threshold_epsilon: epsilon of the noise on the threshold; None takes the cheapest.
        seeded_share: share of rows that try a seed; the others, and failures, come from the network alone.
        max_plausible: stop counting plausible seeds at this number; None counts all.
        max_check_plausible: count in a random subset of this many rows; None counts in all. A subset costs more budget.
        parts: None uses all rows for everything; "0.2,0.2" or "0.2,0.2,0.6" are shares of rows for structure,
            parameters and seeds, disjoint and at random, as in the paper.
        model_share: part of the budget for the network where seeds or a histogram follow.
    """

    omega: str | int | None = choice(None)
    seeded_rows: int = choice(1000)
    k: int = paper(50)
    seeds: str = choice("rows")
    test: str = choice("randomised")
    mixture: bool = choice(False)
    gamma: float = paper(4.0)
    threshold_epsilon: float | None = tuned(None)
    seeded_share: float = tuned(0.9)
    max_plausible: int | None = tuned(None)
    max_check_plausible: int | None = tuned(None)
    parts: str | None = choice(None)
    model_share: float = tuned(0.5)

    def __post_init__(self) -> None:
        self.kept(None)
        self.shares()
        check_choice("seeds", self.seeds, ("rows", "histogram"))
        check_choice("test", self.test, ("randomised", "deterministic"))
        self._check_share("model_share")
        given = ("threshold_epsilon", "max_plausible", "max_check_plausible")
        check_positive(**{name: getattr(self, name) for name in given if getattr(self, name) is not None})

    def _check_share(self, name: str) -> None:
        if not 0 < getattr(self, name) < 1:
            raise SchemaError(f"{self.name}: {name} is {getattr(self, name):g}; it must lie between 0 and 1.")

    @abstractmethod
    def _learning_steps(self, domain: Domain, rho: float, *, together: bool) -> list[Step]:
        """Return the steps of the network, which cost rho; not `together`, each part of the rows has that much."""

    @abstractmethod
    def _learnt(
        self,
        structure: GuardedTable,
        parameters: GuardedTable,
        split: Split,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> BayesNet:
        """Return the network; its structure and its parameters may be learnt from different rows."""

    def check_rows(self, rows: int | None) -> None:
        from_seeds = self.omega not in (None, "all") and self.seeds == "rows"
        if from_seeds and rows is not None and rows > self.seeded_rows:
            made = f"these settings make {self.seeded_rows:,}"
            raise InputError(f"{rows:,} rows were asked for, but {made}; set seeded_rows={rows}.")

    def kept(self, columns: int | None) -> tuple[int, ...]:
        """Return the possible numbers of columns copied from a seed; (0,) without seeds. None only checks omega."""
        if self.omega is None or self.omega == "all":
            return (0,)
        low, dash, high = str(self.omega).partition("-")
        if not (low.isdecimal() and (high.isdecimal() or not dash)):
            raise SchemaError(f"{self.name}: omega is {self.omega!r}; write 'all', a number ('9') or a range ('9-11').")
        first, last = int(low), int(high) if dash else int(low)
        if first > last or (columns is not None and last > columns):
            raise SchemaError(f"{self.name}: omega is {self.omega!r}; it must rise, to at most all columns.")
        return tuple((columns or last) - omega for omega in range(first, last + 1))

    def shares(self) -> tuple[float, ...]:
        """Return the shares of the disjoint parts for structure, parameters and any seeds; empty without parts."""
        try:
            shares = tuple(float(text) for text in self.parts.split(",")) if self.parts else ()
        except ValueError:
            shares = (math.nan,)
        wanted = 2 if self.omega in (None, "all") else 3
        if shares and not (len(shares) == wanted and min(shares) > 0 and math.fsum(shares) <= 1 + 1e-9):
            example = "2 shares such as '0.2,0.2'" if wanted == 2 else "3 shares such as '0.2,0.2,0.6'"
            raise SchemaError(f"{self.name}: parts is {self.parts!r}; with this omega give {example}.")
        return shares

    def split(self, domain: Domain, rho: float) -> Split:
        kept, steps = self.kept(len(domain)), list[Step]()
        model = rho if kept == (0,) else rho * self.model_share
        if self.shares():
            steps.append(Step(PARTS, DISJOINT_PARTS, len(self.shares()), rho, "pays for all that follows"))
            model = rho = 0.0
        steps += self._learning_steps(domain, model, together=True)
        if kept == (0,):
            return Split(tuple(steps))
        if self.seeds == "histogram":
            note = f"counts of the first {max(kept)} columns together"
            return Split((*steps, Step(HISTOGRAM, "thresholded histogram", 1, rho - model, note, Kind.SETS)))
        counting = (rho - model) * COUNT_SHARE
        steps.append(Step(COUNT, "gaussian", 1, counting, "number of rows that may be seeds", Kind.NUMBER_OF_ROWS))
        mechanism = "plausible deniability" if self.test == "randomised" else "none"
        note = f"rows that keep {min(kept)} to {max(kept)} values of a real row"
        if self.test == "deterministic":
            note += ": NOT PRIVATE, deniable one by one only; for a guarantee set test='randomised'"
        seeded = Step(SEEDED, mechanism, self.seeded_rows, rho - model - 0.99 * counting, note, Kind.ROWS)
        return Split((*steps, seeded))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        shares, kept = self.shares(), self.kept(len(door.domain))
        structure = parameters = seeds = door
        if shares:
            structure, parameters, *others = door.parts(RandomParts(shares), step=PARTS)
            seeds = others[0] if others else door
            steps = self._learning_steps(door.domain, structure.remaining, together=False)
            split = Split((*split.steps[:1], *steps, *split.steps[1 + len(steps) :]))
        counted = self._counted(seeds, split, progress) if COUNT in split else None
        model = self._learnt(structure, parameters, split, rng=rng, progress=progress)
        if shares:
            model = replace(model, total=model.total / shares[1])
        return model if kept == (0,) else self._from_seeds(seeds, model, kept, counted, progress)

    def _test(self) -> SeedTest:
        return SeedTest(
            k=self.k, epsilon0=self.threshold_epsilon or 1.0, gamma=self.gamma if self.mixture else 1.0,
            seeded_share=self.seeded_share, max_plausible=self.max_plausible, max_check=self.max_check_plausible,
        )  # fmt: skip

    def _counted(self, door: GuardedTable, split: Split, progress: Progress) -> NoisyMarginal:
        """Return a noisy number of seeds; raises an error if the rows cost too much, before the network is paid for."""
        progress("counting seeds", 0.05)
        before = 0.0 if PARTS in split else door.remaining * self.model_share
        rho, already = (door.remaining - before) * COUNT_SHARE, float(door.budget.rho) - door.remaining
        counted = door.measure([()], door.stddev_for(rho), step=COUNT)[0]
        if self.test == "randomised":
            tune = self.threshold_epsilon is None
            affordable_test(self._test(), self.seeded_rows, counted, door.budget, already + before + rho, tune=tune)
        return counted

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
            model, self.seeded_rows, kept, self._test(), counted, mixture=self.mixture,
            tune=self.threshold_epsilon is None, deterministic=self.test == "deterministic",
        )  # fmt: skip
        return ReleasedRows.of(model, door.release_rows(request, step=SEEDED))
