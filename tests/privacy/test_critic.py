"""The critic in whole numbers: gradients against differences, clipping against gradients written out row by row."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.errors import ModelTooLargeError
from lookalike.privacy.row_level.critic_sums import UNIT, Critic

SIZES = (2, 3, 5)


def critic(seed: int = 0, units: int = 7) -> Critic:
    rng = np.random.default_rng(seed)
    return Critic.rounded(SIZES, rng.uniform(-1, 1, (sum(SIZES) + 1, units)), rng.uniform(-1, 1, units))


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, SIZES, (count, len(SIZES))).astype(np.int32)


def value(inputs: np.ndarray, outputs: np.ndarray, row: np.ndarray) -> float:
    """f at a row of zeros and ones, or of anything between."""
    return float(np.maximum(row @ inputs[:-1] + inputs[-1], 0) @ outputs)


def spread(code: np.ndarray) -> np.ndarray:
    return np.concatenate([np.eye(size)[c] for size, c in zip(SIZES, code, strict=True)])


def gradient(of: Critic, code: np.ndarray) -> np.ndarray:
    """The gradient at one row by differences: f is linear in every single weight around it."""
    weights = np.concatenate([of.inputs.ravel(), of.outputs]).astype(float)
    found = np.empty_like(weights)

    def at(shifted: np.ndarray) -> float:
        return value(shifted[: of.inputs.size].reshape(of.inputs.shape), shifted[of.inputs.size :], spread(code))

    for i in range(len(weights)):
        up, down = weights.copy(), weights.copy()
        up[i] += 0.25
        down[i] -= 0.25
        found[i] = (at(up) - at(down)) / 0.5
    return found


def test_sums_norms_and_slopes_are_those_of_differences() -> None:
    for seed in range(3):
        one, table = critic(seed), rows(4, seed)
        gradients = np.array([gradient(one, code) for code in table])
        np.testing.assert_allclose(one.norms(table), np.linalg.norm(gradients, axis=1), rtol=1e-9)
        np.testing.assert_allclose(one.clipped_sums(table, 2**30), gradients.sum(axis=0), atol=1e-6)
        for code, slopes in zip(table, one.slopes(table), strict=True):
            for place in range(sum(SIZES)):
                step = np.zeros(sum(SIZES))
                step[place] = 1e-4
                change = value(one.inputs, one.outputs, spread(code) + step) - value(
                    one.inputs, one.outputs, spread(code) - step
                )
                assert slopes[place] == pytest.approx(change / 2e-4, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("norm", [1, 50, 3000, 10_000])
def test_clipping_shrinks_each_row_to_the_norm_and_keeps_its_direction(norm: int) -> None:
    one = critic()
    for code in rows(20):
        whole, clipped = one.clipped_sums(code[None], 2**30), one.clipped_sums(code[None], norm)
        factor = min(1.0, norm / max(np.linalg.norm(whole), 1))
        assert np.all(np.abs(clipped - factor * whole) < 1 + 1e-6)
        assert np.all(np.abs(clipped) <= np.abs(whole))
        assert int((clipped.astype(np.int64) ** 2).sum()) <= norm**2


def test_sums_are_whole_numbers_that_no_order_and_no_company_changes() -> None:
    one, table = critic(1, units=64), rows(20_000, 3)
    whole = one.clipped_sums(table, 9000)
    assert np.array_equal(whole, np.rint(whole))
    assert np.array_equal(whole, one.clipped_sums(table[np.random.default_rng(0).permutation(len(table))], 9000))
    assert np.array_equal(whole, one.clipped_sums(table[:777], 9000) + one.clipped_sums(table[777:], 9000))
    assert not one.clipped_sums(table[:0], 9000).any()


def test_weights_are_checked() -> None:
    with pytest.raises(ValueError, match="whole"):
        Critic(SIZES, np.full((11, 2), 0.5, np.float32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="whole"):
        Critic(SIZES, np.zeros((11, 2), np.float32), np.full(2, UNIT + 1, np.float32))
    with pytest.raises(ValueError, match="shape"):
        Critic(SIZES, np.zeros((10, 2), np.float32), np.zeros(2, np.float32))
    with pytest.raises(ModelTooLargeError, match="fewer hidden units"):
        Critic((1,) * 5000, np.zeros((5001, 2), np.float32), np.zeros(2, np.float32))
