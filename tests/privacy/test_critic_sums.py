"""The critic's noisy gradient sums: what one row can change, on all small tables, and what the noise makes of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.row_level.critic_sums import UNIT, Critic, CriticSums
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b"), (2, 3))
CELLS = list(product(range(2), range(3)))
BUDGET = Budget(1.0, 1e-6, "gdp")


def critics() -> list[Critic]:
    """Random weights, weights at their limits, and weights where all gradients are 0."""
    made = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        inputs, outputs = rng.uniform(-1.5, 1.5, (6, 5)), rng.uniform(-1.5, 1.5, 5)
        made.append(Critic.rounded(DOMAIN.sizes, inputs, outputs))
    made.append(Critic.rounded(DOMAIN.sizes, np.ones((6, 5)), np.ones(5)))
    return [*made, Critic.rounded(DOMAIN.sizes, -np.ones((6, 5)), np.ones(5))]


def table(rows: tuple[tuple[int, int], ...]) -> np.ndarray:
    return np.array(rows, dtype=np.int32).reshape(-1, 2)


@pytest.mark.parametrize("norm", [1, 7, 1000, 3 * UNIT, 100 * UNIT])
def test_one_row_moves_the_sums_by_whole_numbers_of_at_most_the_norm(norm: int) -> None:
    worst = 0
    for critic in critics():
        for count in range(3):
            for rows in combinations_with_replacement(CELLS, count):
                before = critic.clipped_sums(table(rows), norm)
                for row in CELLS:
                    change = critic.clipped_sums(table((*rows, row)), norm) - before
                    assert np.array_equal(change, np.rint(change))
                    worst = max(worst, sum(int(entry) ** 2 for entry in change))
    assert worst <= norm**2
    if 1000 <= norm <= 3 * UNIT:
        assert worst >= 0.9 * norm**2, "a bound this loose wastes budget"


@pytest.mark.parametrize(("neighbours", "rows"), [(Neighbours(), 1), (Neighbours("replace", 2), 4)])
def test_persons_rows_move_the_sums_by_no_more_than_the_neighbours_say(neighbours: Neighbours, rows: int) -> None:
    norm, most = 2000, neighbours.max_rows_per_person
    assert neighbours.rows == rows
    for critic in critics():
        sums = [critic.clipped_sums(table(own), norm) for own in combinations_with_replacement(CELLS, most)]
        others = sums if neighbours.relation == "replace" else [np.zeros_like(sums[0])]
        assert max(float(np.linalg.norm(a - b)) for a in sums for b in others) <= rows * norm


class Listener:
    """A trainer that keeps what it is told and never changes."""

    def __init__(self, critic: Critic, norm: int) -> None:
        self._asked, self.heard = (critic, norm), []

    def critic(self) -> tuple[Critic, int]:
        return self._asked

    def learn(self, sums: np.ndarray, /) -> None:
        self.heard.append(sums)


@pytest.mark.parametrize("neighbours", [Neighbours(), Neighbours("replace", 3)])
@pytest.mark.parametrize(("steps", "batches", "visits"), [(1, 1, 1), (20, 1, 20), (20, 6, 4), (3, 5, 1)])
def test_all_visits_together_cost_what_is_left(neighbours: Neighbours, steps: int, batches: int, visits: int) -> None:
    request = CriticSums(Listener(critics()[0], 100), steps, batches)
    settled = request.priced(DOMAIN, BUDGET, BUDGET.rho / 4, neighbours)
    cost = visits * (Fraction(neighbours.rows) / Fraction(settled.stddev)) ** 2 / 2
    assert cost <= BUDGET.rho * 3 / 4
    assert float(cost) == pytest.approx(float(BUDGET.rho) * 0.75, rel=1e-9)
    assert settled.mechanism == "gaussian"
    assert settled.releases == steps


def test_a_row_is_used_in_as_many_steps_as_are_paid_for() -> None:
    """With hardly any noise, the steps in which a lone row shows can be counted."""
    listener = Listener(critics()[6], 1000)
    request = CriticSums(listener, 20, 6, stddev=1e-5)
    for _ in range(30):
        listener.heard.clear()
        request.release(table(((1, 2),)), DOMAIN, None)
        seen = [step for step, sums in enumerate(listener.heard) if np.abs(sums).max() > 1]
        assert 3 <= len(seen) <= request.visits
        assert len({step % 6 for step in seen}) == 1


def test_every_row_is_in_one_batch() -> None:
    listener, rows = Listener(critics()[6], 1000), np.zeros((50, 2), dtype=np.int32)
    CriticSums(listener, 7, 7, stddev=1e-5).release(rows, DOMAIN, None)
    whole = critics()[6].clipped_sums(rows, 1000)
    assert np.abs(np.sum(listener.heard, axis=0) - whole).max() <= 7


def test_the_noise_has_the_promised_scale_and_every_number_gets_its_own() -> None:
    listener = Listener(critics()[6], 500)
    CriticSums(listener, 2000, stddev=3.0).release(table(()), DOMAIN, None)
    heard = np.array(listener.heard)
    assert heard.shape == (2000, 35)
    assert heard.std() == pytest.approx(1500, rel=0.03)
    assert np.abs(np.corrcoef(heard.T) - np.eye(35)).max() < 0.15
    assert np.array_equal(heard, np.rint(heard))


def test_requests_without_steps_or_budget_are_refused() -> None:
    with pytest.raises(BudgetError, match="at least 1"):
        CriticSums(Listener(critics()[0], 1), 0)
    with pytest.raises(BudgetExceededError):
        CriticSums(Listener(critics()[0], 1), 1).priced(DOMAIN, BUDGET, BUDGET.rho, Neighbours())
