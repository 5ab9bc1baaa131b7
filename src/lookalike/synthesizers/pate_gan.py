"""PATE-GAN: a generator trained by a student of many teachers' noisy votes (Jordon, Yoon, van der Schaar 2019)."""

from __future__ import annotations

import math

import numpy as np

from lookalike.errors import SchemaError
from lookalike.models.model import Model
from lookalike.models.network import Generator, NetworkModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.teacher_votes import TeacherVotes
from lookalike.schema.domain import Domain
from lookalike.selection.steps import fit_columns, singles
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.gan_training import GeneratorTraining, TeachingSettings, VoteTrainer, training_progress
from lookalike.synthesizers.split import ONEWAYS, UNKNOWN, Kind, Split, Step

VOTES = "votes of the teachers"

MAX_TEACHERS, MAX_WEIGHTS = 1000, 4_000_000
"""More teachers, or more weights of all teachers, would train for hours; teachers get more rows instead."""
MAX_TEACHER_ROWS = 200
"""Maximum number of rows of a teacher; further rows are not used."""


@method(
    "pate-gan",
    title="PATE-GAN",
    paper="Jordon, Yoon, van der Schaar: PATE-GAN: Generating Synthetic Data with Differential Privacy Guarantees "
    "(ICLR 2019)",
    good_for="comparison with networks; ahead of independent columns on small tables, near them on wide ones, "
    "behind the good marginal methods",
    corrected="every vote is charged at its full price (public programs charge less where teachers agree and stop "
    "by it, which is private); Gaussian noise on the one count that a teacher can change; parts drawn row by row, "
    "their number from a noisy number of rows; teachers that cannot touch each other, to the last bit",
    page="docs/reproductions/gans.md",
    rank=190,
)
class PATEGAN(Method):
    """Divide the rows among many small teachers; only their noisy votes on generated rows are released.

    Attributes:
        oneway_share: part of the budget for one-way marginals, which give the number of rows and the first generator.
        rounds: maximum number of rounds of votes; fewer where their noise would exceed `noise`.
        noise: maximum noise in the mean of a round's votes, as a share of the teachers.
        teacher_rows: rows per teacher, by the noisy number of rows; up to 200 where there would be over 1000 teachers,
            and rows beyond that are not used.
        teacher_units: hidden units of a teacher.
        teacher_rate: learning rate of the teachers.
        teacher_steps: steps of the teachers per round.
        units: hidden units of the student.
        student_rate: learning rate of the student.
        student_steps: steps of the student per round.
        hidden: maximum number of hidden units of the generator; no more than 8 per value of any column are used.
        latent: number of random numbers that become a row.
        generator_rate: learning rate of the generator.
        generator_steps: steps of the generator per round.
        keep_margins: hold the generator's columns to the one-way marginals while it learns, and at the end.
    """

    oneway_share: float = tuned(0.2)
    rounds: int = tuned(60)
    noise: float = tuned(0.1)
    teacher_rows: int = tuned(20)
    teacher_units: int = tuned(8)
    teacher_rate: float = tuned(0.05)
    teacher_steps: int = tuned(2)
    units: int = tuned(64)
    student_rate: float = tuned(2e-3)
    student_steps: int = tuned(20)
    hidden: int = tuned(256)
    latent: int = tuned(32)
    generator_rate: float = tuned(5e-4)
    generator_steps: int = tuned(3)
    keep_margins: bool = choice(True)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_positive(
            noise=self.noise, teacher_rate=self.teacher_rate, student_rate=self.student_rate,
            generator_rate=self.generator_rate,
        )  # fmt: skip
        teaching = ("rounds", "teacher_rows", "teacher_units", "teacher_steps", "units", "student_steps")
        for name in (*teaching, "hidden", "latent", "generator_steps"):
            if getattr(self, name) < 1:
                raise SchemaError(f"pate-gan: {name} is {getattr(self, name)}; it must be at least 1.")

    def split(self, domain: Domain, rho: float) -> Split:
        note = f"noisy votes on generated rows, in at most {self.rounds} rounds"
        votes = Step(VOTES, "gaussian", UNKNOWN, 0.0, note, Kind.ROWS)
        return Split.of(rho, Step.columns(domain, rho * self.oneway_share), rest=votes)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.02)
        independent = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)[1]
        total, margins = independent.total, independent.marginals(singles(door.domain))
        generator = Generator.start(margins, self.latent, min(self.hidden, 8 * sum(door.domain.sizes)), rng)
        training = GeneratorTraining(generator, margins, self.generator_rate, rng, pull=self.keep_margins)
        door.release_rows(self._request(door, total, training, rng, progress), step=VOTES)
        if self.keep_margins:
            generator.calibrate(margins, rng)
        return NetworkModel(door.domain, total, generator)

    def _request(
        self,
        door: GuardedTable,
        total: float,
        training: GeneratorTraining,
        rng: np.random.Generator,
        progress: Progress,
    ) -> TeacherVotes:
        """Return the request for all rounds of votes; the noisy number of rows decides how many teachers there are."""
        cells = sum(door.domain.sizes) + 1
        allowed = min(MAX_TEACHERS, MAX_WEIGHTS // (cells * self.teacher_units))
        teachers = max(1, min(allowed, round(total / self.teacher_rows)))
        parts = max(teachers, round(total / MAX_TEACHER_ROWS))
        # The noise of a vote grows with the root of all votes; that of a round's mean falls with the root of its votes.
        once = door.stddev_for(door.remaining) / teachers
        rounds = max(1, min(self.rounds, math.floor((self.noise / once) ** 2)))
        inputs = rng.standard_normal((cells, self.teacher_units)) / (2 * math.sqrt(len(door.domain)))
        inputs[-1] = 0
        outputs = rng.standard_normal(self.teacher_units) / math.sqrt(self.teacher_units)
        settings = TeachingSettings(
            teachers, max(1.0, total / parts), inputs, outputs, self.teacher_rate, self.units, self.student_rate,
            self.student_steps, self.generator_steps,
        )  # fmt: skip
        trainer = VoteTrainer(training, settings, rng, training_progress(progress, rounds))
        return TeacherVotes(
            trainer, rounds, settings.asked, teachers, inputs, outputs, self.teacher_rate,
            lessons=self.teacher_steps, parts=parts,
        )  # fmt: skip
