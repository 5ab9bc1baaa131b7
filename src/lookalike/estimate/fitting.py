"""One call from measurements to a model, whichever estimator does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from lookalike.estimate.dual import dual_parameters
from lookalike.estimate.graphical import GraphicalModel
from lookalike.estimate.mirror_descent import STOP_AT, mirror_parameters
from lookalike.estimate.problem import Problem
from lookalike.schema.domain import Clique, Domain
from lookalike.tables.contraction import ExecutorName
from lookalike.tables.cost import DEFAULT_LIMITS, Limits
from lookalike.tables.measurement import NoisyMarginal

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
    zeros: Mapping[Clique, np.ndarray] | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    executor: ExecutorName = "auto",
    callback: Callable[[int, float], None] | None = None,
) -> GraphicalModel:
    """The maximum-entropy model that explains the noisy marginals, with weights 1/stddev^2.

    Attributes in no measurement are uniform. Deterministic given the arguments.

    Args:
        domain: all columns of the table.
        measurements: noisy marginals, with or without groups; repeats are averaged.
        total: number of rows; by default the inverse-variance mean of the noisy totals.
        warm: an earlier model of the same domain to start from.
        method: "dual" (penalised, few steps) or "mirror" (mirror descent to the noise floor, slower).
        iterations: largest number of steps; by default 200 (dual) or 1000 (mirror).
        penalty: strength of the dual's penalty, in units of 1/stddev; see `dual_parameters`.
        single: part of the dual's penalty on single columns.
        stop_at: part of the noise floor at which mirror descent stops; see `mirror_parameters`.
        zeros: impossible combinations of values: a boolean table per column set, True where impossible. Those of
            `warm` stay impossible without being named again; those that make the model far dearer are left out.
        limits: predicted time and memory that the model may take; a ModelTooLargeError is raised beyond them.
        seed: of the plan's random search.
        executor: "auto" takes numba for costly models and NumPy for the rest.
        callback: called with the step's number and the objective (dual) or the loss (mirror).
    """
    steps = iterations if iterations is not None else _ITERATIONS[method]
    zeros = {**(warm.zeros if warm is not None else {}), **(zeros or {})}
    problem = Problem(
        domain,
        measurements,
        total=total,
        zeros=zeros,
        seed=seed,
        warm_plan=warm.plan if warm is not None else None,
        limits=limits,
        executor=executor,
        calls=steps,
    )
    start = problem.start_from(warm.potentials) if warm is not None else np.zeros(problem.queries.size)
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
    return GraphicalModel(
        domain,
        potentials,
        problem.total,
        problem.network.plan,
        network=problem.network,
        limits=limits or DEFAULT_LIMITS,
    )
