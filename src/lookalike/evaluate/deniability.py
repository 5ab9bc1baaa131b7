"""The number of real rows that could have been the seed of each given row. NOT PRIVATE: counts are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.evaluate.real_data import encoded
from lookalike.models.bayes_net import BayesNet
from lookalike.models.model import Model
from lookalike.privacy.row_level.prefixes import PrefixCounts, class_sizes, probability_classes
from lookalike.release import load


@dataclass(frozen=True, slots=True, eq=False)
class Deniability:
    """Numbers of plausible seeds of some rows. NOT PRIVATE.

    Attributes:
        omegas: the numbers of columns drawn anew.
        seeds: for each row and each omega, the number of real rows that could have been the seed, all equally likely.
        fewest: for each row, the number of real rows in the smallest non-empty class of probabilities when omega is
            drawn from all `omegas`; 0 if no real row could have made it.
        gamma: maximum ratio of the probabilities in one class.
    """

    omegas: tuple[int, ...]
    seeds: np.ndarray
    fewest: np.ndarray
    gamma: float

    def deniable(self, k: int) -> np.ndarray:
        """Return for each omega the share of rows with at least k plausible seeds."""
        return (self.seeds >= k).mean(axis=0)

    def table(self, k: int) -> list[tuple[str, ...]]:
        """Return for each omega its value, the minimum, median and maximum number of seeds, and the share with k."""
        return [
            (str(omega), f"{seeds.min():,}", f"{int(np.median(seeds)):,}", f"{seeds.max():,}", f"{share:.1%}")
            for omega, seeds, share in zip(self.omegas, self.seeds.T, self.deniable(k), strict=True)
        ]

    def to_json(self, k: int) -> dict[str, Any]:
        return {
            "stamp": "NOT PRIVATE: exact counts of real rows; do not publish",
            "k": k,
            "gamma": self.gamma,
            "omegas": list(self.omegas),
            "share_deniable": [float(share) for share in self.deniable(k)],
            "share_deniable_mixture": float((self.fewest >= k).mean()),
            "seeds": self.seeds.tolist(),
            "fewest": self.fewest.tolist(),
        }


def network_of(model: Model) -> BayesNet:
    """Return the Bayesian network that made rows from seeds; refuse models without one."""
    network = model if isinstance(model, BayesNet) else getattr(model, "network", None)
    if not isinstance(network, BayesNet):
        raise InputError(f"A model of kind {model.kind!r} has no seeds; give a model of the method bsg.")
    return network


def check_files(model: Path, table: Path, rows: Path, omega: str = "", *, gamma: float = 4.0) -> Deniability:
    """Return the `deniability` of the rows of a file, given the files of the model and of the real table."""
    fitted = load(model)
    network_of(fitted.model)
    low, dash, high = omega.partition("-")
    if omega and not (low.isdecimal() and (high.isdecimal() or not dash)):
        raise InputError(f"omega is {omega!r}; write a number such as 9 or a range such as 9-11.")
    omegas = range(int(low), int(high or low) + 1) if omega else None
    real, made = (encoded(where, fitted.schema) for where in (table, rows))
    return deniability(fitted.model, real, made, omegas, gamma=gamma)


def deniability(
    model: Model, real: np.ndarray, rows: np.ndarray, omegas: Sequence[int] | None = None, *, gamma: float = 4.0
) -> Deniability:
    """Return the numbers of plausible seeds of each row, in O(columns) per row after one sort of the real rows.

    Args:
        model: a model of the method bsg.
        real: codes of the real table.
        rows: codes of the rows to check.
        omegas: numbers of columns drawn anew; by default every number but all of them.
        gamma: maximum ratio of the probabilities in one class, above 1.
    """
    network = network_of(model)
    width = len(network.domain)
    chosen = tuple(sorted(set(omegas))) if omegas else tuple(range(1, width))
    if not chosen or chosen[0] < 0 or chosen[-1] > width:
        raise InputError(f"omega is {chosen}; with {width} columns it must lie between 0 and {width}.")
    if not gamma > 1:
        raise InputError(f"gamma is {gamma:g}; it must be above 1.")
    if not len(rows):
        raise InputError("There are no rows to check; give at least 1.")
    columns = [network.domain.position(name) for name in network.order]
    shared = PrefixCounts(real[:, columns], network.domain.shape(network.order)).of_codes(rows[:, columns])
    logs = network.log_probabilities(rows)
    kept = [width - omega for omega in chosen]
    drawable = np.cumsum(np.isneginf(logs)[:, ::-1], axis=1)[:, ::-1] == 0
    drawable = np.concatenate([drawable, np.ones((len(rows), 1), dtype=bool)], axis=1)
    sizes = class_sizes(shared, probability_classes(logs, kept, gamma))
    held = np.where(sizes > 0, sizes, np.iinfo(np.int64).max).min(axis=1)
    fewest = np.where((sizes > 0).any(axis=1), held, 0)
    return Deniability(chosen, shared[:, kept] * drawable[:, kept], fewest, gamma)
