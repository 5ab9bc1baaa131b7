"""The exponential mechanism has exactly its law, also where floats cannot decide."""

from __future__ import annotations

import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lookalike.errors import BudgetError
from lookalike.privacy.kernel import mechanisms
from lookalike.privacy.kernel.mechanisms import WeightedScores, exponential_mechanism, largest_weight
from tests.privacy.spies import plain_scores


class Script:
    """A bit source that hands out given 64-bit words and refuses to give more."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def __call__(self, count: int) -> bytes:
        assert count == 8
        return self.words.pop(0).to_bytes(8, "little")


def boundaries(scores: list[float], rate: Fraction) -> list[mpmath.mpf]:
    """Running sums of the probabilities, by mpmath; call inside `workdps`."""
    factor = mpmath.mpf(rate.numerator) / rate.denominator
    weights = [mpmath.exp(mpmath.mpf(score) * factor) for score in scores]
    return [mpmath.fsum(weights[: i + 1]) / mpmath.fsum(weights) for i in range(len(weights))]


def p_value(chosen: np.ndarray, scores: np.ndarray, rate: float) -> float:
    weights = np.exp((scores - scores.max()) * rate)
    expected = chosen.size * weights / weights.sum()
    return float(stats.chisquare(np.bincount(chosen, minlength=scores.size), expected).pvalue)


def test_law_is_right_and_a_wrong_epsilon_is_seen() -> None:
    scores = np.array([3.0, 0.0, 1.5, 2.0, -1.0, 3.0])
    chosen = np.array([exponential_mechanism(plain_scores(scores), 1.2, 0.5) for _ in range(50_000)])
    rate = 1.2 / (2 * 0.5)
    assert p_value(chosen, scores, rate) > 1e-9
    assert p_value(chosen, scores, rate * 1.1) < 1e-9
    assert p_value(chosen, scores, rate * 2) < 1e-9


@pytest.mark.parametrize("candidate", [0, 1, 2])
def test_more_bits_are_drawn_at_a_boundary(candidate: int) -> None:
    """U agrees with the boundary above a candidate in 64 or 128 bits, then falls just below or just above it."""
    scores, rate = [0.5, -2.0, 1.0, 0.25], Fraction(1, 3)
    with mpmath.workdps(120):
        edge = int(mpmath.floor(mpmath.ldexp(boundaries(scores, rate)[candidate], 192)))
    first, second, third = edge >> 128, edge >> 64 & 2**64 - 1, edge & 2**64 - 1
    cases: list[tuple[tuple[int, ...], int]] = [
        ((first, second - 2**20), candidate),
        ((first, second + 2**20), candidate + 1),
        ((first, second, third - 2**20), candidate),
        ((first, second, third + 2**20), candidate + 1),
    ]
    for words, expected in cases:
        source = Script(*words)
        assert mechanisms._choose(plain_scores(scores), rate, source) == expected
        assert not source.words


@settings(max_examples=150, deadline=None)
@given(
    scores=st.lists(st.floats(-300, 300), min_size=1, max_size=12),
    rate=st.fractions(Fraction(1, 1000), 20),
    word=st.integers(0, 2**64 - 1),
)
def test_floats_and_decimals_choose_as_brute_force(scores: list[float], rate: Fraction, word: int) -> None:
    middle = 2**63
    with mpmath.workdps(60):
        place = mpmath.ldexp(mpmath.mpf((word << 64 | middle) << 64 | middle), -192)
        expected = next(i for i, edge in enumerate(boundaries(scores, rate)) if place < edge or i == len(scores) - 1)
    given = plain_scores(scores)
    assert mechanisms._choose(given, rate, Script(word, middle, middle)) == expected
    assert mechanisms._choose_exactly(given.fractions(), rate, word, Script(middle, middle)) == expected


def test_only_differences_of_scores_matter() -> None:
    scores = np.array([1.0, 4.0, 2.0])
    for word in range(0, 2**64, 2**59 + 12345):
        moved = [plain_scores(scores + shift) for shift in (0.0, 1e6, -1e6)]
        picks = {mechanisms._choose(given, Fraction(1, 2), Script(word)) for given in moved}
        assert len(picks) == 1


def test_extreme_scores() -> None:
    assert exponential_mechanism(plain_scores([5.0]), 1.0, 1.0) == 0
    assert exponential_mechanism(plain_scores([-1e308, 0.0, 1e308]), 1.0, 1.0) == 2
    assert exponential_mechanism(plain_scores(np.array([0, 10**6, 3])), 1.0, 1.0) == 1
    extreme = plain_scores([-1e308, 0.0, 1e308])
    assert mechanisms._choose_exactly(extreme.fractions(), Fraction(1, 2), 12345, Script()) == 2


# Weighted scores: large ones, in exact arithmetic.

LARGE = st.integers(-(10**15), 10**15)
WEIGHTS = st.one_of(st.floats(-4, 4), st.sampled_from([0.1, 1 / 3, 1 - 2**-53, 1 + 2**-52, 0.7, -0.3]))


@st.composite
def weighted(draw: st.DrawFn, most: int = 6) -> WeightedScores:
    """Scores of up to 1e15 about as large as each other, so that floats cannot tell their differences."""
    count, base = draw(st.integers(1, most)), draw(LARGE)
    numbers = [base + draw(st.integers(-3, 3)) for _ in range(count)]
    weights = [draw(WEIGHTS) for _ in range(count)]
    resolution = draw(st.sampled_from([1, 3, 1000, 2 << 20]))
    near = [draw(st.sampled_from([0.0, base / resolution, base / resolution - 0.3])) for _ in range(count)]
    return WeightedScores(np.array(numbers), np.array(weights), np.array(near), resolution)


@settings(max_examples=300, deadline=None)
@given(scores=weighted())
def test_the_error_bound_of_floats_holds(scores: WeightedScores) -> None:
    values, errors = scores.floats()
    for value, error, exact in zip(values, errors, scores.fractions(), strict=True):
        assert abs(Fraction(float(value)) - exact) <= Fraction(float(error))


@settings(max_examples=200, deadline=None)
@given(scores=weighted(), rate=st.fractions(Fraction(1, 1000), 5), word=st.integers(0, 2**64 - 1))
def test_large_scores_are_chosen_between_as_brute_force_does(scores: WeightedScores, rate: Fraction, word: int) -> None:
    middle = 2**63
    with mpmath.workdps(80):
        place = mpmath.ldexp(mpmath.mpf((word << 64 | middle) << 64 | middle), -192)
        exponents = [score * rate for score in scores.fractions()]
        top = max(exponents)
        weights = [mpmath.exp(mpmath.mpf((x - top).numerator) / (x - top).denominator) for x in exponents]
        edges = [mpmath.fsum(weights[: i + 1]) / mpmath.fsum(weights) for i in range(len(weights))]
        expected = next(i for i, edge in enumerate(edges) if place < edge or i == len(edges) - 1)
    assert mechanisms._choose(scores, rate, Script(word, middle, middle)) == expected


def test_a_row_moves_a_large_weighted_score_by_no_more_than_the_sensitivity() -> None:
    """In floats weight * (score - offset) would move by 0.109 where 0.1 is the most that is paid for."""
    weights, offsets = np.array([0.1]), np.array([0.0])
    before, after = (WeightedScores(np.array([10**15 + more]), weights, offsets) for more in (0, 1))
    moved = after.fractions()[0] - before.fractions()[0]
    assert moved == largest_weight(weights, offsets) == Fraction(0.1)
    assert after.floats()[0][0] - before.floats()[0][0] > 0.109


def test_thousands_of_candidates_take_milliseconds_however_large() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 10**15, 5000)
    scores = WeightedScores(numbers, rng.random(5000), numbers - rng.random(5000), 1)
    start = time.process_time()
    exponential_mechanism(scores, 1.0, 1.0)
    assert time.process_time() - start < 2.0  # all of it in exact arithmetic


def test_weights_that_make_no_choice_are_refused() -> None:
    for weights, offsets in (([0.0, 0.0], [1.0, 1.0]), ([1.0, np.inf], [0.0, 0.0]), ([1.0], [0.0, 0.0]), ([], []),
                             ([1.0, np.nan], [0.0, 0.0]), ([1.0, 1.0], [0.0, np.nan])):  # fmt: skip
        with pytest.raises(BudgetError, match="weights of a choice"):
            largest_weight(np.array(weights), np.array(offsets))


def test_fixed_bits_for_benchmarks() -> None:
    scores = np.arange(1000)
    given = plain_scores(scores)
    picks = [exponential_mechanism(given, 0.01, 1.0, insecure_rng=np.random.default_rng(9)) for _ in range(2)]
    assert picks[0] == picks[1]


def test_refusals() -> None:
    for scores in ([], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="one number per candidate"):
            exponential_mechanism(plain_scores(scores), 1.0, 1.0)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not finite"):
            exponential_mechanism(plain_scores([0.0, bad]), 1.0, 1.0)
        with pytest.raises(BudgetError, match="sensitivity of a choice"):
            exponential_mechanism(plain_scores([0.0]), 1.0, bad)
    for epsilon in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BudgetError, match="epsilon of a choice"):
            exponential_mechanism(plain_scores([0.0]), epsilon, 1.0)
