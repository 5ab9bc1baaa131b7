"""Lookalike: differentially private synthetic tables.

>>> import lookalike as la
>>> "mst" in la.methods()
True
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookalike.discovery.discover import Discovery as Discovery
    from lookalike.errors import LookalikeError as LookalikeError
    from lookalike.errors import LookalikeWarning as LookalikeWarning
    from lookalike.estimators import TableSynthesizer as TableSynthesizer
    from lookalike.inspecting import inspect as inspect
    from lookalike.models.redraws import Combined as Combined
    from lookalike.models.redraws import combine as combine
    from lookalike.pipeline import plan_run as plan_run
    from lookalike.pipeline import synthesize as synthesize
    from lookalike.privacy.kernel.accounting import Budget as Budget
    from lookalike.privacy.kernel.accounting import Neighbours as Neighbours
    from lookalike.privacy.ledger import Ledger as Ledger
    from lookalike.release import FittedModel as FittedModel
    from lookalike.release import Release as Release
    from lookalike.release import load as load
    from lookalike.resuming import resume as resume
    from lookalike.schema.domain import Domain as Domain
    from lookalike.schema.schema import Schema as Schema
    from lookalike.sources.clusters import SparkTable as SparkTable
    from lookalike.sources.databases import DatabaseTable as DatabaseTable

    __version__: str

# Names are imported when they are first used: `lookalike --help` needs no numeric libraries.
_HOMES = {
    "Budget": "privacy.kernel.accounting",
    "Combined": "models.redraws",
    "DatabaseTable": "sources.databases",
    "Discovery": "discovery.discover",
    "Domain": "schema.domain",
    "FittedModel": "release",
    "Ledger": "privacy.ledger",
    "LookalikeError": "errors",
    "LookalikeWarning": "errors",
    "Neighbours": "privacy.kernel.accounting",
    "Release": "release",
    "Schema": "schema.schema",
    "SparkTable": "sources.clusters",
    "TableSynthesizer": "estimators",
    "combine": "models.redraws",
    "inspect": "inspecting",
    "load": "release",
    "plan_run": "pipeline",
    "resume": "resuming",
    "synthesize": "pipeline",
}


def methods() -> list[str]:
    """Return the names of all methods."""
    from lookalike.synthesizers import METHODS

    return list(METHODS)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [public for public in __dir__() if not public.startswith("_")]
    if name == "__version__":
        return _import_module("importlib.metadata").version("lookalike")
    if name == "errors":
        return _import_module("lookalike.errors")
    if name in _HOMES:
        return getattr(_import_module(f"lookalike.{_HOMES[name]}"), name)
    if not name[0].isupper() or name not in _estimators():
        raise AttributeError(f"module 'lookalike' has no attribute {name!r}")
    return getattr(_import_module("lookalike.estimators"), name)


def _estimators() -> list[str]:
    """Return the names of the classes of all registered methods, such as `MST`; see `lookalike.estimators`."""
    return list(_import_module("lookalike.estimators").estimator_names())


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_estimators(), "__version__", "methods"])
