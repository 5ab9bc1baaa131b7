"""Any marginal from consistent ones: the table of greatest entropy that has all their projections (PriView, 4.4)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lookalike.estimate.consistency import ConsistentMarginals

_SWEEPS, _TOLERANCE = 200, 1e-9


def reconstruct(targets: ConsistentMarginals, attrs: Iterable[str]) -> np.ndarray:
    """Expected counts of the marginal on `attrs`, axes in domain order, adding up to the total.

    A marginal inside one of the tables is summed from it. Otherwise the tables' projections onto `attrs` are fitted in
    turn, from an even table (iterative proportional fitting), which converges to the table of greatest entropy that has
    them all, if there is one. Projections that agree with each other need not have a common table: then the fit ends
    between them, after a fixed number of sweeps.
    """
    clique = targets.domain.canonical(attrs)
    shape = targets.domain.shape(clique)
    projections = _projections(targets, clique)
    table = np.full(shape, targets.total / max(1, targets.domain.cells(clique)))
    for _ in range(_SWEEPS):
        moved = 0.0
        for axes, wanted in projections:
            # Axes that the projection lacks, kept with length 1.
            others = tuple(axis for axis in range(len(clique)) if axis not in axes)
            now = table.sum(axis=others, keepdims=True)
            wanted = wanted.reshape(now.shape)
            moved = max(moved, float(np.abs(now - wanted).max()))
            table = table * np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
        if moved <= _TOLERANCE * targets.total or len(projections) < 2:
            break
    return table * (targets.total / max(float(table.sum()), 1e-300))


def _projections(targets: ConsistentMarginals, clique: tuple[str, ...]) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """What the tables say about the clique: axes of it and counts, without what another one says too."""
    found: dict[tuple[str, ...], np.ndarray] = {}
    for view, table in zip(targets.cliques, targets.tables, strict=True):
        shared = tuple(name for name in view if name in clique)
        if shared and shared not in found:
            found[shared] = table.sum(axis=tuple(i for i, name in enumerate(view) if name not in clique))
    sets = [set(shared) for shared in found]
    return [
        (tuple(clique.index(name) for name in shared), counts)
        for shared, counts in found.items()
        if not any(set(shared) < other for other in sets)
    ]
