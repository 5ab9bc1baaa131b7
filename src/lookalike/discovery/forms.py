"""Finds the kind, format and missing markers of a column in noisy counts of how its values are written."""

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
    """The column with its kind and markers, and the estimated number of its missing values."""
    noisy = {name: float(count) for name, count in zip(probe.classes, counts, strict=True)}
    significant = {name for name, count in noisy.items() if count > SIGNIFICANT * stddev}
    if isinstance(probe, TextForm):
        # A declared value is never taken for a missing marker.
        values = column.values or () if isinstance(column, Categorical) else ()
        markers = tuple(marker for marker in MARKERS if f"marker {marker}" in significant and marker not in values)
        absent = sum(noisy[f"marker {marker}"] for marker in markers)
        if isinstance(column, Undeclared):
            column = _kind(column, noisy, significant)
    else:
        markers = ("",) if "null" in significant else ()
        absent = noisy["null"] if markers else 0.0
    if isinstance(probe, Places) and isinstance(column, Continuous) and "decimals" in column.open_facts:
        column = measured(column, "decimals", decimals=_decimals(significant))
    if isinstance(probe, Resolution) and isinstance(column, Datetime):
        found = [name for name in probe.classes[:-1] if name in significant]
        column = replace(column, resolution=found[-1] if found else "microsecond")
    if "missing" in column.open_facts:
        column = measured(column, "missing", missing=markers)
    return column, absent


def _decimals(significant: set[str]) -> int | None:
    """Decimals that the numbers need; None where some need more than the classes distinguish."""
    places = [k for k in range(MAX_PLACES + 1) if f"places {k}" in significant]
    return None if "float" in significant or not places else places[-1]


def _kind(column: Undeclared, noisy: dict[str, float], significant: set[str]) -> Column:
    """A number, time or text, by how at least the share MOSTLY of the values is written."""
    shared: dict[str, Any] = {"outside": "absorb", "storage": column.storage, "provenance": {"missing": "open"}}
    with_bins: dict[str, Any] = {**shared, "provenance": {"missing": "open", "bins": "open"}}
    values = [*NUMBER_FORMS, *COMMA_FORMS, *TIME_FORMS, "text"]
    total = max(sum(noisy[form] for form in values if form in significant), 1.0)
    commas = sum(noisy[form] for form in ("whole", *COMMA_FORMS) if form in significant)
    if commas >= MOSTLY * total and significant & set(COMMA_FORMS):
        places = [k for k in range(1, MAX_PLACES + 1) if f"comma {k}" in significant]
        return _decimal_number(column.name, places, significant, comma=True, **with_bins)
    numbers = sum(noisy[form] for form in NUMBER_FORMS if form in significant)
    if numbers >= MOSTLY * total and "padded" not in significant:
        return _number(column.name, significant, with_bins)
    format = _time_format(noisy, significant)
    if format and sum(noisy[form] for form in TIME_FORMS if form in significant) >= MOSTLY * total:
        zone = "UTC" if "z" in format else ""
        return Datetime(column.name, format=format, zone=zone, **with_bins)
    return Categorical(column.name, **shared)


def _number(name: str, significant: set[str], shared: dict[str, Any]) -> Column:
    """A whole or decimal number, with as many decimals as its texts show."""
    places = [k for k in range(1, MAX_PLACES + 1) if f"places {k}" in significant]
    if "float" in significant:
        return Continuous(name, **shared)
    if not places:
        # Programs that keep whole numbers as floats, often because one is missing, write all of them with a zero.
        point_zero = "whole.0" in significant and "whole" not in significant
        return Continuous(name, decimals=0, least_decimals=1, **shared) if point_zero else Integer(name, **shared)
    if "whole.0" in significant:
        places.insert(0, 1)
    return _decimal_number(name, places, significant, **shared)


def _decimal_number(name: str, places: list[int], significant: set[str], **shared: Any) -> Column:
    """A number with the largest of these numbers of decimals, and the smallest where texts leave out final zeros."""
    least = 0 if "whole" in significant else places[0]
    return Continuous(name, decimals=places[-1], least_decimals=least if least < places[-1] else None, **shared)


def _time_format(noisy: dict[str, float], significant: set[str]) -> str | None:
    """The most frequent format; dates that could be day-first or month-first follow those that could not."""
    found = {form: noisy[form] for form in TIME_FORMS if form in significant}
    if not found:
        return None
    best = max(found, key=lambda form: found[form])
    if not best.startswith("either:"):
        return best
    clock = best.removeprefix("either:")
    options = (f"%d/%m/%Y{clock}", f"%m/%d/%Y{clock}")
    return max(options, key=lambda form: noisy[form])
