"""The price of seeded rows against exact probabilities: every small table, every neighbour, every output."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest

from lookalike.privacy.row_level.seed_price import (
    ORDERS,
    SeedBudget,
    SeedTest,
    delta_own,
    epsilon_of,
    paper_price,
    renyi,
    tight_price,
)

PREFIXES = 3


@lru_cache
def pass_probability(test: SeedTest, seeds: int) -> float:
    """P[seeds + Z >= k], summed term by term from the noise's definition."""
    ratio = math.exp(-test.epsilon0)
    capped = min(seeds, test.max_plausible or seeds)
    upper = sum(ratio**z for z in range(1, 400)) * (1 - ratio) / (1 + ratio)
    near = sum(ratio ** abs(z) for z in range(test.k - capped, 1)) * (1 - ratio) / (1 + ratio)
    if capped >= test.k:
        return upper + near
    return sum(ratio**z for z in range(test.k - capped, test.k - capped + 400)) * (1 - ratio) / (1 + ratio)


def seeded_law(test: SeedTest, counts: tuple[int, ...]) -> np.ndarray:
    """Probability of each prefix being released by the paper's mechanism; the rest is 'nothing released'."""
    n = max(1, sum(counts))
    return np.array([count / n * pass_probability(test, count) if count else 0.0 for count in counts])


def total_law(test: SeedTest, counts: tuple[int, ...], model: np.ndarray) -> np.ndarray:
    """Probability of each output (prefix, last value) with failures and a share 1 - L drawn from the model alone.

    `model[prefix, value]` is the model's joint law; the value after a kept prefix follows the model's conditional.
    """
    released = seeded_law(test, counts)
    prior = model.sum(axis=1)
    conditional = model / prior[:, None]
    share = test.seeded_share
    alone = 1 - share + share * (1 - released.sum())
    return share * released[:, None] * conditional + alone * model


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def neighbouring_counts(test: SeedTest, most: int):
    """All tables of k..most rows over the prefixes, as counts, each with the table that has one more row."""
    for counts in itertools.product(range(most + 1), repeat=PREFIXES):
        if test.k <= sum(counts) <= most:
            for prefix in range(PREFIXES):
                yield counts, tuple(c + (i == prefix) for i, c in enumerate(counts))


def worst_delta(test: SeedTest, t: int, price, *, most: int, model: np.ndarray | None) -> float:
    """Largest excess of the exact hockey-stick divergence over the claimed delta, over all neighbours, both ways."""
    excess = -math.inf
    for smaller, larger in neighbouring_counts(test, most):
        epsilon, delta = price(test, t, sum(smaller))
        laws = [seeded_law(test, c) if model is None else total_law(test, c, model) for c in (smaller, larger)]
        both = max(hockey_stick(laws[1], laws[0], epsilon), hockey_stick(laws[0], laws[1], epsilon))
        excess = max(excess, both / delta)
    return excess


SETTINGS = [(4, 1.0, 2), (6, 0.7, 3), (5, 2.0, 4), (7, 0.3, 2), (8, 1.0, 7)]
MODELS = [
    np.array([[0.3, 0.2], [0.25, 0.15], [0.05, 0.05]]),
    np.array([[0.9, 0.0999], [0.00005, 0.00003], [0.00001, 0.00001]]),
]


@pytest.mark.parametrize(("k", "epsilon0", "t"), SETTINGS)
def test_tight_price_of_one_row_holds_for_every_neighbour_and_output(k: int, epsilon0: float, t: int) -> None:
    for share, model in itertools.product((0.5, 0.95), MODELS):
        test = SeedTest(k, epsilon0, seeded_share=share)
        assert worst_delta(test, t, tight_price, most=k + 4, model=model) <= 1 + 1e-9


@pytest.mark.parametrize(("k", "epsilon0", "t"), SETTINGS)
def test_tight_constants_hold_for_released_rows_of_the_paper_mechanism(k: int, epsilon0: float, t: int) -> None:
    """F3: without 'nothing released', epsilon0 + ln(1 + 1/t) and p(t)/(n+1) suffice; no smaller delta does."""

    def bare(test: SeedTest, t: int, n: int) -> tuple[float, float]:
        return test.epsilon0 + math.log1p(1 / t), pass_probability(test, t) / (n + 1)

    test = SeedTest(k, epsilon0)
    assert worst_delta(test, t, bare, most=k + 4, model=None) <= 1 + 1e-9


@pytest.mark.parametrize(("k", "epsilon0", "t"), SETTINGS)
def test_too_small_an_epsilon_is_caught(k: int, epsilon0: float, t: int) -> None:
    def half(test: SeedTest, t: int, n: int) -> tuple[float, float]:
        return 0.5 * test.epsilon0, tight_price(test, t, n)[1]

    assert worst_delta(SeedTest(k, epsilon0, seeded_share=0.95), t, half, most=k + 4, model=MODELS[1]) > 1


@pytest.mark.parametrize(("k", "epsilon0", "t", "factor"), [(4, 1.0, 2, 0.3), (6, 0.7, 3, 0.2), (7, 0.3, 2, 0.7)])
def test_too_small_a_delta_is_caught(k: int, epsilon0: float, t: int, factor: float) -> None:
    def smaller(test: SeedTest, t: int, n: int) -> tuple[float, float]:
        epsilon, delta = tight_price(test, t, n)
        return epsilon, factor * delta

    assert worst_delta(SeedTest(k, epsilon0, seeded_share=0.95), t, smaller, most=k + 4, model=MODELS[1]) > 1


def test_the_printed_theorem_misses_the_event_that_nothing_is_released() -> None:
    """F2: a lone outlier makes failure appear from nowhere with probability 1/(n+1), far above the printed delta."""
    test = SeedTest(20, 3.0)
    n, t = 60, 10
    without, with_outlier = (n, 0, 0), (n, 1, 0)
    epsilon, delta = paper_price(test, t)
    failures = [1 - seeded_law(test, counts).sum() for counts in (with_outlier, without)]
    assert failures[0] - math.exp(epsilon) * failures[1] > 0.9 / (n + 1) > 1e6 * delta
    model = MODELS[0]
    repaired = [total_law(test, counts, model) for counts in (with_outlier, without)]
    assert hockey_stick(*repaired, *tight_price(test, t, n)[:1]) <= tight_price(test, t, n)[1]


@pytest.mark.parametrize("max_plausible", [None, 6])
@pytest.mark.parametrize(("k", "epsilon0", "t"), [(4, 1.0, 2), (6, 0.4, 3), (9, 0.2, 5), (5, 2.0, 5)])
def test_renyi_bound_covers_every_pair_of_small_tables(
    k: int, epsilon0: float, t: int, max_plausible: int | None
) -> None:
    """The loosest and the tightest pair are compared with exact divergences after x's own mass is taken out."""
    test = SeedTest(k, epsilon0, seeded_share=0.8, max_plausible=max_plausible)
    bounds = {n: renyi(test, t, n) for n in range(k, k + 11)}
    closest = math.inf
    for smaller, larger in neighbouring_counts(test, k + 10):
        n, bound = sum(smaller), bounds[sum(smaller)]
        first, second = outcome_law(test, smaller), outcome_law(test, larger)
        added = second.copy()
        grown = int(np.argmax(np.array(larger) - np.array(smaller)))
        if smaller[grown] < t:
            passing = test.seeded_share * pass_probability(test, larger[grown]) / (n + 1)
            assert passing <= delta_own(test, t, n) * (1 + 1e-9)
            added[grown] = smaller[grown] * passing
            added[-1] += passing
        for exact in (exact_renyi(added, first), exact_renyi(first, second)):
            assert np.all(exact <= bound * (1 + 1e-9) + 1e-15)
            closest = min(closest, float(np.min(bound[:40] / np.maximum(exact[:40], 1e-300))))
    assert closest < 6, "the bound is far from any real pair: a slip in its derivation would not show"


def outcome_law(test: SeedTest, counts: tuple[int, ...]) -> np.ndarray:
    """The prefixes, and 'from the model alone', of which every output is a function."""
    released = test.seeded_share * seeded_law(test, counts)
    return np.append(released, 1 - released.sum())


def exact_renyi(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    seen = first > 0
    with np.errstate(divide="ignore", over="ignore"):
        terms = first[seen] * np.exp((ORDERS[:, None] - 1) * np.log(first[seen] / second[seen]))
        return np.log(terms.sum(axis=1)) / (ORDERS - 1)


@pytest.mark.parametrize(("k", "epsilon0", "rows"), [(30, 0.7, 40), (60, 0.4, 25)])
def test_epsilon_of_many_rows_covers_their_exact_composition(k: int, epsilon0: float, rows: int) -> None:
    """Exact hockey-stick of `rows` independent releases, over multinomial counts of outcomes, worst class sizes."""
    test, n, delta = SeedTest(k, epsilon0, seeded_share=0.8), 2000, 1e-6
    epsilon = epsilon_of(test, rows, n, 0.0, delta)
    assert 0 < epsilon < rows * epsilon0 / 4
    for seeds in (0, 1, k // 2, k - 3, k, k + 3, 3 * k):
        smaller, larger = (seeds, n - seeds), (seeds + 1, n - seeds)
        laws = outcome_law(test, smaller), outcome_law(test, larger)
        for first, second in (laws, laws[::-1]):
            assert composed_hockey_stick(first, second, rows, epsilon) <= delta
    smaller, larger = (k - 3, n - k + 3), (k - 2, n - k + 3)
    first, second = outcome_law(test, larger), outcome_law(test, smaller)
    assert composed_hockey_stick(first, second, rows, epsilon / 3) > delta


def composed_hockey_stick(first: np.ndarray, second: np.ndarray, rows: int, epsilon: float) -> float:
    total = 0.0
    for a in range(rows + 1):
        for b in range(rows - a + 1):
            c = rows - a - b
            ways = math.comb(rows, a) * math.comb(rows - a, b)
            one = ways * first[0] ** a * first[1] ** b * first[2] ** c
            other = ways * second[0] ** a * second[1] ** b * second[2] ** c
            total += max(0.0, one - math.exp(epsilon) * other)
    return total


def test_pass_probability_is_the_noise_tail() -> None:
    test = SeedTest(5, 0.6, max_plausible=9)
    seeds = np.arange(1.0, 30.0)
    exact = [pass_probability(test, int(s)) for s in seeds]
    np.testing.assert_allclose(np.exp(test.log_pass(seeds)), exact, rtol=1e-9)


def test_needed_k_and_max_rows_agree_with_the_price() -> None:
    test, budget = SeedTest(50, 1.0), SeedBudget(n=700_000, rho=0.005, epsilon=1.0, delta=1e-9)
    assert budget.price(test, 10_000) > 1
    rows = budget.max_rows(test)
    assert budget.price(test, rows) <= 1 < budget.price(test, rows + 1)
    k = budget.min_k(test, 10_000)
    assert k is not None
    assert budget.price(SeedTest(k, 1.0), 10_000) <= 1 < budget.price(SeedTest(k - 1, 1.0), 10_000)
    assert budget.min_k(test, 10**12) is None


def test_random_subset_counting_keeps_the_price_of_one_row() -> None:
    """max_check: the count is hypergeometric; adding a row may push others out, and the price must still hold."""
    test, t = SeedTest(4, 0.8, seeded_share=0.7, max_check=6), 3
    for smaller, larger in neighbouring_counts(test, 11):
        epsilon, delta = tight_price(test, t, sum(smaller))
        first, second = (subset_law(test, counts) for counts in (smaller, larger))
        assert hockey_stick(second, first, epsilon) <= delta * (1 + 1e-9)
        assert hockey_stick(first, second, epsilon) <= delta * (1 + 1e-9)


def subset_law(test: SeedTest, counts: tuple[int, ...]) -> np.ndarray:
    n = sum(counts)
    looked = min(n, test.max_check or n)
    law = []
    for count in counts:
        passed = 0.0
        for inside in range(max(0, looked - (n - count)), min(count, looked) + 1):
            weight = math.comb(count, inside) * math.comb(n - count, looked - inside) / math.comb(n, looked)
            passed += weight * pass_probability(test, inside)
        law.append(test.seeded_share * count / n * passed)
    return np.append(law, 1 - sum(law))


# The test for the mixture over several numbers of kept columns, where probabilities of plausible seeds differ.

WIDTH = 2
STEPS = (np.array([0.7, 0.3]), np.array([[0.8, 0.2], [0.4, 0.6]]))
RECORDS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def made_by(record: tuple[int, int], made: tuple[int, int], kept: tuple[int, ...]) -> float:
    """Pr[made = M(record)], the number of kept columns being drawn from `kept`."""
    total = 0.0
    for number in kept:
        if record[:number] == made[:number]:
            factors = [STEPS[0][made[0]], STEPS[1][made[0], made[1]]]
            total += math.prod(factors[number:])
    return total / len(kept)


def mixture_law(test: SeedTest, counts: tuple[int, ...], kept: tuple[int, ...]) -> np.ndarray:
    """Probability of every output, by the definition of the mechanism."""
    n, outputs = sum(counts), np.zeros(len(RECORDS))
    for place, made in enumerate(RECORDS):
        chances = [made_by(record, made, kept) for record in RECORDS]
        classes = [math.floor(-math.log(c) / math.log(test.gamma) + 1e-12) if c > 0 else None for c in chances]
        for count, chance, own in zip(counts, chances, classes, strict=True):
            if count and chance > 0:
                plausible = sum(c for c, other in zip(counts, classes, strict=True) if other == own)
                outputs[place] += count / n * chance * pass_probability(test, plausible)
    model = np.array([STEPS[0][x] * STEPS[1][x, y] for x, y in RECORDS])
    share = test.seeded_share
    return share * outputs + (1 - share * outputs.sum()) * model


@pytest.mark.parametrize("gamma", [1.5, 4.0])
@pytest.mark.parametrize("kept", [(0, 1, 2), (1, 2)])
def test_price_of_the_mixture_holds_for_every_neighbour_and_output(gamma: float, kept: tuple[int, ...]) -> None:
    test, t = SeedTest(4, 0.9, gamma=gamma, seeded_share=0.9), 3
    bounds = {n: renyi(test, 1, n) for n in range(test.k, 8)}
    for counts in itertools.product(range(6), repeat=len(RECORDS)):
        n = sum(counts)
        if n not in bounds:
            continue
        epsilon, delta = tight_price(test, t, n)
        first = mixture_law(test, counts, kept)
        for record in range(len(RECORDS)):
            second = mixture_law(test, tuple(c + (i == record) for i, c in enumerate(counts)), kept)
            assert hockey_stick(second, first, epsilon) <= delta * (1 + 1e-9)
            assert hockey_stick(first, second, epsilon) <= delta * (1 + 1e-9)
            assert np.all(exact_renyi(first, second) <= bounds[n] + 1e-12)
