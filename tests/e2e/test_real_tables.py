"""A table and an epsilon are enough: formats, dtypes, rules and persons survive, whatever the table."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lookalike as la
from lookalike.discovery.discover import Discovery
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.schema.schema import Schema

from .conftest import Call

PEOPLE = 1500


def write_visits(path: Path) -> pd.DataFrame:
    """Dates, zones, decimals, three missing markers, heaped incomes, leading zeros, rules, several rows per person."""
    rng = np.random.default_rng(11)
    visits = 1 + rng.choice(4, PEOPLE, p=[0.5, 0.2, 0.2, 0.1])
    rows = int(visits.sum())
    start = np.datetime64("2023-03-01") + rng.integers(0, 600, rows)
    income = np.where(rng.random(rows) < 0.3, 0, 100 * rng.integers(5, 60, rows) + rng.integers(0, 2, rows) * 50)
    frame = pd.DataFrame(
        {
            "patient": np.repeat([f"P{i:05d}" for i in range(PEOPLE)], visits),
            "start": start.astype(str),
            "end": (start + rng.integers(0, 30, rows)).astype(str),
            "seen at": [
                f"{day}T{hour:02d}:30:00+00:00" for day, hour in zip(start, rng.integers(0, 24, rows), strict=True)
            ],
            "income": income.astype(str),
            "height": [f"{value:.2f}" for value in rng.normal(1.7, 0.1, rows)],
            "clinic": rng.choice(["0012", "0107", "2000"], rows),
            "town": rng.choice(["Ox, north", 'Ely "old"', "Rye"], rows),
            "smokes": rng.choice(["yes", "no", "?", "NA", ""], rows, p=[0.3, 0.3, 0.2, 0.1, 0.1]),
            "active": rng.choice(["True", "False"], rows),
        }
    )
    frame.to_csv(path, index=False)
    return frame


RULES = """
fields:
- {name: patient, type: any}
- {name: start, type: date}
- {name: end, type: date}
- {name: seen at, type: any}
- {name: income, type: any}
- {name: height, type: any}
- {name: clinic, type: any}
- {name: town, type: any}
- {name: smokes, type: any}
- {name: active, type: any}
dp:
  constraints:
  - always: end >= start
"""


def test_a_table_with_everything(call: Call, tmp_path: Path) -> None:
    source, out, schema = tmp_path / "visits.csv", tmp_path / "out.csv", tmp_path / "rules.yaml"
    real = write_visits(source)
    schema.write_text(RULES)
    arguments = ("--schema", schema, "--person", "patient", "--max-rows-per-person", 4, "--epsilon", 20)
    outcome = call("synth", source, "-o", out, *arguments)
    assert outcome.code == 0, outcome.err
    assert "rows per person" in outcome.err
    made = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert list(made.columns) == list(real.columns)
    assert (made.end >= made.start).all()
    assert made.start.str.fullmatch(r"20(23|24)-\d\d-\d\d").all()
    assert made["seen at"].str.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00").all()
    assert made.height.str.fullmatch(r"\d\.\d\d").all()
    assert made.income.str.fullmatch(r"\d+").all()
    assert abs((made.income == "0").mean() - 0.3) < 0.1
    assert (made.income.astype(int) % 50 == 0).mean() > 0.8
    assert set(made.clinic) <= {"0012", "0107", "2000"}
    assert set(made.town) == {"Ox, north", 'Ely "old"', "Rye"}
    assert set(made.smokes) == {"yes", "no", "?", "NA", ""}
    assert set(made.active) == {"True", "False"}
    assert not set(made.patient) & set(real.patient)
    sizes = made.patient.value_counts().value_counts(normalize=True)
    assert sizes.index.max() <= 4
    assert abs(sizes[1] - 0.5) < 0.15


def test_a_draft_can_be_edited_and_used(call: Call, tmp_path: Path) -> None:
    source, drafted = tmp_path / "visits.csv", tmp_path / "draft.yaml"
    write_visits(source)
    assert call("schema", source, "-o", drafted).code == 0
    schema = Schema.load(drafted)
    assert set(schema.open_facts) == set(schema.names)
    assert "P00001" not in drafted.read_text()
    outcome = call("plan", source)
    assert outcome.code == 0
    assert "discover: values and bins" in outcome.out


def test_persons_are_bounded_before_anything_is_counted() -> None:
    frame = pd.DataFrame({"who": ["a"] * 500 + [f"p{i}" for i in range(500)], "x": ["rare"] * 500 + ["common"] * 500})
    release = la.synthesize(
        frame, epsilon=20.0, person="who", neighbours=Neighbours(max_rows_per_person=2), discovery=Discovery(share=0.3)
    )
    # 500 rows of one person count as two: far too few to be released.
    assert release.schema["x"].values == ("common",)
    assert abs(len(release.table) - 502) < 30
    assert "one person with up to 2 rows" in release.spent.neighbours


COLUMNS = {
    "integer": st.integers(-1000, 1000),
    "float": st.floats(-1e6, 1e6),
    "cents": st.integers(0, 10_000).map(lambda value: value / 100),
    "text": st.sampled_from(["a", "b,c", 'd"e', "ü", "007"]),
    "flag": st.booleans(),
    "day": st.integers(0, 900).map(lambda days: date(2020, 1, 1) + timedelta(days=days)),
    "constant": st.just("same"),
    "nothing": st.none(),
    "anything": st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8),
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.sampled_from([1, 2, 7, 60]))
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=5))
    repeat = draw(st.sampled_from([1, 20]))
    columns = {}
    for i, kind in enumerate(kinds):
        optional = COLUMNS[kind] if draw(st.booleans()) else st.none() | COLUMNS[kind]
        columns[f"{kind} {i}"] = draw(st.lists(optional, min_size=rows, max_size=rows)) * repeat
    return pl.DataFrame(columns, strict=False)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(frames(), st.sampled_from([0.1, 1.0, 10.0]))
def test_any_table_round_trips(frame: pl.DataFrame, epsilon: float) -> None:
    made = la.synthesize(frame, epsilon=epsilon, method="independent", seed=0).table
    assert made.schema == frame.schema


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(frames())
def test_any_table_round_trips_through_files(tmp_path_factory: pytest.TempPathFactory, frame: pl.DataFrame) -> None:
    folder = tmp_path_factory.mktemp("tables")
    for name in ("t.csv", "t.parquet"):
        frame.write_csv(folder / name) if name.endswith("csv") else frame.write_parquet(folder / name)
        release = la.synthesize(
            folder / name, epsilon=1.0, method="independent", ledger=folder / f"{name}.jsonl", seed=0
        )
        release.write(folder / f"out.{name}")
        made = pl.read_csv(folder / f"out.{name}") if name.endswith("csv") else pl.read_parquet(folder / f"out.{name}")
        assert made.columns == frame.columns
        if name.endswith("parquet"):
            assert made.schema == frame.schema


def test_a_polars_enum_keeps_its_type_and_tells_no_more_than_the_type_does() -> None:
    sizes, marks = pl.Enum(["S", "M", "L", "XL"]), pl.Enum(["?", "a", "NA"])
    frame = pl.DataFrame(
        {
            "size": pl.Series(["M", "L", None, "M"] * 300, dtype=sizes),
            "mark": pl.Series(["?", "a", "a", "a"] * 300, dtype=marks),
        }
    )
    release = la.synthesize(frame, epsilon=10.0)
    assert release.table.schema == frame.schema
    assert release.schema["size"].values == ("S", "M", "L", "XL")
    assert release.schema["size"].fact("values") == "public"
    assert abs(release.table["size"].null_count() / len(release.table) - 0.25) < 0.1
    assert abs((release.table["mark"] == "?").mean() - 0.25) < 0.1


def test_values_outside_an_enum_stay_texts() -> None:
    frame = pl.DataFrame({"size": pl.Series(["M", "L"] * 200, dtype=pl.Enum(["M", "L"]))})
    schema = {
        "fields": [{"name": "size", "type": "string", "constraints": {"enum": ["M"]}, "dp": {"outside": "other"}}]
    }
    made = la.synthesize(frame, schema=schema, epsilon=10.0).table
    assert {"M", "other"} <= set(made["size"]) <= {"M", "other", None}


def test_decimal_commas_come_back_and_survive_the_schema_file(call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    source, out, drafted = tmp_path / "umsatz.csv", tmp_path / "out.csv", tmp_path / "schema.yaml"
    source.write_text("umsatz;art\n" + "".join(f"{v:.2f};a\n".replace(".", ",") for v in rng.gamma(2, 300, 3000)))
    assert call("synth", source, "-o", out, "--epsilon", 5, "--method", "independent").code == 0
    made = pd.read_csv(out, sep=";", dtype=str)
    assert made.umsatz.str.fullmatch(r"-?\d+,\d\d").all()
    numbers = made.umsatz.str.replace(",", ".").astype(float)
    assert 450 < numbers.mean() < 750
    fields = "fields:\n- {name: umsatz, type: number, decimalChar: ',', dp: {decimals: 2, outside: clamp},"
    drafted.write_text(f"{fields} constraints: {{minimum: 0, maximum: 5000}}}}\n- {{name: art, type: any}}\n")
    assert Schema.load(drafted)["umsatz"].comma
    assert Schema.from_dict(Schema.load(drafted).to_dict()) == Schema.load(drafted)
    assert call("synth", source, "-o", out, "--schema", drafted, "--method", "independent").code == 0
    assert pd.read_csv(out, sep=";", dtype=str, keep_default_na=False).umsatz.str.fullmatch(r"(\d+,\d\d)?").all()


def test_what_other_programs_write_comes_back_as_they_write_it(call: Call, tmp_path: Path) -> None:
    """Whole numbers as floats because some are missing, timestamps of whole hours, a column that is named as an id."""
    rng = np.random.default_rng(2)
    hours = np.datetime64("2023-01-01T00") + rng.integers(0, 8000, 3000)
    frame = pd.DataFrame(
        {
            "visit_id": rng.choice(["a", "b"], 3000),
            "children": rng.poisson(30, 3000).astype(float),
            "hour": [f"{hour}:00:00Z" for hour in hours],
        }
    )
    frame.loc[rng.random(3000) < 0.2, "children"] = np.nan
    frame.to_csv(tmp_path / "visits.csv", index=False)
    done = call("synth", tmp_path / "visits.csv", "-o", tmp_path / "out.csv", "-m", "independent", "-e", "50")
    assert done.code == 0
    assert "by name or declaration (made up): visit_id" in done.out
    made = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    assert made["children"].str.fullmatch(r"[0-9]+\.0|").all()
    assert 0.1 < (made["children"] == "").mean() < 0.3
    assert made["hour"].str.fullmatch(r"2023-[0-9-]+T[0-9]{2}:00:00Z").mean() > 0.95
