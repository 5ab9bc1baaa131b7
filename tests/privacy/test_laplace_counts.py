"""Counts with Laplace noise: what reaches the noise, and the exact privacy of all of them together."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from lookalike.errors import BudgetExceededError
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.row_level.laplace_counts import LaplaceCounts, advanced_epsilon, epsilon_of_each
from lookalike.schema.domain import Domain
from tests.privacy.spies import RELATIONS, Tape, neighbouring, persons
from tests.privacy.test_reaches_noise_rows import coded, door_to

SIZES = {"a": 2, "b": 3}
REQUEST = LaplaceCounts((("a",), ("a", "b"), ("a", "b")), ({}, {}, {"b": np.array([0, 1, 1])}))
BUDGET = Budget(1.0, 1e-5, "gdp")


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
def test_counts_move_by_no_more_than_the_noise_was_scaled_for(relation: str, rows: int) -> None:
    """Over all neighbours, every marginal moves by at most epsilon times the scale in L1 norm, and by just that."""
    neighbours = Neighbours(relation, rows)  # type: ignore[arg-type]

    def run(codes: np.ndarray, tape: Tape) -> Any:
        door = door_to(*coded(SIZES, codes), BUDGET, tape, neighbours)
        door.measure([()], 40.0 * rows, step="n")
        return [m.values for m in door.release_rows(REQUEST, step="f")]

    base = np.array([(0, 0), (1, 2), (1, 1)], dtype=np.int32)
    tapes = neighbouring(run, base, persons(list(product(range(2), range(3))), rows))
    each = REQUEST.priced(Domain.of(SIZES), BUDGET, tapes[0].draws[0].charged, neighbours).each
    worst = 0.0
    for place, draw in enumerate(tapes[0].draws[1:], 1):
        assert (draw.kind, draw.private, draw.charged) == ("geometric", True, BUDGET.rho)
        exact = [tape.draws[place].exact for tape in tapes]
        pairs = (
            [(exact[0], other) for other in exact[1:]] if relation == "add-remove" else product(exact[1:], exact[1:])
        )
        moved = max(np.abs(first - second).sum() for first, second in pairs)  # type: ignore[operator]
        worst = max(worst, moved / draw.scale)
        assert moved / draw.scale <= each
    assert worst == pytest.approx(each, rel=1e-6)


def exact_delta(each: float, releases: int, epsilon: float) -> float:
    """Delta of this many releases whose privacy loss is `each` or its negative, as for one added row."""
    up = np.arange(releases + 1)
    likely = binom.pmf(up, releases, 1 / (1 + math.exp(-each)))
    loss = each * (2 * up - releases)
    return float((likely * np.maximum(0.0, -np.expm1(epsilon - loss))).sum())


@pytest.mark.parametrize("releases", [1, 2, 11, 100, 2000])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_exact_delta_of_all_releases_is_within_what_composition_allows(releases: int, epsilon: float) -> None:
    each = epsilon_of_each(epsilon, releases, 1e-6)
    assert advanced_epsilon(each, releases, 1e-6) <= epsilon
    assert advanced_epsilon(each * 1.001, releases, 1e-6) > epsilon
    assert exact_delta(each, releases, epsilon) <= 1e-6


def test_what_was_spent_before_and_kept_for_thresholds_is_left_out() -> None:
    domain, alone = Domain.of(SIZES), REQUEST.priced(Domain.of(SIZES), BUDGET, BUDGET.rho * 0, Neighbours())
    assert advanced_epsilon(alone.each, 3, 1e-5) == pytest.approx(1.0, rel=1e-6)
    later = REQUEST.priced(domain, BUDGET, BUDGET.rho / 4, Neighbours())
    before = epsilon_spent(BUDGET.rho / 4, 5e-6, "gdp")
    assert before + advanced_epsilon(later.each, 3, 5e-6) == pytest.approx(1.0, rel=1e-6)
    kept = Budget(1.0, 1e-5, "gdp", 9e-6)
    many = LaplaceCounts((("a",),) * 50, ({},) * 50)
    assert advanced_epsilon(many.priced(domain, kept, kept.rho * 0, Neighbours()).each, 50, 1e-6) <= 1.0
    with pytest.raises(BudgetExceededError):
        REQUEST.priced(domain, BUDGET, BUDGET.rho, Neighbours())


def test_buckets_are_counted_and_the_noise_is_as_stated() -> None:
    codes = np.repeat(np.array([(0, 0), (1, 2), (1, 1)], dtype=np.int32), [5, 7, 11], axis=0)
    priced = REQUEST.priced(Domain.of(SIZES), BUDGET, BUDGET.rho * 0, Neighbours())
    drawn = [priced.release(codes, Domain.of(SIZES), np.random.default_rng(seed)) for seed in range(500)]
    mean = np.mean([made[2].values for made in drawn], axis=0)
    assert mean == pytest.approx(np.array([[5, 0], [0, 18]]), abs=4 * priced.scale * math.sqrt(2 / 500))
    spread = np.std([made[1].values for made in drawn])
    assert spread == pytest.approx(math.hypot(drawn[0][1].stddev, np.std([[5, 0, 0], [0, 11, 7]])), rel=0.05)


def test_the_largest_budgets_are_split_by_the_plain_sum() -> None:
    assert advanced_epsilon(900.0, 2, 1e-5) == 1800.0
    assert epsilon_of_each(1000.0, 2, 1e-5) == pytest.approx(500.0)
