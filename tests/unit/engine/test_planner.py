"""Plans: the same compiled or not, valid for any size, and as good after growing as from scratch."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from lookalike import guards
from lookalike.engine import cost, executor, planner, recipes
from lookalike.engine.contraction import Network
from lookalike.engine.cost import extend_plan, plan_cost
from lookalike.engine.plan import ContractionPlan
from lookalike.engine.planner import make_plan
from lookalike.schema.domain import Domain


def random_cliques(domain: Domain, count: int, size: int, seed: int) -> list[tuple[str, ...]]:
    rng = random.Random(seed)
    return [domain.canonical(rng.sample(domain.names, size)) for _ in range(count)]


def mixed_domain(count: int) -> Domain:
    return Domain(tuple(f"v{i}" for i in range(count)), tuple(2 + (5 * i) % 7 for i in range(count)))


@pytest.mark.parametrize("count", [12, 70])
def test_compiled_and_interpreted_search_find_the_same_plan(monkeypatch, count):
    domain = mixed_domain(count)
    cliques = random_cliques(domain, 14, 3, seed=1)
    plans = []
    for use_numba in (False, True):
        planner._cached_plan.cache_clear()
        for module in (planner, recipes):
            monkeypatch.setattr(module, "worth_compiling", lambda function, seconds, answer=use_numba: answer)
        plans.append(make_plan(domain, cliques, effort=0.1))
    planner._cached_plan.cache_clear()
    assert plans[0] == plans[1]


def test_interpreted_and_compiled_annealing_agree_beyond_one_word():
    domain = mixed_domain(70)
    names = domain.names
    cliques = [(names[i], names[i + 1]) for i in range(69)]
    masks = [sum(1 << domain.position(name) for name in clique) for clique in cliques]
    results = []
    for use_numba in (False, True):
        search = planner.TreeSearch(domain.sizes, masks, seed=3)
        if use_numba and not search.compiled:
            search._switch_to_compiled()
        cost, tree = search.greedy(0.3, 0.5)
        cost, tree = search.anneal(cost, tree, 500)
        results.append((cost, search.pairs(tree)))
    assert search.words == 2
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("children", "order_of_axes", "message"),
    [(((0, 0),), (0, 1), "two parents"), (((0, 5),), (0, 1), "before its children"), ((), (0, 0), "permutation")],
)
def test_a_plan_checks_itself(children, order_of_axes, message):
    domain = Domain(("a", "b"), (2, 2))
    with pytest.raises(ValueError, match=message):
        ContractionPlan(domain, (("a",), ("b",)), children, order_of_axes)


def test_more_than_64_variables_and_factors_give_the_exact_normaliser():
    domain = Domain(tuple(f"v{i}" for i in range(150)), (3,) * 150)
    names = domain.names
    network = Network(make_plan(domain, list(pairwise(names))))
    rng = np.random.default_rng(0)
    potentials = rng.normal(size=network.layout.leaf_cells)
    tables = {leaf: network.unpack(i, potentials) for i, leaf in enumerate(network.plan.leaves)}
    message = np.zeros(3)
    for pair in pairwise(names):
        message = np.logaddexp.reduce(message[:, None] + tables[pair], axis=0)
    assert network.sweep(potentials) == pytest.approx(np.logaddexp.reduce(message), rel=1e-12)


def test_very_wide_uniform_tables_do_not_overflow():
    domain = Domain(tuple(f"v{i}" for i in range(400)), (40,) * 400)
    names = domain.names
    network = Network(make_plan(domain, list(pairwise(names))))
    assert network.sweep(np.zeros(network.layout.leaf_cells)) == pytest.approx(400 * np.log(40.0))
    assert network.used_log_space == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_grown_plan_has_the_wanted_factors_and_no_excessive_cost(seed):
    domain = mixed_domain(12)
    cliques = random_cliques(domain, 7, 3, seed)
    plan = make_plan(domain, cliques[:5])
    grown = extend_plan(plan, cliques[5:])
    fresh = make_plan(domain, cliques)
    assert set(grown.leaves) == set(fresh.leaves)
    assert plan_cost(grown).seconds_per_call < 2 * plan_cost(fresh).seconds_per_call


def test_growing_joins_components_and_swallows_smaller_factors():
    domain = mixed_domain(8)
    plan = make_plan(domain, [("v0", "v1"), ("v2", "v3"), ("v4",), ("v6", "v7")])
    grown = extend_plan(plan, [("v0", "v1", "v2", "v4")])
    assert set(grown.leaves) == {("v2", "v3"), ("v6", "v7"), ("v0", "v1", "v2", "v4")}
    assert len(grown.roots) == 2


def test_removing_leaves_keeps_the_rest_of_the_tree():
    assert cost.without_leaves(4, [(0, 1), (2, 3), (4, 5)], {1}) == [(1, 2), (0, 3)]


def test_without_numba_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(guards, "NUMBA", False)
    monkeypatch.setattr(executor, "_compiled", {})
    assert not executor.worth_compiling(planner.make_plan, 1e9)
