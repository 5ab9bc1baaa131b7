"""Mosaic's composition: what it charges, what it measures, and that it finds associations of any order."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lookalike import guards
from lookalike.errors import BudgetError
from lookalike.measurements import Contrasts, NoisyMarginal, averaged
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget
from lookalike.release import load
from lookalike.schema.domain import Domain
from lookalike.selection.model_size import FittingSets, tree_first
from lookalike.selection.steps import scored_pairs, wanted_precision
from lookalike.synthesizers.mosaic import LARGER, SETS, Mosaic
from lookalike.synthesizers.split import NUMBER_OF_ROWS, ONEWAYS, PAIR_SCORES, Step
from tests.made_tables import parity_table

SLOW = pytest.mark.slow


def planned(domain: Domain, epsilon: float) -> tuple[Step, ...]:
    return Mosaic().split(domain, float(Budget(epsilon, 1e-5, "gdp").rho)).steps


def test_small_budgets_and_big_columns_skip_the_larger_sets() -> None:
    steps = [step.step for step in planned(Domain(("a", "b", "c"), (3, 3, 3)), 1.0)]
    assert LARGER in steps
    small = planned(Domain(("a", "b", "c"), (3, 3, 3)), 0.05)
    assert [step.step for step in small][-1] == SETS
    big = planned(Domain(("a", "b", "c"), (90, 90, 90)), 1.0)
    assert [step.step for step in big][-1] == SETS


def test_larger_sets_are_skipped_where_discovery_saw_few_rows() -> None:
    def steps(rows: float, stddev: float) -> list[str]:
        known = [NoisyMarginal((name,), np.full(3, rows / 3), stddev) for name in "abc"]
        method = Mosaic().informed(known)
        return [step.step for step in method.split(Domain(("a", "b", "c"), (3, 3, 3)), 0.02).steps]

    assert LARGER in steps(30_000, 30.0)
    assert LARGER not in steps(3000, 30.0)
    assert LARGER in steps(3000, 3.0)


def test_a_triple_of_too_many_cells_is_counted_with_one_column_in_halves() -> None:
    """Whether z is large follows from x and y together and from neither alone; of 5,760 cells few could be seen."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 12, (2, 120_000))
    z = rng.integers(0, 20, 120_000) + 20 * rng.integers(0, 2, (12, 12))[x, y]
    schema = {"x": 12, "y": 12, "z": 40, "w": 5}
    rows = pa.table({"x": x, "y": y, "z": z, "w": rng.integers(0, 5, 120_000)})
    release = synthesize(rows, schema=schema, method="mosaic", seed=0, insecure_rng=np.random.default_rng(1))
    found = {m.attrs: m for m in release.fitted.measurements}[("x", "y", "z")]
    assert found.groups is not None
    assert found.values.size <= 2 * 144
    made = release.rows.to_pandas()
    shares = made.assign(large=made["z"] >= 20).groupby(["x", "y"])["large"].mean()
    assert float(np.minimum(shares, 1 - shares).mean()) < 0.2


def test_pairs_are_scored_as_far_as_memory_goes() -> None:
    domain = Domain(("a", "b", "huge", "one"), (3, 4, 9_000_000, 1))
    assert scored_pairs(domain) == [("a", "b")]


def test_columns_of_small_tables_are_measured_once_more() -> None:
    """The noisy number of rows decides: what is spent on sets of one column, beyond the share of all columns."""
    import pyarrow as pa

    domain, spent = dict.fromkeys("abcde", 12), {}
    for size in (800, 80_000):
        codes = np.random.default_rng(0).integers(0, 12, (size, 5))
        table = pa.table({name: codes[:, i] for i, name in enumerate(domain)})
        noise = np.random.default_rng(1)
        made = synthesize(table, schema=domain, epsilon=1.0, method="mosaic", seed=0, insecure_rng=noise)
        spent[size] = made.spent
    again = {size: [c for c in run.charges if c.step == SETS and c.releases == 5] for size, run in spent.items()}
    assert [len(found) for found in again.values()] == [1, 0]
    shares = {size: sum(float(c.rho) for c in run.charges if c.step == SETS) for size, run in spent.items()}
    assert shares[800] == pytest.approx(shares[80_000])


def test_precision_is_wanted_where_noise_is_a_large_part_of_the_rows() -> None:
    def counted(rows: float, cells: int) -> list[NoisyMarginal]:
        return [NoisyMarginal(("a",), np.full(cells, rows / cells), 50.0)]

    assert wanted_precision(counted(100_000, 20)) == 1.0
    assert 1.0 < wanted_precision(counted(10_000, 20)) < wanted_precision(counted(2_000, 20))
    assert wanted_precision(counted(2_000, 2)) < wanted_precision(counted(2_000, 40))


def test_repeats_are_combined_by_precision() -> None:
    first = NoisyMarginal(("a",), np.array([10.0, 0.0]), 1.0)
    second = NoisyMarginal(("a",), np.array([0.0, 10.0]), 2.0)
    (both,) = averaged([first, second])
    np.testing.assert_allclose(both.values, [8.0, 2.0])
    assert both.stddev == pytest.approx((1 + 1 / 4) ** -0.5)


def test_an_interaction_of_three_columns_is_found() -> None:
    """c is a xor b, seen through d that hangs on both: pairs of a, b and c look independent, the triple does not."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, 20_000), rng.integers(0, 2, 20_000)
    d = 2 * a + np.where(rng.random(20_000) < 0.8, b, 1 - b)
    table = pa.table({"a": a, "b": b, "c": a ^ b, "d": d})
    made = synthesize(table, schema={"a": 2, "b": 2, "c": 2, "d": 4}, epsilon=2.0, method="mosaic", seed=0,
                      insecure_rng=np.random.default_rng(0))  # fmt: skip
    rows = made.rows
    agree = np.mean(rows["c"].to_numpy() == (rows["a"].to_numpy() ^ rows["b"].to_numpy()))
    assert agree > 0.9


def test_cells_that_noise_would_hide_are_counted_in_groups_and_topped_up_in_the_same() -> None:
    """Forty values of which most are rare: fewer numbers than cells leave the door, every time a set is measured."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    a = np.minimum(rng.geometric(0.35, 8000) - 1, 39)
    b = np.where(rng.random(8000) < 0.7, a, np.minimum(rng.geometric(0.35, 8000) - 1, 39))
    table = pa.table({"a": a, "b": b, "c": rng.integers(0, 2, 8000), "d": (a > 1).astype(int)})
    schema = {"a": 40, "b": 40, "c": 2, "d": 2}
    made = synthesize(table, schema=schema, epsilon=1.0, method="mosaic", seed=0)
    pairs = [m for m in made.model.measurements if {"a", "b"} <= set(m.attrs)]
    assert pairs
    assert all(m.groups is not None and m.cells < 400 for m in pairs)
    assert len({m.cells for m in pairs if m.attrs == ("a", "b")}) == 1
    whole = synthesize(table, schema=schema, epsilon=1.0, method="mosaic", seed=0, group_mass=0.0)
    assert all(m.groups is None for m in whole.model.measurements)


def test_works_without_numba_and_spends_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    monkeypatch.setattr(guards, "NUMBA", False)
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 3, 3000)
    columns = {f"c{i}": np.where(rng.random(3000) < 0.8, hidden, rng.integers(0, 3, 3000)) for i in range(6)}
    made = synthesize(pa.table(columns), schema=dict.fromkeys(columns, 3), epsilon=2.0, method="mosaic", seed=0,
                      insecure_rng=np.random.default_rng(0))  # fmt: skip
    spent = made.spent.by_step()
    assert set(spent) == {ONEWAYS, PAIR_SCORES, SETS, LARGER}
    assert float(made.spent.rho) == pytest.approx(float(Budget(2.0, 1e-5, "gdp").rho), rel=1e-9)
    agree = np.mean(made.rows["c0"].to_numpy() == made.rows["c5"].to_numpy())
    assert agree == pytest.approx(np.mean(columns["c0"] == columns["c5"]), abs=0.03)


def test_single_columns_get_more_of_a_small_budget_the_more_values_they_have() -> None:
    def share(size: int, epsilon: float) -> float:
        rho = float(Budget(epsilon, 1e-5, "gdp").rho)
        return Mosaic().split(Domain(tuple("abcd"), (size,) * 4), rho).rho(ONEWAYS) / rho

    assert share(2, 1.0) == share(20, 1.0) == pytest.approx(0.08)
    assert 0.08 < share(2, 0.1) < share(4, 0.1) < share(20, 0.1) <= 0.4


@pytest.mark.parametrize("sizes", [{"a": 1, "b": 1}, {"a": 1, "b": 3}, {"a": 1, "b": 3, "c": 2}])
def test_small_budgets_do_not_measure_columns_of_one_value(sizes: dict[str, int]) -> None:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, size, 2000) for name, size in sizes.items()})
    made = synthesize(table, schema=sizes, epsilon=0.4, method="mosaic", seed=0)
    assert made.rows.num_rows == pytest.approx(2000, abs=400)
    assert set(made.rows["a"].to_pylist()) == {0}
    assert all("a" not in m.attrs for m in made.fitted.measurements)
    assert float(made.spent.rho) == pytest.approx(float(Budget(0.4, 1e-5, "gdp").rho), rel=1e-9)


def test_sets_of_a_small_budget_pay_for_what_single_columns_do_not_say(tmp_path: Path) -> None:
    """All but the number of rows are contrasts, and still are in a stored model."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 6000)
    columns = {f"c{i}": np.where(rng.random(6000) < 0.8, hidden, 1 - hidden) for i in range(5)}
    made = synthesize(pa.table(columns), schema=dict.fromkeys(columns, 2), epsilon=0.3, method="mosaic", seed=0)
    assert set(made.spent.by_step()) == {NUMBER_OF_ROWS, ONEWAYS, PAIR_SCORES, SETS}
    counts = [m for m in made.fitted.measurements if m.contrasts is None]
    assert [m.attrs for m in counts] == [()]
    sets = [m for m in made.fitted.measurements if len(m.attrs) > 1]
    assert sets
    for m in sets:
        assert m.contrasts is not None
        np.testing.assert_allclose(Contrasts(m.contrasts).of(m.values), m.values, atol=1e-6)
    made.fitted.save(tmp_path / "m.lookalike")
    kept = load(tmp_path / "m.lookalike")
    assert [m.contrasts for m in kept.measurements] == [m.contrasts for m in made.fitted.measurements]
    np.testing.assert_array_equal(kept.model.marginal(("c0", "c3")), made.fitted.model.marginal(("c0", "c3")))


@pytest.mark.parametrize(("rows", "fine"), [(4000, False), (60_000, True)])
def test_a_small_budget_counts_cells_where_the_noisy_number_of_rows_is_large(rows: int, fine: bool) -> None:
    """The same split; which of the two is measured follows from the noisy number of rows, and both spend all."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 2, rows)
    columns = {f"c{i}": np.where(rng.random(rows) < 0.8, hidden, 1 - hidden) for i in range(6)}
    made = synthesize(pa.table(columns), schema=dict.fromkeys(columns, 2), epsilon=0.3, method="mosaic", seed=0)
    assert set(made.spent.by_step()) == {NUMBER_OF_ROWS, ONEWAYS, PAIR_SCORES, SETS}
    assert float(made.spent.rho) == pytest.approx(float(Budget(0.3, 1e-5, "gdp").rho), rel=1e-9)
    joint = [m for m in made.fitted.measurements if len(m.attrs) > 1]
    assert joint
    assert all((m.contrasts is None) == fine for m in joint)
    agree = np.mean(made.rows["c0"].to_numpy() == made.rows["c5"].to_numpy())
    assert agree == pytest.approx(0.68, abs=0.01 if fine else 0.06)


def test_columns_that_are_measured_twice_are_as_precise_as_once_for_all() -> None:
    import pyarrow as pa

    domain, rho = Domain(tuple("abcd"), (2,) * 4), float(Budget(0.3, 1e-5, "gdp").rho)
    assert Mosaic().split(domain, rho).rho(ONEWAYS) == pytest.approx(0.08 * rho)
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, 2, 4000) for name in "abcd"})
    made = synthesize(table, schema=dict.fromkeys("abcd", 2), epsilon=0.3, method="mosaic", seed=0)
    single = [m for m in made.fitted.model.measurements if len(m.attrs) == 1]
    share = Mosaic()._oneway_share(domain, rho) * rho
    assert [m.stddev for m in single] == pytest.approx([math.sqrt(0.5 / (2 * share / 4))] * 4, rel=1e-3)


def test_rows_can_be_updated_to_contrasts() -> None:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 8000)
    table = pa.table({"a": a, "b": np.where(rng.random(8000) < 0.9, a, 1 - a), "c": (rng.random(8000) < 0.2) * 1})
    made = synthesize(table, schema={"a": 2, "b": 2, "c": 2}, epsilon=0.4, method="mosaic", generator="gum", seed=0)
    rows = {name: made.rows[name].to_numpy() for name in "abc"}
    assert np.mean(rows["a"] == rows["b"]) == pytest.approx(0.9, abs=0.06)
    assert rows["c"].mean() == pytest.approx(0.2, abs=0.05)


def test_senseless_shares_are_refused() -> None:
    with pytest.raises(BudgetError):
        Mosaic(oneway_share=0.9, score_share=0.2)
    with pytest.raises(BudgetError):
        Mosaic(larger_share=0.0)


def test_the_network_takes_columns_that_determine_each_other_before_dearer_sets() -> None:
    domain = Domain(("detail", "group", "other", "more"), (40, 8, 30, 30))
    errors = np.array([[0, 90, 8, 8], [90, 0, 5, 5], [8, 5, 0, 6], [8, 5, 6, 0]], dtype=float)
    sets = [("detail", "other", "more"), ("group", "other"), ("group", "more"), ("detail", "group"), ("detail", "more")]
    ordered = FittingSets(domain, 0.05)
    ordered.offer(tree_first(sets, errors, domain))
    assert ("detail", "group") in ordered.cliques
    assert tree_first(sets, errors, domain)[0] == ("detail", "group")
    assert sorted(tree_first(sets, errors, domain)) == sorted(sets)


def test_large_budgets_are_not_drowned_by_the_noise_of_the_fit_on_small_tables() -> None:
    """Pairs of a chain of four columns of 20 values: with the noise that was fitted before, 0.17 is left."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 20, 400)]
    for _ in range(3):
        columns.append(np.where(rng.random(400) < 0.8, columns[-1], rng.integers(0, 20, 400)))
    table, sizes = pa.table(dict(zip("abcd", columns, strict=True))), dict.fromkeys("abcd", 20)
    made = synthesize(table, schema=sizes, epsilon=100.0, method="mosaic", seed=0)
    distances = []
    for first, second in ("ab", "bc", "cd"):
        cells = [t[first].to_numpy() * 20 + t[second].to_numpy() for t in (table, made.rows)]
        shares = [np.bincount(codes, minlength=400) / len(codes) for codes in cells]
        distances.append(np.abs(shares[0] - shares[1]).sum() / 2)
    assert np.mean(distances) < 0.09


def related(rows: int, values: int = 3) -> np.ndarray:
    """Rows of six columns, each the one before it or, as often, another."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, values, (rows, 6))
    for i in range(1, 6):
        codes[:, i] = np.where(rng.random(rows) < 0.5, codes[:, i - 1], codes[:, i])
    return codes


def noise_of(codes: np.ndarray, **settings: object) -> dict[tuple[str, ...], float]:
    """The noise of every set of two and more columns that a run measures."""
    import pyarrow as pa

    table = pa.table({name: codes[:, i] for i, name in enumerate("abcdef")})
    sizes = {name: int(codes[:, i].max()) + 1 for i, name in enumerate("abcdef")}
    rng = np.random.default_rng(1)
    cheap = {"rows": 10, "passes": 0, "renewals": 0}
    made = synthesize(table, schema=sizes, epsilon=1.0, method="mosaic", insecure_rng=rng, **cheap, **settings)
    noise: dict[tuple[str, ...], float] = {}
    for m in made.fitted.measurements:
        if len(m.attrs) > 1:
            noise[m.attrs] = (noise.get(m.attrs, np.inf) ** -2.0 + m.stddev**-2.0) ** -0.5
    return noise


def test_sets_that_hold_the_target_get_more_of_the_budget() -> None:
    codes = related(3000)
    plain, aimed = noise_of(codes), noise_of(codes, target="f")
    share = [sum(s**-2.0 for attrs, s in found.items() if "f" in attrs) for found in (plain, aimed)]
    whole = [sum(s**-2.0 for s in found.values()) for found in (plain, aimed)]
    assert share[1] / whole[1] > 1.2 * share[0] / whole[0]
    assert whole[1] == pytest.approx(whole[0], rel=0.05)


def test_a_column_that_another_determines_is_measured_with_that_one_alone() -> None:
    codes = related(20_000, 8)
    codes[:, 5] = (3 * codes[:, 1] + 1) % 8
    noise = noise_of(codes)
    assert ("b", "f") in noise
    counted = [{attrs for attrs in noise if one in attrs and other not in attrs} for one, other in ("bf", "fb")]
    assert min(map(len, counted)) <= 1 < max(map(len, counted)), "one of the two stands for both"


@pytest.mark.parametrize("epsilon", [0.05, 0.6, 1.0, 5.0, 1000.0])
def test_a_dozen_rows_stay_within_the_plan(epsilon: float) -> None:
    """Their columns take most of what the first sets may spend; correlations of halves take a part of the rest."""
    import pyarrow as pa

    rows = np.arange(12)
    table = pa.table({"a": rows % 2, "b": rows % 3, "c": rows // 4})
    noise = np.random.default_rng(0)
    made = synthesize(table, schema={"a": 2, "b": 3, "c": 4}, epsilon=epsilon, method="mosaic", insecure_rng=noise)
    assert made.spent.epsilon_spent <= epsilon


def test_a_triple_of_too_many_cells_is_measured_in_boxes() -> None:
    """Every pair of three columns is independent, and the third follows from the other two."""
    import pyarrow as pa

    rng, size = np.random.default_rng(0), 20
    a, b = rng.integers(0, size, (2, 60_000))
    codes = {"a": a, "b": b, "c": (a // 10 + b // 10) % 2 * 10 + rng.integers(0, 10, 60_000), "d": a * 0}
    sizes = {"a": size, "b": size, "c": size, "d": 2}
    noise = np.random.default_rng(1)
    made = synthesize(pa.table(codes), schema=sizes, epsilon=1.0, method="mosaic", seed=0, insecure_rng=noise)
    found = [m for m in made.fitted.measurements if m.attrs == ("a", "b", "c")]
    assert found
    assert all(m.groups is not None and m.values.size < size**3 / 10 for m in found)
    rows = {name: made.rows[name].to_numpy() >= 10 for name in "abc"}
    assert np.mean(rows["a"] ^ rows["b"] == rows["c"]) > 0.9


@pytest.mark.parametrize(
    ("columns", "order", "values", "lucky"),
    [
        (10, 2, 2, True),
        (10, 3, 2, True),
        (10, 4, 2, True),
        (10, 4, 4, True),
        pytest.param(10, 4, 4, False, marks=SLOW),
        pytest.param(16, 3, 2, False, marks=SLOW),
    ],
)
def test_a_column_that_follows_from_others_and_from_none_of_them_alone_is_right(
    columns: int, order: int, values: int, lucky: bool
) -> None:
    """Their parity shows them. Without it random larger sets hold them together by luck, among few binary columns."""
    import pyarrow as pa

    codes, sizes = parity_table(20_000, columns, order=order, values=values)
    table, halves = pa.table({name: codes[:, i] for i, name in enumerate(sizes)}), list[np.ndarray]()
    for share in (0.02,) if lucky else (0.02, 1e-9):
        rng = np.random.default_rng(0)
        made = synthesize(table, schema=sizes, method="mosaic", seed=0, insecure_rng=rng, parity_share=share)
        rows = np.column_stack([made.rows[name].to_numpy() for name in sizes])
        upper = [own[:, [*range(order), columns - 1]] * 2 >= values for own in (codes, rows)]
        tables = [np.bincount(own @ 2 ** np.arange(order + 1), minlength=2 ** (order + 1)) / len(own) for own in upper]
        halves.append(np.abs(tables[0] - tables[1]))
        assert float(made.spent.rho) == pytest.approx(float(Budget(1.0, 1e-5, "gdp").rho), rel=1e-9)
    assert halves[0].sum() / 2 < 0.03
    assert lucky or halves[1].sum() / 2 > 0.4


def test_parities_are_charged_to_the_larger_sets_and_not_recorded() -> None:
    import pyarrow as pa

    codes, sizes = parity_table(12_000, 8, order=2)
    table = pa.table({name: codes[:, i] for i, name in enumerate(sizes)})
    noise = np.random.default_rng(0)
    made = synthesize(table, schema=sizes, method="mosaic", seed=0, insecure_rng=noise)
    parities = [c for c in made.spent.charges if c.step == LARGER and c.detail.startswith("contrasts")]
    assert [c.releases for c in parities] == [56 + 70 + 56 + 28]
    assert sum(float(c.rho) for c in parities) == pytest.approx(0.02 * float(made.spent.rho), rel=1e-6)
    assert all(m.contrasts is None for m in made.fitted.measurements if len(m.attrs) > 2)
    small = synthesize(table.slice(0, 1500), schema=sizes, method="mosaic", seed=0, insecure_rng=noise)
    assert not [c for c in small.spent.charges if c.step == LARGER and c.detail.startswith("contrasts")]
