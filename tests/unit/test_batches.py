"""Rows in parts: the same for the same seed, with distinct identifiers; the table of `sample` where one is enough."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import lookalike as la
from lookalike import release as module
from lookalike.errors import InputError
from lookalike.measurements import total_stddev
from lookalike.release import FittedModel
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Identifier
from lookalike.schema.schema import Schema

ROWS = pa.table({"id": range(1000, 1400), "a": ["x", "y"] * 200, "n": list(range(40)) * 10})
SCHEMA = Schema(
    (Identifier("id", pattern="####"), Categorical("a", values=("x", "y"), outside="absorb"), Integer.coded("n", 40))
)


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    return la.synthesize(ROWS, schema=SCHEMA, method="mst", rows=10, insecure_rng=np.random.default_rng(0)).fitted


def test_parts_are_the_same_for_the_same_seed_and_have_distinct_identifiers(fitted: FittedModel) -> None:
    parts = list(fitted.batches(250, 100, seed=4))
    assert [part.num_rows for part in parts] == [100, 100, 50]
    assert pa.concat_tables(fitted.batches(250, 100, seed=4)) == pa.concat_tables(parts)
    assert len(pa.concat_tables(parts).column("id").unique()) == 250
    assert parts[0] != parts[1]


def test_parts_are_the_same_made_alone_in_any_order_elsewhere_and_on_any_number_of_threads(
    fitted: FittedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, wanted = fitted.parts(250, 100, seed=4), list(fitted.batches(250, 100, seed=4))
    monkeypatch.setenv("LOOKALIKE_THREADS", "1")
    elsewhere = pickle.loads(pickle.dumps(parts))
    for number in (2, 0, 1):
        assert elsewhere[number].equals(wanted[number])
    unseeded = fitted.parts(250, 100)
    assert pickle.loads(pickle.dumps(unseeded))[1].equals(unseeded[1])
    assert parts.structure.equals(wanted[0].schema)
    with pytest.raises(IndexError):
        parts[3]


def test_one_part_is_the_sample(fitted: FittedModel) -> None:
    assert next(fitted.batches(50, 100, seed=4)) == fitted.sample_arrow(50, seed=4)
    with pytest.raises(InputError, match="at least 1"):
        next(fitted.batches(50, 0))


def test_a_large_release_is_made_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ROWS", 100)
    monkeypatch.setattr("lookalike.pipeline.CHUNK_ROWS", 100)
    monkeypatch.setattr(FittedModel.batches, "__defaults__", (None, 100))
    release = la.synthesize(ROWS, schema=SCHEMA, method="mst", rows=250, insecure_rng=np.random.default_rng(0))
    assert (release.first.num_rows, release.number_of_rows, release.rows.num_rows) == (100, 250, 250)
    release.write(tmp_path / "t.parquet")
    assert "250" in repr(release)
    assert parquet.read_table(tmp_path / "t.parquet").equals(release.rows)


def test_a_number_of_rows_below_its_noise_gives_as_many_rows_as_the_noise(fitted: FittedModel) -> None:
    """At epsilon 0.01 the number of few rows is often negative; one row would show nothing of the model."""
    assert fitted.rows == round(fitted.model.total)
    noisy = tuple(replace(one, stddev=1e3 * one.stddev) for one in fitted.measurements)
    assert fitted.rows < replace(fitted, measurements=noisy).rows == round(1e3 * total_stddev(fitted.measurements))
    assert replace(fitted, measurements=()).rows == fitted.rows
