"""Which of many marginals one network can hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lookalike.schema.domain import Clique, Domain
from lookalike.select.spanning_tree import maximum_spanning_tree
from lookalike.tables.cost import Limits, candidate_costs
from lookalike.tables.extension import Extension, extend_plan
from lookalike.tables.planner import make_plan

_MEMORY_MB = 300.0


class FittingSets:
    """The sets, of all that were offered in turn, that one network holds within predicted milliseconds per evaluation.

    >>> fitting = FittingSets(Domain(("a", "b", "c"), (300, 300, 300)), 5.0)
    >>> fitting.offer([("a", "b"), ("b", "c"), ("a", "c")])
    >>> fitting.cliques
    [('a', 'b'), ('b', 'c')]
    """

    def __init__(self, domain: Domain, limit_ms: float) -> None:
        self.cliques: list[Clique] = []
        self._limits = Limits(1e-3 * limit_ms, _MEMORY_MB)
        self._plan = make_plan(domain, [])

    def offer(self, cliques: Sequence[Clique]) -> None:
        """Takes in, in order, the sets with which the limit is kept. A refused set may be offered again."""
        for clique in cliques:
            self.first([clique])

    def first(self, options: Sequence[Clique]) -> Clique | None:
        """Takes in the first of the options with which the limit is kept and says which; None where none does."""
        for clique in options:
            covered = Extension(self._plan).is_covered(clique)
            if covered or self._limits.allow(candidate_costs(self._plan, [clique], limits=self._limits)[0]):
                self.cliques.append(clique)
                self._plan = self._plan if covered else extend_plan(self._plan, [clique])
                return clique
        return None


def tree_first(cliques: Sequence[Clique], errors: np.ndarray, domain: Domain) -> list[Clique]:
    """The same sets, those first that hold the heaviest tree of pairs, each pair in the smallest set that has it.

    A tree is cheap whatever the numbers of values, and joins every column to the one that says most about it. Columns
    that determine each other are then right in every row that the network draws; a set that is left out for a dearer
    one is repaired by weights only if rows keep to it already.

    >>> errors = np.array([[0.0, 9.0, 5.0], [9.0, 0.0, 7.0], [5.0, 7.0, 0.0]])
    >>> tree_first([("a", "c"), ("a", "b"), ("b", "c")], errors, Domain(("a", "b", "c"), (2, 2, 2)))
    [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    smallest: dict[Clique, Clique] = {}
    for clique in sorted(cliques, key=domain.cells, reverse=True):
        smallest.update(dict.fromkeys(combinations(clique, 2), clique))
    pairs = list(smallest)
    weights = np.array([errors[domain.position(a), domain.position(b)] for a, b in pairs])
    tree = [smallest[pair] for pair in maximum_spanning_tree(pairs, weights)]
    return list(dict.fromkeys([*tree, *cliques]))


def fitting_parts(domain: Domain, choices: Sequence[Sequence[Clique]], limit_ms: float) -> list[Clique | None]:
    """Of each list the first clique with which one evaluation stays within the limit; None where none does."""
    fitting = FittingSets(domain, limit_ms)
    return [fitting.first(options) for options in choices]
