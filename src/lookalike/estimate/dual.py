"""Maximum-entropy estimation by its dual: smooth, strictly convex, one marginal call per step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from lookalike.estimate.problem import Problem


def dual_parameters(
    problem: Problem,
    start: np.ndarray,
    *,
    penalty: float,
    single: float = 1.0,
    iterations: int,
    callback: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Parameters that minimise  N log Z(theta) - <theta, y> + sum_m (lam_m sigma_m^2 / 2) |theta_m|^2.

    This is the dual of entropy-regularised least squares with weights 1/sigma^2; its gradient is the model's counts
    minus the noisy ones plus the penalty. lam_m = penalty / sigma_m: too small a penalty follows the noise, and does
    more harm than too early a stop. L-BFGS runs in variables scaled by the square root of the diagonal of an
    approximate Hessian, sqrt(max(y, sigma) + lam sigma^2). Parameters of contrasts are contrasts themselves, P theta,
    so what was not measured has no say.

    Args:
        problem: measurements and network.
        start: parameters to start from.
        penalty: the factor in lam_m; 0.5 served all tables and budgets tried.
        single: part of the penalty on single attributes, whose parameters are large where values are rare.
        iterations: at most so many L-BFGS steps.
        callback: called after each step with its number and the objective.
    """
    ridge = penalty * problem.sigma
    for where, measurement in zip(problem.queries.slices, problem.measurements, strict=True):
        if len(measurement.attrs) == 1:
            ridge[where] *= single
    scale = np.sqrt(np.maximum(problem.observed, problem.sigma) + ridge)
    steps = 0

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        theta = problem.measurable(scaled / scale)
        log_z = problem.evaluate(theta)
        pull = ridge * theta
        value = problem.total * log_z + float(theta @ (0.5 * pull - problem.observed))
        return value, problem.measurable(problem.answers - problem.observed + pull) / scale

    def report(intermediate_result) -> None:
        nonlocal steps
        steps += 1
        if callback is not None:
            callback(steps, float(intermediate_result.fun))

    result = minimize(
        objective,
        start * scale,
        jac=True,
        method="L-BFGS-B",
        callback=report,
        options={"maxiter": iterations, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-6, "maxfun": 2 * iterations + 20},
    )
    return problem.measurable(result.x / scale)
