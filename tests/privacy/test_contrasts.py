"""Contrasts move by what the price says, for all neighbours of tiny tables, and carry noise of the promised scale."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from lookalike.errors import SchemaError
from lookalike.measurements import CellTable, Contrasts
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.kernel.door import contrasts_rho, noisy_contrasts
from tests.privacy.test_door import CODES, DOMAIN, door

RELATIONS = [("add-remove", 1), ("add-remove", 2), ("replace", 1), ("replace", 2)]


@pytest.mark.parametrize(("relation", "rows"), RELATIONS)
@pytest.mark.parametrize("shape", [(2,), (3,), (2, 2), (2, 3), (3, 2, 2), (2, 1, 3)])
def test_contrasts_move_by_exactly_the_stated_norm(relation: str, rows: int, shape: tuple[int, ...]) -> None:
    neighbours, contrasts = Neighbours(relation, rows), Contrasts(shape)  # type: ignore[arg-type]
    base = np.random.default_rng(0).integers(0, 3, contrasts.cells)
    worst = 0
    for mine in product(range(contrasts.cells), repeat=rows):
        for theirs in product(range(contrasts.cells), repeat=rows) if relation == "replace" else [()]:
            one, other = base.copy(), base.copy()
            np.add.at(one, list(mine), 1)
            np.add.at(other, list(theirs), 1)
            change = contrasts.scaled(one) - contrasts.scaled(other)
            worst = max(worst, int((change**2).sum()))
    assert Fraction(worst, contrasts.cells**2) == neighbours.squared_contrasts(contrasts)


def test_each_release_is_charged_first_and_costs_what_the_formula_says() -> None:
    table, _, events = door()
    tables = [CellTable(("a", "b"), (2, 3)), CellTable(("a",), (2,))]
    before = table.remaining
    table.measure_contrasts(tables, [10.0, 20.0], step="m")
    assert events == ["charge", "read"]
    cost = Fraction(2, 6) / 200 + Fraction(1, 2) / 800
    assert before - table.remaining == pytest.approx(float(cost), rel=1e-9)
    assert float(contrasts_rho(tables, [10.0, 20.0], Neighbours())) == pytest.approx(float(cost), rel=1e-12)
    assert contrasts_rho(tables, [10.0, 20.0], Neighbours()) >= cost * (1 - Fraction(1, 10**15))


@pytest.mark.parametrize(
    "wrong",
    [
        CellTable(("b", "a"), (3, 2)),
        CellTable(("a", "b"), (3, 2)),
        CellTable(("a", "b"), (2, 2), np.zeros((2, 2), dtype=int)),
        CellTable(("a", "b"), (2,), np.full((2, 3), 2)),
        CellTable(("a", "b"), (2,), np.full((2, 3), -1)),
        CellTable(("a", "b"), (2, 1), np.zeros((2, 3), dtype=int)),
    ],
    ids=["order", "shape", "groups of another shape", "groups beyond", "groups below", "no contrasts"],
)
def test_tables_that_do_not_fit_are_refused_before_anything_is_charged(wrong: CellTable) -> None:
    table, _, events = door()
    with pytest.raises(SchemaError):
        table.measure_contrasts([wrong], [10.0], step="m")
    assert events == []


@pytest.mark.parametrize("shape", [(2, 3), (24,)])
def test_stddev_for_contrasts_spends_the_share_and_no_more(shape: tuple[int, ...]) -> None:
    table = CellTable(("a", "b"), shape) if len(shape) > 1 else CellTable(("a", "b", "c"), shape, np.arange(24))
    for neighbours in (Neighbours(), Neighbours("replace")):
        stddev = door(neighbours=neighbours)[0].stddev_for(0.01, table=table)
        cost = float(contrasts_rho([table], [stddev], neighbours))
        assert 0.01 * (1 - 1e-9) <= cost <= 0.01 * (1 + 1e-12)


def test_noise_has_the_promised_scale_within_the_contrasts_and_none_outside() -> None:
    """The sum of squares over stddev^2 has a chi-square law of as many degrees as there are contrasts."""
    counts = np.zeros(DOMAIN.shape(("b", "c")), dtype=np.int64)
    np.add.at(counts, (CODES[:, 1], CODES[:, 2]), 1)
    table = CellTable(("b", "c"), counts.shape)
    true, draws = table.contrasts.of(counts), 4000
    errors = np.array([noisy_contrasts(table, counts, 7.0, -1, None).values - true for _ in range(draws)])
    np.testing.assert_allclose(errors.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(errors.sum(axis=2), 0, atol=1e-9)
    degrees = draws * table.contrasts.dimensions

    def within(stddev: float) -> bool:
        return abs((errors**2).sum() / stddev**2 - degrees) < 6 * np.sqrt(2 * degrees)

    assert within(7.0)
    assert not within(7.0 * 1.05)
    assert not within(7.0 / 1.05)


def test_groups_are_summed_before_contrasts_are_taken() -> None:
    counts = np.arange(12).reshape(3, 4)
    groups = np.array([[0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]])
    table = CellTable(("b", "c"), (2, 2), groups)
    released = noisy_contrasts(table, counts, 1e-3, -1, None)
    sums = np.array([counts[groups == g].sum() for g in range(4)])
    np.testing.assert_allclose(released.values, Contrasts((2, 2)).of(sums), atol=0.05)
    assert released.contrasts == (2, 2)
    assert released.groups is groups
