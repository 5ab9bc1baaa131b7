"""Public hierarchies of columns: what they mean, what is refused, and that files keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import SchemaError
from lookalike.pipeline import synthesize
from lookalike.release import load
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Identifier, Undeclared
from lookalike.schema.enforce import aligned
from lookalike.schema.schema import Schema

EDUCATION = ("9th", "HS", "BSc", "MSc", "PhD")
FINE = {"school": ["9th", "HS"], "first degree": ["BSc"], "higher degree": ["MSc", "PhD"]}
HALVES = ("2024-01-01", "2024-03-01")
COARSE = {"school": ["school"], "degree": ["first degree", "higher degree"]}


def education(*levels: dict, **settings) -> Categorical:
    return Categorical("education", values=EDUCATION, hierarchy=levels, **{"outside": "absorb", **settings})


def listed(column) -> list[list[int]]:
    return [level.tolist() for level in column.levels]


def test_groups_of_values_and_of_groups() -> None:
    assert listed(education(FINE, COARSE)) == [[0, 0, 1, 2, 2], [0, 0, 1, 1, 1]]
    assert listed(education()) == []
    spelled_out = {"school": ["9th", "HS"], "degree": ["BSc", "MSc", "PhD"]}
    assert listed(education(FINE, spelled_out)) == listed(education(FINE, COARSE))


def test_the_catch_all_and_missing_markers_stay_apart() -> None:
    column = education(FINE, missing=("", "?"), outside="other")
    assert listed(column) == [[0, 0, 1, 2, 2, 3, 4, 5]]


def test_a_name_that_is_a_value_and_a_group_means_the_group() -> None:
    levels = ({"a": ["a", "b"], "c": ["c"], "d": ["d"]}, {"a": ["a"], "rest": ["c", "d"]})
    column = Categorical("x", values=("a", "b", "c", "d"), hierarchy=levels, outside="absorb")
    assert listed(column) == [[0, 0, 1, 2], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (({"school": ["9th", "HS"]},), "'BSc' in no group of level 1"),
        (({"all": [*EDUCATION, "PdH"]},), "'PdH' in level 1"),
        (({"school": ["9th", "HS"], "degree": ["HS", "BSc", "MSc", "PhD"]},), "'HS' into two groups"),
        (({"low": ["9th", "HS", "BSc"], "high": ["MSc", "PhD"]}, {"all": ["low"]}), "'MSc' in no group of level 2"),
        ((FINE, {"low": ["school", "MSc"], "high": ["BSc", "PhD"]}), "splits a group of the level below in level 2"),
        (({value: [value] for value in EDUCATION},), "merges nothing in level 1"),
        ((COARSE, FINE), "level 1"),
        (({"all": list(EDUCATION), "none": []},), "empty group"),
        ((3,), "Map every group"),
        ((("9th", "HS"),), "Map every group"),
        (({"school": "9th"},), "Map every group"),
    ],
)
def test_invalid_levels_of_categories_are_refused(levels: tuple[dict, ...], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        education(*levels)


def test_bins_are_merged_with_their_neighbours() -> None:
    ages = Integer("age", minimum=0, maximum=99, bins=10, hierarchy=(5, 2), missing=("",))
    assert listed(ages) == [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2]]
    cut = Integer("age", minimum=0, maximum=99, bins=10, hierarchy=((0, 20, 60), ("0", "60")))
    assert listed(cut) == [[0, 0, 1, 1, 1, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]]
    assert listed(Continuous("x", minimum=0, maximum=1, bins=10, hierarchy=((0.0, 0.3),)))[0] == [0] * 3 + [1] * 7
    months = Datetime("day", minimum="2024-01-01", maximum="2024-12-31", bins="month", hierarchy=(4,))
    assert listed(months) == [[i // 3 for i in range(12)]]


def test_a_number_of_groups_fits_any_bins() -> None:
    assert listed(Integer("x", minimum=0, maximum=6, bins=7, hierarchy=(20, 3))) == [[0, 0, 0, 1, 1, 2, 2]]
    drafted = Integer("x", hierarchy=(20, 3), provenance={"bins": "open"})
    assert drafted.hierarchy == (20, 3)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((3, 5), "falling"),
        ((0,), "falling"),
        (((0, 25),), "not lower edges of bins"),
        (((20, 50),), "not lower edges of bins"),
        (((0, 50, 20),), "do not rise"),
        (((0, 50), (0, 20)), "splits a group"),
        (((0, 50), (0, 50)), "merges nothing"),
    ],
)
def test_invalid_levels_of_bins_are_refused(levels: tuple, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Integer("age", minimum=0, maximum=99, bins=10, hierarchy=levels)


def test_only_declared_values_and_bins_have_a_hierarchy() -> None:
    with pytest.raises(SchemaError, match="not declared"):
        Categorical("x", hierarchy=({"all": ["a"]},))
    with pytest.raises(SchemaError, match="not declared"):
        Integer("x", hierarchy=((0, 5),))
    with pytest.raises(SchemaError, match="hierarchy could group"):
        Identifier("x", hierarchy=(3,))
    with pytest.raises(SchemaError, match="hierarchy could group"):
        Undeclared("x", hierarchy=(3,))


def test_files_keep_hierarchies(tmp_path) -> None:
    schema = Schema((
        education(FINE, COARSE),
        Integer("age", minimum=0, maximum=99, bins=100, hierarchy=(20, (0, 50))),
        Continuous("x", minimum=0, maximum=1, bins=10, hierarchy=((0.0, 0.3),)),
        Datetime("day", minimum="2024-01-01", maximum="2024-06-30", bins="month", hierarchy=(HALVES,)),
    ))  # fmt: skip
    schema.save(tmp_path / "schema.yaml")
    again = Schema.load(tmp_path / "schema.yaml")
    assert again == schema
    assert again.fingerprint() == schema.fingerprint()
    plain = schema.with_columns([education()])
    assert plain.fingerprint() != schema.fingerprint()
    for column, other in zip(schema.columns, again.columns, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(column.levels, other.levels, strict=True))


def test_the_documented_example_can_be_read(tmp_path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "schema_file.md").read_text(encoding="utf-8")
    example = text.split("## Hierarchies")[1].split("```yaml\n")[1].split("```")[0]
    (tmp_path / "doc.yaml").write_text("fields:\n" + example, encoding="utf-8")
    schema = Schema.load(tmp_path / "doc.yaml")
    assert [int(level.max()) + 1 for column in schema.columns for level in column.levels] == [5, 3, 20, 5, 6]


def test_a_run_takes_the_hierarchy_from_the_file_and_the_model_file_keeps_it(tmp_path) -> None:
    schema = Schema((Integer("x", minimum=0, maximum=99, bins=100, hierarchy=(20, 5)), Integer.coded("y", 2)))
    schema.save(tmp_path / "schema.yaml")
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.integers(0, 100, 300), "y": rng.integers(0, 2, 300)})
    made = synthesize(table, schema=tmp_path / "schema.yaml", epsilon=1.0, delta=1e-6, method="privmrf", seed=0)
    made.fitted.save(tmp_path / "model.lookalike")
    assert load(tmp_path / "model.lookalike").schema["x"].hierarchy == (20, 5)


@pytest.mark.parametrize("level", ["x", "-3", "[[0, 5]]", "{a: b}"])
def test_errors_name_the_place_in_the_file(tmp_path, level: str) -> None:
    path = tmp_path / "schema.yaml"
    field = "{name: age, type: integer, constraints: {minimum: 0, maximum: 9}, dp: {hierarchy: [LEVEL]}}"
    path.write_text(f"fields:\n- {field.replace('LEVEL', level)}\n", encoding="utf-8")
    with pytest.raises(SchemaError, match="line 2, field 1"):
        Schema.load(path)


def test_bins_cut_by_a_rule_keep_their_hierarchy() -> None:
    schema = Schema.from_dict({
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99, "required": True},
             "dp": {"bins": 10, "hierarchy": [[0, 50]]}},
            {"name": "ward", "type": "string", "constraints": {"enum": ["a", "b"], "required": True}},
        ],
        "dp": {"constraints": [{"never": "ward = a and age < 15"}]},
    })  # fmt: skip
    assert listed(aligned(schema)["age"]) == [[0] * 6 + [1] * 5]
