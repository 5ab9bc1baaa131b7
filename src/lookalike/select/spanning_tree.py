"""The heaviest tree over the attributes: Kruskal's algorithm on noisy pair weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.schema.domain import Clique


def maximum_spanning_tree(pairs: Sequence[Clique], weights: np.ndarray) -> list[Clique]:
    """The pairs of a spanning tree (or forest) of largest total weight, heaviest first.

    >>> maximum_spanning_tree([("a", "b"), ("b", "c"), ("a", "c")], np.array([1.0, 3.0, 2.0]))
    [('b', 'c'), ('a', 'c')]
    """
    root: dict[str, str] = {name: name for pair in pairs for name in pair}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    tree: list[Clique] = []
    for index in np.argsort(-weights, kind="stable"):
        first, second = (find(name) for name in pairs[index])
        if first != second:
            root[first] = second
            tree.append(pairs[index])
    return tree
