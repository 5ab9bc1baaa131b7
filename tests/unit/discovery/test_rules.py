"""The search for rules: what it finds where it was planted, what it must not find, and what it may cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookalike.discovery import candidates, tables
from lookalike.discovery.choosing import Likely, chosen_rules
from lookalike.discovery.discover import Discovery
from lookalike.discovery.rules import STEP, FoundRules, find_rules
from lookalike.measurements import NoisyMarginal
from lookalike.pipeline import plan_run, synthesize
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import REPRODUCIBLE, Ledger, RunSummary
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.constraints import AtLeast, ClockSum, Determines, Never, Parts, Sum, rule_text
from lookalike.schema.schema import Schema

ROWS = 20_000
TOWNS = ("Ash", "Bow", "Cam", "Dee", "Esk", "Fal")
LISTED: dict[str, Any] = {"outside": "absorb"}
SCHEMA = Schema(
    (
        Integer("year", minimum=2013, maximum=2014, bins=2, **LISTED),
        Integer("month", minimum=1, maximum=12, bins=12, **LISTED),
        Integer("day", minimum=1, maximum=31, bins=31, **LISTED),
        Integer("hour", minimum=0, maximum=23, bins=24, **LISTED),
        Integer("minute", minimum=0, maximum=59, bins=60, **LISTED),
        Integer("clock", minimum=0, maximum=2359, bins=16, **LISTED),
        Datetime("when", minimum="2013-01-01", maximum="2015-01-02", format="%Y-%m-%dT%H:%M:%SZ", bins=16, **LISTED),
        Categorical("from", TOWNS, **LISTED),
        Categorical("to", TOWNS, **LISTED),
        Integer("miles", minimum=0, maximum=35, bins=36, **LISTED),
        Continuous("net", minimum=10, maximum=110, decimals=2, bins=16, missing=("",), **LISTED),
        Continuous("tax", minimum=0, maximum=50, decimals=2, bins=16, **LISTED),
        Continuous("gross", minimum=10, maximum=160, decimals=2, bins=16, missing=("",), **LISTED),
        Categorical("paid", ("yes", "no"), **LISTED),
        Integer("rebate", minimum=1, maximum=9, bins=9, missing=("",), **LISTED),
        Integer("first", minimum=0, maximum=200, bins=20, **LISTED),
        Integer("second", minimum=0, maximum=200, bins=20, **LISTED),
    )
)


def planted(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Times in UTC with their parts in New York, a clock, distances, sums, an order, rules on missing values."""
    rng = np.random.default_rng(seed)
    local = np.datetime64("2013-01-01", "m") + rng.integers(0, 2 * 365 * 24 * 60, rows)
    utc = pa.array(local.astype("datetime64[us]")).cast(pa.timestamp("us"))
    utc = utc.cast(pa.int64()).to_numpy() // 3_600_000_000 * 3_600_000_000
    zoned = pa.compute.local_timestamp(pa.array(utc).cast(pa.timestamp("us", tz="America/New_York")))
    part = {p: getattr(pa.compute, p)(zoned).to_numpy() for p in ("year", "month", "day", "hour")}
    minute, one, two = rng.integers(0, 60, rows), rng.integers(0, 6, rows), rng.integers(0, 6, rows)
    net, tax = rng.integers(1000, 11_000, rows), rng.integers(0, 5000, rows)
    gone, paid = rng.random(rows) < 0.2, rng.random(rows) < 0.6
    first = rng.integers(0, 180, rows)

    def cents(values: np.ndarray) -> list[str]:
        return ["" if g else f"{v / 100:.2f}" for v, g in zip(values, gone, strict=True)]

    return pa.table(
        {
            **{p: part[p].astype(str) for p in part}, "minute": minute.astype(str),
            "clock": (100 * part["hour"] + minute).astype(str),
            "when": pa.compute.strftime(pa.array(utc // 10**6).cast(pa.timestamp("s")), format="%Y-%m-%dT%H:%M:%SZ"),
            "from": np.array(TOWNS)[one], "to": np.array(TOWNS)[two], "miles": (6 * one + (one + two) % 6).astype(str),
            "net": cents(net), "tax": [f"{v / 100:.2f}" for v in tax], "gross": cents(net + tax),
            "paid": np.where(paid, "yes", "no"),
            "rebate": np.where(paid, "", rng.integers(1, 10, rows).astype(str)),
            "first": first.astype(str), "second": (first + rng.integers(0, 20, rows)).astype(str),
        }
    ).select(list(SCHEMA.names))  # fmt: skip


def searched(
    table: pa.Table, schema: Schema, *, epsilon: float = 1.0, seed: int = 0, share: float = 0.03
) -> tuple[FoundRules, RunSummary, Budget]:
    budget = Budget(epsilon, 1e-5, "gdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours(), noise=REPRODUCIBLE)
    rng = np.random.default_rng(seed)
    door = open_table(table, schema, budget, run, neighbours=Neighbours(), insecure_rng=rng, keep_rows=True)
    return find_rules(door, float(budget.rho) * share), run.summary(), budget


@pytest.fixture(scope="module")
def found() -> FoundRules:
    return searched(planted(), SCHEMA)[0]


def test_planted_rules_are_found(found: FoundRules) -> None:
    rules = {type(f.rule): [g.rule for g in found.rules if type(g.rule) is type(f.rule)] for f in found.rules}
    (parts,) = rules[Parts]
    assert parts.zone == "America/New_York"
    assert {"year", "month", "day", "hour"} <= {part for part, _ in parts.parts}
    assert {rule_text(rule) for rule in rules[Sum]} == {
        "always: clock = 100*hour + minute", "always: gross = net + tax"
    }  # fmt: skip
    assert ("from", "to") in [rule.source for rule in rules[Determines] if rule.target == "miles"] or any(
        rule.columns[-1] in ("from", "to") and "miles" in rule.columns for rule in rules[Determines]
    )
    assert rules[AtLeast] == [AtLeast("second", "first", provenance="measured")]
    assert any("paid" in rule.condition and "rebate" in rule.condition for rule in rules[Never])
    assert all(f.rule.provenance == "measured" and f.broken < 0.02 for f in found.rules)
    assert {"when", "clock", "gross"} <= {c.name for c in found.schema.columns if c.derived}


def test_the_schema_that_was_found_survives_its_file(found: FoundRules, tmp_path: Any) -> None:
    found.schema.save(tmp_path / "s.yaml")
    assert Schema.load(tmp_path / "s.yaml") == found.schema
    assert "provenance: measured" in (tmp_path / "s.yaml").read_text()


def test_every_synthetic_row_keeps_them() -> None:
    made = synthesize(
        planted(), schema=SCHEMA, method="independent", discovery=Discovery(rules=True), seed=1,
        insecure_rng=np.random.default_rng(3),
    )  # fmt: skip
    rows = made.rows.to_pandas()
    hour, minute = rows.hour.astype(int), rows.minute.astype(int)
    assert (rows.clock.astype(int) == 100 * hour + minute).all()
    known = rows.gross.notna()
    assert (known == rows.net.notna()).all()
    cents = {n: (rows[n][known].astype(float) * 100).round() for n in ("gross", "net", "tax")}
    assert (cents["gross"] == cents["net"] + cents["tax"]).all()
    assert (rows["second"].astype(int) >= rows["first"].astype(int)).all()
    assert any(note.startswith("Rules found") and "clock = 100*hour" in note for note in made.notes)
    assert STEP in made.spent.by_step()
    assert "clock = 100*hour + minute" in made.report()


def test_the_search_is_planned_and_can_be_turned_off() -> None:
    def steps(rules: bool | None) -> list[str]:
        given = {"epsilon": 1.0, "delta": 1e-5, "method": "independent", "discovery": Discovery(rules=rules)}
        return [step.step for step in plan_run(SCHEMA, **given)[1]]

    assert STEP in steps(True)
    assert STEP not in steps(None)
    assert STEP not in steps(False)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_no_more_is_spent_than_was_set_aside(epsilon: float) -> None:
    _, summary, budget = searched(planted(4000), SCHEMA, epsilon=epsilon)
    assert {charge.step for charge in summary.charges} == {STEP}
    assert sum(charge.rho for charge in summary.charges) <= 0.03 * budget.rho


def independent(rows: int, columns: int, seed: int) -> tuple[pa.Table, Schema]:
    """Columns of many kinds that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    data: dict[str, Any] = {}
    made: list[Any] = []
    for i in range(columns):
        name, kind = f"c{i}", i % 7
        gone = rng.random(rows) < (0.1 if i % 3 == 0 else 0.0)
        shared: dict[str, Any] = {"missing": ("",) if i % 3 == 0 else (), "outside": "absorb"}
        if kind == 0:
            values = rng.choice(["a", "b", "c", "d"], rows, p=[0.7, 0.2, 0.07, 0.03])
            made.append(Categorical(name, ("a", "b", "c", "d"), **shared))
        elif kind == 1:
            values = (np.datetime64("2013-01-01", "s") + rng.integers(0, 730 * 86_400, rows)).astype(str)
            bounds = {"minimum": "2013-01-01", "maximum": "2014-12-31", "format": "%Y-%m-%dT%H:%M:%S"}
            made.append(Datetime(name, bins=12, **bounds, **shared))
        else:
            low, high = [(1, 12), (1, 31), (0, 59), (0, 23), (0, 2359)][kind - 2]
            values = rng.integers(low, high + 1, rows).astype(str)
            made.append(Integer(name, minimum=low, maximum=high, bins=min(high - low + 1, 60), **shared))
        data[name] = np.where(gone, "", values)
    return pa.table(data), Schema(tuple(made))


@pytest.mark.parametrize("rows", [500, 3000, 20_000])
def test_nothing_is_found_where_nothing_is(rows: int) -> None:
    for seed in range(6):
        table, schema = independent(rows, 14, seed)
        found, _, _ = searched(table, schema, seed=seed, epsilon=3.0)
        assert [rule_text(f.rule) for f in found.rules] == []


def test_a_rule_that_a_part_of_the_rows_breaks_is_not_found() -> None:
    table = planted()
    clock = np.array(table["clock"].to_pylist(), dtype=object)
    clock[: ROWS // 12] = "7"
    place = table.schema.get_field_index("clock")
    found, _, _ = searched(table.set_column(place, "clock", pa.array(clock, pa.string())), SCHEMA)
    assert not any("clock" in f.rule.columns for f in found.rules)


def test_names_that_rules_cannot_hold_are_left_out() -> None:
    names = {name: f"{name}`s" for name in SCHEMA.names}
    columns = tuple(replace(column, name=names[column.name]) for column in SCHEMA.columns)
    found, _, _ = searched(planted().rename_columns(list(names.values())), Schema(columns), epsilon=3.0)
    assert not any(isinstance(f.rule, Never | Sum | AtLeast) for f in found.rules)


def test_a_rare_value_is_not_determined_by_everything() -> None:
    rng = np.random.default_rng(2)
    rare = np.where(rng.random(ROWS) < 0.005, "b", "a")
    table = pa.table({"x": rng.choice(list("uvwxyz"), ROWS), "y": rare})
    schema = Schema((Categorical("x", tuple("uvwxyz"), **LISTED), Categorical("y", ("a", "b"), **LISTED)))
    assert searched(table, schema, epsilon=5.0)[0].rules == ()


def test_a_small_table_pays_for_its_number_of_rows_alone() -> None:
    table, schema = independent(400, 28, 0)
    found, summary, budget = searched(table, schema)
    assert found.rules == ()
    assert float(sum(charge.rho for charge in summary.charges) / budget.rho) < 0.002


def test_values_that_noise_hides_are_those_of_the_better_source() -> None:
    schema = Schema(tuple(Categorical(name, ("0", "1", "2"), outside="absorb") for name in "abc"))
    counts = np.zeros((3, 3, 3))
    for a in range(3):
        for b in range(3):
            counts[a, b, (a + (b == 2)) % 3] = 400.0 if (a, b) != (1, 2) else 2.0
    rule = tables.filled(schema, Determines(("a", "b"), "c", ()), NoisyMarginal(("a", "b", "c"), counts, 10.0), 10.0)
    table = dict(rule.table)
    assert len(table) == 9
    assert table["2", "2"] == "0"
    assert table["1", "2"] == "1"  # too rare: as in most rows with a = 1


def test_candidates_follow_from_public_facts() -> None:
    written = [rule_text(r) for r in candidates.written_together(SCHEMA)]
    assert written == ["always: clock = 100*hour + minute"]  # the mean of 100*month + minute is another
    assert Sum("gross", ("net", "tax")) in candidates.sums(SCHEMA)
    assert ("first", "second") in candidates.comparable(SCHEMA)
    parts = {(rule.parts[0]) for rule in candidates.parts_of_times(SCHEMA)}
    assert {("year", "year"), ("month", "month"), ("day", "day"), ("hour", "hour")} <= parts
    assert ("month", "day") not in parts


def test_bounds_that_noise_made_hide_no_candidate() -> None:
    def counted(name: str, values: list[int], counts: list[float]) -> tuple[Integer, NoisyMarginal]:
        column = Integer(name, minimum=values[0], maximum=values[-1], bins=tuple(values), **LISTED)
        return column, NoisyMarginal((name,), np.array(counts), 100.0)

    months, months_counted = counted("month", [*range(1, 13), 14], [700.0] * 12 + [260.0])
    hours, hours_counted = counted("hour", [-3, *range(6, 24)], [250.0] + [440.0] * 18)
    minutes, minutes_counted = counted("minute", [0, 15, 30, 45, 61], [2000.0] * 4 + [150.0])
    clock, clock_counted = counted("clock", list(range(600, 2400, 50)), [230.0] * 36)
    when = SCHEMA["when"]
    known = [months_counted, hours_counted, minutes_counted, clock_counted]
    shaped = candidates.with_shapes(Schema((months, hours, minutes, clock, when)), known)
    parts = {rule.parts[0] for rule in candidates.parts_of_times(shaped)}
    assert {("month", "month"), ("hour", "hour")} <= parts
    assert ("hour", "clock") not in parts
    assert Sum("clock", ("hour", "minute"), (100, 1)) in candidates.written_together(shaped)


def test_a_false_rule_on_missing_values_does_not_hide_a_true_sum() -> None:
    """Sums and parts are confirmed together, apart from rules that few rows can break."""
    found, _, _ = searched(planted(), SCHEMA, seed=5)
    assert {f.stddev for f in found.rules if isinstance(f.rule, Parts | Sum)} != {
        f.stddev for f in found.rules if isinstance(f.rule, Never)
    }


def test_equal_columns_and_columns_that_are_missing_together_are_found() -> None:
    rng = np.random.default_rng(6)
    paid, gone = rng.integers(0, 400, ROWS), rng.random(ROWS) < 0.3
    texts = {name: np.where(gone, "NA", rng.choice(list("xyz"), ROWS)) for name in ("colour", "size")}
    table = pa.table({"paid": paid.astype(str), "booked": paid.astype(str), **texts})
    numbers = [Integer(name, minimum=0, maximum=400, bins=20, **LISTED) for name in ("paid", "booked")]
    lists = [Categorical(name, tuple("xyz"), missing=("NA",), **LISTED) for name in texts]
    for seed in range(3):
        found = {rule_text(f.rule) for f in searched(table, Schema((*numbers, *lists)), seed=seed)[0].rules}
        assert "always: booked = paid" in found
        assert {rule for rule in found if rule.startswith("never")} == {
            "never: `colour` is missing and `size` is not missing",
            "never: `size` is missing and `colour` is not missing",
        }


def test_a_sum_of_a_copy_is_computed_from_the_original() -> None:
    """Of `total = net + fee` and `net = price` both hold; a column that is computed itself computes nothing."""
    names = ("price", "net", "fee", "total")
    schema = Schema(tuple(Continuous(name, minimum=0.0, maximum=99.0, bins=9, decimals=2) for name in names))
    copied, added = Sum("net", ("price",)), Sum("total", ("net", "fee"))
    likely = [Likely(added, ("total",), 100.0, -5.0), Likely(copied, ("net",), 100.0, 1.0)]
    assert [found.rule for found in chosen_rules(schema, likely)] == [copied, Sum("total", ("price", "fee"))]
    turned = [Likely(Sum("price", ("net", "fee")), ("price",), 100.0, -5.0), likely[1]]
    assert [found.rule for found in chosen_rules(schema, turned)] == [copied]


def flights(rows: int = ROWS) -> pa.Table:
    """A scheduled time that is written together from hour and minute, a delay, and the time that follows."""
    rng = np.random.default_rng(8)
    hour, minute = rng.integers(0, 24, rows), rng.integers(0, 60, rows)
    delay = np.rint(rng.gamma(1.0, 60.0, rows) - 20).astype(int)
    after = (60 * hour + minute + delay) % (24 * 60)
    left = np.where(after == 0, 2400, 100 * (after // 60) + after % 60)
    gone = rng.random(rows) < 0.1
    late = {name: np.where(gone, "", values.astype(str)) for name, values in (("left", left), ("delay", delay))}
    scheduled = {"hour": hour, "minute": minute, "scheduled": 100 * hour + minute}
    return pa.table({name: values.astype(str) for name, values in scheduled.items()} | late)


@pytest.mark.parametrize("seed", range(3))
def test_a_time_of_day_that_is_another_one_some_minutes_later_is_found(seed: int) -> None:
    release = synthesize(
        flights(), epsilon=2.0, method="independent", seed=seed, insecure_rng=np.random.default_rng(seed)
    )
    found = [rule for rule in release.schema.constraints if isinstance(rule, ClockSum)]
    assert [(rule.total, rule.start, rule.minutes) for rule in found] == [("left", "scheduled", "delay")]
    made = [row for row in release.rows.to_pylist() if row["left"] or row["delay"]]
    assert 0.8 * release.rows.num_rows < len(made) < 0.98 * release.rows.num_rows
    hour, minute, delay, left = (
        np.array([int(row[name]) for row in made]) for name in ("hour", "minute", "delay", "left")
    )
    after = (60 * hour + minute + delay) % (24 * 60)
    assert (left == np.where(after == 0, 2400, 100 * (after // 60) + after % 60)).all()


def test_minutes_are_no_times_of_day_themselves() -> None:
    hours = [Integer(name, minimum=0, maximum=2359, bins=24, **LISTED) for name in ("set off", "came", "stopped")]
    minutes = Integer("minutes", minimum=-10, maximum=20, bins=10, **LISTED)
    found = candidates.clock_sums(Schema((*hours, minutes)))
    assert {rule.minutes for rule in found} == {"minutes"}
    assert ClockSum("came", "set off", "minutes") in found


def test_a_column_without_values_keeps_no_rule() -> None:
    rng, rows = np.random.default_rng(2), 3000
    seats = rng.integers(1, 367, rows)
    table = pa.table({"seats": seats.astype(str), "seen": np.where(np.arange(rows) < 9, "2013-05-01", "")})
    seen = Datetime(
        "seen", minimum="2013-01-01", maximum="2013-12-31", format="%Y-%m-%d", bins=12, missing=("",), **LISTED
    )
    schema = Schema((Integer("seats", minimum=1, maximum=366, bins=366, **LISTED), seen))
    budget = Budget(1.0, 1e-5, "gdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours(), noise=REPRODUCIBLE)
    door = open_table(table, schema, budget, run, neighbours=Neighbours(), insecure_rng=rng, keep_rows=True)
    door.known = (NoisyMarginal(("seen",), np.array([1.0] * 9 + [0.0] * 3 + [2991.0]), 5.0),)
    assert not [f for f in find_rules(door, float(budget.rho) * 0.03, 3000.0).rules if isinstance(f.rule, Parts)]
