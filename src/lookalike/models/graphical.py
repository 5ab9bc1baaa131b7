"""Log-linear models over measured column sets, and `fit`, which makes one from noisy marginals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from lookalike.engine.contraction import ExecutorName, Network, evaluated
from lookalike.engine.cost import DEFAULT_LIMITS, Limits, extend_plan, plan_cost
from lookalike.engine.plan import ContractionPlan, clique_mask
from lookalike.engine.planner import connected_components, make_plan
from lookalike.engine.queries import BlockQueries, blocks_of, projections
from lookalike.errors import SchemaError
from lookalike.fitting.maximum_entropy import STOP_AT, Callback, Problem, dual_parameters, mirror_parameters
from lookalike.measurements import NoisyMarginal
from lookalike.sampling.draws import tree_rows
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.stored import Stored, taken_apart

_ITERATIONS = {"dual": 200, "mirror": 1000}


def fit(
    domain: Domain,
    measurements: Sequence[NoisyMarginal],
    *,
    total: float | None = None,
    warm: GraphicalModel | None = None,
    method: Literal["dual", "mirror"] = "dual",
    iterations: int | None = None,
    penalty: float = 0.5,
    single: float = 1.0,
    stop_at: float = STOP_AT,
    zeros: Mapping[ColumnSet, np.ndarray] | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    executor: ExecutorName = "auto",
    callback: Callback = None,
) -> GraphicalModel:
    """Return the maximum-entropy model that explains the noisy marginals, with weights 1/stddev^2.

    Columns in no measurement are uniform. Deterministic given the arguments.

    Args:
        domain: all columns of the table.
        measurements: noisy marginals, with or without groups; repeats are averaged.
        total: number of rows; by default the inverse-variance mean of the noisy totals.
        warm: an earlier model of the same domain to start from.
        method: "dual" (penalised, few steps) or "mirror" (mirror descent to the noise floor, slower).
        iterations: maximum number of steps; by default 200 (dual) or 1000 (mirror).
        penalty: strength of the dual's penalty, in units of 1/stddev; see `dual_parameters`.
        single: factor of the dual's penalty on single columns.
        stop_at: fraction of the noise floor at which mirror descent stops; see `mirror_parameters`.
        zeros: structural zeros: a boolean table per column set, True for impossible cells. Those of `warm` need not be
            given again; tables that would make the model far slower are left out.
        limits: maximum predicted time and memory of the model; a ModelTooLargeError is raised beyond them.
        seed: seed of the plan's random search.
        executor: "auto" takes numba for costly models and NumPy for the others.
        callback: called with the step's number and the objective (dual) or the loss (mirror).
    """
    steps = iterations if iterations is not None else _ITERATIONS[method]
    zeros = {**({} if warm is None else warm.zeros), **(zeros or {})}
    problem = Problem(
        domain,
        measurements,
        total=total,
        zeros=zeros,
        seed=seed,
        warm_plan=None if warm is None else warm.plan,
        limits=limits,
        executor=executor,
        calls=steps,
    )
    start = problem.start_from({} if warm is None else warm.potentials)
    if method == "dual":
        parameters = dual_parameters(
            problem, start, penalty=penalty, single=single, iterations=steps, callback=callback
        )
    elif method == "mirror":
        parameters = mirror_parameters(problem, start, iterations=steps, stop_at=stop_at, callback=callback)
    else:
        raise ValueError(f"method is {method!r}; it must be 'dual' or 'mirror'")
    potentials = problem.potentials(parameters)
    for attrs, table in problem.zeros.items():
        known = potentials.get(attrs, np.zeros(table.shape))
        potentials[attrs] = np.where(table, -np.inf, known)
    problem.evaluate(parameters)
    network, limits = problem.network, limits or DEFAULT_LIMITS
    return GraphicalModel(domain, potentials, problem.total, network.plan, network=network, limits=limits)


_MAX_POTENTIAL = 1e5
"""Largest potential of a stored model; exp of a tenth of it exceeds the counts of any table."""
_STORED_LIMITS = Limits(60.0, 1000.0)


class GraphicalModel:
    """p(x) proportional to exp(sum of potentials), with exact marginals of any column set and samples of rows.

    Columns in no potential are uniform and independent of all others. The model is a function of noisy measurements and
    public facts only.

    Attributes:
        domain: all columns.
        potentials: one table per column set, in domain order; -inf marks impossible cells.
        total: estimated number of rows of the private table; marginals sum to it.
        plan: how the model is evaluated.
        limits: maximum predicted cost of a marginal.
    """

    kind: ClassVar[str] = "graphical"
    stored_fields: ClassVar[tuple[str, ...]] = ("domain", "total", "potentials", "plan")

    def __init__(
        self,
        domain: Domain,
        potentials: Mapping[ColumnSet, np.ndarray],
        total: float,
        plan: ContractionPlan | None = None,
        *,
        network: Network | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.domain = domain
        self.potentials = dict(potentials)
        self.total = float(total)
        self.plan = plan if plan is not None else make_plan(domain, self.potentials)
        self.limits = limits
        self._network = network
        masks = [clique_mask(domain, leaf) for leaf in self.plan.leaves]
        components = enumerate(connected_components(masks))
        self._component = {
            name: number for number, members in components for leaf in members for name in self.plan.leaves[leaf]
        }

    @property
    def cliques(self) -> list[ColumnSet]:
        """The column sets that have a potential."""
        return list(self.potentials)

    @property
    def zeros(self) -> dict[ColumnSet, np.ndarray]:
        """Structural zeros: a boolean table for each column set that has impossible cells."""
        return {attrs: np.isneginf(table) for attrs, table in self.potentials.items() if np.isneginf(table).any()}

    @property
    def network(self) -> Network:
        """The network of the model's plan, evaluated at its potentials."""
        if self._network is None:
            self._network = evaluated(self.plan, self.potentials)
        return self._network

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return expected counts of any column set, measured or not, with axes in domain order; they sum to `total`."""
        return self.marginals([attrs])[0]

    def marginals(self, sets: Sequence[Iterable[str]]) -> list[np.ndarray]:
        """Return expected counts of several column sets, which is much faster than one by one.

        Raises a ModelTooLargeError for a column set whose evaluation would exceed the model's limits.
        """
        cliques = [self.domain.canonical(attrs) for attrs in sets]
        parts = {clique: self._parts(clique) for clique in cliques}
        tables = self._tables({part for found in parts.values() for part in found})
        return [self.total * self._product(clique, parts[clique], tables) for clique in cliques]

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        *,
        independent: bool = False,
        where: Mapping[str, int | Sequence[int]] | None = None,
    ) -> np.ndarray:
        """Return rows of codes; see `lookalike.sampling.draws` for the method and its accuracy.

        Args:
            rows: number of rows.
            rng: source of randomness; the same state gives the same rows.
            independent: draw rows independently instead of with low variance.
            where: allowed codes of some columns; rows come from the model's distribution given these.
        """
        if not where:
            return tree_rows(self.network, rows, rng, independent=independent)
        kept = {name: np.unique(np.atleast_1d(codes)) for name, codes in where.items()}
        masks = dict(self.potentials)
        for name, codes in kept.items():
            size = self.domain.size(name)
            if not len(codes) or codes[0] < 0 or codes[-1] >= size:
                raise SchemaError(f"The condition on {name!r} needs codes from 0 to {size - 1}, not {list(codes)}.")
            if name in self._component:
                table = np.full(size, -np.inf)
                table[codes] = 0.0
                masks[name,] = masks.get((name,), 0.0) + table
        network = evaluated(self.plan, masks)
        if not np.isfinite(network.log_z):
            raise SchemaError(f"No row of the model can satisfy {dict(where)}; relax the condition.")
        allowed = {self.domain.position(name): codes for name, codes in kept.items()}
        return tree_rows(network, rows, rng, independent=independent, allowed=allowed)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds the same as a model file; the network is made again when it is needed."""
        return type(self).from_stored, (Stored(*taken_apart(self)),)

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain, listed = stored.domain(), stored.part("potentials")
        cliques = listed.cliques("keys", domain)
        stored.require(len(set(cliques)) == len(cliques), "has a potential twice")
        shapes = [domain.shape(clique) for clique in cliques]
        tables = listed.tables("values", shapes, -_MAX_POTENTIAL, _MAX_POTENTIAL, impossible=True)
        plan = _stored_plan(stored.part("plan"), domain)
        masks = [clique_mask(domain, leaf) for leaf in plan.leaves]
        inside = (any(mask & ~leaf == 0 for leaf in masks) for mask in (clique_mask(domain, c) for c in cliques))
        stored.require(all(inside), "has a potential that no leaf of its plan holds")
        _STORED_LIMITS.check("The stored model", plan_cost(plan))
        model = cls(domain, dict(zip(cliques, tables, strict=True)), stored.total(), plan)
        if model.zeros:
            stored.require(bool(np.isfinite(model.network.log_z)), "gives every row the probability 0")
        return model

    def _parts(self, clique: ColumnSet) -> list[ColumnSet]:
        """The column set split by connected components of the model; columns in no component are left out."""
        groups: dict[int, list[str]] = {}
        for name in clique:
            if name in self._component:
                groups.setdefault(self._component[name], []).append(name)
        return [tuple(names) for names in groups.values()]

    def _product(
        self, clique: ColumnSet, parts: Sequence[ColumnSet], tables: Mapping[ColumnSet, np.ndarray]
    ) -> np.ndarray:
        """Probabilities of a column set from those of its independent parts; all other columns are uniform."""
        free = self.domain.cells([name for name in clique if name not in self._component])
        result = np.full([1] * len(clique), 1.0 / free)
        for part in parts:
            result = result * tables[part].reshape([self.domain.size(name) if name in part else 1 for name in clique])
        return np.broadcast_to(result, self.domain.shape(clique)).copy()

    def _tables(self, wanted: set[ColumnSet]) -> dict[ColumnSet, np.ndarray]:
        """Probabilities of column sets that lie in one component each."""
        network = self.network
        by_leaf: dict[int, list[ColumnSet]] = {}
        elsewhere: dict[int, list[ColumnSet]] = {}
        for part in sorted(wanted, key=lambda clique: tuple(map(self.domain.position, clique))):
            leaf = network.layout.leaf_holding(clique_mask(self.domain, part))
            if leaf is None:
                elsewhere.setdefault(self._component[part[0]], []).append(part)
            else:
                by_leaf.setdefault(leaf, []).append(part)
        tables: dict[ColumnSet, np.ndarray] = {}
        for leaf, parts in by_leaf.items():
            tables |= projections(network.plan.leaves[leaf], network.unpack(leaf, network.marginals), parts)
        if elsewhere:
            queries = BlockQueries(self.plan, self.potentials, self.limits)
            for parts in elsewhere.values():
                for block, members in blocks_of(self.domain, parts).items():
                    tables |= projections(block, self._block(queries, block), members)
        return tables

    def _block(self, queries: BlockQueries, block: ColumnSet) -> np.ndarray:
        table = queries.table(block)
        if table is None:
            network = evaluated(extend_plan(self.plan, [block]), self.potentials)
            table = network.unpack(network.plan.leaves.index(block), network.marginals)
        return table


def _stored_plan(stored: Stored, domain: Domain) -> ContractionPlan:
    """The plan of a model file, checked: known columns, no leaf inside another, one tree per component."""
    leaves = stored.cliques("leaves", domain)
    masks = [clique_mask(domain, leaf) for leaf in leaves]
    apart = all(a & ~b for i, a in enumerate(masks) for j, b in enumerate(masks) if i != j)
    stored.require(apart and all(leaves), "has a leaf inside another, or an empty one")
    children = stored.entries("children")
    pairs = [children.wholes(node, 0, 2 * len(leaves)) for node in children.meta]
    stored.require(all(len(pair) == 2 for pair in pairs), "has a node without two children")
    children = tuple((pair[0], pair[1]) for pair in pairs)
    plan = ContractionPlan(domain, leaves, children, stored.wholes("order", 0, len(domain) - 1))
    stored.require(len(plan.roots) == len(connected_components(masks)), "has another number of trees than components")
    return plan
