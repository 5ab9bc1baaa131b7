"""The door charges first, releases second, and gives away nothing else."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import BudgetError, BudgetExceededError, ModelTooLargeError, SchemaError
from lookalike.privacy.kernel.accounting import Accountant, Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.sources.frames import TableForm
from lookalike.sources.open import MemorySource, OpenedTable

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
CODES = np.random.default_rng(0).integers(0, (2, 3, 4), (500, 3)).astype(np.int32)


SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})


def opened(source) -> OpenedTable:
    return OpenedTable(source, SCHEMA, TableForm("arrow"))


class Spy:
    """A source that notes when it is read."""

    def __init__(self, source: MemorySource, events: list[str]) -> None:
        self._source, self._events = source, events
        self.domain = source.domain

    def counts(self, cliques):
        self._events.append("read")
        return self._source.counts(cliques)

    def recoded(self, maps):
        return Spy(self._source.recoded(maps), self._events)


def door(epsilon: float = 1.0, accounting: str = "zcdp", neighbours: Neighbours | None = None, **kwargs):
    events: list[str] = []
    ledger = Ledger(None, "t")
    relation = neighbours or Neighbours()
    budget = Budget(epsilon, 1e-5, accounting)  # type: ignore[arg-type]
    run = ledger.begin(method="test", schema="s", budget=budget, neighbours=relation)
    real = run.charge
    run.charge = lambda charge: (events.append("charge"), real(charge))[1]  # type: ignore[method-assign]
    table = GuardedTable(opened(Spy(MemorySource(DOMAIN, CODES), events)), Accountant(budget, run), relation, **kwargs)
    return table, ledger, events


def residual() -> ResidualL1:
    return ResidualL1((("a",), ("a", "b")), (np.zeros(2), np.zeros((2, 3))))


def test_each_act_is_charged_before_the_data_is_read() -> None:
    table, _, events = door()
    table.measure([("a", "b")], 50.0, step="m")
    table.noisy_scores(residual(), 100.0, step="s")
    table.choose(residual(), 0.1, step="c")
    table.coarsened({"c": np.array([0, 0, 1, 1])}).measure([("c",)], 50.0, step="m2")
    assert events == ["charge", "read"] * 4


def test_refused_requests_neither_charge_nor_read() -> None:
    table, ledger, events = door(0.1)
    with pytest.raises(BudgetExceededError, match="Nothing was read"):
        table.measure([("a",)], 1.0, step="m")
    with pytest.raises(BudgetExceededError):
        table.choose(residual(), 50.0, step="c")
    with pytest.raises(SchemaError, match="No column 'z'"):
        table.measure([("z",)], 1e9, step="m")
    assert events == []
    assert ledger.spent() == (0.0, 0.0)


def test_prices_follow_the_formulas_and_the_neighbours() -> None:
    for neighbours, squared, rows in ((Neighbours(), 1, 1), (Neighbours("replace", 3), 18, 6)):
        table, ledger, _ = door(20.0, neighbours=neighbours)
        table.measure([("a",), ("b",)], [50.0, 80.0], step="m")
        table.noisy_scores(residual(), 100.0, step="s")
        table.choose(residual(), 0.1, step="c")
        measured, scored, chosen = (float(charge.rho) for charge in ledger.runs()[0].charges)
        assert measured == pytest.approx(squared / (2 * 50**2) + squared / (2 * 80**2), rel=1e-12)
        assert scored == pytest.approx(2 * rows**2 / (2 * 100**2), rel=1e-12)
        assert chosen == pytest.approx(0.1**2 / 8, rel=1e-12)


def test_stddev_for_spends_the_whole_share_and_no_more() -> None:
    table, ledger, _ = door(1.0, "gdp", Neighbours("replace", 2))
    table.measure([("a",), ("b",), ("c",)], table.stddev_for(table.remaining, 3), step="m")
    spent = ledger.runs()[0].rho
    assert spent <= table.budget.rho
    assert float(spent) == pytest.approx(float(table.budget.rho), rel=1e-9)


def test_gaussian_accounting_refuses_other_mechanisms() -> None:
    table, _, events = door(1.0, "gdp")
    with pytest.raises(BudgetError, match="exponential"):
        table.choose(residual(), 0.01, step="c")
    assert events == []


def test_too_many_cells_are_refused_before_anything_is_charged() -> None:
    wide = Domain(tuple("abcdefgh"), (50,) * 8)
    source = MemorySource(wide, np.zeros((3, 8), dtype=np.int32))
    budget = Budget(1.0, 1e-5, "gdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    table = GuardedTable(opened(source), Accountant(budget, run), Neighbours())
    with pytest.raises(ModelTooLargeError, match="fewer bins"):
        table.measure([tuple("abcdefgh")], 1e9, step="m")
    assert table.remaining == pytest.approx(float(budget.rho))


def test_noise_has_the_promised_scale_around_the_true_counts() -> None:
    table, _, _ = door(20.0)
    draws = np.array([table.measure([("a", "b")], 30.0, step="m")[0].values for _ in range(400)])
    truth = MemorySource(DOMAIN, CODES).counts([("a", "b")])[0]
    assert np.abs(draws.mean(0) - truth).max() < 6 * 30 / 20
    assert draws.std() == pytest.approx(np.hypot(30, truth.std()), rel=0.12)
    assert np.array_equal(draws, np.rint(draws))


def test_groups_are_summed_before_the_noise() -> None:
    table, _, _ = door(20.0)
    grouping = np.array([[0, 0, 1], [1, 1, 1]])
    (measured,) = table.measure([("a", "b")], 20.0, step="m", groups=[grouping])
    truth = np.bincount(grouping.ravel(), MemorySource(DOMAIN, CODES).counts([("a", "b")])[0].ravel())
    assert measured.values.shape == (2,)
    assert np.abs(measured.values - truth).max() < 7 * 20


def test_nothing_private_leaks_through_repr_copy_or_pickle() -> None:
    table, _, _ = door()
    assert "500" not in repr(table)
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private rows"):
            act(table)


def test_insecure_noise_repeats_and_secure_noise_does_not() -> None:
    repeated = [
        door(1.0, insecure_rng=np.random.default_rng(7))[0].measure([("a", "b")], 50.0, step="m")[0].values
        for _ in range(2)
    ]
    assert np.array_equal(*repeated)
    assert not np.array_equal(*[door()[0].measure([("a", "b")], 50.0, step="m")[0].values for _ in range(2)])


def test_the_door_is_small_enough_to_read() -> None:
    from lookalike.privacy.kernel import door as module

    assert len(Path(module.__file__).read_text().splitlines()) < 415


def test_spent_and_remaining_add_up_exactly() -> None:
    table, ledger, _ = door(1.0, "gdp")
    for _ in range(5):
        table.measure([("a",)], 97.3, step="m")
    accountant = table._accountant
    assert accountant.spent + accountant.remaining == table.budget.rho
    assert accountant.spent == ledger.runs()[0].rho
    assert isinstance(accountant.spent, Fraction)
