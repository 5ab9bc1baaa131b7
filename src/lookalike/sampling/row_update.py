"""Rows changed step by step until they have the wanted marginals: GUM and MCF of PrivSyn.

GUM (section 5.2) needs no graphical model, so any number of overlapping marginals can be used. MCF (section 5.1), with
which the paper compares it, moves rows by min-cost flows: every marginal in turn is met exactly, with as few changes as
possible, which undoes part of the fit to the other marginals. It is slow, and for small marginals only. Rows are made
from noisy marginals alone, so this is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import optimize, sparse

from lookalike.errors import ModelTooLargeError
from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.sampling.draws import draw_given
from lookalike.sampling.raking import Raking, forest_rows, independent_rows, peel_leaves, raked_rows
from lookalike.schema.domain import mixed_radix, rows_by_cell

Start = Literal["independent", "tree", "raked"]
Updates = Literal["gum", "flow"]


@dataclass(frozen=True, slots=True)
class GumSchedule:
    """How far each sweep moves the rows, and how many it copies.

    Attributes:
        sweeps: how often every marginal is visited.
        decay: factor of alpha after every `decay_every` sweeps. Alpha starts at 1 and bounds the growth of a cell in
            one visit.
        decay_every: see `decay`.
        duplicate: shares of the added rows that are copies of whole rows, one share per sweep in rotation, such that
            the last sweep has the first share. In the other added rows only the marginal's columns are overwritten.
            Neither alone converges: overwriting changes the other marginals, copying makes no new combinations.
        stop_early: for rows that are near the targets already. Skips a marginal while it is as near to its target as
            that of as many independent rows, and stops before a sweep that does not lower the total error: on
            thousands of noisy marginals the first sweeps can do more harm than good.
    """

    sweeps: int = 50
    decay: float = 0.84
    decay_every: int = 20
    duplicate: tuple[float, ...] = (0.5, 1.0)
    stop_early: bool = False

    def __post_init__(self) -> None:
        if self.sweeps < 0 or self.decay_every < 1:
            raise ValueError(f"sweeps {self.sweeps} and decay_every {self.decay_every} must be at least 0 and 1")
        if not 0 < self.decay <= 1 or not self.duplicate or not all(0 <= share <= 1 for share in self.duplicate):
            raise ValueError(f"decay {self.decay} and duplicate {self.duplicate} must lie between 0 and 1")

    def alpha(self, sweep: int) -> float:
        return self.decay ** (sweep // self.decay_every)

    def share(self, sweep: int) -> float:
        return self.duplicate[(self.sweeps - 1 - sweep) % len(self.duplicate)]


@dataclass(frozen=True, slots=True)
class GumSettings:
    """How rows are made from marginals.

    Attributes:
        start: the rows with which GUM starts. "independent" draws every column by itself, as the paper does. "tree"
            matches the pairs of a spanning tree. "raked" samples rows of that tree by weights that fit all marginals.
        schedule: GUM's sweeps. After a raked start they are made only if too few rows of the pool kept weight: sweeps
            on rows that fit already would only fit the noise.
        raking: settings of the "raked" start.
        append: draw columns that occur in a single pair at the end, given the other column of the pair.
        updates: "gum" copies and overwrites rows; "flow" meets every marginal in turn by a min-cost flow, with as many
            sweeps as the schedule has; marginals too large for a flow are met by GUM before.
    """

    start: Start = "raked"
    schedule: GumSchedule = field(default_factory=lambda: GumSchedule(sweeps=5, stop_early=True))
    raking: Raking = field(default_factory=Raking)
    append: bool = True
    updates: Updates = "gum"

    @classmethod
    def of_flows(cls) -> GumSettings:
        """Return the paper's settings of MCF: independent start, 20 sweeps of min-cost flows."""
        return cls(start="independent", schedule=GumSchedule(sweeps=20), updates="flow")


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    columns: tuple[int, ...]
    shape: tuple[int, ...]
    counts: np.ndarray

    def cells(self, codes: np.ndarray) -> np.ndarray:
        return mixed_radix([codes[:, column] for column in self.columns], self.shape, len(codes))

    def error(self, codes: np.ndarray) -> float:
        counts = np.bincount(self.cells(codes), minlength=self.counts.size)
        return float(np.abs(counts - self.counts).sum())

    def sampling_error(self) -> float:
        """Approximate L1 error of independent rows: sqrt(2/pi) stddevs per cell, at most twice its variance."""
        spread = self.counts * (1 - self.counts / self.counts.sum())
        return float(np.minimum(math.sqrt(2 / math.pi) * np.sqrt(spread), 2 * spread).sum())


def update_rows(
    codes: np.ndarray, targets: ConsistentMarginals, rng: np.random.Generator, schedule: GumSchedule | None = None
) -> np.ndarray:
    """Return a copy of `codes` whose marginals are closer to the targets (GUM).

    Each sweep visits the marginals by their error, largest first. Targets are scaled to the number of rows. The order
    of the rows is lost. As rows are copied, far fewer rows are distinct than in a sample of a smooth model.
    """
    schedule = schedule or GumSchedule()
    # Copying whole rows is most of the work on wide tables; with small codes a column fits into the processor's cache.
    codes = codes.astype(np.min_scalar_type(max(targets.domain.sizes) - 1), order="F")
    wanted = _scaled(targets, len(codes)) if len(codes) else []
    limits = np.array([target.sampling_error() if schedule.stop_early else -1.0 for target in wanted])
    before, lowest = codes, math.inf
    for sweep in range(schedule.sweeps):
        errors = np.array([target.error(codes) for target in wanted])
        if schedule.stop_early and errors.sum() >= lowest:
            return before.astype(np.int32, order="F")
        before, lowest = codes, float(errors.sum())
        visited = [i for i in np.argsort(-errors, kind="stable") if errors[i] > limits[i]]
        if not visited:
            break
        # Rows of a cell are taken in row order from a random start, so the rows are shuffled before every sweep.
        codes = np.asfortranarray(codes[rng.permutation(len(codes))])
        for i in visited:
            _move_towards(codes, wanted[i], schedule.alpha(sweep), schedule.share(sweep), rng)
    if schedule.stop_early and sum(target.error(codes) for target in wanted) >= lowest:
        codes = before
    return codes.astype(np.int32, order="F")


def generate_rows(
    targets: ConsistentMarginals, rows: int, rng: np.random.Generator, settings: GumSettings | None = None
) -> np.ndarray:
    """Return the codes of `rows` rows whose marginals are near the targets: start, updates, appended columns."""
    settings = settings or GumSettings()
    targets = targets.maximal()
    core, leaves = peel_leaves(targets) if settings.append else (targets, {})
    if settings.start == "raked":
        core_codes, fit = raked_rows(core, rows, rng, settings.raking)
        if not fit.carried:
            core_codes = _updated(core_codes, fit.smoothed, rng, settings)
    else:
        make_rows = forest_rows if settings.start == "tree" else independent_rows
        core_codes = _updated(make_rows(core, rows, rng), core, rng, settings)
    codes = np.empty((rows, len(targets.domain)), np.int32, order="F")
    for column, name in enumerate(core.domain.names):
        codes[:, targets.domain.position(name)] = core_codes[:, column]
    for name, (anchor, table) in leaves.items():
        anchor_codes = codes[:, targets.domain.position(anchor)]
        codes[:, targets.domain.position(name)] = draw_given(anchor_codes, table, rng)
    return codes


def _updated(
    codes: np.ndarray, targets: ConsistentMarginals, rng: np.random.Generator, settings: GumSettings
) -> np.ndarray:
    if settings.updates == "gum":
        return update_rows(codes, targets, rng, settings.schedule)
    large = [i for i, table in enumerate(targets.tables) if flow_arcs(table) > MAX_ARCS]
    small = [i for i in range(len(targets.tables)) if i not in large]
    if large:
        codes = update_rows(codes, targets.only(targets.domain.names, large), rng)
    return flow_rows(codes, targets.only(targets.domain.names, small), rng, sweeps=settings.schedule.sweeps)


def mean_l1(codes: np.ndarray, targets: ConsistentMarginals) -> float:
    """Return the mean over all targets of the L1 distance of the rows' marginal from it, both scaled to sum 1."""
    return float(np.mean([target.error(codes) for target in _scaled(targets, len(codes))])) / len(codes)


def removal_counts(counts: np.ndarray, wanted: np.ndarray, needed: float) -> np.ndarray:
    """Return how many rows to take from each over-full cell: min(excess, beta * count), with sum `needed`.

    The sum is piecewise linear in beta with a corner at each cell's excess/count, so sorting the corners and summing
    prefixes gives beta exactly. When the whole excess is not enough, beta is 1 and the excess is returned.

    >>> removal_counts(np.array([10.0, 20.0, 5.0]), np.array([9.0, 8.0, 18.0]), 5.0)
    array([1., 4., 0.])
    """
    excess = np.maximum(counts - wanted, 0.0)
    if needed >= excess.sum():
        return excess
    over = np.flatnonzero(excess > 0)
    over = over[np.argsort(excess[over] / counts[over])]
    capped = np.cumsum(excess[over]) - excess[over]
    open_rows = np.cumsum(counts[over][::-1])[::-1]
    freed_at_corner = capped + excess[over] / counts[over] * open_rows
    k = int(np.searchsorted(freed_at_corner, needed))
    return np.minimum(excess, (needed - capped[k]) / open_rows[k] * counts)


def _scaled(targets: ConsistentMarginals, rows: int) -> list[_Target]:
    wanted = []
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        columns = tuple(targets.domain.position(name) for name in clique)
        wanted.append(_Target(columns, table.shape, table.ravel() * (rows / table.sum())))
    return wanted


def _move_towards(codes: np.ndarray, target: _Target, alpha: float, share: float, rng: np.random.Generator) -> None:
    """One update of `codes` in place: rows of over-full cells become rows of under-full and empty cells.

    A cell with rows gains at most alpha times their number, an empty one alpha times the rows it lacks. Empty cells
    come first, since only overwriting can fill them.
    """
    order, starts = rows_by_cell(target.cells(codes), target.counts.size)
    counts = np.diff(starts)
    held = counts > 0
    lacking = np.maximum(target.counts - counts, 0.0)
    gains = _rounded(np.where(held, np.minimum(lacking, alpha * counts), alpha * lacking), rng)
    losses = _rounded(removal_counts(counts, target.counts, float(gains.sum())), rng)
    pool = rng.permutation(_take(order, starts, np.minimum(losses, counts), rng))
    copied = np.where(held, np.minimum(_rounded(gains * share, rng), np.minimum(gains, counts)), 0)
    written = gains - copied
    new_cells = np.concatenate(
        [np.repeat(np.flatnonzero(~held), written[~held]), np.repeat(np.flatnonzero(held), written[held])]
    )
    new_cells = new_cells[: len(pool)]
    sources = rng.permutation(_take(order, starts, copied, rng))[: len(pool) - len(new_cells)]
    overwritten, replaced = np.split(pool[: len(new_cells) + len(sources)], [len(new_cells)])
    for column in range(codes.shape[1]):
        values = codes[:, column]
        values[replaced] = values[sources]
    for column, values in zip(target.columns, np.unravel_index(new_cells, target.shape), strict=True):
        codes[overwritten, column] = values


def _rounded(amounts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Integers within 1 of `amounts`, equal in expectation, whose sum is within 1 of theirs: systematic rounding."""
    return np.diff(np.floor(np.cumsum(amounts) + rng.random()).astype(np.int64), prepend=0)


def _take(order: np.ndarray, starts: np.ndarray, amounts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """amounts[c] different rows of each cell c: consecutive rows of the cell from a random start, cyclically."""
    cells = np.flatnonzero(amounts)
    lengths, first = amounts[cells], starts[cells]
    sizes = starts[cells + 1] - first
    rank = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    turned = (np.repeat(rng.integers(0, sizes), lengths) + rank) % np.repeat(sizes, lengths)
    return order[np.repeat(first, lengths) + turned]


MAX_ARCS = 250_000
"""Largest number of arcs of one flow, over-full times under-full cells; so many take the solver a few seconds."""


def flow_rows(
    codes: np.ndarray, targets: ConsistentMarginals, rng: np.random.Generator, *, sweeps: int = 20
) -> np.ndarray:
    """Return a copy of `codes` in which every marginal in turn is made equal to its target, up to rounding (MCF).

    Moving a row from one cell to another costs the number of its columns that change; the flow of least total cost
    goes from over-full to under-full cells. Raises a ModelTooLargeError at the start where a marginal could need more
    than `MAX_ARCS` arcs.
    """
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        if flow_arcs(table) > MAX_ARCS:
            remedy = "Use GUM (update_rows), which has no such limit, or smaller marginals."
            raise ModelTooLargeError(f"The flow for {clique}", flow_arcs(table), MAX_ARCS, "arcs", remedy)
    codes = np.asfortranarray(codes.copy())
    for _ in range(sweeps):
        for clique, table in zip(targets.cliques, targets.tables, strict=True):
            columns = [targets.domain.position(name) for name in clique]
            _meet(codes, columns, whole_counts(table, len(codes)), rng)
        codes = np.asfortranarray(codes[rng.permutation(len(codes))])
    return codes


def flow_arcs(table: np.ndarray) -> float:
    """Return the number of arcs that a flow to the table needs at most: half its cells over-full, half under-full."""
    return (table.size / 2) ** 2


def whole_counts(table: np.ndarray, rows: int) -> np.ndarray:
    """Return integers in proportion to `table` that add up to `rows`: rounded down, the largest remainders up.

    >>> whole_counts(np.array([1.0, 1.0, 1.0]), 4)
    array([2, 1, 1])
    """
    exact = table * (rows / table.sum())
    counts = np.floor(exact).astype(np.int64)
    missing = rows - int(counts.sum())
    largest = np.argsort(-(exact - counts).ravel(), kind="stable")[:missing]
    counts.ravel()[largest] += 1
    return counts


def min_cost_flow(supply: np.ndarray, demand: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return the cheapest integer flows, supplies x demands, that use every supply and meet every demand.

    A transport problem: with integer supplies and demands every vertex of its polytope is an integer point, and the
    dual simplex method ends at a vertex. Supplies and demands must have the same sum.
    """
    if not supply.size or not demand.size:
        return np.zeros(cost.shape, np.int64)
    ships = sparse.kron(sparse.eye_array(supply.size), np.ones((1, demand.size)))
    meets = sparse.kron(np.ones((1, supply.size)), sparse.eye_array(demand.size))
    solved = optimize.linprog(
        cost.ravel(),
        A_eq=sparse.vstack([ships, meets]).tocsc(),
        b_eq=np.concatenate([supply, demand]),
        method="highs-ds",
    )
    if solved.status != 0:
        raise RuntimeError(f"the flow solver stopped: {solved.message}")
    return np.rint(solved.x).astype(np.int64).reshape(cost.shape)


def _meet(codes: np.ndarray, columns: list[int], wanted: np.ndarray, rng: np.random.Generator) -> None:
    """Change as few codes as possible, in place, so that the marginal has the wanted counts."""
    order, starts = rows_by_cell(mixed_radix([codes[:, c] for c in columns], wanted.shape, len(codes)), wanted.size)
    excess = np.diff(starts) - wanted.ravel()
    over, under = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    old, new = (np.array(np.unravel_index(cells, wanted.shape)) for cells in (over, under))
    cost = (old[:, :, None] != new[:, None, :]).sum(axis=0).astype(float)
    flow = min_cost_flow(excess[over], -excess[under], cost)
    for cell, leaving in zip(over, flow, strict=True):
        members = rng.permutation(order[starts[cell] : starts[cell + 1]])[: leaving.sum()]
        cells = np.repeat(under, leaving)
        for column, values in zip(columns, np.unravel_index(cells, wanted.shape), strict=True):
            codes[members, column] = values
