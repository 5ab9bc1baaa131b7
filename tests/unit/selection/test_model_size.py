"""Sets that a model can take: inside it is free, outside is predicted, and in order, whole or in part."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.engine.cost import Limits
from lookalike.models.graphical import GraphicalModel
from lookalike.schema.domain import Domain
from lookalike.selection import model_size
from lookalike.selection.model_size import FittingSets, SizeGate, fitting_parts, sets_that_fit

DOMAIN = Domain(tuple("abcd"), (20, 20, 20, 20))


def model(*cliques: tuple[str, ...]) -> GraphicalModel:
    return GraphicalModel(DOMAIN, {c: np.zeros(DOMAIN.shape(c)) for c in cliques}, 100.0)


def test_parts_of_the_model_are_always_admitted() -> None:
    inside = [("a",), ("a", "b")]
    assert SizeGate().admitted(model(("a", "b"), ("c",)), [*inside, ("b", "c")], 1e-9) == inside


def test_larger_limits_admit_more_in_the_given_order() -> None:
    candidates = [("a", "b", "c", "d"), ("b", "c"), ("a", "b", "c")]
    admitted = [SizeGate(1e6).admitted(model(("a", "b")), candidates, ms) for ms in (1e-6, 0.05, 1.0, 1e5)]
    assert admitted == [[], [("b", "c")], [("b", "c"), ("a", "b", "c")], candidates]


def test_memory_is_limited_too() -> None:
    assert SizeGate(memory_mb=0.1).admitted(model(("a",)), [("a", "b", "c")], 1e6) == []


def test_a_price_beyond_the_limit_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    real = model_size.candidate_costs
    monkeypatch.setattr(
        model_size, "candidate_costs", lambda plan, cliques, **kw: (asked.extend(cliques), real(plan, cliques, **kw))[1]
    )
    gate = SizeGate()
    large, small = ("a", "b", "c"), ("b", "c")
    for _ in range(2):
        assert gate.admitted(model(("a", "b")), [large, small], 0.05) == [small]
    assert asked == [large, small, small]
    assert gate.admitted(model(("a", "b")), [large], 10.0) == [large]


def test_sets_that_fit_are_taken_in_order_and_later_ones_fill_up() -> None:
    sets = [("a", "b"), ("a", "b", "c", "d"), ("b", "c"), ("a", "c", "d")]
    roomy = Limits(1e3, 1e6)
    assert sets_that_fit(DOMAIN, [], sets, roomy) == sets
    tight = Limits(1e3, memory_mb=1.0)
    assert sets_that_fit(DOMAIN, [], sets, tight) == [("a", "b"), ("b", "c"), ("a", "c", "d")]
    assert sets_that_fit(DOMAIN, [("a", "b", "c", "d")], sets, tight) == []
    assert sets_that_fit(DOMAIN, [], [], tight) == []


THREE = Domain(("a", "b", "c"), (300, 300, 300))


def test_a_set_that_does_not_fit_is_replaced_by_the_first_part_that_does() -> None:
    choices = [[("a", "b")], [("a", "b", "c"), ("b", "c"), ("c",)], [("a", "c"), ("a",)]]
    assert fitting_parts(THREE, choices, 5.0) == [("a", "b"), ("b", "c"), ("a",)]


def test_nothing_fits_where_no_part_does() -> None:
    assert fitting_parts(THREE, [[("a", "b", "c")], [("b",)]], 5.0) == [None, ("b",)]
    fitting = FittingSets(THREE, 5.0)
    fitting.offer([("a", "b", "c"), ("b",)])
    assert fitting.cliques == [("b",)]
