"""The attribute graph of PrivMRF on cases small enough to check by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lookalike.schema.domain import Domain
from lookalike.selection.markov_graph import MarkovGraph, best_graph, grow_graph

SQUARE = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))


def sets(graph: MarkovGraph) -> set[frozenset[str]]:
    return {frozenset(clique) for clique in graph.cliques}


def test_closing_a_cycle_takes_the_cheaper_chord() -> None:
    graph = MarkovGraph(SQUARE, 1e9)
    for u, v in [(0, 1), (1, 2), (2, 3)]:
        assert graph.add(u, v)
    assert graph.add(0, 3)
    # a-c: cliques abc and acd, 24 + 40 cells; b-d: abd and bcd, 30 + 60.
    assert sets(graph) == {frozenset("abc"), frozenset("acd")}
    assert graph.cells == 64


def test_components_are_joined_by_a_single_edge() -> None:
    graph = MarkovGraph(SQUARE, 1e9)
    assert graph.add(0, 1)
    assert graph.add(2, 3)
    assert graph.add(1, 2)
    assert sets(graph) == {frozenset("ab"), frozenset("bc"), frozenset("cd")}


def test_an_edge_beyond_a_limit_is_refused_and_changes_nothing() -> None:
    graph = MarkovGraph(SQUARE, 14)
    assert graph.add(0, 1)
    before = sets(graph)
    assert not graph.add(2, 3)
    assert sets(graph) == before
    assert graph.edges == [(0, 1)]
    tight = MarkovGraph(SQUARE, 1e9, total_cells=15)
    assert tight.add(0, 1)
    assert not tight.add(1, 2)


def test_edges_are_taken_by_descending_score() -> None:
    pairs = list(combinations(SQUARE.names, 2))
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    graph = grow_graph(SQUARE, pairs, scores, clique_cells=20)
    assert graph.edges[0] == (2, 3)
    assert grow_graph(SQUARE, pairs, scores, clique_cells=20, lowest=5.5).edges == [(2, 3)]


def test_a_new_triangulation_replaces_a_dearer_one_and_keeps_the_edges() -> None:
    sizes = (9, 2, 9, 2, 9)
    ring = Domain(tuple("abcde"), sizes)
    graph = MarkovGraph(ring, 1e9)
    for u, v in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]:
        graph.add(u, v)
    dear = graph.cells
    graph.tidy()
    assert graph.cells <= dear
    assert all(graph.joined(u, v) for u, v in graph.edges)


def test_of_several_graphs_the_one_that_holds_most_is_kept() -> None:
    # Descending score spends the limit on the one large pair; the two small ones are worth more together.
    domain = Domain(("big", "large", "x", "y"), (30, 30, 3, 3))
    pairs = list(combinations(domain.names, 2))
    scores = np.array([5.0, 4.0, 4.0, 0.0, 0.0, 0.0])
    limits = {"clique_cells": 1000.0, "total_cells": 960.0}
    greedy = grow_graph(domain, pairs, scores, lowest=1e-9, **limits)
    assert greedy.joined(0, 1)
    prices = np.array([domain.cells(pair) for pair in pairs]) ** (2 / 3)
    best = best_graph(domain, pairs, scores, prices, np.random.default_rng(0), tries=20, **limits)
    assert not best.joined(0, 1)
    assert best.joined(0, 2)
    assert best.joined(0, 3)
