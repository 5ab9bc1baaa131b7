"""Weighted least squares over distributions by entropic mirror descent, stopped at the noise floor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lookalike.estimate.problem import Problem

GROWTH = 1.1
STOP_AT = 0.96


def mirror_parameters(
    problem: Problem,
    start: np.ndarray,
    *,
    iterations: int,
    stop_at: float = STOP_AT,
    callback: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Parameters whose model has a loss  sum_m |counts_m - y_m|^2 / (2 sigma_m^2)  of `stop_at` times the noise floor.

    The floor is the loss that the true counts are expected to have, half the number of measured cells. Going on fits
    the noise: on Adult the distance to the true marginals grows again by 10 to 20 percent, so the stop is
    regularisation and part of the method. Steps are accepted on sufficient decrease; the marginals of an accepted
    point serve the next step, and the step length grows by `GROWTH` after each success and halves after each failure.

    Args:
        problem: measurements and network.
        start: parameters to start from.
        iterations: at most so many marginal calls.
        stop_at: fraction of the noise floor to stop at.
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
