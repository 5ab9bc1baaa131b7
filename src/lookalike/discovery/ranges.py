"""Where the numbers of a column begin and end: which cells hold rows, and how far rows beyond them may reach.

Cells that stand out are taken; what lies beyond them is modelled (`tails.py`). Post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lookalike.discovery import tails
from lookalike.discovery.grids import (
    LEFT_OVER,
    LIKELY,
    POSSIBLE,
    SIGNIFICANT,
    SMALL,
    SURE,
    Grid,
    Rows,
    divisible,
    extent_of,
    gaps_between,
    joined,
    plausible,
    visible,
)
from lookalike.discovery.peers import Peer, peer_of, weighed

_NEAR = 2
"""Blocks are beside each other with at most this many cells between them."""
_FAR = 10.0
"""Further away than this many times its own numbers, a range takes in no cells that do not stand out clearly."""
_PER_MAGNITUDE = 0.4
"""Standard deviations by which a cell must stand out more for each order of magnitude beyond that."""
_VACANT, _FULL = 1.0, 2.5
"""Outer cells are dropped if their sum is below the first constant in standard deviations of that sum, where an even
spread of the cell that they were cut from would put it above the second."""
_UNSURE = (LIKELY + SIGNIFICANT) / 2
"""The counts of cells that are modelled are this many of their standard deviations: likely, but no spikes."""


def occupied(grid: Grid, rows: Rows) -> tuple[int, int]:
    """The first and the last cell that are likely to hold rows, before these are cut up.

    Blocks that stand out clearly are taken wherever they are, weaker ones only beside them, because cells grow with
    their distance from zero, so that one empty cell too many makes a range useless. If rows are left over, weaker
    blocks are taken as well.
    """
    found = _sure(grid)
    core = np.flatnonzero(found)
    near = np.abs(grid.edges) <= _FAR * extent_of(grid.part(int(core[0]), int(core[-1])))
    likely, clear = (visible(grid.counts, grid.stddevs, limit) & near for limit in (LIKELY, SIGNIFICANT))
    for _ in range(2):
        first, last = _range(grid, likely, clear, found)
        left, noise = rows.left(grid, _held(grid, first, last))
        if left < LEFT_OVER * noise:
            break
        found = found | clear
    return first, last


def held_surely(grid: Grid) -> tuple[int, int]:
    """The first and the last cell that stand out clearly. `with_ends` adds what is beyond."""
    core = np.flatnonzero(_sure(grid))
    return int(core[0]), int(core[-1])


def stands_out(grid: Grid) -> np.ndarray:
    """Which cells stand out clearly, wherever they are."""
    return visible(grid.counts, grid.stddevs, SURE)


def _sure(grid: Grid) -> np.ndarray:
    """Which cells stand out clearly; the most plausible one where none does."""
    found = stands_out(grid)
    if not found.any():
        # Nothing can be seen: a small number is the least implausible.
        # Of times, the years that are counted one by one are those of our days.
        recent = grid.widths <= 2 * grid.widths.min()
        small = plausible(grid.edges * grid.tick, most=SMALL * SMALL) if grid.has_zero else recent
        scores = np.where(small | ~small.any(), grid.counts / np.maximum(grid.stddevs, 1e-300), -np.inf)
        found = np.arange(len(grid.counts)) == np.argmax(scores)
    return found & _believable(grid, found)


def _believable(grid: Grid, found: np.ndarray) -> np.ndarray:
    """Which cells are near the one with most rows, or stand out by more, the more orders of magnitude they are away.

    A table of many columns has some cells that stand out by chance, and nearly all cells are far away.
    """
    most = int(np.argmax(np.where(found, grid.counts, -np.inf)))
    own = grid.part(most, most)
    reach = _FAR * extent_of(own, has_zero=grid.has_zero)
    far = np.ceil(np.log10(np.maximum(gaps_between(grid, own) / reach, 1.0)))
    near = far == 0
    for magnitudes in np.unique(far[found & ~near]).tolist():
        limit = SURE + _PER_MAGNITUDE * magnitudes
        near |= (far == magnitudes) & visible(grid.counts, grid.stddevs, limit)
    return near


def _range(grid: Grid, likely: np.ndarray, clear: np.ndarray, found: np.ndarray) -> tuple[int, int]:
    """First and last of the cells that were found, or can be reached from these."""
    first, last = (int(place) for place in np.flatnonzero(found)[[0, -1]])
    return _reached(grid, likely, clear, first, -1), _reached(grid, likely, clear, last, 1)


def _held(grid: Grid, first: int, last: int) -> np.ndarray:
    """The cells of a range that seem to hold rows: empty ones would only add their noise."""
    inside = (np.arange(len(grid.counts)) >= first) & (np.arange(len(grid.counts)) <= last)
    return inside & visible(np.where(inside, grid.counts, 0.0), grid.stddevs, POSSIBLE)


def _reached(grid: Grid, likely: np.ndarray, clear: np.ndarray, place: int, way: int) -> int:
    """The furthest cell that can be reached from a cell over likely ones; a change of sign needs a clear one.

    Steps lead over a few cells, or over cells that are narrow beside the two that they join.
    """
    at = place
    while True:
        further = np.flatnonzero(likely[:at] if way < 0 else likely[at + 1 :]) + (0 if way < 0 else at + 1)
        near = [k for k in further.tolist() if _beside(grid, at, k) and (clear[k] or not _crosses(grid, at, k))]
        if not near:
            return at
        at = min(near) if way < 0 else max(near)


def _beside(grid: Grid, one: int, other: int) -> bool:
    """Whether few or narrow cells lie between two."""
    low, high = min(one, other), max(one, other)
    gap = grid.edges[high] - grid.ends[low]
    return high - low <= _NEAR + 1 or bool(gap <= max(grid.widths[low], grid.widths[high]))


def _crosses(grid: Grid, one: int, other: int) -> bool:
    """Whether only one of two cells has negative numbers. Zero and positive numbers are on the same side."""
    return bool((grid.edges[one] < 0) != (grid.edges[other] < 0))


def trimmed(grid: Grid, first: int, last: int, *, low: bool, high: bool) -> tuple[int, int]:
    """A range without the outer parts of its first (if low) and last (if high) cut-up cell that seem to be empty.

    Outer cells are dropped where their sum could be noise, and would not be if the rows of the cell that they were cut
    from were spread evenly.
    """
    part = grid.part(first, last)
    start, stop = first + (_vacant(part, 1) if low else 0), last - (_vacant(part, -1) if high else 0)
    most = first + int(np.argmax(part.counts))
    return (start, stop) if start <= stop else (most, most)


def _vacant(grid: Grid, direction: int) -> int:
    """How many cells to drop at the low end (1) or the high end (-1)."""
    parents, counts = grid.parents[::direction], grid.counts[::direction]
    size = int(np.argmin(np.append(parents, -1) == parents[0]))
    number = np.arange(1, size)
    noise = np.sqrt(np.cumsum(grid.variances[::direction][: size - 1]))
    empty = np.cumsum(counts[: size - 1]) <= _VACANT * noise
    vacant = np.flatnonzero(empty & (counts[:size].sum() * number / size >= _FULL * noise))
    return int(vacant[-1]) + 1 if vacant.size else 0


def all_with_ends(fine: Mapping[str, Grid], rows: Mapping[str, Rows]) -> dict[str, Grid]:
    """What `with_ends` makes of columns of one kind, given in the order of the table.

    Where one value alone stands out, the columns in which others do tell what may lie beside it.
    """
    whole = {name: joined(grid) for name, grid in fine.items()}
    single = {name for name, grid in whole.items() if _is_single(grid)}
    ended = {name: with_ends(grid, rows[name]) for name, grid in fine.items() if name not in single}
    found = {place: peer_of(joined(ended[name])) for place, name in enumerate(fine) if name in ended}
    peers = {place: peer for place, peer in found.items() if peer is not None}
    for place, name in enumerate(fine):
        if name in single:
            value = float(whole[name].edges[held_surely(whole[name])[0]] * whole[name].tick)
            ended[name] = with_ends(fine[name], rows[name], weighed(peers, value, place))
    return ended


def with_ends(fine: Grid, rows: Rows, peers: Sequence[Peer] = ()) -> Grid:
    """The cells that hold rows, and those beyond them that are likely to, with as many as expected.

    Which cells hold rows is seen before they are cut up: there are fewer of them, and each holds more rows. `peers`
    are other columns that tell what may lie beside a single value.
    """
    whole = joined(fine)
    first, last = held_surely(whole)
    if _is_single(whole):
        beyond = dict([tails.beside_one(whole, first, rows, peers)])
    else:
        beyond = {way: tails.beyond(whole, first, last, way, rows) for way in (-1, 1)}
    low, high = (len(beyond.get(way, ())) for way in (-1, 1))
    counts, variances = whole.counts.copy(), whole.variances.copy()
    for way, expected in beyond.items():
        places = (last + 1 + np.arange(high)) if way > 0 else (first - 1 - np.arange(low))
        counts[places], variances[places] = expected, (np.maximum(expected, 1e-3) / _UNSURE) ** 2
    ended = replace(whole, counts=counts, variances=variances, parent_variances=variances)
    return _with_parts(ended.part(first - low, last + high), fine, (first, last), trim=(not low, not high))


def _is_single(grid: Grid) -> bool:
    """Whether one value alone stands out."""
    first, last = held_surely(grid)
    return first == last and not bool(divisible(grid)[first])


def _with_parts(grid: Grid, fine: Grid, held: tuple[int, int], trim: tuple[bool, bool]) -> Grid:
    """The grid with the cells that hold rows cut up as they were counted, without empty parts at its ends."""
    start, stop = np.searchsorted(fine.parents, [held[0], held[1] + 1])
    first, last = trimmed(fine, int(start), int(stop) - 1, low=trim[0], high=trim[1])
    inner = fine.part(first, last)
    before, after = grid.parents < held[0], grid.parents > held[1]

    def around(own: np.ndarray, parts: np.ndarray) -> np.ndarray:
        return np.concatenate([own[before], parts, own[after]])

    edges, counts = around(grid.edges, inner.edges), around(grid.counts, inner.counts)
    variances, parents = around(grid.variances, inner.variances), around(grid.parents, inner.parents)
    high = grid.high if after.any() else inner.high
    totals = fine.parent_variances.copy()
    totals[grid.parents[before | after]] = grid.variances[before | after]
    return replace(
        grid, edges=edges, high=high, counts=counts, variances=variances, parents=parents, parent_variances=totals
    )
