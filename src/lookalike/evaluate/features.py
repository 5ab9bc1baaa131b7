"""Codes as features of classifiers, and the one place that looks for scikit-learn."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
from scipy import sparse

from lookalike.errors import MissingExtraError
from lookalike.schema.domain import Domain


def sklearn_module(name: str) -> ModuleType:
    """The module `sklearn.<name>`, or an error that says how to install it."""
    try:
        return importlib.import_module(f"sklearn.{name}")
    except ImportError:
        raise MissingExtraError("scikit-learn", "evaluate", "Judging by classifiers") from None


def one_hot(codes: np.ndarray, domain: Domain, *, without: str | None = None) -> sparse.csr_matrix:
    """One 0/1 feature per value of every column except `without`; exactly one 1 per row and column."""
    kept = [i for i, name in enumerate(domain.names) if name != without]
    sizes = [domain.sizes[i] for i in kept]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    indices = (codes[:, kept] + offsets[:-1]).astype(np.int32).ravel()
    starts = np.arange(0, indices.size + 1, max(1, len(kept)), dtype=np.int32)
    values = np.ones(indices.size, dtype=np.float64)
    return sparse.csr_matrix((values, indices, starts), shape=(len(codes), int(offsets[-1])))


def without_column(codes: np.ndarray, domain: Domain, target: str) -> np.ndarray:
    """The codes of all columns but `target`: features of trees, which split codes by order."""
    return np.delete(codes, domain.position(target), axis=1)


def thinned(codes: np.ndarray, max_rows: int | None, seed: int) -> np.ndarray:
    """At most `max_rows` random rows."""
    if max_rows is None or len(codes) <= max_rows:
        return codes
    return codes[np.random.default_rng([seed, 13]).choice(len(codes), max_rows, replace=False)]
