"""Gibbs sweeps: every column of every row redrawn given its other columns, for log-linear models of any structure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.schema.cells import cell_numbers
from lookalike.schema.domain import Domain

_CHUNK = 4096


def gibbs_sweep(
    domain: Domain,
    codes: np.ndarray,
    scopes: Sequence[Sequence[int]],
    tables: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> None:
    """One sweep over all columns in random order, in place.

    Leaves p(x) proportional to exp(sum over m of tables[m][x on scopes[m]]) unchanged: rows that follow it before
    follow it after. Within a chunk the random points are stratified over the rows, so that counts vary less.
    """
    for column in rng.permutation(len(domain)):
        size = domain.sizes[column]
        if size < 2:
            continue
        parts = [
            ([c for c in scope if c != column], _last_axis(table, list(scope).index(column)))
            for scope, table in zip(scopes, tables, strict=True)
            if column in scope
        ]
        for first in range(0, len(codes), _CHUNK):
            block = codes[first : first + _CHUNK]
            logits = np.zeros((len(block), size), np.float32)
            for others, table in parts:
                logits += table[cell_numbers(block, others, domain.sizes)]
            logits -= logits.max(axis=1, keepdims=True)
            ends = np.cumsum(np.exp(logits, out=logits), axis=1)
            points = (rng.permutation(len(block)) + rng.random(len(block))) / len(block)
            found = (ends < (points * ends[:, -1])[:, None]).sum(axis=1)
            block[:, column] = np.minimum(found, size - 1)


def _last_axis(table: np.ndarray, axis: int) -> np.ndarray:
    """The table as a matrix whose columns are the values along `axis`."""
    return np.ascontiguousarray(np.moveaxis(table, axis, -1).reshape(-1, table.shape[axis]), np.float32)
