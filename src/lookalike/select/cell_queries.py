"""Single cells of marginals as signed counting queries: which one a model gets most wrong, and in which direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lookalike.privacy.scores import CellGaps
from lookalike.schema.domain import Clique, Domain
from lookalike.select.workload import WorkloadSpec, as_workload

if TYPE_CHECKING:
    from lookalike.privacy.door import GuardedTable


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
) -> CellQuery:
    """A cell drawn by the exponential mechanism on sign_i * (M_i(D)_c - reference_i,c); costs epsilon^2/8 in rho."""
    score = CellGaps(tuple(cliques), tuple(references), tuple(signs))
    ends = np.cumsum([reference.size for reference in references])
    cells = int(ends[-1])
    drawn = door.choose(score, epsilon, step=step, weights=np.ones(cells), offsets=np.zeros(cells))
    place = int(np.searchsorted(ends, drawn, side="right"))
    shape = references[place].shape
    cell = np.unravel_index(drawn - int(ends[place]) + math.prod(shape), shape)
    return CellQuery(cliques[place], tuple(int(code) for code in cell), signs[place])
