"""Which sets of three and more attributes deserve a look once the pairs are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lookalike.schema.domain import Clique, Domain

_TRIES = 10


def candidate_sets(
    domain: Domain,
    errors: np.ndarray,
    known: Iterable[Clique],
    fits: Callable[[Clique], bool],
    rng: np.random.Generator,
    *,
    order: int,
    most: int,
) -> list[Clique]:
    """At most `most` random sets of 3 to `order` attributes that fit and lie in no known set.

    A set of random size starts from a pair and takes in one attribute after the other, each drawn in proportion to the
    released errors of the pairs that it brings in: interactions of three and more attributes are large where pairs
    interact. All sizes are tried alike, and chance keeps the sets apart; the strongest sets alone would be many
    versions of one. A set that does not fit is cut back to what did.

    Args:
        domain: the attributes.
        errors: symmetric matrix of the pairs' noisy errors; negative ones count as 0.
        known: sets that were measured.
        fits: whether a set is small enough to be measured well; smaller sets must fit if larger ones do.
        rng: public randomness.
        order: most attributes of a set.
        most: every candidate that is scored makes all scores noisier, so few are better than all.
    """
    strength = np.maximum(errors, 0.0)
    np.fill_diagonal(strength, 0.0)
    upper = np.triu(strength).ravel()
    covered, found = [set(clique) for clique in known], dict[Clique, None]()
    if not upper.any() or order < 3:
        return []
    pairs = rng.choice(upper.size, _TRIES * most, p=upper / upper.sum())
    wanted = rng.integers(3, order + 1, pairs.size)
    for flat, size in zip(pairs.tolist(), wanted.tolist(), strict=True):
        clique = _grown(domain, strength, list(divmod(flat, len(domain))), size, fits, rng)
        if len(clique) > 2 and not any(other.issuperset(clique) for other in covered):
            found[clique] = None
        if len(found) == most:
            break
    return list(found)


def _grown(
    domain: Domain,
    strength: np.ndarray,
    members: list[int],
    size: int,
    fits: Callable[[Clique], bool],
    rng: np.random.Generator,
) -> Clique:
    """The pair with random attributes added until it has the size or the next one does not fit."""
    clique = tuple(domain.names[i] for i in sorted(members))
    while len(members) < size:
        gains = strength[members].sum(axis=0)
        gains[members] = 0.0
        if not gains.any():
            break
        members = [*members, int(rng.choice(len(gains), p=gains / gains.sum()))]
        larger = tuple(domain.names[i] for i in sorted(members))
        if not fits(larger):
            break
        clique = larger
    return clique
