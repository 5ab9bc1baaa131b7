"""The search for rules: one row is one unit of one count, whatever it holds, and all that gets out is paid for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.discovery.discover import Discovery
from lookalike.discovery.rules import STEP
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.bins import Binned
from lookalike.schema.codec import bind, encode_columns
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.constraints import AtLeast, ClockSum, Constraint, Determines, Never, Parts, Sum
from lookalike.schema.probes import Comparison, HourLate, RowProbe, RuleProbe, ValueAndMissing
from lookalike.schema.schema import Schema

from .hostile import csv_texts
from .spies import Tape, check_paid, neighbouring
from .test_methods_replayed import written

COLUMNS: tuple[Column, ...] = (
    Integer("hour", minimum=0, maximum=23, bins=24, missing=("",), outside="absorb"),
    Integer("minute", minimum=0, maximum=59, bins=60, outside="absorb"),
    Integer("clock", minimum=0, maximum=2359, bins=8, missing=("",), outside="absorb"),
    Datetime("when", minimum="2023-01-01", maximum="2023-12-31", bins=4, format="%Y-%m-%dT%H:%M:%SZ", outside="absorb"),
    Categorical("town", ("Ox", "Rye"), missing=("?",)),
    Continuous("pay", minimum=0, maximum=9, bins=4, outside="absorb"),
    Continuous("tax", minimum=0, maximum=9, bins=4, decimals=2, missing=("",), outside="absorb"),
    Continuous("net", minimum=0, maximum=9, bins=4, decimals=2, outside="absorb"),
)
SCHEMA = Schema(COLUMNS)
RULES: tuple[tuple[Constraint, tuple[str, ...]], ...] = (
    (Sum("clock", ("hour", "minute"), (100, 1)), ("clock",)),
    (Sum("clock", ("hour", "minute"), (100, 1)), ()),
    (Sum("pay", ("tax", "net")), ("pay",)),
    (ClockSum("clock", "hour", "minute"), ("clock",)),
    (ClockSum("minute", "clock", "net"), ()),
    (ClockSum("clock", "tax", "net"), ("clock",)),
    (AtLeast("tax", "net"), ()),
    (AtLeast("pay", "net", strict=True), ()),
    (Parts("when", (("hour", "hour"), ("minute", "minute")), "America/New_York"), ("when",)),
    (Parts("when", (("hour", "hour"), ("clock", "clock"))), ("clock",)),
    (Determines(("town", "hour"), "minute", ((("Ox", "3"), "7"), (("?", ""), "9"))), ("minute",)),
    (Determines("town", "hour", (("Ox", "3"), ("other", ""))), ()),
    (Never("`town` = `Rye` and `hour` is not missing"), ()),
)


def of(*names: str) -> Schema:
    return Schema(tuple(SCHEMA[name] for name in names))


def probe_of(rule: Constraint, derived: tuple[str, ...]) -> RuleProbe:
    names = rule.columns or ("town", "hour")
    columns = (replace(column, derived=column.name in derived) for column in COLUMNS if column.name in names)
    return RuleProbe("", schema=Schema(tuple(columns), (rule,)))


PROBES: tuple[RowProbe, ...] = (
    *(probe_of(rule, derived) for rule, derived in RULES),
    Comparison("", schema=of("tax", "net")),
    Comparison("", schema=of("town", "hour")),
    HourLate("", schema=of("when", "hour")),
    ValueAndMissing("", schema=of("town", "tax")),
)
NAMED = tuple(replace(probe, name=f"q{i}") for i, probe in enumerate(PROBES))
USUAL = {
    "hour": ["3", ""], "minute": ["7", "59"], "clock": ["307", ""],
    "when": ["2023-05-01T07:07:00Z", "2023-01-31T00:00:00Z"],
    "town": ["Ox", "?"], "pay": ["2.75", "1"], "tax": ["1.25", ""], "net": ["1.50", "8.00"],
}  # fmt: skip


def classes(rows: dict[str, list[Any]]) -> np.ndarray:
    table = pa.table({name: pa.array(rows[name], pa.string()) for name in SCHEMA.names})
    bound = bind(SCHEMA, table.schema)
    probes = [replace(p, schema=Schema(tuple(replace(bound[c.name], derived=c.derived) for c in p.schema.columns),
                                       p.schema.constraints)) for p in NAMED]  # fmt: skip
    with np.errstate(all="raise"):
        return encode_columns(probes, table)


def with_row(row: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: [*values, row.get(name)] for name, values in USUAL.items()}


def test_one_row_is_one_unit_of_one_class_of_every_probe() -> None:
    """All neighbours of a small table, by every combination of some values: nobody else's class changes."""
    before, usual = classes(USUAL), len(USUAL["hour"])
    choices = [("3", "", "x"), ("7", None), ("307", "", "9" * 30), ("2023-05-01T07:07:00Z", "no"), ("Ox", "?", "new"),
               ("2.75", "1e308"), ("1.25", "-1e308"), ("1.50",)]  # fmt: skip
    added = list(product(*choices))
    together = classes({name: [*USUAL[name], *(row[i] for row in added)] for i, name in enumerate(SCHEMA.names)})
    assert together[:usual].tolist() == before.tolist()
    for i in range(0, len(added), 20):
        after = classes(with_row(dict(zip(SCHEMA.names, added[i], strict=True))))
        assert after[:usual].tolist() == before.tolist()
        assert after[usual].tolist() == together[usual + i].tolist()  # no row's class depends on other rows
    assert (together >= 0).all()
    assert (together < [probe.size for probe in NAMED]).all()


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries({name: st.one_of(st.none(), csv_texts()) for name in SCHEMA.names}))
def test_no_row_is_too_strange_for_a_probe(row: dict[str, Any]) -> None:
    before, after = classes(USUAL), classes(with_row(row))
    assert after[:2].tolist() == before.tolist()
    assert (after >= 0).all()
    assert (after[2] < [probe.size for probe in NAMED]).all()


def test_usual_rows_keep_their_rules() -> None:
    found = classes(USUAL)
    kept = dict(zip((probe.name for probe in NAMED), found.T.tolist(), strict=True))
    assert kept["q0"] == [0, 0]  # both hours are known or missing as the clock is
    assert kept["q2"] == [0, 0]
    assert classes(with_row({"clock": "308", "hour": "3", "minute": "7"}))[2, 0] == 1
    assert classes(with_row({"clock": "", "hour": "3", "minute": "7"}))[2, :2].tolist() == [1, 0]


def people(codes: np.ndarray) -> pa.Table:
    """Rows with a clock, a time and its parts, towns and what they determine; a code of 3 stands for extreme values."""
    hours, towns, pays = ["3", "7", "15", "9" * 30], ["Ox", "Rye", "?", "new"], ["1.25", "", "2.50", "-1e308"]
    hour, town, pay = (codes[:, i].tolist() for i in range(3))
    known, minutes = [("3", "7", "15")[min(c, 2)] for c in hour], [("7", "20", "59")[c % 3] for c in town]
    days = ["2023-05-01", "2023-11-30", "2023-02-11"]
    return pa.table(
        {
            "hour": [hours[c] for c in hour],
            "minute": minutes,
            "clock": [str(100 * int(a) + int(b)) for a, b in zip(known, minutes, strict=True)],
            "when": [f"{days[c % 3]}T{int(hours[a]):02d}:00:00Z" if a < 3 else "0001-01-01T00:00:00Z"
                     for a, c in zip(hour, pay, strict=True)],
            "town": [towns[c] for c in town],
            "pay": [pays[c] for c in pay],
            "tax": [pays[c] for c in pay],
            "net": ["0.00"] * len(codes),
        }
    )  # fmt: skip


@pytest.mark.parametrize("neighbours", [Neighbours(), Neighbours("replace", 2)], ids=["added", "replaced"])
def test_the_search_releases_nothing_that_is_not_paid_for(neighbours: Neighbours) -> None:
    steps: set[str] = set()

    def run(codes: np.ndarray, tape: Tape) -> Any:
        tape.ledger = Ledger(None, "t")
        common = {"epsilon": 20.0, "seed": 2, "ledger": tape.ledger, "neighbours": neighbours, "schema": SCHEMA}
        search = Discovery(rules=True, rules_share=0.5)
        made = synthesize(people(codes), method="independent", discovery=search, **common)
        steps.update(made.spent.by_step())
        return written(made)

    base = np.random.default_rng(0).integers(0, 3, (300, 3))
    rows = neighbours.max_rows_per_person
    tapes = neighbouring(run, base, [np.array([row] * rows) for row in ((3, 3, 3), (0, 0, 0), (2, 1, 0))])
    check_paid(tapes, neighbours.relation)
    assert STEP in steps
    assert all(draw.private for draw in tapes[0].draws)
    ledger = tapes[0].ledger
    assert ledger is not None
    asked = [charge for charge in ledger.runs()[0].charges if charge.step == STEP]
    assert len(asked) >= 4
    assert any(charge.detail.startswith("Undetermined") for charge in asked)


def test_every_kind_of_number_has_a_column_here() -> None:
    assert {type(column) for column in COLUMNS if isinstance(column, Binned)} == {Integer, Continuous, Datetime}
