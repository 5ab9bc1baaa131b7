"""Association measures against pandas-free recomputation, scipy, and (where installed) sdmetrics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import contingency, ks_2samp

from lookalike.evaluate.marginals import TablePair
from lookalike.evaluate.measures import column_shapes, correlation, pair_association, pair_trends
from lookalike.report.pairs import cramers_v
from lookalike.schema.domain import Domain

from .tables import DOMAIN, random_codes

REAL, SYNTH = random_codes(300, 1), random_codes(211, 2)
PAIR = TablePair(REAL, SYNTH, DOMAIN)


def crosstab(codes: np.ndarray, i: int, j: int) -> np.ndarray:
    counts = np.zeros((DOMAIN.sizes[i], DOMAIN.sizes[j]), dtype=int)
    np.add.at(counts, (codes[:, i], codes[:, j]), 1)
    return counts


@pytest.mark.parametrize(("i", "j"), [(0, 1), (1, 3), (2, 3)])
def test_cramers_v_equals_scipy(i, j):
    counts = crosstab(REAL, i, j)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    assert cramers_v(counts) == pytest.approx(contingency.association(counts, method="cramer"))


def test_empty_and_constant_columns_have_no_association():
    assert cramers_v(np.array([[3, 4, 5]])) == 0.0
    assert cramers_v(np.array([[3, 0], [4, 0]])) == 0.0
    constant = np.column_stack([np.zeros(10, dtype=int), np.arange(10)])
    np.testing.assert_array_equal(correlation(constant), np.eye(2))


def test_matrices_hold_each_pairs_numbers():
    found = pair_association(PAIR, ordered=("a", "d"))
    assert found.real[0, 3] == found.real[3, 0] == pytest.approx(np.corrcoef(REAL[:, 0], REAL[:, 3])[0, 1])
    assert found.synth[0, 1] == pytest.approx(cramers_v(crosstab(SYNTH, 0, 1)))
    assert found.distances[1, 2] == pytest.approx(PAIR.distance(("b", "c")))
    assert found.distances[2, 2] == pytest.approx(PAIR.distance(("c",)))
    differences = [abs(found.real[i, j] - found.synth[i, j]) for i in range(4) for j in range(i)]
    assert found.mean_difference == pytest.approx(np.mean(differences))
    assert found.worst_difference == pytest.approx(max(differences))


def test_many_values_give_the_same_as_few(monkeypatch):
    wide = Domain(("x", "y"), (5000, 5000))
    real, synth = REAL[:, :2] * 1000, SYNTH[:, :2] * 1000
    found = pair_association(TablePair(real, synth, wide))
    assert found.real[0, 1] == pytest.approx(cramers_v(crosstab(REAL, 0, 1)))
    assert found.distances[0, 1] == pytest.approx(PAIR.distance(("a", "b")))


def test_column_shapes_are_one_less_the_statistic():
    shapes = column_shapes(PAIR, ordered=("d",))
    assert shapes["d"] == pytest.approx(1 - ks_2samp(REAL[:, 3], SYNTH[:, 3]).statistic)
    assert shapes["a"] == pytest.approx(1 - PAIR.distance(("a",)))


def test_equal_tables_are_perfect():
    same = TablePair(REAL, REAL, DOMAIN)
    found = pair_association(same, ordered=("a", "b"))
    assert found.mean_difference == 0
    assert set(column_shapes(same, ordered=("a",)).values()) == {1.0}
    np.testing.assert_allclose(pair_trends(found, DOMAIN, ("a", "b")), 1.0)


def test_single_column_has_no_pairs():
    one = Domain(("x",), (3,))
    found = pair_association(TablePair(REAL[:, :1], SYNTH[:, :1], one))
    assert found.mean_difference == found.worst_difference == 0.0


def test_equals_sdmetrics_where_definitions_agree():
    pytest.importorskip("sdmetrics")
    import pandas as pd
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity
    from sdmetrics.single_column import KSComplement, TVComplement

    real, synth = (pd.DataFrame(codes, columns=list(DOMAIN.names)) for codes in (REAL, SYNTH))
    ordered = ("a", "d")
    shapes = column_shapes(PAIR, ordered)
    for name in DOMAIN.names:
        measure = KSComplement if name in ordered else TVComplement
        assert shapes[name] == pytest.approx(measure.compute(real[name], synth[name]), abs=1e-9)
    trends = pair_trends(pair_association(PAIR, ordered), DOMAIN, ordered)
    for one, two in [("b", "c"), ("a", "d"), ("a", "c")]:
        measure = CorrelationSimilarity if {one, two} <= set(ordered) else ContingencySimilarity
        expected = measure.compute(real[[one, two]], synth[[one, two]])
        assert trends[DOMAIN.position(one), DOMAIN.position(two)] == pytest.approx(expected, abs=1e-6)
