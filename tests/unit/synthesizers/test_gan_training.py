"""The student of noisy votes: gradients and slopes against differences, and what it makes of noise."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.models.network import Generator
from lookalike.privacy.row_level.teacher_votes import Teachers
from lookalike.synthesizers.gan_training import Controls, GeneratorTraining, Student, TeachingSettings, VoteTrainer

SIZES = (2, 3)
ALL = np.array([[a, b] for a in range(2) for b in range(3)], dtype=np.int32)


def student(seed: int = 0, units: int = 5, rate: float = 0.01) -> Student:
    return Student(SIZES, units, rate, np.random.default_rng(seed))


def test_gradients_are_those_of_differences() -> None:
    one, shares = student(), np.random.default_rng(1).normal(0.5, 1.0, 6)
    one.weights = tuple(part.astype(np.float64) for part in one.weights)

    def entropy() -> float:
        guesses = one.guesses(ALL)
        return float(-(shares * np.log(guesses) + (1 - shares) * np.log(1 - guesses)).mean())

    for part, gradient in zip(one.weights, one.gradients(ALL, shares), strict=True):
        for place in np.ndindex(part.shape):
            kept = part[place]
            part[place] = kept + 1e-6
            up = entropy()
            part[place] = kept - 1e-6
            down = entropy()
            part[place] = kept
            assert gradient[place] == pytest.approx((up - down) / 2e-6, abs=1e-7)


def test_slopes_say_which_value_would_be_better() -> None:
    """Units that are active stay so for a value with the same sign; a linear student has exact slopes."""
    one = student(units=1)
    one.weights[0][:] = np.arange(5)[:, None] + 1
    one.weights[2][:] = 2
    np.testing.assert_allclose(one.slopes(ALL), np.tile(2 * (np.arange(5) + 1), (6, 1)))


def test_it_learns_shares_through_noise_beyond_zero_and_one() -> None:
    rng, one = np.random.default_rng(2), student(units=16, rate=0.005)
    codes, share = rng.integers(0, SIZES, (256, 2)).astype(np.int32), np.array([0.2, 0.7])
    for _ in range(600):
        one.learn(codes, share[codes[:, 0]] + rng.normal(0, 1, 256))
    assert np.abs(one.guesses(ALL) - share[ALL[:, 0]]).max() < 0.15


def test_a_trainer_makes_the_generator_follow_the_votes() -> None:
    """Teachers that take rows with equal values for real, and no others."""
    rng, margins = np.random.default_rng(3), (np.full(2, 0.5),) * 2
    generator = Generator.start(margins, 8, 32, rng)
    settings = TeachingSettings(100, 10.0, np.zeros((5, 2)), np.zeros(2), student_rate=5e-3)
    trainer = VoteTrainer(GeneratorTraining(generator, margins, 2e-3, rng), settings, rng, lambda: None)
    assert trainer.shown().shape == (256, 2)
    for _ in range(60):
        asked = trainer.asked()
        trainer.learn(100.0 * (asked[:, 0] == asked[:, 1]))
    drawn = generator.sample(4000, rng)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.8
    assert 0.1 < drawn[:, 0].mean() < 0.9


def test_controls_vote_like_teachers_of_rows_of_the_same_law() -> None:
    """Where real rows are generated ones, real teachers and controls agree but for chance."""
    rng, margins = np.random.default_rng(4), (np.array([0.9, 0.1]), np.array([0.6, 0.3, 0.1]))
    generator = Generator.start(margins, 4, 16, rng, spread=2.0)
    training = GeneratorTraining(generator, margins, 1e-3, rng)
    settings = TeachingSettings(200, 12.0, rng.standard_normal((6, 4)), rng.standard_normal(4), controls=200)
    real = Teachers(
        SIZES, generator.sample(2400, rng), rng.integers(0, 200, 2400), 200, settings.inputs, settings.outputs, 0.05
    )
    controls = Controls(training, settings, rng)
    for _ in range(15):
        shown = training.sample(128)
        real.train(shown)
        controls.train(shown)
    asked = training.sample(256)
    shares = real.votes(asked) / 200
    assert shares.std() > 0.1
    assert np.abs(shares - controls.shares(asked)).max() < 6 * np.sqrt(0.5 / 200)
