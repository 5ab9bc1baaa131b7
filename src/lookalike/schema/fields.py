"""One field of a schema file to one column, and back.

Keys of the Frictionless Table Schema: `name`, `type`, `format`, `title`, `description`, `missingValues`,
`categoriesOrdered`, `decimalChar`, `groupChar`, `trueValues`, `falseValues`, `constraints` (`required`, `minimum`,
`maximum`, `enum`). Ours, under `dp`: `bins`, `outside`, `other` (label of the catch-all), `decimals`, `least_decimals`,
`width`, `prefix`, `suffix`, `plus`, `clock`, `resolution`, `zone`, `shape`, `rounding`, `hierarchy`, `pattern` (makes
the column an identifier), `person`, `max_rows`, `repeats`, `storage`, `derived` (a rule
computes the column), `provenance`. The type `any` leaves the kind to discovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from lookalike.errors import SchemaError
from lookalike.schema.binned import Continuous, Datetime, Integer, Number
from lookalike.schema.bins import Binned
from lookalike.schema.columns import (
    DEFAULT_BINS,
    NULL,
    OUTSIDES,
    PROVENANCES,
    Categorical,
    Column,
    Identifier,
    Ordinal,
    Undeclared,
)
from lookalike.schema.documents import as_text

TYPES = ("string", "boolean", "integer", "number", "date", "datetime", "time", "any")
_FIELD_KEYS = (
    "name", "type", "format", "title", "description", "missingValues", "categoriesOrdered", "constraints", "dp",
    "decimalChar", "groupChar", "trueValues", "falseValues",
)  # fmt: skip
_CONSTRAINT_KEYS = ("required", "unique", "minimum", "maximum", "enum")
_DP_KEYS = (
    "bins", "outside", "other", "decimals", "least_decimals", "width", "prefix", "suffix", "plus", "clock",
    "resolution", "zone", "shape", "rounding", "hierarchy", "pattern", "person", "max_rows", "repeats", "storage",
    "derived", "provenance",
)  # fmt: skip
_DEFAULT_FORMAT = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}


class _Field:
    """Reads the keys of one field and names the place in every error."""

    def __init__(self, entry: Any, place: str) -> None:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise SchemaError(f"{place}: every field needs a 'name' that is a text.")
        self.place = f"{place} ({entry['name']!r})"
        self.entry = entry
        self.constraints = self.mapping(entry, "constraints", _CONSTRAINT_KEYS)
        self.dp = self.mapping(entry, "dp", _DP_KEYS)
        self.refuse_unknown(entry, _FIELD_KEYS, "")
        self.type = as_text(entry.get("type", "string"))
        if self.type not in TYPES:
            self.fail(f"type is {self.type!r}", f"Use one of {', '.join(TYPES)}.")

    def fail(self, what: str, remedy: str) -> NoReturn:
        raise SchemaError(f"{self.place}: {what}. {remedy}")

    def refuse_unknown(self, mapping: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> None:
        for key in mapping:
            if key not in known:
                self.fail(f"unknown key {prefix + str(key)!r}", f"The keys are {', '.join(known)}.")

    def mapping(self, entry: Mapping[str, Any], key: str, known: tuple[str, ...]) -> Mapping[str, Any]:
        value = entry.get(key) or {}
        if not isinstance(value, Mapping):
            self.fail(f"{key} is {value!r}", "It must be a mapping of keys to values.")
        self.refuse_unknown(value, known, f"{key}.")
        return value

    def integer(self, key: str, minimum: int, default: int | None) -> int | None:
        value = self.dp.get(key, default)
        if value is None or as_text(value) in ("", "null", "~"):
            return default
        try:
            number = int(as_text(value))
        except ValueError:
            number = minimum - 1
        if number < minimum:
            self.fail(f"dp.{key} is {value!r}", f"It must be a whole number of at least {minimum}.")
        return number

    def flag(self, mapping: Mapping[str, Any], key: str) -> bool:
        value = as_text(mapping.get(key, False))
        if value not in ("true", "false"):
            self.fail(f"{key} is {value!r}", "It must be true or false.")
        return value == "true"

    def texts(self, mapping: Mapping[str, Any], key: str, default: Any = None) -> tuple[str, ...] | None:
        value = mapping.get(key, default)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or any(isinstance(item, list | dict) for item in value):
            self.fail(f"{key} is {value!r}", "It must be a list of values.")
        return tuple(as_text(item) for item in value)

    def pairs(self, key: str, first: str, second: str) -> tuple[tuple[str, float], ...]:
        """Two lists of the same length under one key, as pairs."""
        lists = self.mapping(self.dp, key, (first, second))
        left, right = self.texts(lists, first, ()) or (), self.texts(lists, second, ()) or ()
        try:
            return tuple(zip(left, [float(text) for text in right], strict=True))
        except ValueError:
            self.fail(f"dp.{key} has {len(left)} {first} and {len(right)} {second}", "Give as many numbers in each.")

    def steps(self) -> tuple[tuple[int, float], ...]:
        """The steps to which values are rounded, in whole ticks, with their shares."""
        try:
            return tuple((int(step), share) for step, share in self.pairs("rounding", "steps", "shares"))
        except ValueError:
            self.fail("dp.rounding has a step that is not a whole number", "Count steps in whole ticks.")

    def marks(self) -> dict[str, Any]:
        """The provenance of each fact."""
        marks = self.dp.get("provenance") or {}
        if not isinstance(marks, Mapping):
            self.fail(f"dp.provenance is {marks!r}", f"Map each fact to one of {', '.join(PROVENANCES)}.")
        return {as_text(fact): as_text(mark) for fact, mark in marks.items()}

    def levels(self) -> tuple[Any, ...]:
        """The levels of the hierarchy: mappings of groups to members, numbers of groups, or lists of lower edges."""
        found: list[Any] = []
        listed = self.dp.get("hierarchy") or []
        for number, level in enumerate(listed if isinstance(listed, list) else [listed], start=1):
            if isinstance(level, Mapping):
                found.append(tuple((as_text(group), self.texts(level, group) or ()) for group in level))
            elif isinstance(level, list):
                found.append(self.texts({"dp.hierarchy": level}, "dp.hierarchy"))
            elif as_text(level).isdecimal():
                found.append(int(as_text(level)))
            else:
                self.fail(
                    f"level {number} of dp.hierarchy is {level!r}",
                    "Map groups to lists of values, or give a number of groups of bins or their lower edges.",
                )
        return tuple(found)


def column_of(entry: Any, place: str, table_markers: Any) -> Column:
    """The column of one parsed field. One that is not `required` may be missing: by its own markers or the table's.

    Where neither lists markers, they are open if another fact is open; else an empty field is missing, as in
    Frictionless.
    """
    field = _Field(entry, place)
    required = field.flag(field.constraints, "required")
    markers = () if required else field.texts(field.entry, "missingValues", table_markers)
    shared: dict[str, Any] = {
        "missing": (NULL,) if markers is None else markers,
        "storage": as_text(field.dp.get("storage", "")),
        "provenance": field.marks(),
        "hierarchy": field.levels(),
        "derived": field.flag(field.dp, "derived"),
    }
    if "outside" in field.dp:
        shared["outside"] = as_text(field.dp["outside"])
        if shared["outside"] not in OUTSIDES:
            field.fail(f"dp.outside is {shared['outside']!r}", f"Use one of {', '.join(OUTSIDES)}.")
    try:
        column = _column(field, shared)
    except SchemaError as error:
        message = str(error)
        raise SchemaError(message if message.startswith(place) else f"{place}: {message}") from None
    if markers is None and column.open_facts:
        return replace(column, missing=(), provenance={**column.provenance, "missing": "open"})
    return column


def _column(field: _Field, shared: dict[str, Any]) -> Column:
    if "pattern" in field.dp:
        return _identifier(field, shared)
    if field.type == "any":
        return Undeclared(field.entry["name"], **shared)
    if field.type in ("string", "boolean") or "enum" in field.constraints:
        return _categorical(field, shared)
    return _binned(field, shared)


def _identifier(field: _Field, shared: dict[str, Any]) -> Column:
    weights = field.texts(field.dp, "repeats", ()) or ()
    try:
        repeats = tuple(float(weight) for weight in weights)
    except ValueError:
        field.fail(f"dp.repeats is {list(weights)!r}", "It must be a list of numbers.")
    return Identifier(
        field.entry["name"],
        pattern=as_text(field.dp["pattern"]),
        person=field.flag(field.dp, "person"),
        max_rows=field.integer("max_rows", 1, 1) or 1,
        repeats=repeats,
        **shared,
    )


def _categorical(field: _Field, shared: dict[str, Any]) -> Column:
    default = None
    if field.type == "boolean":
        default = [text for key in ("false", "true") for text in field.texts(field.entry, f"{key}Values", (key,)) or ()]
    values = field.texts(field.constraints, "enum", default)
    kind = Ordinal if field.flag(field.entry, "categoriesOrdered") else Categorical
    if "other" in field.dp:
        shared["other_label"] = as_text(field.dp["other"])
    elif values is None or field.type != "string":
        # The label is not a boolean, number or time; and discovery decides whether a catch-all is worth a code.
        shared.setdefault("outside", "absorb")
    return kind(field.entry["name"], values=values, **shared)


def _binned(field: _Field, shared: dict[str, Any]) -> Column:
    name = field.entry["name"]
    bins = field.dp.get("bins", DEFAULT_BINS)
    if isinstance(bins, list):
        shared["bins"] = field.texts(field.dp, "bins")
    elif field.type in _DEFAULT_FORMAT and as_text(bins) in ("month", "year"):
        shared["bins"] = bins
    else:
        shared["bins"] = field.integer("bins", 1, DEFAULT_BINS)
    kind = {"integer": Integer, "number": Continuous}.get(field.type, Datetime)
    if kind is not Datetime:
        shared.update(_number_facts(field))
    else:
        shared["format"] = as_text(field.entry.get("format", _DEFAULT_FORMAT[field.type]))
        shared["resolution"] = as_text(field.dp.get("resolution", ""))
        shared["zone"] = as_text(field.dp.get("zone", ""))
    shared["shape"] = field.pairs("shape", "edges", "weights")
    shared["rounding"] = field.steps()
    return kind(name, minimum=field.constraints.get("minimum"), maximum=field.constraints.get("maximum"), **shared)


def _number_facts(field: _Field) -> dict[str, Any]:
    """How texts write the numbers of a field."""
    facts: dict[str, Any] = {
        "prefix": as_text(field.dp.get("prefix", "")),
        "suffix": as_text(field.dp.get("suffix", "")),
        "thousands": as_text(field.entry.get("groupChar", "")),
        "plus": field.flag(field.dp, "plus"),
    }
    if field.type == "integer":
        return {**facts, "width": field.integer("width", 0, 0), "clock": field.flag(field.dp, "clock")}
    mark = as_text(field.entry.get("decimalChar", "."))
    if mark not in (".", ","):
        field.fail(f"decimalChar is {mark!r}", "It must be '.' or ','.")
    decimals, least = field.integer("decimals", 0, None), field.integer("least_decimals", 0, None)
    return {**facts, "decimals": decimals, "least_decimals": least, "comma": mark == ","}


def field_of(column: Column) -> dict[str, Any]:
    """The field of one column, as plain lists, texts and numbers."""
    entry: dict[str, Any] = {"name": column.name, "type": column.field_type}
    constraints: dict[str, Any] = {} if column.missing else {"required": True}
    dp: dict[str, Any] = {}
    if isinstance(column, Categorical):
        if isinstance(column, Ordinal):
            entry["categoriesOrdered"] = True
        if column.values is not None:
            constraints["enum"] = list(column.values)
        if column.has_other:
            dp["other"] = column.other_label
    if isinstance(column, Binned):
        bounds = {"minimum": column.minimum, "maximum": column.maximum}
        constraints.update({key: value for key, value in bounds.items() if value is not None})
        dp["bins"] = list(column.bins) if isinstance(column.bins, tuple) else column.bins
        if column.shape:
            edges, weights = zip(*column.shape, strict=True)
            dp["shape"] = {"edges": list(edges), "weights": list(weights)}
        if column.rounding:
            steps, shares = zip(*column.rounding, strict=True)
            dp["rounding"] = {"steps": list(steps), "shares": list(shares)}
    if isinstance(column, Number):
        if column.decimal_mark != ".":
            entry["decimalChar"] = column.decimal_mark
        if column.thousands:
            entry["groupChar"] = column.thousands
        dp.update({key: True for key in ("plus", "clock") if getattr(column, key, False)})
    if isinstance(column, Datetime):
        entry["format"] = column.format
        dp["resolution"] = column.resolution
    if isinstance(column, Identifier):
        dp["pattern"] = column.pattern
        if column.person:
            dp.update(person=True, max_rows=column.max_rows, repeats=list(column.repeats))
    if column.derived:
        dp["derived"] = True
    if column.hierarchy:
        dp["hierarchy"] = [_level_of(column, level) for level in column.hierarchy]
    for key in ("decimals", "least_decimals", "width", "prefix", "suffix", "zone", "storage"):
        value = getattr(column, key, None)
        if value not in (None, "") and (value != 0 or key != "width"):
            dp[key] = value
    if column.missing:
        entry["missingValues"] = list(column.missing)
    if constraints:
        entry["constraints"] = constraints
    dp["outside"] = column.outside
    marks = {fact: column.fact(fact) for fact in column.facts}
    return {**entry, "dp": {**dp, "provenance": marks}}


def _level_of(column: Column, level: Any) -> Any:
    if isinstance(column, Categorical):
        return {group: list(members) for group, members in level}
    return level if isinstance(level, int) else list(level)
