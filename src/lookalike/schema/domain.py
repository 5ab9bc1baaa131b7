"""Names and sizes of the columns of an integer-coded table: all that arithmetic on marginals needs to know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lookalike.errors import SchemaError

ColumnSet = tuple[str, ...]
"""Names of columns in the order of their domain: the key under which a marginal is stored."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Ordered names of columns and their numbers of codes.

    >>> domain = Domain(("age", "sex", "income"), (16, 2, 5))
    >>> domain.cells(("income", "sex"))
    10
    >>> domain.canonical(["income", "age"])
    ('age', 'income')
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    _position: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes):
            raise SchemaError(f"{len(self.names)} names but {len(self.sizes)} sizes; give one size per column.")
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise SchemaError(f"Column {twice!r} occurs twice; rename one of the two.")
        for name, size in zip(self.names, self.sizes, strict=True):
            if size < 1:
                raise SchemaError(f"Column {name!r} has {size} values; a column needs at least 1.")
        object.__setattr__(self, "_position", {name: i for i, name in enumerate(self.names)})

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """The domain of a plain mapping from name to size."""
        return cls(tuple(sizes), tuple(sizes.values()))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def position(self, name: str) -> int:
        """Index of a column; a SchemaError that lists the columns where it is unknown."""
        try:
            return self._position[name]
        except KeyError:
            raise SchemaError(f"No column {name!r}; the columns are {', '.join(self.names)}.") from None

    def size(self, name: str) -> int:
        return self.sizes[self.position(name)]

    def shape(self, attrs: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.size(name) for name in attrs)

    def cells(self, attrs: Iterable[str] | None = None) -> int:
        """Number of cells of the marginal on `attrs` (of the whole domain when not given), as an exact integer."""
        return math.prod(self.sizes if attrs is None else self.shape(attrs))

    def canonical(self, attrs: Iterable[str]) -> ColumnSet:
        """`attrs` without repeats, in domain order: the key under which a marginal is stored."""
        return tuple(sorted(set(attrs), key=self.position))

    def project(self, attrs: Iterable[str]) -> Domain:
        attrs = tuple(attrs)
        return Domain(attrs, self.shape(attrs))
