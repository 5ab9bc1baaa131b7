"""All methods. Every module of this folder and of `papers` is imported, and `@method` registers the classes in it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from lookalike.errors import SchemaError
from lookalike.synthesizers.base import METHODS, Method, MethodInfo, setting_fields
from lookalike.synthesizers.split import Split, Step

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "None": (type(None),),
}  # fmt: skip
_PLAIN_NAMES = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "None": "null"}


def create(name: str, settings: dict[str, Any]) -> Method:
    """Return the method of that name with the given settings; raises an error that lists the valid names."""
    if name not in METHODS:
        raise SchemaError(f"There is no method {name!r}; the methods are {', '.join(METHODS)}.")
    known = {field.name: field for field in setting_fields(METHODS[name])}
    for setting, value in settings.items():
        if setting not in known:
            raise SchemaError(f"{name} has no setting {setting!r}; it has {', '.join(known) or 'none'}.")
        _check_type(name, setting, value, str(known[setting].type), known[setting].default)
    return METHODS[name](**settings)


def _check_type(method: str, setting: str, value: Any, annotation: str, default: Any) -> None:
    """Check the type of a value by its setting's annotation, or by the default where the annotation is not listed."""
    if setting == "workload" and isinstance(value, str | list | tuple):
        return
    names = [name for name in annotation.split(" | ") if name in _TYPES] or [type(default).__name__]
    allowed = tuple(kind for name in names for kind in _TYPES.get(name, (type(default),)))
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        expected = " or ".join(_PLAIN_NAMES.get(name, name) for name in names)
        was = f"{method}: setting {setting} is {value!r}"
        raise SchemaError(f"{was}; it must be {expected}. The default is {default!r}.")


def default_settings(name: str) -> dict[str, Any]:
    """Return the settings of a method and their defaults."""
    return {field.name: field.default for field in setting_fields(METHODS[name])}


def settings_of(method: Method) -> dict[str, Any]:
    """Return the settings of a method and their values."""
    return {field.name: getattr(method, field.name) for field in setting_fields(type(method))}


__all__ = [
    "METHODS", "Method", "MethodInfo", "Split", "Step", "create", "default_settings", "settings_of",
]  # fmt: skip
