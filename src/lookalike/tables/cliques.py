"""Sets of attributes: which are maximal, which hang together, where a set can be read off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lookalike.schema.domain import Clique, Domain


def maximal_cliques(domain: Domain, cliques: Iterable[Iterable[str]]) -> list[Clique]:
    """The cliques that lie in no other one, in canonical form and in order of first appearance.

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
    """The set as an integer: bit i stands for the domain's i-th attribute. Any number of attributes."""
    mask = 0
    for name in attrs:
        mask |= 1 << domain.position(name)
    return mask


def mask_positions(mask: int) -> list[int]:
    """Positions of the bits that are set, ascending.

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
    """Indices of the masks, grouped so that two masks which share a bit are in the same group.

    >>> connected_components([0b0011, 0b1000, 0b0110])
    [[0, 2], [1]]
    """
    groups: list[tuple[int, list[int]]] = []
    for index, mask in enumerate(masks):
        joined, members, apart = mask, [index], []
        for other, indices in groups:
            if other & mask:
                joined |= other
                members = indices + members
            else:
                apart.append((other, indices))
        groups = [*apart, (joined, sorted(members))]
    return sorted((members for _, members in groups), key=lambda members: members[0])
