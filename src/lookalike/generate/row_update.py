"""GUM: synthetic rows changed little by little until their marginals are the wanted ones (PrivSyn section 5.2).

No graphical model is built, so any number of overlapping marginals can be used. The rows are post-processing of the
marginals: nothing here sees data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.estimate.consistency import ConsistentMarginals
from lookalike.generate.cell_order import cell_codes, rows_by_cell


@dataclass(frozen=True, slots=True)
class GumSchedule:
    """How far and in which way each sweep moves the rows.

    Attributes:
        sweeps: how often every marginal is visited.
        decay: alpha is multiplied by this after every `decay_every` sweeps; it starts at 1.
        decay_every: see `decay`.
        duplicate: shares of the added rows that are copies of whole rows, for even and for odd sweeps; the rest
            only get the marginal's own attributes overwritten. Neither alone converges: overwriting breaks the other
            marginals, copying cannot make combinations that are not there yet.
    """

    sweeps: int = 50
    decay: float = 0.84
    decay_every: int = 20
    duplicate: tuple[float, float] = (0.5, 1.0)

    def __post_init__(self) -> None:
        if self.sweeps < 0 or self.decay_every < 1:
            raise ValueError(f"sweeps {self.sweeps} and decay_every {self.decay_every} must be at least 0 and 1")
        if not 0 < self.decay <= 1 or not all(0 <= share <= 1 for share in self.duplicate):
            raise ValueError(f"decay {self.decay} and duplicate {self.duplicate} must lie between 0 and 1")

    def alpha(self, sweep: int) -> float:
        return self.decay ** (sweep // self.decay_every)


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    columns: tuple[int, ...]
    shape: tuple[int, ...]
    counts: np.ndarray


def update_rows(
    codes: np.ndarray,
    targets: ConsistentMarginals,
    rng: np.random.Generator,
    schedule: GumSchedule | None = None,
) -> np.ndarray:
    """A copy of `codes` moved towards the targets: as many rows, every value in its domain, marginals closer.

    Each sweep visits the marginals by their error, largest first. Targets are scaled to the number of rows. The order
    of rows in the result is random.
    """
    schedule = schedule or GumSchedule()
    codes = np.asfortranarray(codes.copy())
    wanted = _scaled_targets(targets, len(codes))
    if not len(codes) or not wanted:
        return codes
    for sweep in range(schedule.sweeps):
        # Rows of a cell are taken in row order from a random start, so the order itself must be fresh.
        codes = np.asfortranarray(codes[rng.permutation(len(codes))])
        errors = [_l1_error(codes, target) for target in wanted]
        for i in np.argsort(errors)[::-1]:
            _move_towards(codes, wanted[i], schedule.alpha(sweep), schedule.duplicate[sweep % 2], rng)
    return codes


def mean_l1(codes: np.ndarray, targets: ConsistentMarginals) -> float:
    """Mean over the targets of the L1 distance between the rows' marginal and the target, both scaled to sum 1."""
    wanted = _scaled_targets(targets, len(codes))
    return float(np.mean([_l1_error(codes, target) for target in wanted])) / len(codes)


def _scaled_targets(targets: ConsistentMarginals, rows: int) -> list[_Target]:
    wanted = []
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        columns = tuple(targets.domain.position(name) for name in clique)
        wanted.append(_Target(columns, table.shape, table.ravel() * (rows / table.sum())))
    return wanted


def _l1_error(codes: np.ndarray, target: _Target) -> float:
    counts = np.bincount(cell_codes(codes, target.columns, target.shape), minlength=target.counts.size)
    return float(np.abs(counts - target.counts).sum())


def removal_counts(counts: np.ndarray, wanted: np.ndarray, needed: float) -> np.ndarray:
    """How many rows leave each over-full cell: min(excess, beta * count), with the one beta that frees `needed` rows.

    The freed total is piecewise linear in beta with a corner at each cell's excess/count, so sorting the corners and
    summing prefixes gives beta exactly. When the whole excess is not enough, beta is 1 and the excess is returned.
    """
    excess = np.maximum(counts - wanted, 0.0)
    if needed >= excess.sum():
        return excess
    over = np.flatnonzero(excess > 0)
    corners = excess[over] / counts[over]
    rank = np.argsort(corners)
    over, corners = over[rank], corners[rank]
    capped = np.cumsum(excess[over]) - excess[over]
    open_rows = np.cumsum(counts[over][::-1])[::-1]
    freed_at_corner = capped + corners * open_rows
    k = int(np.searchsorted(freed_at_corner, needed))
    beta = (needed - capped[k]) / open_rows[k]
    return np.minimum(excess, beta * counts)


def _rounded(amounts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Integers within 1 of `amounts`, equal in expectation, whose sum is within 1 of the sum: systematic rounding."""
    steps = np.floor(np.cumsum(amounts) + rng.random()).astype(np.int64)
    return np.diff(steps, prepend=0)


def _within(lengths: np.ndarray) -> np.ndarray:
    """0..k-1 for each k of `lengths`, concatenated."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _take(
    order: np.ndarray, starts: np.ndarray, cells: np.ndarray, amounts: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """`amounts` different rows of each of `cells`, from a random place of the cell's rows, going round."""
    sizes = starts[cells + 1] - starts[cells]
    offsets = rng.integers(0, sizes)
    turns = (np.repeat(offsets, amounts) + _within(amounts)) % np.repeat(sizes, amounts)
    return order[np.repeat(starts[cells], amounts) + turns]


def _move_towards(codes: np.ndarray, target: _Target, alpha: float, share: float, rng: np.random.Generator) -> None:
    """One update of `codes` in place: rows of over-full cells become rows of under-full and empty cells."""
    order, starts = rows_by_cell(cell_codes(codes, target.columns, target.shape), target.counts.size)
    counts = np.diff(starts)
    lacking = np.maximum(target.counts - counts, 0.0)
    gains = np.where(counts > 0, np.minimum(lacking, alpha * counts), alpha * lacking)
    gains = np.minimum(_rounded(gains, rng), np.where(counts > 0, counts, len(codes)))
    losses = _rounded(removal_counts(counts, target.counts, float(gains.sum())), rng)
    losing = np.flatnonzero(losses)
    pool = _take(order, starts, losing, np.minimum(losses, counts)[losing], rng)
    rng.shuffle(pool)

    copied = np.where(counts > 0, _rounded(gains * share, rng), 0)
    written = gains - copied
    # Cells without rows come first: only overwriting can fill them.
    cells = np.concatenate(
        (np.flatnonzero((counts == 0) & (written > 0)), np.flatnonzero((counts > 0) & (written > 0)))
    )
    new_cells = np.repeat(cells, written[cells])[: len(pool)]
    changed = pool[: len(new_cells)]
    copying = np.flatnonzero(copied)
    sources = _take(order, starts, copying, np.minimum(copied, counts)[copying], rng)
    replaced = pool[len(new_cells) :][: len(sources)]
    rows = rng.permutation(sources)[: len(replaced)]
    for column in range(codes.shape[1]):
        values = codes[:, column]
        values[replaced] = values[rows]
    for column, values in zip(target.columns, np.unravel_index(new_cells, target.shape), strict=True):
        codes[changed, column] = values


def spread_evenly(table: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """`rows` cell numbers in random order, each cell as often as its share of `table`, to within one row."""
    weights = np.maximum(table.ravel(), 0.0)
    weights = weights if weights.sum() > 0 else np.ones(weights.size)
    shares = np.floor(np.cumsum(weights) / weights.sum() * rows + rng.random()).astype(np.int64)
    cells = np.repeat(np.arange(weights.size), np.diff(np.minimum(shares, rows), prepend=0))
    cells = np.concatenate((cells, np.full(rows - len(cells), weights.argmax())))
    return rng.permutation(cells)


def independent_rows(targets: ConsistentMarginals, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows whose columns follow the targets' 1-way marginals to within one row, independently of each other."""
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for column, name in enumerate(targets.domain.names):
        codes[:, column] = spread_evenly(targets.one_way(name), rows, rng)
    return codes


def columns_of(targets: ConsistentMarginals, clique: Sequence[str]) -> list[int]:
    return [targets.domain.position(name) for name in clique]
