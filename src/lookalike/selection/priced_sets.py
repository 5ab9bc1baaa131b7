"""Which column sets are measured, by the price of their noise: by errors of pairs, then by errors of larger sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookalike.measurements.marginals import NoisyMarginal, averaged
from lookalike.models.graphical import GraphicalModel
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.domain import ColumnSet
from lookalike.selection.allocation import allocate, effective_cells
from lookalike.selection.candidate_sets import random_larger_sets
from lookalike.selection.columns import cell_groups, measure_set_contrasts, score_sets, scored_pairs
from lookalike.selection.greedy_cover import GrownSets, MeasuredSets, SetLimits, greedy_cover
from lookalike.selection.model_size import FittingSets, tree_first
from lookalike.selection.pricing import EffectiveCells, useful_cells


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


class PricedSets:
    """The column sets measured so far, and the choice of further ones by price.

    Attributes:
        chosen: their noisy counts, or contrasts.
        measured: the sets, with prices and what was spent on each.
        inside: those that fit together into one network.
    """

    def __init__(
        self, pricing: SetPricing, door: GuardedTable, independent: GraphicalModel, errors: np.ndarray, typical: float
    ) -> None:
        self.pricing, self.door, self.independent, self.errors = pricing, door, independent, errors
        self.chosen: list[NoisyMarginal] = []
        self.measured = MeasuredSets()
        self.inside = FittingSets(door.domain, pricing.network_ms)
        columns = {name: independent.marginal((name,)) for name in door.domain.names}
        self._cells = EffectiveCells(columns, independent.total, typical, pricing.value_mass)
        self._useful = useful_cells(independent.total, self._cells.stddev, pricing.theta)

    def measure_first(self, rho: float, *, by_contrasts: bool, step: str) -> None:
        """Measure the sets that cover large errors of pairs at less than their price."""
        pricing, door, independent = self.pricing, self.door, self.independent
        sets, shares = self._priced(rho, by_contrasts)
        if by_contrasts:
            masses = {"group_mass": pricing.group_mass, "value_mass": pricing.value_mass}
            self.chosen = measure_set_contrasts(door, independent, sets, shares, **masses, step=step)
        else:
            noise = [door.stddev_for(share) for share in shares]
            groups = cell_groups(independent.marginals(sets), noise, pricing.group_mass)
            self.chosen = door.measure(sets, noise, step=step, groups=groups)
        self.measured = MeasuredSets(sets, self._cells.weights(sets), shares)
        self.inside.offer(tree_first(sets, self.errors, door.domain))

    def _priced(self, rho: float, by_contrasts: bool) -> tuple[list[ColumnSet], np.ndarray]:
        """The sets worth their price and the rho of each; where no error is positive, all pairs."""
        domain, pricing = self.door.domain, self.pricing
        limits = SetLimits(pricing.order, pricing.cells, self._useful)
        grown = GrownSets(domain, self.errors, self._cells, limits, by_contrasts)
        chosen, weights = greedy_cover(grown, rho, pricing.caution, at_least_one=True)
        if chosen:
            return [grown.names(key) for key in chosen], rho * (weights / weights.sum())
        pairs = scored_pairs(domain)
        return pairs, allocate([domain.cells(pair) for pair in pairs], rho)

    def measure_larger(
        self, model: Model, rho: float, score_rho: float, rng: np.random.Generator, *, step: str
    ) -> None:
        """Measure larger sets that the model gets wrong by more than their noise, and more of the sets before.

        Spends rho in all, of which at most `score_rho` on the errors of candidates.
        """
        pricing, door, measured = self.pricing, self.door, self.measured
        kept, known = door.remaining - rho, len(measured.cliques)

        def fits(clique: ColumnSet) -> bool:
            return door.domain.cells(clique) <= pricing.larger_cells and self._cells(clique) <= self._useful

        limits = {"max_attrs": pricing.larger_order, "max_sets": pricing.larger_candidates}
        sets = random_larger_sets(door.domain, self.errors, measured.cliques, fits, rng, **limits)
        prices, worth, references = np.zeros(0), list[int](), model.marginals(sets)
        if sets:
            found = score_sets(door, sets, references, score_rho, step=step)
            prices = np.array([effective_cells(table, self._cells.stddev) for table in references]) ** (2 / 3)
            worth = measured.worth_adding(sets, found, prices, door.remaining - kept, pricing.caution)
        now, shares = measured.topped_up([sets[i] for i in worth], prices[worth], door.remaining - kept)
        noise = [door.stddev_for(share) for share in shares]
        groups = {m.attrs: m.groups for m in self.chosen}
        tables = dict(zip(sets, references, strict=True))
        for attrs, stddev in zip(now, noise, strict=True):
            if attrs not in groups:
                groups[attrs] = cell_groups([tables[attrs]], [stddev], pricing.group_mass)[0]
        larger = door.measure(now, noise, step=step, groups=[groups[attrs] for attrs in now])
        self.chosen = averaged([*self.chosen, *larger])
        self.inside.offer(measured.cliques[known:])
