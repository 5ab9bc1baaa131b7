"""The kind, format and missing markers of a column, from noisy counts of how its values are written. No data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lookalike.discovery.binning import SIGNIFICANT
from lookalike.schema.binned import Continuous, Datetime, Integer
from lookalike.schema.columns import Categorical, Column, Undeclared, measured
from lookalike.schema.probes import (
    COMMA_FORMS,
    MARKERS,
    MAX_PLACES,
    NUMBER_FORMS,
    TIME_FORMS,
    Places,
    Probe,
    Resolution,
    TextForm,
)

MOSTLY = 0.95
"""Share of the values that must be written as numbers, or as times of one format, to make the column one."""


def decided(column: Column, probe: Probe, counts: np.ndarray, stddev: float) -> tuple[Column, float]:
    """The column with its kind and markers, and about how many of its values are missing."""
    seen = {name: float(count) for name, count in zip(probe.classes, counts, strict=True)}
    clear = {name for name, count in seen.items() if count > SIGNIFICANT * stddev}
    if isinstance(probe, TextForm):
        # What is declared to be a value is not taken for a missing one.
        values = column.values or () if isinstance(column, Categorical) else ()
        markers = tuple(marker for marker in MARKERS if f"marker {marker}" in clear and marker not in values)
        absent = sum(seen[f"marker {marker}"] for marker in markers)
        if isinstance(column, Undeclared):
            column = _kind(column, seen, clear)
    else:
        markers = ("",) if "null" in clear else ()
        absent = seen["null"] if markers else 0.0
    if isinstance(probe, Places) and isinstance(column, Continuous) and "decimals" in column.open_facts:
        column = measured(column, "decimals", decimals=_decimals(clear))
    if isinstance(probe, Resolution) and isinstance(column, Datetime):
        found = [name for name in probe.classes[:-1] if name in clear]
        column = replace(column, resolution=found[-1] if found else "microsecond")
    if "missing" in column.open_facts:
        column = measured(column, "missing", missing=markers)
    return column, absent


def _decimals(clear: set[str]) -> int | None:
    """Places that numbers need; None as soon as some need more than the classes distinguish."""
    places = [k for k in range(MAX_PLACES + 1) if f"places {k}" in clear]
    return None if "float" in clear or not places else places[-1]


def _kind(column: Undeclared, seen: dict[str, float], clear: set[str]) -> Column:
    """Number, time or text, by how most values are written."""
    shared: dict[str, Any] = {"outside": "absorb", "storage": column.storage, "provenance": {"missing": "open"}}
    with_bins: dict[str, Any] = {**shared, "provenance": {"missing": "open", "bins": "open"}}
    values = [*NUMBER_FORMS, *COMMA_FORMS, *TIME_FORMS, "text"]
    total = max(sum(seen[form] for form in values if form in clear), 1.0)
    commas = sum(seen[form] for form in ("whole", *COMMA_FORMS) if form in clear)
    if commas >= MOSTLY * total and clear & set(COMMA_FORMS):
        return _comma_number(column.name, clear, with_bins)
    numbers = sum(seen[form] for form in NUMBER_FORMS if form in clear)
    if numbers >= MOSTLY * total and "padded" not in clear:
        return _number(column.name, clear, with_bins)
    format = _time_format(seen, clear)
    if format and sum(seen[form] for form in TIME_FORMS if form in clear) >= MOSTLY * total:
        zone = "UTC" if "z" in format else ""
        return Datetime(column.name, format=format, zone=zone, **with_bins)
    return Categorical(column.name, **shared)


def _number(name: str, clear: set[str], shared: dict[str, Any]) -> Column:
    """A whole or decimal number, with as many places as its texts show."""
    places = [k for k in range(1, MAX_PLACES + 1) if f"places {k}" in clear]
    if "float" in clear:
        return Continuous(name, **shared)
    if not places:
        # Programs that keep whole numbers as floats, often because one is missing, write all of them with a zero.
        point_zero = "whole.0" in clear and "whole" not in clear
        return Continuous(name, decimals=0, least_decimals=1, **shared) if point_zero else Integer(name, **shared)
    if "whole.0" in clear:
        places.insert(0, 1)
    least = 0 if "whole" in clear else places[0]
    return Continuous(name, decimals=places[-1], least_decimals=least if least < places[-1] else None, **shared)


def _comma_number(name: str, clear: set[str], shared: dict[str, Any]) -> Column:
    """A number with a comma before its decimals, of which there are a fixed number at most."""
    places = [k for k in range(1, MAX_PLACES + 1) if f"comma {k}" in clear]
    least = 0 if "whole" in clear else places[0]
    shown = least if least < places[-1] else None
    return Continuous(name, decimals=places[-1], least_decimals=shown, comma=True, **shared)


def _time_format(seen: dict[str, float], clear: set[str]) -> str | None:
    """The most frequent format; dates that could be day-first or month-first follow those that could not."""
    found = {form: seen[form] for form in TIME_FORMS if form in clear}
    if not found:
        return None
    best = max(found, key=lambda form: found[form])
    if not best.startswith("either:"):
        return best
    clock = best.removeprefix("either:")
    options = (f"%d/%m/%Y{clock}", f"%m/%d/%Y{clock}")
    return max(options, key=lambda form: seen[form])
