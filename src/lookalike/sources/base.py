"""The interface of sources: exact counts of many marginals. Only the door and the evaluation import sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from lookalike.errors import ModelTooLargeError, SchemaError
from lookalike.guards import MAX_CELLS
from lookalike.schema.domain import ColumnSet, Domain


class Source(Protocol):
    """Exact counts of encoded columns. What it returns is private: it must not leave the door without noise."""

    @property
    def domain(self) -> Domain:
        """Names and sizes of the columns."""
        ...

    def counts(self, cliques: Sequence[ColumnSet]) -> list[np.ndarray]:
        """The number of rows in every cell of each marginal, int64, of shape `domain.shape(clique)`."""
        ...

    def recoded(self, maps: Mapping[str, np.ndarray]) -> Source:
        """The source with columns merged by public maps from old code to new code 0..k-1."""
        ...


def check_cliques(domain: Domain, cliques: Sequence[ColumnSet]) -> None:
    """Refuse a column set out of domain order, and more than MAX_CELLS cells in all, before anything is allocated."""
    for clique in cliques:
        if tuple(clique) != domain.canonical(clique):
            raise SchemaError(
                f"The columns {clique} are not in the order of the domain; use domain.canonical(columns)."
            )
    cells = sum(domain.cells(clique) for clique in cliques)
    if cells > MAX_CELLS:
        one = f"{len(cliques[0])} columns together"
        what = f"Counting {one if len(cliques) == 1 else f'{len(cliques)} marginals'}"
        remedy = "Give the widest columns fewer bins or values in the schema."
        raise ModelTooLargeError(what, cells, MAX_CELLS, "cells", remedy)


def recoded_domain(domain: Domain, maps: Mapping[str, np.ndarray]) -> Domain:
    """The domain after recoding; a map must give every old code a new code, and use every new code."""
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    for name, codes in maps.items():
        codes = np.asarray(codes)
        new = int(codes.max()) + 1 if codes.size else 0
        if codes.shape != (domain.size(name),) or not np.array_equal(np.unique(codes), np.arange(new)):
            raise SchemaError(f"The map of column {name!r} must map its {domain.size(name)} codes onto all of 0..k-1.")
        sizes[name] = new
    return Domain.of(sizes)
