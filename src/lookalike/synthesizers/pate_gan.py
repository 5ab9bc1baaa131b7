"""PATE-GAN: a generator trained by a student of many teachers' noisy votes (Jordon, Yoon, van der Schaar 2019)."""

from __future__ import annotations

import math

import numpy as np

from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.teacher_votes import TeacherVotes
from lookalike.synthesizers.base import Progress, method, tuned
from lookalike.synthesizers.gan_training import (
    GeneratorMethod,
    GeneratorTraining,
    TeachingSettings,
    VoteTrainer,
    training_progress,
)

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
class PATEGAN(GeneratorMethod):
    """Divide the rows among many small teachers; only their noisy votes on generated rows are released.

    Attributes:
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
    """

    request_step = VOTES

    rounds: int = tuned(60)
    noise: float = tuned(0.1)
    teacher_rows: int = tuned(20)
    teacher_units: int = tuned(8)
    teacher_rate: float = tuned(0.05)
    teacher_steps: int = tuned(2)
    units: int = tuned(64)
    student_rate: float = tuned(2e-3)
    student_steps: int = tuned(20)
    generator_rate: float = tuned(5e-4)

    def _note(self) -> str:
        return f"noisy votes on generated rows, in at most {self.rounds} rounds"

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
