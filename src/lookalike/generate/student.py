"""A student that learns from noisy votes on generated rows, and a generator that learns from the student (PATE-GAN)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lookalike.generate.network import RmsProp
from lookalike.generate.teaching import GeneratorLessons
from lookalike.tables.one_hot import one_hot
from lookalike.tables.teachers import Teachers


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
class School:
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

    A teacher of few rows takes frequent values for real, even if it is shown rows of the very same law. Teachers of
    generated rows do so as well, and what real teachers do beyond them is about real rows. Their rows are made from the
    same random numbers again and again, so that they change only as the generator does. Public throughout.
    """

    def __init__(self, lessons: GeneratorLessons, school: School, rng: np.random.Generator) -> None:
        self._generator, self._number = lessons.generator, min(school.teachers, school.controls)
        rows = max(1, round(self._number * school.rows))
        self._noise, self._seed = self._generator.noise(rows, rng), int(rng.integers(2**63))
        part = rng.integers(0, self._number, rows)
        weights = (school.inputs, school.outputs, school.teacher_rate)
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
        self, lessons: GeneratorLessons, school: School, rng: np.random.Generator, progress: Callable[[], None]
    ) -> None:
        self._lessons, self._school, self._rng, self._progress = lessons, school, rng, progress
        self.student = Student(lessons.generator.sizes, school.units, school.student_rate, rng)
        self._controls = Controls(lessons, school, rng)
        self._asked = np.empty((0, len(lessons.generator.sizes)), dtype=np.int32)
        self._remembered: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=school.memory)

    def shown(self) -> np.ndarray:
        shown = self._lessons.made(self._school.shown)
        self._controls.train(shown)
        return shown

    def asked(self) -> np.ndarray:
        self._asked = self._lessons.made(self._school.asked)
        return self._asked

    def learn(self, votes: np.ndarray, /) -> None:
        shares = 0.5 + votes / self._school.teachers - self._controls.shares(self._asked)
        self._remembered.append((self._asked, shares))
        self.student.learn(*self._remembered[-1])
        for _ in range(self._school.student_steps - 1):
            self.student.learn(*self._remembered[self._rng.integers(len(self._remembered))])
        for _ in range(self._school.generator_steps):
            self._lessons.step(self.student.slopes)
        self._progress()
