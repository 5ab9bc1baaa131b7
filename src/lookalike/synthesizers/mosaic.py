"""Mosaic, our own method: measures the column sets worth their price, whether or not they fit one graphical model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.graphical import fit
from lookalike.models.model import Model
from lookalike.models.weighted_rows import ReweightedModel, SupportSettings
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.sampling.exchange import ExchangeSettings
from lookalike.schema.domain import Domain
from lookalike.selection.halves import measure_halves
from lookalike.selection.parities import Parities
from lookalike.selection.priced_sets import PairScores, PricedSets, SetPricing
from lookalike.selection.steps import (
    TYPICAL_SETS,
    active_columns,
    columns_by_noise,
    contrasts_in_two,
    growth,
    scored_pairs,
    support_of,
)
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.split import NUMBER_OF_ROWS, ONEWAYS, PAIR_SCORES, UNKNOWN, Kind, Split, Step, count_rows

SETS, LARGER = "chosen sets", "larger sets and their choice"

# Found on the development tables; docs/mosaic.md has the experiments.
MAX_FITTED_RHO, MAX_FITTED_ROWS = 2.5, 10_000
"""About epsilon 11. Counts of larger budgets are fitted as if they had the noise of this one, or the weights do not
converge; those of tables of fewer rows to the same part of their rows."""
TYPICAL_CONTRASTS = 6
"""Typical number of contrasts of a set that is worth measuring at a small budget."""
MAX_TOP_UP, LARGER_SIGNAL = 0.8, 200
"""What columns of small tables may take of the share of the first sets; rows per noise of discovery for larger sets."""
FIRST_MODELS = SupportSettings(max_rows=60_000, iterations=40)
"""Settings of the temporary models against which larger sets are scored."""


@method(
    "mosaic",
    title="Mosaic",
    paper="our own; docs/mosaic.md",
    good_for="almost everything: the lowest error on our benchmark tables or close to it, in seconds",
    corrected="nothing to correct; all noise is Gaussian, so the exact curve applies",
    page="docs/mosaic.md",
    sets_per_column=3.0,
    rank=10,
    draws=True,
)
class Mosaic(Method):
    """Measure the columns, score every pair, and let one price decide which sets are measured, and how precisely.

    Sets are measured whether or not they fit one graphical model: rows are drawn from a network of the sets that fit,
    weighted to match all sets, and exchanged until the small marginals are right; docs/mosaic.md.

    Attributes:
        oneway_share: part of the budget for the one-way marginals.
        known_share: part of the shares for one-way marginals that is spent where discovery has counted the columns.
        small_rho: budgets below this (about epsilon 0.5) are small, except on tables of many rows. They skip larger
            sets, and pay for contrasts in place of counts: what sets add to columns, and these to the number of rows.
        fine: a budget from a tenth of `small_rho` on is not small if a set's typical noise is below this part of rows.
        small_total_share: part of a small budget for the number of rows.
        small_oneway_share: maximum part of a small budget for the one-way marginals.
        score_share: part of the budget for the errors of all pairs against independence.
        larger_share: part of the rest for sets of three and more columns with large errors in the first model.
        larger_score_share: part of the whole budget for scoring those.
        parity_share: part of the whole budget for parities of three and more columns, which show what pairs do not.
        order: maximum number of columns of a set that covers pairs.
        cells: its maximum number of cells if it has three and more.
        scoring_rounds: how often larger sets are scored, each time against the model of what was measured before.
        larger_order: maximum number of columns of a larger set.
        larger_cells: maximum number of cells of such a set.
        larger_candidates: how many of them are scored in a round.
        theta: an effective cell of a set of three and more columns holds theta times the typical noise on average.
        group_mass: cells of a set that are expected to hold less than this many stddevs are counted in groups.
        value_mass: values of a column with less than this many stddevs may be merged where contrasts are measured.
        caution: factor on the noise that the price rule expects.
        penalty: strength of the fit's penalty, in units of the noise.
        absolute_penalty: strength of the absolute penalty; see `WeightPenalty`.
        rank_penalty: strength of the absolute penalty on singular values of pairs, at budgets that are not small.
        small_single: factor on the penalty on single columns at small budgets, where it raises rare values too much.
        network_ms: size of the network that draws the rows, in predicted milliseconds per evaluation.
        support: maximum number of weighted rows at a time. Both grow on tables of many rows; `selection/steps.py`.
        renewals: maximum number of Gibbs renewals of the weighted rows.
        passes: passes over the rows that exchange them for better ones.
        target: a public name of a column to be predicted; sets that hold it are worth more. Others change nothing.
        target_worth: factor on the errors of sets that hold the target.
    """

    oneway_share: float = tuned(0.08)
    known_share: float = tuned(0.4, "docs/real_tables.md")
    small_rho: float = tuned(0.01)
    fine: float = tuned(0.002)
    small_total_share: float = tuned(0.05)
    small_oneway_share: float = tuned(0.4)
    score_share: float = tuned(0.04)
    larger_share: float = tuned(0.4)
    larger_score_share: float = tuned(0.03)
    parity_share: float = tuned(0.02)
    order: int = tuned(4)
    cells: int = tuned(256)
    scoring_rounds: int = tuned(2)
    larger_order: int = tuned(6)
    larger_cells: int = tuned(20_000)
    larger_candidates: int = tuned(100)
    theta: float = tuned(5.0)
    group_mass: float = tuned(1.0)
    value_mass: float = tuned(3.0)
    caution: float = tuned(0.8)
    penalty: float = tuned(0.5)
    absolute_penalty: float = tuned(0.3)
    rank_penalty: float = tuned(0.2)
    small_single: float = tuned(0.1)
    network_ms: float = tuned(2.0)
    support: int = tuned(150_000)
    renewals: int = tuned(6)
    passes: int = tuned(3)
    target: str | None = choice(None)
    target_worth: float = tuned(3.0, "docs/target.md")

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.score_share, self.larger_score_share)
        check_shares(self.small_total_share, self.small_oneway_share, self.score_share)
        check_shares(self.larger_share, self.parity_share)
        check_positive(
            caution=self.caution, penalty=self.penalty, network_ms=self.network_ms, support=self.support,
            larger_candidates=self.larger_candidates, scoring_rounds=self.scoring_rounds, theta=self.theta,
            target_worth=self.target_worth,
        )  # fmt: skip

    def informed(self, known: Sequence[NoisyMarginal]) -> Method:
        if not known:
            return self
        shares = {name: self.known_share * getattr(self, name) for name in ("oneway_share", "small_oneway_share")}
        shown = estimated_total(known) >= LARGER_SIGNAL * float(np.median([m.stddev for m in known]))
        return replace(self, **shares, larger_cells=self.larger_cells if shown else 0)

    def split(self, domain: Domain, rho: float) -> Split:
        pairs, note = len(scored_pairs(domain)), "counts of every column"
        columns, total, steps = len(domain), 0.0, list[Step]()
        if rho < self.small_rho:
            columns = len(active_columns(domain))
            total = rho * (self.small_total_share if columns else 1.0)
            steps.append(Step.number_of_rows(total))
        oneways = rho * self._oneway_share(domain, rho) if pairs else rho - total
        if self._may_be_fine(domain, rho):
            oneways = rho * self.oneway_share
        if columns:
            steps.append(Step(ONEWAYS, "gaussian", columns, oneways, note, Kind.COLUMNS))
        if not pairs:
            return Split(tuple(steps))
        scores = rho * self.score_share
        steps.append(Step.scores(PAIR_SCORES, pairs, "how far each pair is from independent", scores))
        priced = Step.sets(SETS, UNKNOWN, "counts of the sets worth their price")
        if rho < self.small_rho or not self._has_larger(domain):
            return Split.of(rho, *steps, rest=priced)
        priced = replace(priced, rho=(rho - total - oneways - scores) * (1 - self.larger_share))
        note = f"errors of larger sets (at most {self.larger_score_share:.0%} of rho) and parities, counts of the best"
        return Split.of(rho, *steps, priced, rest=Step.sets(LARGER, UNKNOWN, note))

    def _oneway_share(self, domain: Domain, rho: float) -> float:
        """Return the part for columns; for small budgets by their price against that of one typical set per column."""
        if rho >= self.small_rho:
            return self.oneway_share
        sizes = np.array([size for size in domain.sizes if size > 1])
        price = float(((sizes - 1) ** (2 / 3)).sum())
        return min(self.small_oneway_share, price / (price + len(sizes) * TYPICAL_CONTRASTS ** (2 / 3)))

    def _has_larger(self, domain: Domain) -> bool:
        """Return whether some set of three columns is small enough to be scored as a larger set."""
        sizes = sorted(size for size in domain.sizes if size > 1)[:3]
        return len(sizes) == 3 and math.prod(sizes) <= self.larger_cells

    def _may_be_fine(self, domain: Domain, rho: float) -> bool:
        """Return whether the noisy number of rows decides if this budget, below `small_rho`, is small."""
        return 0.1 * self.small_rho <= rho < self.small_rho and self._has_larger(domain)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho, whole = door.domain, door.remaining, float(door.budget.rho)
        typical = math.sqrt(TYPICAL_SETS / (2 * rho))
        progress("measuring every column", 0.02)
        counted = count_rows(door, split) if NUMBER_OF_ROWS in split else []
        may_be_fine = SETS in split and self._may_be_fine(domain, rho)
        small = bool(counted) and not (may_be_fine and typical < self.fine * estimated_total(counted))
        oneways = self._columns(door, split, estimated_total(counted) if small else None)
        total = estimated_total(counted if small else [*counted, *oneways])
        single = self.small_single if small else 1.0
        independent = fit(domain, oneways, total=total, single=single, zeros=model_zeros(door.schema))
        if SETS not in split:
            return independent
        progress("scoring every pair", 0.05)
        pairs = scored_pairs(domain)
        larger, later = (split.rho(LARGER), LARGER) if LARGER in split else (0.0, SETS)
        if counted and not small:
            larger = self.larger_share * (door.remaining - split.rho(PAIR_SCORES))
        related = measure_halves(door, independent, door.remaining - split.rho(PAIR_SCORES) - larger, step=SETS)
        found = PairScores.of(door, pairs, independent.marginals(pairs), split.rho(PAIR_SCORES), step=PAIR_SCORES)
        progress("pricing and measuring sets", 0.1)
        given = {field.name: getattr(self, field.name) for field in fields(SetPricing)}
        pricing = replace(SetPricing(**given), network_ms=growth(total) * self.network_ms)
        sets = PricedSets(pricing, door, independent, found, typical, related)
        sets.measure_first(door.remaining - larger, by_contrasts=small, step=SETS)
        sets.parities = Parities.of(door, independent, whole * self.parity_share, step=later) if larger else None
        for number in range(self.scoring_rounds if larger else 0):
            progress("scoring larger sets", 0.2 + 0.3 * number / self.scoring_rounds)
            model, score_rho = self._model(sets, oneways, FIRST_MODELS), whole * self.larger_score_share
            rest = door.remaining / (self.scoring_rounds - number)
            sets.measure_larger(model, rest, score_rho / self.scoring_rounds, rng, step=later)
        progress("fitting", 0.5)
        less_noise = max(1.0, math.sqrt(min(whole, MAX_FITTED_RHO) / 0.3))  # makes convergence slower
        settings = SupportSettings(
            max_rows=support_of(self.support, total, len(oneways) + len(sets.chosen)),
            renewals=self.renewals, ridge=self.penalty, single=single,
            l1=self.absolute_penalty, rank=0.0 if small else self.rank_penalty,
            exchange=ExchangeSettings(passes=self.passes), iterations=int(60 * less_noise),
        )  # fmt: skip
        return self._model(sets, oneways, settings)

    def _columns(self, door: GuardedTable, split: Split, total: float | None) -> list[NoisyMarginal]:
        """Return counts of every column, or its contrasts if the number of rows is given; more of them out of SETS."""
        if ONEWAYS not in split:
            return []
        first, sets = (split.rho(ONEWAYS), split.rho(SETS)) if SETS in split else (door.remaining, 0.0)
        if total is None:
            return columns_by_noise(door, first, MAX_TOP_UP * sets, step=ONEWAYS, more_step=SETS)
        whole = sum(step.rho for step in split.steps)
        more = whole * self._oneway_share(door.domain, whole) - first if sets else 0.0
        return contrasts_in_two(door, total, first, more, step=ONEWAYS, more_step=SETS)

    def _model(self, sets: PricedSets, oneways: Sequence[NoisyMarginal], settings: SupportSettings) -> ReweightedModel:
        """Return the network of the sets that fit together, with rows that are weighted to match all sets."""
        independent, single = sets.independent, settings.single
        max_rho = MAX_FITTED_RHO * max(1.0, MAX_FITTED_ROWS / max(1.0, independent.total)) ** 2
        noise_factor = math.sqrt(max(1.0, float(sets.door.budget.rho) / max_rho))
        measured = [replace(m, stddev=noise_factor * m.stddev) for m in (*oneways, *sets.chosen, *sets.likely_tables())]
        kept = [m for m in measured if len(m.attrs) == 1 or m.attrs in sets.inside.cliques]
        counted = any(m.contrasts is None for m in measured)
        total = estimated_total(measured) if counted else independent.total
        zeros, domain = {**sets.impossible(), **independent.zeros}, independent.domain
        network = fit(domain, kept, total=total, penalty=self.penalty, single=single, zeros=zeros)
        return ReweightedModel(network, measured, settings)
