"""Which of many marginals one network can hold."""

from __future__ import annotations

from collections.abc import Sequence

from lookalike.schema.domain import Clique, Domain
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


def fitting_parts(domain: Domain, choices: Sequence[Sequence[Clique]], limit_ms: float) -> list[Clique | None]:
    """Of each list the first clique with which one evaluation stays within the limit; None where none does."""
    fitting = FittingSets(domain, limit_ms)
    return [fitting.first(options) for options in choices]
