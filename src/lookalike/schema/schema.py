"""The schema of a table: its columns in order, the public rules about its rows, and noisy counts that were paid for.

The file format is a Frictionless Table Schema written as YAML, with our own keys under `dp`; see `fields.py`. Under
`dp.counts` stand noisy counts of columns that an earlier run paid for:

    counts:
      age: {of: 5c1d0e7f9a3b2c48, stddev: 21.4, counts: [103.2, 250.9, 77.0]}

`of` is a fingerprint of the column. A column that was changed afterwards has another one, and its counts are left out.
The counts are noisy and released, so they may be published with the schema. False ones spoil results, not privacy.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lookalike.errors import SchemaError
from lookalike.notebook import card, table
from lookalike.schema import fields
from lookalike.schema.binned import Integer
from lookalike.schema.bins import Binned
from lookalike.schema.columns import MAX_CODES, Column, Identifier, Provenance
from lookalike.schema.constraints import Constraint, constraint_of
from lookalike.schema.documents import Reader, as_text, first_repeated, write_whole
from lookalike.schema.domain import Domain
from lookalike.schema.fields import field_of

MAX_COUNT = 1e15
"""Largest noisy count, or standard deviation, that a file may state."""
MAX_COUNTS_IN_ALL = 200_000
_COUNT_KEYS = ("of", "stddev", "counts")
_REMEDY = "Remove the entry, or make the file again with 'lookalike inspect'."


@dataclass(frozen=True, slots=True)
class KnownCounts:
    """Noisy counts of the codes of one column.

    Attributes:
        column: its name.
        of: fingerprint of the column whose codes were counted.
        stddev: standard deviation of the noise on each count.
        counts: one noisy count for each code.
    """

    column: str
    of: str
    stddev: float
    counts: tuple[float, ...]

    def describes(self, column: Column) -> bool:
        """Whether these are counts of the column as it is now."""
        return self.of == fingerprint_of(column) and not column.open_facts and len(self.counts) == column.size

    def to_dict(self) -> dict[str, Any]:
        return {"of": self.of, "stddev": self.stddev, "counts": list(self.counts)}


def known_counts(column: Column, stddev: float, counts: Sequence[float]) -> KnownCounts:
    """Return the counts of a column, rounded as far as noise allows."""
    digits = max(0, 3 - math.floor(math.log10(stddev)))
    values = tuple(round(float(value), digits) for value in counts)
    return KnownCounts(column.name, fingerprint_of(column), stddev, values)


def fingerprint_of(column: Column) -> str:
    """Return a fingerprint of a column's facts, without its storage type, which reading a table may fill in."""
    said = json.dumps(field_of(replace(column, storage="")), sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def counts_of(entries: Any, names: Sequence[str]) -> tuple[KnownCounts, ...]:
    """Return what a schema file states under `dp.counts`; a SchemaError for what cannot be counts of its columns."""
    if not entries:
        return ()
    if not isinstance(entries, Mapping):
        raise SchemaError(f"dp.counts is a {type(entries).__name__}; it must have one entry per column. {_REMEDY}")
    found, total, known = list[KnownCounts](), 0, set(names)
    for name, entry in entries.items():
        if name in known:  # the counts of a column that was left out are of no use
            found.append(_entry(str(name), entry))
            total += len(found[-1].counts)
        if total > MAX_COUNTS_IN_ALL:
            raise SchemaError(f"dp.counts has more than {MAX_COUNTS_IN_ALL:,} counts, which is the limit. {_REMEDY}")
    return tuple(found)


def _entry(name: str, entry: Any) -> KnownCounts:
    def fail(what: str) -> NoReturn:
        raise SchemaError(f"dp.counts of column {name!r} {what}. {_REMEDY}")

    def number(value: Any, smallest: float) -> float:
        try:
            found = float(as_text(value))
        except ValueError:
            found = math.nan
        if not smallest <= found <= MAX_COUNT:
            fail(f"holds {as_text(value)[:40]!r}; numbers must lie between {smallest:g} and {MAX_COUNT:g}")
        return found

    if not isinstance(entry, Mapping) or set(entry) != set(_COUNT_KEYS):
        fail(f"needs exactly the keys {', '.join(_COUNT_KEYS)}")
    counts = entry["counts"]
    if not isinstance(counts, list) or not 0 < len(counts) <= MAX_CODES:
        fail(f"needs a list of 1 to {MAX_CODES:,} counts")
    if any(isinstance(value, list | dict) for value in (*counts, entry["stddev"], entry["of"])):
        fail("holds a list or mapping in the place of a number")
    values = tuple(number(value, -MAX_COUNT) for value in counts)
    return KnownCounts(name, as_text(entry["of"]), number(entry["stddev"], 1e-9), values)


VERSION = 1
MAX_COLUMNS = 10_000
MAX_CODES_IN_ALL = 4_000_000
"""Largest number of codes of all columns together: a schema of a few kilobytes could ask for gigabytes of bins."""
_KEYS = ("fields", "missingValues", "dp", "$schema", "primaryKey", "foreignKeys", "title", "name", "description")


@dataclass(frozen=True, slots=True)
class Schema:
    """Ordered columns and constraints. Holds public facts only: it never sees data.

    `counts` are noisy counts of columns that an earlier run released.

    >>> from lookalike.schema.columns import Categorical
    >>> schema = Schema((Integer("age", minimum=0, maximum=99, bins=10), Categorical("sex", ("F", "M"))))
    >>> schema.domain.sizes
    (10, 3)
    """

    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...] = ()
    counts: tuple[KnownCounts, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        if not self.columns:
            raise SchemaError("The schema has no columns; it needs at least 1.")
        check_names(self.names, "The schema")
        persons = [column.name for column in self.columns if isinstance(column, Identifier) and column.person]
        if len(persons) > 1:
            # With two, the rows kept of one person would depend on the rows of other persons.
            raise SchemaError(
                f"{len(persons)} columns have 'person: true': {', '.join(map(repr, persons[:5]))}; the limit is 1. "
                "Keep it at one of them, which --person or person= must name too."
            )
        for constraint in self.constraints:
            unknown = [name for name in constraint.columns if name not in self.names]
            if unknown:
                raise SchemaError(
                    f"A constraint names column {unknown[0]!r}, which the schema does not have. Correct the name, or "
                    "remove the constraint."
                )
        computed = {name for constraint in self.constraints for name in constraint.computed}
        for column in self.columns:
            if column.derived and column.name not in computed:
                raise SchemaError(
                    f"Column {column.name!r} has 'derived: true', but no rule computes it. Add the rule to "
                    "dp.constraints, or remove the key."
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def domain(self) -> Domain:
        """Names and sizes; a SchemaError while a column has open facts."""
        return Domain(self.names, tuple(column.size for column in self.columns))

    @property
    def only_codes(self) -> bool:
        """Whether it declares numbers of codes alone, as `--domain` does: nobody says that the codes have an order."""
        integers = [c for c in self.columns if isinstance(c, Integer)]
        coded = [c for c in integers if (c.minimum, c.maximum, c.bins) == (0, c.size - 1, c.size)]
        return len(coded) == len(self.columns)

    @property
    def bins(self) -> dict[str, int]:
        """Number of bins of the columns of numbers and times; empty where it declares codes alone."""
        if self.only_codes:
            return {}
        return {column.name: column.regular for column in self.columns if isinstance(column, Binned)}

    @property
    def known_counts(self) -> tuple[KnownCounts, ...]:
        """The counts that describe the columns as they are now."""
        columns = {column.name: column for column in self.columns}
        return tuple(known for known in self.counts if known.describes(columns[known.column]))

    def with_counts(self, counts: Iterable[tuple[str, float, Sequence[float]]]) -> Schema:
        """The schema with noisy counts of the codes of its columns: their names, standard deviations and counts."""
        return replace(self, counts=tuple(known_counts(self[name], noise, values) for name, noise, values in counts))

    @property
    def open_facts(self) -> dict[str, tuple[str, ...]]:
        """What private discovery has still to fill, by column."""
        return {column.name: column.open_facts for column in self.columns if column.open_facts}

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"No column {name!r}; the columns are {', '.join(self.names)}.")

    def with_columns(self, columns: Iterable[Column]) -> Schema:
        """The schema with the columns of the same names replaced."""
        new = {column.name: column for column in columns}
        return replace(self, columns=tuple(new.get(column.name, column) for column in self.columns))

    def with_person(self, name: str, max_rows: int) -> Schema:
        """The schema with one column as the identifier of persons; at most `max_rows` rows of each are used."""
        column = self[name]
        if isinstance(column, Identifier):
            repeats = column.repeats if column.max_rows == max_rows else ()
            return self.with_columns([replace(column, person=True, max_rows=max_rows, repeats=repeats)])
        marks: dict[str, Provenance] = {"missing": "open"} if "missing" in column.open_facts else {}
        shared: dict[str, Any] = {"missing": column.missing, "storage": column.storage, "provenance": marks}
        return self.with_columns([Identifier(name, person=True, max_rows=max_rows, **shared)])

    @property
    def bounding(self) -> str | None:
        """Which rows of the table are used where a column says whose row it is, in one sentence; None without one."""
        for column in self.columns:
            if isinstance(column, Identifier) and column.person:
                rows = "1 row" if column.max_rows == 1 else f"{column.max_rows} rows"
                return (
                    f"At most {rows} of each person ({column.name}) are used, chosen at random; further ones are "
                    "dropped, and how many is private. All numbers, that of the rows too, speak of the table that is "
                    "left."
                )
        return None

    def with_all_codes(self) -> Schema:
        """The schema with codes for the columns that rules compute, too, as a comparison of tables needs them."""
        return replace(self, columns=tuple(replace(column, derived=False) for column in self.columns))

    def ordered(self, names: Sequence[str]) -> Schema:
        """The schema with its columns in that order."""
        return replace(self, columns=tuple(self[name] for name in names))

    def with_storage(self, storage: Mapping[str, str]) -> Schema:
        """The schema of a table whose columns have these Arrow types; a type already declared must agree."""
        columns = []
        for column in self.columns:
            found = storage.get(column.name, column.storage)
            if column.storage and found != column.storage:
                raise SchemaError(
                    f"Column {column.name!r} is stored as {found}, but the schema says {column.storage}. "
                    "Convert the table, or remove dp.storage from the schema."
                )
            columns.append(replace(column, storage=found))
        return replace(self, columns=tuple(columns))

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int], *, where: str = "The domain") -> Schema:
        """The schema of an integer-coded table whose column `name` holds the codes 0..sizes[name]-1."""
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SchemaError(
                    f"{where}: column {name!r} has size {size!r}; it must be a whole number of at least 1."
                )
        return cls(_within_limits((Integer.coded(name, size) for name, size in sizes.items()), where))

    @classmethod
    def from_domain_json(cls, path: str | Path) -> Schema:
        """The schema of an integer-coded table from a JSON object {column: number of values}."""
        sizes = Reader().json(Reader().text(path), str(path))
        if not isinstance(sizes, dict) or not sizes:
            raise SchemaError(f"{path} is not a JSON object {{column: number of codes}}. Write one entry per column.")
        return cls.from_sizes(sizes, where=str(path))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, where: Sequence[str] = ()) -> Schema:
        """The schema of a parsed file; `where` names the place of each field for error messages."""
        if not isinstance(content, Mapping) or not isinstance(content.get("fields"), list):
            raise SchemaError("A schema needs the key 'fields' with a list of columns.")
        unknown = [key for key in content if key not in _KEYS]
        if unknown:
            raise SchemaError(f"Unknown key {unknown[0]!r} in the schema; the keys are {', '.join(_KEYS)}.")
        dp = content.get("dp") or {}
        version = str(dp.get("version", VERSION)) if isinstance(dp, Mapping) else ""
        if version != str(VERSION):
            raise SchemaError(f"The schema has dp.version {version!r}; this program reads version {VERSION}.")
        markers = content.get("missingValues")
        places = (where[i] if i < len(where) else f"field {i + 1}" for i in range(len(content["fields"])))
        made = (fields.column_of(entry, place, markers) for entry, place in zip(content["fields"], places, strict=True))
        columns = _within_limits(made, "The schema")
        rules = (dp.get("constraints") or []) if isinstance(dp, Mapping) else []
        if not isinstance(rules, list):
            raise SchemaError(f"dp.constraints is a {type(rules).__name__}; it must be a list of rules.")
        counts = counts_of(dp.get("counts"), [column.name for column in columns]) if isinstance(dp, Mapping) else ()
        return cls(columns, tuple(constraint_of(entry, i + 1) for i, entry in enumerate(rules)), counts)

    def to_dict(self) -> dict[str, Any]:
        """The content of the schema file."""
        dp: dict[str, Any] = {"version": VERSION}
        if self.constraints:
            dp["constraints"] = [constraint.to_dict() for constraint in self.constraints]
        if self.counts:
            dp["counts"] = {known.column: known.to_dict() for known in self.counts}
        return {"fields": [fields.field_of(column) for column in self.columns], "dp": dp}

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """The schema in a YAML file. Errors name the line and the field, its value, the limit and the remedy."""
        content, tree = Reader().yaml(Reader().text(path), str(path), texts=True)
        return cls.from_dict(content, where=_places(tree, str(path)))

    def to_yaml(self) -> str:
        """The text of the schema file."""
        return dumped(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Write the YAML file, completely or not at all."""
        try:
            write_whole(Path(path), lambda stream: stream.write(self.to_yaml().encode()))
        except OSError as error:
            raise SchemaError(f"Cannot write the schema to {path}: {error.strerror}. Choose another place.") from None

    def fingerprint(self) -> str:
        """SHA-256 of the canonical form; equal for two files that say the same."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _repr_html_(self) -> str:
        rows = []
        for column in self.columns:
            size = "open" if column.open_facts else f"{column.size:,}"
            origins = dict.fromkeys(column.fact(fact) for fact in column.facts)
            facts = "; ".join(f"{o}: {', '.join(f for f in column.facts if column.fact(f) == o)}" for o in origins)
            labels = [] if column.open_facts else column.labels()
            listed = ", ".join(labels[:6]) + (f", ... {len(labels) - 6} more" if len(labels) > 6 else "")
            rows.append((column.name, type(column).__name__, size, listed, facts))
        lines = [text for text in (self.bounding,) if text]
        lines += [f"{len(self.constraints)} rules that no row breaks."] if self.constraints else []
        shown = table(("column", "kind", "codes", "values or bins", "where facts come from"), rows)
        return card(f"Schema of {len(self.columns)} columns", lines, shown)


class _Dumper(yaml.SafeDumper):
    """Writes no YAML aliases, which `documents.py` refuses to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dumped(content: Any) -> str:
    """The YAML text of plain values, with short lists on one line."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def check_names(names: Sequence[str], what: str) -> None:
    """Refuse too many columns, and columns of the same name."""
    if len(names) > MAX_COLUMNS:
        raise SchemaError(f"{what} has {len(names):,} columns; the limit is {MAX_COLUMNS:,}. Leave columns out.")
    if len(set(names)) != len(names):
        raise SchemaError(f"{what} has two columns named {first_repeated(names)!r}. Rename one of the two.")


def _within_limits(columns: Iterable[Column], where: str) -> tuple[Column, ...]:
    """The columns; a SchemaError as soon as they are too many or have too many codes together."""
    found, codes = [], 0
    for column in columns:
        found.append(column)
        codes += 0 if column.open_facts else column.size
        if codes > MAX_CODES_IN_ALL:
            raise SchemaError(
                f"{where} has columns of more than {MAX_CODES_IN_ALL:,} codes in all, which is the limit. Use fewer "
                "bins, or leave columns out."
            )
        if len(found) > MAX_COLUMNS:
            raise SchemaError(f"{where} has more than {MAX_COLUMNS:,} columns, which is the limit. Leave columns out.")
    return tuple(found)


def _places(tree: Any, path: str) -> list[str]:
    """Line and position of every field of the file, for error messages."""
    if isinstance(tree, yaml.MappingNode):
        for key, value in tree.value:
            if key.value == "fields" and isinstance(value, yaml.SequenceNode):
                return [f"{path} line {node.start_mark.line + 1}, field {i + 1}" for i, node in enumerate(value.value)]
    return []
