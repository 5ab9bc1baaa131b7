"""The generator network: gradients against differences, margins after calibration, rows against probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.models.archive import stored_model
from lookalike.models.network import Generator, NetworkModel, RmsProp
from lookalike.schema.domain import Domain
from lookalike.stored import Stored, taken_apart
from lookalike.synthesizers.gan_training import GeneratorTraining, WassersteinTrainer

MARGINS = (np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2]), np.array([1.0]))
DOMAIN = Domain(("a", "b", "c"), (2, 3, 1))


def generator(spread: float = 2.0, seed: int = 0) -> Generator:
    return Generator.start(MARGINS, 4, 6, np.random.default_rng(seed), spread)


def in_doubles(one: Generator) -> Generator:
    first, bias, second, values = (part.astype(np.float64) for part in one.weights)
    return Generator(one.sizes, (first, bias, second, values))


def test_gradients_are_those_of_differences() -> None:
    one, rng = in_doubles(generator()), np.random.default_rng(1)
    noise, slopes = rng.standard_normal((5, 4)), rng.standard_normal((5, 6))
    found = one.gradients(one.forward(noise), slopes)
    for part, gradient in zip(one.weights, found, strict=True):
        assert part.shape == gradient.shape
        for place in np.ndindex(part.shape):
            kept = part[place]
            part[place] = kept + 1e-6
            up = (one.forward(noise).probabilities * slopes).sum()
            part[place] = kept - 1e-6
            down = (one.forward(noise).probabilities * slopes).sum()
            part[place] = kept
            assert gradient[place] == pytest.approx((up - down) / 2e-6, abs=1e-7)


def test_probabilities_add_up_in_every_column() -> None:
    one = generator(spread=200.0)
    made = one.forward(one.noise(100, np.random.default_rng(0))).probabilities
    for start, end in ((0, 2), (2, 5), (5, 6)):
        np.testing.assert_allclose(made[:, start:end].sum(axis=1), 1, atol=1e-6)


def test_rows_are_drawn_by_their_probabilities() -> None:
    one, rng = generator(), np.random.default_rng(2)
    row = one.forward(one.noise(1, rng)).probabilities
    drawn = one.draw(np.repeat(row, 200_000, axis=0), rng)
    for j, (start, size) in enumerate(((0, 2), (2, 3), (5, 1))):
        share = np.bincount(drawn[:, j], minlength=size) / len(drawn)
        assert np.all(np.abs(share - row[0, start : start + size]) < 6 * 0.5 / np.sqrt(len(drawn)))


def test_calibration_gives_the_margins_and_keeps_dependence() -> None:
    one = generator(spread=3.0)
    one.calibrate(MARGINS, np.random.default_rng(3))
    drawn = one.sample(100_000, np.random.default_rng(4))
    for j, margin in enumerate(MARGINS):
        assert np.abs(np.bincount(drawn[:, j], minlength=len(margin)) / len(drawn) - margin).max() < 0.02
    joint = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=(2, 3))[0] / len(drawn)
    assert np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() > 0.05


def test_steps_go_downhill() -> None:
    weight = np.array([3.0, -2.0])
    steps = RmsProp((weight,), 0.05)
    for _ in range(300):
        steps.step((2 * weight * np.array([1.0, 100.0]),))
    assert np.abs(weight).max() < 0.1


def test_a_trainer_with_exact_sums_learns_that_two_columns_are_equal() -> None:
    """The trainer by itself: a public table stands in for the private one and no noise is added."""
    rng, margins = np.random.default_rng(5), (np.full(2, 0.5),) * 2
    table = np.repeat(np.arange(2, dtype=np.int32)[:, None], 2, axis=1).repeat(500, axis=0)
    one = Generator.start(margins, 8, 32, rng)
    calls: list[int] = []
    lessons = GeneratorTraining(one, margins, 5e-3, rng)
    trainer = WassersteinTrainer(lessons, 3, 1000.0, units=16, rate=0.1, rng=rng, progress=lambda: calls.append(1))
    for _ in range(120):
        critic, norm = trainer.critic()
        trainer.learn(critic.clipped_sums(table, norm))
    assert len(calls) == 120
    drawn = one.sample(5000, rng)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.8


def test_a_stored_model_is_the_same_model() -> None:
    model = NetworkModel(DOMAIN, 123.0, generator())
    meta, arrays = taken_apart(model)
    again = stored_model(Stored(meta, arrays))
    assert again.total == 123.0
    assert np.array_equal(again.sample(50, np.random.default_rng(0)), model.sample(50, np.random.default_rng(0)))
    np.testing.assert_array_equal(again.marginal(("b", "a")), model.marginal(("a", "b")))
    assert model.marginal(()).item() == pytest.approx(123.0)
    assert model.marginals([("a",)])[0].sum() == pytest.approx(123.0)


def test_shapes_are_checked() -> None:
    first, bias, second, values = generator().weights
    with pytest.raises(ValueError, match="weights of shapes"):
        Generator((2, 3), (first, bias, second, values))
    with pytest.raises(ValueError, match="a bias of shape"):
        Generator((2, 3, 1), (first, bias, second, values[:5]))
    with pytest.raises(ValueError, match="a network for columns"):
        NetworkModel(Domain(("a",), (6,)), 1.0, generator())
