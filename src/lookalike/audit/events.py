"""Events that tell two neighbouring tables apart, looked for in everything that runs have written.

What a run wrote becomes named numbers (`features`): values of structured parts, tokens of texts, lengths. An event is a
threshold on one of them. It is chosen on some of the runs and counted on the others, so that looking at thousands of
events costs no confidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.audit.lower_bound import rate_bounds

Features = dict[str, float]
_TOKEN = re.compile(r"[\w.+-]+")
_CHOOSING_FAILURE = 0.2


def features(written: Any, name: str = "") -> Features:
    """All that can be told about what was written, as numbers by name.

    Numbers count as they are; a text by its length and by how often each token is in it; a list by its length and by
    its parts.

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
    """A threshold on a feature; a run without the feature has it below every threshold.

    Attributes:
        feature: name of the feature.
        threshold: what it is compared with.
        above: whether the event is to be above the threshold or not to be.
        left: whether the event is likelier under the first table.
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
    """The event that promises the largest epsilon by these runs, as many of either table; None if nothing differs."""
    runs = len(left)
    names = sorted({key for found in (*left, *right) for key in found})
    if not names:
        return None
    values = np.array([[found.get(name, -np.inf) for found in (*left, *right)] for name in names])
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    # Runs of either table above every place where a feature could be cut in two.
    above_left = runs - np.cumsum(order < runs, axis=1)[:, :-1]
    above_right = runs - np.cumsum(order >= runs, axis=1)[:, :-1]
    low, high = rate_bounds(np.arange(runs + 1), runs, _CHOOSING_FAILURE)
    steps = ordered[:, 1:] > ordered[:, :-1]
    # Of events that promise the same, one of a fact with few values is surer than one of a noisy number.
    handicap = 1e-9 * np.sum(steps, axis=1, keepdims=True)
    best, promise = None, -np.inf
    for above in (True, False):
        hits = (above_left, above_right) if above else (runs - above_left, runs - above_right)
        for first in (True, False):
            here, there = hits if first else hits[::-1]
            worth = np.where(steps, (low[here] - delta) / high[there] - handicap, -np.inf)
            row, cut = np.unravel_index(np.argmax(worth), worth.shape)
            if worth[row, cut] > promise:
                promise = worth[row, cut]
                threshold = _between(float(ordered[row, cut]), float(ordered[row, cut + 1]))
                best = Event(names[row], threshold, above, first)
    return best


def _between(below: float, above: float) -> float:
    """A number between two others, of which the lower may be minus infinity."""
    return (below + above) / 2 if np.isfinite(below) else above - 0.5 * max(abs(above), 1.0)
