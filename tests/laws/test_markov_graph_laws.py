"""Whatever the order of edges and the limits: the graph is chordal, keeps its edges and stays within its limits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.schema.domain import Domain
from lookalike.selection.markov_graph import MarkovGraph, grow_graph


def is_chordal(cliques: list[tuple[str, ...]], names: tuple[str, ...]) -> bool:
    """Whether simplicial vertices can be removed one by one: the definition by perfect elimination."""
    near = {name: {other for clique in cliques if name in clique for other in clique} for name in names}
    left = set(names)
    while left:
        simplicial = [
            name for name in left if all(near[name] & left <= near[other] for other in near[name] & left)
        ]  # fmt: skip
        if not simplicial:
            return False
        left.discard(simplicial[0])
    return True


def is_maximal(cliques: list[tuple[str, ...]]) -> bool:
    return not any(a is not b and set(a) <= set(b) for a in cliques for b in cliques)


@st.composite
def cases(draw) -> tuple[Domain, np.ndarray, float, float]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=9))
    domain = Domain(tuple(f"x{i}" for i in range(len(sizes))), tuple(sizes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.normal(size=len(sizes) * (len(sizes) - 1) // 2)
    return domain, scores, draw(st.sampled_from([20, 60, 300])), draw(st.sampled_from([60, 400, 1e9]))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_a_grown_graph_is_chordal_and_within_its_limits(case: tuple[Domain, np.ndarray, float, float]) -> None:
    domain, scores, clique_cells, total_cells = case
    pairs = list(combinations(domain.names, 2))
    graph = grow_graph(domain, pairs, scores, clique_cells=clique_cells, total_cells=total_cells)
    cliques = graph.cliques
    assert is_chordal(cliques, domain.names)
    assert is_maximal(cliques)
    assert {name for clique in cliques for name in clique} == set(domain.names)
    assert all(graph.joined(u, v) for u, v in graph.edges)
    several = [clique for clique in cliques if len(clique) > 1]
    assert all(domain.cells(clique) <= clique_cells for clique in several)
    assert sum(map(domain.cells, cliques)) <= max(total_cells, sum(domain.sizes))
    assert graph.cells == sum(map(domain.cells, cliques))


@settings(max_examples=80, deadline=None)
@given(cases())
def test_incremental_fill_in_never_joins_more_than_needed_for_one_edge(
    case: tuple[Domain, np.ndarray, float, float],
) -> None:
    domain, scores, _, _ = case
    graph = MarkovGraph(domain, 1e12)
    order = np.argsort(scores)
    ends = list(combinations(range(len(domain)), 2))
    for index in order:
        u, v = ends[index]
        before = {pair for pair in ends if graph.joined(*pair)}
        assert graph.add(u, v)
        new = {pair for pair in ends if graph.joined(*pair)} - before
        # Every fill edge has an end in common with the edge that asked for it.
        assert all({u, v} & set(pair) for pair in new)
        assert is_chordal(graph.cliques, domain.names)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_nothing_refused_still_fits_at_the_end(case: tuple[Domain, np.ndarray, float, float]) -> None:
    domain, scores, clique_cells, total_cells = case
    pairs = list(combinations(domain.names, 2))
    graph = grow_graph(domain, pairs, scores, clique_cells=clique_cells, total_cells=total_cells)
    for u, v in combinations(range(len(domain)), 2):
        if not graph.joined(u, v):
            assert not graph.add(u, v)
