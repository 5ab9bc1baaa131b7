"""Models on which the engine is compared: domains, column sets and noisy counts. Needs NumPy only.

The counts come from simulated rows (each column depends on the one before), so that the benchmark needs no data files.
Random column sets that would make a junction tree larger than the stated number of cells are skipped: beyond it the
compared library does not fit into memory.
"""

from __future__ import annotations

import gc
import math
import resource
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ADULT = (16, 7, 16, 16, 16, 7, 14, 6, 5, 2, 8, 15, 16, 41, 2)


def peak_mb() -> float:
    """The largest resident size of this process so far, or since `memory_baseline` where the system can start anew."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def memory_baseline() -> float:
    """Megabytes resident now; the peak is counted afresh from here, so that no earlier one hides what follows."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_mb()


@dataclass(frozen=True)
class Case:
    """One model: sizes of the columns, column sets as column numbers, noise."""

    name: str
    sizes: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    sigma: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"c{i}" for i in range(len(self.sizes)))

    def measurements(self) -> list[tuple[tuple[str, ...], np.ndarray]]:
        """Noisy counts of every column set, the same on every call."""
        rows = simulated_rows(self.sizes, 45_000)
        rng = np.random.default_rng(1)
        found = []
        for clique in self.cliques:
            shape = tuple(self.sizes[i] for i in clique)
            names = tuple(self.names[i] for i in clique)
            found.append((names, counts_of(rows, clique, shape) + rng.normal(0.0, self.sigma, shape)))
        return found


def counts_of(codes: np.ndarray, columns: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """The exact counts of a marginal of coded rows, given its columns and their numbers of values."""
    flat = np.ravel_multi_index([codes[:, i] for i in columns], tuple(shape))
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


def simulated_rows(sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """Rows in which each column depends on the one before and on the first."""
    rng = np.random.default_rng(0)
    table = np.zeros((rows, len(sizes)), dtype=np.int64)
    for i, size in enumerate(sizes):
        parents = sizes[i - 1] * sizes[0] if i else 1
        ends = rng.dirichlet(np.full(size, 0.3), size=parents).cumsum(axis=1)
        key = table[:, i - 1] * sizes[0] + table[:, 0] if i else np.zeros(rows, dtype=np.int64)
        table[:, i] = np.minimum((ends[key] < rng.random(rows)[:, None]).sum(axis=1), size - 1)
    return table


def junction_tree_cells(sizes: tuple[int, ...], cliques: Iterable[tuple[int, ...]]) -> float:
    """Cells of the junction tree of the greedy order that eliminates the smallest clique first."""
    near: dict[int, set[int]] = {i: set() for i in range(len(sizes))}
    for clique in cliques:
        for i in clique:
            near[i] |= set(clique) - {i}
    total, found = 0.0, []
    while near:
        least = min(near, key=lambda i: math.prod(sizes[j] for j in near[i]) * sizes[i])
        members = near.pop(least)
        for i in members:
            near[i] |= members
            near[i] -= {i, least}
        clique = members | {least}
        if not any(clique <= other for other in found):
            found.append(clique)
            total += float(math.prod(sizes[j] for j in clique))
    return total


def random_sets(sizes: tuple[int, ...], count: int, width: int, max_cells: float) -> tuple[tuple[int, ...], ...]:
    """Random column sets, leaving out those that push the junction tree beyond `max_cells`."""
    rng = np.random.default_rng(0)
    found: list[tuple[int, ...]] = []
    while len(found) < count:
        clique = tuple(sorted(int(i) for i in rng.choice(len(sizes), size=width, replace=False)))
        if clique not in found and junction_tree_cells(sizes, [*found, clique]) <= max_cells:
            found.append(clique)
    return tuple(found)


def cases() -> dict[str, Case]:
    """All single models by name."""
    banded = tuple(int(size) for size in np.random.default_rng(1).integers(2, 24, 60))
    listed = [
        Case("adult-chain", ADULT, tuple((i, i + 1) for i in range(14)), 40.0),
        Case("adult-20x3", ADULT, random_sets(ADULT, 20, 3, 8e6), 40.0),
        Case("adult-60x3", ADULT, random_sets(ADULT, 60, 3, 45e6), 40.0),
        Case("nltcs-40x4", (2,) * 16, random_sets((2,) * 16, 40, 4, 1e6), 20.0),
        Case("acs-40x4", (2,) * 23, random_sets((2,) * 23, 40, 4, 1e6), 50.0),
        Case("banded-60", banded, tuple((i, i + 1, i + 2) for i in range(58)), 40.0),
    ]
    return {case.name: case for case in listed}


def growing(rounds: int) -> list[Case]:
    """Adult models with one column set more each time, as an adaptive method would build them."""
    sets = random_sets(ADULT, rounds, 3, 5e5)
    return [Case(f"growing-{n}", ADULT, sets[:n], 40.0) for n in range(1, rounds + 1)]
