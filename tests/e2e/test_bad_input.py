"""A user's mistake: one clear message, exit code 2, no traceback, no partial file, no budget lost."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Call

SIZES = {"a": 3, "b": 3, "c": 5, "d": 2}


def no_such_value(table: Path, domain: Path) -> None:
    table.write_text(table.read_text() + "9,0,0,0\n")


def missing_column(table: Path, domain: Path) -> None:
    domain.write_text(json.dumps({**SIZES, "extra": 2}))


def extra_column(table: Path, domain: Path) -> None:
    domain.write_text(json.dumps({name: size for name, size in SIZES.items() if name != "d"}))


def no_bytes(table: Path, domain: Path) -> None:
    table.write_text("")


def broken_quotes(table: Path, domain: Path) -> None:
    table.write_text('a,b,c,d\n"0,0,0,0\n')


def latin_encoding(table: Path, domain: Path) -> None:
    table.write_bytes("a,b,c,d\né,0,0,0\n".encode("latin-1"))


def ragged_rows(table: Path, domain: Path) -> None:
    table.write_text("a,b,c,d\n0,0,0,0\n0,0\n")


def letters_for_codes(table: Path, domain: Path) -> None:
    table.write_text("a,b,c,d\nx,0,0,0\n")


def missing_cell(table: Path, domain: Path) -> None:
    table.write_text("a,b,c,d\n,0,0,0\n")


def no_table(table: Path, domain: Path) -> None:
    table.unlink()


def a_folder(table: Path, domain: Path) -> None:
    table.unlink()
    table.mkdir()


def domain_not_json(table: Path, domain: Path) -> None:
    domain.write_text("a: 3")


def domain_with_zero(table: Path, domain: Path) -> None:
    domain.write_text(json.dumps({**SIZES, "a": 0}))


def a_million_categories(table: Path, domain: Path) -> None:
    domain.write_text(json.dumps({**SIZES, "a": 1_000_000}))


def no_domain(table: Path, domain: Path) -> None:
    domain.unlink()


SPOILERS: list[tuple[Callable[[Path, Path], None], str]] = [
    (missing_column, "'extra'"),
    (extra_column, "'d'"),
    (no_bytes, "empty"),
    (no_table, "no such file"),
    (a_folder, "directory"),
    (domain_not_json, "JSON"),
    (domain_with_zero, "at least 1"),
    (a_million_categories, "100,000"),
    (no_domain, "domain.json"),
]


def check_refusal(call: Call, outcome, message: str, table: Path, out: Path) -> None:
    assert outcome.code == 2
    assert message.lower() in outcome.err.lower()
    assert "Traceback" not in outcome.err
    assert not out.exists()
    assert [path for path in out.parent.iterdir() if "partial" in path.name] == []
    assert json.loads(call("ledger", table, "--json").out)["epsilon"] == 0


@pytest.mark.parametrize(("spoil", "message"), SPOILERS, ids=lambda value: getattr(value, "__name__", None))
def test_bad_tables_and_domains(call: Call, table: Path, domain: Path, tmp_path: Path, spoil, message: str) -> None:
    spoil(table, domain)
    out = tmp_path / "out.csv"
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", out)
    check_refusal(call, outcome, message, table, out)


@pytest.mark.parametrize(
    "spoil", [no_such_value, letters_for_codes, missing_cell, broken_quotes, latin_encoding, ragged_rows]
)
def test_values_outside_the_domain_and_broken_rows_do_not_stop_a_run(
    call: Call, table: Path, domain: Path, tmp_path: Path, spoil
) -> None:
    spoil(table, domain)
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "out.csv")
    assert outcome.code == 0, outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", "0"), "epsilon"),
        (("--epsilon", "-1"), "epsilon"),
        (("--epsilon", "inf"), "epsilon"),
        (("--epsilon", "nan"), "epsilon"),
        (("--epsilon", "two"), "'two' is given; it must be a number"),
        (("--rows", "1.5"), "'1.5' is given; it must be a whole number"),
        (("--delta", "1"), "delta"),
        (("--delta", "0"), "delta"),
        (("--delta", "-0.1"), "delta"),
        (("--method", "magic"), "mst"),
        (("--rows", "0"), "rows"),
        (("--rows", "-3"), "rows"),
        (("--neighbours", "cousins"), "add-remove"),
        (("--max-rows-per-person", "0"), "at least 1"),
        (("--set", "oneway_share"), "NAME=VALUE"),
        (("--set", "oneway_share=2"), "below 1"),
        (("--set", 'oneway_share="x"'), "oneway_share"),
    ],
)
def test_bad_options(call: Call, table: Path, domain: Path, tmp_path: Path, arguments, message: str) -> None:
    out = tmp_path / "out.csv"
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", out, *arguments)
    check_refusal(call, outcome, message, table, out)


@pytest.mark.parametrize("name", ["out.docx", "missing/out.csv", "."])
def test_bad_places_are_refused_before_anything_is_spent(
    call: Call, table: Path, domain: Path, tmp_path: Path, name: str
) -> None:
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / name)
    assert outcome.code == 2
    assert json.loads(call("ledger", table, "--json").out)["runs"] == []


def test_no_write_permission(call: Call, table: Path, domain: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere, so permission is faked
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "out.csv")
    assert outcome.code == 2
    assert "permission" in outcome.err


@pytest.mark.parametrize("rubbish", [b"\x00\x01", b"{}\n", b'{"n":0}\n', b"a,b\n1,2\n"])
def test_a_spoiled_ledger_stops_the_run(call: Call, table: Path, domain: Path, tmp_path: Path, rubbish: bytes) -> None:
    ledger = tmp_path / "l.jsonl"
    run = ("synth", table, "--domain", domain, "--method", "mst", "--ledger", ledger, "-o", tmp_path / "o.csv")
    assert call(*run).code == 0
    (tmp_path / "o.csv").unlink()
    ledger.write_bytes(rubbish)
    outcome = call(*run)
    assert outcome.code == 2
    assert "backup" in outcome.err
    assert not (tmp_path / "o.csv").exists()


def test_the_ledger_of_another_table_is_refused(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    ledger, other = tmp_path / "l.jsonl", tmp_path / "other.csv"
    other.write_text(table.read_text())
    rest = ("--domain", domain, "--method", "mst", "--ledger", ledger, "-o", tmp_path / "o.csv")
    assert call("synth", table, *rest).code == 0
    outcome = call("synth", other, *rest)
    assert outcome.code == 2
    assert "belongs to" in outcome.err


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"plain text"])
def test_bad_model_files(call: Call, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.lookalike").write_bytes(content)
    outcome = call("sample", tmp_path / "m.lookalike", "-o", tmp_path / "o.csv")
    assert outcome.code == 2
    assert "not a lookalike model" in outcome.err


def test_no_model_file(call: Call, tmp_path: Path) -> None:
    outcome = call("sample", tmp_path / "m.lookalike", "-o", tmp_path / "o.csv")
    assert (outcome.code, "There is no model file" in outcome.err) == (2, True)


@pytest.mark.parametrize("limit", [200, 5000])
def test_a_full_disk_leaves_no_partial_file_and_no_traceback(
    table: Path, domain: Path, tmp_path: Path, limit: int
) -> None:
    """A limit on file sizes stands for a full disk: at 200 bytes the ledger cannot be written, at 5000 the table."""
    out = tmp_path / "out" / "o.csv"
    out.parent.mkdir()
    command = [sys.executable, "-m", "lookalike", "synth", table, "--domain", domain, "-m", "mst", "-o", out]
    environment = {**os.environ, "LOOKALIKE_LEDGERS": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    rows = ["--rows", "5000"]
    done = subprocess.run(
        [*command, *rows], capture_output=True, text=True, env=environment, check=False, preexec_fn=small_disk
    )
    assert done.returncode == 2, done.stderr
    assert "Cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(out.parent.iterdir()) == []


def test_a_table_that_cannot_be_written_leaves_its_model(
    call: Call, table: Path, domain: Path, tmp_path: Path, monkeypatch
) -> None:
    from lookalike import release

    real = release.write_tables
    monkeypatch.setattr(release, "write_tables", lambda *args, **kwargs: real(args[0], tmp_path / "gone" / "x.csv"))
    outcome = call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "o.csv")
    assert outcome.code == 2
    monkeypatch.undo()
    kept = outcome.err.split("saved as ")[1].split(". Make")[0].replace("\n", "")
    assert call("sample", kept, "-o", tmp_path / "o.csv").code == 0


@pytest.mark.parametrize("rows", ["0,0,0,0", "0,0,0,0\n" * 50])
def test_one_row_and_constant_columns_work(call: Call, table: Path, domain: Path, tmp_path: Path, rows: str) -> None:
    table.write_text("a,b,c,d\n" + rows.rstrip("\n") + "\n")
    assert call("synth", table, "--domain", domain, "--method", "mst", "-o", tmp_path / "o.csv").code == 0


def test_one_column_works(call: Call, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n" + "0\n1\n" * 100)
    (tmp_path / "d.json").write_text('{"a": 2}')
    made = call("synth", tmp_path / "t.csv", "--domain", tmp_path / "d.json", "-m", "mst", "-o", tmp_path / "o.csv")
    assert made.code == 0


def test_a_column_that_is_always_missing_stays_so(call: Call, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "x,\n" * 300)
    (tmp_path / "s.yaml").write_text(
        "fields:\n  - {name: a, type: string, constraints: {enum: [x, y]}}\n"
        "  - {name: b, type: integer, constraints: {minimum: 0, maximum: 9}}\n"
    )
    out = tmp_path / "o.csv"
    outcome = call("synth", tmp_path / "t.csv", "--schema", tmp_path / "s.yaml", "-e", 10, "-m", "mst", "-o", out)
    assert outcome.code == 0, outcome.err
    cells = [line.split(",")[1] for line in out.read_text().splitlines()[1:]]
    assert cells.count("") > 0.9 * len(cells)
