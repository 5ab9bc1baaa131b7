"""Noisy votes: what one row can change, on all small tables, and what the noise makes of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.row_level import teacher_votes
from lookalike.privacy.row_level.teacher_votes import Teachers, TeacherVotes
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b"), (2, 2))
CELLS = list(product(range(2), range(2)))
ALL = np.array(CELLS, dtype=np.int32)
BUDGET = Budget(1.0, 1e-6, "gdp")
RNG = np.random.default_rng(0)
INPUTS, OUTPUTS = RNG.standard_normal((5, 3)), RNG.standard_normal(3)


def votes(rows: tuple[tuple[int, int], ...], part: tuple[int, ...], number: int = 2) -> np.ndarray:
    """Votes on all possible rows after a few lessons."""
    codes = np.array(rows, dtype=np.int32).reshape(-1, 2)
    school = Teachers(DOMAIN.sizes, codes, np.array(part, dtype=np.int64), number, INPUTS, OUTPUTS, 0.3)
    for _ in range(6):
        school.train(ALL)
    return school.votes(ALL)


def test_one_row_moves_no_count_of_votes_by_more_than_one() -> None:
    """All tables of up to two rows, all ways to deal them out to two teachers, all rows that may come in."""
    worst = 0
    for count in range(3):
        for rows in combinations_with_replacement(CELLS, count):
            for part in product(range(2), repeat=count):
                before = votes(rows, part)
                for row, own in product(CELLS, range(2)):
                    worst = max(worst, int(np.abs(votes((*rows, row), (*part, own)) - before).max()))
    assert worst == 1


class Listener:
    """A trainer that shows and asks for all rows, and keeps what it is told."""

    def __init__(self, asked: np.ndarray = ALL) -> None:
        self._asked, self.heard = asked, []

    def shown(self) -> np.ndarray:
        return ALL

    def asked(self) -> np.ndarray:
        return self._asked

    def learn(self, counts: np.ndarray, /) -> None:
        self.heard.append(counts)


def request(listener: Listener, rounds: int = 5, teachers: int = 7, **more) -> TeacherVotes:
    return TeacherVotes(listener, rounds, len(ALL), teachers, INPUTS, OUTPUTS, 0.3, **more)


@pytest.mark.parametrize("neighbours", [Neighbours(), Neighbours("replace", 3)])
def test_all_votes_together_cost_what_is_left(neighbours: Neighbours) -> None:
    settled = request(Listener()).priced(DOMAIN, BUDGET, BUDGET.rho / 4, neighbours)
    cost = 20 * (Fraction(neighbours.rows) / Fraction(settled.stddev)) ** 2 / 2
    assert settled.releases == 20
    assert settled.mechanism == "gaussian"
    assert cost <= BUDGET.rho * 3 / 4
    assert float(cost) == pytest.approx(float(BUDGET.rho) * 0.75, rel=1e-9)


def test_the_price_does_not_depend_on_the_table() -> None:
    """Nothing but public numbers is handed to `settled`, and the number of releases is fixed before any row is read."""
    for codes in (ALL[:0], np.repeat(ALL, 50, axis=0)):
        listener = Listener()
        request(listener, stddev=2.0).release(codes, DOMAIN, None)
        assert [len(counts) for counts in listener.heard] == [4] * 5


def test_the_noise_has_the_promised_scale_and_every_vote_gets_its_own() -> None:
    listener = Listener()
    request(listener, rounds=900, teachers=1, stddev=50.0).release(ALL[:0], DOMAIN, None)
    heard = np.array(listener.heard)
    assert heard.std() == pytest.approx(50, rel=0.08)
    assert np.abs(np.corrcoef(heard.T) - np.eye(4)).max() < 0.2
    assert np.array_equal(heard, np.rint(heard))


def test_every_row_goes_to_a_teacher_of_its_own_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    dealt: list[np.ndarray] = []

    class Watched(Teachers):
        def __init__(self, sizes, codes, part, *more) -> None:
            dealt.append(part)
            super().__init__(sizes, codes, part, *more)

    monkeypatch.setattr(teacher_votes, "Teachers", Watched)
    for _ in range(2):
        request(Listener(), rounds=1, teachers=50, stddev=1.0).release(np.tile(ALL, (5000, 1)), DOMAIN, None)
    sizes = np.bincount(dealt[0], minlength=50)
    assert len(sizes) == 50
    assert np.abs(sizes - 400).max() < 7 * np.sqrt(400)
    assert (dealt[0] == dealt[1]).mean() < 0.05
    request(Listener(), rounds=1, teachers=50, stddev=1.0, parts=200).release(np.tile(ALL, (5000, 1)), DOMAIN, None)
    assert abs(len(dealt[2]) - 5000) < 7 * np.sqrt(5000)
    assert dealt[2].max() < 50


def test_requests_that_were_not_paid_for_are_refused() -> None:
    with pytest.raises(BudgetError, match="at least 1"):
        request(Listener(), teachers=0)
    with pytest.raises(BudgetError, match="at least one for each"):
        request(Listener(), teachers=7, parts=6)
    with pytest.raises(BudgetExceededError):
        request(Listener()).priced(DOMAIN, BUDGET, BUDGET.rho, Neighbours())
    with pytest.raises(BudgetError, match="4 are paid for"):
        request(Listener(np.tile(ALL, (2, 1))), stddev=1.0).release(ALL, DOMAIN, None)
