"""All methods. Every module of this folder and of `papers` is imported, and `@method` registers the classes in it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from lookalike.synthesizers.base import METHODS, Method, MethodInfo, create, default_settings, settings_of
from lookalike.synthesizers.split import Split, Step

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = [
    "METHODS", "Method", "MethodInfo", "Split", "Step", "create", "default_settings", "settings_of",
]  # fmt: skip
