"""Single cells of marginals as signed counting queries: which one a model gets most wrong, and in which direction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lookalike.privacy.scores import CellGaps
from lookalike.schema.cells import counted
from lookalike.schema.domain import Clique, Domain
from lookalike.select.workload import WorkloadSpec, as_workload

if TYPE_CHECKING:
    from lookalike.privacy.kernel.door import GuardedTable

_OUT_OF_REACH = 1e12
MOST_CELLS = 100_000
"""Most cells that one draw looks at: with many more, exact draws need high precision too often."""


@dataclass(frozen=True, slots=True)
class CellQuery:
    """How many rows have these values: too few in the model if the sign is 1, too many if it is -1.

    Attributes:
        clique: the columns, in domain order.
        cell: their codes.
        sign: 1 or -1.
    """

    clique: Clique
    cell: tuple[int, ...]
    sign: int


def query_sets(spec: WorkloadSpec, domain: Domain, max_cells: int) -> list[Clique]:
    """The marginals of a workload whose cells are asked about; parts of those that have more than `max_cells` cells.

    A part has one column less, the one of most values, until it fits or is a single column.

    >>> query_sets([["a", "b"], ["b", "c"]], Domain.of({"a": 2, "b": 9, "c": 3}), 20)
    [('a', 'b'), ('c',)]
    """
    found: dict[Clique, None] = {}
    for clique in as_workload(spec, domain).cliques:
        part = clique
        while domain.cells(part) > max_cells and len(part) > 1:
            widest = max(part, key=domain.size)
            part = tuple(name for name in part if name != widest)
        found[part] = None
    return list(found)


def draw_query(
    door: GuardedTable,
    cliques: Sequence[Clique],
    references: Sequence[np.ndarray],
    signs: Sequence[int],
    *,
    epsilon: float,
    step: str,
    asked: Mapping[Clique, np.ndarray] | None = None,
) -> CellQuery:
    """A cell drawn by the exponential mechanism on sign_i * (M_i(D)_c - reference_i,c); costs epsilon^2/8 in rho.

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
    """Draws the queries that some rows get wrong, out of a random part of all marginals for every draw.

    Looking at a part, from a random side each, is public chance: a draw is the exponential mechanism on the cells that
    it looks at, whichever they are. It takes a part of the time, and fewer cells hide the worst ones less.

    Attributes:
        domain: names and sizes of the columns.
        sets: the marginals.
        looked: how many of them a draw looks at; fewer where they have more than MOST_CELLS cells in all.
        both_sides: look at each of them from both sides instead of a random one.
    """

    def __init__(
        self, domain: Domain, sets: Sequence[Clique], looked: int, rng: np.random.Generator, *, both_sides: bool = False
    ) -> None:
        self.domain, self.sets, self.both_sides = domain, list(sets), both_sides
        self.looked = min(looked, len(self.sets))
        self._rng = rng
        self._references: dict[Clique, np.ndarray] = {}
        self._codes, self._total = np.zeros((1, len(domain)), dtype=np.int32), 1.0

    def face(self, codes: np.ndarray, total: float) -> None:
        """From now on, compare the data with these rows, scaled to `total`."""
        self._codes, self._total = codes, total
        self._references.clear()

    def draw(self, door: GuardedTable, epsilon: float, *, step: str) -> CellQuery:
        """A query by the exponential mechanism on signed differences of counts; costs epsilon^2/8 in rho."""
        chosen = [self.sets[i] for i in self._rng.choice(len(self.sets), self.looked, replace=False)]
        cells = np.cumsum([self.domain.cells(clique) for clique in chosen])
        chosen = chosen[: max(1, int((cells <= MOST_CELLS).sum()))]
        signs = [1 if heads else -1 for heads in self._rng.random(len(chosen)) < 0.5]
        if self.both_sides:
            chosen, signs = [*chosen, *chosen], [1] * len(chosen) + [-1] * len(chosen)
        references = [self._reference(clique) for clique in chosen]
        return draw_query(door, chosen, references, signs, epsilon=epsilon, step=step)

    def _reference(self, clique: Clique) -> np.ndarray:
        if clique not in self._references:
            counts = counted(self.domain, self._codes, clique)
            self._references[clique] = counts * (self._total / len(self._codes))
        return self._references[clique]
