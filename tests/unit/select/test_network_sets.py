"""Sets that one network can hold, in order, whole or in part."""

from __future__ import annotations

from lookalike.schema.domain import Domain
from lookalike.select.network_sets import FittingSets, fitting_parts

DOMAIN = Domain(("a", "b", "c"), (300, 300, 300))


def test_a_set_that_does_not_fit_is_replaced_by_the_first_part_that_does() -> None:
    choices = [[("a", "b")], [("a", "b", "c"), ("b", "c"), ("c",)], [("a", "c"), ("a",)]]
    assert fitting_parts(DOMAIN, choices, 5.0) == [("a", "b"), ("b", "c"), ("a",)]


def test_nothing_fits_where_no_part_does() -> None:
    assert fitting_parts(DOMAIN, [[("a", "b", "c")], [("b",)]], 5.0) == [None, ("b",)]
    fitting = FittingSets(DOMAIN, 5.0)
    fitting.offer([("a", "b", "c"), ("b",)])
    assert fitting.cliques == [("b",)]
