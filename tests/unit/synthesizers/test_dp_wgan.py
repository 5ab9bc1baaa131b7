"""DP-WGAN on tables made here. What every method must do is in tests/contract."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import BudgetError, SchemaError
from lookalike.pipeline import synthesize
from lookalike.synthesizers import dp_wgan
from lookalike.synthesizers.dp_wgan import DPWGAN, GRADIENTS

SIZES = {"a": 3, "b": 3, "c": 2}


def table(rows: int) -> pa.Table:
    """b is a, c is whether a is 0, each with a tenth of noise."""
    rng = np.random.default_rng(0)
    a = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(rows) < 0.9, a, rng.integers(0, 3, rows))
    c = np.where(rng.random(rows) < 0.9, a == 0, rng.random(rows) < 0.5).astype(int)
    return pa.table({"a": a, "b": b, "c": c})


def joint(rows: pa.Table) -> np.ndarray:
    edges = [np.arange(size + 1) - 0.5 for size in SIZES.values()]
    counts = np.histogramdd(np.column_stack([rows[name].to_numpy() for name in SIZES]), edges)[0]
    return counts / counts.sum()


def release(rows: int, epsilon: float, **settings):
    rng = np.random.default_rng(3)
    return synthesize(
        table(rows), schema=SIZES, epsilon=epsilon, method="dp-wgan", seed=1, insecure_rng=rng, **settings
    )


def test_it_learns_how_columns_depend_on_each_other() -> None:
    real = joint(table(8000))
    alone = [real.sum(axis=tuple(j for j in range(3) if j != i)) for i in range(3)]
    independent = np.einsum("i,j,k->ijk", *alone)
    made = release(8000, 3.0, steps=120)
    distance = np.abs(joint(made.table) - real).sum() / 2
    assert distance < np.abs(independent - real).sum() / 2 / 3
    assert made.fitted.model.kind == "network"


def test_fewer_steps_where_noise_would_drown_them() -> None:
    few, many = (release(500, epsilon).spent.charges[-1] for epsilon in (0.2, 3.0))
    assert (few.step, many.step) == (GRADIENTS, GRADIENTS)
    assert few.releases == 1
    assert 1 < many.releases < 250
    assert release(500, 3.0, steps=2).spent.charges[-1].releases == 2


def test_large_tables_are_dealt_out_to_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_wgan, "_BATCH_ROWS", 1000)
    charge = release(2500, 5.0, steps=20).spent.charges[-1]
    assert charge.releases == 20
    assert "7 steps per row" in charge.detail


def test_without_margins_kept_it_still_makes_rows() -> None:
    assert release(300, 1.0, keep_margins=False).table.num_rows > 0


@pytest.mark.parametrize("setting", ["steps", "units", "hidden", "latent", "generator_steps"])
def test_settings_below_one_are_refused(setting: str) -> None:
    with pytest.raises(SchemaError, match=setting):
        DPWGAN(**{setting: 0})


def test_rates_and_shares_are_checked() -> None:
    with pytest.raises(BudgetError, match="critic_rate"):
        DPWGAN(critic_rate=-1.0)
    with pytest.raises(BudgetError, match="shares"):
        DPWGAN(oneway_share=1.0)
