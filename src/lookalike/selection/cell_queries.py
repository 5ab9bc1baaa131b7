"""Single cells of marginals as signed counting queries, and rows that satisfy many of them, for FEM, DualQuery and RAP.

Queries of large error in a model are drawn with preference. The papers solve an integer programme for each row; rows
are made from released numbers only, so any search for them is post-processing, and a local search for all rows at once
is enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from lookalike.privacy.scores import CellGaps
from lookalike.schema.domain import ColumnSet, Domain, counted
from lookalike.selection.workload import WorkloadSpec, as_workload

if TYPE_CHECKING:
    from lookalike.privacy.kernel.door import GuardedTable


_OUT_OF_REACH = 1e12
"""Penalty, in rows, on cells that were asked before: they are drawn only if no other cell is left."""
MAX_CELLS = 100_000
"""Maximum number of cells that compete in one draw: with many more, exact draws need high precision too often."""


@dataclass(frozen=True, slots=True)
class CellQuery:
    """The number of rows that have these values: the model has too few if the sign is 1, too many if it is -1.

    Attributes:
        clique: the columns, in domain order.
        cell: their codes.
        sign: 1 or -1.
    """

    clique: ColumnSet
    cell: tuple[int, ...]
    sign: int


def query_sets(spec: WorkloadSpec, domain: Domain, max_cells: int) -> list[ColumnSet]:
    """Return the marginals of a workload, where those of more than `max_cells` cells are replaced by a part of them.

    A part lacks the column with the most values, then the next one, until it is small enough or a single column.

    >>> query_sets([["a", "b"], ["b", "c"]], Domain.of({"a": 2, "b": 9, "c": 3}), 20)
    [('a', 'b'), ('c',)]
    """
    found: dict[ColumnSet, None] = {}
    for clique in as_workload(spec, domain).cliques:
        part = clique
        while domain.cells(part) > max_cells and len(part) > 1:
            widest = max(part, key=domain.size)
            part = tuple(name for name in part if name != widest)
        found[part] = None
    return list(found)


def random_sets(sets: Sequence[ColumnSet], count: int, rng: np.random.Generator) -> list[ColumnSet]:
    """Return `count` of the sets at random, or all if there are fewer, in the given order."""
    kept = rng.choice(len(sets), min(count, len(sets)), replace=False)
    return [sets[i] for i in np.sort(kept)]


def draw_query(
    door: GuardedTable,
    cliques: Sequence[ColumnSet],
    references: Sequence[np.ndarray],
    signs: Sequence[int],
    *,
    epsilon: float,
    step: str,
    asked: Mapping[ColumnSet, np.ndarray] | None = None,
) -> CellQuery:
    """Draw a cell by the exponential mechanism on sign_i * (M_i(D)_c - reference_i,c); costs epsilon^2/8 in rho.

    Cells that are True in `asked`, a public table per marginal, are drawn only where there are no others.
    """
    score = CellGaps(tuple(cliques), tuple(references), tuple(signs))
    ends = np.cumsum([reference.size for reference in references])
    cells = int(ends[-1])
    offsets = np.zeros(cells)
    if asked is not None:
        offsets = _OUT_OF_REACH * np.concatenate([asked[clique].ravel() for clique in cliques])
    drawn = door.choose(score, epsilon, step=step, weights=np.ones(cells), offsets=offsets)
    place = int(np.searchsorted(ends, drawn, side="right"))
    shape = references[place].shape
    cell = np.unravel_index(drawn - int(ends[place]) + math.prod(shape), shape)
    return CellQuery(cliques[place], tuple(int(code) for code in cell), signs[place])


class QueryPlayer:
    """Draws queries that given rows get wrong; in every draw the cells of a random part of all marginals compete.

    The part and the sign of each of its marginals are drawn with public randomness: a draw is the exponential mechanism
    on the competing cells. A part takes less time, and among fewer cells those of large error are drawn more often.

    Attributes:
        domain: names and sizes of the columns.
        sets: the marginals.
        marginals_per_draw: how many of them compete; fewer where they have more than MAX_CELLS cells in all.
        both_signs: whether each of them competes with both signs instead of a random one.
    """

    def __init__(
        self,
        domain: Domain,
        sets: Sequence[ColumnSet],
        marginals_per_draw: int,
        rng: np.random.Generator,
        *,
        both_signs: bool = False,
    ) -> None:
        self.domain, self.sets, self.both_signs = domain, list(sets), both_signs
        self.marginals_per_draw = min(marginals_per_draw, len(self.sets))
        self._rng = rng
        self._references: dict[ColumnSet, np.ndarray] = {}
        self._codes, self._total = np.zeros((1, len(domain)), dtype=np.int32), 1.0

    def compare_with(self, codes: np.ndarray, total: float) -> None:
        """From now on, compare the data with these rows, scaled to `total`."""
        self._codes, self._total = codes, total
        self._references.clear()

    def draw(self, door: GuardedTable, epsilon: float, *, step: str, without: Sequence[CellQuery] = ()) -> CellQuery:
        """Draw a query by the exponential mechanism on signed differences of counts; costs epsilon^2/8 in rho.

        Cells of the queries `without` are drawn only where there are no others.
        """
        chosen = [self.sets[i] for i in self._rng.choice(len(self.sets), self.marginals_per_draw, replace=False)]
        cells = np.cumsum([self.domain.cells(clique) for clique in chosen])
        chosen = chosen[: max(1, int((cells <= MAX_CELLS).sum()))]
        signs = [1 if heads else -1 for heads in self._rng.random(len(chosen)) < 0.5]
        if self.both_signs:
            chosen, signs = [*chosen, *chosen], [1] * len(chosen) + [-1] * len(chosen)
        references = [self._reference(clique) for clique in chosen]
        asked = {clique: np.zeros(self.domain.shape(clique), dtype=bool) for clique in chosen} if without else None
        for query in without:
            if asked and query.clique in asked:
                asked[query.clique][query.cell] = True
        return draw_query(door, chosen, references, signs, epsilon=epsilon, step=step, asked=asked)

    def _reference(self, clique: ColumnSet) -> np.ndarray:
        if clique not in self._references:
            counts = counted(self.domain, self._codes, clique)
            self._references[clique] = counts * (self._total / len(self._codes))
        return self._references[clique]


def weigh_drawn_queries(
    door: GuardedTable,
    player: QueryPlayer,
    leader: PerturbedLeader,
    draws: int,
    rho: float,
    *,
    weight: float,
    step: str,
    distinct: bool = False,
) -> None:
    """Draw queries, at a price of `rho` each, and add the signed weight to their cells' weights for future rows.

    `distinct` queries are of different cells. The papers draw independently, so that a large budget draws the cell of
    the largest error again and again, and nothing else.
    """
    drawn: list[CellQuery] = []
    for _ in range(draws):
        query = player.draw(door, math.sqrt(8 * rho), step=step, without=drawn if distinct else ())
        leader.prefer(query.clique, query.cell, query.sign * weight)
        drawn.append(query)


Noise = Literal["gumbel", "exponential"]

_MIN_SHARE = 1e-6
_MIN_RATIO = 1e-4
_MAX_SCORES = 20_000_000


class PerturbedLeader:
    """Weights of cells, and rows that each maximise the weights of their cells plus independent noise.

    A row x maximises sum_a (field_a(x_a) + noise_a(x_a)) + sum_q weight_q * [x is in the cell of q], with new noise
    for every row, column and value. With Gumbel noise, fields log(distribution) and no weights, rows are exactly
    independent draws from the distributions; weights then change them much as factors exp(weight) would (perturb and
    maximise).

    Attributes:
        domain: names and sizes of the columns.
        fields: for every column one number per value.
        weights: one table per column set of any query.
    """

    def __init__(self, domain: Domain, distributions: Sequence[np.ndarray]) -> None:
        self.domain = domain
        self.fields = [np.log(np.maximum(distribution, _MIN_SHARE)) for distribution in distributions]
        self.weights: dict[ColumnSet, np.ndarray] = {}

    @classmethod
    def uniform(cls, domain: Domain) -> PerturbedLeader:
        """Return a leader whose columns are uniform."""
        return cls(domain, [np.full(size, 1 / size) for size in domain.sizes])

    def prefer(self, clique: ColumnSet, cell: tuple[int, ...], weight: float) -> None:
        """Add to the weight of a cell; a negative weight makes rows avoid it."""
        if clique not in self.weights:
            self.weights[clique] = np.zeros(self.domain.shape(clique), dtype=np.float32)
        self.weights[clique][cell] += weight

    def keep_columns(self, distributions: Sequence[np.ndarray], codes: np.ndarray, rate: float) -> None:
        """Move the fields so that columns of the next rows are nearer to their distributions than those of `codes`.

        This is one damped step of proportional fitting to the known distributions, which costs no budget.
        """
        for i, (field, distribution) in enumerate(zip(self.fields, distributions, strict=True)):
            found = (np.bincount(codes[:, i], minlength=len(distribution)) + 1.0) / (len(codes) + len(distribution))
            field += rate * np.log(np.maximum(distribution, _MIN_RATIO) / np.maximum(found, _MIN_RATIO))

    def rows(self, count: int, rng: np.random.Generator, *, noise: Noise = "gumbel", sweeps: int = 3) -> np.ndarray:
        """Return codes of `count` rows, int32: the best rows without weights, then `sweeps` passes over all columns.

        In a pass each column takes its best value given the others, so that no step makes a row worse. The result need
        not be the global maximum.
        """
        block = max(1, _MAX_SCORES // sum(self.domain.sizes))
        if count > block:
            parts = [min(block, count - done) for done in range(0, count, block)]
            return np.asfortranarray(np.concatenate([self.rows(n, rng, noise=noise, sweeps=sweeps) for n in parts]))
        draw = rng.gumbel if noise == "gumbel" else rng.exponential
        alone = [(field + draw(size=(count, len(field)))).astype(np.float32) for field in self.fields]
        codes = np.column_stack([scores.argmax(axis=1) for scores in alone]).astype(np.int32, order="F")
        weighted = [[clique for clique in self.weights if name in clique] for name in self.domain.names]
        for _ in range(sweeps if self.weights else 0):
            for column in rng.permutation(len(self.domain)):
                if weighted[column]:
                    tied = self._weights_of_values(column, weighted[column], codes)
                    codes[:, column] = (alone[column] + tied).argmax(axis=1)
        return codes

    def _weights_of_values(self, column: int, cliques: Sequence[ColumnSet], codes: np.ndarray) -> np.ndarray:
        """Sum of the weights of each row for each value of the column, given the row's other columns."""
        scores = np.zeros((len(codes), self.domain.sizes[column]), dtype=np.float32)
        name = self.domain.names[column]
        for clique in cliques:
            others = tuple(codes[:, self.domain.position(other)] for other in clique if other != name)
            scores += np.moveaxis(self.weights[clique], clique.index(name), -1)[others]
        return scores


def random_player(
    domain: Domain, workload: WorkloadSpec, max_cells: int, marginals: int, rng: np.random.Generator
) -> QueryPlayer:
    """Return a query player that draws from all cells of the same few random marginals, with both signs."""
    sets = random_sets(query_sets(workload, domain, max_cells), marginals, rng)
    return QueryPlayer(domain, sets, len(sets), rng, both_signs=True)
