"""What reaches the noise of seeded rows, against what was priced: scale, number of draws, and the exact guarantee."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lookalike as la
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.row_level import seeded_rows
from lookalike.privacy.row_level.seed_price import SeedBudget, SeedTest, epsilon_of
from lookalike.privacy.row_level.seeded_rows import two_sided_geometric
from tests.privacy.seeded_law import class_pair, exact_deltas

EPSILON, DELTA, K, ROWS = 2.0, 1e-6, 300, 40
LEFT = DELTA * (1 - seeded_rows.SEEDS_SHARE)
COUNTED = NoisyMarginal((), np.array(1.0), 1.0)


def people(rows: int = 20_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    return pd.DataFrame({"a": a, "b": b, "c": (a + b) % 3})


class Spy:
    """Stands in for the noise of the threshold and notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []

    def __call__(self, scale: float, size: int, *, insecure_rng: Any = None) -> np.ndarray:
        self.asked.append((float(scale), size))
        return two_sided_geometric(scale, size, insecure_rng=insecure_rng)


@pytest.mark.parametrize(
    "settings",
    [
        {"omega": 1},
        {"omega": "1-2", "mixture": True, "gamma": 2.0},
        {"omega": 2, "threshold_epsilon": 0.06},
        {"omega": 1, "max_plausible": 400, "seeded_share": 0.99},
    ],
)
def test_the_threshold_noise_is_the_one_that_was_priced(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy()
    monkeypatch.setattr(seeded_rows, "two_sided_geometric", spy)
    release = la.synthesize(
        people(),
        schema={"a": 3, "b": 4, "c": 3},
        **{"method": "bsg", "epsilon": EPSILON, "delta": DELTA, "seeded_rows": ROWS, "k": K, "seed": 0, **settings},
    )
    [(scale, size)] = spy.asked
    *before, last = release.spent.charges
    rho = float(sum(charge.rho for charge in before))
    assert size == ROWS == last.releases == release.table.shape[0]
    assert f"threshold epsilon {1 / scale:.6g}" in last.detail

    tune = "threshold_epsilon" not in settings
    gamma = settings.get("gamma", 1.0)
    share, most = settings.get("seeded_share", 0.9), settings.get("max_plausible")
    used = SeedTest(K, 1 / scale, gamma, share, most)
    needed = SeedBudget(1, rho, EPSILON, LEFT, tune).min_seeds(used, ROWS)
    assert needed is not None
    assert needed < 20_000
    assert epsilon_of(used, ROWS, needed, rho, LEFT) <= EPSILON
    # Of the noise scales that a run may choose, this one is priced at most; half of it tells more than was paid for.
    assert epsilon_of(SeedTest(K, 2 / scale, gamma, share, most), ROWS, needed, rho, LEFT) > EPSILON
    for own in (0, 1, K // 2, K - 1, K, K + 20):
        pair = class_pair(used, own, np.array([float(needed - own)]))
        assert max(exact_deltas(pair, ROWS, EPSILON, rho)) <= LEFT


@pytest.mark.parametrize("share", [0.5, 0.9999])
@pytest.mark.parametrize("seeds", [3, 5, 6, 9])
def test_rows_pass_as_often_as_was_priced(seeds: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the noise laid out evenly, exactly the priced share of candidates passes."""
    test, draws = SeedTest(6, 0.4, seeded_share=share), 40_000
    spread = np.arange(-60, 61)
    chances = np.exp(-0.4 * np.abs(spread)) * math.tanh(0.2)

    def even(scale: float, size: int, *, insecure_rng: Any = None) -> np.ndarray:
        assert float(scale) == 1 / 0.4
        return np.repeat(spread, np.diff(np.rint(np.append(0, np.cumsum(chances)) / chances.sum() * size).astype(int)))

    monkeypatch.setattr(seeded_rows, "two_sided_geometric", even)
    codes = np.zeros((seeds, 1), dtype=np.int32)
    request = seeded_rows.SeededRows(_Told(), draws, (1,), test, COUNTED)
    told = seeded_rows.seeded_rows(codes, [0], [2], request)[:, 0]
    expected = share * float(np.exp(test.log_pass(np.array([float(seeds)])))[0])
    assert abs(told.mean() - expected) < 5 * math.sqrt(share * (1 - share) / draws) + 2 * len(spread) / draws


class _Told:
    """A model that writes down whether the seed was kept."""

    order = ("a",)

    def resample(self, codes: np.ndarray, kept: np.ndarray, rng: Any) -> None:
        codes[:, 0] = kept

    def log_probabilities(self, codes: np.ndarray) -> np.ndarray:
        return np.zeros(codes.shape)
