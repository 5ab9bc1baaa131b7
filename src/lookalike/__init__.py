"""Lookalike: differentially private synthetic tables.

>>> import lookalike as la
>>> "mst" in la.methods()
True
"""

from __future__ import annotations

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

__version__ = _version("lookalike")

if TYPE_CHECKING:
    from lookalike.estimators import (
        AIM,
        BSG,
        DPWGAN,
        FEM,
        MST,
        MWEM,
        MWEMPGM,
        PATEGAN,
        PBPGM,
        RAP,
        Auto,
        DPCopula,
        DualQuery,
        Independent,
        Mosaic,
        PPSyn,
        PrivBayes,
        PriView,
        PrivMRF,
        PrivSyn,
        TableSynthesizer,
    )
    from lookalike.pipeline import plan_run, synthesize
    from lookalike.privacy.kernel.accounting import Budget
    from lookalike.privacy.kernel.neighbours import Neighbours
    from lookalike.privacy.ledger import Ledger
    from lookalike.release import FittedModel, Release, load
    from lookalike.schema.domain import Domain
    from lookalike.schema.schema import Schema

# Names are imported when first used: a command that prints the ledger need not load numeric libraries.
_HOMES = {
    "AIM": "estimators",
    "BSG": "estimators",
    "DPWGAN": "estimators",
    "MST": "estimators",
    "MWEM": "estimators",
    "MWEMPGM": "estimators",
    "Mosaic": "estimators",
    "Auto": "estimators",
    "Budget": "privacy.kernel.accounting",
    "DPCopula": "estimators",
    "DualQuery": "estimators",
    "FEM": "estimators",
    "Domain": "schema.domain",
    "FittedModel": "release",
    "Independent": "estimators",
    "Ledger": "privacy.ledger",
    "Neighbours": "privacy.kernel.neighbours",
    "PATEGAN": "estimators",
    "PBPGM": "estimators",
    "PPSyn": "estimators",
    "PrivBayes": "estimators",
    "PriView": "estimators",
    "PrivMRF": "estimators",
    "PrivSyn": "estimators",
    "RAP": "estimators",
    "Release": "release",
    "Schema": "schema.schema",
    "TableSynthesizer": "estimators",
    "load": "release",
    "plan_run": "pipeline",
    "synthesize": "pipeline",
}


def methods() -> list[str]:
    """Names of all methods."""
    from lookalike.synthesizers import METHODS

    return list(METHODS)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lookalike' has no attribute {name!r}")
    return getattr(_import_module(f"lookalike.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__", "methods"])


__all__ = [
    "AIM",
    "BSG",
    "DPWGAN",
    "FEM",
    "MST",
    "MWEM",
    "MWEMPGM",
    "PATEGAN",
    "PBPGM",
    "RAP",
    "Auto",
    "Budget",
    "DPCopula",
    "Domain",
    "DualQuery",
    "FittedModel",
    "Independent",
    "Ledger",
    "Mosaic",
    "Neighbours",
    "PPSyn",
    "PriView",
    "PrivBayes",
    "PrivMRF",
    "PrivSyn",
    "Release",
    "Schema",
    "TableSynthesizer",
    "load",
    "methods",
    "plan_run",
    "synthesize",
]
