"""Column sets as bit masks, and the contraction plan: factors, a binary tree over them, an order of the variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lookalike.schema.domain import ColumnSet, Domain


def maximal_cliques(domain: Domain, cliques: Iterable[Iterable[str]]) -> list[ColumnSet]:
    """Return the column sets that lie in no other one, in domain order and in order of first appearance.

    >>> domain = Domain(("a", "b", "c"), (2, 2, 2))
    >>> maximal_cliques(domain, [("b",), ("b", "a"), ("c",), ("a", "b")])
    [('a', 'b'), ('c',)]
    """
    unique = list(dict.fromkeys(domain.canonical(clique) for clique in cliques))
    masks = [clique_mask(domain, clique) for clique in unique]
    largest_first = sorted(set(masks), key=int.bit_count, reverse=True)
    kept: list[int] = []
    for mask in largest_first:
        if mask and not any(mask & other == mask for other in kept):
            kept.append(mask)
    wanted = set(kept)
    return [clique for clique, mask in zip(unique, masks, strict=True) if mask in wanted]


def clique_mask(domain: Domain, attrs: Iterable[str]) -> int:
    """Return the column set as an integer whose bit i stands for the domain's column i."""
    mask = 0
    for name in attrs:
        mask |= 1 << domain.position(name)
    return mask


def mask_positions(mask: int) -> list[int]:
    """Return the positions of the bits that are set, ascending.

    >>> mask_positions(0b10110)
    [1, 2, 4]
    """
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions


def connected_components(masks: Sequence[int]) -> list[list[int]]:
    """Return the indices of the masks, grouped so that two masks which share a bit are in the same group.

    >>> connected_components([0b0011, 0b1000, 0b0110])
    [[0, 2], [1]]
    """
    groups: list[tuple[int, list[int]]] = []
    for index, mask in enumerate(masks):
        joined, members, others = mask, [index], []
        for other, indices in groups:
            if other & mask:
                joined |= other
                members = indices + members
            else:
                others.append((other, indices))
        groups = [*others, (joined, sorted(members))]
    return sorted((members for _, members in groups), key=lambda members: members[0])


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """How a model is evaluated: its factors, the tree over them and the order of the variables.

    Attributes:
        domain: names and sizes of all columns, also of those in no factor.
        leaves: scopes of the factors, none inside another. Factors of one connected component are consecutive.
        children: one pair of node numbers per inner node. Leaf i is node i, inner node j is node len(leaves) + j;
            children come before parents. Every connected component is a separate tree.
        order: every column position once; arrays store their axes in this order.
    """

    stored_fields: ClassVar[tuple[str, ...]] = ("leaves", "children", "order")

    domain: Domain
    leaves: tuple[ColumnSet, ...]
    children: tuple[Pair, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.domain))):
            raise ValueError(f"order {self.order} is no permutation of {len(self.domain)} columns")
        used = [child for pair in self.children for child in pair]
        if len(set(used)) != len(used):
            raise ValueError("a node of the contraction tree has two parents")
        for j, pair in enumerate(self.children):
            if max(pair) >= len(self.leaves) + j or min(pair) < 0:
                raise ValueError(
                    f"node {len(self.leaves) + j} of the contraction tree comes before its children {pair}"
                )

    @property
    def roots(self) -> list[int]:
        """Root of every connected component, ascending."""
        used = {child for pair in self.children for child in pair}
        nodes = range(len(self.leaves) + len(self.children))
        return [node for node in nodes if node not in used]


def shared_masks(masks: Sequence[int]) -> list[int]:
    """Return each mask without the bits that occur in no other mask, which are summed out of their factor first."""
    once, twice = 0, 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return [mask & twice for mask in masks]


def tree_scopes(leaf_masks: Sequence[int], children: Sequence[Pair]) -> list[int]:
    """Return the scope of every node: the columns that occur both in leaves below it and in other leaves."""
    count = len(leaf_masks)
    below = list(leaf_masks)
    for a, b in children:
        below.append(below[a] | below[b])
    above = [0] * len(below)
    for j in range(len(children) - 1, -1, -1):
        a, b = children[j]
        above[a] = above[count + j] | below[b]
        above[b] = above[count + j] | below[a]
    return [low & high for low, high in zip(below, above, strict=True)]
