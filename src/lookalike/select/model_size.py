"""Which further marginals a model can take: predicted time of one evaluation, from public sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lookalike.schema.domain import Clique
from lookalike.tables.cost import Limits, candidate_costs
from lookalike.tables.extension import Extension
from lookalike.tables.plan import ContractionPlan


class Planned(Protocol):
    """What is asked of a model here."""

    @property
    def plan(self) -> ContractionPlan: ...


class SizeGate:
    """Compares the predicted time of a model that has one marginal more with a limit.

    A larger model takes no less time, so a marginal that once was found to cost more than some limit needs no new look
    before the limit has passed that cost. The gate is made for a model that grows, and for one limit of memory.
    """

    def __init__(self, memory_mb: float = 500.0) -> None:
        self._memory_mb = memory_mb
        self._seconds: dict[Clique, float] = {}

    def admitted(self, model: Planned, candidates: Sequence[Clique], limit_ms: float) -> list[Clique]:
        """The candidates that lie inside a factor of the model, or with which it stays within the limit."""
        limits = Limits(1e-3 * limit_ms, self._memory_mb)
        inside = Extension(model.plan).is_covered
        covered = {clique for clique in candidates if inside(clique)}
        unsure = [c for c in candidates if c not in covered and self._seconds.get(c, 0.0) <= limits.seconds_per_call]
        for clique, cost in zip(unsure, candidate_costs(model.plan, unsure, limits=limits), strict=True):
            self._seconds[clique] = cost.seconds_per_call
            if limits.allow(cost):
                covered.add(clique)
        return [clique for clique in candidates if clique in covered]
