"""Finds the kind, format and missing markers of a column in noisy counts of how its values are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lookalike.discovery.binning import SIGNIFICANT
from lookalike.schema.binned import Binned, Continuous, Datetime
from lookalike.schema.columns import Categorical, Column, Undeclared, measured
from lookalike.schema.form_columns import column_of, markers_of
from lookalike.schema.probes import Places, Probe, Resolution, TextForm
from lookalike.schema.text_forms import MAX_PLACES, NAMED, Form

MOSTLY = 0.95
"""Share of the values that must be written as numbers, or as times of one format, to make the column one."""

_MANY = 0.5
"""What is added to SIGNIFICANT where the classes are the forms of texts, because they are so many."""


def decided(column: Column, probe: Probe, counts: np.ndarray, stddev: float) -> tuple[Column, float]:
    """The column with its kind and markers, and the estimated number of its missing values."""
    noisy = {name: float(count) for name, count in zip(probe.classes, counts, strict=True)}
    needed = SIGNIFICANT + (_MANY if isinstance(probe, TextForm) else 0.0)
    significant = {name for name, count in noisy.items() if count > needed * stddev}
    if isinstance(probe, TextForm):
        forms = {NAMED[name]: noisy[name] for name in significant}
        if isinstance(column, Undeclared):
            column = _kind(column, forms)
        # A declared value is never taken for a missing marker.
        values = column.values or () if isinstance(column, Categorical) else ()
        found = markers_of(forms, words=isinstance(column, Binned))
        markers = tuple(marker for marker in found if marker not in values)
        absent = sum(count for form, count in forms.items() if form.text in markers and form.family != "boolean")
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


def _kind(column: Undeclared, counts: dict[Form, float]) -> Column:
    """A number, time or text, by how at least the share MOSTLY of the values is written."""
    shared: dict[str, Any] = {"outside": "absorb", "storage": column.storage}
    marks = {"missing": "open", "bins": "open"}
    money = any(form.family == "money" for form in counts)
    found = None if money else column_of(column.name, counts, mostly=MOSTLY, provenance=marks, **shared)
    return found or Categorical(column.name, provenance={"missing": "open"}, **shared)
