"""How many real rows could have been the seed of each given row. NOT PRIVATE: exact counts, for the data holder."""

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
    """Numbers of plausible seeds. NOT PRIVATE.

    Attributes:
        omegas: the numbers of columns drawn anew.
        seeds: for each row and each omega, real rows that could have been the seed: all equally likely.
        fewest: for each row, real rows in the smallest class of probabilities that holds any, when omega is drawn from
            all `omegas`; 0 where no real row could have made it.
        gamma: probabilities of one class differ by this factor at most.
    """

    omegas: tuple[int, ...]
    seeds: np.ndarray
    fewest: np.ndarray
    gamma: float

    def deniable(self, k: int) -> np.ndarray:
        """For each omega, the share of rows with at least k plausible seeds."""
        return (self.seeds >= k).mean(axis=0)

    def table(self, k: int) -> list[tuple[str, ...]]:
        """One line per omega: the omega, the fewest, the median and the most seeds of a row, the share with k."""
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
    """The Bayesian network that seeds are put through, or an error for models without one."""
    network = model if isinstance(model, BayesNet) else getattr(model, "network", None)
    if not isinstance(network, BayesNet):
        raise InputError(f"A model of kind {model.kind!r} has no seeds; deniability is for models of the method bsg.")
    return network


def check_files(model: Path, table: Path, rows: Path, omega: str = "", *, gamma: float = 4.0) -> Deniability:
    """`deniability` of the rows in a file against the table in another, by the model in a third."""
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
    """Plausible seeds of each row among the real ones, in O(columns) per row after one sort of the real ones.

    Args:
        model: a model of the method bsg.
        real: codes of the real table.
        rows: codes of the rows to check.
        omegas: numbers of columns drawn anew; by default every number but all of them.
        gamma: the factor between the bounds of a class of probabilities, above 1.
    """
    network = network_of(model)
    width = len(network.domain)
    chosen = tuple(sorted(set(omegas))) if omegas else tuple(range(1, width))
    if not chosen or chosen[0] < 0 or chosen[-1] > width:
        raise InputError(f"omega is {chosen}; with {width} columns it lies between 0 and {width}.")
    if not gamma > 1:
        raise InputError(f"gamma is {gamma:g}; it must be above 1.")
    if not len(rows):
        raise InputError("There are no rows to check.")
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
