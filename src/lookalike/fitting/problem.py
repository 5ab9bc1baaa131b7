"""The estimation problem: noisy marginals turned into flat vectors over one network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lookalike.engine.contraction import ExecutorName, Network, flat_potentials
from lookalike.engine.cost import DEFAULT_LIMITS, Limits, plan_cost
from lookalike.engine.extension import extend_plan
from lookalike.engine.plan import ContractionPlan, clique_mask
from lookalike.engine.planner import make_plan
from lookalike.engine.queries import Query, QuerySet
from lookalike.errors import SchemaError
from lookalike.measurements.contrasts import ContrastSpace, Shape
from lookalike.measurements.marginals import NoisyMarginal, averaged, estimated_total, group_means
from lookalike.schema.domain import ColumnSet, Domain

_CHEAP_SECONDS, _MAX_SLOWDOWN = 5e-3, 4.0
"""With structural zeros an evaluation may take so many seconds, or so many times as long as without them."""


class Problem:
    """Measurements and the network of their column sets, as flat vectors for both estimators.

    Repeated measurements of the same cells are first averaged with weights 1/stddev^2, which loses no information.

    Attributes:
        measurements: after averaging, one per set of cells.
        total: the number of rows of the model.
        observed: all noisy counts, flat.
        sigma: the standard deviation of each entry of `observed`.
        answers: the model's expected counts for the same cells, after `evaluate`.
        measurable: removes from a flat vector the parts that contrasts do not measure; see `ContrastSpace`.
        zeros: the tables of structural zeros that the model uses.
    """

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None,
        zeros: Mapping[ColumnSet, np.ndarray] | None,
        seed: int = 0,
        warm_plan: ContractionPlan | None = None,
        limits: Limits | None = None,
        executor: ExecutorName = "auto",
        calls: int = 1,
    ) -> None:
        for measurement in measurements:
            _check(domain, measurement)
        self.domain = domain
        self.total = float(total) if total is not None else estimated_total(measurements)
        self.measurements = [m for m in averaged(measurements) if m.attrs]
        limits = limits or DEFAULT_LIMITS
        self.zeros = dict(zeros or {})
        plan = self._planned(warm_plan, seed, limits)
        limits.check(f"A model of {len(plan.leaves)} column sets", plan_cost(plan))
        impossible = impossible_cells(plan, self.zeros)
        self.network = Network(plan, impossible=impossible, executor=executor, calls=calls)
        self.queries = QuerySet(self.network, [Query(m.attrs, m.groups, m.cells) for m in self.measurements])
        self.observed = np.empty(self.queries.size)
        self.sigma = np.empty(self.queries.size)
        for number, measurement in enumerate(self.measurements):
            self.observed[self.queries.slices[number]] = self.queries.pack(number, measurement.values)
            self.sigma[self.queries.slices[number]] = measurement.stddev
        self.measurable = ContrastSpace(self.queries.size, self._contrasts())
        if impossible is not None:
            self._forget_impossible_cells()
        self.answers = np.zeros(self.queries.size)
        self.calls = 0

    def evaluate(self, parameters: np.ndarray) -> float:
        """Return the log-normaliser at the parameters; leave expected counts of all measured cells in `answers`."""
        self.calls += 1
        log_z = self.network.sweep(self.queries.expand(parameters))
        self.queries.answer(self.answers)
        self.answers *= self.total
        return log_z

    def start_from(self, potentials: Mapping[ColumnSet, np.ndarray]) -> np.ndarray:
        """Return an earlier model's potentials as parameters; 0 for column sets that it does not have."""
        parameters = np.zeros(self.queries.size)
        taken: set[ColumnSet] = set()
        # Marginals without groups first: the earlier table contains the sum of all parameters on its columns.
        for number in sorted(range(len(self.measurements)), key=lambda i: self.measurements[i].groups is not None):
            measurement = self.measurements[number]
            known = potentials.get(measurement.attrs)
            if known is None or measurement.attrs in taken or known.shape != self.domain.shape(measurement.attrs):
                continue
            taken.add(measurement.attrs)
            finite = np.where(np.isfinite(known), known, 0.0)
            parameters[self.queries.slices[number]] = self.queries.pack(number, group_means(measurement, finite))
        return parameters

    def potentials(self, parameters: np.ndarray) -> dict[ColumnSet, np.ndarray]:
        """Return the parameters as one table per measured column set, in domain order."""
        tables: dict[ColumnSet, np.ndarray] = {}
        for number, measurement in enumerate(self.measurements):
            table = self.queries.unpack(number, parameters)
            known = tables.get(measurement.attrs)
            tables[measurement.attrs] = np.array(table) if known is None else known + table
        return tables

    def _contrasts(self) -> Iterator[tuple[slice, Shape, np.ndarray]]:
        """Where contrasts of several axes lie in the flat vectors, and the position of their cells on each axis."""
        for number, measurement in enumerate(self.measurements):
            shape = measurement.contrasts
            if shape is not None and len(shape) > 1:
                places = [axis.reshape(measurement.values.shape) for axis in np.indices(shape)]
                yield self.queries.slices[number], shape, np.array([self.queries.pack(number, p) for p in places])

    def _planned(self, warm_plan: ContractionPlan | None, seed: int, limits: Limits) -> ContractionPlan:
        """The plan of measured sets and structural zeros; drops zeros, largest first, that would make it far slower."""
        sets = [measurement.attrs for measurement in self.measurements]
        plan = _plan(self.domain, [*sets, *self.zeros], warm_plan, seed)
        if not self.zeros or plan_cost(plan).seconds_per_call <= _CHEAP_SECONDS:
            return plan
        without = plan_cost(_plan(self.domain, sets, None, seed)).seconds_per_call
        allowed = Limits(min(limits.seconds_per_call, max(_CHEAP_SECONDS, _MAX_SLOWDOWN * without)), limits.memory_mb)
        while self.zeros and not allowed.allow(plan_cost(plan)):
            del self.zeros[max(self.zeros, key=self.domain.cells)]
            plan = _plan(self.domain, [*sets, *self.zeros], None, seed)
        return plan

    def _forget_impossible_cells(self) -> None:
        """Set the counts of impossible cells, which are pure noise, to 0, so that no parameter fits them."""
        log_z = self.network.sweep(np.zeros(self.network.layout.leaf_cells))
        if not np.isfinite(log_z):
            raise SchemaError("No row satisfies all rules of the schema, as they contradict each other. Remove one.")
        support = np.empty(self.queries.size)
        self.queries.answer(support)
        self.observed[support <= 0.0] = 0.0


def _plan(
    domain: Domain, cliques: Sequence[ColumnSet], warm_plan: ContractionPlan | None, seed: int
) -> ContractionPlan:
    """A plan for these column sets, grown from an earlier plan if they contain all of its factors."""
    if warm_plan is None or warm_plan.domain != domain:
        return make_plan(domain, cliques, seed=seed)
    wanted = [clique_mask(domain, clique) for clique in cliques]
    for leaf in warm_plan.leaves:
        mask = clique_mask(domain, leaf)
        if not any(mask & other == mask for other in wanted):
            return make_plan(domain, cliques, seed=seed)
    return extend_plan(warm_plan, cliques, seed=seed)


def impossible_cells(plan: ContractionPlan, zeros: Mapping[ColumnSet, np.ndarray]) -> np.ndarray | None:
    """Return a flat mask, in storage order, of the leaf cells that some table of structural zeros forbids."""
    for columns, table in zeros.items():
        expected = plan.domain.canonical(columns)
        if tuple(columns) != expected or table.shape != plan.domain.shape(expected):
            raise SchemaError(
                f"Structural zeros of {columns} have shape {table.shape}; "
                f"expected {plan.domain.shape(expected)} in the order {expected}."
            )
    return flat_potentials(plan, {columns: np.where(table, -np.inf, 0.0) for columns, table in zeros.items()})[1]


def _check(domain: Domain, measurement: NoisyMarginal) -> None:
    if measurement.attrs != domain.canonical(measurement.attrs):
        raise SchemaError(f"Measured columns {measurement.attrs} are not in domain order; use domain.canonical.")
    shape = measurement.values.shape if measurement.groups is None else measurement.groups.shape
    if shape != domain.shape(measurement.attrs):
        raise SchemaError(
            f"Measured {measurement.attrs} has shape {shape}, expected {domain.shape(measurement.attrs)}."
        )
