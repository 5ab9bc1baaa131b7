"""Engines over tables of databases: only aggregated counts leave them.

`InProcessTable` is for DuckDB and SQLite, which run inside this process: the codec and the counts are functions that
the engine calls, and a statement returns one zero. `ServerTable` is for PostgreSQL: codes and counts are expressions of
SQL, and a statement returns the counts of the cells of a column set. No statement returns a row of the table.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError
from lookalike.schema.binned import Integer
from lookalike.schema.codec import encode_columns
from lookalike.schema.columns import Categorical, Column, Identifier
from lookalike.schema.domain import ColumnSet
from lookalike.schema.probes import RowProbe, RowsPerPerson, missing_texts
from lookalike.schema.storage import is_text
from lookalike.sources.base import LEAST_COUNT, Counts, Keep, Scanner, View
from lookalike.sources.counting import Tally, text_counts
from lookalike.sources.frames import TableForm
from lookalike.sources.sql.connections import DuckDB, Postgres, SQLite
from lookalike.sources.sql.expressions import code_of
from lookalike.sources.sql.functions import stream
from lookalike.sources.sql.row_expressions import row_code
from lookalike.sources.sql.sessions import Field, Session, literal, quoted

if TYPE_CHECKING:
    from lookalike.sources.databases import DatabaseTable

MAX_CELLS = 1 << 16
"""Cells of the widest set that is counted in order to sum it down."""
_PERSON, _RANK, _REPEATS = "lookalike person", "lookalike rank", "lookalike repeats"
FORM = TableForm("database")


def open_session(place: DatabaseTable) -> Session:
    """Connect to the database of a table."""
    kinds: dict[str, type[Session]] = {"postgres": Postgres, "duckdb": DuckDB, "sqlite": SQLite}
    kind = kinds[place.dialect]
    if isinstance(place.where, str):
        return kind(kind.connected(place), place, owned=True)  # type: ignore[attr-defined]
    if hasattr(place.where, "raw_connection"):
        return kind(place.where.raw_connection(), place, owned=True)
    return kind(place.where, place, owned=False)


def open_engine(session: Session, structure: pa.Schema) -> Scanner:
    """Begin the transaction of a run, and return the engine. A table that was changed since is refused."""
    try:
        session.begin()
        if session.structure() != structure:
            raise InputError("The columns of the table have changed since the run was prepared. Start it again.")
    except BaseException:
        session.close()
        raise
    kind = ServerTable if isinstance(session, Postgres) else InProcessTable
    return kind(Rows(session))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that a run uses, written as a FROM clause.

    Attributes:
        person: the column that says whose row it is, None where no maximum is kept.
        salt: orders the rows of each person, at random but the same for all statements of a run.
    """

    session: Session
    person: Identifier | None = None
    salt: str = ""

    def field(self, name: str) -> Field:
        return next(field for field in self.session.listed if field.name == name)

    def clause(self, repeats_of: Identifier | None = None) -> str:
        """The rows as a relation `t`; with the number of rows of each row's person, if asked for."""
        clause = f"{self.session.table} AS t"
        if self.person is not None:
            key, rank = self._key(self.person), quoted(_RANK)
            ranked = f"row_number() OVER (PARTITION BY {key} ORDER BY {self._order()})"
            inner = f"SELECT t.*, {key} AS {quoted(_PERSON)}, {ranked} AS {rank} FROM {clause}"
            kept = f"{quoted(_PERSON)} IS NULL OR {rank} <= {self.person.max_rows}"
            clause = f"(SELECT * FROM ({inner}) AS t WHERE {kept}) AS t"
        if repeats_of is not None:
            key = self._key(repeats_of)
            number = f"CASE WHEN {key} IS NULL THEN 1 ELSE count(*) OVER (PARTITION BY {key}) END"
            clause = f"(SELECT t.*, {number} AS {quoted(_REPEATS)} FROM {clause}) AS t"
        return clause

    def _key(self, person: Identifier) -> str:
        """The person of a row, compared as bytes; null for a row without an identifier, which is a person alone."""
        field = self.field(person.name)
        value, none = field.value, missing_texts(person, field.kind)
        if isinstance(self.session, SQLite):
            listed = ", ".join(f"X'{text.encode().hex()}'" for text in none)
            value = f"CAST({value} AS BLOB)"
        elif is_text(field.kind):
            listed = ", ".join(literal(text) for text in none if "\0" not in text)
            value = f"encode({value})" if isinstance(self.session, DuckDB) else f'({value} COLLATE "C")'
            listed = ", ".join(f"encode({literal(t)})" for t in none) if isinstance(self.session, DuckDB) else listed
        else:
            listed = ", ".join(none)
        return f"CASE WHEN {value} IN ({listed}) THEN NULL ELSE {value} END" if listed else value

    def _order(self) -> str:
        """A hash of the salt and of all that the row holds: it depends on no other row."""
        if isinstance(self.session, SQLite):
            held = [f"CAST({quoted(field.name)} AS BLOB)" for field in self.session.listed]
            return f"lookalike_order({', '.join([literal(self.salt), *held])})"
        return f"md5({literal(self.salt)} || CAST(t AS {'VARCHAR' if isinstance(self.session, DuckDB) else 'text'}))"


class _Table:
    """What both engines share."""

    __slots__ = ("_rows",)
    max_cells = MAX_CELLS
    least_count = 1

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def structure(self) -> pa.Schema:
        return self._rows.session.structure()

    @property
    def form(self) -> TableForm:
        return FORM

    def capped(self, person: Identifier, keep: Keep) -> Any:
        return type(self)(replace(self._rows, person=person, salt=secrets.token_hex(16)))

    def close(self) -> None:
        self._rows.session.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.structure)} columns)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A table holds private rows and cannot be pickled.")


def _repeats(columns: Sequence[Column]) -> Identifier | None:
    return next((column.base for column in columns if isinstance(column, RowsPerPerson)), None)


class InProcessTable(_Table):
    """A table of DuckDB or SQLite: the engine hands its rows to functions of this process, which count them."""

    __slots__ = ()

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        tally = Tally(view.domain, sets)
        columns = [column for column in view.columns if column.name in tally.names]
        plain = [column for column in columns if not isinstance(column, RowsPerPerson)]
        repeats = _repeats(columns)

        def add(batch: pa.Table) -> None:
            matrix = encode_columns(plain, batch)
            codes = {column.name: matrix[:, i] for i, column in enumerate(plain)}
            for column in columns:
                if isinstance(column, RowsPerPerson):
                    number = batch.column(_REPEATS).combine_chunks().to_numpy(zero_copy_only=False)
                    codes[column.name] = np.minimum(number, column.regular) - 1
            for name in codes.keys() & view.maps.keys():
                codes[name] = view.maps[name][codes[name]]
            tally.add(codes, batch.num_rows)

        self._stream(_read_by(plain), add, repeats)
        return tally.counts()

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        found: dict[str, int] = {}

        def add(batch: pa.Table) -> None:
            for text, count in zip(*text_counts(batch.column(name).combine_chunks()), strict=True):
                found[text] = found.get(text, 0) + int(count)

        self._stream([name], add)
        return list(found), np.array(list(found.values()), dtype=np.int64)

    def _stream(self, names: Sequence[str], add: Any, repeats: Identifier | None = None) -> None:
        fields = [self._rows.field(name) for name in names]
        if repeats is not None:
            fields.append(Field(_REPEATS, pa.int64(), quoted(_REPEATS)))
        session = self._rows.session
        with session.running():
            stream(session, fields, self._rows.clause(repeats), add)


def _read_by(columns: Sequence[Column]) -> list[str]:
    """Names of the columns of the table that the codec reads for these."""
    read = [c.schema.names if isinstance(c, RowProbe) else (c.name,) for c in columns]
    return list(dict.fromkeys(name for names in read for name in names))


class ServerTable(_Table):
    """A table of a server: each set is counted by one statement over expressions that give its columns' codes."""

    __slots__ = ()
    least_count = LEAST_COUNT

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse columns whose codes SQL cannot express, before anything is charged."""
        for column in columns:
            self.code(column)

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        found: dict[int, list[tuple[Any, Any]]] = {place: [] for place in range(len(sets))}
        for statement in self.statements(view, sets):
            with self._rows.session.running():
                cells = self._rows.session.fetch(statement)
            for place, cell, number in cells:
                found[place].append((cell, number))
        return [_filled(found[place], view.domain.shape(names)) for place, names in enumerate(sets)]

    def statements(self, view: View, sets: Sequence[ColumnSet]) -> list[str]:
        """The statements that count the cells of column sets, each with the place of its set.

        Codes that are dear to compute are computed once for all sets, in a table that the server keeps during the
        statement. Where the schema lists the values of all columns of a set, or one column is dear, they are computed
        once for each combination of values.
        """
        columns = {column.name: column for column in view.columns}
        codes = {name: self._code(columns[name], view) for names in sets for name in names}
        alone = [names for names in sets if len(names) == 1 and _by_value_only(columns[names[0]], codes[names[0]])]
        statements = [self._by_values(sets.index(names), names, codes[names[0]]) for names in alone]
        rest = [names for names in sets if names not in alone]
        used = list(dict.fromkeys(name for names in rest for name in names))
        clause = self._rows.clause(_repeats([columns[name] for name in used]))
        if len(rest) > 1 and (self._rows.person or any("SELECT" in codes[name] for name in used)):
            places = {name: quoted(f"c{place}") for place, name in enumerate(used)}
            kept = ", ".join(f"({codes[name]})::int AS {places[name]}" for name in used) or "0 AS c"
            counts = " UNION ALL ".join(
                _counted(sets.index(names), _cell(names, places, view), "codes") for names in rest
            )
            return [*statements, f"WITH codes AS MATERIALIZED (SELECT {kept} FROM {clause}) {counts}"]
        for names in rest:
            cell, place = _cell(names, codes, view), sets.index(names)
            listed = len(names) > 1 and all(self._lists_values(columns[name]) for name in names)
            statements.append(self._by_values(place, names, cell) if listed else _counted(place, cell, clause))
        return statements

    def _lists_values(self, column: Column) -> bool:
        """Whether the schema says which few values a column has, each with a code of its own."""
        if isinstance(column, Categorical):
            return True
        if not isinstance(column, Integer) or not pa.types.is_signed_integer(self._rows.field(column.name).kind):
            return False
        return bool(np.all(np.diff(column.edges) == 1))

    def _by_values(self, place: int, names: ColumnSet, cell: str) -> str:
        """Count combinations of values first, so that the cell is computed once for each."""
        fields = [self._rows.field(name) for name in names]
        given = [f'({f.value} COLLATE "C")' if is_text(f.kind) else quoted(f.name) for f in fields]
        listed = ", ".join(f"{value} AS {quoted(name)}" for value, name in zip(given, names, strict=True))
        grouped = ", ".join(str(number + 1) for number in range(len(names)))
        inner = f"SELECT {listed}, count(*) AS n FROM {self._rows.clause()} GROUP BY {grouped}"
        coded = f"SELECT {cell} AS cell, n FROM ({inner}) AS t OFFSET 0"
        return f"SELECT {place}, cell, sum(n)::bigint FROM ({coded}) AS c GROUP BY cell"

    def code(self, column: Column) -> str:
        """The expression of a column's codes."""
        if isinstance(column, RowsPerPerson):
            return f"LEAST({quoted(_REPEATS)}, {column.regular}) - 1"
        if isinstance(column, RowProbe):
            return row_code(column, self._rows.field)
        return code_of(column, self._rows.field(column.name))

    def _code(self, column: Column, view: View) -> str:
        code, mapped = self.code(column), view.maps.get(column.name)
        if mapped is None:
            return code
        return f"('{{{','.join(map(str, mapped.tolist()))}}}'::int[])[({code}) + 1]"

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        field = self._rows.field(name)
        value = f'({field.value} COLLATE "C")' if is_text(field.kind) else field.value
        statement = (
            f"SELECT {value}, count(*) FROM {self._rows.clause()} WHERE {field.value} IS NOT NULL GROUP BY 1 "
            f"HAVING count(*) >= {LEAST_COUNT}"
        )
        with self._rows.session.running():
            found = self._rows.session.fetch(statement)
        values = pa.array([value for value, _ in found], type=field.kind)
        return _texts_with(values, np.array([count for _, count in found], dtype=np.int64))


def _by_value_only(column: Column, code: str) -> bool:
    """Whether the code of a column is expensive to compute and follows from its value alone."""
    return "SELECT" in code and not isinstance(column, RowProbe | RowsPerPerson)


def _cell(names: ColumnSet, codes: Mapping[str, str], view: View) -> str:
    """The number of a cell from the codes of its columns, in mixed radix."""
    cell = ""
    for name in names:
        code = f"({codes[name]})"
        cell = f"({cell})::bigint * {view.domain.size(name)} + {code}" if cell else code
    return cell or "0"


def _counted(place: int, cell: str, clause: str) -> str:
    """The statement that counts cells; OFFSET keeps the server from computing them twice."""
    return f"SELECT {place}, cell, count(*) FROM (SELECT {cell} AS cell FROM {clause} OFFSET 0) AS c GROUP BY cell"


def _texts_with(values: pa.Array, counts: Counts) -> tuple[list[str], Counts]:
    """Distinct values as texts with their numbers of rows; values that read the same are added up."""
    repeated = dict(zip(map(str, range(len(values))), counts.tolist(), strict=True))
    found: dict[str, int] = {}
    for i in range(len(values)):
        for text in text_counts(values.slice(i, 1))[0]:
            found[text] = found.get(text, 0) + repeated[str(i)]
    return list(found), np.array(list(found.values()), dtype=np.int64)


def _filled(cells: Sequence[tuple[Any, Any]], shape: tuple[int, ...]) -> Counts:
    """The counts of all cells from those of the cells that hold rows."""
    counts = np.zeros(shape, dtype=np.int64).reshape(-1)
    if cells:
        places, numbers = zip(*cells, strict=True)
        counts[np.array(places, dtype=np.int64)] = np.array(numbers, dtype=np.int64)
    return counts.reshape(shape)
