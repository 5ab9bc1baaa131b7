"""The price of seeded rows against exact composition: random tables, neighbours and settings, the mixture included."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy.stats import hypergeom

from lookalike.errors import BudgetExceededError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.row_level import seed_price, seeded_rows
from lookalike.privacy.row_level.seed_price import ORDERS, SeedBudget, SeedTest, delta_own, epsilon_of, renyi
from lookalike.privacy.row_level.seeded_rows import SeededRows, affordable_test, coarsely_spent, seeds_lower_bound
from lookalike.schema.domain import Domain
from tests.privacy.seeded_law import (
    Mixture,
    Pair,
    class_pair,
    exact_deltas,
    exact_renyi,
    passing,
)

QUICK, THOROUGH = 400, 6_000
SHARES = (0.3, 0.8, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-6, 1 - 1e-9)


@dataclass(frozen=True)
class Case:
    """A test, a t, and the number of rows and the laws of two neighbouring tables."""

    test: SeedTest
    t: int
    n: int
    laws: Callable[[SeedTest], Pair]


def random_test(rng: np.random.Generator, gamma: float = 1.0) -> SeedTest:
    k = int(np.exp(rng.uniform(math.log(2), math.log(150))))
    share = float(rng.choice(SHARES)) if rng.random() < 0.7 else float(rng.uniform(0.05, 0.9999))
    most = None if rng.random() < 0.7 else int(rng.integers(1, 2 * k + 2))
    return SeedTest(k, float(np.exp(rng.uniform(math.log(0.02), math.log(4)))), gamma, share, most)


def random_classes(rng: np.random.Generator, k: int, t: int) -> tuple[int, np.ndarray]:
    """A telling number of rows in x's class; the rest one class, lone rows, classes of any size, or of about k."""
    n = int(np.exp(rng.uniform(math.log(k), math.log(1000 + k))))
    own = min(n, int(rng.choice([0, 1, t - 1, t, k - 1, k, k + 1, rng.integers(0, n + 1), rng.integers(0, 2 * k)])))
    others, left, kind = [], n - own, int(rng.integers(0, 4))
    while left > 0:
        size = (left, 1, int(rng.integers(1, left + 1)), min(left, max(1, int(rng.integers(k - 2, k + 3)))))[kind]
        others.append(size)
        left -= size
    return own, np.array(others, dtype=float)


def class_cases(count: int, seed: int) -> Iterator[Case]:
    """Classes of any size; in half of the cases their seeds make a row up to gamma times as often as each other."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        gamma = float(rng.choice([1.0, 1.0, 1.0, 1.3, 2.0, 6.0]))
        test, factor = random_test(rng, gamma), gamma ** float(rng.choice([-1, 1, rng.uniform(-1, 1)]))
        t = int(rng.integers(1, test.k + 1))
        own, others = random_classes(rng, test.k, t)
        yield Case(test, t, own + int(others.sum()), partial(class_pair, own=own, others=others, factor=factor))


def mixture_cases(count: int, seed: int, per_model: int = 8) -> Iterator[Case]:
    """Tables over the twelve records of a random model: a few frequent records, or all of them."""
    rng = np.random.default_rng(seed)
    for _ in range(count // per_model):
        gamma = float(rng.choice([1.05, 1.5, 2.0, 4.0, 10.0]))
        kept = tuple(int(number) for number in np.flatnonzero(rng.random(4) < 0.6)) or (1, 3)
        model = Mixture(rng, kept, gamma)
        for _ in range(per_model):
            test = random_test(rng, gamma)
            t = int(rng.integers(1, test.k + 1))
            shares = rng.dirichlet(np.full(len(model.records), float(rng.choice([0.05, 0.3, 1.0]))))
            counts = np.floor(shares * np.exp(rng.uniform(math.log(test.k), math.log(test.k + 600))))
            counts[int(np.argmax(counts))] += max(0.0, test.k - counts.sum())
            x = int(rng.integers(len(model.records)))
            yield Case(test, t, int(counts.sum()), partial(model.pair, counts=counts, x=x))


def excess(case: Case) -> float:
    """Largest quotient of an exact Renyi divergence, either way and at any order, and its bound."""
    bound, pair = renyi(case.test, case.t, case.n), case.laws(case.test)
    with_x, taken = pair.rerouted(case.t)
    assert taken <= delta_own(case.test, case.t, case.n) * (1 + 1e-9)
    pairs = ((with_x, pair.without), (pair.without, pair.with_x))
    return max(float(np.max((exact_renyi(*laws) - 1e-13) / np.maximum(bound, 1e-300))) for laws in pairs)


def check_renyi(cases: Iterator[Case], tightest: float) -> None:
    found = [excess(case) for case in cases]
    over = sum(quotient > 1 + 1e-9 for quotient in found)
    assert over == 0, f"{over} of {len(found)} pairs exceed the bound, the worst by a factor of {max(found):.3g}"
    assert max(found) > tightest, "no pair comes near the bound: a slip in its derivation would not show"


def test_renyi_bound_covers_random_pairs() -> None:
    check_renyi(class_cases(QUICK, 0), 0.95)


def test_renyi_bound_covers_random_pairs_of_the_mixture() -> None:
    check_renyi(mixture_cases(QUICK, 1), 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_renyi_bound_covers_thousands_of_random_pairs(seed: int) -> None:
    check_renyi(class_cases(THOROUGH, seed), 0.99)
    check_renyi(mixture_cases(THOROUGH, 10 + seed), 0.6)


@pytest.mark.parametrize("seeds", [0, 2, 29, 30, 31, 45])
@pytest.mark.parametrize("share", [0.5, 0.9999])
def test_the_bound_of_the_model_alone_is_nearly_reached(seeds: int, share: float) -> None:
    """All else passes, so that only x's class moves it: the exact contribution of 'alone' beside its own bound."""
    test = SeedTest(30, 0.3, seeded_share=share)
    pair = class_pair(test, seeds, np.array([2000.0]))
    smaller, larger = sorted((pair.without[-1], pair.with_x[-1]))
    exact = smaller * ((larger / smaller) ** ORDERS[:60] - 1 - ORDERS[:60] * (larger / smaller - 1))
    bound = seed_price._alone(test, 2000 + seeds, ORDERS[:60])  # pyright: ignore[reportPrivateUsage]
    assert np.all(exact <= bound * (1 + 1e-6))
    if seeds in (0, 29) and share == 0.9999:
        kind = "raised by a lone row" if seeds == 0 else "lowered by a class at the threshold"
        assert float(np.max(exact / bound)) > 0.2, kind


# Several rows, and what they cost with Gaussian releases before them.


def check_composition(cases: Iterator[Case], seed: int, rows_up_to: int) -> int:
    """Exact delta at the claimed epsilon, both ways, over random numbers of rows; how many cases had a price at all.

    Most cases have the threshold noise that a run would choose for them.
    """
    rng, priced = np.random.default_rng(seed), 0
    for case in cases:
        rows, rho = int(rng.integers(1, rows_up_to + 1)), float(rng.choice([0.0, 0.01, 0.2]))
        delta = 10.0 ** float(rng.uniform(-9, -2))
        test = SeedBudget(case.n, rho, 1.0, delta, tune=bool(rng.random() < 0.8)).tuned(case.test, rows)
        epsilon = epsilon_of(test, rows, case.n, rho, delta)
        if math.isfinite(epsilon):
            priced += 1
            assert max(exact_deltas(case.laws(test), rows, epsilon, rho)) <= delta * (1 + 1e-9), (test, rows, rho)
    return priced


def test_epsilon_of_several_rows_covers_exact_composition() -> None:
    assert check_composition(class_cases(QUICK // 2, 20), 21, 30) > QUICK // 5
    assert check_composition(mixture_cases(QUICK // 4, 22), 23, 2) > QUICK // 10


@pytest.mark.slow
def test_epsilon_of_many_rows_covers_exact_composition_on_thousands_of_pairs() -> None:
    assert check_composition(class_cases(THOROUGH // 4, 24), 25, 80) > THOROUGH // 10
    assert check_composition(mixture_cases(THOROUGH // 4, 26), 27, 3) > THOROUGH // 10


@pytest.mark.parametrize("max_check", [8, 20, 40])
def test_epsilon_of_rows_tested_in_random_subsets_covers_exact_composition(max_check: int) -> None:
    """max_check is priced by composing (epsilon, delta) of one row: four classes, up to three rows, every sequence."""
    rng = np.random.default_rng(max_check)
    for _ in range(25):
        test = replace(random_test(rng), k=int(rng.integers(2, 8)), max_check=max_check)
        counts = rng.integers(0, 14, size=4) + np.array([0, test.k, 0, 0])
        pair = subset_pair(test, counts)
        rows, delta = int(rng.integers(1, 4)), 10.0 ** float(rng.uniform(-5, -1))
        epsilon = epsilon_of(test, rows, int(counts.sum()), 0.0, delta)
        if math.isfinite(epsilon):
            assert max(exact_deltas(pair, rows, epsilon)) <= delta * (1 + 1e-9)


def subset_pair(test: SeedTest, counts: np.ndarray) -> Pair:
    """Laws where plausible seeds are counted among max_check random rows; x joins the first class."""
    laws = []
    for table in (counts, counts + np.array([1, 0, 0, 0])):
        n = int(table.sum())
        looked = min(n, test.max_check or n)
        inside = np.arange(looked + 1)
        passes = [float(hypergeom.pmf(inside, n, count, looked) @ passing(test, inside)[0]) for count in table]
        released = test.seeded_share * table / n * passes
        laws.append(np.append(released, 1 - released.sum()))
    return Pair(*laws, own=np.zeros(4), seeds=counts)


# The settings of an attack on a price that was clipped.


def attacked(rows: int = 300) -> tuple[SeedTest, Pair]:
    """One class of all rows passes always; the lone row x fails, which the model alone shows 34 times as often."""
    test = SeedBudget(rows, 0.0, 1.0, 1e-5).tuned(SeedTest(80, 1.0, seeded_share=0.9999), 1)
    return test, class_pair(test, 0, np.array([float(rows)]))


def test_a_lone_row_behind_a_share_near_one_is_priced_at_what_it_tells() -> None:
    test, pair = attacked()
    assert exact_deltas(pair, 1, 2.99)[0] > 1e-5
    epsilon = epsilon_of(test, 1, 300, 0.0, 1e-5)
    assert epsilon > 2.99
    assert max(exact_deltas(pair, 1, epsilon)) <= 1e-5


def test_a_share_near_one_is_refused_unless_the_exact_guarantee_holds() -> None:
    budget, answers = Budget(1.0, 1e-5, "gdp"), set[bool]()
    asked = SeedTest(80, 1.0, seeded_share=0.9999)
    for seeds in (300, 3000, 20_000, 100_000):
        counted = NoisyMarginal((), np.array(float(seeds)), 1.0)
        try:
            test = affordable_test(asked, 1, counted, budget, 0.0, tune=True)
        except BudgetExceededError:
            answers.add(False)
            assert seeds < 100_000
            continue
        answers.add(True)
        n = seeds_lower_bound(counted, 0.05e-5)
        for own in (0, 1, 40, 78, 79, 80, 120):
            assert max(exact_deltas(class_pair(test, own, np.array([float(n - own)])), 1, 1.0)) <= 1e-5
        assert seeds > 300
    assert answers == {True, False}


# Parts of the derivation.


def test_threshold_noise_and_order_do_not_depend_on_the_noisy_count() -> None:
    """They are those of the least number of seeds that will do; the count only says whether it is reached."""
    asked, budget = SeedTest(300, 1.0), Budget(1.0, 1e-6, "gdp")
    settled = {
        affordable_test(asked, 20, NoisyMarginal((), np.array(count), 20.0), budget, 0.01, tune=True)
        for count in (20_000.0, 20_001.0, 400_000.0)
    }
    assert len(settled) == 1
    test = settled.pop()
    least = SeedBudget(1, 0.01, 1.0, 0.95e-6).min_seeds(asked, 20)
    assert least is not None
    assert epsilon_of(test, 20, least, 0.01, 0.95e-6) <= 1
    assert SeedBudget(int(least / 1.03), 0.01, 1.0, 0.95e-6).price(asked, 20) > 1
    assert SeedBudget(1, 0.01, 1.0, 0.95e-6).min_seeds(asked, 10**15) is None


def test_every_part_of_the_price_falls_as_the_table_grows() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        test = random_test(rng, float(rng.choice([1.0, 2.0])))
        t, n = int(rng.integers(1, test.k + 1)), int(rng.integers(test.k, 5 * test.k))
        grown = n + int(rng.integers(1, 3 * n))
        assert np.all(renyi(test, t, grown) <= renyi(test, t, n))
        assert delta_own(test, t, grown) < delta_own(test, t, n)


def test_phi_is_never_rounded_down() -> None:
    rng = np.random.default_rng(6)
    with mpmath.workdps(60):
        for _ in range(400):
            x = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-13, -0.01))
            order = float(rng.choice(ORDERS))
            exact = (1 + mpmath.mpf(x)) ** mpmath.mpf(order) - 1 - mpmath.mpf(order) * mpmath.mpf(x)
            found = float(seed_price._phi(x, np.array([order]))[0])  # pyright: ignore[reportPrivateUsage]
            if math.isfinite(found):
                assert 1 - 1e-8 < found / float(exact) < 1 + 3e-5


def test_roundings_of_what_was_spent_before_do_not_reach_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise scales follow from noisy answers, and so do the last digits of their prices; the Renyi order must not."""
    budget, priced = Budget(1.0, 1e-6, "gdp"), []
    monkeypatch.setattr(seeded_rows, "affordable_test", lambda *given, **_: priced.append(given[-1]) or given[0])
    request = SeededRows(None, 5, (1,), SeedTest(50, 1.0), NoisyMarginal((), np.array(9000.0), 5.0))  # type: ignore[arg-type]
    for part in (Fraction(1, 3), Fraction(525, 1000) - Fraction(1, 10**12)):
        for off in (0, Fraction(1, 10**15), Fraction(-1, 10**15)):
            spent = budget.rho * part * (1 + off)
            request.priced(Domain((), ()), budget, spent, Neighbours())
            assert spent <= priced[-1] <= float(spent) + 1.01 * float(budget.rho) / 2**30
        assert len(set(priced)) == 1
        priced.clear()
    assert coarsely_spent(budget.rho, budget) == budget.rho
