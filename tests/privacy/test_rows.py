"""What the row-level releases do: the law of seeded rows, the threshold of histograms, the split into parts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.measurements import NoisyMarginal
from lookalike.models.bayes_net import BayesNet
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.row_level.seed_price import SeedTest
from lookalike.privacy.row_level.seeded_rows import SeededRows, seeds_lower_bound
from lookalike.schema.domain import Domain

DOMAIN = Domain(("x", "y", "z"), (4, 2, 2))
COUNTED = NoisyMarginal((), np.array(1e6), 1.0)


def network() -> BayesNet:
    tables = (np.array([0.97, 0.01, 0.01, 0.01]), np.full((4, 2), 0.5), np.array([[0.9, 0.1], [0.2, 0.8]]))
    return BayesNet(DOMAIN, 100.0, ("x", "y", "z"), ((), ("x",), ("y",)), tables, {})


def table() -> np.ndarray:
    """30 rows with prefix (1,), 12 with (2,), 3 with (3,)."""
    first = np.repeat([1, 2, 3], [30, 12, 3])
    return np.stack([first, np.zeros(45), np.zeros(45)], axis=1).astype(np.int32)


def test_seeded_rows_follow_the_law_that_was_priced() -> None:
    test = SeedTest(12, 0.5, seeded_share=0.8)
    rows = 400_000
    made = SeededRows(network(), rows, (1,), test, COUNTED).release(table(), DOMAIN, np.random.default_rng(0))
    seeded = {}
    for value, seeds in ((1, 30), (2, 12), (3, 3)):
        seeded[value] = 0.8 * seeds / 45 * float(np.exp(test.log_pass(np.array([float(seeds)])))[0])
    alone = 1 - sum(seeded.values())
    found = np.bincount(made[:, 0], minlength=4) / rows
    expected = alone * network().tables[0]
    for value, share in seeded.items():
        expected[value] += share
    assert np.all(np.abs(found - expected) < 6 * np.sqrt(expected / rows))
    assert abs((made[:, 1] == 0).mean() - 0.5) < 6 * 0.5 / math.sqrt(rows)


def test_the_law_of_the_mixture_test() -> None:
    """Kept 0 or 2 of 3 columns; all rows equal, so every seed of what it makes is in one class: pass by 45 seeds."""
    real = np.zeros((45, 3), dtype=np.int32)
    test = SeedTest(45, 0.2, gamma=2.0, seeded_share=0.9)
    rows = 200_000
    made = SeededRows(network(), rows, (0, 2), test, COUNTED, mixture=True).release(
        real, DOMAIN, np.random.default_rng(1)
    )
    passing = float(np.exp(test.log_pass(np.array([45.0])))[0])
    kept = 0.9 * 0.5 * passing
    expected = kept + (1 - kept) * 0.97 * 0.5
    found = (np.all(made[:, :2] == 0, axis=1)).mean()
    assert abs(found - expected) < 6 * 0.5 / math.sqrt(rows)


def test_the_deterministic_test_releases_only_rows_with_k_seeds() -> None:
    request = SeededRows(network(), 5000, (1,), SeedTest(12, 1.0), COUNTED, deterministic=True)
    made = request.release(table(), DOMAIN, None)
    assert set(np.unique(made[:, 0])) == {1, 2}
    assert request.mechanism == "none"
    assert "NOT" in request.detail
    with pytest.raises(BudgetError, match="smaller k"):
        SeededRows(network(), 5, (1,), SeedTest(31, 1.0), COUNTED, deterministic=True).release(table(), DOMAIN, None)


@pytest.mark.parametrize(("limit", "check", "passes"), [(None, None, True), (11, None, False), (None, 5, False)])
def test_counting_stops_where_it_is_told(limit: int | None, check: int | None, passes: bool) -> None:
    test = SeedTest(12, 50.0, seeded_share=0.9, max_plausible=limit, max_check=check)
    made = SeededRows(network(), 20_000, (1,), test, COUNTED).release(table(), DOMAIN, np.random.default_rng(2))
    assert bool((made[:, 0] == 1).mean() > 0.3) is passes


def test_an_empty_table_gives_rows_of_the_model_alone() -> None:
    made = SeededRows(network(), 1000, (2,), SeedTest(5, 1.0), COUNTED).release(table()[:0], DOMAIN, None)
    assert len(made) == 1000
    assert (made[:, 0] == 0).mean() > 0.9


def test_seeds_are_refused_with_numbers_or_settled() -> None:
    budget = Budget(1.0, 1e-9, "gdp")
    request = SeededRows(network(), 10_000, (2,), SeedTest(50, 1.0), NoisyMarginal((), np.array(45_000.0), 50.0))
    with pytest.raises(BudgetExceededError, match=r"at most \d+ rows are affordable; this many rows would need k = \d"):
        request.priced(DOMAIN, budget, Fraction(1, 200), Neighbours())
    many = SeededRows(network(), 100, (2,), SeedTest(400, 1.0), NoisyMarginal((), np.array(45_000.0), 50.0))
    assert many.priced(DOMAIN, budget, Fraction(1, 200), Neighbours()).test.epsilon0 < 0.2
    with pytest.raises(BudgetError, match="one row"):
        many.priced(DOMAIN, budget, Fraction(1, 200), Neighbours("replace"))


def test_the_lower_bound_on_seeds_is_low() -> None:
    assert seeds_lower_bound(NoisyMarginal((), np.array(1000.0), 10.0), 1e-9) < 1000 - 59
    assert seeds_lower_bound(NoisyMarginal((), np.array(5.0), 10.0), 1e-9) == 0


def test_histograms_keep_frequent_cells_and_their_noise_is_what_the_budget_affords() -> None:
    budget = Budget(1.0, 1e-5, "gdp")
    settled = OccurringCells(("z", "x")).priced(DOMAIN, budget, budget.rho / 2, Neighbours())
    spent = Fraction(1) / (2 * Fraction(settled.stddev) ** 2) + budget.rho / 2
    assert spent <= Budget(1.0, 0.9e-5, "gdp").rho
    assert float(spent) == pytest.approx(float(Budget(1.0, 0.9e-5, "gdp").rho), rel=1e-9)
    rows = np.repeat(np.array([[3, 0, 1], [2, 1, 0], [1, 1, 1]]), [4000, 2000, 1], axis=0).astype(np.int32)
    cells, counts = settled.release(rows, DOMAIN, np.random.default_rng(0))
    assert sorted(map(tuple, cells.tolist())) == [(0, 2), (1, 3)]
    assert abs(counts.sum() - 6000) < 100


def test_parts_pay_for_each_other() -> None:
    budget = Budget(1.0, 1e-6, "gdp")
    part = RandomParts((0.2, 0.2)).budget_of_part(budget, Neighbours())
    assert math.log1p(0.4 * math.expm1(part.epsilon)) == pytest.approx(1.0)
    assert part.delta == pytest.approx(2.5e-6)
    whole = RandomParts((0.3, 0.3, 0.4)).budget_of_part(budget, Neighbours())
    assert whole.epsilon == pytest.approx(1.0)
    with pytest.raises(BudgetError, match="add up"):
        RandomParts((0.7, 0.7)).budget_of_part(budget, Neighbours())
    with pytest.raises(BudgetError, match="one row"):
        RandomParts((0.5, 0.5)).budget_of_part(budget, Neighbours("add-remove", 2))


def test_parts_hold_by_exact_mixture_of_randomised_response() -> None:
    """Each part tells whether it holds the row, by randomised response at its own epsilon: the exact worst ratio."""
    shares = (0.2, 0.3)
    each = RandomParts(shares).budget_of_part(Budget(1.0, 1e-6, "gdp"), Neighbours()).epsilon
    honest = math.exp(each) / (1 + math.exp(each))

    def law(holder: int) -> np.ndarray:
        tells = [np.array([1 - honest, honest]) if j == holder else np.array([honest, 1 - honest]) for j in range(2)]
        return np.outer(*tells).ravel()

    without = law(-1)
    with_row = sum(share * law(j) for j, share in enumerate(shares)) + (1 - sum(shares)) * without
    ratios = np.concatenate([with_row / without, without / with_row])
    assert math.log(ratios.max()) <= 1.0 + 1e-9
    naive = math.log1p(max(shares) * math.expm1(each))
    assert math.log(ratios.max()) > naive * 0.9


def test_parts_are_disjoint_and_of_the_asked_size() -> None:
    part = RandomParts((0.2, 0.3)).part_of_rows(200_000, np.random.default_rng(0))
    shares = np.bincount(part, minlength=3) / 200_000
    assert np.all(np.abs(shares - [0.2, 0.3, 0.5]) < 6 * 0.5 / math.sqrt(200_000))
