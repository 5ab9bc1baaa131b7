"""Attacks that no other test notices: each test here fails when the plant that its docstring names is put in."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from lookalike import synthesize
from lookalike.cli import main as cli
from lookalike.errors import (
    BudgetError,
    BudgetExceededError,
    InputError,
    OutOfDomainError,
    RunStoppedError,
    SchemaError,
)
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel import door
from lookalike.privacy.kernel.accounting import Accountant, Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table, reading
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger
from lookalike.privacy.row_level import seed_price, seeded_rows
from lookalike.privacy.row_level.rows import OccurringCells, RandomParts
from lookalike.privacy.row_level.seed_price import SeedTest
from lookalike.privacy.row_level.seeded_rows import seeds_lower_bound
from lookalike.schema.schema import Schema

TABLE, SIZES = pa.table({"a": [0, 1, 1], "b": [2, 2, 0]}), {"a": 2, "b": 3}


def door_to(budget: Budget, ledger: Ledger | None = None, **more: object) -> GuardedTable:
    ledger = ledger or Ledger(None, "t")
    run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    return open_table(TABLE, Schema.from_sizes(SIZES), budget, run, neighbours=Neighbours(), **more)  # type: ignore[arg-type]


# delta that is spent once.


def test_a_histogram_leaves_the_delta_of_thresholds_alone() -> None:
    """Plant: `OccurringCells` takes all of delta, of which discovery has spent a part on thresholds."""
    budget = Budget(1.0, 1e-5, "gdp", threshold_delta=9e-6)
    release = OccurringCells(("a",), 0.3).priced(Schema.from_sizes(SIZES).domain, budget, Fraction(0), Neighbours())
    mu = 1 / release.stddev
    gaussian = norm.sf(1 / mu - mu / 2) - math.e * norm.sf(1 / mu + mu / 2)
    lone = (1 + math.e) * norm.sf((math.ceil(release.threshold) - 1.5) / release.stddev)
    assert 0.5e-6 < gaussian + lone <= 1e-6


def test_parts_are_refused_after_anything_was_spent() -> None:
    """Plant: `Accountant.split` without its check; each part's budget is computed from the whole budget."""
    guarded = door_to(Budget(1.0, 1e-5, "gdp"))
    guarded.measure([("a",)], guarded.stddev_for(guarded.remaining / 2), step="m")
    with pytest.raises(BudgetError, match="only be split before anything is spent"):
        guarded.parts(RandomParts((0.5, 0.5)), step="p")


@pytest.mark.parametrize("cells", [1, 4, 25])
def test_the_lower_bound_on_seeds_allows_for_rounding_and_for_the_neighbour(cells: int) -> None:
    """Plant: `seeds_lower_bound` without half a row per rounded cell and the row that the smaller neighbour lacks."""
    counted = NoisyMarginal(("a",), np.full(cells, 200.0 / cells), stddev=1e-6)
    assert seeds_lower_bound(counted, 0.4) <= 200 - cells / 2 - 1


def test_the_bound_on_seeds_and_the_price_of_rows_share_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: `affordable_test` gives all of delta to the bound on the number of seeds, and all to the price of rows."""
    spent: list[float] = []
    bound, account = seeded_rows.seeds_lower_bound, seeded_rows.SeedBudget

    def bounded(counted: NoisyMarginal, delta: float) -> int:
        spent.append(delta)
        return bound(counted, delta)

    def accounted(n: int, rho: float, epsilon: float, delta: float, tune: bool) -> seeded_rows.SeedBudget:
        spent.append(delta)
        return account(n, rho, epsilon, delta, tune)

    monkeypatch.setattr(seeded_rows, "seeds_lower_bound", bounded)
    monkeypatch.setattr(seeded_rows, "SeedBudget", accounted)
    counted = NoisyMarginal((), np.array(50_000.0), 40.0)
    budget = Budget(2.0, 1e-5, "gdp", threshold_delta=4e-6)
    seeded_rows.affordable_test(SeedTest(400, 1.0, seeded_share=0.8), 20, counted, budget, 0.001, tune=True)
    assert len(spent) == 2
    assert 0.9 * 6e-6 < sum(spent) <= 6e-6 * (1 + 1e-12)


def test_lone_seeds_and_the_conversion_of_many_rows_share_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: `epsilon_of` converts at all of delta, of which lone seeds have had a part."""
    test, rows, n, rho, delta = SeedTest(60, 0.4, seeded_share=0.8), 30, 4000, 0.002, 1e-4
    lone: list[float] = []
    right = seed_price._largest_t

    def largest_t(test: SeedTest, rows: int, n: int, delta: float) -> int:
        lone.append(delta)
        return right(test, rows, n, delta)

    monkeypatch.setattr(seed_price, "_largest_t", largest_t)
    epsilon = seed_price.epsilon_of(test, rows, n, rho, delta)
    t, a = right(test, rows, n, lone[0]), seed_price.ORDERS
    loss = a * rho + rows * seed_price.renyi(test, t, n)
    assert rows * seed_price.delta_own(test, t, n) <= lone[0]
    bounds = loss + np.log1p(-1 / a) - np.log((delta - lone[0]) * a) / (a - 1)
    assert epsilon == pytest.approx(bounds.min(), rel=1e-12)


@pytest.mark.parametrize("part", ["_own_class", "_alone", "others"])
def test_all_parts_of_the_price_of_a_seeded_row_are_added(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: `renyi` without what classes of other rows add; it is smaller than the rest, so no pair may show it."""
    test, n, a = SeedTest(20, 0.5, seeded_share=0.9), 200, seed_price.ORDERS
    for name in ("_own_class", "_alone"):
        if name != part:
            monkeypatch.setattr(seed_price, name, lambda *given: np.zeros_like(given[-1]))
    others = 0.9 * np.maximum((1 + 1 / n) ** a - 1 - a / n, (1 - 1 / n) ** a - 1 + a / n)
    own = {"_own_class": 0.9 / n * seed_price._own_class(test, 5, a), "_alone": seed_price._alone(test, n, a)}
    assert (seed_price.renyi(test, 5, n) * (a - 1) >= np.log1p(others + own.get(part, 0.0)) * (1 - 1e-9)).all()


# What an error carries.


class PanicException(BaseException):
    """As polars raises where it fails: no `Exception`."""


def test_a_panic_of_a_library_is_the_constant_error_too() -> None:
    """Its words may hold a value; it used to pass as it is, and nothing was charged."""
    budget, ledger = Budget(1.0, 1e-5, "gdp"), Ledger(None, "t")
    run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())

    def read() -> None:
        raise PanicException("a private value")

    with pytest.raises(RunStoppedError) as caught:
        reading(Accountant(budget, run), read)
    assert "private value" not in str(caught.value)
    assert caught.value.__context__ is None
    assert ledger.spent()[0] == 1.0


def test_lack_of_memory_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It used to end in a traceback."""
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    monkeypatch.setattr(door, "read", lambda where, **reader: (_ for _ in ()).throw(MemoryError()))
    ledger = str(tmp_path / "ledger")
    arguments = ["synth", str(tmp_path / "t.csv"), "-o", str(tmp_path / "o.csv"), "--ledger", ledger]
    monkeypatch.setattr("sys.argv", ["lookalike", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.endswith("not enough memory. What was charged stays charged; see 'lookalike ledger TABLE'.\n")


@pytest.mark.parametrize(
    ("error", "refused"), [(OutOfDomainError("a", "rule", "remedy"), ()), (InputError("no table"), (InputError,))]
)
@pytest.mark.parametrize("chained", [False, True])
def test_errors_that_are_shown_carry_no_other_error(
    error: Exception, refused: tuple[type[Exception], ...], chained: bool
) -> None:
    """Plant: `reading` leaves cause and context, whose frames and words hold private values."""
    budget = Budget(1.0, 1e-5, "gdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours())

    def read() -> None:
        try:
            raise ValueError("a private value")
        except ValueError as private:
            if chained:
                raise error from private
            raise error  # noqa: B904 - the context is what is tested

    with pytest.raises(type(error)) as caught:
        reading(Accountant(budget, run), read, *refused)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "read" not in [entry.name for entry in caught.traceback]


# Noise that can be repeated.


def test_the_door_refuses_reproducible_noise_in_a_run_that_began_with_secret_noise() -> None:
    """Else a release that is NOT PRIVATE passes under a cap and leaves no mark in the ledger."""
    ledger, budget = Ledger(None, "t"), Budget(1.0, 1e-5, "gdp")
    ledger.set_cap(2.0)
    with pytest.raises(BudgetError, match="insecure_rng"):
        door_to(budget, ledger, insecure_rng=np.random.default_rng(0))
    assert ledger.spent() == (0.0, 0.0)
    uncapped = Ledger(None, "t")
    run = uncapped.begin(method="m", schema="s", budget=budget, neighbours=Neighbours(), noise=REPRODUCIBLE)
    schema, rng = Schema.from_sizes(SIZES), np.random.default_rng(0)
    guarded = open_table(TABLE, schema, budget, run, neighbours=Neighbours(), insecure_rng=rng)
    guarded.measure([("a",)], 10.0, step="m")
    assert uncapped.spent()[0] == math.inf


# What is wrong for public reasons costs nothing.


@pytest.mark.parametrize("kind", [pa.decimal128(38, 38), pa.decimal256(76, 16), pa.decimal128(5, -3)], ids=str)
def test_types_with_too_many_decimals_are_refused_before_anything_is_charged(kind: pa.DataType) -> None:
    """Once they were refused when the bounds had been found, after the whole budget was spent."""
    ledger = Ledger(None, "t")
    with pytest.raises(SchemaError, match="decimals"):
        synthesize(pa.table({"c": pa.nulls(50, kind)}), epsilon=1.0, method="independent", ledger=ledger)
    assert ledger.spent() == (0.0, 0.0)


def test_a_refused_charge_leaves_the_budget_as_it_was() -> None:
    guarded = door_to(Budget(1.0, 1e-5, "gdp"))
    before = guarded.remaining
    with pytest.raises(BudgetExceededError):
        guarded.measure([("a",)], 1e-2, step="m")
    assert guarded.remaining == before
