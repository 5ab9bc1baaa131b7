"""The noise has exactly the distribution it claims: in the middle, in the tails, and where floats cannot decide."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from lookalike.errors import BudgetError
from lookalike.privacy.kernel import mechanisms
from lookalike.privacy.kernel.mechanisms import FLOAT_ERROR, Distribution, Gaussian, rounded_gaussian, upper_tail
from lookalike.privacy.row_level.seeded_rows import Geometric, two_sided_geometric

FALSE_ALARM = 1e-9
"""Probability with which a right sampler fails one chi-square test; all tests here together stay below 1e-6."""

DISTRIBUTIONS: list[type[Distribution]] = [Gaussian, Geometric]


def float_tail(distribution: Distribution, k: np.ndarray, scale: float) -> np.ndarray:
    """P(K >= k) for k >= 1 in floats, from SciPy: independent of the code under test."""
    if isinstance(distribution, Gaussian):
        return special.ndtr(-(k - 0.5) / scale)
    return np.exp(-k / scale) / (1 + np.exp(-1 / scale))


def masked(zeros: int) -> mechanisms.BitSource:
    """System entropy with the top `zeros` bits of every V set to 0: draws given that V < 2^-(1 + zeros)."""

    def bits(count: int) -> bytes:
        words = np.frombuffer(os.urandom(count), dtype="<u8")
        return words.tobytes() if count == 8 else (words & np.uint64(2 ** (64 - zeros) - 1)).tobytes()

    return bits


def cut_points(distribution: Distribution, zeros: int, count: int) -> np.ndarray:
    """Magnitudes that part the distribution into bins of at least 50 expected draws, as far out as that goes."""
    share = 2.0 ** (1 + zeros)
    wanted = np.geomspace(5e-5, 0.999, 40)[::-1] / share
    depth = -special.ndtri(wanted) if isinstance(distribution, Gaussian) else -np.log(wanted)
    cuts, last = [], 1.0
    for cut in np.unique(np.maximum(1, np.round(depth * distribution.scale))):
        tail = min(1.0, float(float_tail(distribution, cut, distribution.scale)) * share)
        if tail * count >= 100 and ((last - tail) * count >= 100 or tail == 1.0):
            cuts.append(cut)
            last = tail
    return np.array(cuts)


def fit(distribution: Distribution, draws: np.ndarray, zeros: int, scale: float) -> float:
    """p-value of a chi-square test of draws (made with `masked(zeros)`) against the exact distribution."""
    cuts = cut_points(distribution, zeros, draws.size)
    tails = np.minimum(1.0, float_tail(distribution, cuts, scale) * 2.0 ** (1 + zeros)) / 2
    side = tails - np.append(tails[1:], 0.0)
    expected = draws.size * np.concatenate([side[::-1], [1 - 2 * tails[0]], side])
    observed = np.histogram(draws, np.concatenate([[-np.inf], -cuts[::-1] + 0.5, cuts - 0.5, [np.inf]]))[0]
    possible = expected > 0
    if observed[~possible].any():
        return 0.0
    distance = ((observed - expected)[possible] ** 2 / expected[possible]).sum()
    return float(stats.chi2.sf(distance, possible.sum() - 1))


@pytest.mark.parametrize(
    ("distribution", "zeros"),
    [
        (Gaussian(0.1), 19),
        (Gaussian(0.3), 3),
        (Gaussian(0.5), 0),
        (Gaussian(1.0), 0),
        (Gaussian(2.5), 0),
        (Gaussian(40.0), 0),
        (Gaussian(1e4), 0),
        (Gaussian(1e6), 0),
        (Gaussian(1.0), 40),
        (Gaussian(30.0), 40),
        (Geometric(0.1), 12),
        (Geometric(0.5), 0),
        (Geometric(3.0), 0),
        (Geometric(1e4), 0),
        (Geometric(1e6), 0),
        (Geometric(5.0), 40),
    ],
)
def test_law_is_right_and_a_wrong_scale_is_seen(distribution: Distribution, zeros: int) -> None:
    """Bins reach to probability 1e-4 of what is drawn; with 40 leading zeros that is 2^-40 * 1e-4 = 1e-16 in all."""
    draws = mechanisms.draw(distribution, 1_000_000, masked(zeros))
    assert fit(distribution, draws, zeros, distribution.scale) > FALSE_ALARM
    assert fit(distribution, draws, zeros, distribution.scale * 1.05) < FALSE_ALARM
    assert fit(distribution, draws, zeros, distribution.scale / 1.05) < FALSE_ALARM


def test_neighbouring_draws_are_independent() -> None:
    draws = rounded_gaussian(10.0, 400_000).astype(float)
    for lag in (1, 2, 3, 64):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 7 / np.sqrt(draws.size)


# Where floats cannot decide.


def brute(distribution: Distribution, numerator: int, bits: int) -> int:
    """|K| at V = numerator / 2^bits by mpmath's inverse functions, where the code uses tail probabilities."""
    with mpmath.workdps(200):
        v, scale = mpmath.ldexp(mpmath.mpf(numerator), -bits), mpmath.mpf(distribution.scale)
        if isinstance(distribution, Gaussian):
            return int(mpmath.floor(scale * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * v) + mpmath.mpf(1) / 2))
        return int(mpmath.floor(-scale * mpmath.log(v * (1 + mpmath.exp(-1 / scale)))))


def boundary(distribution: Distribution, k: int, bits: int) -> int:
    """floor(2^bits * P(K >= k)) by mpmath."""
    with mpmath.workdps(120):
        if isinstance(distribution, Gaussian):
            tail = mpmath.erfc((mpmath.mpf(k) - 0.5) / mpmath.mpf(distribution.scale) / mpmath.sqrt(2)) / 2
        else:
            q = mpmath.exp(-1 / mpmath.mpf(distribution.scale))
            tail = q**k / (1 + q)
        return int(mpmath.floor(mpmath.ldexp(tail, bits)))


class Script:
    """A bit source that hands out given 64-bit words and refuses to give more."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def __call__(self, count: int) -> bytes:
        assert count == 8
        return self.words.pop(0).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("distribution", "k"),
    [(Gaussian(s), k) for s, k in ((0.1, 1), (0.5, 1), (0.5, 4), (3.0, 7), (1e4, 31_415), (1e12, 10**12))]
    + [(Geometric(s), k) for s, k in ((0.1, 1), (1.0, 1), (1.0, 30), (3.0, 7), (1e4, 31_415), (1e12, 10**12))],
)
def test_more_bits_are_drawn_when_v_lies_at_a_boundary(distribution: Distribution, k: int) -> None:
    """V agrees with P(K >= k) in 64 or 128 bits and then falls just below or just above it."""
    tail = boundary(distribution, k, 192)
    first, second, third = tail >> 128, tail >> 64 & 2**64 - 1, tail & 2**64 - 1
    for sign in (0, 1):
        word, side = first << 1 | sign, -1 if sign else 1
        cases: list[tuple[tuple[int, ...], int]] = [
            ((word, second - 1), k),
            ((word, second + 1), k - 1),
            ((word, second, third - 1), k),
            ((word, second, third + 1), k - 1),
        ]
        for words, magnitude in cases:
            source = Script(*words)
            assert mechanisms.draw(distribution, 1, source)[0] == side * magnitude
            assert not source.words


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("scale", [1e-3, 0.1, 0.7, 12.5, 1e4, 1e9, 1e12])
def test_float_path_refinement_and_brute_force_agree(kind: Callable[[float], Distribution], scale: float) -> None:
    distribution = kind(scale)
    rng = np.random.default_rng(5)
    m = np.concatenate([rng.integers(1, 2**63, 20), 2 ** rng.integers(0, 62, 20) + rng.integers(0, 2, 20)])
    rest = int(rng.integers(2**63))
    for start in m.tolist():
        expected = brute(distribution, start << 64 | rest, 128)
        assert mechanisms.draw(distribution, 1, Script(start << 1, *[rest] * 3))[0] == expected
        for guess in (0, expected, expected + 1, 2 * expected + 1000):
            assert mechanisms._Refined(distribution, start << 64 | rest, 128, Script(0, 0)).magnitude(guess) == expected


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("scale", [0.1, 1000.0])
def test_v_below_its_first_63_bits_is_always_refined(kind: Callable[[float], Distribution], scale: float) -> None:
    """m = 0 says only that V < 2^-64: the words after it decide, however small they make V."""
    distribution = kind(scale)
    for words in ((2**63,), (1,), (0, 77, 1), (0, 0, 0, 1, 2**63)):
        value = 0
        for word in words:
            value = value << 64 | word
        exact = brute(distribution, 2 * value + 1, 64 * (1 + len(words)) + 1)
        assert mechanisms.draw(distribution, 1, Script(0, *words, 2**63, 0, 0))[0] == exact


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e12])
def test_float_error_bound_holds_with_room(kind: Callable[[float], Distribution], scale: float) -> None:
    """The magnitude before rounding, against mpmath at the same float V, over all of (2^-65, 1/2)."""
    distribution = kind(scale)
    rng = np.random.default_rng(11)
    v = np.concatenate(
        [2.0 ** -rng.uniform(1, 65, 300), rng.uniform(0, 0.5, 100), 0.5 - 2.0 ** -rng.uniform(2, 54, 100)]
    )
    with mpmath.workdps(50):
        exact_scale = mpmath.mpf(scale)
        for x, got in zip(v.tolist(), distribution.magnitude(v).tolist(), strict=True):
            if kind is Gaussian:
                exact = exact_scale * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(x))
            else:
                exact = -exact_scale * mpmath.log(mpmath.mpf(x) * (1 + mpmath.exp(-1 / exact_scale))) - 0.5
            assert abs(exact - got) < scale * FLOAT_ERROR / 3 + 2.0**-53


@pytest.mark.parametrize("bits", [64, 200, 1000])
def test_bounds_of_the_normal_tail(bits: int) -> None:
    for x in (
        Fraction(0),
        Fraction(1, 10**9),
        Fraction(1),
        Fraction(-7, 3),
        Fraction(37, 4),
        Fraction(75),
        Fraction(10**9),
    ):
        low, high = upper_tail(x, bits)
        with mpmath.workdps(700):
            exact = mpmath.erfc(mpmath.mpf(x.numerator) / x.denominator / mpmath.sqrt(2)) / 2
            assert mpmath.mpf(low.numerator) / low.denominator <= exact <= mpmath.mpf(high.numerator) / high.denominator
        assert high - low < Fraction(1, 2**bits)


# The functions as called.


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
def test_shape_type_and_randomness(draw: Callable[..., np.ndarray]) -> None:
    assert draw(3.0, (4, 5)).shape == (4, 5)
    assert draw(3.0, ()).shape == ()
    assert draw(3.0, 0).shape == (0,)
    assert draw(3.0, 7).dtype == np.int64
    assert not np.array_equal(draw(1e6, 10), draw(1e6, 10))
    fixed = [draw(1e6, 100_000, insecure_rng=np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*fixed)


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
@pytest.mark.parametrize("scale", [0.0, -1.0, 9e-4, 2e12, float("nan"), float("inf")])
def test_scales_out_of_range_are_refused(draw: Callable[..., np.ndarray], scale: float) -> None:
    with pytest.raises(BudgetError, match=r"must lie between 0\.001 and 1e\+12"):
        draw(scale, 3)


# A second opinion.


def two_samples(one: np.ndarray, two: np.ndarray) -> float:
    """p-value of a chi-square test that both samples come from one distribution."""
    low, high = np.quantile(one, [0.002, 0.998])
    values = [np.clip(x, low, high).astype(int) for x in (one, two)]
    table = np.array([np.bincount(x - int(low), minlength=int(high - low) + 1) for x in values])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


@pytest.mark.parametrize("scale", [0.8, 4.0])
def test_opendp_agrees(scale: float) -> None:
    """OpenDP's integer Laplace is distributed as our geometric noise; its Gaussian on floats, rounded, as ours."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    laplace = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale)
    reals = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    gaussian = dp.m.make_gaussian(reals, dp.l2_distance(T=float), scale)
    theirs = np.array(laplace([0] * 30_000)), np.rint(gaussian([0.0] * 10_000))
    for sample, draw in zip(theirs, (two_sided_geometric, rounded_gaussian), strict=True):
        assert two_samples(draw(scale, 200_000), sample) > FALSE_ALARM
        assert two_samples(draw(scale * 1.25, 200_000), sample) < FALSE_ALARM
