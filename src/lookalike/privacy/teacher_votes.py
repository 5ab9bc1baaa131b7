"""What a student of PATE-GAN learns about real rows: how many teachers take a generated row for a real one, with noise.

Every row goes to one of `parts` parts at random, whatever the other rows do, and the first `teachers` parts have a
teacher each; rows of the others are not used. A teacher's weights depend on its own rows and on rows that everybody may
see, and on nothing else, to the last bit (`tables/teachers.py`). So one row changes one teacher at most, whose vote on
a generated row is 0 or 1: the count of votes for "real" has sensitivity 1 (the other count follows from it and is not
released). N noisy counts are N Gaussian releases, mu^2 = N * (rows / stddev)^2 in all, given which part has the row; a
mixture over that is no worse, as the hockey-stick divergence from the law without the row is convex. Several rows of a
person change as many teachers at most, replaced ones twice as many: `Neighbours.rows`.

The price counts all votes that are asked for and never looks at what they were. (The published programs charge less
where teachers agree, which makes the price, and when they stop, private themselves.) Counts of votes are whole numbers,
so rounded Gaussian noise has the exact Gaussian curve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from lookalike.errors import BudgetError
from lookalike.privacy.budget import Budget
from lookalike.privacy.neighbours import Neighbours
from lookalike.privacy.noise import rounded_gaussian
from lookalike.privacy.rows import Codes, Floats, SystemRandom, stddev_for_rest
from lookalike.schema.domain import Domain
from lookalike.tables.teachers import Teachers


class StudentTrainer(Protocol):
    """Whoever trains the student. It sees noisy counts of votes and nothing else of the table."""

    def shown(self) -> np.ndarray:
        """Codes of generated rows that the teachers learn to tell from their own."""
        ...

    def asked(self) -> np.ndarray:
        """Codes of the generated rows that the teachers vote on next, as many as announced."""
        ...

    def learn(self, votes: Floats, /) -> None:
        """Takes the noisy number of teachers that take each of these rows for real."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TeacherVotes:
    """A number of rounds of training and voting, all paid for together with what is left of the budget.

    Attributes:
        trainer: what shows, asks and learns.
        rounds: how often.
        asked: generated rows per round that are voted on.
        teachers: how many there are; never from the true number of rows.
        inputs: weights that every teacher starts from, see `Teachers`.
        outputs: the same.
        rate: learning rate of the teachers.
        lessons: steps of the teachers per round.
        parts: parts that the rows are put into; 0 for as many as there are teachers.
        stddev: of the noise on each count of votes; set when settled.
    """

    trainer: StudentTrainer
    rounds: int
    asked: int
    teachers: int
    inputs: np.ndarray
    outputs: np.ndarray
    rate: float
    lessons: int = 1
    parts: int = 0
    stddev: float = 0.0

    def __post_init__(self) -> None:
        if min(self.rounds, self.asked, self.teachers, self.lessons) < 1:
            raise BudgetError(
                f"{self.rounds} rounds of {self.lessons} lessons and {self.asked} votes of {self.teachers} teachers "
                "were asked for; take at least 1 of each."
            )
        if self.parts and self.parts < self.teachers:
            raise BudgetError(f"{self.parts} parts for {self.teachers} teachers; take at least one for each.")

    @property
    def mechanism(self) -> str:
        return "gaussian"

    @property
    def releases(self) -> int:
        return self.rounds * self.asked

    @property
    def detail(self) -> str:
        return f"votes of {self.teachers} teachers, stddev {self.stddev:.6g}"

    def settled(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> TeacherVotes:
        """The request with the smallest noise that what is left pays for. Looks at nothing private."""
        return replace(self, stddev=stddev_for_rest("The teachers' votes", budget, spent, neighbours, self.releases))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> None:
        part = SystemRandom(insecure_rng).below(self.parts or self.teachers, len(codes))
        used = part < self.teachers
        weights = (self.inputs, self.outputs, self.rate)
        school = Teachers(domain.sizes, codes[used], part[used], self.teachers, *weights)
        for _ in range(self.rounds):
            for _ in range(self.lessons):
                school.train(self.trainer.shown())
            asked = self.trainer.asked()
            if len(asked) != self.asked:
                raise BudgetError(f"{len(asked)} rows are to be voted on; {self.asked} were paid for.")
            noise = rounded_gaussian(self.stddev, self.asked, insecure_rng=insecure_rng)
            self.trainer.learn((school.votes(asked) + noise).astype(np.float64))
