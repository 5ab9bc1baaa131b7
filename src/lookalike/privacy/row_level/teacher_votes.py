"""Noisy counts of the teachers that take a generated row for a real one, from which a student learns.

Every row goes to one of `parts` parts at random, independent of the other rows, and the first `teachers` parts have a
teacher each; rows of the others are not used. A teacher's weights depend on its own rows and on released rows, and on
nothing else, to the last bit. So one row changes at most one teacher, whose vote on a generated row is 0 or 1: the
count of votes for "real" has sensitivity 1 (the other count follows from it and is not released). N noisy counts are N
Gaussian releases, mu^2 = N * (rows / stddev)^2 in all, given which part has the row; a mixture over that is no worse,
as the hockey-stick divergence from the distribution without the row is convex. Several rows of a person change as many
teachers at most, replaced ones twice as many: `Neighbours.rows`.

The price counts all votes that are asked for and does not depend on their values. (The published programs charge less
where teachers agree, which makes the price, and when they stop, private themselves.) Counts of votes are whole numbers,
so rounded Gaussian noise has the exact Gaussian curve.

Teacher t scores a row x by s(x) = const_t + sum_h out_th * max(0, bias_th + sum_j in_t[value_j, h]). It is trained to
score its own rows above 1 and shown rows below -1, by the smoothed hinge loss whose slope is clip((1 -+ s) / 2, 0, 1).
Of a number of rows it votes for those that score above their mean: a teacher of few rows scores all others below 0.

What teacher t does depends on the rows of part t, in their order, and on the rows shown to all: not on other parts, to
the last bit. Sums over own rows run in the order of rows (sparse products with ones), all else is elementwise addition,
multiplication, division, square root and comparison, which are rounded the same way at every position. That is
why no exponential and no dense product appears here: some libraries' results depend on the position in the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

from lookalike.errors import BudgetError
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.mechanisms import rounded_gaussian
from lookalike.privacy.row_level.rows import Codes, Floats, SystemRandom, stddev_for_rest
from lookalike.schema.domain import Domain, one_hot

Singles = NDArray[np.float32]
_sparse = cast(Any, sparse)


class StudentTrainer(Protocol):
    """Trains the student, from noisy counts of votes and nothing else of the table."""

    def shown(self) -> np.ndarray:
        """Codes of generated rows that the teachers learn to distinguish from their own."""
        ...

    def asked(self) -> np.ndarray:
        """Codes of the generated rows that the teachers vote on next, as many as announced."""
        ...

    def learn(self, votes: Floats, /) -> None:
        """Take the noisy number of teachers that vote for each of these rows as real."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TeacherVotes:
    """A number of rounds of training and voting, paid for together with the whole remaining budget.

    Attributes:
        trainer: gives the generated rows and learns from the votes.
        rounds: number of rounds.
        asked: generated rows per round that are voted on.
        teachers: number of teachers; never derived from the true number of rows.
        inputs: weights that every teacher starts from, see `Teachers`.
        outputs: the same.
        rate: learning rate of the teachers.
        lessons: steps of the teachers per round.
        parts: parts that the rows are put into; 0 for as many as there are teachers.
        stddev: of the noise on each count of votes; set when priced.
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

    def priced(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> TeacherVotes:
        """The request with the smallest noise that the remaining budget pays for. Uses public numbers only."""
        return replace(self, stddev=stddev_for_rest("The teachers' votes", budget, spent, neighbours, self.releases))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> None:
        part = SystemRandom(insecure_rng).below(self.parts or self.teachers, len(codes))
        used = part < self.teachers
        weights = (self.inputs, self.outputs, self.rate)
        teachers = Teachers(domain.sizes, codes[used], part[used], self.teachers, *weights)
        for _ in range(self.rounds):
            for _ in range(self.lessons):
                teachers.train(self.trainer.shown())
            asked = self.trainer.asked()
            if len(asked) != self.asked:
                raise BudgetError(f"Votes on {len(asked)} rows were asked for, but {self.asked} are paid for.")
            noise = rounded_gaussian(self.stddev, self.asked, insecure_rng=insecure_rng)
            self.trainer.learn((teachers.votes(asked) + noise).astype(np.float64))


class Teachers:
    """A fixed number of teachers, which start from the same weights.

    Args:
        sizes: number of values of each column.
        codes: the rows of all parts.
        part: the teacher of every row.
        number: number of teachers.
        inputs: weights that every teacher starts from: one row per value of every column and one for the bias, one
            column per hidden unit.
        outputs: the same, one per hidden unit.
        rate: learning rate.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        codes: np.ndarray,
        part: np.ndarray,
        number: int,
        inputs: np.ndarray,
        outputs: np.ndarray,
        rate: float,
    ) -> None:
        self._sizes, self._rate = (*sizes, 1), np.float32(rate)
        self._number, self._units = number, len(outputs)
        self._part = part
        self._of_part = _ones(part[:, None], number)
        self._share = (1 / np.maximum(np.bincount(part, minlength=number), 1)).astype(np.float32)[part]
        # Weights lie as (value, teacher, unit), so that rows shown to all are one product for all teachers.
        self._inputs = np.repeat(inputs.astype(np.float32)[:, None, :], number, axis=1)
        self._outputs = np.repeat(outputs.astype(np.float32)[None, :], number, axis=0)
        self._constant = np.zeros(number, np.float32)
        self._squares: list[Singles] = [np.zeros_like(part) for part in self._weights]
        self._known = np.float32(0)
        self.give(codes)

    def give(self, codes: np.ndarray) -> None:
        """Replace all rows of the teachers; each new row goes to the teacher of the old row in its place."""
        starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        cells = (_with_bias(codes) + starts) * self._number + self._part[:, None]
        self._own = _ones(cells, sum(self._sizes) * self._number)

    @property
    def _weights(self) -> tuple[Singles, Singles, Singles]:
        return self._inputs, self._outputs, self._constant

    def train(self, shown: np.ndarray) -> None:
        """One step of every teacher: its own rows are real, the shown ones are not."""
        own, generated = self._own_slopes(), self._shown_slopes(shown)
        memory = np.float32(0.99)
        self._known = memory * self._known + (1 - memory)
        for weight, square, a, b in zip(self._weights, self._squares, own, generated, strict=True):
            slope = a + b
            square *= memory
            square += (1 - memory) * (slope * slope)
            weight -= self._rate * slope / (np.sqrt(square / self._known) + np.float32(1e-8))

    def votes(self, codes: np.ndarray) -> NDArray[np.int64]:
        """The number of teachers that score each row above the mean of these rows."""
        scores = self._scores(self._hidden(codes), self._outputs, self._constant)
        return (scores > scores.mean(axis=0)).sum(axis=1)

    def _own_slopes(self) -> tuple[Singles, Singles, Singles]:
        hidden: Singles = self._own @ self._inputs.reshape(-1, self._units)
        outputs = self._outputs[self._part]
        active, hidden = hidden > 0, np.maximum(hidden, 0)
        scores = self._scores(hidden, outputs, self._constant[self._part])
        error = -self._share * np.clip((1 - scores) / 2, 0, 1)
        inputs = self._own.T @ (error[:, None] * outputs * active)
        constant = self._of_part.T @ error[:, None]
        return inputs.reshape(self._inputs.shape), self._of_part.T @ (error[:, None] * hidden), constant[:, 0]

    def _shown_slopes(self, shown: np.ndarray) -> tuple[Singles, Singles, Singles]:
        hidden = self._hidden(shown)
        active, hidden = hidden > 0, np.maximum(hidden, 0)
        error = np.clip((1 + self._scores(hidden, self._outputs, self._constant)) / 2, 0, 1) / np.float32(len(shown))
        pushed = (error[:, :, None] * self._outputs * active).reshape(len(shown), -1)
        inputs = one_hot(_with_bias(shown), self._sizes).T @ pushed
        return inputs.reshape(self._inputs.shape), (error[:, :, None] * hidden).sum(axis=0), error.sum(axis=0)

    def _hidden(self, codes: np.ndarray) -> Singles:
        """Hidden units before they are rectified, (row, teacher, unit)."""
        flat = one_hot(_with_bias(codes), self._sizes) @ self._inputs.reshape(sum(self._sizes), -1)
        return flat.reshape(len(codes), self._number, self._units)

    def _scores(self, hidden: Singles, outputs: Singles, constant: Singles) -> Singles:
        """Unit by unit: a sum along an axis might be split up differently for another number of rows."""
        scores = np.zeros(hidden.shape[:-1], np.float32) + constant
        for unit in range(self._units):
            scores += np.maximum(hidden[..., unit], 0) * outputs[..., unit]
        return scores


def _with_bias(codes: np.ndarray) -> np.ndarray:
    """The rows with a last column for the bias, which has one value."""
    return np.concatenate([codes, np.zeros((len(codes), 1), codes.dtype)], axis=1)


def _ones(places: np.ndarray, columns: int) -> Any:
    """A sparse matrix with a 1 at these places of every row."""
    rows, each = (int(size) for size in places.shape)
    ends, ones = np.arange(0, rows * each + 1, each), np.ones(rows * each, np.float32)
    return _sparse.csr_matrix((ones, np.ascontiguousarray(places).ravel(), ends), shape=(rows, columns))
