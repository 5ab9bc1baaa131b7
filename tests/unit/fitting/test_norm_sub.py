"""Norm-sub is the exact L2 projection onto tables without negative cells that have a given sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lookalike.fitting.consistency import norm_sub

VALUES = arrays(float, st.integers(1, 30), elements=st.floats(-1e4, 1e4, allow_subnormal=False))


@settings(max_examples=100, deadline=None)
@given(VALUES, st.floats(0.01, 1e5))
def test_result_is_feasible_and_satisfies_the_optimality_conditions(values: np.ndarray, total: float) -> None:
    result = norm_sub(values, total)
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(total, rel=1e-9, abs=1e-6)
    # Projection: positive cells are all shifted alike, and cells at 0 would be negative after that shift.
    positive = result > 0
    shifts = (values - result)[positive]
    tolerance = 1e-7 * (1 + np.abs(values).max() + total)
    assert np.ptp(shifts) <= tolerance
    assert (values[~positive] <= shifts.max() + tolerance).all()


def test_a_valid_table_stays_as_it_is() -> None:
    table = np.array([[1.0, 2.0], [0.0, 4.0]])
    np.testing.assert_allclose(norm_sub(table, 7.0), table)


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_nothing_to_share_gives_zeros(total: float) -> None:
    np.testing.assert_array_equal(norm_sub(np.array([1.0, -1.0]), total), [0.0, 0.0])
