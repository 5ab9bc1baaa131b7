from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import InputError, OutOfDomainError, SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import bind, encode, encode_column
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.decode import decode, decode_column
from lookalike.schema.probes import person_numbers
from lookalike.schema.schema import Schema

SECRET = "SECRET"


def roundtrip(column, array):
    """Codes of the array, and the array decoded from them in the same storage type."""
    column = bind(Schema((column,)), pa.schema([(column.name, array.type)])).columns[0]
    codes = encode_column(column, array)
    back = decode_column(column, codes, rng=np.random.default_rng(0))
    assert back.type == array.type
    assert np.array_equal(encode_column(column, back), codes)
    return codes.tolist(), back


@pytest.mark.parametrize(
    ("column", "array"),
    [
        (Integer("x", minimum=-5, maximum=40, bins=46), pa.array(["-5", "0", "40"])),
        (Integer("x", minimum=0, maximum=99, bins=100, width=3), pa.array(["007", "042", "099"])),
        (Integer("x", minimum=0, maximum=9, bins=10), pa.array([1, 2, 9], pa.int8())),
        (Integer("x", minimum=0, maximum=9, bins=10, missing=("",)), pa.array([1.0, None, 9.0])),
        (Integer("x", minimum=0, maximum=9, bins=10, missing=("", "-1")), pa.array([1, -1, None], pa.int32())),
        (Integer("x", minimum=0, maximum=9, bins=10, missing=("?", "NA")), pa.array(["?", "NA", "3"])),
        (Integer("x", minimum=0, maximum=9, bins=10), pa.array(["3", "4"]).dictionary_encode()),
        (Integer("x", minimum=0, maximum=200, bins=201), pa.array([200, 0], pa.uint8())),
        (Continuous("x", minimum=0, maximum=1, decimals=1, bins=11), pa.array(["0.0", "0.3", "0.5"])),
        (Continuous("x", minimum=0, maximum=1, decimals=1, bins=11), pa.array([0.0, 0.3, 0.5], pa.float32())),
        (Continuous("x", minimum=0, maximum=1, decimals=1, bins=11), pa.array([Decimal("0.3")], pa.decimal128(5, 2))),
        (Continuous("x", minimum=0, maximum=5, decimals=0, bins=6, missing=("",)), pa.array(["3", None])),
        (Datetime("x", minimum="2024-01-01", maximum="2024-01-31", bins=31), pa.array(["2024-01-01", "2024-01-31"])),
        (
            Datetime("x", minimum="2024-01-01", maximum="2024-01-31", bins=31),
            pa.array([date(2024, 1, 5), date(2024, 1, 31)]),
        ),
        (
            Datetime("x", minimum="2024-01-01", maximum="2024-01-31", bins=31),
            pa.array([datetime(2024, 1, 5)], pa.timestamp("ns")),
        ),
        (
            Datetime("x", minimum="2024-07-01", maximum="2024-07-31", bins=31, resolution="day"),
            pa.array([datetime(2024, 7, 4, 22, tzinfo=UTC)], pa.timestamp("ms", tz="Europe/Paris")),
        ),
        (
            Datetime(
                "x", minimum="2024-07-01T00:00", maximum="2024-07-01T23:59", bins=1440, format="%d/%m/%y %I:%M %p"
            ),
            pa.array(["01/07/24 03:07 PM", "01/07/24 12:00 AM"]),
        ),
        (
            Datetime(
                "x",
                minimum="2024-07-01T00:00",
                maximum="2024-07-01T23:59",
                bins=1440,
                format="%Y-%m-%dT%H:%M%z",
                zone="+02:00",
            ),
            pa.array(["2024-07-01T15:07+0200"]),
        ),
        (
            Categorical("x", values=("a,b", 'say "hi"', "007", "ü"), missing=("?",)),
            pa.array(["ü", 'say "hi"', "?", "a,b"]),
        ),
        (Categorical("x", values=("true", "false"), missing=("",)), pa.array([True, None, False])),
        (Categorical("x", values=(1, 2, 9)), pa.array([9, 1], pa.int16())),
        (Categorical("x", values=("1.0", "2.5"), missing=("",)), pa.array([2.5, None, 1.0])),
        (Categorical("x", values=("2024-01-01", "2024-02-01")), pa.array([date(2024, 2, 1)])),
        (Categorical("x", values=("a", "b")), pa.array(["b"], pa.large_string())),
        (Categorical("x", values=("a", "b")), pa.array(["b"], pa.string_view())),
        (Categorical("x", values=("a", "b"), missing=("",)), pa.array(["b", None, "a"]).dictionary_encode()),
        (Categorical("x", values=("a", "b"), missing=("?",)), pa.array(["b", "?"]).dictionary_encode()),
        (Categorical("x", values=("a",), missing=("",)), pa.nulls(3)),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else type(value).__name__,
)
def test_values_come_back_as_they_were(column, array):
    _, back = roundtrip(column, array)
    assert back.to_pylist() == array.to_pylist()


def test_values_within_a_bin_stay_on_the_grid_and_fill_it():
    column = Continuous("x", minimum=0, maximum=1, decimals=2, bins=2, storage="string")
    texts = decode_column(column, np.zeros(5000, dtype=int), rng=np.random.default_rng(0)).to_pylist()
    assert set(texts) == {f"{i / 100:.2f}" for i in range(50)}


def test_whitespace_and_signs_are_read_as_numbers():
    assert encode_column(
        Integer("x", minimum=-9, maximum=9, bins=19), pa.array([" 4", "+4", "-4 ", "4.0"])
    ).tolist() == [13, 13, 5, 13]


def test_clamp_takes_any_number_and_sends_other_texts_to_missing():
    column = Integer("x", minimum=0, maximum=9, bins=10, outside="clamp", missing=("",))
    texts = ["-7", "12", "9" * 40, "-1e300", "1e999", "abc", "nan", "3.5"]
    assert encode_column(column, pa.array(texts)).tolist() == [0, 9, 9, 0, 9, 10, 10, 10]
    times = Datetime("x", minimum="2024-01-01", maximum="2024-01-31", bins=31, outside="clamp", missing=("",))
    assert encode_column(times, pa.array(["1066-10-14", "9999-12-31", "soon"])).tolist() == [0, 30, 31]
    floats = Continuous("x", minimum=0, maximum=1, bins=2, outside="clamp", missing=("",))
    assert encode_column(floats, pa.array([float("inf"), float("-inf"), float("nan"), None])).tolist() == [1, 0, 2, 2]


@pytest.mark.parametrize(
    ("text", "value", "code"),
    [
        ("number 1, before year 1", "0001-01-01T00:00:00+14:00", 0),
        ("number 2, after year 9999", "9999-12-31T23:59:59-14:00", 11),
        ("inside", "2024-06-15T12:00:00+02:00", 5),
        ("no time", "2024-06-15", 6),
    ],
)
def test_times_that_no_calendar_holds_are_clamped(text, value, code):
    column = Datetime(
        "x", format="%Y-%m-%dT%H:%M:%S%z", zone="UTC", minimum="2024-01-01", maximum="2024-12-31", bins="month"
    )
    assert encode_column(column, pa.array([value])).tolist() == [code], text


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_timestamps_at_the_ends_of_64_bits_are_clamped_and_do_not_wrap_around(unit, zone):
    column = Datetime("x", minimum="1960-01-01", maximum="1980-12-31", bins=21, resolution="day", zone=zone or "")
    ends = pa.array([2**63 - 1, -(2**63)], pa.int64()).cast(pa.timestamp(unit, tz=zone))
    assert encode_column(column, ends).tolist() == [20, 0]


def test_a_catch_all_that_the_storage_cannot_hold_absorbs():
    types = pa.schema([("x", pa.int64())])
    column = Categorical("x", values=("1", "2"))
    bound = bind(Schema((column,)), types)["x"]
    assert (column.size, bound.size, bound.outside) == (3, 2, "absorb")
    assert encode_column(bound, pa.array([2, 7, None])).tolist() == [1, 0, 0]
    labelled = bind(Schema((replace(column, other_label="-1"),)), types)["x"]
    assert (labelled.size, labelled.outside) == (3, "other")
    full = Categorical("x", values=tuple(str(i) for i in range(128)))
    assert bind(Schema((full,)), pa.schema([("x", pa.dictionary(pa.int8(), pa.string()))]))["x"].size == 128


def test_a_dictionary_that_lists_a_person_twice_names_one_person():
    people = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3]), pa.array(["a", "b", "a", None]))
    assert person_numbers(Identifier("who", person=True), people).tolist() == [0, 1, 0, 2, 3]


def test_other_takes_unknown_categories():
    column = Categorical("x", values=("a",), outside="other", other_label="z", missing=("",))
    codes, back = roundtrip(column, pa.array(["a", "new", None]))
    assert codes == [0, 1, 2]
    assert back.to_pylist() == ["a", "z", None]


@pytest.mark.parametrize(
    ("column", "array"),
    [
        (Categorical("x", values=("a",)), pa.array(["a", SECRET])),
        (Categorical("x", values=("a",)), pa.array(["a", None])),
        (Integer("x", minimum=0, maximum=9), pa.array(["3", SECRET])),
        (Integer("x", minimum=0, maximum=9), pa.array(["3", "123456789"])),
        (Integer("x", minimum=0, maximum=9), pa.array([3, 123456789])),
        (Integer("x", minimum=0, maximum=9), pa.array([SECRET])),
        (Integer("x", minimum=0, maximum=9), pa.array([3, None])),
        (Integer("x", minimum=0, maximum=9), pa.array([3.5])),
        (Continuous("x", minimum=0, maximum=1), pa.array([123456789.0])),
        (Datetime("x", minimum="2024-01-01", maximum="2024-01-31"), pa.array(["2024-02-01"])),
        (Datetime("x", minimum="2024-01-01", maximum="2024-01-31"), pa.array([SECRET])),
    ],
)
def test_values_outside_have_a_code_or_are_refused_without_showing_them(column, array):
    assert encode_column(column, array).max() < column.size
    with pytest.raises(OutOfDomainError, match="Column 'x'") as caught:
        encode_column(replace(column, outside="error"), array)
    assert SECRET not in str(caught.value)
    assert "123456789" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Integer("x", minimum=0, maximum=9), pa.bool_()),
        (Integer("x", minimum=0, maximum=9), pa.list_(pa.int64())),
        (Datetime("x"), pa.int64()),
        (Categorical("x", values=("a",)), pa.binary()),
        (Categorical("x", values=("a",)), pa.null()),
        (Integer("x", minimum=0, maximum=9), pa.time32("s")),
    ],
)
def test_storage_that_cannot_hold_the_kind(column, kind):
    with pytest.raises(SchemaError, match=r"stored as|No storage type"):
        bind(Schema((column,)), pa.schema([("x", kind)]))


def test_schema_values_must_fit_the_storage():
    with pytest.raises(SchemaError, match="lists a value"):
        encode_column(Categorical("x", values=("a",)), pa.array([1]))
    column = Integer("x", minimum=0, maximum=999, bins=1, storage="int8")
    with pytest.raises(SchemaError, match="cannot hold all values"):
        decode_column(column, np.zeros(100, dtype=int), rng=np.random.default_rng(0))


def test_missing_and_extra_columns():
    schema = Schema((Integer.coded("a", 2), Integer.coded("b", 2)))
    with pytest.raises(InputError, match="lacks 1 column: 'b'"):
        encode(schema, pa.table({"a": [0]}))
    with pytest.raises(InputError, match="does not describe 1 column: 'c'"):
        encode(schema, pa.table({"a": [0], "b": [0], "c": [0]}))


def test_column_order_is_that_of_the_schema_and_codes_are_fortran():
    schema = Schema((Integer.coded("a", 9), Integer.coded("b", 9)))
    codes = encode(schema, pa.table({"b": [1, 2], "a": [3, 4]}))
    assert codes.tolist() == [[3, 1], [4, 2]]
    assert codes.dtype == np.int32
    assert codes.flags.f_contiguous


def test_same_generator_same_table():
    schema = Schema((Integer("a", minimum=0, maximum=999, bins=2),))
    codes = np.zeros((50, 1), dtype=np.int32)
    one, two = (decode(schema, codes, rng=np.random.default_rng(7)) for _ in range(2))
    assert one.equals(two)


def test_short_floats_get_the_bin_of_the_number_that_they_are_written_as():
    column = Continuous("x", minimum=0, maximum=1, decimals=1, bins=10)
    tenths = np.arange(11) / 10
    expected = [*range(10), 9]
    assert encode_column(column, pa.array(tenths, pa.float32())).tolist() == expected
    assert encode_column(column, pa.array(tenths)).tolist() == expected
