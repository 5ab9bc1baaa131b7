"""How far rows reach beyond the cells that stand out: tails that noise hides one cell at a time, not all together.

Several explanations of the noisy counts are compared. A density may fall by a constant factor per cell (cells grow with
the size of numbers, so that this is a power law) and end somewhere, or fall as that of a log-normal. Beside a single
value that stands out there may be the next one, values that become rarer and rarer, amounts of any size, or what the
table's other columns have there (`peers.py`). Each is weighted by its likelihood given the counts and the number of
rows that are left over, and by a prior by which a range rarely goes on for many times its size. Of all of them those
are taken that agree best on where the range ends, within a factor of three; their mean is what is expected of the cells
beyond. Post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri  # pyright: ignore[reportMissingTypeStubs]

from lookalike.discovery.grids import Grid, Rows, divisible, extent_of, gaps_between
from lookalike.discovery.peers import Peer

_POWERS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0])
"""Powers by which rows fall with the size of numbers, in cells that grow with it: from an even density over
log-uniform numbers to tails that end at once."""
_SPREADS = np.array([0.15, 0.25, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0])
"""Standard deviations of the logarithms of log-normal numbers."""
_CELL = math.log(1.5)
"""Logarithm of the factor by which numbers grow along one cell."""
_GOES_ON, _SHORT = 0.5, 2.0
"""Prior chance that a range that ends at once goes on beyond the cells that stand out; the chance that it is w times as
wide is w to the power of minus the second constant."""
_ENDING = 0.7
"""Prior chance that a tail is a power law that ends, rather than log-normal."""
_NARROW, _NARROW_ONE = 0.4, 0.25
"""Explanations by which a range becomes w times as wide count for w to the power of minus this: beside a range, and
beside a single value, of which the width says little. What other columns show counts as it is."""
_TAIL_ROWS, _TAIL_SHARE, _TAIL_STEPS = 6.0, 0.03, 4.0
"""A tail begins where the rows from there on are this many standard deviations, and this share of all; or this many
cells within the range."""
_REACH, _FURTHEST = 10.0, 1e4
"""Tails end before this many times the numbers that stand out, values beside a single one before the second constant;
tails of times before their width."""
_RARE = 0.001
"""Share of the rows beyond the end of a range: the values of fewer rows are not made."""
_AGREE = math.log(3.0)
"""Explanations agree if their ranges are this near, as logarithms of widths."""
_CONSTANT, _CONSTANT_OTHER = {0.0: 0.1, 1.0: 0.5}, 0.8
"""Prior chances that a column of which one value stands out is constant: if it is 0, 1, or another number. Flags and
counts of what is rare are common, columns of zeros alone are not: of the benchmark tables' columns with at least 97 %
zeros 1 of 51 has no other value, of those with at least 97 % of another number 6 of 7."""
_SHARES = np.geomspace(0.002, 0.4, 10)
"""Shares of the rows that may differ from a single value that stands out, each as likely as the others."""
_BESIDE = {"next": 0.5, "falling": 0.25, "amounts": 0.25}
"""Prior chances of what lies beside a single value: the next value alone, values that fall from there on, amounts."""
_FEW = 2.0
"""These chances together count as so many columns of the table with the same most frequent value."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The cells of one side of a range, outward, from where its tail begins.

    Attributes:
        places: their numbers in the grid.
        known: how many of them are within the range.
        depth: where they begin and end, in logarithms of numbers, from where the tail begins.
        counts, weights: noisy counts and reciprocals of their variances.
        left, left_weight: rows that no cell further in holds, and the reciprocal of the variance of that.
        rows: number of all rows.
        widths: how many times as wide as what stands out the range is, if it ends with each of the cells beyond.
        single: which of the cells beyond hold a single value.
    """

    places: np.ndarray
    known: int
    depth: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    left: float
    left_weight: float
    rows: float
    widths: np.ndarray
    single: np.ndarray

    @property
    def share(self) -> float:
        """The share of the rows that the tail holds."""
        return min(max(self.left / self.rows, 0.0005), 0.98)


@dataclass(frozen=True, slots=True, eq=False)
class _Explanations:
    """Ways in which rows may be spread over the cells beyond a range.

    Attributes:
        scores: logarithms of their likelihoods and prior chances.
        rows: expected rows of each cell beyond, a row of numbers for each explanation.
        narrow: those by which a range becomes w times as wide count for w to the power of minus this.
    """

    scores: np.ndarray
    rows: np.ndarray
    narrow: np.ndarray

    @staticmethod
    def joined(parts: list[_Explanations]) -> _Explanations:
        scores, narrow = (np.concatenate(some) for some in ([p.scores for p in parts], [p.narrow for p in parts]))
        return _Explanations(scores, np.concatenate([p.rows for p in parts]), narrow)


def beyond(grid: Grid, first: int, last: int, way: int, rows: Rows) -> np.ndarray:
    """Expected rows of the cells beyond one end of a range, outward, up to where few are left."""
    side = _side(grid, first, last, way, rows)
    if side is None:
        return np.zeros(0)
    inward = grid.has_zero and (grid.edges[side.places[0]] >= 0) != (way > 0)
    found = [_explained(side, *_ending(side, _POWERS[_POWERS > 0] if inward else _POWERS), _ENDING)]
    if grid.has_zero:
        found.append(_explained(side, *_log_normal(side), 1 - _ENDING))
    return _agreed(_Explanations.joined(found), side)


def _ending(side: _Side, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Power laws that end at once with the range or with any of the cells beyond, and their prior chances."""
    further = np.concatenate([[1.0], side.widths**-_SHORT])
    ends = np.concatenate([[1 - _GOES_ON], _GOES_ON * -np.diff(further)])
    cells = np.arange(len(side.places))
    within = cells[None, :] < side.known + np.arange(len(ends))[:, None]
    masses = [_falling(side.depth, power)[None, :] * within for power in powers.tolist()]
    return np.concatenate(masses), np.tile(ends, len(powers)) / len(powers)


def _falling(depth: np.ndarray, power: float) -> np.ndarray:
    """The integral of exp(-power u) over each cell."""
    return np.diff(depth) if abs(power) < 1e-9 else -np.diff(np.exp(-power * depth)) / power


def _log_normal(side: _Side) -> tuple[np.ndarray, np.ndarray]:
    """Upper tails of log-normal numbers that hold the side's share of the rows, and their prior chances."""
    start = -float(ndtri(side.share))
    masses = np.array([-np.diff(ndtr(-(start + side.depth / spread))) for spread in _SPREADS.tolist()])
    return masses, np.full(len(masses), 1 / len(masses))


def _amounts(side: _Side) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal numbers that lie anywhere beyond, and their prior chances."""
    centres = side.depth[1:-1] if len(side.depth) > 2 else side.depth[:1]
    masses = np.array([
        np.diff(ndtr((side.depth - centre) / spread)) for centre in centres for spread in (0.4, 0.7, 1.0, 1.5)
    ])  # fmt: skip
    return masses / np.maximum(masses.sum(axis=1), 1e-300)[:, None], np.full(len(masses), 1 / len(masses))


def _explained(side: _Side, masses: np.ndarray, chances: np.ndarray, prior: float) -> _Explanations:
    """Shapes with the number of rows that fits best, by least squares.

    With counts y of weights w, and the rows that are left as one more count, the best factor of masses m is
    (sum w y m + left M) / (sum w m^2 + M^2), where M is the sum of the masses and both terms have their weights.
    """
    sums = masses.sum(axis=1)
    agree = masses @ (side.weights * side.counts) + side.left_weight * side.left * sums
    size = (masses**2) @ side.weights + side.left_weight * sums**2
    agree, size = np.maximum(agree, 0.0), np.maximum(size, 1e-300)
    with np.errstate(divide="ignore"):
        scores = agree**2 / (2 * size) + np.log(prior * chances)
    rows = (agree / size)[:, None] * masses[:, side.known :]
    return _Explanations(scores, rows, np.full(len(scores), _NARROW))


def _agreed(found: _Explanations, side: _Side) -> np.ndarray:
    """Expected rows by the explanations that agree best on the width of the range, up to where few rows are left.

    Single values beyond the range are made only where more than half of the explanations have them: a flag has no 2.
    """
    left = np.cumsum(found.rows[:, ::-1], axis=1)[:, ::-1]
    cells = (left > _RARE * side.rows).sum(axis=1)
    widths = np.log(np.concatenate([[1.0], np.maximum.accumulate(side.widths)]))
    scores = found.scores - found.narrow * widths[cells]
    weights = np.exp(scores - scores.max())
    mass = np.bincount(cells, weights, len(widths))
    near = np.abs(widths[:, None] - widths[None, :]) <= _AGREE
    centre = int(np.argmax(near @ mass + 1e-9 * mass))
    own = np.where(near[centre][cells], weights, 0.0)
    expected = own @ found.rows / own.sum()
    end = int(np.sum(np.cumsum(expected[::-1])[::-1] > _RARE * side.rows))
    return expected[: _median(cells, own) if side.single[:end].any() else end]


def _median(numbers: np.ndarray, weights: np.ndarray) -> int:
    order = np.argsort(numbers, kind="stable")
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    return int(numbers[order][min(middle, len(order) - 1)])


def _side(grid: Grid, first: int, last: int, way: int, rows: Rows) -> _Side | None:
    """The cells of one side from where the tail begins; None where nothing can lie beyond."""
    inside, steps = np.arange(first, last + 1)[::-way], _steps(grid)
    sums, noise = np.cumsum(grid.counts[inside]), np.sqrt(np.cumsum(grid.variances[inside]))
    seen = (sums >= _TAIL_ROWS * noise) & (sums >= _TAIL_SHARE * rows.number)
    known = int(np.argmax(np.append(seen | (np.cumsum(steps[inside]) >= _TAIL_STEPS * _CELL), True))) + 1
    if grid.has_zero:  # A power law has no meaning at zero.
        same = (grid.edges[inside[:known]] > 0) == (grid.edges[inside[0]] > 0)
        known = int(np.argmin(np.append(same, False)))
    known = min(max(known, 1), len(inside))
    outer = _reachable(grid, first, last, way)
    return _of_cells(grid, inside[:known][::-1], outer, inside[known:], rows, (first, last)) if outer.size else None


def _of_cells(
    grid: Grid, known: np.ndarray, outer: np.ndarray, within: np.ndarray, rows: Rows, core: tuple[int, int]
) -> _Side:
    """A side of known cells and cells beyond, beside those within the range."""
    places = np.concatenate([known, outer]).astype(np.int64)
    depth = np.concatenate([[0.0], np.cumsum(_steps(grid)[places])])
    left, noise = rows.left(grid, within)
    return _Side(
        places, len(known), depth, grid.counts[places], 1 / grid.variances[places], left,
        1 / max(noise**2, 1e-9), max(rows.number, 1.0), _widths(grid, *core, outer), ~divisible(grid)[outer],
    )  # fmt: skip


def _widths(grid: Grid, first: int, last: int, outer: np.ndarray) -> np.ndarray:
    """How many times as wide as a range it is together with all up to each of the cells beyond."""
    low, high = float(grid.edges[first]), float(grid.ends[last])
    widths = np.maximum(grid.ends[outer].astype(float) - low, high - grid.edges[outer].astype(float))
    return np.maximum(widths / max(high - low, 1e-300), 1.0)


def _steps(grid: Grid) -> np.ndarray:
    """The widths of cells, as logarithms of the factors by which numbers grow, but for times in parts of the whole."""
    if not grid.has_zero:
        return _CELL * np.minimum(grid.widths / max(float(np.median(grid.widths)), 1e-300), 1.0)
    near, far = np.minimum(np.abs(grid.edges), np.abs(grid.ends)), np.maximum(np.abs(grid.edges), np.abs(grid.ends))
    across = (grid.edges < 0) & (grid.ends > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        grown = np.log(far.astype(float) / np.where(across, 0.0, near.astype(float)))
    return np.clip(np.nan_to_num(grown, nan=_CELL, posinf=_CELL), 1e-6, _CELL)


def _reachable(grid: Grid, first: int, last: int, way: int) -> np.ndarray:
    """The cells beyond one end into which a tail may reach: of the same sign, unless others stand out."""
    part = grid.part(first, last)
    cells = np.arange(last + 1, len(grid.edges)) if way > 0 else np.arange(first - 1, -1, -1)
    if not grid.has_zero:
        return cells[gaps_between(grid, part)[cells] <= extent_of(part, has_zero=False)]
    sizes = np.maximum(np.abs(grid.edges[cells].astype(float)), np.abs(grid.ends[cells].astype(float)))
    near = sizes <= (_REACH if first < last or divisible(grid)[first] else _FURTHEST) * extent_of(part)
    own = grid.edges[last if way > 0 else first] >= 0
    near &= (grid.edges[cells] >= 0) == own
    return cells[: int(np.argmin(np.append(near, False)))]


def beside_one(grid: Grid, place: int, rows: Rows, peers: Sequence[Peer] = ()) -> tuple[int, np.ndarray]:
    """On which side of the only value that stands out there are more, and their expected rows; none if it is constant.

    They may be one value next to it, as 1 beside 0; more and more rarely the values from there on; or amounts, which
    are log-normal and lie anywhere beyond; or what the table's other columns with this value have beside it.
    """
    value = grid.edges[place] * grid.tick if grid.has_zero else math.nan
    constant = _CONSTANT.get(float(value), _CONSTANT_OTHER)
    best, way, expected = math.log(constant / (1 - constant)), 1, np.zeros(0)
    seen = np.array([peer.on(grid) for peer in peers]).reshape(-1, len(grid.edges))
    for direction in (-1, 1):
        cells = _reachable(grid, place, place, direction)
        cells = cells if direction > 0 else cells[:1]
        if not cells.size:
            continue
        side = _of_cells(grid, cells[:0], cells, np.array([place]), rows, (place, place))
        found = _beside(side, seen[:, cells])
        evidence = float(np.logaddexp.reduce(found.scores))
        if evidence > best:
            best, way, expected = evidence, direction, _agreed(found, side)
    return way, expected


def _beside(side: _Side, seen: np.ndarray) -> _Explanations:
    """What may lie beside a single value, each with the logarithm of how much better than nothing it explains.

    What peers have there is a row of numbers for each. The fixed kinds together count as a few of them.
    """
    falling = np.array([_falling(side.depth, power) for power in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)])
    amounts, _ = _amounts(side)
    shapes = {"next": np.eye(1, len(side.places)), "falling": falling, "amounts": amounts}
    columns = _FEW + len(seen)
    found = [_any_number(side, seen, seen.sum(axis=1) / columns, 0.0)]
    for kind, masses in shapes.items():
        chances = np.full(len(masses), _BESIDE[kind] / len(masses) * _FEW / columns)
        found.append(_any_number(side, masses, chances, _NARROW_ONE))
    return _Explanations.joined(found)


def _any_number(side: _Side, masses: np.ndarray, chances: np.ndarray, narrow: float) -> _Explanations:
    """Shapes with every number of rows that is likely before any count is seen, each an explanation of its own.

    Against no rows at all, r rows in the shape m change the logarithm of the likelihood by
    r (sum w y m + left) - r^2 (sum w m^2 + 1) / 2, with the names of `_explained` and masses that add up to 1.
    """
    numbers = _SHARES * side.rows
    masses = masses / np.maximum(masses.sum(axis=1), 1e-300)[:, None]
    agree = masses @ (side.weights * side.counts) + side.left_weight * side.left
    size = (masses**2) @ side.weights + side.left_weight
    scores = agree[:, None] * numbers - size[:, None] * numbers**2 / 2
    with np.errstate(divide="ignore"):
        scores += np.log(chances / len(numbers))[:, None]
    rows = (numbers[None, :, None] * masses[:, None, :]).reshape(-1, masses.shape[1])
    return _Explanations(scores.ravel(), rows, np.full(len(rows), narrow))
