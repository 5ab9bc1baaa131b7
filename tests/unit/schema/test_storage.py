"""A first schema from the types of a table alone."""

import pyarrow as pa
import pytest

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Identifier, Undeclared
from lookalike.schema.storage import draft


def test_a_draft_has_names_and_types_only():
    types = pa.schema(
        [
            ("customer_id", pa.int64()), ("text", pa.string()), ("flag", pa.bool_()), ("n", pa.int8()),
            ("f", pa.float32()), ("d", pa.decimal128(9, 2)), ("day", pa.date32()), ("at", pa.timestamp("ms", tz="UTC")),
            ("c", pa.dictionary(pa.int8(), pa.string())), ("nothing", pa.null()),
        ]
    )  # fmt: skip
    schema = draft(types)
    kinds = [Identifier, Undeclared, Categorical, Integer, Continuous, Continuous, Datetime, Datetime]
    assert [type(column) for column in schema.columns] == [*kinds, Categorical, Categorical]
    assert schema["d"].decimals == 2
    assert schema["at"].zone == "UTC"
    assert set(schema.open_facts) == set(schema.names) - {"nothing"}
    assert schema["flag"].open_facts == ("missing",)
    assert type(schema).from_dict(schema.to_dict()) == schema
    with pytest.raises(SchemaError, match="'nested' is stored as list"):
        draft(pa.schema([("nested", pa.list_(pa.int64()))]))
