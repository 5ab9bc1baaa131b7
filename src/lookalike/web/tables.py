"""The tables that the page offers: files of one folder and nothing outside of it, and tables of databases by address.

A request never names a path. It names a key, which is looked up among the files that a walk of the folder finds, so
that neither `..` nor an absolute path nor a symbolic link leads out of the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lookalike.errors import InputError
from lookalike.inputs import as_ledger, database_file, database_table, is_table_file, table_identity
from lookalike.privacy.ledger import Ledger, default_ledger_path
from lookalike.release import write_page

MAX_DEPTH, MAX_FILES = 4, 2000
"""Levels of folders below the folder that are searched, and files that are looked at."""
SCHEMA_ENDS = (".yaml", ".yml")


class UnknownTableError(InputError):
    """A request names a table that the folder does not have."""


@dataclass(frozen=True, slots=True)
class Place:
    """One table that can be chosen.

    Attributes:
        key: its name in addresses of the page.
        label: its name for people: the path within the folder.
        where: where it is, in plain values for the process of a run; see `orders.py`.
    """

    key: str
    label: str
    where: dict[str, str]

    @property
    def stem(self) -> str:
        """The name of the file up to its first dot, or that of the table of a database, for names of results."""
        if "url" in self.where:
            return "".join(c if c.isalnum() else "-" for c in self.where["table"]) or "table"
        return Path(self.label).name.split(".")[0] or "table"

    @property
    def ledger(self) -> Ledger:
        if "url" in self.where:  # without connecting anew: the database told who it is when it was added
            return Ledger(default_ledger_path(self.where["identity"]), self.where["identity"])
        return as_ledger(None, Path(self.where["file"]))

    @property
    def state(self) -> Path:
        """The folder of drafts and results of this table, beside its ledger."""
        book = self.ledger.path
        if book is None:
            raise InputError(f"{self.label} has no ledger on disk, so the page cannot keep its runs.")
        return book.with_suffix(".page")


class Folder:
    """The folder that the page may read."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"There is no folder {root}. Give the folder that holds the tables.")
        self.root = root.resolve()

    def tables(self) -> list[Place]:
        """All tables of the folder, by name, then those of databases. No file is opened."""
        return [*(self._place(path) for path in self._files() if is_table_file(path)), *self._databases()]

    def table(self, key: str) -> Place:
        for place in self.tables():
            if place.key == key:
                return place
        raise UnknownTableError("There is no such table in the folder. Choose one from the list.")

    def add_database(self, url: str, name: str) -> Place:
        """Remember a table of a database by its address, which holds no password. A database file must be inside."""
        file = database_file(url)
        if file is not None:
            inside = self.root / file
            if not self._inside(inside):
                raise InputError(f"There is no database file {file} in the folder {self.root}. Move it there.")
            url = f"{url.partition(':')[0]}:///{quote(str(inside.resolve()))}"
        identity = table_identity(database_table(url, name))
        if identity is None:
            raise InputError("This database does not say who it is, so its runs could not be remembered.")
        entry = {"url": url, "table": name, "identity": identity}
        known = [other for other in self._known() if other != entry]
        make_folder(self._list.parent)
        write_page(self._list, json.dumps([*known, entry], indent=1))
        return _database(entry)

    @property
    def _list(self) -> Path:
        """The list of databases of this folder, beside the ledgers."""
        return default_ledger_path(str(self.root)).with_suffix(".databases.json")

    def _known(self) -> list[dict[str, str]]:
        try:
            return json.loads(self._list.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []

    def _databases(self) -> list[Place]:
        return [_database(entry) for entry in self._known()]

    def schemas(self) -> dict[str, Path]:
        """The YAML files of the folder, by their paths within it."""
        return {self._label(path): path for path in self._files() if path.suffix.lower() in SCHEMA_ENDS}

    def _place(self, path: Path) -> Place:
        label = self._label(path)
        readable = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.name.split(".")[0])[:30]
        return Place(f"{readable}-{hashlib.sha256(label.encode()).hexdigest()[:10]}", label, {"file": str(path)})

    def _label(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _files(self) -> Iterator[Path]:
        """The files of the folder in order; links are followed only where they stay inside."""
        found = 0
        for where, folders, names in os.walk(self.root):
            depth = len(Path(where).relative_to(self.root).parts)
            folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < MAX_DEPTH else []
            for name in sorted(names):
                path = Path(where) / name
                found += 1
                if found > MAX_FILES:
                    return
                if not name.startswith(".") and self._inside(path):
                    yield path

    def _inside(self, path: Path) -> bool:
        try:
            target = path.resolve(strict=True)
            path.name.encode()
        except (OSError, RuntimeError, ValueError):
            return False
        return target.is_file() and target.is_relative_to(self.root)


def _database(entry: dict[str, str]) -> Place:
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in entry["table"])[:30]
    key = hashlib.sha256(f"{entry['url']} {entry['table']}".encode()).hexdigest()[:10]
    return Place(f"{name}-{key}", f"{entry['table']} ({entry['url'].partition(':')[0]})", entry)


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can open."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot make the folder {path}: {error.strerror}. Change LOOKALIKE_LEDGERS.") from None
