"""A public table: read and checked before anything is spent, named wherever a run is, and never the private one."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lookalike as la
from lookalike.errors import InputError, LedgerError, SchemaError
from lookalike.privacy.ledger import Ledger
from lookalike.public_table import as_public
from lookalike.resuming import reopen
from lookalike.schema.schema import Schema
from lookalike.statement import differences, schema_faults, statement_of, statement_schema

SIZES = {"a": 3, "b": 3, "c": 4}


def frame(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    return pd.DataFrame({"a": a, "b": (a + (rng.random(rows) < 0.3)) % 3, "c": rng.integers(0, 4, rows)})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    private, public = tmp_path / "private.csv", tmp_path / "public.csv"
    frame(2000, 0).to_csv(private, index=False)
    frame(500, 1).to_csv(public, index=False)
    return private, public


def run(table: Any, public: Any, **more: Any) -> la.Release:
    with pytest.warns(la.LookalikeWarning, match="The public table was"):
        return la.synthesize(table, schema=SIZES, epsilon=0.5, public=public, seed=3, **more)


@pytest.mark.parametrize("method", ["mosaic", "aim", "privmrf", "mst"])
def test_the_door_is_asked_the_same_with_and_without(method: str) -> None:
    arguments: dict[str, Any] = {"schema": SIZES, "epsilon": 0.5, "method": method, "seed": 3}
    noise = [np.random.default_rng(7) for _ in range(2)]
    alone = la.synthesize(frame(2000, 0), insecure_rng=noise[0], **arguments)
    with pytest.warns(la.LookalikeWarning, match="The public table was"):
        beside = la.synthesize(frame(2000, 0), insecure_rng=noise[1], public=frame(500, 1), **arguments)
    assert beside.spent.charges == alone.spent.charges
    for one, two in zip(alone.fitted.measurements, beside.fitted.measurements, strict=True):
        assert one.attrs == two.attrs
        assert np.array_equal(one.values, two.values)


def test_a_biased_table_changes_no_row() -> None:
    arguments: dict[str, Any] = {"schema": SIZES, "epsilon": 3.0, "method": "mosaic", "seed": 3}
    biased = frame(500, 1).assign(b=lambda f: (f.a + 2) % 3)
    alone = la.synthesize(frame(2000, 0), insecure_rng=np.random.default_rng(7), **arguments)
    with pytest.warns(la.LookalikeWarning, match="The public table was not used"):
        beside = la.synthesize(frame(2000, 0), insecure_rng=np.random.default_rng(7), public=biased, **arguments)
    pd.testing.assert_frame_equal(beside.table, alone.table)


def test_it_is_named_in_ledger_statement_report_and_model(files: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = files
    book = Ledger(tmp_path / "l.jsonl", str(private))
    release = run(private, public, ledger=book)
    name = release.spent.public
    assert name.startswith("public.csv, 500 rows, sha256 ")
    assert book.runs()[-1].public == name
    statement = statement_of(release.fitted, book)
    assert statement["public"]["table"] == name
    assert list(schema_faults(statement, statement_schema(), "it")) == []
    release.fitted.save(tmp_path / "m.lookalike")
    stored = la.load(tmp_path / "m.lookalike")
    assert stored.spent.public == name
    assert stored.sample(10).shape == (10, 3)
    assert differences(statement, tmp_path / "l.jsonl", stored) == []
    assert f"A public table was given beside the private one: {name}" in release.report()
    statement["public"]["table"] = ""
    assert [line[:12] for line in differences(statement, tmp_path / "l.jsonl", stored)] == ["public table"] * 2


def test_the_private_table_is_refused_as_public(files: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = files
    link, hard = tmp_path / "link.csv", tmp_path / "hard.csv"
    link.symlink_to(private)
    os.link(private, hard)
    for given in (private, str(private), link, hard, tmp_path / "." / "private.csv"):
        with pytest.raises(InputError, match="is the private table itself"):
            la.synthesize(private, schema=SIZES, public=given)
    folder = tmp_path / "folder"
    folder.mkdir()
    for part in (1, 2):
        frame(100, part).to_parquet(folder / f"part-{part}.parquet")
    for given in (folder / "part-1.parquet", folder / "part-*.parquet", folder):
        for owned in (folder, folder / "*.parquet"):
            with pytest.raises(InputError, match="or a part of it"):
                la.synthesize(owned, schema=SIZES, public=given)
    table = frame(100, 0)
    with pytest.raises(InputError, match="is the private table itself"):
        la.synthesize(table, schema=SIZES, public=table)
    la.synthesize(public, schema=SIZES, method="independent")
    with pytest.raises(InputError, match="has a ledger"):
        la.synthesize(private, schema=SIZES, public=public)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="b"), "lacks 'b'"),
        (lambda f: f.head(0), "has no rows"),
        (lambda f: f.assign(a=9), "does not fit the schema"),
        (lambda f: f.assign(b=[[1]] * len(f)), "does not fit the schema|cannot be read"),
    ],
)
def test_tables_that_do_not_fit_are_refused_before_anything_is_spent(change: Any, message: str) -> None:
    book, schema = Ledger(None, "t"), Schema.from_sizes(SIZES)
    strict = replace(schema, columns=tuple(replace(column, outside="error") for column in schema.columns))
    with pytest.raises(InputError, match=message):
        la.synthesize(frame(100, 0), schema=strict, public=change(frame(50, 1)), ledger=book)
    assert book.runs() == []


def test_further_columns_and_their_order_do_not_matter() -> None:
    schema, plain = Schema.from_sizes(SIZES), frame(50, 1)
    wider = plain[["c", "a", "b"]].assign(more="x")
    texts = {as_public(given, None, schema).text for given in (plain, wider)}
    assert len(texts) == 1
    assert "a table in memory, 50 rows" in texts.pop()


def test_methods_and_generators_that_cannot_use_it_say_so() -> None:
    with pytest.raises(SchemaError, match="independent measures no counts of column sets"):
        la.synthesize(frame(100, 0), schema=SIZES, method="independent", public=frame(50, 1))
    with pytest.raises(SchemaError, match="with a public table"):
        la.synthesize(frame(100, 0), schema=SIZES, generator="gum", public=frame(50, 1))


def test_an_interrupted_run_goes_on_with_the_same_public_table(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = files
    ledger = tmp_path / "l.jsonl"

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lookalike.public_table.PublicTable.fitted", killed)
        with pytest.raises(KeyboardInterrupt):
            la.synthesize(private, schema=SIZES, epsilon=0.5, public=public, ledger=ledger, seed=3)
    (tmp_path / "other.csv").write_text(public.read_text())
    frame(500, 2).to_csv(public, index=False)
    with pytest.raises(LedgerError, match="begun with another public"):
        reopen(private, 1, ledger=ledger)
    public.write_text((tmp_path / "other.csv").read_text())
    release = la.resume(private, ledger=ledger)
    assert release.spent.public.startswith("public.csv, 500 rows")


def test_the_command_names_it_in_its_ledger_line(files: tuple[Path, Path], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from lookalike.cli.main import app

    private, public = files
    domain, out, ledger = tmp_path / "d.json", tmp_path / "out.csv", tmp_path / "l.jsonl"
    domain.write_text(json.dumps(SIZES))
    words = ["synth", private, "--domain", domain, "-o", out, "--public", public, "--ledger", ledger, "-e", "0.5"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert "The public table was" in done.output
    assert len(out.read_text().splitlines()) > 1000
    begun = [json.loads(line) for line in ledger.read_text().splitlines()][1]
    assert begun["public"].startswith("public.csv, 500 rows, sha256 ")
    kept = public.read_text()
    refused = CliRunner().invoke(app, [str(word) for word in [*words[:5], public, *words[6:]]])
    assert refused.exit_code != 0
    assert public.read_text() == kept
