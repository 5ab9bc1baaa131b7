"""One audit: many runs on two neighbouring tables, one event, and the epsilon that it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.audit.events import Features, best_event, features
from lookalike.audit.lower_bound import epsilon_shown, gaussian_epsilon_shown


@dataclass(frozen=True, slots=True)
class Claim:
    """What a run says about itself.

    Attributes:
        gaussian: whether it claims Gaussian DP, which allows a sharper audit.
        threshold_delta: part of delta that noisy thresholds took.
    """

    epsilon: float
    delta: float
    gaussian: bool = False
    threshold_delta: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of an audit.

    Attributes:
        event: the event in words, "none" where all runs wrote the same.
        hits: in how many runs the event came, under the table where it is likelier and under the other.
        runs: how many runs of each table counted.
        epsilon: what the event shows, with the chance of error that was asked for.
        most: the most that so few runs could have shown.
        claim: what the runs said.
    """

    event: str
    hits: tuple[int, int]
    runs: int
    epsilon: float
    most: float
    claim: Claim

    @property
    def broken(self) -> bool:
        """Whether the claim is contradicted."""
        return self.epsilon > self.claim.epsilon


def try_pair(
    left: Callable[[], Any],
    right: Callable[[], Any],
    claim: Claim,
    *,
    runs: int,
    rng: np.random.Generator,
    failure: float = 1e-6,
) -> Finding:
    """Look for an event that contradicts the claim, in `runs` runs on either of two neighbouring tables.

    Args:
        left: makes one run on one table and returns all that it wrote: numbers, texts, lists and mappings of these.
        right: the same for the neighbour.
        claim: the guarantee to contradict.
        runs: of each table; a third of them chooses the event, the others count it.
        rng: decides in which order the tables are run, so that clocks and caches are the same for both.
        failure: chance with which a true claim is called false.
    """
    found: tuple[list[Features], list[Features]] = ([], [])
    for side in rng.permutation(np.repeat([0, 1], runs)):
        found[side].append(features((left, right)[side]()))
    return judge(found[0], found[1], claim, failure)


def judge(left: list[Features], right: list[Features], claim: Claim, failure: float) -> Finding:
    """The finding from the features of as many runs of either table: a third chooses the event, the others count it."""
    chosen = len(left) // 3
    event = best_event(left[:chosen], right[:chosen], claim.delta)
    counted = len(left) - chosen
    most = _shown(counted, 0, counted, claim, failure)
    if event is None:
        return Finding("none", (0, 0), counted, 0.0, most, claim)
    hits = [sum(map(event.happened, side[chosen:])) for side in (left, right)]
    here, there = hits if event.left else hits[::-1]
    return Finding(event.describe(), (here, there), counted, _shown(here, there, counted, claim, failure), most, claim)


def _shown(here: int, there: int, runs: int, claim: Claim, failure: float) -> float:
    shown = epsilon_shown(here, there, runs, delta=claim.delta, failure=failure)
    if not claim.gaussian:
        return shown
    parts = {"delta": claim.delta, "threshold_delta": claim.threshold_delta, "failure": failure}
    return max(shown, gaussian_epsilon_shown(here, there, runs, **parts))
