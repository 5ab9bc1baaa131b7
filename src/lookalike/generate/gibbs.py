"""Gibbs sweeps: every column of every row redrawn given the row's other columns, under a log-linear model of any structure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.schema.domain import Domain

_CHUNK = 4096


def gibbs_sweep(
    domain: Domain,
    codes: np.ndarray,
    columns: Sequence[Sequence[int]],
    tables: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> None:
    """One sweep over all columns in random order, in place.

    The stationary distribution is p(x) proportional to exp(sum of tables[m][x on columns[m]]). A row's draw is an
    inverse of the cumulative distribution at a point that is stratified over the rows of a chunk.
    """
    for j in rng.permutation(len(domain)):
        size = domain.sizes[j]
        if size < 2:
            continue
        parts = []
        for m, names in enumerate(columns):
            if j in names:
                axis = list(names).index(j)
                others = [c for c in names if c != j]
                parts.append((others, np.ascontiguousarray(np.moveaxis(tables[m], axis, -1).reshape(-1, size), np.float32)))
        for first in range(0, len(codes), _CHUNK):
            block = codes[first : first + _CHUNK]
            logits = np.zeros((len(block), size), np.float32)
            for others, table in parts:
                key = np.zeros(len(block), np.int64)
                for c in others:
                    key *= domain.sizes[c]
                    key += block[:, c]
                logits += table[key]
            logits -= logits.max(axis=1, keepdims=True)
            np.exp(logits, out=logits)
            np.cumsum(logits, axis=1, out=logits)
            points = (rng.permutation(len(block)) + rng.random(len(block))) / len(block)
            points = (points * logits[:, -1]).astype(np.float32)
            block[:, j] = np.minimum((logits < points[:, None]).sum(axis=1), size - 1)
