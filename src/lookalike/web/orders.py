"""What the user of the page asks for, in plain values: it goes to the process of the run, and into a script.

Nothing in an order comes from rows: it holds names of columns and what was typed.
"""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from lookalike.discovery.discover import Discovery
from lookalike.errors import BudgetError
from lookalike.inputs import database_table, table_at
from lookalike.pipeline import Making, PreparedRun, prepare
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS, settings_of

ENDS = (".csv", ".tsv", ".parquet", ".feather", ".jsonl", ".xlsx")
"""Formats in which the page writes synthetic tables."""

Where = Mapping[str, str]
"""Where a table is, in plain values: `file`, a path; or `url` and `table` of a database."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the file of a table is read."""

    encoding: str = "utf-8"
    delimiter: str = ""
    dropped: tuple[str, ...] = ()

    def table(self, where: Where) -> Any:
        """The table with how to read it, as the pipeline takes it."""
        return opened(where, self)


def reading_of(table: Any) -> Reading:
    """How a table that `opened` gave is read."""
    return Reading(getattr(table, "encoding", "utf-8"), getattr(table, "delimiter", None) or "", tuple(table.dropped))


def opened(where: Where, reading: Reading | None = None) -> Any:
    """The table at a place, as the pipeline takes it. Nothing of it is read yet."""
    reading = reading or Reading()
    if "url" in where:
        return database_table(where["url"], where["table"], tuple(reading.dropped))
    mark = "\t" if reading.delimiter in ("tab", "\\t") else reading.delimiter or None
    return table_at(where["file"], encoding=reading.encoding, delimiter=mark, dropped=tuple(reading.dropped))


@dataclass(frozen=True, slots=True)
class Order:
    """One run as it was asked for; see `synthesize` for what the values mean."""

    schema: dict[str, Any]
    reading: Reading = field(default_factory=Reading)
    epsilon: float = 1.0
    delta: float = 1e-5
    method: str = "auto"
    relation: str = "add-remove"
    max_rows: int = 1
    person: str | None = None
    rules: bool | None = None
    strict: bool = False
    rows: int | None = None
    end: str = ".csv"
    about: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise BudgetError(f"There is no method {self.method!r}. Choose one from the list.")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Order:
        reading = values["reading"]
        kept = Reading(reading["encoding"], reading["delimiter"], tuple(reading["dropped"]))
        return cls(**{**values, "reading": kept})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours(cast(Any, self.relation), self.max_rows)

    def prepared(self, where: Where) -> PreparedRun:
        """The run, prepared from public facts alone: no row is read."""
        return prepare(
            self.reading.table(where),
            schema=Schema.from_dict(self.schema),
            epsilon=self.epsilon,
            delta=self.delta,
            method=self.method,
            neighbours=self.neighbours,
            person=self.person,
            discovery=Discovery(rules=self.rules, strict=self.strict),
        )


_SCRIPT = '''"""Repeats a run of lookalike with fresh noise: it is a new run, and spends its epsilon again.

    python {name} TABLE synthetic{end}
"""

import sys

import lookalike
from lookalike.discovery.discover import Discovery
from lookalike.inputs import database_table, table_at
from lookalike.privacy.kernel.accounting import Neighbours

SCHEMA = {schema}

release = lookalike.synthesize(
    {table},
    schema=SCHEMA,
    epsilon={epsilon!r},
    delta={delta!r},
    method={method!r},
    neighbours={neighbours!r},
    discovery={discovery!r},
    rows={rows!r},
    generator={generator!r},{settings}
)
release.write(sys.argv[2])
sys.stdout.write(f"{{release!r}}\\n")
'''


def script_of(run: PreparedRun, making: Making, *, name: str, end: str) -> str:
    """The text of a Python script that repeats a run. The schema is the one the run began with: what was declared."""
    file = run.table
    table = f"table_at(sys.argv[1], encoding={getattr(file, 'encoding', '')!r}, "
    table += f"delimiter={getattr(file, 'delimiter', None)!r}, dropped={file.dropped!r})"
    if not hasattr(file, "encoding"):
        table = f"database_table(sys.argv[1], {file.name!r}, {file.dropped!r})"
    settings = "".join(f"\n    {key}={value!r}," for key, value in settings_of(run.method).items())
    return _SCRIPT.format(
        name=name,
        end=end,
        schema=pprint.pformat(run.schema.to_dict(), width=110, sort_dicts=False),
        table=table,
        epsilon=run.budget.epsilon,
        delta=run.delta,
        method=run.method.name,
        neighbours=run.neighbours,
        discovery=run.search,
        rows=making.rows,
        generator=making.generator,
        settings=settings,
    )
