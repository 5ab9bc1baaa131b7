"""Lookalike: differentially private synthetic tables.

>>> import lookalike as la
>>> sorted(la.methods())[:2]
['independent', 'mst']
"""

from __future__ import annotations

from importlib.metadata import version as _version

__version__ = _version("lookalike")

from lookalike.estimators import MST, Independent, TableSynthesizer
from lookalike.pipeline import plan_run, synthesize
from lookalike.privacy.budget import Budget
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.neighbours import Neighbours
from lookalike.release import FittedModel, Release, load
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema


def methods() -> list[str]:
    """Names of all methods."""
    from lookalike.synthesizers import METHODS

    return list(METHODS)


__all__ = [
    "MST",
    "Budget",
    "Domain",
    "FittedModel",
    "Independent",
    "Ledger",
    "Neighbours",
    "Release",
    "Schema",
    "TableSynthesizer",
    "load",
    "methods",
    "plan_run",
    "synthesize",
]
