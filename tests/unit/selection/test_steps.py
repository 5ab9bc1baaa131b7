"""Counts that were released before are averaged with new ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.measurements import NoisyMarginal
from lookalike.selection.steps import with_known


def door(*known: NoisyMarginal) -> Any:
    return SimpleNamespace(known=known)


def test_counts_are_averaged_by_inverse_variance():
    new, old = NoisyMarginal(("a",), np.array([10.0, 20.0]), 2.0), NoisyMarginal(("a",), np.array([14.0, 10.0]), 4.0)
    found = with_known(new, door(old))
    assert found.values == pytest.approx([(4 * 10 + 14) / 5, (4 * 20 + 10) / 5])
    assert found.stddev == pytest.approx((1 / 4 + 1 / 16) ** -0.5)


@pytest.mark.parametrize(
    "other", [NoisyMarginal(("b",), np.ones(2), 1.0), NoisyMarginal(("a",), np.ones(3), 1.0)], ids=["name", "size"]
)
def test_counts_of_other_columns_or_codes_are_left_alone(other: NoisyMarginal):
    new = NoisyMarginal(("a",), np.array([10.0, 20.0]), 2.0)
    found = with_known(new, door(other))
    assert found.values.tolist() == [10.0, 20.0]
    assert found.stddev == 2.0


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=5), st.floats(0.1, 50), st.floats(0.1, 50))
def test_an_average_lies_between_and_has_less_noise(values: list[float], one: float, two: float):
    first, second = np.array(values), np.array(values[::-1])
    found = with_known(NoisyMarginal(("a",), first, one), door(NoisyMarginal(("a",), second, two)))
    assert np.all(found.values >= np.minimum(first, second) - 1e-9)
    assert np.all(found.values <= np.maximum(first, second) + 1e-9)
    assert found.stddev <= min(one, two) * (1 + 1e-12)
