"""The predicted time and memory of a model before any of it is built, and the user's limits on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.engine.extension import Extension
from lookalike.engine.layout import Layout, make_layout
from lookalike.engine.order import predicted_ns
from lookalike.engine.plan import ContractionPlan, clique_mask
from lookalike.engine.planner import make_plan
from lookalike.engine.recipes import PRICES
from lookalike.engine.reuse import with_reuse
from lookalike.errors import ModelTooLargeError
from lookalike.schema.domain import Domain

_CALL_NS, _LEAF_CELL_NS = PRICES["evaluation"]["call"], PRICES["evaluation"]["leaf_cell"]
# Arrays beyond the second-level cache come from memory: the fitted prices are then about 1.5 times too low.
_CACHE_CELLS = 120_000
_BEYOND_CACHE = 1.5
_MAX_CELLS = 2**40


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted time and memory of a model.

    Attributes:
        seconds_per_call: of one evaluation of all marginals on one core; a fit makes 50 to 500 such calls.
        memory_mb: of the arrays of the model, in 10^6 bytes.
    """

    seconds_per_call: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a model may be. The defaults suit a laptop: a fit of minutes, a quarter of 8 GB.

    Attributes:
        seconds_per_call: predicted seconds of one evaluation of all marginals.
        memory_mb: predicted memory of one model's arrays, in 10^6 bytes.
    """

    seconds_per_call: float = 1.0
    memory_mb: float = 2000.0

    def __post_init__(self) -> None:
        if not (self.seconds_per_call > 0 and self.memory_mb > 0):
            raise ValueError(f"limits must be positive, not {self}")

    def allow(self, cost: Cost) -> bool:
        """Whether a model of this cost is within the limits."""
        return cost.seconds_per_call <= self.seconds_per_call and cost.memory_mb <= self.memory_mb

    def check(self, what: str, cost: Cost) -> None:
        """Raise a ModelTooLargeError that names the cost, the limit and the remedy, if the model is not allowed."""
        remedy = "Measure fewer or smaller column sets, merge rare values, or raise the limits."
        if cost.memory_mb > self.memory_mb:
            raise ModelTooLargeError(what, cost.memory_mb, self.memory_mb, "MB of memory", remedy)
        if cost.seconds_per_call > self.seconds_per_call:
            raise ModelTooLargeError(
                what, cost.seconds_per_call, self.seconds_per_call, "seconds per evaluation", remedy
            )


DEFAULT_LIMITS = Limits()


def layout_cost(layout: Layout) -> Cost:
    """Predicted cost of a model with this layout."""
    ns = predicted_ns(layout)
    if layout.cells > _CACHE_CELLS * 8:
        ns *= _BEYOND_CACHE
    seconds = 1e-9 * (ns + _LEAF_CELL_NS * layout.leaf_cells + _CALL_NS)
    return Cost(seconds, 8e-6 * (_buffer_cells(layout) + 3 * layout.leaf_cells))


def _buffer_cells(layout: Layout) -> int:
    """Cells of the buffer and of the largest operation's operands, which may have to be copied."""
    # A forward sweep alone keeps all its values, and a model beyond _MAX_CELLS is refused whatever sharing could save.
    if not layout.adjoint or layout.cells > _MAX_CELLS:
        return layout.cells
    packed = max(
        sum(layout.size(array.mask) for array in operation[:3] if array is not None)
        for operation in (*layout.forward, *layout.adjoint)
    )
    return with_reuse(layout).cells + packed


def plan_cost(plan: ContractionPlan) -> Cost:
    """Predicted cost of a model with this plan."""
    return layout_cost(make_layout(plan))


def predict_cost(domain: Domain, cliques: Iterable[Iterable[str]], *, seed: int = 0) -> Cost:
    """Return the predicted cost of the model whose factors are these column sets, without allocating its arrays.

    >>> domain = Domain(("a", "b", "c"), (1000, 1000, 1000))
    >>> predict_cost(domain, [("a", "b", "c")]).memory_mb > 10_000
    True
    """
    return plan_cost(make_plan(domain, cliques, seed=seed))


def candidate_costs(
    plan: ContractionPlan, candidates: Sequence[Iterable[str]], *, limits: Limits | None = None, seed: int = 0
) -> list[Cost]:
    """Return the predicted cost of the planned model with one more column set, for each candidate.

    This takes some milliseconds per candidate. The column set is inserted at the best place of the tree. If that upper
    bound is within `limits` it is returned as it is; otherwise the tree is searched further. Without limits every
    candidate is searched. The prediction from a tree ignores the order of variables (for seconds) and shared places
    (for memory), so it is scaled by the ratio that these two make for the present plan.
    """
    extension = Extension(plan, seed)
    now = plan_cost(plan) if plan.leaves else Cost(1e-9 * _CALL_NS, 0.0)
    base = sum(extension.costs)
    scale = max(0.5, min(4.0, 1e9 * now.seconds_per_call / (base + _CALL_NS))) if base else 1.0
    enough = 1e9 * limits.seconds_per_call / scale if limits is not None else 0.0
    planned = 8e-6 * sum(extension.cells)
    reused = max(0.25, min(1.0, now.memory_mb / planned)) if planned else 1.0
    costs = []
    for attrs in candidates:
        clique = plan.domain.canonical(attrs)
        ns, cells = extension.candidate(clique, enough)
        leaf_cells = _new_leaf_cells(extension, clique)
        seconds = 1e-9 * (scale * ns + _LEAF_CELL_NS * leaf_cells + _CALL_NS)
        costs.append(Cost(seconds, 8e-6 * (reused * cells + 4 * leaf_cells)))
    return costs


def _new_leaf_cells(extension: Extension, clique: Sequence[str]) -> float:
    """Cells of all factors once the column set is added and factors inside it are removed."""
    domain = extension.plan.domain
    mask = clique_mask(domain, clique)
    if extension.is_covered(tuple(clique)):
        return float(sum(domain.cells(leaf) for leaf in extension.plan.leaves))
    kept = (
        domain.cells(leaf) for leaf, other in zip(extension.plan.leaves, extension.masks, strict=True) if other & ~mask
    )
    return float(np.sum(list(kept))) + float(domain.cells(clique))
