"""The exact law of one seeded row, by the mechanism's definition, and exact divergences of several of them.

A table is described by what the law depends on: the sizes of its classes. Outcomes are 'released from x's class',
'released from another class' and 'drawn from the model alone', of which every released row is a function. All other
classes shrink by the same factor when x comes in, so they are one outcome. Where several numbers of kept columns are
tested together, an outcome is a made row with the class of its seed, and the table is the counts of all records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from lookalike.privacy.row_level.seed_price import ORDERS, SeedTest


def passing(test: SeedTest, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P[min(seeds, max_plausible) + Z >= k] and its complement, each without cancellation."""
    r = math.exp(-test.epsilon0)
    short = test.k - np.minimum(seeds, test.max_plausible or math.inf)
    near, far = r ** np.maximum(short, 0) / (1 + r), r ** np.maximum(1 - short, 0) / (1 + r)
    return np.where(short > 0, near, 1 - far), np.where(short > 0, 1 - near, far)


def law(test: SeedTest, seeds: np.ndarray, weights: np.ndarray, n: float) -> np.ndarray:
    """Probabilities of outcomes with so many plausible seeds and so much probability of being made; then of 'alone'."""
    passes, fails = passing(test, seeds)
    share = test.seeded_share
    alone = (1 - share) + share / n * float(weights @ fails)
    return np.append(share / n * weights * passes, alone)


@dataclass(frozen=True)
class Pair:
    """The laws of one seeded row without and with the row x.

    Attributes:
        without: law for the n rows.
        with_x: law for the n + 1 rows.
        own: probability, with x, of each outcome by x itself as the seed.
        seeds: plausible seeds without x in each outcome, 'alone' excepted.
    """

    without: np.ndarray
    with_x: np.ndarray
    own: np.ndarray
    seeds: np.ndarray

    def rerouted(self, t: int) -> tuple[np.ndarray, float]:
        """The law with x, where what x makes in classes of less than t others is 'alone', and how much that is."""
        taken = np.where(self.seeds < t, self.own, 0.0)
        return self.with_x + np.append(-taken, taken.sum()), float(taken.sum())


def class_pair(test: SeedTest, own: int, others: np.ndarray, factor: float = 1.0) -> Pair:
    """Tables with `own` rows in x's class, and classes of the sizes `others`.

    In a mixture, plausible seeds make what x makes `factor` times as often as x does, 1/gamma to gamma. What they make
    more or less of that, they make less or more of in other classes.
    """
    n = own + int(others.sum())
    factor = min(factor, n / own) if own and len(others) else 1.0
    rest = others * (max(0.0, n - factor * own) / max(1.0, others.sum()))
    laws = [law(test, np.append(own + new, others), np.append(factor * own + new, rest), n + new) for new in (0.0, 1.0)]
    merged = [np.array([full[0], full[1:-1].sum(), full[-1]]) for full in laws]
    mine = np.array([merged[1][0] / (factor * own + 1), 0.0])
    return Pair(merged[0], merged[1], mine, np.array([own, n]))


class Mixture:
    """All outcomes (made row, class of its seed) of a small model, several numbers of kept columns tested together."""

    def __init__(self, rng: np.random.Generator, kept: tuple[int, ...], gamma: float) -> None:
        self.records = list(product(range(2), range(2), range(3)))
        steps = [rng.dirichlet(np.full(size, 0.6), size=before) for size, before in ((2, 1), (2, 2), (3, 4))]
        chances = np.array([[self._made(seed, made, steps, kept) for made in self.records] for seed in self.records])
        with np.errstate(divide="ignore"):
            classes = np.floor(-np.log(chances) / math.log(gamma) + 1e-12)
        outcomes = [(y, c) for y in range(len(self.records)) for c in np.unique(classes[chances[:, y] > 0, y])]
        self.members = np.array([(classes[:, y] == c) & (chances[:, y] > 0) for y, c in outcomes])
        self.chances = self.members * np.array([chances[:, y] for y, _ in outcomes])

    @staticmethod
    def _made(seed: tuple[int, ...], made: tuple[int, ...], steps: list[np.ndarray], kept: tuple[int, ...]) -> float:
        places = [0, made[0], 2 * made[0] + made[1]]
        factors = [steps[i][places[i], made[i]] for i in range(3)]
        return sum(math.prod(factors[number:]) for number in kept if seed[:number] == made[:number]) / len(kept)

    def pair(self, test: SeedTest, counts: np.ndarray, x: int) -> Pair:
        """Tables with so many of each record, and one more of record x."""
        n, grown = int(counts.sum()), counts + (np.arange(len(counts)) == x)
        laws = [law(test, self.members @ c, self.chances @ c, int(c.sum())) for c in (counts, grown)]
        mine = test.seeded_share / (n + 1) * self.chances[:, x] * passing(test, self.members @ grown)[0]
        return Pair(laws[0], laws[1], mine, self.members @ counts)


def exact_renyi(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Renyi divergence of the first law from the second at all ORDERS."""
    seen = first > 0
    if np.any(second[seen] <= 0):
        return np.full(len(ORDERS), math.inf)
    losses = np.log(first[seen]) - np.log(second[seen])
    return logsumexp((ORDERS[:, None] - 1) * losses, b=first[seen], axis=1) / (ORDERS - 1)


def composed(logs: np.ndarray, rows: int) -> np.ndarray:
    """Log probabilities of how often each of three outcomes occurs among independent rows."""
    a, b = (index.ravel() for index in np.indices((rows + 1, rows + 1)))
    a, b = a[a + b <= rows], b[a + b <= rows]
    counts = np.stack([a, b, rows - a - b], axis=1)
    with np.errstate(invalid="ignore"):
        terms = np.where(counts > 0, counts * logs, 0.0)
    return gammaln(rows + 1) - gammaln(counts + 1).sum(axis=1) + terms.sum(axis=1)


def product_law(logs: np.ndarray, rows: int) -> np.ndarray:
    """Log probabilities of all sequences of outcomes of independent rows."""
    total = np.zeros(1)
    for _ in range(rows):
        total = (total[:, None] + logs).ravel()
    return total


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float, rho: float = 0.0) -> float:
    """Exact delta at epsilon of two laws given as logs, after a Gaussian release of that rho on the same row."""
    seen = first > -math.inf
    p, q = first[seen], second[seen]
    free = float(np.exp(p[q == -math.inf]).sum())
    p, q = p[q > -math.inf], q[q > -math.inf]
    left = epsilon - (p - q)
    if rho == 0:
        return free + float((np.exp(p) * -np.expm1(np.minimum(left, 0.0))).sum())
    mu = math.sqrt(2 * rho)
    far, near = log_ndtr(mu / 2 - left / mu), log_ndtr(-mu / 2 - left / mu)
    return free + float((np.exp(p + far) - np.exp(q + epsilon + near)).sum())


def exact_deltas(pair: Pair, rows: int, epsilon: float, rho: float = 0.0) -> tuple[float, float]:
    """Exact delta of so many rows at epsilon, for adding x and for removing it."""
    with np.errstate(divide="ignore"):
        logs = [np.log(law) for law in (pair.with_x, pair.without)]
    with_x, without = (composed(one, rows) if len(one) == 3 else product_law(one, rows) for one in logs)
    return hockey_stick(with_x, without, epsilon, rho), hockey_stick(without, with_x, epsilon, rho)
