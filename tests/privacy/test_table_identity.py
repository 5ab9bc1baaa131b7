"""Spending belongs to a file, by whichever name it is opened, and to no other file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lookalike as la
from lookalike.inputs import as_ledger, database_table, table_identity

SIZES = {"a": 2, "b": 2}


class Place:
    """A path that is none of Python's own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two folders with a file of the same name and the same content each; the first is the current one."""
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.csv").write_text("a,b\n0,1\n1,0\n")
    monkeypatch.chdir(tmp_path / "one")
    return tmp_path / "one", tmp_path / "two"


def spend(table: object) -> None:
    la.synthesize(table, schema=SIZES, epsilon=0.5, method="independent")


def spent(table: object) -> float:
    return as_ledger(None, table).spent()[0]


def test_files_of_the_same_name_have_ledgers_of_their_own(folders: tuple[Path, Path]) -> None:
    one, two = (folder / "x.csv" for folder in folders)
    assert table_identity(one) != table_identity(two)
    spend(one)
    assert spent(one) == pytest.approx(0.5)
    assert spent(two) == 0
    as_ledger(None, one).set_cap(0.6)
    assert as_ledger(None, two).cap is None
    spend(two)
    assert spent(one) == spent(two) == pytest.approx(0.5)


def test_all_names_of_a_file_have_one_ledger(folders: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = folders
    (two / "link.csv").symlink_to(one / "x.csv")
    (tmp_path / "folder").symlink_to(one, target_is_directory=True)
    names = ["x.csv", "./x.csv", "../one/x.csv", Path("x.csv"), one / "x.csv", str(one / "x.csv"), two / "link.csv"]
    names += [
        two / ".." / "one" / "x.csv",
        tmp_path / "folder" / "x.csv",
        os.path.relpath(one / "x.csv"),
        Place(one / "x.csv"),
    ]
    assert {table_identity(name) for name in names} == {str((one / "x.csv").resolve())}
    for name in ("x.csv", two / "link.csv", Place(one / "x.csv")):
        spend(name)
    assert [spent(name) for name in names] == pytest.approx([1.5] * len(names))
    assert table_identity(two / "link.csv") != table_identity(two / "x.csv")


def test_a_name_with_a_tilde_is_the_file_that_is_read(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python opens `~/x.csv` in a folder named `~`: that file's ledger is meant, not the one of the home folder."""
    monkeypatch.setenv("HOME", str(folders[1]))
    assert table_identity("~/x.csv") == str((folders[0] / "~" / "x.csv").resolve())


def test_a_frame_in_memory_has_no_identity() -> None:
    assert table_identity({"a": [1]}) is None
    assert as_ledger(None, {"a": [1]}).path is None


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_ledger_belongs_to_one_table_of_a_database_by_whichever_path(tmp_path: Path, kind: str) -> None:
    """Plants: all tables of a database share a ledger; a link to a database has ledgers of its own."""
    library = pytest.importorskip("sqlite3" if kind == "sqlite" else "duckdb")
    for name in ("one.db", "two.db"):
        connection = library.connect(str(tmp_path / name))
        for table in ("people", "visits"):
            connection.execute(f"CREATE TABLE {table} (a INTEGER)")
        connection.commit()
        connection.close()
    (tmp_path / "link.db").symlink_to(tmp_path / "one.db")

    def identity(name: str, table: str) -> str | None:
        return table_identity(database_table(f"{kind}:///{tmp_path / name}", table))

    every = [identity(name, table) for name in ("one.db", "two.db") for table in ("people", "visits")]
    assert len(set(every)) == 4
    assert identity("link.db", "people") == identity("./one.db", "PEOPLE") == every[0]
