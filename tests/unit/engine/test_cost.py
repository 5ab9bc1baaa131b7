"""Costs are predicted before anything large exists, and limits refuse with numbers and a remedy."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from lookalike.engine.contraction import Network
from lookalike.engine.cost import Cost, Limits, candidate_costs, plan_cost, predict_cost
from lookalike.engine.planner import make_plan
from lookalike.errors import ModelTooLargeError
from lookalike.measurements import NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.schema.domain import Domain

DENSE = Domain(tuple(f"v{i}" for i in range(14)), (12,) * 14)


def test_a_model_beyond_the_limits_is_refused_before_it_is_allocated():
    pairs = list(itertools.combinations(DENSE.names, 2))
    measured = [NoisyMarginal(pair, np.ones((12, 12)), 1.0) for pair in pairs]
    tracemalloc.start()
    with pytest.raises(ModelTooLargeError, match=r"limit is .* MB of memory.*raise the limits") as caught:
        fit(DENSE, measured)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.predicted > 1e6
    assert peak < 30e6


def test_limits_on_time_are_checked_too():
    with pytest.raises(ModelTooLargeError, match="seconds per evaluation"):
        Limits(seconds_per_call=1e-9).check("A model", Cost(1.0, 1.0))
    assert not Limits(memory_mb=1.0).allow(Cost(0.0, 2.0))
    with pytest.raises(ValueError, match="positive"):
        Limits(memory_mb=0.0)


def test_predicted_memory_matches_what_is_allocated():
    cliques = [DENSE.names[i : i + 3] for i in range(10)]
    network = Network(make_plan(DENSE, cliques))
    allocated = network._executor.buffer.nbytes / 1e6
    assert allocated <= predict_cost(DENSE, cliques).memory_mb <= 2 * allocated + 1


def test_candidate_costs_agree_with_full_predictions():
    domain = Domain(tuple(f"v{i}" for i in range(10)), (4, 9, 3, 7, 5, 8, 2, 6, 10, 4))
    cliques = [("v0", "v1", "v2"), ("v2", "v3"), ("v3", "v4", "v5"), ("v5", "v6"), ("v7", "v8")]
    plan = make_plan(domain, cliques)
    candidates = [("v1", "v4", "v6"), ("v0", "v8"), ("v7", "v9"), ("v2", "v3"), ("v0", "v5", "v8")]
    for candidate, cost in zip(candidates, candidate_costs(plan, candidates), strict=True):
        full = predict_cost(domain, [*cliques, candidate])
        assert cost.seconds_per_call == pytest.approx(full.seconds_per_call, rel=2.0)
        assert cost.memory_mb == pytest.approx(full.memory_mb, rel=1.5)
    cheap = candidate_costs(plan, candidates, limits=Limits())
    assert all(Limits().allow(cost) for cost in cheap)
    assert candidate_costs(plan, [("v2", "v3")])[0].seconds_per_call == pytest.approx(
        plan_cost(plan).seconds_per_call, rel=0.5
    )


def test_hopeless_candidates_are_priced_as_hopeless():
    plan = make_plan(DENSE, [DENSE.names[i : i + 2] for i in range(13)])
    (cost,) = candidate_costs(plan, [DENSE.names[:9]], limits=Limits())
    assert cost.memory_mb > 1e4
    assert not Limits().allow(cost)
