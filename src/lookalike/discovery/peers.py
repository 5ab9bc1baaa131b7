"""What the columns of a table tell about each other: where their rows lie beside the same most frequent value.

Where noise hides all values of a column but one, the table's other columns that hold this value most often say what to
expect: in a table of flags a flag, among amounts an amount. Those that stand near it tell more, since tables are
ordered by what their columns mean. Post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lookalike.discovery.grids import Grid, divisible


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """Where the rows of a column lie beside its most frequent value.

    Attributes:
        value: the most frequent value.
        numbers: lower edges of the cells.
        shares: shares of the cells in the rows that hold other values.
        weight: as how many columns it counts.
    """

    value: float
    numbers: np.ndarray
    shares: np.ndarray
    weight: float = 1.0

    def on(self, grid: Grid) -> np.ndarray:
        """The shares of the cells of another grid, times the weight."""
        places = np.searchsorted(grid.edges * grid.tick, self.numbers, side="right") - 1
        return np.bincount(np.maximum(places, 0), self.weight * self.shares, len(grid.edges))


def peer_of(grid: Grid) -> Peer | None:
    """What the cells of a finished range tell about other columns; None where no single value is the most frequent."""
    most = int(np.argmax(grid.counts))
    others = np.maximum(np.where(np.arange(len(grid.counts)) == most, 0.0, grid.counts), 0.0)
    if not grid.has_zero or divisible(grid)[most] or not others.any():
        return None
    numbers = grid.edges * grid.tick
    return Peer(float(numbers[most]), numbers, others / others.sum())


def weighed(peers: Mapping[int, Peer], value: float, at: int) -> list[Peer]:
    """The peers with a value, one d columns away with a weight in proportion to 1 / (1 + d); 1 is their mean.

    Args:
        peers: by their places among the columns.
        value, at: the value that stands out in a column, and its place.
    """
    alike = {place: peer for place, peer in peers.items() if peer.value == value}
    near = {place: 1 / (1 + abs(place - at)) for place in alike}
    mean = sum(near.values()) / max(len(near), 1)
    return [replace(peer, weight=near[place] / mean) for place, peer in alike.items()]
