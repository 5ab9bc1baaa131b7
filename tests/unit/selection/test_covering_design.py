"""Covering designs hold every pair or triple, within their limit, and not with far too many sets."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from lookalike.schema.domain import Domain
from lookalike.selection.pair_selection import covering_design


@pytest.mark.parametrize("strength", [2, 3])
@pytest.mark.parametrize("limit", [1.0, 8.0, 40.0, 300.0])
def test_every_set_of_columns_is_held_and_views_fit(strength: int, limit: float) -> None:
    domain = Domain.of({"a": 2, "b": 3, "c": 7, "d": 2, "e": 20, "f": 1, "g": 4})
    views = covering_design(domain, strength, limit, np.random.default_rng(0))
    for together in combinations(domain.names, strength):
        assert any(set(together) <= set(view) for view in views)
    for view in views:
        assert view == domain.canonical(view)
        assert domain.cells(view) <= limit or len(view) == strength or domain.size("f") == 1
        larger = [name for name in view if name != "f"]
        assert domain.cells(view) <= limit or len(larger) <= strength


@pytest.mark.parametrize(("columns", "strength", "most"), [(16, 2, 8), (32, 2, 32), (16, 3, 30)])
def test_designs_of_binary_columns_are_small(columns: int, strength: int, most: int) -> None:
    """Never below the counting bound, and not far above it."""
    domain = Domain.of({f"c{i}": 2 for i in range(columns)})
    views = covering_design(domain, strength, 256, np.random.default_rng(0))
    assert math.comb(columns, strength) / math.comb(8, strength) <= len(views) <= most


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_narrow_tables_have_one_view(columns: int) -> None:
    domain = Domain.of({f"c{i}": 5 for i in range(columns)})
    assert covering_design(domain, 3, 1.0, np.random.default_rng(0)) == [domain.names]


def test_other_strengths_are_refused() -> None:
    with pytest.raises(ValueError, match="strength"):
        covering_design(Domain.of({"a": 2}), 4, 10, np.random.default_rng(0))
