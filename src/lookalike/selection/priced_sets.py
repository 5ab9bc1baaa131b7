"""Which column sets mosaic and PrivMRF measure: those that remove more error than their noise adds.

Both choose first by the errors of pairs, then by the errors of larger sets: mosaic among all sets (`PricedSets`),
PrivMRF among those inside the cliques of a graph (`CliqueSets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

import numpy as np

from lookalike.engine.cost import Limits
from lookalike.guards import MAX_LISTED_CANDIDATES, MAX_LISTED_CELLS, MAX_LISTED_PAIR_CELLS
from lookalike.measurements import NoisyMarginal, averaged
from lookalike.models.graphical import GraphicalModel
from lookalike.models.weighted_rows import ReweightedModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import GroupedResidualL1, ResidualL1
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.candidate_sets import Candidates, random_larger_sets, random_triples, useful_candidates
from lookalike.selection.determined import determined, impossible_cells, left_open, owned_pairs
from lookalike.selection.greedy_cover import GrownSets, ListedSets, MeasuredSets, SetLimits, greedy_cover
from lookalike.selection.grouping import effective_cells, halved_axis, halved_boxes
from lookalike.selection.halves import Related
from lookalike.selection.model_size import FittingSets, sets_that_fit, tree_first
from lookalike.selection.pair_selection import pair_matrix
from lookalike.selection.parities import Parities
from lookalike.selection.pricing import EffectiveCells, group_sums, useful_cells
from lookalike.selection.steps import EXPECTED_ABS, allocate, cell_groups, growth, measure_set_contrasts, scored_pairs

COARSE_CELLS, COARSE_THETA = 50_000, 16.0
"""Maximum number of cells of a triple that is counted in boxes because it has too many useful ones, and how many times
the typical noise a box holds on average; docs/laboratory/mosaic.md."""
SCORED_BOXES = 100
"""Boxes of equal mass in which the error of a coarse triple is scored: fewer than are measured, since what triples say
beyond pairs is mostly wide, and boxes take time."""
MAX_SCORE_NOISE, MAX_SCORED = 0.015, 1000
"""Coarse triples become candidates until the noise of a score is this part of the rows, or so many sets are scored,
a bound on the time of a round."""
_FORMS = 4
"""Ways in which a coarse triple of a table of many rows may be counted, each with a score of its own."""


@dataclass(frozen=True, slots=True)
class SetPricing:
    """Settings of `PricedSets`; `synthesizers.mosaic.Mosaic` says what each of them means."""

    order: int
    cells: int
    larger_order: int
    larger_cells: int
    larger_candidates: int
    theta: float
    group_mass: float
    value_mass: float
    caution: float
    network_ms: float
    target: str | None
    target_worth: float


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """Released distances of pairs from independence.

    Attributes:
        errors: symmetric matrix of noisy L1 distances in counts.
        stddev: their noise.
    """

    errors: np.ndarray
    stddev: float

    @classmethod
    def of(
        cls, door: GuardedTable, pairs: Sequence[ColumnSet], expected: Sequence[np.ndarray], rho: float, *, step: str
    ) -> Self:
        """Release the distances of these pairs from the expected counts, for rho in all."""
        score = ResidualL1(tuple(pairs), tuple(expected))
        stddev = door.score_stddev_for(score, rho)
        return cls(pair_matrix(door.domain, pairs, door.noisy_scores(score, stddev, step=step)), stddev)


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A column set that may be measured, and how.

    Attributes:
        attrs: the columns.
        table: their counts in the model so far.
        groups: the groups of cells in which the error is scored.
        cells: effective cells, or groups, which are what it costs.
        boxed: whether it is counted in no more boxes of equal mass than useful cells.
        halved: the axis of which only two halves are told apart; None for none.
        fixed: whether it is counted in the groups in which it is scored.
    """

    attrs: ColumnSet
    table: np.ndarray
    groups: np.ndarray
    cells: float
    boxed: bool = False
    halved: int | None = None
    fixed: bool = False


class PricedSets:
    """The column sets that mosaic has measured so far, and the choice of further ones by price.

    Attributes:
        chosen: noisy counts or contrasts of the sets.
        measured: the sets, with their weights and what was spent on each.
        inside: the sets that fit together into one network.
        parities: those that name candidates for larger sets, where they were measured.
    """

    def __init__(
        self,
        pricing: SetPricing,
        door: GuardedTable,
        independent: GraphicalModel,
        scores: PairScores,
        typical: float,
        related: Related | None = None,
    ) -> None:
        self.pricing, self.door, self.independent, self.errors = pricing, door, independent, scores.errors
        self.related, self.chosen = related, list[NoisyMarginal]()
        if related is not None:
            self.errors = related.pair_errors(scores.errors, scores.stddev, door.domain)
        self.measured, self._growth = MeasuredSets(), growth(independent.total)
        self.inside = FittingSets(door.domain, pricing.network_ms)
        columns = {name: independent.marginal((name,)) for name in door.domain.names}
        self._left = left_open(scores.errors, list(columns.values()), scores.stddev)
        self._owned = owned_pairs(self._left, door.domain)
        self._cells = EffectiveCells(columns, independent.total, typical, pricing.value_mass, door.schema.bins)
        self._useful = useful_cells(independent.total, self._cells.stddev, pricing.theta)
        self._coarse = max(2, int(useful_cells(independent.total, self._cells.stddev, COARSE_THETA)))
        self.parities: Parities | None = None

    def measure_first(self, rho: float, *, by_contrasts: bool, step: str) -> None:
        """Measure the sets that remove more error of pairs than their noise adds; spends rho."""
        pricing, door, independent = self.pricing, self.door, self.independent
        sets, shares = self._priced(rho, by_contrasts)
        if by_contrasts:
            masses = {"group_mass": pricing.group_mass, "value_mass": pricing.value_mass}
            self.chosen = measure_set_contrasts(door, independent, sets, shares, **masses, step=step)
        else:
            noise = [door.stddev_for(share) for share in shares]
            found = cell_groups(independent.marginals(sets), noise, pricing.group_mass)
            groups = [None if attrs in self._owned else group for attrs, group in zip(sets, found, strict=True)]
            self.chosen = door.measure(sets, noise, step=step, groups=groups)
        self.measured = MeasuredSets(sets, self._cells.weights(sets) * self._precision(sets), shares)
        self.inside.offer(tree_first([*sets, *self._likely_pairs()], self.errors, door.domain))

    def _likely_pairs(self) -> list[ColumnSet]:
        """Return the pairs whose likely table tells more than the chosen sets, the most dependent first."""
        return [] if self.related is None else self.related.unseen_in(self.chosen)

    def likely_tables(self) -> list[NoisyMarginal]:
        """Return the likely tables of pairs of which the chosen sets tell less."""
        if self.related is None:
            return []
        wanted = set(self._likely_pairs())
        return [table for table in self.related.tables() if table.attrs in wanted]

    def impossible(self) -> dict[ColumnSet, np.ndarray]:
        """Return the cells of measured pairs that cannot occur where one column determines the other.

        Columns of the schema's own rules are left alone: noise must not contradict a rule.
        """
        ruled = {name for attrs in self.independent.zeros for name in attrs}
        usable = [m for m in self.chosen if m.contrasts is None and m.attrs in self.inside.cliques]
        counted = {m.attrs: m for m in usable if not ruled.intersection(m.attrs)}
        return {pair: impossible_cells(counted[pair], axis) for pair, axis in self._owned.items() if pair in counted}

    def _priced(self, rho: float, by_contrasts: bool) -> tuple[list[ColumnSet], np.ndarray]:
        """Return the sets worth measuring and the rho of each; where no error is positive, all pairs."""
        domain, pricing = self.door.domain, self.pricing
        limits = SetLimits(pricing.order, pricing.cells, self._useful)
        grown = GrownSets(domain, self.errors * self._worth, self._cells, limits, self._left, by_contrasts)
        chosen, weights = greedy_cover(grown, rho, pricing.caution, at_least_one=True)
        if chosen:
            sets = [grown.names(key) for key in chosen]
            weights = weights * self._precision(sets)
            return sets, rho * (weights / weights.sum())
        pairs = scored_pairs(domain)
        return pairs, allocate([domain.cells(pair) for pair in pairs], rho)

    def measure_larger(
        self, model: ReweightedModel, rho: float, score_rho: float, rng: np.random.Generator, *, step: str
    ) -> None:
        """Measure larger sets whose error in the model exceeds their noise, and earlier sets once more.

        Spends rho in all, of which at most `score_rho` on the errors of candidates.
        """
        door, measured = self.door, self.measured
        kept, known = door.remaining - rho, len(measured.cliques)
        unexplained = self._unexplained(model)
        sets = [*unexplained, *self._larger_candidates(score_rho, rng, unexplained)]
        tables = model.marginals(sets)
        forms = list(chain.from_iterable(map(self._forms, sets, tables)))
        forms += chain.from_iterable(map(self._in_halves, unexplained, tables))
        prices, worth, offered = np.zeros(0), list[int](), [form.attrs for form in forms]
        if forms:
            found, precision = self._scored(forms, score_rho, step=step), self._precision(offered)
            if self._growth > 1:
                sampled = np.array([_sampling_error(model, form) for form in forms])
                found = np.sqrt(np.maximum(found**2 - sampled**2, 0.0)) * (found > 0)
            prices = np.array([form.cells for form in forms]) ** (2 / 3)
            worth = measured.worth_adding(
                offered, found * precision**1.5, prices, door.remaining - kept, self.pricing.caution
            )
            prices = prices * precision
        now, shares = measured.topped_up([offered[i] for i in worth], prices[worth], door.remaining - kept)
        noise = [door.stddev_for(share) for share in shares]
        groups, chosen = {m.attrs: m.groups for m in self.chosen}, {forms[i].attrs: forms[i] for i in worth}
        for attrs, stddev in zip(now, noise, strict=True):
            if attrs not in groups:
                groups[attrs] = self._counted_groups(chosen[attrs], stddev)
        larger = door.measure(now, noise, step=step, groups=[groups[attrs] for attrs in now])
        self.chosen = averaged([*self.chosen, *larger])
        self.inside.offer(measured.cliques[known:])

    def _forms(self, attrs: ColumnSet, table: np.ndarray) -> list[_Form]:
        """Return the ways to count a set: each cell; a coarse one in boxes, or (many rows) with one column halved."""
        stddev, whole = self._cells.stddev, effective_cells(table, self._cells.stddev)
        if not self._is_coarse(attrs):
            return [_Form(attrs, table, _numbered(table), whole)]
        forms = [_Form(attrs, table, halved_boxes(table, SCORED_BOXES), min(whole, self._coarse), boxed=True)]
        for axis in range(table.ndim if self._growth > 1 else 0):
            counts, halves = halved_axis(table, axis)
            if (cells := effective_cells(counts, stddev)) <= self._useful:
                seen = counts >= stddev  # the other cells are one group in the score
                groups = np.where(seen, np.cumsum(seen).reshape(seen.shape), 0)
                forms.append(_Form(attrs, table, np.take(groups, halves, axis=axis), cells, halved=axis))
        return forms

    def _unexplained(self, model: ReweightedModel) -> list[ColumnSet]:
        """Return the sets that parities show and no measured set holds."""
        known = [set(clique) for clique in self.measured.cliques]
        found = [] if self.parities is None else self.parities.unexplained(model)
        return [attrs for attrs in found if not any(clique.issuperset(attrs) for clique in known)]

    def _in_halves(self, attrs: ColumnSet, table: np.ndarray) -> list[_Form]:
        """Return the way to count only the halves of all columns of a set, which is what showed it; none if binary."""
        halves = None if self.parities is None else self.parities.table(attrs).groups
        return [] if halves is None else [_Form(attrs, table, halves, 2.0 ** len(attrs), fixed=True)]

    def _counted_groups(self, form: _Form, stddev: float) -> np.ndarray | None:
        """Return the groups of cells in which a set is counted with this noise; None for every cell by itself."""
        mass = self.pricing.group_mass
        if form.fixed:
            return form.groups
        if form.halved is not None:
            counts, halves = halved_axis(form.table, form.halved)
            groups = cell_groups([counts], [stddev], mass)[0]
            return np.take(_numbered(counts) if groups is None else groups, halves, axis=form.halved)
        groups = cell_groups([form.table], [stddev], mass)[0]
        number = form.table.size if groups is None else int(groups.max()) + 1
        return halved_boxes(form.table, self._coarse) if form.boxed and number > self._coarse else groups

    def _scored(self, forms: Sequence[_Form], rho: float, *, step: str) -> np.ndarray:
        """Release the distances of sets from a model's tables, in the groups of their forms, for rho in all."""
        sums = [group_sums(form.table, form.groups, int(form.groups.max()) + 1) for form in forms]
        score = GroupedResidualL1(tuple(f.attrs for f in forms), tuple(sums), tuple(f.groups for f in forms))
        return self.door.noisy_scores(score, self.door.score_stddev_for(score, rho), step=step)

    def _is_coarse(self, attrs: ColumnSet) -> bool:
        """Return whether a set has too many cells to be measured one by one."""
        return self.door.domain.cells(attrs) > self.pricing.larger_cells or self._cells(attrs) > self._useful

    def _larger_candidates(
        self, score_rho: float, rng: np.random.Generator, offered: Sequence[ColumnSet]
    ) -> list[ColumnSet]:
        """Return sets of three and more columns that no measured or offered set holds.

        None of their columns determines another. Some are random, grown along large errors of pairs. Triples of too
        many cells are candidates, too, to be measured in boxes, as far as the noise of so many scores allows; of
        columns that no other determines.
        """
        pricing, domain, follows = self.pricing, self.door.domain, determined(self._left)
        apart = ~(follows | follows.T)

        def fits(clique: ColumnSet) -> bool:
            places = [domain.position(name) for name in clique]
            return not self._is_coarse(clique) and bool(apart[np.ix_(places, places)].all())

        errors = np.where(apart, self.errors * self._worth, 0.0)
        covered = [*self.measured.cliques, *offered]
        limits = {"max_attrs": pricing.larger_order, "max_sets": max(0, pricing.larger_candidates - len(offered))}
        grown = random_larger_sets(domain, errors, covered, fits, rng, **limits)
        if not pricing.group_mass:  # every cell is counted
            return grown
        known = [*covered, *grown]
        noise_of_one = self.door.stddev_for(score_rho) / max(self.independent.total, 1.0)
        room = int(min((MAX_SCORE_NOISE / noise_of_one) ** 2, MAX_SCORED)) - len(grown)
        room //= _FORMS if self._growth > 1 else 1
        limits = {"min_cells": min(self._useful, pricing.larger_cells), "max_cells": self._growth * COARSE_CELLS}
        alone = ~np.any(follows, axis=0) & (np.array(domain.sizes) > 1)
        free = apart & np.outer(alone, alone)
        triples = random_triples(domain, free, known, self._is_coarse, rng, max_sets=room, **limits)
        return [*grown, *triples]

    @property
    def _worth(self) -> np.ndarray:
        """What errors of pairs are worth: more for those that hold the target."""
        worth, names = np.ones_like(self.errors), self.door.domain.names
        if self.pricing.target in names:
            place = names.index(self.pricing.target)
            worth[place] = worth[:, place] = self.pricing.target_worth
        return worth

    def _precision(self, sets: Sequence[ColumnSet]) -> np.ndarray:
        """What the share of each set is multiplied by: worth^(2/3), which has the least expected error by worth."""
        factor = self.pricing.target_worth ** (2 / 3)
        return np.array([factor if self.pricing.target in attrs else 1.0 for attrs in sets])


def _sampling_error(model: ReweightedModel, form: _Form) -> float:
    """Return the L1 distance from the counts of a set that a model of finitely many rows has by chance."""
    variances = group_sums(model.variance(form.attrs), form.groups, int(form.groups.max()) + 1)
    return EXPECTED_ABS * float(np.sqrt(variances).sum())


def _numbered(table: np.ndarray) -> np.ndarray:
    """Return a group of its own for every cell."""
    return np.arange(table.size).reshape(table.shape)


@dataclass(slots=True)
class CliqueSets:
    """The column sets that PrivMRF chooses inside the cliques of a graph: the first ones, and further ones in batches.

    Attributes:
        domain: names and sizes of the columns.
        cells: effective cells of a set.
        caution: factor on the expected noise.
        limits: predicted time and memory that the model of all measured sets may take.
        max_attrs: maximum number of columns of a set.
        max_cells: maximum effective cells of a set of three or more columns; see `pricing.useful_cells`.
        measured: the sets measured so far.
    """

    domain: Domain
    cells: EffectiveCells
    caution: float
    limits: Limits
    max_attrs: int
    max_cells: float
    measured: MeasuredSets = field(default_factory=MeasuredSets)

    def first(
        self,
        cliques: Sequence[ColumnSet],
        pairs: Sequence[ColumnSet],
        errors: np.ndarray,
        rho: float,
        rng: np.random.Generator,
    ) -> list[ColumnSet]:
        """Return the sets inside the cliques that cover the most error of pairs per weight and fit the model."""
        candidates, weights = self._candidates(cliques, 2, rng)
        offers = ListedSets(candidates, weights, pair_matrix(self.domain, pairs, errors))
        picked, _ = greedy_cover(offers, rho, self.caution)
        return sets_that_fit(self.domain, [], candidates.cliques(picked), self.limits)

    def sample(self, cliques: Sequence[ColumnSet], size: int, rng: np.random.Generator) -> list[ColumnSet]:
        """Return random sets inside the cliques, of three or more columns, that are not measured yet."""
        candidates, _ = self._candidates(cliques, 3, rng)
        chosen = rng.choice(len(candidates), min(size, len(candidates)), replace=False)
        known = set(self.measured.cliques)
        return [clique for clique in candidates.cliques(chosen) if clique not in known]

    def further(
        self, sample: Sequence[ColumnSet], references: Sequence[np.ndarray], errors: np.ndarray, rho: float
    ) -> list[ColumnSet]:
        """Return the sets of the sample that are worth measuring, with weights by the present model's counts."""
        weights = np.array([effective_cells(table, self.cells.stddev) for table in references]) ** (2 / 3)
        chosen = [sample[i] for i in self.measured.worth_adding(sample, errors, weights, rho, self.caution)]
        return sets_that_fit(self.domain, self.measured.cliques, chosen, self.limits)

    def _candidates(
        self, cliques: Sequence[ColumnSet], min_attrs: int, rng: np.random.Generator
    ) -> tuple[Candidates, np.ndarray]:
        """Return the sets within the limits, and their weights. Pairs may have any number of effective cells."""
        found = useful_candidates(
            self.domain, cliques, MAX_LISTED_PAIR_CELLS, rng, min_attrs=min_attrs,
            max_attrs=self.max_attrs, max_sets=MAX_LISTED_CANDIDATES,
        )  # fmt: skip
        found = found.where((found.cells <= MAX_LISTED_CELLS) | (found.members.sum(axis=1) == 2))
        weights = self.cells.weights(found.cliques(range(len(found))))
        fits = (weights**1.5 <= self.max_cells) | (found.members.sum(axis=1) == 2)
        return found.where(fits), weights[fits]
