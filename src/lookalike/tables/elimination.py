"""Sums of products of small tables, one variable at a time: exact marginals of a sparse network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A table with one named variable per axis."""

    names: tuple[str, ...]
    values: np.ndarray


def sum_product(factors: Sequence[Factor], keep: Sequence[str]) -> np.ndarray:
    """The product of all factors summed over every variable outside `keep`; axes in the order of `keep`.

    Variables go one by one, next the one whose table is smallest when it goes (greedy min-size).

    >>> a, b = Factor(("x",), np.array([0.4, 0.6])), Factor(("x", "y"), np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> sum_product([a, b], ["y"])
    array([0.7, 0.3])
    """
    left = list(factors)
    for name, _ in _steps(factors, keep):
        touched = [factor for factor in left if name in factor.names]
        left = [factor for factor in left if name not in factor.names]
        names = tuple(dict.fromkeys(n for factor in touched for n in factor.names if n != name))
        left.append(Factor(names, _contract(touched, names)))
    return _contract(left, tuple(keep))


def eliminated_cells(factors: Sequence[Factor], keep: Sequence[str]) -> int:
    """Cells of the largest table that `sum_product` would make, its answer included, without making any."""
    sizes = _sizes(factors)
    return max([math.prod(sizes[name] for name in keep), *(cells for _, cells in _steps(factors, keep))])


def _steps(factors: Sequence[Factor], keep: Sequence[str]) -> list[tuple[str, int]]:
    """Which variable goes next, and the cells of the table it stands in when it goes."""
    sizes = _sizes(factors)
    scopes = [frozenset(factor.names) for factor in factors]
    waiting = set(sizes) - set(keep)
    steps = []
    while waiting:
        unions = {name: frozenset().union(*(scope for scope in scopes if name in scope)) for name in waiting}
        cells = {name: math.prod(sizes[n] for n in union) for name, union in unions.items()}
        name = min(waiting, key=lambda n: (cells[n], n))
        scopes = [scope for scope in scopes if name not in scope] + [unions[name] - {name}]
        steps.append((name, cells[name]))
        waiting.discard(name)
    return steps


def _sizes(factors: Sequence[Factor]) -> dict[str, int]:
    return {name: size for factor in factors for name, size in zip(factor.names, factor.values.shape, strict=True)}


def _contract(factors: Sequence[Factor], names: tuple[str, ...]) -> np.ndarray:
    if not factors:
        return np.ones(())
    number = {name: i for i, name in enumerate(dict.fromkeys((*names, *(n for f in factors for n in f.names))))}
    operands: list[Any] = []
    for factor in factors:
        operands += [factor.values, [number[name] for name in factor.names]]
    return np.einsum(*operands, [number[name] for name in names], optimize=len(factors) > 2)
