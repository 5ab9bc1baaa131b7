"""What counted events prove about a guarantee, with exact confidence.

All bounds here are wrong with probability at most `failure`, whatever the release does: rates by Clopper and Pearson
(1934), guesses about many inserted rows by Steinke, Nasr and Jagielski (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import binom

from lookalike.privacy.composition import epsilon_spent, gaussian_epsilon

Promise = Literal["gdp", "zcdp", "pure"]
"""What is claimed: a Gaussian trade-off curve, zero-concentrated DP, or epsilon and delta alone."""


def rate_bounds(hits: int | np.ndarray, runs: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds on a probability (Clopper and Pearson 1934), each wrong with probability at most `failure`.

    >>> low, high = rate_bounds(10, 10, 0.05)
    >>> round(float(low), 3), float(high)
    (0.741, 1.0)
    """
    hits = np.asarray(hits)
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, failure), 0.0)
    high = np.where(hits < runs, betaincinv(hits + 1, np.maximum(runs - hits, 1), 1.0 - failure), 1.0)
    return low, high


def epsilon_shown(hits: int, other_hits: int, runs: int, *, delta: float, failure: float) -> float:
    """Return the epsilon shown by an event that happened in `hits` runs on a table and `other_hits` on a neighbour.

    A private release has P[event] <= e^epsilon P'[event] + delta, so epsilon is at least
    log((lower bound of P - delta) / upper bound of P'). The result exceeds the true epsilon with probability at most
    `failure`.

    >>> round(epsilon_shown(100, 0, 100, delta=0.0, failure=1e-6), 2)
    1.86
    """
    low, high = _rates(hits, other_hits, runs, failure)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def _rates(hits: int, other_hits: int, runs: int, failure: float) -> tuple[float, float]:
    """A lower bound of the event's probability on the first table, and an upper bound of that on the other."""
    low, high = rate_bounds(np.array([hits, other_hits]), runs, failure / 2)
    return float(low[0]), float(high[1])


def gaussian_epsilon_shown(
    hits: int, other_hits: int, runs: int, *, delta: float, threshold_delta: float, failure: float
) -> float:
    """The same for a run that claims Gaussian DP, which is stronger: P <= Phi(Phi^-1(P') + mu) + threshold_delta.

    The event shows that mu is at least Phi^-1(lower bound of P - threshold_delta) - Phi^-1(upper bound of P'), which is
    converted to epsilon at the part of delta that is not used by thresholds.
    """
    mu = mu_shown(hits, other_hits, runs, failure=failure, threshold_delta=threshold_delta)
    return gaussian_epsilon(mu, delta - threshold_delta) if mu > 0 else 0.0


def mu_shown(hits: int, other_hits: int, runs: int, *, failure: float, threshold_delta: float = 0.0) -> float:
    """Return the mu of Gaussian DP that an event shows: one point below the trade-off curve of any smaller mu.

    >>> round(mu_shown(800, 200, 1000, failure=1e-3), 2)
    1.38
    """
    low, high = _rates(hits, other_hits, runs, failure)
    if low <= threshold_delta or high >= 1:
        return 0.0
    return max(0.0, float(ndtri(low - threshold_delta) - ndtri(high)))


_ORDERS = 1.0 + np.geomspace(1e-3, 1e3, 300)


def rho_shown(hits: int, other_hits: int, runs: int, *, failure: float) -> float:
    """Return the rho of zero-concentrated DP that an event shows.

    rho-zCDP bounds the Renyi divergence of every order a by a rho, and so that between the event's two rates p > q:
    log(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) / (a - 1). It falls when p falls or q grows, so bounds of both may be used.
    A single event never shows all of rho: of a small Gaussian loss it shows at most 2/pi.
    """
    low, high = _rates(hits, other_hits, runs, failure)
    if low <= high:
        return 0.0
    one, rest = _power(low, high), _power(1 - low, 1 - high)
    return float(np.max(np.logaddexp(one, rest) / (_ORDERS - 1) / _ORDERS))


def _power(p: float, q: float) -> np.ndarray:
    """Return log(p^a q^(1-a)) at each order."""
    return _ORDERS * math.log(p) + (1 - _ORDERS) * math.log(q) if p > 0 else np.full_like(_ORDERS, -np.inf)


@dataclass(frozen=True, slots=True)
class Promised:
    """What a release claims: `strength` is mu of Gaussian DP, the root of 2 rho of zCDP, or epsilon.

    >>> promised = Promised("gdp", 0.268, 1e-5)
    >>> round(promised.epsilon(promised.strength), 2)
    1.0
    """

    kind: Promise
    strength: float
    delta: float

    def shown(self, hits: int, other_hits: int, runs: int, failure: float) -> float:
        """Return the smallest strength that an event does not contradict; 0 where it contradicts none."""
        if self.kind == "gdp":
            return mu_shown(hits, other_hits, runs, failure=failure)
        if self.kind == "zcdp":
            return math.sqrt(2 * rho_shown(hits, other_hits, runs, failure=failure))
        return epsilon_shown(hits, other_hits, runs, delta=self.delta, failure=failure)

    def epsilon(self, strength: float) -> float:
        """Return the epsilon of a strength, at delta, by the conversion that accounting uses."""
        if self.kind == "pure" or strength == 0:
            return strength
        return epsilon_spent(Fraction(strength) ** 2 / 2, self.delta, self.kind)

    def expected(self, runs: int, failure: float) -> float:
        """Return about what is shown if the claim is exactly used up: by a Gaussian loss at its middle, or by a choice
        with a chance of 1/4."""
        if self.kind == "pure":
            rates = (0.25, 1 / (1 + 3 * math.exp(self.strength)))
        else:
            rates = (float(ndtr(self.strength / 2)), float(ndtr(-self.strength / 2)))
        return self.shown(round(runs * rates[0]), round(runs * rates[1]), runs, failure)


def runs_to_show(promised: Promised, part: float, failure: float) -> int:
    """Return a number of runs with which a claim that is used up is expected to show this part of its strength."""
    runs = 64
    while promised.expected(runs, failure) < part * promised.strength and runs < 1 << 20:
        runs = math.ceil(runs * 1.2)
    return runs


# Many inserted rows in one run.


def guesses_p_value(rows: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return a bound on the chance of this many correct guesses of which rows were put in, under (epsilon, delta)-DP.

    Each of `rows` rows is put into the table by a fair coin of its own; `guesses` of the coins are guessed from the
    release. With q = e^epsilon / (1 + e^epsilon) and f(v) = P[Binomial(guesses, q) >= v], the chance is at most
    f(v) + 2 rows delta max_i (f(v - i) - f(v)) / i (Steinke, Nasr, Jagielski 2023, theorem 5.2 with equal weights).

    >>> round(guesses_p_value(100, 100, 60, 0.0, 0.0), 4), round(guesses_p_value(100, 100, 60, 1.0, 0.0), 4)
    (0.0284, 0.9984)
    """
    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(binom.sf(correct - 1, guesses, q))
    steps = np.arange(1, correct + 1)
    gained = np.cumsum(binom.pmf(correct - steps, guesses, q))
    slope = float(np.max(gained / steps, initial=0.0))
    return min(1.0, beyond + 2 * rows * delta * slope)


def guesses_epsilon(rows: int, guesses: int, correct: int, delta: float, failure: float) -> float:
    """Return the largest epsilon that this many correct guesses refute, at `delta`; 0 where they refute none."""
    low, high = 0.0, 50.0
    if guesses == 0 or guesses_p_value(rows, guesses, correct, low, delta) > failure:
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        refuted = guesses_p_value(rows, guesses, correct, middle, delta) <= failure
        low, high = (middle, high) if refuted else (low, middle)
    return low


def number_of_guesses(rows: int, mu: float, delta: float, failure: float) -> int:
    """Return how many rows to guess about, the surest ones, if each row's statistic has a Gaussian loss of mu.

    The surest guesses are right most often, and few guesses prove little. Chosen from public numbers, beforehand.
    """
    best, chosen = 0.0, max(2, rows // 10)
    for part in np.geomspace(0.01, 1.0, 25):
        guesses = max(2, round(rows * part))
        # By symmetry: the share of guesses "in" among rows whose statistic passes the (1 - part / 2) quantile.
        cut = _upper_quantile(part / 2, mu)
        inside, outside = float(ndtr(mu / 2 - cut)), float(ndtr(-mu / 2 - cut))
        shown = guesses_epsilon(rows, guesses, math.floor(guesses * inside / (inside + outside)), delta, failure)
        if shown > best:
            best, chosen = shown, guesses
    return chosen


def _upper_quantile(part: float, mu: float) -> float:
    """Return where the upper tail of an even mixture of N(mu/2, 1) and N(-mu/2, 1) has this probability."""
    low, high = -10.0 - mu, 10.0 + mu
    for _ in range(60):
        middle = (low + high) / 2
        tail = (ndtr(mu / 2 - middle) + ndtr(-mu / 2 - middle)) / 2
        low, high = (middle, high) if tail > part else (low, middle)
    return low
