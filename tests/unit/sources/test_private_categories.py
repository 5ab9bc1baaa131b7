"""Categories that were not declared occur in nothing that a run returns or writes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lookalike as la
from lookalike import Independent
from lookalike.privacy.ledger import Ledger
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema
from lookalike.sources.frames import read_structure, read_table

USUAL, UNUSED, LONE = ["Ox", "Rye"] * 300, [f"Zzyzx-{i}" for i in range(200)], "Qwvx-lone"
SECRETS = [*UNUSED, LONE]
DECLARED = Schema((Categorical("town", values=("Ox", "Rye"), outside="other"),))


def pandas_frame() -> Any:
    towns = pd.Categorical([*USUAL, *UNUSED, LONE], categories=[*UNUSED, LONE, "Rye", "Ox"], ordered=True)
    return pd.DataFrame({"town": towns})[lambda frame: ~frame["town"].isin(UNUSED)]


def arrow_pandas_frame() -> pd.DataFrame:
    kind = pd.ArrowDtype(pa.dictionary(pa.int16(), pa.string()))
    return pd.DataFrame({"town": pd.Series(pd.arrays.ArrowExtensionArray(arrow_table().column("town")), dtype=kind)})


def polars_frame() -> pl.DataFrame:
    frame = pl.DataFrame({"town": pl.Series([*UNUSED, *USUAL, LONE], dtype=pl.Categorical)})
    return frame.filter(~pl.col("town").cast(pl.String).is_in(UNUSED))


def arrow_table() -> pa.Table:
    words = [*UNUSED, "Ox", "Rye", LONE]
    codes = pa.array([words.index(town) for town in [*USUAL, LONE]], pa.int16())
    town = pa.field(
        "town", pa.dictionary(pa.int16(), pa.string()), metadata={"seen": LONE, "lookalike.values": '["x"]'}
    )
    schema = pa.schema([town], metadata={"pandas": " ".join(SECRETS)})
    return pa.Table.from_arrays([pa.DictionaryArray.from_arrays(codes, pa.array(words))], schema=schema)


FRAMES = {
    "pandas": pandas_frame,
    "pandas with Arrow types": arrow_pandas_frame,
    "polars": polars_frame,
    "Arrow": arrow_table,
}


def told(data: bytes | str) -> list[str]:
    """The secrets in a text."""
    raw = data.encode() if isinstance(data, str) else data
    return [secret for secret in SECRETS if secret.encode() in raw]


def check_silent(*things: Any) -> None:
    for thing in things:
        html = thing._repr_html_() if hasattr(thing, "_repr_html_") else ""
        for shown in (pickle.dumps(thing), repr(thing), str(thing), html):
            assert not told(shown), f"{type(thing).__name__} tells {told(shown)[:3]}"


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("schema", [None, DECLARED], ids=["discovered", "declared"])
def test_nothing_returned_or_written_holds_a_category(kind: str, schema: Schema | None, tmp_path: Path) -> None:
    frame, ledger = FRAMES[kind](), Ledger(None, "categories")
    release = la.synthesize(frame, schema=schema, method="independent", epsilon=2.0, ledger=ledger)
    form = release.fitted.form
    check_silent(release, release.fitted, release.model, release.plan, release.spent, release.schema, ledger, form)
    check_silent(form.dtypes, read_structure(frame), release.rows, release.rows.schema, release.table)
    assert not told(release.report())
    assert not told(release.schema.to_yaml())
    release.fitted.save(tmp_path / "run.model")
    for name in ("out.csv", "out.parquet", "out.feather"):
        release.write(tmp_path / name)
    for path in tmp_path.iterdir():
        assert not told(path.read_bytes()), path.name


@pytest.mark.parametrize("kind", FRAMES)
def test_an_estimator_holds_no_category(kind: str) -> None:
    check_silent(Independent(epsilon=2.0).fit(FRAMES[kind](), DECLARED))


def test_categories_come_back_as_those_of_the_schema() -> None:
    made = la.synthesize(pandas_frame(), schema=DECLARED, method="independent", epsilon=2.0).table
    assert made["town"].dtype == pd.CategoricalDtype(["Ox", "Rye", "other"], ordered=True)
    found = la.synthesize(pandas_frame(), method="independent", epsilon=2.0).table
    assert set(found["town"].cat.categories) >= {"Ox", "Rye"}
    # Categories that were measured come by how frequent they are: that is no order.
    assert not found["town"].cat.ordered


def test_the_list_of_an_enum_is_public_and_metadata_of_others_is_ignored() -> None:
    listed = pl.DataFrame({"town": pl.Series(["Ox"], dtype=pl.Enum(["Ox", "Rye"]))})
    assert read_structure(listed).field("town").metadata == {b"lookalike.values": b'["Ox", "Rye"]'}
    for types in (read_structure(arrow_table()), read_table(arrow_table())[0].schema):
        assert types.metadata is None
        assert types.field("town").metadata is None
