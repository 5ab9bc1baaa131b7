"""Training a generator of rows from noisy answers about real rows: by a critic (DP-WGAN) or by a student (PATE-GAN)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from lookalike.errors import SchemaError
from lookalike.models.model import Model
from lookalike.models.network import Generator, NetworkModel, RmsProp
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.requests import RowRelease
from lookalike.privacy.row_level.critic_sums import Critic
from lookalike.privacy.row_level.teacher_votes import Teachers
from lookalike.schema.domain import Domain, one_hot
from lookalike.selection.steps import fit_columns, singles
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, setting_fields, tuned
from lookalike.synthesizers.split import ONEWAYS, UNKNOWN, Kind, Split, Step

BATCH, PULL, MIN_PROBABILITY = 512, 0.3, 1e-4
"""Rows per step; part of the distance from the margins that a step corrects; minimum of probabilities there."""

MAX_COMPARED = 2048
"""Maximum number of generated rows in a step of the critic; otherwise about as many as real ones, at least 256."""


def training_progress(progress: Progress, steps: int) -> Callable[[], None]:
    """Return a function that reports progress each time it is called, after each of these steps of training."""
    done = count(1)
    return lambda: progress("training", 0.05 + 0.85 * next(done) / steps)


class GeneratorTraining:
    """The training of a generator by gradients of a judge: the critic of DP-WGAN or the student of PATE-GAN.

    Args:
        generator: trained in place.
        margins: the released margins of its columns.
        rate: learning rate.
        rng: random numbers.
        pull: whether every step moves the generator's columns back towards the margins.
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

    def sample(self, rows: int) -> np.ndarray:
        """Return the codes of generated rows."""
        return self.generator.sample(rows, self._rng)

    def step(self, slopes: Callable[[np.ndarray], np.ndarray]) -> None:
        """Make one step: the judge's slopes at drawn rows move the probabilities of the draws (straight through).

        `slopes` returns, for rows of codes, the increase of the judge's score for each value of each column.
        """
        made = self.generator.forward(self.generator.noise(BATCH, self._rng))
        better = slopes(self.generator.draw(made.probabilities, self._rng))
        self._steps.step(self.generator.gradients(made, -better))
        if self._pull:
            self.generator.pull(made.probabilities.mean(axis=0), self._margins, PULL, MIN_PROBABILITY)


@dataclass(frozen=True, slots=True)
class GeneratorMethod(Method, ABC):
    """What DP-WGAN and PATE-GAN share: one-way marginals, a first generator from them, and training it by one request.

    Attributes:
        oneway_share: part of the budget for one-way marginals, which give the number of rows and the first generator.
        hidden: maximum number of hidden units of the generator; no more than 8 per value of any column are used.
        latent: number of random numbers that become a row.
        generator_rate: learning rate of the generator.
        generator_steps: steps of the generator per step of the critic, or per round of votes.
        keep_margins: hold the generator's columns to the one-way marginals while it learns, and at the end.
    """

    request_step: ClassVar[str]

    oneway_share: float = tuned(0.2)
    hidden: int = tuned(256)
    latent: int = tuned(32)
    generator_rate: float = tuned(1e-3)
    generator_steps: int = tuned(3)
    keep_margins: bool = choice(True)

    @abstractmethod
    def _note(self) -> str:
        """What the request releases, for the plan."""

    @abstractmethod
    def _request(
        self,
        door: GuardedTable,
        total: float,
        training: GeneratorTraining,
        rng: np.random.Generator,
        progress: Progress,
    ) -> RowRelease:
        """Return the release of noisy answers about real rows that trains the generator."""

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        for field in setting_fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(field.default, float):
                check_positive(**{field.name: value})
            elif value < 1 and not isinstance(field.default, bool):
                raise SchemaError(f"{self.name}: {field.name} is {value}; it must be at least 1.")

    def split(self, domain: Domain, rho: float) -> Split:
        request = Step(self.request_step, "gaussian", UNKNOWN, 0.0, self._note(), Kind.ROWS)
        return Split.of(rho, Step.columns(domain, rho * self.oneway_share), rest=request)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.02)
        independent = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)[1]
        total, margins = independent.total, independent.marginals(singles(door.domain))
        generator = Generator.start(margins, self.latent, min(self.hidden, 8 * sum(door.domain.sizes)), rng)
        training = GeneratorTraining(generator, margins, self.generator_rate, rng, pull=self.keep_margins)
        door.release_rows(self._request(door, total, training, rng, progress), step=self.request_step)
        if self.keep_margins:
            generator.calibrate(margins, rng)
        return NetworkModel(door.domain, total, generator)


# A critic, from noisy sums of clipped gradients (Wasserstein GAN, Arjovsky, Chintala, Bottou 2017).


class WassersteinTrainer:
    """A critic that learns to distinguish real from generated rows, and a generator that learns from the critic.

    Real rows come in only as noisy sums of the critic's clipped gradients; generated rows are clipped in the same way,
    so that clipping favours neither. Norms are clipped at the median of those of generated rows, which is public.

    Args:
        training: the training of the generator.
        steps: steps of the generator per step of the critic.
        rows: estimated number of real rows behind every sum.
        units: hidden units of the critic.
        rate: learning rate of the critic, whose weights are kept between -1 and 1.
        rng: random numbers.
        progress: called after every step of the critic.
    """

    def __init__(
        self,
        training: GeneratorTraining,
        steps: int,
        rows: float,
        *,
        units: int,
        rate: float,
        rng: np.random.Generator,
        progress: Callable[[], None],
    ) -> None:
        self._training, self._steps, self._rows, self._progress = training, steps, rows, progress
        inputs = rng.uniform(-1, 1, (sum(training.generator.sizes) + 1, units))
        inputs[-1] = 0
        self._weights = (inputs, rng.uniform(-1, 1, units))
        self._critic_steps = RmsProp(self._weights, rate)
        self._show = round(min(MAX_COMPARED, max(rows, 256)))
        self._shown, self._norm = training.sample(1), 1

    def critic(self) -> tuple[Critic, int]:
        """Return the present critic, in whole numbers, and the norm at which gradients are clipped."""
        critic = self._critic()
        self._shown = self._training.sample(self._show)
        self._norm = max(1, int(np.median(critic.norms(self._shown))))
        return critic, self._norm

    def learn(self, sums: np.ndarray, /) -> None:
        """Make one step of the critic from noisy sums over real rows, and some steps of the generator against it."""
        made = self._critic().clipped_sums(self._shown, self._norm) / len(self._shown)
        falling = made - sums / self._rows
        inputs = self._weights[0]
        self._critic_steps.step((falling[: inputs.size].reshape(inputs.shape), falling[inputs.size :]))
        for part in self._weights:
            np.clip(part, -1, 1, out=part)
        critic = self._critic()
        for _ in range(self._steps):
            self._training.step(critic.slopes)
        self._progress()

    def _critic(self) -> Critic:
        return Critic.rounded(self._training.generator.sizes, *self._weights)


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
        """Return the guessed share of teachers that take each row for real."""
        return self._forward(one_hot(codes, self._sizes))[1]

    def learn(self, codes: np.ndarray, shares: np.ndarray) -> None:
        """Make one step on the cross entropy with these shares of votes."""
        self._steps.step(self.gradients(codes, shares))

    def gradients(self, codes: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the gradient of the mean cross entropy in the weights.

        It is linear in the shares, so unbiased noise on them, even beyond 0 and 1, leaves it unbiased.
        """
        rows = one_hot(codes, self._sizes)
        hidden, guesses = self._forward(rows)
        error = (guesses - shares) / len(codes)
        pushed = error[:, None] * self.weights[2] * (hidden > 0)
        return rows.T @ pushed, pushed.sum(axis=0), error @ hidden, error.sum(keepdims=True)

    def slopes(self, codes: np.ndarray) -> np.ndarray:
        """Return the gradient of each row's logit in the values of its columns."""
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
        inputs: first weights of the hidden layer of every teacher, see `Teachers`.
        outputs: first weights of the output of every teacher.
        teacher_rate: learning rate of the teachers.
        units: hidden units of the student.
        student_rate: learning rate of the student.
        student_steps: steps of the student per round, the first on the new votes, the others on remembered ones.
        generator_steps: steps of the generator per round.
        shown: generated rows in a step of the teachers.
        asked: generated rows that they vote on per round.
        memory: number of latest rounds whose votes the student learns from.
        controls: maximum number of teachers of generated rows.
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
    """Teachers of generated rows, whose votes are subtracted from those of the teachers of real rows.

    A teacher of few rows takes frequent values for real, even among rows of the same distribution. Teachers of
    generated rows do the same, so the difference of the votes is what real rows contribute. Their rows come from the
    same random numbers in every step, so that they change only with the generator. Everything here is public.
    """

    def __init__(self, training: GeneratorTraining, settings: TeachingSettings, rng: np.random.Generator) -> None:
        self._generator, self._number = training.generator, min(settings.teachers, settings.controls)
        rows = max(1, round(self._number * settings.rows))
        self._noise, self._seed = self._generator.noise(rows, rng), int(rng.integers(2**63))
        part = rng.integers(0, self._number, rows)
        weights = (settings.inputs, settings.outputs, settings.teacher_rate)
        self._teachers = Teachers(self._generator.sizes, self._rows(), part, self._number, *weights)

    def train(self, shown: np.ndarray) -> None:
        """Make one step of the teachers on the present generator's rows."""
        self._teachers.give(self._rows())
        self._teachers.train(shown)

    def shares(self, codes: np.ndarray) -> np.ndarray:
        """Return the share of these teachers that take each row for real."""
        return self._teachers.votes(codes) / self._number

    def _rows(self) -> np.ndarray:
        made = self._generator.forward(self._noise).probabilities
        return self._generator.draw(made, np.random.default_rng(self._seed))


class VoteTrainer:
    """Trains a student and the generator on the teachers' votes on generated rows."""

    def __init__(
        self,
        training: GeneratorTraining,
        settings: TeachingSettings,
        rng: np.random.Generator,
        progress: Callable[[], None],
    ) -> None:
        self._training, self._settings, self._rng, self._progress = training, settings, rng, progress
        self.student = Student(training.generator.sizes, settings.units, settings.student_rate, rng)
        self._controls = Controls(training, settings, rng)
        self._asked = np.empty((0, len(training.generator.sizes)), dtype=np.int32)
        self._remembered: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=settings.memory)

    def shown(self) -> np.ndarray:
        """Return generated rows for a step of the teachers; the control teachers make the same step."""
        shown = self._training.sample(self._settings.shown)
        self._controls.train(shown)
        return shown

    def asked(self) -> np.ndarray:
        """Return generated rows for the teachers to vote on."""
        self._asked = self._training.sample(self._settings.asked)
        return self._asked

    def learn(self, votes: np.ndarray, /) -> None:
        """Make the steps of student and generator that follow a round of votes."""
        shares = 0.5 + votes / self._settings.teachers - self._controls.shares(self._asked)
        self._remembered.append((self._asked, shares))
        self.student.learn(*self._remembered[-1])
        for _ in range(self._settings.student_steps - 1):
            self.student.learn(*self._remembered[self._rng.integers(len(self._remembered))])
        for _ in range(self._settings.generator_steps):
            self._training.step(self.student.slopes)
        self._progress()
