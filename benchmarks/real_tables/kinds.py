"""What a column of texts is, told from the real column by rules that know nothing of the package under test.

Missing is one of MISSING. Of the other values: a number has 95 % that are written as numbers, money, percent and
thousands included; a time has 95 % that are dates or times of one of TIMES; a boolean has no others than BOOLEANS; a
text has more than 20 and less than five rows for each, as identifiers and remarks have; all others are categories.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "<NA>", "NULL", "null", "?"})
BOOLEANS = frozenset({"true", "false", "yes", "no", "t", "f", "y", "n"})
ENOUGH = 0.95
CURRENCIES = re.compile(r"[$€£¥]|\b(?:EUR|USD|GBP|CHF)\b")
PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
EUROPEAN = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})*,\d+")
CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.\d+)?)?")
DAY, HOUR = r"(\d{1,2})", r"(?:[T ](\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
TIMES = (
    ("ymd", re.compile(r"(\d{4})[-/.](\d{1,2})[-/.]" + DAY + HOUR)),
    ("mdy", re.compile(r"(\d{1,2})/" + DAY + r"/(\d{4})" + HOUR)),
    ("dby", re.compile(DAY + r"[ -]([A-Za-z]{3})[a-z]*[ -](\d{4})" + HOUR)),
    ("by", re.compile(r"([A-Za-z]{3})[a-z]*[ -](\d{4})")),
)


Table = dict[str, np.ndarray]
"""The texts of every column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as texts, and what they are worth if they are numbers or times.

    Attributes:
        texts: all values as written, without blanks around them; empty where missing.
        missing: where a marker of a missing value stands.
        kind: as the module says; of a synthetic column the kind of the real one.
        values: the numbers, times in seconds; NaN where missing, or where the text is neither.
    """

    texts: np.ndarray
    missing: np.ndarray
    kind: str
    values: np.ndarray

    @property
    def read(self) -> float:
        """The share of values that are written as the kind demands, among those that are not missing."""
        present = int((~self.missing).sum())
        return float(np.isfinite(self.values).sum() / present) if present else 1.0


def texts_of(path: Path) -> Table:
    """A CSV file as texts."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding_errors="replace")
    return {str(name): values.to_numpy(dtype=object) for name, values in frame.items()}


def named_as(real: Table, made: Table) -> Table:
    """A synthetic table with the names of the real one; columns are matched by their places."""
    if len(made) != len(real):
        raise ValueError(f"The synthetic table has {len(made)} columns, the real one {len(real)}.")
    return dict(zip(real, made.values(), strict=True))


def number_of(text: str) -> float:
    """The number that a text stands for, or NaN."""
    if PLAIN.fullmatch(text):
        return float(text)
    bare = CURRENCIES.sub("", text).strip()
    negative = bare.startswith("(") and bare.endswith(")")
    bare = bare.strip("()").removesuffix("%").strip()
    if PLAIN.fullmatch(bare) or THOUSANDS.fullmatch(bare):
        found = float(bare.replace(",", ""))
    elif EUROPEAN.fullmatch(bare):
        found = float(bare.replace(".", "").replace(",", "."))
    else:
        return np.nan
    return -found if negative else found


def time_of(text: str) -> float:
    """Seconds since 1970 of a date, since midnight of a time of day; NaN for other texts."""
    clock = CLOCK.fullmatch(text)
    if clock:
        return int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    for order, form in TIMES:
        found = form.fullmatch(text)
        if found:
            return _seconds(order, found.groups())
    return np.nan


def _seconds(order: str, parts: tuple[str | None, ...]) -> float:
    named = dict(zip(order, parts, strict=False))
    word = (named.get("b") or "").lower()
    month = int(named.get("m") or 0) or (MONTHS.index(word) + 1 if word in MONTHS else 0)
    hour, minute, second = (int(part or 0) for part in (*parts[len(order) :], 0, 0, 0)[:3])
    day = int(named.get("d") or 1)
    try:
        date = np.datetime64(f"{int(named['y'] or 0):04d}-{month:02d}-{day:02d}")
    except ValueError:
        return np.nan
    return float(date.astype("datetime64[s]").astype(np.int64)) + hour * 3600 + minute * 60 + second


def column_of(texts: np.ndarray, kind: str | None = None) -> Column:
    """Read a column; its kind is told from its values unless it is given."""
    codes, uniques = pd.factorize(texts)
    words = [str(text).strip() for text in uniques]
    gone = np.array([word in MISSING for word in words], dtype=bool)
    rows = np.bincount(codes, minlength=len(words))[~gone]
    values = np.full(len(words), np.nan)
    for reader, name in ((number_of, "number"), (time_of, "time")):
        if kind not in (None, name):
            continue
        read = np.array([np.nan if out else reader(word) for word, out in zip(words, gone, strict=True)], dtype=float)
        if kind == name or (kind is None and _share(np.isfinite(read)[~gone], rows) >= ENOUGH):
            kind, values = name, np.where(np.isfinite(read), read, np.nan)
    if kind is None:
        kind = _kind_of_words([word for word, out in zip(words, gone, strict=True) if not out], int(rows.sum()))
    shown = np.array(["" if out else word for word, out in zip(words, gone, strict=True)], dtype=object)
    return Column(shown[codes], gone[codes], kind, values[codes])


def _share(hits: np.ndarray, rows: np.ndarray) -> float:
    return float(hits @ rows / rows.sum()) if rows.sum() else 0.0


def _kind_of_words(words: list[str], rows: int) -> str:
    if words and {word.lower() for word in words} <= BOOLEANS:
        return "boolean"
    return "text" if len(set(words)) > max(20, rows / 5) else "category"
