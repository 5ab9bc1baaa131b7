"""Laws of the codec: codes survive decoding and encoding, values survive up to binning, for every kind and storage."""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.codec import bind, encode
from lookalike.schema.columns import Categorical, Ordinal
from lookalike.schema.decode import decode
from lookalike.schema.schema import Schema

MARKERS = st.sampled_from([(), ("",), ("?",), ("", "NA"), ("?", "", "none")])
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=5
)


@st.composite
def categorical(draw, name):
    values = draw(
        st.lists(TEXTS.filter(lambda text: text not in ("?", "NA", "none")), min_size=1, max_size=6, unique=True)
    )
    kind = draw(st.sampled_from([Categorical, Ordinal]))
    other = draw(st.booleans()) and "other" not in values
    storage = draw(st.sampled_from(["string", "large_string", "dictionary<values=string, indices=int16, ordered=0>"]))
    return kind(
        name, values=tuple(values), missing=draw(MARKERS), outside="other" if other else "error", storage=storage
    )


@st.composite
def integer(draw, name):
    low = draw(st.integers(-(10**6), 10**6))
    high = low + draw(st.integers(0, 10**5))
    storage = draw(st.sampled_from(["string", "int64", "int32", "double"]))
    markers = draw(MARKERS) if storage == "string" else draw(st.sampled_from([(), ("",)]))
    return Integer(
        name, minimum=low, maximum=high, bins=draw(st.integers(1, 50)), width=draw(st.sampled_from([0, 4])),
        missing=markers, storage=storage, outside=draw(st.sampled_from(["error", "clamp"])),
    )  # fmt: skip


@st.composite
def continuous(draw, name):
    decimals = draw(st.one_of(st.none(), st.integers(0, 4)))
    scale = 10 ** (decimals or 0)
    low = draw(st.integers(-(10**6), 10**6))
    high = low + draw(st.integers(1, 10**6))
    storage = draw(st.sampled_from(["string", "double"]))
    markers = draw(MARKERS) if storage == "string" else draw(st.sampled_from([(), ("",)]))
    return Continuous(
        name, minimum=low / scale, maximum=high / scale, bins=draw(st.integers(1, 40)), decimals=decimals,
        missing=markers, storage=storage,
    )  # fmt: skip


@st.composite
def times(draw, name):
    low = draw(st.dates(date(1900, 1, 1), date(2100, 1, 1)))
    high = low + timedelta(days=draw(st.integers(0, 4000)))
    format, storage = draw(
        st.sampled_from(
            [("%Y-%m-%d", "string"), ("%d.%m.%Y", "string"), ("%Y-%m-%d", "date32[day]"), ("%Y-%m-%d", "timestamp[us]"),
             ("%Y-%m-%dT%H:%M:%S", "string"), ("%b %d %Y %H:%M", "string"),
             ("%Y-%m-%d %H:%M:%S", "timestamp[ms, tz=UTC]")]
        )
    )  # fmt: skip
    markers = draw(MARKERS) if storage == "string" else draw(st.sampled_from([(), ("",)]))
    bins = draw(st.sampled_from([1, 7, 40, "month", "year"]))
    return Datetime(name, minimum=low, maximum=high, bins=bins, format=format, storage=storage, missing=markers)


@st.composite
def schemas(draw):
    kinds = [categorical, integer, continuous, times]
    number = draw(st.integers(1, 4))
    return Schema(tuple(draw(draw(st.sampled_from(kinds))(f"column {i}")) for i in range(number)))


def draw_codes(schema, seed, rows=40):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, column.size, rows) for column in schema.columns])


@settings(deadline=None, max_examples=80)
@given(schemas(), st.integers(0, 2**32))
def test_codes_survive_decoding_and_encoding(schema, seed):
    codes = draw_codes(schema, seed)
    table = decode(schema, codes, rng=np.random.default_rng(seed))
    assert [str(kind) for kind in table.schema.types] == [column.storage for column in schema.columns]
    assert np.array_equal(encode(schema, table), codes)


@settings(deadline=None, max_examples=60)
@given(schemas(), st.integers(0, 2**32))
def test_values_survive_up_to_binning(schema, seed):
    """Categories and missing markers come back as they were; numbers and times come back in the same bin."""
    table = decode(schema, draw_codes(schema, seed), rng=np.random.default_rng(seed))
    codes = encode(schema, table)
    again = decode(schema, codes, rng=np.random.default_rng(seed + 1))
    for i, column in enumerate(schema.columns):
        kept = np.full(len(codes), True) if isinstance(column, Categorical) else codes[:, i] >= column.regular
        one, two = (pa.array(frame.column(column.name).to_pylist()).filter(pa.array(kept)) for frame in (table, again))
        assert one.equals(two)
    assert np.array_equal(encode(schema, again), codes)


@settings(deadline=None, max_examples=60)
@given(schemas())
def test_a_schema_survives_its_own_description(schema):
    again = Schema.from_dict(schema.to_dict())
    assert again == schema
    assert again.fingerprint() == schema.fingerprint()
    bound = bind(again, pa.schema([(c.name, t) for c, t in zip(again.columns, decode_types(again), strict=True)]))
    assert bound == again


def decode_types(schema):
    return decode(schema, draw_codes(schema, 0, rows=1), rng=np.random.default_rng(0)).schema.types


@settings(deadline=None, max_examples=40)
@given(st.data(), st.integers(0, 2**32))
def test_codes_survive_any_shape_and_rounding(data, seed):
    """Shapes and rounding choose values within a bin; they never move one into another bin."""
    high = data.draw(st.integers(1, 3000))
    cuts = data.draw(st.lists(st.integers(1, high), max_size=20, unique=True))
    edges = sorted({0, *cuts})
    bins = sorted({0, *data.draw(st.lists(st.sampled_from(edges), max_size=6))})
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 7.0]), min_size=len(edges), max_size=len(edges)))
    steps = data.draw(st.lists(st.sampled_from([1, 5, 10, 50, 100]), min_size=1, max_size=3, unique=True))
    shared = {"rounding": tuple((step, 1.0) for step in steps), "storage": "string"}
    shape = tuple(zip(edges, weights, strict=True))
    tenths = tuple((edge / 10, weight) for edge, weight in shape)
    schema = Schema(
        (
            Integer("whole", minimum=0, maximum=high, bins=bins, shape=shape, **shared),
            Continuous(
                "tenths", minimum=0, maximum=high / 10, bins=[b / 10 for b in bins], shape=tenths, decimals=1, **shared
            ),
        )
    )
    codes = draw_codes(schema, seed)
    table = decode(schema, codes, rng=np.random.default_rng(seed))
    assert np.array_equal(encode(schema, table), codes)
    assert Schema.from_dict(schema.to_dict()) == schema
