"""The interfaces of sources, which answer exact counts of many marginals, and of the engines that count.

Only the door and the evaluation import sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lookalike.errors import ModelTooLargeError, SchemaError
from lookalike.guards import MAX_CELLS
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.domain import ColumnSet, Domain

Counts = NDArray[np.int64]
Maps = Mapping[str, np.ndarray]
LEAST_COUNT = 10
"""Smallest number of rows of a value that a server or a cluster returns; docs/proofs/discovery.md has the price."""
Keep = Callable[[np.ndarray, int], np.ndarray]
"""Chooses rows: from the number of the person of every row and a maximum, the places of the rows that are kept."""


class Source(Protocol):
    """Gives exact counts of encoded columns. They are private: they must not leave the door without noise."""

    @property
    def domain(self) -> Domain:
        """Names and sizes of the columns."""
        ...

    def counts(self, cliques: Sequence[ColumnSet]) -> list[Counts]:
        """The number of rows in every cell of each marginal, int64, of shape `domain.shape(clique)`."""
        ...

    def recoded(self, maps: Maps) -> Source:
        """The source with columns merged by public maps from old code to new code 0..k-1."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """How rows become codes: by columns that have no open facts, then by public maps from code to code.

    Attributes:
        domain: names and sizes of the columns, after the maps.
        columns: the columns in the order of the domain; none where rows are held as codes.
        maps: the maps, by the names of the columns that have one.
    """

    domain: Domain
    columns: tuple[Column, ...] = ()
    maps: Maps = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Sequence[Column]) -> View:
        return cls(Domain.of({column.name: column.size for column in columns}), tuple(columns))

    def recoded(self, maps: Maps) -> View:
        """The view with further maps."""
        domain = recoded_domain(self.domain, maps)
        new = {name: np.asarray(codes, dtype=np.int64) for name, codes in maps.items()}
        joined = {name: codes[self.maps[name]] if name in self.maps else codes for name, codes in new.items()}
        return replace(self, domain=domain, maps={**self.maps, **joined})


class Counter(Protocol):
    """An engine that counts marginals of its rows in one pass."""

    @property
    def max_cells(self) -> int:
        """Cells of the widest set that is worth counting in order to sum it down to several smaller ones."""
        ...

    def scan(self, view: View, sets: Sequence[ColumnSet]) -> list[Counts]:
        """Exact counts of the sets, as of `Source.counts`, by reading the rows once."""
        ...


class Scanner(Counter, Protocol):
    """An engine that holds the rows of a table: memory, files, a database, a cluster.

    All that it returns but `structure` and `form` is private. It shows no value of the table in `repr`, in an error or
    in a log, and refuses to be pickled. A fault of the engine that no row can cause, such as a lost connection or a
    table that changed during the run, is a `SourceError`; anything else that fails may depend on a row. An engine that
    cannot encode every kind of column has a method `check(columns)`, which raises a SchemaError for what it cannot.
    """

    @property
    def structure(self) -> pa.Schema:
        """Names and types of the columns."""
        ...

    @property
    def form(self) -> Any:
        """The kind and format of the table, a `frames.TableForm`."""
        ...

    def value_counts(self, name: str) -> tuple[list[str], Counts]:
        """The distinct texts of a column except null and missing markers, and their numbers of rows.

        An engine that lists only texts of more rows says so by an attribute `least_count`, which the door adds to its
        threshold.
        """
        ...

    def capped(self, person: Identifier, keep: Keep) -> Scanner:
        """The same table with at most `person.max_rows` rows of each person, which are chosen once for all scans.

        An engine that numbers rows chooses by `keep`. Any other must choose in the same way: at random, for each person
        independently of the rows of others. It keeps all rows without an identifier, as each is a separate person.
        """
        ...

    def close(self) -> None:
        """Give back connections, snapshots and temporary files."""
        ...


@runtime_checkable
class Place(Protocol):
    """The place of a table that is neither a file nor a frame. Its attributes are public, and need no row."""

    @property
    def identity(self) -> str | None:
        """The name of the table in ledgers, which does not depend on the host name, user or spelling of its address.

        None for a table that lives in memory alone.
        """
        ...

    def structure(self) -> pa.Schema:
        """Names and types of the columns; an InputError where there is no such table, or no permission to read it."""
        ...

    def scanner(self) -> Scanner:
        """The engine that holds the rows. What cannot be read is refused by an InputError, at no cost."""
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


def recoded_domain(domain: Domain, maps: Maps) -> Domain:
    """The domain after recoding; a map must give every old code a new code, and use every new code."""
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    for name, codes in maps.items():
        codes = np.asarray(codes)
        new = int(codes.max()) + 1 if codes.size else 0
        if codes.shape != (domain.size(name),) or not np.array_equal(np.unique(codes), np.arange(new)):
            raise SchemaError(f"The map of column {name!r} must map its {domain.size(name)} codes onto all of 0..k-1.")
        sizes[name] = new
    return Domain.of(sizes)
