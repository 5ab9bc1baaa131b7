"""Reads YAML and JSON files from strangers, under limits that hold before anything large is made; writes whole files.

A file may be hostile: a few hundred bytes of YAML aliases stand for gigabytes, and deep nesting exhausts the stack of
the program that reads it. So aliases are refused, and size, depth and the number of values are limited. Every fault is
raised as the one type of error that the caller chooses. A file is written completely or not at all.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from lookalike.errors import LookalikeError, SchemaError

MAX_BYTES = 8 * 2**20
MAX_VALUES = 250_000
MAX_DEPTH = 32
LARGEST_INTEGER = 2**63 - 1
_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep, which is the limit. Flatten it."


@dataclass(frozen=True, slots=True)
class Reader:
    """Parses documents under limits and raises one type of error.

    Attributes:
        error: the type of every error.
        max_bytes: the length of the longest document.
        max_values: mappings, lists, texts and numbers, keys included, that a document may hold in all.
    """

    error: type[LookalikeError] = SchemaError
    max_bytes: int = MAX_BYTES
    max_values: int = MAX_VALUES

    def text(self, path: str | Path) -> str:
        """The UTF-8 text of a file that is not too long."""
        try:
            with open(path, "rb") as stream:
                data = stream.read(self.max_bytes + 1)
        except OSError as error:
            raise self.error(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from None
        except ValueError:
            raise self.error(f"{path} is not the path of a file. Check the path.") from None
        if len(data) > self.max_bytes:
            raise self.error(f"{path} has more than {self.max_bytes:,} bytes, which is the limit. Shorten it.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise self.error(f"{path} is not UTF-8 text. Save it as UTF-8.") from None

    def json(self, text: str, where: str) -> Any:
        """The value of a JSON text: finite numbers of 64 bits, every key once."""
        self._check_length(text, where, ",[{")
        try:
            value = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)
        except RecursionError:
            raise self.error(f"{where} {_TOO_DEEP}") from None
        except ValueError as error:
            raise self.error(f"{where} is not JSON: {error}.") from None
        self._check(value, where)
        return value

    def yaml(self, text: str, where: str, *, texts: bool) -> tuple[Any, yaml.Node | None]:
        """The value of a YAML text and the tree that it was made from. With `texts`, every scalar stays a text."""
        self._check_length(text, where, ",[{\n")
        try:
            loader = (_TextLoader if texts else _TypedLoader)(text)
            loader.limits = self
            tree = loader.get_single_node()
            value = None if tree is None else loader.construct_document(tree)
        except _LimitError as error:
            raise self.error(f"{where} {error}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f" (line {mark.line + 1})" if mark else ""
            raise self.error(f"{where} is not YAML{line}: {getattr(error, 'problem', 'broken text')}.") from None
        except (ValueError, OverflowError, TypeError, AttributeError, IndexError, RecursionError):
            # The parser raises these for dates that do not exist, escapes beyond Unicode and numbers without end.
            raise self.error(f"{where} is not YAML: it holds a value that cannot be read.") from None
        if not texts:
            self._check(value, where)
        return value, tree

    def _check_length(self, text: str, where: str, marks: str) -> None:
        """Refuse a text with more separators than allowed values before it is parsed: counting them is fast."""
        if sum(text.count(mark) for mark in marks) > self.max_values:
            raise self.error(f"{where} {self.too_many}")

    def _check(self, value: Any, where: str) -> None:
        """Refuse too many levels or values, numbers that are not finite or exceed 64 bits, and lone surrogates."""
        level, count = [value], 0
        for _ in range(MAX_DEPTH + 1):
            count += len(level)
            if count > self.max_values:
                raise self.error(f"{where} {self.too_many}")
            for item in level:
                problem = _problem(item)
                if problem:
                    raise self.error(f"{where} {problem}.")
            level = [inner for item in level if isinstance(item, list | dict) for inner in _inside(item)]
            if not level:
                return
        raise self.error(f"{where} {_TOO_DEEP}")

    @property
    def too_many(self) -> str:
        return f"holds more than {self.max_values:,} values, which is the limit. Shorten it."


class _LimitError(Exception):
    """A document exceeds a limit of this module."""


class _LimitedComposer:
    """Composes YAML nodes within the limits, and refuses aliases."""

    limits: Reader
    _depth = 0
    _nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[attr-defined]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            line = event.start_mark.line + 1
            raise _LimitError(f"uses an anchor or alias (& or *) on line {line}. Write the value out.")
        if self._depth >= MAX_DEPTH:
            raise _LimitError(_TOO_DEEP)
        self._nodes += 1
        if self._nodes > self.limits.max_values:
            raise _LimitError(self.limits.too_many)
        problem = _problem(getattr(event, "value", None))
        if problem:
            raise _LimitError(f"{problem} (line {event.start_mark.line + 1}).")
        self._depth += 1
        try:
            return super().compose_node(parent, index)  # type: ignore[misc]
        finally:
            self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) != len(keys):
            line = node.start_mark.line + 1
            raise _LimitError(f"has the key {first_repeated(keys)!r} twice in a mapping that starts on line {line}.")
        return super().construct_mapping(node, deep)  # type: ignore[misc]


class _TextLoader(_LimitedComposer, yaml.BaseLoader):
    """Every scalar stays text, so that `no`, `007` and `1.0` in a list of categories stay as written."""


class _TypedLoader(_LimitedComposer, yaml.SafeLoader):
    """Scalars become numbers, truth values and texts."""


def as_text(value: object) -> str:
    """A scalar of a document as the text that a table would hold: `true` for True, `5` for 5, a text as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _inside(item: list[Any] | dict[Any, Any]) -> Iterable[Any]:
    return [*item, *item.values()] if isinstance(item, dict) else item


def _problem(item: Any) -> str | None:
    if isinstance(item, str):
        return None if _is_unicode(item) else "holds a text with a lone surrogate, which is half a character"
    if isinstance(item, int) and not -LARGEST_INTEGER <= item <= LARGEST_INTEGER:
        return "holds a whole number of more than 64 bits"
    if isinstance(item, float) and not math.isfinite(item):
        return "holds a number that is not finite"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"the key {first_repeated([key for key, _ in pairs])!r} occurs twice in one object")
    return found


def first_repeated(keys: Iterable[str]) -> str:
    """The first text that occurs a second time, in a list in which one does."""
    seen: set[str] = set()
    return next(key for key in keys if key in seen or seen.add(key))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def write_whole(target: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on a temporary file beside the target and rename it; a failure, an OSError, leaves no file behind.

    A target that exists and is not a regular file, such as a pipe, is written to directly.
    """
    if target.exists() and not target.is_file():
        with open(target, "wb") as stream:
            write(stream)
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(temporary, "xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()
