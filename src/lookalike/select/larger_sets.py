"""Which sets of three and more attributes deserve a look once the pairs are known, and which of them budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from lookalike.schema.domain import Clique, Domain
from lookalike.select.price import PricedSets, half_noise, price_at_budget


def candidate_sets(
    domain: Domain, errors: np.ndarray, known: Iterable[Clique], *, order: int, cells: int, most: int
) -> list[Clique]:
    """At most `most` sets of 3 to `order` attributes with large errors of their pairs, none inside a known set.

    From every pair grows one chain: each step adds the attribute with the largest sum of errors to the members.
    Interactions of three attributes are large where pairs interact, and the released errors say which do. Every
    candidate that is scored makes all scores noisier, so few good ones are better than all.
    """
    strength = np.maximum(errors, 0.0)
    np.fill_diagonal(strength, 0.0)
    sizes = np.array(domain.sizes, dtype=float)
    covered = [set(clique) for clique in known]
    found: dict[Clique, float] = {}
    for pair in combinations(range(len(domain)), 2):
        members = list(pair)
        while len(members) < order and strength[pair] > 0:
            gains = strength[members].sum(axis=0)
            gains[members] = 0.0
            gains[np.prod(sizes[members]) * sizes > cells] = 0.0
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            members.append(best)
            clique = tuple(domain.names[i] for i in sorted(members))
            if not any(set(clique) <= other for other in covered):
                inside = strength[np.ix_(members, members)].sum()
                found[clique] = inside / (len(members) * (len(members) - 1))
    return sorted(found, key=lambda clique: -found[clique])[:most]


def worthwhile_sets(
    cliques: Sequence[Clique], errors: np.ndarray, cells: np.ndarray, rho: float, caution: float
) -> PricedSets:
    """Of candidates with known errors, those worth their price when all together get rho; always at least one.

    A chosen set also explains part of the others: the share of their triples that it holds is taken off their error.
    """
    half = half_noise(np.asarray(cells, dtype=float), caution)
    left_by = 1.0 - np.array([[_common_triples(a, b) for b in cliques] for a in cliques])

    def at_price(eta: float) -> list[int]:
        prices = 3.0 * half ** (2 / 3) * eta ** (1 / 3)
        left = np.maximum(errors, 0.0).astype(float)
        picked: list[int] = []
        while True:
            best = int(np.argmax(left / prices))
            if left[best] <= prices[best]:
                return picked
            picked.append(best)
            left *= left_by[best]

    def precision(picked: list[int], eta: float) -> float:
        return float(((half[picked] / eta) ** (2 / 3)).sum())

    picked = price_at_budget(at_price, precision, rho) or [int(np.argmax(np.asarray(errors) / half ** (2 / 3)))]
    weights = half[picked] ** (2 / 3)
    return PricedSets([cliques[i] for i in picked], weights / weights.sum())


def _common_triples(a: Clique, b: Clique) -> float:
    """Share of the triples of b that lie in a; a set of fewer than three attributes only has itself."""
    common = len(set(a) & set(b))
    return math.comb(common, 3) / math.comb(len(b), 3) if len(b) >= 3 else float(a == b)
