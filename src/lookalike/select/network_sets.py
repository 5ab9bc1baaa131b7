"""Which of many marginals one network can hold."""

from __future__ import annotations

from collections.abc import Sequence

from lookalike.schema.domain import Clique, Domain
from lookalike.tables.cost import Limits, candidate_costs
from lookalike.tables.extension import Extension, extend_plan
from lookalike.tables.planner import make_plan

_MEMORY_MB = 300.0


def fitting_sets(domain: Domain, cliques: Sequence[Clique], limit_ms: float) -> list[Clique]:
    """The cliques, taken in order, with which the predicted milliseconds of one evaluation stay within the limit.

    >>> domain = Domain(("a", "b", "c"), (300, 300, 300))
    >>> fitting_sets(domain, [("a", "b"), ("b", "c"), ("a", "c")], 5.0)
    [('a', 'b'), ('b', 'c')]
    """
    parts = fitting_parts(domain, [[clique] for clique in cliques], limit_ms)
    return [clique for clique in parts if clique is not None]


def fitting_parts(domain: Domain, choices: Sequence[Sequence[Clique]], limit_ms: float) -> list[Clique | None]:
    """Of each list the first clique with which one evaluation stays within the limit; None where none does."""
    limits = Limits(1e-3 * limit_ms, _MEMORY_MB)
    plan, fitting = make_plan(domain, []), list[Clique | None]()
    for options in choices:
        chosen = None
        for clique in options:
            covered = Extension(plan).is_covered(clique)
            if covered or limits.allow(candidate_costs(plan, [clique], limits=limits)[0]):
                plan, chosen = plan if covered else extend_plan(plan, [clique]), clique
                break
        fitting.append(chosen)
    return fitting
