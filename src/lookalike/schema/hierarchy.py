"""Public hierarchies: levels of groups of a column's values or bins, each level with fewer groups.

A level of categories lists its groups with their members, which are values or groups of the level before:
{"school": ["9th", "HS-grad"], "degree": ["Bachelors", "Masters"]}. A level of bins merges neighbours: a number of
groups as equal as can be, or the lower edges of the groups. Levels go from fine to coarse, and each lies within the
next, so that a method may count a column at any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from lookalike.errors import SchemaError
from lookalike.schema.documents import as_text

CategoryLevel = tuple[tuple[str, tuple[str, ...]], ...]
"""Groups and their members."""
BinLevel = int | tuple[Any, ...]
"""A number of groups of neighbouring bins, or the lower edges of the groups."""


def category_levels(name: str, levels: Sequence[Any]) -> tuple[CategoryLevel, ...]:
    """Levels in their stored form, from mappings of groups to lists of members or from the stored form."""
    found = []
    for number, level in enumerate(levels, start=1):
        pairs = list(level.items()) if isinstance(level, Mapping) else level
        if not isinstance(pairs, list | tuple) or any(
            isinstance(pair, str) or len(pair) != 2 or not isinstance(pair[1], list | tuple) for pair in pairs
        ):
            _fail(name, f"has {level!r} as level {number} of its hierarchy", "Map every group to a list of its values.")
        found.append(tuple((as_text(group), tuple(as_text(member) for member in listed)) for group, listed in pairs))
    return tuple(found)


def category_groups(name: str, values: Sequence[str], levels: Sequence[CategoryLevel]) -> list[np.ndarray]:
    """For every level, the number of each value's group; groups are numbered in the order of the level.

    Raises a SchemaError where a value has no group or two, a member is unknown, or a level splits a group.

    >>> levels = [(("school", ("9th", "12th")), ("degree", ("BSc", "MSc"))), (("all", ("school", "degree")),)]
    >>> [groups.tolist() for groups in category_groups("education", ("9th", "12th", "BSc", "MSc"), levels)]
    [[0, 0, 1, 1], [0, 0, 0, 0]]
    """
    places = {value: i for i, value in enumerate(values)}
    before: dict[str, list[int]] = {}
    found = [np.arange(len(values))]
    for number, level in enumerate(levels, start=1):
        where = f"level {number} of its hierarchy"
        groups = np.full(len(values), -1)
        members: dict[str, list[int]] = {}
        for group, (label, listed) in enumerate(level):
            members[label] = []
            for member in listed:
                # A name that is both a value and a group means the group: no level may split it anyway.
                inside = before.get(member, [places[member]] if member in places else [])
                if not inside:
                    _fail(
                        name, f"lists {member!r} in {where}, which is neither a value nor a group below", "Remove it."
                    )
                twice = [i for i in inside if groups[i] not in (-1, group)]
                if twice:
                    _fail(name, f"puts {values[twice[0]]!r} into two groups of {where}", "Leave it in one.")
                groups[inside] = group
                members[label] += inside
        if (groups < 0).any():
            left = values[int(np.argmax(groups < 0))]
            _fail(name, f"has the value {left!r} in no group of {where}", "Put every value into one group.")
        if len(np.unique(groups)) < len(level):
            _fail(name, f"has an empty group, or two of one name, in {where}", "Name every group once, with members.")
        _check_nested(name, found[-1], groups, number)
        found.append(groups)
        before = members
    return found[1:]


def bin_groups(
    name: str, edges: np.ndarray, levels: Sequence[BinLevel], internal: Mapping[int, np.ndarray]
) -> list[np.ndarray]:
    """For every level, the number of each bin's group of neighbours.

    A number of groups is reduced to that of the level below where it is larger, so that it fits any bins.

    Args:
        name: the column, for error messages.
        edges: lower edges of the bins.
        levels: the levels.
        internal: lower edges of the groups, for the places of those levels that list them.

    >>> [groups.tolist() for groups in bin_groups("age", np.arange(0, 60, 10), [3, (0, 40)], {1: np.array([0, 40])})]
    [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]]
    """
    found = [np.arange(len(edges))]
    for place, level in enumerate(levels):
        below = found[-1]
        if isinstance(level, int):
            count = int(below[-1]) + 1
            found.append(below * min(level, count) // count)
            continue
        starts = np.array([int(np.argmin(np.abs(edges - edge))) for edge in internal[place]])
        slack = 1e-9 * max(1.0, float(np.abs(edges).max()))
        if len(starts) == 0 or starts[0] != 0 or (np.abs(edges[starts] - internal[place]) > slack).any():
            _fail(
                name,
                f"has edges in level {place + 1} of its hierarchy that are not lower edges of bins, the first included",
                "List the minimum and further edges out of those of the bins.",
            )
        if (np.diff(starts) <= 0).any():
            _fail(name, f"has edges in level {place + 1} of its hierarchy that do not rise", "Sort them.")
        groups = np.searchsorted(starts, np.arange(len(edges)), side="right") - 1
        _check_nested(name, below, groups, place + 1)
        found.append(groups)
    return found[1:]


def _check_nested(name: str, fine: np.ndarray, coarse: np.ndarray, number: int) -> None:
    """Refuse a level that splits a group of the level below, or does not have fewer groups."""
    where = f"level {number} of its hierarchy"
    first = np.zeros(int(fine.max()) + 1, dtype=np.int64)
    first[fine[::-1]] = coarse[::-1]
    if (first[fine] != coarse).any():
        _fail(name, f"splits a group of the level below in {where}", "Put whole groups together.")
    if coarse.max() >= fine.max():
        _fail(name, f"merges nothing in {where}", "List levels from fine to coarse, each with fewer groups.")


def _fail(name: str, what: str, remedy: str) -> NoReturn:
    raise SchemaError(f"Column {name!r} {what}. {remedy}")
