"""Values too rare to be seen through the noise are modelled as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lookalike.tables.measurement import NoisyMarginal


def merge_rare(oneways: Sequence[NoisyMarginal], thresholds: float | Sequence[float]) -> dict[str, np.ndarray]:
    """Maps from old to new codes that merge, per column, all values whose noisy count lies below the threshold.

    Kept values keep their order; the merged value comes last. Columns where fewer than two values are rare, or all but
    one would vanish into a single value, are left out. Noisy counts only, hence free.
    """
    maps: dict[str, np.ndarray] = {}
    for oneway, threshold in zip(oneways, np.broadcast_to(np.asarray(thresholds), len(oneways)), strict=True):
        rare = oneway.values < threshold
        if rare.sum() < 2:
            continue
        if rare.all():
            rare[np.argmax(oneway.values)] = False
            if rare.sum() < 2:
                continue
        new = np.cumsum(~rare) - 1
        maps[oneway.attrs[0]] = np.where(rare, (~rare).sum(), new).astype(np.int64)
    return maps
