"""Maximum-entropy estimation: by its smooth convex dual, or by mirror descent that stops at the noise floor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from lookalike.fitting.problem import Problem

Callback = Callable[[int, float], None] | None
"""Called after a step with its number, or that of evaluations so far, and the objective."""

_ROUNDING = 0.05
"""The absolute penalty |t| is smoothed to sqrt(t^2 + _ROUNDING^2)."""


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
            bent = np.sqrt(theta * theta + _ROUNDING**2)
            value += float(l1 @ bent)
            slope += l1 * theta / bent
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
