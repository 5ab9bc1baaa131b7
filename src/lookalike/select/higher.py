"""Which sets of three and more attributes deserve a look once the pairs are known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from lookalike.schema.domain import Clique, Domain


def grown_candidates(
    domain: Domain, errors: np.ndarray, known: Iterable[Clique], *, order: int, cells: int, most: int
) -> list[Clique]:
    """At most `most` sets of 3 to `order` attributes in which the pairs' errors are large, none inside a known set.

    From every pair grows one chain: each step adds the attribute with the largest sum of errors to the members.
    Interactions of three attributes need pairs that interact; what is released already says which do.
    """
    strength = np.maximum(errors, 0.0)
    sizes = np.array(domain.sizes, dtype=float)
    covered = [set(clique) for clique in known]
    found: dict[Clique, float] = {}
    for pair in combinations(range(len(domain)), 2):
        members = list(pair)
        while len(members) < order:
            gains = strength[members].sum(axis=0)
            gains[members] = -1.0
            gains[np.prod(sizes[members]) * sizes > cells] = -1.0
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            members.append(best)
            clique = tuple(domain.names[i] for i in sorted(members))
            if not any(set(clique) <= other for other in covered):
                inside = strength[np.ix_(members, members)].sum() / 2
                found[clique] = inside / (len(members) * (len(members) - 1) / 2)
    return sorted(found, key=lambda clique: -found[clique])[:most]
