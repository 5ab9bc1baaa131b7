"""All methods by name. One spelling serves file, command line and report."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lookalike.errors import SchemaError
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Synthesizer
from lookalike.synthesizers.independent import Independent
from lookalike.synthesizers.mosaic import Mosaic
from lookalike.synthesizers.mst import MST

METHODS: dict[str, type[Synthesizer]] = {method.name: method for method in (Independent, MST, Mosaic)}


def create(name: str, settings: dict[str, Any]) -> Synthesizer:
    """The method of that name with the given settings, or an error that lists what there is."""
    if name not in METHODS:
        raise SchemaError(f"There is no method {name!r}; the methods are {', '.join(METHODS)}.")
    known = default_settings(name)
    for setting in settings:
        if setting not in known:
            raise SchemaError(f"{name} has no setting {setting!r}; it has {', '.join(known) or 'none'}.")
    return METHODS[name](**settings)


def default_settings(name: str) -> dict[str, Any]:
    """The settings of a method and their defaults."""
    return settings_of(METHODS[name]())


def settings_of(synthesizer: Synthesizer) -> dict[str, Any]:
    return {field.name: getattr(synthesizer, field.name) for field in fields(synthesizer)}  # type: ignore[arg-type]


__all__ = ["METHODS", "MethodInfo", "PlannedStep", "Synthesizer", "create", "default_settings", "settings_of"]
