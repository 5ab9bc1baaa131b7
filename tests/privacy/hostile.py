"""Values that nobody expects, and columns of every kind that might meet them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Column, Identifier, Ordinal, Undeclared

TEXTS = (
    "", " ", "?", "NA", "nan", "-nan", "inf", "-inf", "Infinity", "null", "None", "true", "0x10", "1_000", "1,5", "1e5",
    "-0", "-0.0", "+", "-", ".", "e", "1e", "1e308", "-1e308", "1e-320", "1e400", "-1e9999", "1e99999", "9" * 400,
    "0." + "0" * 400 + "1", "18446744073709551615", "-9223372036854775808", "9223372036854775808", "007",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01", "9999-12-31", "0000-00-00", "2024-02-30",
    "10000-01-01", "-0001-01-01", "2024-03-10T23:59:60+00:00", "2024-03-10T12:00:00+23:59", "2024-03-10T12:00:00-2400",
    "0001-01-01T00:00:00Z", "31.12.9999", "00.00.0000", "12/31/9999", "2024-03-31T02:30:00", "24:00",
    "\u0663\u0664", "a\tb", 'say "hi"', "a,b;c|d", "line\nbreak", "=1+1", "<script>", "[/b]", "{{x}}", "%s%n",
    "a\rb", "\r",
    "\u202eabc", "e\u0301", "\ufeff", "\u200b", "\x1b[31m", "\U0001f468\u200d\U0001f469", "other", "\ufffd",
)  # fmt: skip
"""Texts that look like markers, numbers and times, or are long, or are written strangely."""

BYTES = (b"\0", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"12\xff", b"2024-01-01\xff")
"""What may stand in a column of texts of a Parquet file or a frame, though it is no text of a CSV file."""


def csv_texts() -> st.SearchStrategy[str]:
    """Texts that a CSV file can hold."""
    years = st.sampled_from(["0000", "0001", "1970", "2024", "9999"])
    clock = st.sampled_from(["", "T00:00", "T23:59:59", " 12:00:00", "T24:00:00", "T12:00:00.999999"])
    offset = st.sampled_from(["", "Z", "+14:00", "-14:00", "+23:59", "-23:59", "+0000", "-2359"])
    day = st.tuples(years, st.integers(0, 13), st.integers(0, 32)).map(lambda d: f"{d[0]}-{d[1]:02d}-{d[2]:02d}")
    strange = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.one_of(
        st.sampled_from(TEXTS),
        st.from_regex(r"[+-]?[0-9]{0,40}[.,]?[0-9]{0,40}([eE][+-]?[0-9]{1,5})?", fullmatch=True),
        st.tuples(day, clock, offset).map("".join),
        st.text(strange, max_size=30),
        st.floats().map(repr),
    )


def raw_texts() -> st.SearchStrategy[bytes]:
    """Bytes of texts, valid or not."""
    return st.one_of(csv_texts().map(str.encode), st.sampled_from(BYTES), st.binary(max_size=20))


@dataclass(frozen=True)
class Case:
    """A column, its storage type, some ordinary values, and which group of strange values it might meet."""

    name: str
    column: Column
    kind: pa.DataType
    usual: tuple[Any, ...]
    group: str

    def array(self, *more: Any) -> pa.Array:
        """The ordinary values and these."""
        return array_of(self.kind, [*self.usual, *more])


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Arrays by their physical contents, so that nothing checks values on the way: bytes of texts, ticks of times."""
    if pa.types.is_dictionary(kind):
        return array_of(kind.value_type, values).dictionary_encode()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        raw = [value.encode() if isinstance(value, str) else value for value in values]
        large = pa.types.is_large_string(kind)
        stored = pa.array(raw, type=pa.large_binary() if large else pa.binary())
        return pa.Array.from_buffers(kind, len(raw), stored.buffers(), stored.null_count)
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return pa.array(values, type=pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, type=pa.int32()).cast(kind)
    return pa.array(values, type=kind)


def _whole(bits: int, signed: bool = True) -> st.SearchStrategy[int | None]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.none(), st.sampled_from([low, low + 1, 0, high - 1, high]), st.integers(low, high))


def _floats(width: Any = 64) -> st.SearchStrategy[float | None]:
    extremes = [1e308, -1e308, 1e-320, float("inf"), float("-inf"), float("nan"), -0.0, 2.0**62, 2.0**63]
    known = st.sampled_from([x for x in extremes if width == 64 or not np.isfinite(x)])
    return st.one_of(st.none(), known, st.floats(width=width))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    top = 10**precision - 1
    whole = st.one_of(st.sampled_from([-top, -1, 0, 1, top]), st.integers(-top, top))
    return st.one_of(st.none(), whole.map(lambda n: Decimal(n).scaleb(-scale, Context(prec=100))))


DECIMALS = (pa.decimal128(38, 10), pa.decimal128(38, 0), pa.decimal256(76, 2), pa.decimal128(5, -3))
GROUPS: dict[str, st.SearchStrategy[Any]] = {
    "text": raw_texts(),
    "bool": st.sampled_from([None, True, False]),
    **{f"int{bits}": _whole(bits) for bits in (8, 32, 64)},
    **{f"uint{bits}": _whole(bits, signed=False) for bits in (8, 64)},
    **{f"float{width}": _floats(width) for width in (16, 32, 64)},
    **{str(kind): _decimals(kind.precision, kind.scale) for kind in DECIMALS},
}
"""Strange values by how they are stored."""

DAY = 86_400
TIME = "%Y-%m-%dT%H:%M:%S%z"


def _columns_of_text() -> dict[str, tuple[Column, tuple[str, ...]]]:
    moments = ("2024-03-01T12:00:00+00:00", "2024-06-01T12:00:00+02:00")
    days, numbers = ("2024-03-01", "2024-06-01"), ("1.5", "7.25")
    year: dict[str, Any] = {"minimum": "2024-01-01", "maximum": "2024-12-31"}
    return {
        "category": (Categorical("x", ("a", "b"), missing=("?",)), ("a", "b")),
        "category that absorbs": (Categorical("x", ("a", "b"), outside="absorb"), ("a", "b")),
        "ordinal": (Ordinal("x", ("low", "high")), ("low", "high")),
        "integer": (Integer("x", minimum=0, maximum=99, missing=("",)), ("3", "70")),
        "required integer": (Integer("x", minimum=0, maximum=99), ("3", "70")),
        "float": (Continuous("x", minimum=-10, maximum=10), numbers),
        "decimal": (Continuous("x", minimum=-10, maximum=10, decimals=2, bins=8, missing=("NA",)), numbers),
        "comma": (Continuous("x", minimum=-10, maximum=10, decimals=2, bins=8, comma=True), ("1,5", "7,25")),
        "date": (Datetime("x", **year), days),
        "datetime": (Datetime("x", format="%Y-%m-%dT%H:%M:%S", **year), ("2024-03-01T12:00:00", "2024-06-01T00:00:00")),
        "datetime with offset": (Datetime("x", format=TIME, zone="UTC", **year), moments),
        "datetime in Paris": (Datetime("x", format=TIME, zone="Europe/Paris", **year), moments),
        "identifier": (Identifier("x"), ("id-1", "id-2")),
        "person": (Identifier("x", person=True, max_rows=2, repeats=(1, 1)), ("id-1", "id-1")),
        "open person": (Identifier("x", person=True, max_rows=2, provenance={"missing": "open"}), ("id-1", "id-1")),
        "open": (Undeclared("x"), ("a", "b")),
        "open category": (Categorical("x", outside="absorb"), ("a", "b")),
        "open integer": (Integer("x"), ("3", "70")),
        "open decimal": (Continuous("x", decimals=2), numbers),
        "open datetime": (Datetime("x", format=TIME, zone="UTC"), moments),
    }


def _typed_columns() -> dict[str, tuple[Column, pa.DataType, tuple[Any, ...], str]]:
    year: dict[str, Any] = {"minimum": "1970-01-01", "maximum": "1971-12-31"}
    bounds: dict[str, Any] = {"minimum": 0, "maximum": 99}
    found: dict[str, tuple[Column, pa.DataType, tuple[Any, ...], str]] = {
        "bool": (Categorical("x", ("false", "true")), pa.bool_(), (True, False), "bool"),
        "coded": (Categorical("x", ("1", "2")), pa.int8(), (1, 2), "int8"),
        "int dictionary": (Categorical("x"), pa.dictionary(pa.int32(), pa.int64()), (1, 2), "int64"),
        "float dictionary": (Categorical("x"), pa.dictionary(pa.int32(), pa.float64()), (1.0, 2.0), "float64"),
        "date dictionary": (Categorical("x"), pa.dictionary(pa.int32(), pa.date32()), (1, 2), "int32"),
        "time dictionary": (Categorical("x"), pa.dictionary(pa.int32(), pa.timestamp("s")), (1, 2), "int64"),
        "integer person": (Identifier("x", person=True, max_rows=2, repeats=(1, 1)), pa.int64(), (7, 7), "int64"),
        "listed person": (Identifier("x", person=True, max_rows=2), pa.dictionary(pa.int8(), pa.string()), ("i", "i"),
                          "text"),
    }  # fmt: skip
    for bits in (8, 64):
        for signed in (True, False):
            kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
            found[f"integer {kind}"] = (Integer("x", **bounds), kind, (3, 70), str(kind))
            found[f"open integer {kind}"] = (Integer("x"), kind, (3, 70), str(kind))
    for kind, width in ((pa.float16(), 16), (pa.float32(), 32), (pa.float64(), 64)):
        found[f"number {kind}"] = (Continuous("x", **bounds, missing=("",)), kind, (3.0, 70.5), f"float{width}")
        found[f"open number {kind}"] = (Continuous("x", decimals=1), kind, (3.0, 70.5), f"float{width}")
        found[f"integer {kind}"] = (Integer("x", **bounds), kind, (3.0, 70.0), f"float{width}")
    for kind in DECIMALS:
        values = (Decimal(3000), Decimal(70000)) if kind.scale < 0 else (Decimal(3), Decimal(70))
        found[f"number {kind}"] = (Continuous("x", **bounds), kind, values, str(kind))
        found[f"open number {kind}"] = (Continuous("x"), kind, values, str(kind))
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    kinds = [
        (pa.timestamp(unit, tz=zone), tick) for unit, tick in ticks.items() for zone in (None, "Europe/Paris", "-05:30")
    ]
    for kind, tick in [*kinds, (pa.date64(), 1000)]:
        usual = (100 * DAY * tick, 600 * DAY * tick)
        zone = getattr(kind, "tz", None) or ""
        found[f"time {kind}"] = (Datetime("x", resolution="second", zone=zone, **year), kind, usual, "int64")
        found[f"open time {kind}"] = (Datetime("x", resolution="microsecond", zone=zone), kind, usual, "int64")
    found["time date32"] = (Datetime("x", **year), pa.date32(), (100, 600), "int32")
    found["open time date32"] = (Datetime("x"), pa.date32(), (100, 600), "int32")
    return found


def _cases() -> list[Case]:
    found: list[Case] = []
    for name, (column, usual) in _columns_of_text().items():
        for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
            if isinstance(column, Undeclared) and pa.types.is_dictionary(kind):
                continue
            found.append(Case(f"{name} as {kind}", column, kind, usual, "text"))
    for name, (column, kind, usual, group) in _typed_columns().items():
        found.append(Case(name, column, kind, usual, group))
    return found


CASES = _cases()
