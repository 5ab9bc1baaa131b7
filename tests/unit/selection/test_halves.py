"""Correlations of ordered columns from halves: the copula's arithmetic, shrinking, what is spent, what it is for."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from lookalike.measurements import Contrasts, NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import Ledger
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.selection import halves
from lookalike.selection.halves import (
    Related,
    divided_column,
    joint_excess,
    least_uncertain,
    measure_halves,
    ordered_column,
    ordered_columns,
    shrunk,
)


def normal_table(correlation: float, rows: int, seed: int = 0) -> pa.Table:
    """Three columns of 0 to 99, a tenth of it missing: the first two depend on each other, the third on nothing."""
    rng = np.random.default_rng(seed)
    normal = rng.multivariate_normal(np.zeros(3), np.eye(3) + correlation * np.eye(3)[[1, 0, 2]] * [1, 1, 0], rows)
    numbers = np.clip(normal * 16 + 50, 0, 99).astype(int)
    columns = {name: pa.array(numbers[:, i], mask=rng.random(rows) < 0.1) for i, name in enumerate("abc")}
    return pa.table(columns)


def schema() -> Schema:
    return Schema(tuple(Integer(name, minimum=0, maximum=99, bins=12, missing=("",)) for name in "abc"))


def related_of(table: pa.Table, rho: float, neighbours: Neighbours | None = None) -> tuple[Related, float]:
    """What is found with a budget, and what it cost."""
    run = Ledger(None, "test").begin(
        method="test",
        schema="",
        budget=Budget(100.0, 1e-5, "gdp"),
        neighbours=neighbours or Neighbours(),
        noise="reproducible",
    )
    rng = np.random.default_rng(1)
    door = open_table(
        table, schema(), Budget(100.0, 1e-5, "gdp"), run, neighbours=neighbours or Neighbours(), insecure_rng=rng
    )
    oneways = door.measure([(name,) for name in "abc"], 1.0, step="columns")
    before = door.remaining
    found = measure_halves(door, fit(door.domain, oneways), rho, step="halves")
    assert found is not None
    return found, before - door.remaining


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-0.95, 0.95))
def test_joint_excess_is_that_of_two_normal_variables(one: float, two: float, correlation: float):
    covariance = np.array([[1, correlation], [correlation, 1]])
    both = multivariate_normal.cdf([-one, -two], np.zeros(2), covariance)  # type: ignore[arg-type]
    expected = both - norm.cdf(-one) * norm.cdf(-two)
    assert joint_excess(np.array([one]), np.array([two]), correlation)[0] == pytest.approx(expected, abs=2e-4)


def test_a_column_is_cut_where_its_counts_are_halved():
    column = Integer("x", minimum=0, maximum=79, bins=8, missing=("",))
    found = ordered_column(column, np.array([1.0, 2, 3, 10, 10, 3, 2, 1, 8]))
    assert found is not None
    assert found.halves.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0]
    assert found.present == pytest.approx(0.8)
    assert found.groups[-1] == found.groups[3]  # missing values say nothing, so they are in the middle
    assert np.all(np.diff(found.groups[:-1]) >= 0)
    assert ordered_column(column, np.array([0.0, 9, 0, 0, 0, 0, 0, 0, 5])) is None


def test_correlations_are_found_with_missing_values():
    found, _ = related_of(normal_table(0.7, 20_000), 1.0)
    known = dict(zip(found.pairs, found.correlations, strict=True))
    assert known["a", "b"] == pytest.approx(0.7, abs=0.05)
    assert abs(known["a", "c"]) < 0.05
    assert abs(known["b", "c"]) < 0.05


@pytest.mark.parametrize("neighbours", [Neighbours(), Neighbours("replace")])
def test_no_more_is_spent_than_is_given_or_needed(neighbours: Neighbours):
    _, small = related_of(normal_table(0.5, 1000), 1e-3, neighbours)
    assert small == pytest.approx(halves.MAX_SHARE * 1e-3)
    _, large = related_of(normal_table(0.5, 50_000), 1.0, neighbours)
    assert large < 1e-3


def test_tables_keep_the_columns_and_differ_by_contrasts_alone():
    found, _ = related_of(normal_table(0.7, 5000), 1.0)
    for pair, correlation in zip(found.pairs, found.correlations, strict=True):
        excess = found.excess(pair, correlation)
        assert excess.sum(axis=0) == pytest.approx(0, abs=1e-6)
        assert excess.sum(axis=1) == pytest.approx(0, abs=1e-6)
    for table in found.tables():
        assert table.contrasts is not None
        assert table.values.sum() == pytest.approx(found.independent.total, rel=0.02)
        strong = np.abs(Contrasts(table.contrasts).of(table.values)).sum() > 1000
        assert strong == (table.attrs == ("a", "b"))


def test_a_column_that_hardly_varies_does_not_make_its_tables_certain():
    """All correlations then have the same table: it is as uncertain as a row is, and the fit to it converges."""
    counts = np.append(np.full(12, 1e-6), 0.0)
    counts[5] = 52.0
    independent = fit(schema().domain, [NoisyMarginal((name,), counts, 0.1) for name in "abc"], total=52.0)
    column = ordered_column(Integer("a", minimum=0, maximum=99, bins=12, missing=("",)), counts)
    assert column is not None
    columns, pairs = dict.fromkeys("abc", column), [("a", "b"), ("a", "c"), ("b", "c")]
    found = Related(independent, columns, pairs, np.full(3, 0.9), np.full(3, 0.1), np.ones(3)).tables()
    assert len(found) == 3
    assert min(table.stddev for table in found) == halves.MIN_STDDEV


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(0.001, 1))
def test_noisy_correlations_are_only_ever_shrunk(values: list[float], noise: float):
    found = np.array(values)
    means, stddevs = shrunk(found, np.full(len(values), noise))
    assert np.all(np.abs(means) <= np.abs(found))
    assert np.all(means * found >= 0)
    assert np.all(np.isfinite(stddevs) & (stddevs > 0))


def test_columns_of_one_value_have_no_halves():
    words = Schema((Categorical("a", ("x",), outside="absorb"), Integer("b", minimum=0, maximum=9, bins=5)))
    oneways = [NoisyMarginal(("a",), np.array([5.0]), 1.0), NoisyMarginal(("b",), np.ones(5), 1.0)]
    independent = fit(words.domain, oneways)
    assert [column.name for column in halves.ordered_columns(words, independent)] == ["b"]


def test_categories_are_the_most_frequent_one_and_the_others():
    found = divided_column("x", np.array([2.0, 6.0, 0.0, 4.0]))
    assert found is not None
    assert found.halves.tolist() == found.groups.tolist() == [1, 0, 1, 1]
    assert found.ends == pytest.approx([0.0])
    np.testing.assert_allclose(found.within, [[0, 1 / 3], [1, 0], [0, 0], [0, 2 / 3]])


def test_a_category_that_goes_with_a_number_is_found():
    """Only one value of three does; of the others nothing is claimed."""
    rng = np.random.default_rng(4)
    number, word = rng.integers(0, 100, 8000), np.array(["x", "y", "z"])[rng.integers(0, 3, 8000)]
    word = np.where((word == "x") | (number > 60) & (rng.random(8000) < 0.5), "x", word)
    facts = Schema((Integer("n", minimum=0, maximum=99, bins=12), Categorical("w", ("x", "y", "z"), outside="absorb")))
    table, budget = pa.table({"n": number, "w": word}), Budget(100.0, 1e-5, "gdp")
    run = Ledger(None, "test").begin(
        method="test", schema="", budget=budget, neighbours=Neighbours(), noise="reproducible"
    )
    door = open_table(table, facts, budget, run, neighbours=Neighbours(), insecure_rng=np.random.default_rng(0))
    found = measure_halves(door, fit(door.domain, door.measure([("n",), ("w",)], 1.0, step="c")), 1.0, step="h")
    assert found is not None
    assert -0.6 < found.correlations[0] < -0.3
    (table,) = found.tables()
    assert table.contrasts == (6, 2)


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(1e-12, 1e9)), min_size=1, max_size=20), st.floats(1e-6, 10))
def test_shares_after_which_least_is_uncertain(pairs: list[tuple[float, float]], rho: float):
    known, gain = np.array(pairs).T
    shares = least_uncertain(known, gain, rho)
    assert shares.sum() == pytest.approx(rho)
    assert np.all(shares >= 0)
    equal = np.full(len(pairs), rho / len(pairs))
    assert (1 / (known + gain * shares)).sum() <= (1 / (known + gain * equal)).sum() * (1 + 1e-9)


def test_uncertain_correlations_are_measured_again():
    """Of ten columns two go together; the rounds after the first spend most on pairs that look as if they did."""
    rng = np.random.default_rng(2)
    numbers = rng.integers(0, 100, (2000, 10))
    numbers[:, 1] = numbers[:, 0]
    names = [f"x{i}" for i in range(10)]
    facts = Schema(tuple(Integer(name, minimum=0, maximum=99, bins=12) for name in names))
    budget, table = Budget(100.0, 1e-5, "gdp"), pa.table({name: numbers[:, i] for i, name in enumerate(names)})
    run = Ledger(None, "test").begin(
        method="test", schema="", budget=budget, neighbours=Neighbours(), noise="reproducible"
    )
    door = open_table(table, facts, budget, run, neighbours=Neighbours(), insecure_rng=np.random.default_rng(0))
    independent = fit(door.domain, door.measure([(name,) for name in names], 1.0, step="columns"))
    before = door.remaining
    found = measure_halves(door, independent, 2e-3, step="halves")
    assert found is not None
    assert before - door.remaining <= halves.MAX_SHARE * 2e-3 * (1 + 1e-9)
    charges = [charge for charge in run.summary().charges if charge.step == "halves"]
    assert len(charges) == halves.ROUNDS
    assert found.noise[0] < 0.8 * np.median(found.noise)


def likely_pairs() -> Related:
    counts = np.append(np.full(12, 400.0), 200.0)
    independent = fit(schema().domain, [NoisyMarginal((name,), counts, 1.0) for name in "abc"])
    columns = {column.name: column for column in ordered_columns(schema(), independent)}
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    return Related(independent, columns, pairs, np.array([0.8, 0.0, 0.3]), np.full(3, 0.1), np.full(3, 20.0))


def test_a_likely_table_stays_where_a_measured_set_tells_less():
    found = likely_pairs()
    assert found.unseen_in([]) == [("a", "b"), ("b", "c"), ("a", "c")]
    precise = NoisyMarginal(("a", "b", "c"), np.zeros((13, 13, 13)), 1.0)
    assert found.unseen_in([precise]) == []
    coarse = NoisyMarginal(("a", "b", "c"), np.zeros((13, 13, 13)), 10.0)
    assert len(found.unseen_in([coarse])) == 3
    own = NoisyMarginal(("a", "b"), np.zeros((13, 13)), 100.0)
    assert found.unseen_in([own]) == [("b", "c"), ("a", "c")], "each column set enters a fit once"


def test_noise_hides_scores_but_not_the_likely_tables():
    found, domain = likely_pairs(), schema().domain
    strong, weak = found.strengths()["a", "b"], found.strengths()["b", "c"]
    scores = np.array([[0.0, weak, strong], [weak, 0.0, 100.0], [strong, 100.0, 0.0]])
    hidden = found.pair_errors(scores, 1e6, domain)
    assert hidden[0, 1] > hidden[1, 2] > hidden[0, 2]
    assert hidden[0, 1] - hidden[1, 2] == pytest.approx(strong - weak)
    np.testing.assert_allclose(found.pair_errors(scores, 1e-6, domain), scores, rtol=1e-6)
    scores[0, 1] = scores[1, 0] = 0.0
    assert found.pair_errors(scores, 1e6, domain)[0, 1] == 0.0, "pairs of too many cells are not scored"


def test_correlations_of_a_table_that_shows_no_pair_survive():
    """3,000 rows, eight columns of 20 bins: single cells of pairs hold 7 rows, far below the noise."""
    rng = np.random.default_rng(3)
    common = rng.normal(size=(3000, 1))
    numbers = np.clip((0.75 * common + 0.66 * rng.normal(size=(3000, 8))) * 16 + 50, 0, 99).astype(int)
    names = [f"x{i}" for i in range(8)]
    table = pa.table({name: numbers[:, i] for i, name in enumerate(names)})
    facts = Schema(tuple(Integer(name, minimum=0, maximum=99, bins=20) for name in names))
    made = synthesize(table, schema=facts, epsilon=1.0, method="mosaic", seed=0, insecure_rng=np.random.default_rng(5))
    rows = np.column_stack([made.rows[name].to_numpy() for name in names])
    real, found = np.corrcoef(numbers, rowvar=False), np.corrcoef(rows, rowvar=False)
    off = [abs(real[i, j] - found[i, j]) for i, j in combinations(range(8), 2)]
    assert np.mean(off) < 0.15  # the mean correlation is 0.54; without this step 0.25 and more of it is lost


def test_codes_without_a_declared_order_have_no_halves() -> None:
    schema = Schema.from_sizes({"a": 3, "b": 4})
    counts = [NoisyMarginal(("a",), np.array([5.0, 3.0, 2.0]), 1.0), NoisyMarginal(("b",), np.full(4, 2.5), 1.0)]
    independent = fit(schema.domain, counts)
    assert ordered_columns(schema, independent) == []
    aged = Schema((Integer("a", minimum=0, maximum=89, bins=3), *schema.columns[1:]))
    assert len(ordered_columns(aged, independent)) == 2
    cut = Schema((Integer("a", minimum=0, maximum=3, bins=(0, 1, 2)), *schema.columns[1:]))
    assert len(ordered_columns(cut, independent)) == 2, "edges that discovery found are no declared codes"
