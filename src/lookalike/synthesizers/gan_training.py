"""Training a generator of rows from noisy answers about real ones: by a critic (DP-WGAN) or by a student (PATE-GAN)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.models.network import Generator, RmsProp
from lookalike.privacy.row_level.critic_sums import Critic
from lookalike.privacy.row_level.teacher_votes import Teachers
from lookalike.schema.cells import one_hot

BATCH, PULL, LEAST = 512, 0.3, 1e-4
"""Rows per step; how strongly each step draws margins back; the smallest probability that this distinguishes."""

SHOWN = 2048
"""Generated rows that the critic is shown per step, at most; no more than real ones where there are over 256."""


class GeneratorLessons:
    """Steps of a generator against a judge of drawn rows.

    Args:
        generator: trained in place.
        margins: the released margins of its columns.
        rate: learning rate.
        rng: random numbers.
        pull: whether every step is drawn back to the margins.
    """

    def __init__(
        self,
        generator: Generator,
        margins: Sequence[np.ndarray],
        rate: float,
        rng: np.random.Generator,
        *,
        pull: bool = True,
    ) -> None:
        self.generator, self._margins, self._pull, self._rng = generator, margins, pull, rng
        self._steps = RmsProp(generator.weights, rate)

    def made(self, rows: int) -> np.ndarray:
        """Codes of generated rows."""
        return self.generator.sample(rows, self._rng)

    def step(self, slopes: Callable[[np.ndarray], np.ndarray]) -> None:
        """The judge's slopes at drawn rows move the probabilities that they were drawn from (straight through).

        `slopes` says for rows of codes how much better each value of each column would be judged.
        """
        made = self.generator.forward(self.generator.noise(BATCH, self._rng))
        better = slopes(self.generator.draw(made.probabilities, self._rng))
        self._steps.step(self.generator.gradients(made, -better))
        if self._pull:
            self.generator.pull(made.probabilities.mean(axis=0), self._margins, PULL, LEAST)


# A critic, from noisy sums of clipped gradients (Wasserstein GAN, Arjovsky, Chintala, Bottou 2017).


class WassersteinTrainer:
    """A critic that learns to distinguish real from generated rows, and a generator that learns from the critic.

    Real rows come in only as noisy sums of the critic's clipped gradients; generated rows are clipped in the same way,
    so that clipping favours neither. Norms are clipped at the median of those of generated rows, which is public.

    Args:
        lessons: how the generator learns.
        steps: steps of the generator per step of the critic.
        rows: estimated number of real rows behind every sum.
        units: hidden units of the critic.
        rate: learning rate of the critic, whose weights are kept between -1 and 1.
        rng: random numbers.
        progress: called after every step of the critic.
    """

    def __init__(
        self,
        lessons: GeneratorLessons,
        steps: int,
        rows: float,
        *,
        units: int,
        rate: float,
        rng: np.random.Generator,
        progress: Callable[[], None],
    ) -> None:
        self._lessons, self._steps, self._rows, self._progress = lessons, steps, rows, progress
        inputs = rng.uniform(-1, 1, (sum(lessons.generator.sizes) + 1, units))
        inputs[-1] = 0
        self._weights = (inputs, rng.uniform(-1, 1, units))
        self._critic_steps = RmsProp(self._weights, rate)
        self._show = round(min(SHOWN, max(rows, 256)))
        self._shown, self._norm = lessons.made(1), 1

    def critic(self) -> tuple[Critic, int]:
        """The critic as it is now, in whole numbers, and the norm to clip at."""
        critic = self._critic()
        self._shown = self._lessons.made(self._show)
        self._norm = max(1, int(np.median(critic.norms(self._shown))))
        return critic, self._norm

    def learn(self, sums: np.ndarray, /) -> None:
        """One step of the critic towards distinguishing the two, and some of the generator against that."""
        made = self._critic().clipped_sums(self._shown, self._norm) / len(self._shown)
        falling = made - sums / self._rows
        inputs = self._weights[0]
        self._critic_steps.step((falling[: inputs.size].reshape(inputs.shape), falling[inputs.size :]))
        for part in self._weights:
            np.clip(part, -1, 1, out=part)
        critic = self._critic()
        for _ in range(self._steps):
            self._lessons.step(critic.slopes)
        self._progress()

    def _critic(self) -> Critic:
        return Critic.rounded(self._lessons.generator.sizes, *self._weights)


# A student, from noisy votes of teachers (PATE-GAN, Jordon, Yoon, van der Schaar 2019).


class Student:
    """A network with one hidden layer that guesses the share of teachers that take a row for real."""

    def __init__(self, sizes: Sequence[int], units: int, rate: float, rng: np.random.Generator) -> None:
        self._sizes = tuple(sizes)
        inputs = rng.standard_normal((sum(sizes), units)) / (2 * np.sqrt(len(sizes)))
        outputs = rng.standard_normal(units) / np.sqrt(units)
        self.weights = tuple(part.astype(np.float32) for part in (inputs, np.zeros(units), outputs, np.zeros(1)))
        self._steps = RmsProp(self.weights, rate)

    def guesses(self, codes: np.ndarray) -> np.ndarray:
        return self._forward(one_hot(codes, self._sizes))[1]

    def learn(self, codes: np.ndarray, shares: np.ndarray) -> None:
        """One step on the cross entropy with these shares of votes."""
        self._steps.step(self.gradients(codes, shares))

    def gradients(self, codes: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, ...]:
        """Gradient of the mean cross entropy in the weights.

        It is linear in the shares, so unbiased noise on them, even beyond 0 and 1, leaves it unbiased.
        """
        rows = one_hot(codes, self._sizes)
        hidden, guesses = self._forward(rows)
        error = (guesses - shares) / len(codes)
        pushed = error[:, None] * self.weights[2] * (hidden > 0)
        return rows.T @ pushed, pushed.sum(axis=0), error @ hidden, error.sum(keepdims=True)

    def slopes(self, codes: np.ndarray) -> np.ndarray:
        """How much better each value of each column would be for a row, by the score under the logistic function."""
        hidden, _ = self._forward(one_hot(codes, self._sizes))
        return ((hidden > 0) * self.weights[2]) @ self.weights[0].T

    def _forward(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        inputs, bias, outputs, constant = self.weights
        hidden = np.maximum(rows @ inputs + bias, 0)
        return hidden, 1 / (1 + np.exp(-np.clip(hidden @ outputs + constant, -30, 30)))


@dataclass(frozen=True, slots=True, eq=False)
class TeachingSettings:
    """How teachers, student and generator are trained; all of it public.

    Attributes:
        teachers: how many vote.
        rows: estimated number of rows that a teacher has.
        inputs: weights that every teacher starts from, see `Teachers`.
        outputs: the same.
        teacher_rate: learning rate of the teachers.
        units: hidden units of the student.
        student_rate: learning rate of the student.
        student_steps: steps of the student per round, the first on the new votes, the others on remembered ones.
        generator_steps: steps of the generator per round.
        shown: generated rows that teachers are shown per step.
        asked: generated rows that they vote on per round.
        memory: rounds that are remembered.
        controls: teachers of generated rows, at most.
    """

    teachers: int
    rows: float
    inputs: np.ndarray
    outputs: np.ndarray
    teacher_rate: float = 0.05
    units: int = 64
    student_rate: float = 2e-3
    student_steps: int = 20
    generator_steps: int = 3
    shown: int = 256
    asked: int = 256
    memory: int = 20
    controls: int = 300


class Controls:
    """Teachers whose own rows are generated ones too: how they vote says what votes are worth.

    A teacher of few rows takes frequent values for real, even if it is shown rows of the same distribution. Teachers of
    generated rows do so as well, and what real teachers do beyond them is about real rows. Their rows are made from the
    same random numbers again and again, so that they change only as the generator does. Public throughout.
    """

    def __init__(self, lessons: GeneratorLessons, settings: TeachingSettings, rng: np.random.Generator) -> None:
        self._generator, self._number = lessons.generator, min(settings.teachers, settings.controls)
        rows = max(1, round(self._number * settings.rows))
        self._noise, self._seed = self._generator.noise(rows, rng), int(rng.integers(2**63))
        part = rng.integers(0, self._number, rows)
        weights = (settings.inputs, settings.outputs, settings.teacher_rate)
        self._teachers = Teachers(self._generator.sizes, self._rows(), part, self._number, *weights)

    def train(self, shown: np.ndarray) -> None:
        self._teachers.give(self._rows())
        self._teachers.train(shown)

    def shares(self, codes: np.ndarray) -> np.ndarray:
        """Share of these teachers that take each row for real."""
        return self._teachers.votes(codes) / self._number

    def _rows(self) -> np.ndarray:
        made = self._generator.forward(self._noise).probabilities
        return self._generator.draw(made, np.random.default_rng(self._seed))


class VoteTrainer:
    """Shows generated rows, asks for votes on others, and passes what they say to the student and the generator."""

    def __init__(
        self,
        lessons: GeneratorLessons,
        settings: TeachingSettings,
        rng: np.random.Generator,
        progress: Callable[[], None],
    ) -> None:
        self._lessons, self._settings, self._rng, self._progress = lessons, settings, rng, progress
        self.student = Student(lessons.generator.sizes, settings.units, settings.student_rate, rng)
        self._controls = Controls(lessons, settings, rng)
        self._asked = np.empty((0, len(lessons.generator.sizes)), dtype=np.int32)
        self._remembered: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=settings.memory)

    def shown(self) -> np.ndarray:
        shown = self._lessons.made(self._settings.shown)
        self._controls.train(shown)
        return shown

    def asked(self) -> np.ndarray:
        self._asked = self._lessons.made(self._settings.asked)
        return self._asked

    def learn(self, votes: np.ndarray, /) -> None:
        shares = 0.5 + votes / self._settings.teachers - self._controls.shares(self._asked)
        self._remembered.append((self._asked, shares))
        self.student.learn(*self._remembered[-1])
        for _ in range(self._settings.student_steps - 1):
            self.student.learn(*self._remembered[self._rng.integers(len(self._remembered))])
        for _ in range(self._settings.generator_steps):
            self._lessons.step(self.student.slopes)
        self._progress()
