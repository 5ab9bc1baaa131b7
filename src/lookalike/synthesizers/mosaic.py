"""Mosaic: the pieces worth their price, whether or not they fit one network, laid into one table. Our own method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from lookalike.estimate import GraphicalModel, fit
from lookalike.generate.exchange import ExchangeSettings
from lookalike.generate.model import Model
from lookalike.generate.reweighted import ReweightedModel, SupportSettings
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.cover import MeasuredSets
from lookalike.select.larger_sets import candidate_sets
from lookalike.select.measured_cover import pair_matrix
from lookalike.select.model_size import model_zeros
from lookalike.select.network_sets import FittingSets, tree_first
from lookalike.select.partition import counted_table, seen_groups
from lookalike.select.price import CoverSearch, EffectiveCells, SetLimits
from lookalike.select.useful import useful_cells
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, method, tuned
from lookalike.synthesizers.split import NUMBER_OF_ROWS, ONEWAYS, PAIR_SCORES, UNKNOWN, Kind, Split, Step
from lookalike.tables.contrasts import CellTable
from lookalike.tables.measurement import NoisyMarginal, averaged, completed, estimated_total

SETS, LARGER = "chosen sets", "larger sets and their choice"

_SCORED_CELLS = 20_000_000
_SHARPEST_RHO = 0.5
"""About epsilon 4.5. Counts of larger budgets are fitted as if they had the noise of this one: with less, the weights
of a finite number of rows do not converge."""
_TYPICAL_SETS = 25
_TYPICAL_CONTRASTS = 6
_FIRST_LOOK = SupportSettings(most_rows=60_000, iterations=40)


@method(
    "mosaic",
    title="Mosaic",
    paper="our own; docs/mosaic.md",
    good_for="almost everything: the lowest error on our benchmark tables or close to it, in seconds",
    corrected="nothing to correct; all noise is Gaussian, so the exact curve applies",
    page="docs/mosaic.md",
    sets_per_column=3.0,
    rank=10,
)
class Mosaic(Method):
    """Counts of every column, one noisy look at all pairs, and one price that decides what is measured how precisely.

    Nothing that is worth measuring is left out because it does not fit a graphical model: the sets that fit draw rows,
    weights make the rows match all sets, and rows are chosen so that small marginals come out right; docs/mosaic.md.

    Attributes:
        oneway_share: part of the budget for the one-way marginals.
        small_rho: budgets below this (about epsilon 0.5) are small. They skip the larger sets, and measure contrasts
            instead of counts: columns beyond the number of rows, sets beyond their columns.
        small_total_share: part of a small budget for the number of rows.
        small_oneway_share: most of it for the one-way marginals, which are uncertain too.
        score_share: part for the errors of all pairs against independence.
        larger_share: part of the rest for sets of three and more attributes that the first model gets wrong.
        larger_score_share: part of the whole for scoring those.
        order: most attributes of a set that covers pairs.
        cells: most cells of such a set of three and more.
        looks: how often larger sets are looked for, each time against the model of what was measured before.
        larger_order: most attributes of a larger set.
        larger_cells: most cells of such a set.
        larger_candidates: how many of them are scored in a look.
        theta: sets of three and more columns have theta times the typical noise in an effective cell on average.
        group_mass: cells of a set that are expected to hold less than this many stddevs are counted in groups.
        value_mass: values of a column with less than this many stddevs may share a place where contrasts are measured.
        caution: factor on the noise that the price rule expects.
        penalty: strength of the fit's penalty, in units of the noise.
        line: strength of the absolute penalty; see `WeightPenalty`.
        small_single: part of the penalty on single columns at small budgets, where it would raise rare values a lot.
        network_ms: size of the network that draws the rows, in predicted milliseconds per evaluation.
        support: most weighted rows at a time.
        renewals: Gibbs renewals of the weighted rows.
        passes: passes over the rows that exchange them for better ones.
    """

    oneway_share: float = tuned(0.08)
    small_rho: float = tuned(0.01)
    small_total_share: float = tuned(0.05)
    small_oneway_share: float = tuned(0.4)
    score_share: float = tuned(0.04)
    larger_share: float = tuned(0.4)
    larger_score_share: float = tuned(0.03)
    order: int = tuned(4)
    cells: int = tuned(256)
    looks: int = tuned(2)
    larger_order: int = tuned(6)
    larger_cells: int = tuned(20_000)
    larger_candidates: int = tuned(100)
    theta: float = tuned(5.0)
    group_mass: float = tuned(1.0)
    value_mass: float = tuned(3.0)
    caution: float = tuned(0.8)
    penalty: float = tuned(0.5)
    line: float = tuned(0.3)
    small_single: float = tuned(0.1)
    network_ms: float = tuned(2.0)
    support: int = tuned(150_000)
    renewals: int = tuned(1)
    passes: int = tuned(3)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share, self.score_share, self.larger_score_share)
        check_shares(self.small_total_share, self.small_oneway_share, self.score_share)
        check_shares(self.larger_share)
        check_positive(
            caution=self.caution, penalty=self.penalty, network_ms=self.network_ms, support=self.support,
            larger_candidates=self.larger_candidates, looks=self.looks, theta=self.theta,
        )  # fmt: skip

    def split(self, domain: Domain, rho: float) -> Split:
        pairs = len(scored_pairs(domain))
        columns = _columns(domain) if self._small(rho) else list(domain.names)
        total = rho * self._total_share(domain, rho)
        steps = [Step.number_of_rows(total)] if total else []
        oneways = rho * self._oneway_share(domain, rho) if pairs else rho - total
        if columns:
            steps.append(Step(ONEWAYS, "gaussian", len(columns), oneways, "counts of every column", Kind.COLUMNS))
        if not pairs:
            return Split(tuple(steps))
        scores = rho * self.score_share
        steps.append(Step.scores(PAIR_SCORES, pairs, "how far each pair is from independent", scores))
        priced = Step.sets(SETS, UNKNOWN, "counts of the sets worth their price")
        if not self._looks_twice(domain, rho):
            return Split.of(rho, *steps, rest=priced)
        priced = replace(priced, rho=(rho - total - oneways - scores) * (1 - self.larger_share))
        note = f"errors of larger sets (at most {self.larger_score_share:.0%} of the budget), counts of those worth it"
        return Split.of(rho, *steps, priced, rest=Step.sets(LARGER, UNKNOWN, note))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho, pairs = door.domain, door.remaining, scored_pairs(door.domain)
        small = self._small(float(door.budget.rho))
        progress("measuring every column", 0.02)
        oneways, total = (self._column_contrasts if small else self._column_counts)(door, bool(pairs))
        single = self.small_single if small else 1.0
        independent = fit(domain, oneways, total=total, single=single, zeros=model_zeros(door.schema))
        if not pairs:
            return independent
        progress("scoring every pair", 0.05)
        score = ResidualL1(tuple(pairs), tuple(independent.marginals(pairs)))
        found = door.noisy_scores(score, door.score_stddev_for(score, rho * self.score_share), step=PAIR_SCORES)
        errors = pair_matrix(domain, pairs, found)
        progress("pricing and measuring sets", 0.1)
        twice = self._looks_twice(domain, float(door.budget.rho))
        first_rho = door.remaining * (1 - self.larger_share) if twice else door.remaining
        cells = self._effective_cells(independent, rho)
        useful = useful_cells(independent.total, cells.stddev, self.theta)
        sets, shares = self._priced_sets(domain, errors, cells, useful, first_rho, by_contrasts=small)
        expected = independent.marginals(sets)
        if small:
            chosen = self._measure_contrasts(door, independent, sets, expected, shares)
        else:
            noise = [door.stddev_for(share) for share in shares]
            chosen = door.measure(sets, noise, step=SETS, groups=self._groups(expected, noise))
        measured = MeasuredSets(sets, np.array([cells(attrs) ** (2 / 3) for attrs in sets]), shares)
        inside = FittingSets(domain, self.network_ms)
        inside.offer(tree_first(sets, errors, domain))
        blur = math.sqrt(max(1.0, float(door.budget.rho) / _SHARPEST_RHO))
        for look in range(self.looks if twice else 0):
            progress("looking for larger sets", 0.2 + 0.3 * look / self.looks)
            model = self._model(independent, oneways, chosen, inside, _FIRST_LOOK, blur)
            known, spend = len(measured.cliques), door.remaining / (self.looks - look)
            groups = {m.attrs: m.groups for m in chosen}
            larger = self._measure_larger(door, model, errors, cells, useful, measured, groups, spend, rng)
            chosen = averaged([*chosen, *larger])
            inside.offer(measured.cliques[known:])
        progress("fitting", 0.5)
        exchange = ExchangeSettings(passes=self.passes)
        settings = SupportSettings(
            most_rows=self.support, renewals=self.renewals, ridge=self.penalty, line=self.line, exchange=exchange,
            single=single, iterations=_iterations(min(float(door.budget.rho), _SHARPEST_RHO)),
        )  # fmt: skip
        return self._model(independent, oneways, chosen, inside, settings, blur)

    def _small(self, rho: float) -> bool:
        return rho < self.small_rho

    def _column_counts(self, door: GuardedTable, more: bool) -> tuple[list[NoisyMarginal], float]:
        """Counts of every column, and the number of rows by all of them; for all of rho unless there is `more`."""
        part = self._oneway_share(door.domain, float(door.budget.rho)) if more else 1.0
        shares = allocate(door.domain.sizes, part * door.remaining)
        cliques = [(name,) for name in door.domain.names]
        oneways = door.measure(cliques, [door.stddev_for(share) for share in shares], step=ONEWAYS)
        return oneways, estimated_total(oneways)

    def _column_contrasts(self, door: GuardedTable, more: bool) -> tuple[list[NoisyMarginal], float]:
        """The number of rows first, then what every column of two or more values says beyond it."""
        domain, rho, budget = door.domain, door.remaining, float(door.budget.rho)
        (found,) = door.measure([()], door.stddev_for(rho * self._total_share(domain, budget)), step=NUMBER_OF_ROWS)
        tables, total = (
            [CellTable((name,), domain.shape((name,))) for name in _columns(domain)],
            estimated_total([found]),
        )
        if not tables:
            return [], total
        part = rho * self._oneway_share(domain, budget) if more else door.remaining
        shares = allocate([table.contrasts.dimensions for table in tables], part)
        noise = [door.stddev_for(share, table=table) for table, share in zip(tables, shares, strict=True)]
        measured = door.measure_contrasts(tables, noise, step=ONEWAYS)
        return [completed(m, np.full(m.cells, total / m.cells)) for m in measured], total

    def _total_share(self, domain: Domain, rho: float) -> float:
        """At small budgets the number of rows is measured apart; where no column says anything, nothing else is."""
        if not self._small(rho):
            return 0.0
        return self.small_total_share if _columns(domain) else 1.0

    def _oneway_share(self, domain: Domain, rho: float) -> float:
        """At small budgets by the price of single columns against that of one set of a useful size for each."""
        if not self._small(rho):
            return self.oneway_share
        sizes = np.array([size for size in domain.sizes if size > 1])
        price = float(((sizes - 1) ** (2 / 3)).sum())
        return min(self.small_oneway_share, price / (price + len(sizes) * _TYPICAL_CONTRASTS ** (2 / 3)))

    def _looks_twice(self, domain: Domain, rho: float) -> bool:
        """Whether the budget affords a second look and some set of three attributes is small enough; public facts."""
        if self._small(rho):
            return False
        sizes = sorted(size for size in domain.sizes if size > 1)[:3]
        return len(sizes) == 3 and math.prod(sizes) <= self.larger_cells

    def _effective_cells(self, independent: GraphicalModel, rho: float) -> EffectiveCells:
        oneways = {name: independent.marginal((name,)) for name in independent.domain.names}
        typical = math.sqrt(_TYPICAL_SETS / (2 * rho))
        return EffectiveCells(independent.domain, oneways, independent.total, typical, self.value_mass)

    def _priced_sets(
        self,
        domain: Domain,
        errors: np.ndarray,
        cells: EffectiveCells,
        useful: float,
        rho: float,
        *,
        by_contrasts: bool,
    ) -> tuple[list[Clique], np.ndarray]:
        """The sets that cover large errors of pairs at less than their price; where no error is positive, all pairs."""
        limits = SetLimits(self.order, self.cells, useful)
        priced = CoverSearch(domain, errors, cells, limits, self.caution, by_contrasts).at_budget(rho)
        if priced.cliques:
            return [domain.canonical(clique) for clique in priced.cliques], rho * priced.shares
        pairs = scored_pairs(domain)
        return pairs, allocate([domain.cells(pair) for pair in pairs], rho)

    def _measure_contrasts(
        self,
        door: GuardedTable,
        independent: GraphicalModel,
        sets: Sequence[Clique],
        expected: Sequence[np.ndarray],
        shares: np.ndarray,
    ) -> list[NoisyMarginal]:
        """What the sets say beyond their columns, for a share of rho each; the rest as the independent model has it."""
        columns = {name: independent.marginal((name,)) for name in independent.domain.names}
        tables: list[CellTable] = []
        for attrs, counts, share in zip(sets, expected, shares, strict=True):
            typical, own = door.stddev_for(share), [columns[name] for name in attrs]
            tables.append(counted_table(attrs, counts, own, self.group_mass * typical, self.value_mass * typical))
        noise = [door.stddev_for(share, table=table) for table, share in zip(tables, shares, strict=True)]
        measured = door.measure_contrasts(tables, noise, step=SETS)
        return [completed(m, counts) for m, counts in zip(measured, expected, strict=True)]

    def _measure_larger(
        self,
        door: GuardedTable,
        model: Model,
        errors: np.ndarray,
        cells: EffectiveCells,
        useful: float,
        measured: MeasuredSets,
        groups: Mapping[Clique, np.ndarray | None],
        rho: float,
        rng: np.random.Generator,
    ) -> list[NoisyMarginal]:
        """Larger sets that the model gets wrong by more than their noise, and more of what was measured before."""
        kept = door.remaining - rho

        def fits(clique: Clique) -> bool:
            return door.domain.cells(clique) <= self.larger_cells and cells(clique) <= useful

        limits = {"order": self.larger_order, "most": self.larger_candidates}
        sets = candidate_sets(door.domain, errors, measured.cliques, fits, rng, **limits)
        prices, worth, references = np.zeros(0), list[int](), model.marginals(sets)
        if sets:
            score = ResidualL1(tuple(sets), tuple(references))
            noise = door.score_stddev_for(score, float(door.budget.rho) * self.larger_score_share / self.looks)
            found = door.noisy_scores(score, noise, step=LARGER)
            prices = np.array([cells.of_counts(table) for table in references]) ** (2 / 3)
            worth = measured.worth_adding(sets, found, prices, door.remaining - kept, self.caution)
        now, shares = measured.topped_up([sets[i] for i in worth], prices[worth], door.remaining - kept)
        noise = [door.stddev_for(share) for share in shares]
        new = {attrs: table for attrs, table in zip(sets, references, strict=True) if attrs not in groups}
        own = [groups[a] if a in groups else self._groups([new[a]], [s])[0] for a, s in zip(now, noise, strict=True)]
        return door.measure(now, noise, step=LARGER, groups=own)

    def _groups(self, tables: Sequence[np.ndarray], noise: Sequence[float]) -> list[np.ndarray | None]:
        """For each set the groups in which its cells are counted, from counts that everybody may know."""
        if not self.group_mass:
            return [None] * len(tables)
        return [seen_groups(table, self.group_mass * sigma) for table, sigma in zip(tables, noise, strict=True)]

    def _model(
        self,
        independent: GraphicalModel,
        oneways: Sequence[NoisyMarginal],
        chosen: Sequence[NoisyMarginal],
        inside: FittingSets,
        settings: SupportSettings,
        blur: float,
    ) -> ReweightedModel:
        """The network of the sets that fit together, and weighted rows for all of them, at `blur` times the noise."""
        domain, zeros = independent.domain, independent.zeros
        measured = [replace(m, stddev=blur * m.stddev) for m in (*oneways, *chosen)]
        kept = [m for m in measured if len(m.attrs) == 1 or m.attrs in inside.cliques]
        counted = any(m.contrasts is None for m in measured)
        total = estimated_total(measured) if counted else independent.total
        network = fit(domain, kept, total=total, penalty=self.penalty, single=settings.single, zeros=zeros)
        return ReweightedModel(network, measured, settings)


def _columns(domain: Domain) -> list[str]:
    """The columns with two or more values: of the others nothing can be measured."""
    return [name for name, size in zip(domain.names, domain.sizes, strict=True) if size > 1]


def scored_pairs(domain: Domain) -> list[Clique]:
    """All pairs of columns with two or more values, fewest cells first, as far as they can be counted in memory."""
    pairs = sorted(combinations(_columns(domain), 2), key=domain.cells)
    within = int(np.searchsorted(np.cumsum([domain.cells(pair) for pair in pairs]), _SCORED_CELLS, side="right"))
    return pairs[:within]


def _iterations(rho: float) -> int:
    """Steps of the weights' fit. The less noise, the worse the problem's condition.

    >>> [_iterations(rho) for rho in (0.03, 0.4, 0.5)]
    [60, 69, 77]
    """
    return int(60 * max(1.0, math.sqrt(rho / 0.3)))
