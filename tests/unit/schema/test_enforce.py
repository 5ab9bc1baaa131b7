"""Rules between columns: read from files, turned into structural zeros, and satisfied by every row that is written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import encode
from lookalike.schema.columns import Categorical
from lookalike.schema.constraints import AtLeast, Determines, Never, Sum, constraint_of
from lookalike.schema.decode import decode
from lookalike.schema.enforce import aligned, structural_zeros
from lookalike.schema.schema import Schema
from lookalike.sources.frames import read_table

EXAMPLES = Path(__file__).parents[3] / "examples"
COLUMNS = (
    Categorical("ward", values=("birth", "other"), missing=("?",), outside="absorb"),
    Categorical("sex", values=("F", "M"), outside="absorb"),
    Integer("age", minimum=0, maximum=99, bins=10),
    Datetime("start", minimum="2024-01-01", maximum="2024-12-31", bins="month"),
    Datetime("end", minimum="2024-01-01", maximum="2025-01-31", bins="month", missing=("",)),
    Integer("days", minimum=0, maximum=20, bins=5),
    Continuous("net", minimum=0, maximum=10, decimals=2, bins=5),
    Continuous("tax", minimum=0, maximum=2, decimals=1, bins=5),
    Continuous("gross", minimum=0, maximum=12, decimals=2, bins=5),
    Categorical("grade", values=("low", "high"), missing=("",), outside="absorb"),
    Integer("grade number", minimum=0, maximum=9, bins=3, missing=("",)),
)


def schema_with(*rules):
    return aligned(Schema(COLUMNS, tuple(rules)))


def random_rows(schema, rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, column.size, rows) for column in schema.columns])
    table = decode(schema, codes, rng=rng)
    encode(schema, table)
    assert table.num_rows == rows
    return codes, table.to_pandas()


def test_rules_survive_the_file(tmp_path):
    rules = (
        Never("ward = birth and sex = M"),
        AtLeast("end", "start"),
        AtLeast("grade number", "days", strict=True),
        Sum("end", ("start", "days")),
        Determines("grade", "grade number", (("low", "1"), ("high", "7"))),
    )
    schema = Schema(COLUMNS, rules)
    schema.save(tmp_path / "s.yaml")
    assert Schema.load(tmp_path / "s.yaml") == schema
    assert constraint_of({"always": "`grade number` < days"}, 1) == AtLeast("days", "grade number", strict=True)


def test_forbidden_combinations_are_never_generated():
    schema = schema_with(Never("ward = birth and sex = M"), Never("ward = birth and (age < 14 or age > 50)"))
    assert 14 in schema["age"].edges
    assert 51 in schema["age"].edges
    codes, rows = random_rows(schema)
    births = rows[rows.ward == "birth"]
    assert len(births) > 50
    assert (births.sex == "F").all()
    assert births.age.between(14, 50).all()
    allowed = ~structural_zeros(schema)[("ward", "sex")][codes[:, 0], codes[:, 1]]
    assert allowed.mean() < 0.9  # the rule had something to do


def test_zeros_are_the_cells_that_no_row_can_have():
    zeros = structural_zeros(schema_with(AtLeast("end", "start"), Never("sex = M and ward is missing")))
    dates = zeros[("start", "end")]
    assert dates[5, 4]
    assert not dates[5, 5]
    assert not dates[5, -1]  # missing ends
    assert zeros[("ward", "sex")].tolist() == [[False, False], [False, False], [False, True]]


def test_inequalities_hold_in_every_row():
    _, rows = random_rows(schema_with(AtLeast("end", "start"), AtLeast("days", "grade number", strict=True)))
    known = rows[rows.end.notna()]
    assert 100 < len(known) < len(rows)
    assert (known.end >= known.start).all()
    both = rows[rows["grade number"].notna()]
    assert (both.days > both["grade number"]).all()


def test_sums_hold_in_every_row_to_the_last_decimal():
    _, rows = random_rows(schema_with(Sum("gross", ("net", "tax")), Sum("end", ("start", "days"))))
    assert (round(rows.gross * 100) == round(rows.net * 100) + round(rows.tax * 100)).all()
    known = rows[rows.end.notna()]
    assert ((known.end - known.start).map(lambda gap: gap.days) == known.days).all()
    assert rows.gross.nunique() > 100


def test_functional_dependencies_hold_in_every_row():
    schema = schema_with(Determines("grade", "grade number", (("low", "1"), ("high", "7"))))
    _, rows = random_rows(schema)
    assert (rows[rows.grade == "low"]["grade number"] == 1).all()
    assert (rows[rows.grade == "high"]["grade number"] == 7).all()
    assert rows[rows.grade.isna()]["grade number"].nunique() > 2
    zeros = structural_zeros(schema)[("grade", "grade number")]
    assert zeros.sum(axis=1).tolist() == [3, 3, 0]


def test_rules_about_the_same_columns_hold_together():
    rules = (
        Sum("end", ("start", "days")),
        AtLeast("end", "start"),
        Never("ward = birth and days > 0"),
        Never("ward = other and start < 2024-03-05"),
    )
    _, rows = random_rows(schema_with(*rules), rows=4000)
    assert (rows[rows.ward == "birth"].days == 0).all()
    assert (rows[rows.ward == "other"].start.map(str) >= "2024-03-05").all()
    known = rows[rows.end.notna()]
    assert ((known.end - known.start).map(lambda gap: gap.days) == known.days).all()


def test_contradicting_rules_are_refused():
    schema = schema_with(*(Never(f"sex = {sex} and ward = {ward}") for sex in "FM" for ward in ("birth", "other", "?")))
    with pytest.raises(SchemaError, match="contradict each other"):
        random_rows(schema, rows=50)


def test_the_example_keeps_its_own_rules():
    schema = aligned(Schema.load(EXAMPLES / "admissions.yaml"))
    table, _ = read_table(EXAMPLES / "admissions.csv")
    codes = encode(schema, table)
    zeros = structural_zeros(schema)
    assert len(zeros) >= 6
    for attrs, mask in zeros.items():
        assert not mask[tuple(codes[:, schema.domain.position(name)] for name in attrs)].any(), attrs
    stays = table.to_pandas()
    gaps = stays.discharged.astype("datetime64[s]") - stays.admitted.astype("datetime64[s]")
    assert (gaps.dt.days == stays.stay_days.astype(int)).all()


def test_cutting_a_bin_shares_its_shape():
    column = Integer("age", minimum=0, maximum=99, bins=(0, 50), shape=((0, 30.0), (50, 70.0)))
    schema = aligned(Schema((column, COLUMNS[1]), (Never("age < 25 and sex = M"),)))
    assert schema["age"].bins == (0, 25, 50)
    assert schema["age"].shape == ((0, 15.0), (25, 15.0), (50, 70.0))


def test_rules_are_not_applied_while_facts_are_open():
    schema = Schema((Categorical("a"), COLUMNS[1]), (Never("a = x and sex = M"),))
    assert aligned(schema) is schema
    found = replace(schema["a"], values=("y",), provenance={"values": "measured"})
    assert structural_zeros(aligned(schema.with_columns([found]))) == {}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("x", "one of the keys"),
        ({"sometimes": "a"}, "key 'sometimes'"),
        ({"always": "a"}, "Compare two columns"),
        ({"always": "a + b >= c"}, "Compare two columns"),
        ({"determines": {"from": "a"}}, "needs determines"),
    ],
)
def test_entries_that_cannot_be_read(entry, message):
    with pytest.raises(SchemaError, match=message):
        constraint_of(entry, 1)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Never("ward = nowhere"), "cannot be read"),
        (Never("age <"), "cannot be read"),
        (AtLeast("ward", "age"), "column 'ward' is Categorical"),
        (AtLeast("start", "age"), "compares a time with a number"),
        (Sum("days", ("start", "age")), "must add numbers to one time"),
    ],
)
def test_rules_that_do_not_fit_the_columns(rule, message):
    with pytest.raises(SchemaError, match=message):
        random_rows(schema_with(rule), rows=1)


def test_unknown_columns_are_named():
    with pytest.raises(SchemaError, match="'nobody'"):
        Schema(COLUMNS, (AtLeast("end", "nobody"),))


def test_a_single_row_that_cannot_be_repaired_from_others_is_drawn_again():
    schema = schema_with(
        Never("ward = birth and sex = M"),
        AtLeast("end", "start"),
        Determines("grade", "grade number", (("low", "1"), ("high", "7"))),
    )
    codes = np.zeros((1, len(COLUMNS)), dtype=np.int32)
    codes[0, schema.domain.position("sex")] = 1
    codes[0, schema.domain.position("start")] = 11
    for seed in range(20):
        row = decode(schema, codes, rng=np.random.default_rng(seed)).to_pylist()[0]
        assert not (row["ward"] == "birth" and row["sex"] == "M")
        assert row["end"] is None or row["end"] >= row["start"]
