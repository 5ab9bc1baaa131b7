"""Where numbers lie within their bins, so that columns that depend on each other do so within bins as well.

A model knows which bins go together, not where in a bin a number is. Drawn one by one, numbers lose what they have in
common within bins: delays of departure and arrival that rise together become a staircase of squares. Here the place of
a number within its bin follows that of a related column, as far as the bins around say so: if the rows next to a pair
of bins lie along its diagonal, the places agree; if they lie all around, the places are independent. All of it is
computed from generated rows, so it is post-processing and costs nothing.
"""

from __future__ import annotations

import numpy as np

from lookalike.schema.binned import Binned
from lookalike.schema.schema import Schema

MIN_CORRELATION = 0.4
"""Smallest correlation of the bins of two columns whose places follow each other."""
_SAMPLE = 20_000
"""Rows from which correlations are computed."""
_MIN_BINS = 3


def places_within_bins(schema: Schema, codes: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A place from 0 to 1 within the bin of each row, for all columns that follow another or are followed."""
    columns = [i for i, column in enumerate(schema.columns) if _has_wide_bins(column)]
    if len(columns) < 2 or len(codes) < 2:
        return {}
    places: dict[int, np.ndarray] = {}
    for leader, follower in _strongest_links(schema, codes[:, columns], columns):
        if leader not in places:
            places[leader] = rng.random(len(codes))
        agreement = _agreement(schema, codes, leader, follower)
        free = rng.random(len(codes))
        follows = rng.random(len(codes)) < np.abs(agreement)
        same = np.where(agreement > 0, places[leader], 1.0 - places[leader])
        places[follower] = np.where(follows, same, free)
    return {schema.columns[i].name: place for i, place in places.items()}


def _has_wide_bins(column: object) -> bool:
    """Whether a column has several bins, of which some hold more than one value."""
    if not isinstance(column, Binned) or column.regular < _MIN_BINS or column.derived:
        return False
    first, last = column.bin_ends()
    return bool(np.any(first < last))


def _strongest_links(schema: Schema, codes: np.ndarray, columns: list[int]) -> list[tuple[int, int]]:
    """Pairs of columns of a tree of strongest correlations, leaders before those that follow them."""
    sample = codes[:: max(1, len(codes) // _SAMPLE)].astype(float)
    for place, i in enumerate(columns):
        sample[sample[:, place] >= schema.columns[i].regular, place] = np.nan
    with np.errstate(all="ignore"):
        centred = np.nan_to_num(sample - np.nanmean(sample, axis=0))
        norms = np.sqrt((centred**2).sum(axis=0))
        strength = np.abs(np.nan_to_num(centred.T @ centred / np.maximum(np.outer(norms, norms), 1e-12)))
    np.fill_diagonal(strength, 0.0)
    links: list[tuple[int, int]] = []
    joined = np.zeros(len(columns), dtype=bool)
    best = strength.max(axis=1)
    while not joined.all():
        start = int(np.argmax(np.where(joined, -1.0, best)))
        joined[start] = True
        reach, by = strength[start].copy(), np.full(len(columns), start)
        while (rest := np.where(joined, -1.0, reach)).max() >= MIN_CORRELATION:
            follower = int(np.argmax(rest))
            links.append((columns[int(by[follower])], columns[follower]))
            joined[follower] = True
            nearer = strength[follower] > reach
            reach, by = np.where(nearer, strength[follower], reach), np.where(nearer, follower, by)
    return links


def _agreement(schema: Schema, codes: np.ndarray, leader: int, follower: int) -> np.ndarray:
    """From -1 to 1 for each row: how far the rows next to its pair of bins lie along one diagonal.

    With d rows in the two pairs of bins next to it along one diagonal, e along the other, and s beside it, it is
    (d - e) / (d + e + s / 2).
    """
    sizes = [schema.columns[i].regular for i in (leader, follower)]
    pairs = codes[:, [leader, follower]]
    regular = (pairs < sizes).all(axis=1)
    cells = np.where(regular, pairs[:, 0] * sizes[1] + pairs[:, 1], 0)
    table = np.bincount(cells[regular], minlength=sizes[0] * sizes[1]).reshape(sizes).astype(float)
    padded = np.pad(table, 1)
    along = padded[2:, 2:] + padded[:-2, :-2]
    across = padded[2:, :-2] + padded[:-2, 2:]
    beside = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2]
    agreement = (along - across) / np.maximum(along + across + beside / 2, 1.0)
    return np.where(regular, agreement.ravel()[cells], 0.0)
