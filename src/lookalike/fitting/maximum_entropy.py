"""Maximum-entropy estimation: noisy marginals as flat vectors over one network, and two solvers.

The solvers are the smooth convex dual, and mirror descent that stops at the noise floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from lookalike.engine.contraction import ExecutorName, Network, flat_potentials
from lookalike.engine.cost import DEFAULT_LIMITS, Limits, extend_plan, plan_cost, predict_cost
from lookalike.engine.plan import ContractionPlan, clique_mask
from lookalike.engine.planner import make_plan
from lookalike.engine.queries import Query, QuerySet
from lookalike.errors import SchemaError
from lookalike.guards import ZEROS_MS
from lookalike.measurements import ContrastSpace, NoisyMarginal, Shape, averaged, estimated_total, group_means
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.enforce import structural_zeros
from lookalike.schema.schema import Schema

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


def model_zeros(schema: Schema, limit_ms: float = ZEROS_MS) -> dict[ColumnSet, np.ndarray]:
    """Return the impossible cells of the schema's rules, as far as a model of them alone stays in the limit.

    Tables are added while they fit, small ones first. Rules that are left out, or that no table of cells can express,
    are enforced when rows are generated.
    """
    kept: dict[ColumnSet, np.ndarray] = {}
    for attrs, table in sorted(structural_zeros(schema).items(), key=lambda item: item[1].size):
        if predict_cost(schema.domain, [*kept, attrs]).seconds_per_call <= 1e-3 * limit_ms:
            kept[attrs] = table
    return kept


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


Callback = Callable[[int, float], None] | None
"""Called after a step with its number, or that of evaluations so far, and the objective."""

ROUNDING = 0.05
"""The absolute penalty |t| is smoothed to sqrt(t^2 + ROUNDING^2)."""


def minimise_dual(
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    *,
    observed: np.ndarray,
    sigma: np.ndarray,
    total: float,
    measurable: Callable[[np.ndarray], np.ndarray],
    ridge: np.ndarray,
    l1: np.ndarray | None = None,
    further: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
    iterations: int,
    tolerance: float,
    callback: Callback = None,
) -> np.ndarray:
    """Return the theta that minimises  N log Z(theta) - <theta, y> + sum (ridge / 2) theta^2 + sum l1 |theta|.

    This is the dual of entropy-regularised least squares; its gradient is the model's counts minus the noisy ones plus
    the pull of the penalties. L-BFGS runs in variables scaled by the square root of the diagonal of an approximate
    Hessian, sqrt(max(y, sigma) + ridge). Parameters of contrasts are projected to contrasts, P theta, so that parts of
    the counts that were not measured have no influence.

    Args:
        evaluate: returns log Z and the model's expected counts at theta.
        start: parameters to start from.
        observed: the noisy counts y.
        sigma: the standard deviations of their noise.
        total: the number of rows N.
        measurable: the projection P; see `ContrastSpace`.
        ridge: strength of the quadratic penalty on each parameter.
        l1: strength of the absolute penalty.
        further: returns a further penalty and its slope at theta, which must be convex.
        bounds: smallest and largest parameters, before P.
        iterations: maximum number of L-BFGS steps.
        tolerance: relative decrease of the objective below which the steps end.
        callback: called after each step with its number and the objective.
    """
    scale = np.sqrt(np.maximum(observed, sigma) + ridge)
    steps = 0

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        theta = measurable(scaled / scale)
        log_z, answers = evaluate(theta)
        pull = ridge * theta
        value = total * log_z + float(theta @ (0.5 * pull - observed))
        slope = answers - observed + pull
        if l1 is not None:
            bent = np.sqrt(theta * theta + ROUNDING**2)
            value += float(l1 @ bent)
            slope += l1 * theta / bent
        if further is not None:
            added, steeper = further(theta)
            value, slope = value + added, slope + steeper
        return value, measurable(slope) / scale

    def report(intermediate_result: OptimizeResult) -> None:
        nonlocal steps
        steps += 1
        if callback is not None:
            callback(steps, float(intermediate_result.fun))

    result = minimize(
        objective,
        start * scale,
        jac=True,
        method="L-BFGS-B",
        bounds=None if bounds is None else np.column_stack([bounds[0] * scale, bounds[1] * scale]),
        callback=report,
        options={"maxiter": iterations, "maxcor": 20, "ftol": tolerance, "gtol": 1e-6, "maxfun": 2 * iterations + 20},
    )
    return measurable(result.x / scale)


def dual_parameters(
    problem: Problem,
    start: np.ndarray,
    *,
    penalty: float,
    single: float = 1.0,
    iterations: int,
    callback: Callback = None,
) -> np.ndarray:
    """Return the parameters of a network's maximum-entropy fit, with weights 1/sigma^2; see `minimise_dual`.

    The ridge of measurement m is lam_m sigma_m^2 with lam_m = penalty / sigma_m. Too small a penalty fits the noise,
    which does more harm than stopping early.

    Args:
        problem: measurements and network.
        start: parameters to start from.
        penalty: the factor in lam_m; 0.5 was good on all tables and budgets that were tried.
        single: factor of the penalty on single columns, whose parameters are large where values are rare.
        iterations: maximum number of L-BFGS steps.
        callback: called after each step with its number and the objective.
    """
    ridge = penalty * problem.sigma
    for where, measurement in zip(problem.queries.slices, problem.measurements, strict=True):
        if len(measurement.attrs) == 1:
            ridge[where] *= single
    return minimise_dual(
        lambda theta: (problem.evaluate(theta), problem.answers),
        start,
        observed=problem.observed,
        sigma=problem.sigma,
        total=problem.total,
        measurable=problem.measurable,
        ridge=ridge,
        iterations=iterations,
        tolerance=1e-10,
        callback=callback,
    )


GROWTH = 1.1
STOP_AT = 0.96


def mirror_parameters(
    problem: Problem, start: np.ndarray, *, iterations: int, stop_at: float = STOP_AT, callback: Callback = None
) -> np.ndarray:
    """Return parameters with a loss  sum_m |counts_m - y_m|^2 / (2 sigma_m^2)  of `stop_at` times the noise floor.

    The noise floor is the expected loss of the true counts, half the number of measured cells. Going on fits the noise:
    on Adult the distance to the true marginals grows again by 10 to 20 percent, so the early stop is regularisation and
    part of the method. Steps are accepted on sufficient decrease; the marginals of an accepted
    point serve the next step, and the step length grows by `GROWTH` after each success and halves after each failure.

    Args:
        problem: measurements and network.
        start: parameters to start from.
        iterations: maximum number of evaluations of all marginals.
        stop_at: fraction of the noise floor at which to stop.
        callback: called after each accepted step with the number of calls and the loss.
    """
    weight = 1.0 / problem.sigma**2
    target = stop_at * 0.5 * problem.queries.size
    theta = start.copy()
    problem.evaluate(theta)
    answers = problem.answers.copy()
    loss = 0.5 * float(weight @ problem.measurable(answers - problem.observed) ** 2)
    step = 2.0 / (problem.total * float(weight.max()))
    calls = 1
    while loss > target and calls < iterations:
        gradient = weight * problem.measurable(answers - problem.observed)
        trial = theta - step * gradient
        problem.evaluate(trial)
        calls += 1
        trial_loss = 0.5 * float(weight @ problem.measurable(problem.answers - problem.observed) ** 2)
        if loss - trial_loss >= 0.5 * float(gradient @ (answers - problem.answers)):
            theta, loss, step = trial, trial_loss, step * GROWTH
            answers[:] = problem.answers
            if callback is not None:
                callback(calls, loss)
        else:
            step *= 0.5
            if step * float(np.abs(gradient).max()) < 1e-12:
                break
    return theta
