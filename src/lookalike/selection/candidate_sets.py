"""Column sets that are worth considering: small subsets of cliques with their merits, and random larger sets.

Candidates and merits are those of PrivMRF (Algorithms 2 and 3). Works on released scores and public facts only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.guards import MAX_BATCH_CELLS, MAX_CANDIDATES
from lookalike.schema.domain import ColumnSet, Domain

_CHUNK = 50_000
"""Candidates whose merits are computed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Column sets, as rows of a membership matrix.

    Attributes:
        domain: names and sizes of the columns.
        members: boolean, one row per set and one column per column of the domain.
        cells: cells of each set.
    """

    domain: Domain
    members: np.ndarray
    cells: np.ndarray

    def __len__(self) -> int:
        return len(self.members)

    def clique(self, index: int) -> ColumnSet:
        """Return the columns of one set, in domain order."""
        return tuple(self.domain.names[i] for i in np.flatnonzero(self.members[index]))

    def where(self, kept: np.ndarray) -> Candidates:
        """Return the sets for which `kept` is True."""
        return Candidates(self.domain, self.members[kept], self.cells[kept])

    def cliques(self, indices: Sequence[int] | np.ndarray) -> list[ColumnSet]:
        """Return the columns of several sets."""
        return [self.clique(int(index)) for index in indices]


def useful_candidates(
    domain: Domain,
    cliques: Sequence[ColumnSet],
    max_cells: float,
    rng: np.random.Generator,
    *,
    min_attrs: int = 1,
    max_attrs: int = 10,
    max_sets: int = MAX_CANDIDATES,
) -> Candidates:
    """Return every subset of some clique with at most `max_cells` cells and `min_attrs` to `max_attrs` columns, once.

    Single columns are always candidates. A set in several cliques is listed with the first of them. Where one clique
    has more than `max_sets` subsets of one size, a random `max_sets` of them (and of what grows from them) are listed.
    """
    inside = np.zeros((len(cliques), len(domain)), dtype=bool)
    for number, clique in enumerate(cliques):
        inside[number, [domain.position(name) for name in clique]] = True
    found = [np.zeros((0, len(domain)), dtype=bool)]
    for number in range(len(cliques)):
        for level in _levels(domain, np.flatnonzero(inside[number]), max_cells, max_attrs, max_sets, rng):
            if level.shape[1] < min_attrs:
                continue
            new = np.ones(len(level), dtype=bool)
            for earlier in inside[:number]:
                new &= ~earlier[level].all(axis=1)
            members = np.zeros((int(new.sum()), len(domain)), dtype=bool)
            np.put_along_axis(members, level[new], True, axis=1)
            found.append(members)
    members = np.concatenate(found)
    sizes = np.log2(np.asarray(domain.sizes, dtype=float))
    return Candidates(domain, members, np.exp2(members @ sizes))


def _levels(
    domain: Domain, columns: np.ndarray, max_cells: float, max_attrs: int, max_sets: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the subsets of the columns by size: one array of ascending positions per size."""
    sizes = np.asarray(domain.sizes, dtype=float)
    sets, cells, levels = columns[:, None], sizes[columns], [columns[:, None]]
    while sets.shape[1] < max_attrs:
        grown, grown_cells = [], []
        for extra in columns:
            fits = (sets[:, -1] < extra) & (cells * sizes[extra] <= max_cells * (1 + 1e-9))
            grown.append(np.column_stack([sets[fits], np.full(int(fits.sum()), extra)]))
            grown_cells.append(cells[fits] * sizes[extra])
        sets, cells = np.concatenate(grown), np.concatenate(grown_cells)
        if not len(sets):
            break
        if len(sets) > max_sets:
            chosen = rng.choice(len(sets), max_sets, replace=False)
            sets, cells = sets[chosen], cells[chosen]
        levels.append(sets)
    return levels


def merits(candidates: Candidates, column: int, association: np.ndarray) -> np.ndarray:
    """Return rho(A, M) of every candidate M for the column A (eq. 8); -inf where M lacks A or has no other column.

    rho(A, M) = sum_B R(A, B) / sqrt(|M| + sum_{B, B'} R(B, B')) over B, B' in M without A, B' other than B.

    Args:
        candidates: the sets.
        column: position of A.
        association: symmetric, R as a fraction of the rows, so between 0 and 1; in counts the paper's |M| would
            vanish beside the other term and pairs would always win.
    """
    fraction = np.clip(association, 0.0, 1.0)
    np.fill_diagonal(fraction, 0.0)
    result = np.full(len(candidates), -np.inf)
    for start in range(0, len(candidates), _CHUNK):
        members = candidates.members[start : start + _CHUNK].astype(np.float32)
        has = candidates.members[start : start + _CHUNK, column]
        count = members.sum(axis=1)
        members[:, column] = 0.0
        inner = members @ fraction.astype(np.float32)
        redundancy = (inner * members).sum(axis=1)
        values = inner[:, column] / np.sqrt(count + redundancy)
        result[start : start + _CHUNK] = np.where(has & (count > 1), values, -np.inf)
    return result


def initial_sets(candidates: Candidates, association: np.ndarray) -> list[int]:
    """Return for each column in turn the candidate of largest merit that was not taken before (Algorithm 3).

    A column without a candidate of two or more columns is taken alone.
    """
    taken: list[int] = []
    used = np.zeros(len(candidates), dtype=bool)
    alone = candidates.members.sum(axis=1) == 1
    for column in range(len(candidates.domain)):
        merit = np.where(used, -np.inf, merits(candidates, column, association))
        best = int(np.argmax(merit))
        if not np.isfinite(merit[best]):
            single = np.flatnonzero(alone & candidates.members[:, column] & ~used)
            if not len(single):
                continue
            best = int(single[0])
        used[best] = True
        taken.append(best)
    return taken


_TRIES = 10
"""Random sets that are grown per wanted candidate: many grow to the same set or to a known one."""


def random_larger_sets(
    domain: Domain,
    errors: np.ndarray,
    known: Iterable[ColumnSet],
    fits: Callable[[ColumnSet], bool],
    rng: np.random.Generator,
    *,
    max_attrs: int,
    max_sets: int,
) -> list[ColumnSet]:
    """Return at most `max_sets` random sets of 3 to `max_attrs` columns that fit and lie in no known set.

    A set of random size starts from a pair and adds one column after the other, each drawn in proportion to the
    released errors of the pairs that it adds: interactions of three and more columns are large where pairs interact.
    All sizes are equally likely, and random draws keep the sets different; the strongest sets alone would be many
    versions of one. A set that does not fit loses the last column.

    Args:
        domain: the columns.
        errors: symmetric matrix of the pairs' noisy errors; negative ones count as 0.
        known: sets that were measured.
        fits: whether a set is small enough to be measured well; smaller sets must fit if larger ones do.
        rng: public randomness.
        max_attrs: maximum number of columns of a set.
        max_sets: maximum number of sets. Every scored candidate makes all scores noisier, so few are better.
    """
    strength = np.maximum(errors, 0.0)
    np.fill_diagonal(strength, 0.0)
    upper = np.triu(strength).ravel()
    covered, found = [set(clique) for clique in known], dict[ColumnSet, None]()
    if not upper.any() or max_attrs < 3:
        return []
    pairs = rng.choice(upper.size, _TRIES * max_sets, p=upper / upper.sum())
    wanted = rng.integers(3, max_attrs + 1, pairs.size)
    for flat, size in zip(pairs.tolist(), wanted.tolist(), strict=True):
        clique = _grown(domain, strength, list(divmod(flat, len(domain))), size, fits, rng)
        if len(clique) > 2 and not any(other.issuperset(clique) for other in covered):
            found[clique] = None
        if len(found) == max_sets:
            break
    return list(found)


def _grown(
    domain: Domain,
    strength: np.ndarray,
    members: list[int],
    size: int,
    fits: Callable[[ColumnSet], bool],
    rng: np.random.Generator,
) -> ColumnSet:
    """Return the pair with random columns added until it has the size or the next one does not fit."""
    clique = tuple(domain.names[i] for i in sorted(members))
    while len(members) < size:
        gains = strength[members].sum(axis=0)
        gains[members] = 0.0
        if not gains.any():
            break
        members = [*members, int(rng.choice(len(gains), p=gains / gains.sum()))]
        larger = tuple(domain.names[i] for i in sorted(members))
        if not fits(larger):
            break
        clique = larger
    return clique


def random_triples(
    domain: Domain,
    apart: np.ndarray,
    known: Iterable[ColumnSet],
    wanted: Callable[[ColumnSet], bool],
    rng: np.random.Generator,
    *,
    min_cells: float,
    max_cells: float,
    max_sets: int,
) -> list[ColumnSet]:
    """Return at most `max_sets` random triples that are wanted and lie in no known set, with MAX_BATCH_CELLS in all.

    Every triple is as likely as any other: what three columns say together need not show in their pairs.

    Args:
        domain: the columns.
        apart: symmetric matrix, False for pairs that no triple may hold.
        known: sets that are measured, or candidates already.
        wanted: asked for at most ten triples for each that may be returned, a bound on the time it takes.
        rng: public randomness.
        min_cells, max_cells: triples of fewer, or more, cells are left out before `wanted` is asked.
        max_sets: maximum number of triples.
    """
    if max_sets < 1 or len(domain) < 3:
        return []
    triples = np.array(list(combinations(range(len(domain)), 3)))
    cells = np.asarray(domain.sizes, dtype=float)[triples].prod(axis=1)
    usable = (cells > min_cells) & (cells <= max_cells)
    for first, second in combinations(range(3), 2):
        usable &= apart[triples[:, first], triples[:, second]]
    covered = {triple for clique in known for triple in combinations(clique, 3)}
    found, room = list[ColumnSet](), float(MAX_BATCH_CELLS)
    for number in rng.permutation(np.flatnonzero(usable))[: _TRIES * max_sets].tolist():
        clique = tuple(domain.names[i] for i in triples[number])
        if clique not in covered and cells[number] <= room and wanted(clique):
            found.append(clique)
            room -= cells[number]
        if len(found) == max_sets:
            break
    return found
