"""Events that distinguish two neighbouring tables, and the epsilon that their frequencies show."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from lookalike.privacy.epsilon import gaussian_epsilon


def rate_bounds(hits: int | np.ndarray, runs: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a lower and an upper bound on a probability (Clopper and Pearson 1934).

    Each bound is wrong with probability at most `failure`.

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
    low, _ = rate_bounds(hits, runs, failure / 2)
    _, high = rate_bounds(other_hits, runs, failure / 2)
    margin = float(low) - delta
    return max(0.0, math.log(margin / float(high))) if margin > 0 else 0.0


def gaussian_epsilon_shown(
    hits: int, other_hits: int, runs: int, *, delta: float, threshold_delta: float, failure: float
) -> float:
    """The same for a run that claims Gaussian DP, which is stronger: P <= Phi(Phi^-1(P') + mu) + threshold_delta.

    The event shows that mu is at least Phi^-1(lower bound of P - threshold_delta) - Phi^-1(upper bound of P'), which is
    converted to epsilon at the part of delta that is not used by thresholds.
    """
    low, _ = rate_bounds(hits, runs, failure / 2)
    _, high = rate_bounds(other_hits, runs, failure / 2)
    margin = float(low) - threshold_delta
    if margin <= 0 or float(high) >= 1:
        return 0.0
    mu = float(ndtri(margin) - ndtri(float(high)))
    return gaussian_epsilon(mu, delta - threshold_delta) if mu > 0 else 0.0


Features = dict[str, float]
_TOKEN = re.compile(r"[\w.+-]+")
_CHOOSING_FAILURE = 0.2


def features(written: Any, name: str = "") -> Features:
    """Return all features of what a run wrote, as numbers by name.

    A number is a feature; features of a text are its length and the number of times that each token occurs in it; of a
    list its length and the features of its items.

    >>> features({"rows": 3, "town": ["Ox", "Ox"]})
    {'rows': 3.0, 'town: length': 2.0, 'town: Ox': 2.0}
    """
    if isinstance(written, Mapping):
        return {
            key: value
            for part, inner in written.items()
            for key, value in features(inner, f"{name}/{part}" if name else str(part)).items()
        }
    if isinstance(written, str):
        tokens = Counter(_TOKEN.findall(written))
        return {f"{name}: length": float(len(written))} | {f"{name}: {t}": float(n) for t, n in tokens.items()}
    if isinstance(written, Sequence):
        found: Features = {f"{name}: length": float(len(written))}
        for i, item in enumerate(written):
            inner = {f"{name}: {item}": 1.0} if isinstance(item, str) else features(item, f"{name}/{i}")
            for key, value in inner.items():
                found[key] = found.get(key, 0.0) + value
        return found
    return {} if written is None else {name: float(written)}


@dataclass(frozen=True, slots=True)
class Event:
    """A threshold on a feature; a missing feature is below every threshold.

    Attributes:
        feature: name of the feature.
        threshold: what it is compared with.
        above: whether the event is a value above the threshold; otherwise it is a value not above.
        left: whether the event is more likely under the first table.
    """

    feature: str
    threshold: float
    above: bool
    left: bool

    def happened(self, found: Features) -> bool:
        return (found.get(self.feature, -np.inf) > self.threshold) == self.above

    def describe(self) -> str:
        return f"{self.feature} {'>' if self.above else '<='} {self.threshold:.6g}"


def best_event(left: Sequence[Features], right: Sequence[Features], delta: float) -> Event | None:
    """Return the event with the largest expected epsilon in equally many runs of two tables; None if none differs."""
    runs = len(left)
    names = sorted({key for found in (*left, *right) for key in found})
    if not names:
        return None
    values = np.array([[found.get(name, -np.inf) for found in (*left, *right)] for name in names])
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    # For every possible threshold of every feature: the number of runs of each table above it.
    above_left = runs - np.cumsum(order < runs, axis=1)[:, :-1]
    above_right = runs - np.cumsum(order >= runs, axis=1)[:, :-1]
    low, high = rate_bounds(np.arange(runs + 1), runs, _CHOOSING_FAILURE)
    steps = ordered[:, 1:] > ordered[:, :-1]
    # Of equally good events, one of a feature with few values is more reliable than one of a noisy number.
    penalty = 1e-9 * np.sum(steps, axis=1, keepdims=True)
    best, best_worth = None, -np.inf
    for above in (True, False):
        hits = (above_left, above_right) if above else (runs - above_left, runs - above_right)
        for first in (True, False):
            here, there = hits if first else hits[::-1]
            worth = np.where(steps, (low[here] - delta) / high[there] - penalty, -np.inf)
            row, cut = np.unravel_index(np.argmax(worth), worth.shape)
            if worth[row, cut] > best_worth:
                best_worth = worth[row, cut]
                threshold = _between(float(ordered[row, cut]), float(ordered[row, cut + 1]))
                best = Event(names[row], threshold, above, first)
    return best


def _between(below: float, above: float) -> float:
    """Return a number between two others, of which the lower may be minus infinity."""
    return (below + above) / 2 if np.isfinite(below) else above - 0.5 * max(abs(above), 1.0)
