import json
from pathlib import Path

import pytest

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Ordinal
from lookalike.schema.schema import MAX_COLUMNS, Schema

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def schema():
    return Schema(
        (
            Integer("age", minimum=0, maximum=109, bins=11, missing=("", "?"), provenance={"bounds": "assumed"}),
            Categorical(
                "answer", values=("no", "yes", "007", "1.0", "true", "null"), outside="other", other_label="else"
            ),
            Ordinal("size", values=("S", "M", "L")),
            Continuous("weight", minimum=-0.5, maximum=42, decimals=1, bins=(-0.5, 3.5, 10)),
            Continuous("ratio", minimum=0, maximum=1e-3),
            Datetime("day", minimum="2020-01-01", maximum="2021-12-31", bins="month", format="%d.%m.%Y"),
            Datetime("at", minimum="2020-01-01", maximum="2021-12-31", format="%Y-%m-%dT%H:%M%z", zone="Europe/Paris"),
            Integer("code", minimum=0, maximum=99, width=4, storage="string", outside="clamp"),
            Categorical("open", missing=("NA",)),
            Integer("open_too"),
        )
    )


def test_file_and_schema_say_the_same(schema, tmp_path):
    path = tmp_path / "schema.yaml"
    schema.save(path)
    loaded = Schema.load(path)
    assert loaded == schema
    assert loaded.fingerprint() == schema.fingerprint()
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_fingerprint_changes_with_any_fact(schema):
    other = schema.with_columns([Integer("age", minimum=0, maximum=110, bins=11)])
    assert other.fingerprint() != schema.fingerprint()
    assert len(schema.fingerprint()) == 64


def test_domain_needs_all_facts(schema):
    assert schema.open_facts == {"open": ("values",), "open_too": ("bounds",)}
    with pytest.raises(SchemaError, match="'open' leaves values open"):
        _ = schema.domain


def test_example_schema_is_complete():
    schema = Schema.load(EXAMPLES / "admissions.yaml")
    assert len(schema.domain) == 16
    assert not schema.open_facts
    assert all(schema[name].fact("missing") == "public" for name in schema.names)


def test_html_escapes_names(schema):
    text = Schema((Categorical("<b>", values=("x",)), *schema.columns))._repr_html_()
    assert "&lt;b&gt;" in text
    assert "open: values" in text
    assert "assumed: bounds" in text


def test_plain_frictionless_file(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(
        "missingValues: ['', n/a]\nfields:\n- {name: ok, type: boolean}\n- name: n\n  type: integer\n"
        "  constraints: {minimum: 1, maximum: 3, required: true}\n"
    )
    schema = Schema.load(path)
    assert schema["ok"].values == ("false", "true")
    assert schema["ok"].missing == ("", "n/a")
    assert schema.domain.sizes == (4, 3)


def test_domain_json(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text('{"a": 2, "b": 3}')
    assert Schema.from_domain_json(path).domain.sizes == (2, 3)


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 0}', '{"a": 1.5}', '{"a": true}', '{"a": "2"}', "{", "{}"])
def test_bad_domain_json(tmp_path, text):
    path = tmp_path / "domain.json"
    path.write_text(text)
    with pytest.raises(SchemaError, match=r"domain\.json"):
        Schema.from_domain_json(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fields: [", "is not YAML"),
        ("[]", "needs the key 'fields'"),
        ("fields: 3", "needs the key 'fields'"),
        ("fields: []", "no columns"),
        ("fields:\n- {type: integer}", "line 2, field 1: every field needs a 'name'"),
        ("fields:\n- {name: a, type: blob}", r"field 1 \('a'\): type is 'blob'. Use one of string"),
        ("fields:\n- {name: a, bins: 3}", "unknown key 'bins'"),
        ("fields:\n- {name: a, dp: {bin: 3}}", r"unknown key 'dp\.bin'"),
        ("fields:\n- {name: a, dp: 3}", "dp is '3'"),
        ("fields:\n- {name: a, type: integer, dp: {bins: few}}", "dp.bins is 'few'. It must be a whole number"),
        ("fields:\n- {name: a, dp: {outside: drop}}", "dp.outside is 'drop'"),
        ("fields:\n- {name: a, constraints: {required: perhaps}}", "required is 'perhaps'"),
        ("fields:\n- {name: a, constraints: {enum: x}}", "enum is 'x'"),
        (
            "fields:\n- name: b\n- name: a\n  type: integer\n  constraints: {minimum: x, maximum: 3}",
            "line 3.*'x' as a bound",
        ),
        ("fields:\n- {name: a}\n- {name: a}", "two columns named 'a'"),
        ("fields:\n- {name: a}\ndp: {version: 9}", "dp.version '9'"),
        ("fields:\n- {name: a}\ncolour: red", "Unknown key 'colour'"),
    ],
)
def test_bad_files_name_field_value_and_remedy(tmp_path, text, message):
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=message):
        Schema.load(path)


def test_unreadable_files(tmp_path):
    with pytest.raises(SchemaError, match="Cannot read"):
        Schema.load(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"fields: \xe9")
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.load(tmp_path / "latin.yaml")


def test_too_many_columns():
    columns = tuple(Categorical(f"c{i}", values=("x",)) for i in range(MAX_COLUMNS + 1))
    with pytest.raises(SchemaError, match="10,001 columns; the limit is 10,000"):
        Schema(columns)


def test_storage_must_agree(schema):
    with pytest.raises(SchemaError, match="stored as int64, but the schema says string"):
        schema.with_storage({"code": "int64"})


def test_the_documented_example_can_be_read(tmp_path):
    text = (EXAMPLES.parent / "docs" / "schema_file.md").read_text()
    (tmp_path / "doc.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    schema = Schema.load(tmp_path / "doc.yaml")
    assert schema.open_facts == {"discharged": ("bounds", "missing"), "patient": ("missing", "repeats")}
    assert len(schema.constraints) == 4
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("field", "outside", "size"),
    [
        ("type: string, constraints: {required: true, enum: [a, b]}", "other", 3),
        ("type: string, constraints: {enum: [a, b]}", "other", 4),
        ("type: string, constraints: {required: true, enum: [a, b]}, dp: {outside: absorb}", "absorb", 2),
        ("type: integer, constraints: {required: true, enum: [1, 2]}", "absorb", 2),
        ("type: boolean, constraints: {required: true}", "absorb", 2),
        ("type: integer, constraints: {required: true, minimum: 0, maximum: 9}", "clamp", 10),
        ("type: number, constraints: {required: true, minimum: 0, maximum: 9}", "clamp", 32),
        ("type: date, constraints: {required: true, minimum: 2024-01-01, maximum: 2024-01-31}", "clamp", 31),
        ('type: string, constraints: {required: true}, dp: {pattern: "####"}', "absorb", 1),
    ],
)
def test_by_default_every_value_has_a_code(tmp_path, field, outside, size):
    path = tmp_path / "s.yaml"
    path.write_text(f"fields:\n- {{name: a, {field}}}\n")
    column = Schema.load(path)["a"]
    assert (column.outside, column.size) == (outside, size)


def test_coded_tables_have_no_more_codes_than_declared():
    assert Schema.from_sizes({"a": 1, "b": 7}).domain.sizes == (1, 7)
