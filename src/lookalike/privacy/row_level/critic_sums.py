"""Noisy sums of clipped gradients of a critic over real rows, one per training step.

The published program of DP-WGAN draws batches by shuffling, and accounts for them as if each row were drawn
independently. Here no amplification by sampling is claimed, so none can fail. Every row is put into one of `batches`
batches at random, independent of the other rows, and step t uses batch t mod `batches`. So a row is used in at most
ceil(steps / batches) steps, and in each it adds a vector of whole numbers of at most norm `norm`
(`Critic.clipped_sums`). All else that a step uses is public: the critic, the norm, the noise. Given the row's batch the
steps are an adaptive composition of Gaussian mechanisms with mu^2 = ceil(steps / batches) * (rows * norm / stddev)^2 in
all, and a mixture over the row's batch is no worse, as the hockey-stick divergence from the distribution without the
row is convex. Several rows of a person add up to norm rows * norm at most, replaced ones to twice that:
`Neighbours.rows`.

Sums are whole numbers, so Gaussian noise rounded to whole numbers is post-processing of the Gaussian mechanism, and the
exact Gaussian curve holds.

The critic has one hidden layer. Row x has one value in each of d columns, and
    f(x) = sum_h out_h * max(0, bias_h + sum_j in[value_j, h]).
Where unit h is active, the row's gradient is out_h at bias_h and at in[value_j, h] for each of the d columns, and the
unit's size at out_h; elsewhere it is 0. So its squared norm is (d + 1) * sum of out_h^2 over active units + sum of
sizes^2, and gradients can be clipped without storing them row by row. All weights are whole numbers of at most UNIT.
Sizes are then whole numbers below 2^24, which float32 holds exactly, and squared norms and sums of clipped gradients
whole numbers below 2^53, which float64 does. No sum is ever rounded, in whatever order it is added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import BudgetError, ModelTooLargeError
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.mechanisms import rounded_gaussian
from lookalike.privacy.row_level.rows import Codes, Floats, SystemRandom, stddev_for_rest
from lookalike.schema.domain import Domain, one_hot

UNIT = 1 << 12
"""Largest absolute value of a weight."""

_SHRINK = 1 - 2.0**-40
_BLOCK_ROWS = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Critic:
    """The weights, all whole numbers from -UNIT to UNIT.

    Attributes:
        sizes: number of values of each column.
        inputs: one row per value of every column, one column per hidden unit; the last row is the bias.
        outputs: one per hidden unit.
    """

    sizes: tuple[int, ...]
    inputs: NDArray[np.float32]
    outputs: NDArray[np.float32]

    def __post_init__(self) -> None:
        hidden, columns = len(self.outputs), len(self.sizes)
        if self.inputs.shape != (sum(self.sizes) + 1, hidden):
            raise ValueError(f"inputs of shape {self.inputs.shape} for {sum(self.sizes)} values, {hidden} units")
        if (columns + 1) * UNIT > 2**24 or hidden * ((columns + 1) * UNIT) ** 2 > 2**53:
            largest = min(2**24 / UNIT, math.sqrt(2**53 / hidden) / UNIT) - 1
            what, remedy = f"An exact critic of {hidden} units", "Use fewer hidden units, or drop columns."
            raise ModelTooLargeError(what, columns, largest, "columns", remedy)
        for weights in (self.inputs, self.outputs):
            if not np.array_equal(weights, np.clip(np.rint(weights), -UNIT, UNIT)):
                raise ValueError("the weights are not whole numbers within the limit")

    @classmethod
    def rounded(cls, sizes: Sequence[int], inputs: np.ndarray, outputs: np.ndarray) -> Critic:
        """The critic nearest to these weights, each between -1 and 1 and taken in units of 1/UNIT."""
        whole = [np.rint(np.clip(part, -1, 1) * UNIT).astype(np.float32) for part in (inputs, outputs)]
        return cls(tuple(sizes), whole[0], whole[1])

    @property
    def parameters(self) -> int:
        return self.inputs.size + self.outputs.size

    def norms(self, codes: np.ndarray) -> Floats:
        """Norm of every row's gradient."""
        return np.sqrt(self._squared_norms(self._sizes(codes)))

    def clipped_sums(self, codes: np.ndarray, norm: int) -> Floats:
        """Return the sum over the rows of their gradients, each shrunk to that norm and cut to whole numbers.

        One row adds a vector of whole numbers of at most norm `norm`. If its gradient is no longer than that, it is
        added as it is. Else it is multiplied by a number that is at most norm / length, because (1 - 2^-40) outweighs
        the five roundings of relative 2^-53 on the way, and cut towards 0, which makes no entry larger.

        Returns:
            The sums as one vector: inputs (value by value, the bias last), then outputs.
        """
        inputs, outputs = np.zeros(self.inputs.shape), np.zeros(len(self.outputs))
        for start in range(0, len(codes), _BLOCK_ROWS):
            block = codes[start : start + _BLOCK_ROWS]
            sizes = self._sizes(block)
            squared = self._squared_norms(sizes)
            factor = np.ones(len(block))
            over = squared > float(norm) ** 2
            factor[over] = norm * _SHRINK / np.sqrt(squared[over])
            delta = np.trunc((sizes > 0) * self.outputs.astype(np.float64) * factor[:, None])
            inputs[:-1] += one_hot(block, self.sizes).T @ delta
            inputs[-1] += delta.sum(axis=0)
            outputs += np.trunc(sizes * factor[:, None]).sum(axis=0)
        return np.concatenate([inputs.ravel(), outputs])

    def slopes(self, codes: np.ndarray) -> np.ndarray:
        """Gradient of f at every row by its one-hot values: how much each value of each column would raise f."""
        active = (self._sizes(codes) > 0) * self.outputs
        return active @ self.inputs[:-1].T

    def _sizes(self, codes: np.ndarray) -> NDArray[np.float32]:
        """The hidden units of every row."""
        return np.maximum(one_hot(codes, self.sizes) @ self.inputs[:-1] + self.inputs[-1], 0)

    def _squared_norms(self, sizes: NDArray[np.float32]) -> Floats:
        exact = sizes.astype(np.float64)
        outputs = self.outputs.astype(np.float64)
        own = np.einsum("rh,rh->r", exact, exact)
        return own + (len(self.sizes) + 1) * ((sizes > 0) @ (outputs * outputs))


class CriticTrainer(Protocol):
    """Trains the critic, from noisy sums and nothing else of the table."""

    def critic(self) -> tuple[Critic, int]:
        """The critic whose gradient is wanted next, and the norm that rows' gradients are clipped to."""
        ...

    def learn(self, sums: Floats, /) -> None:
        """Take the noisy sum over the rows of one batch, in the order of `Critic.clipped_sums`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CriticSums:
    """A number of steps of a critic's training, paid for together with the whole remaining budget.

    Attributes:
        trainer: gives the critic of each step and learns from the noisy sums.
        steps: number of training steps.
        batches: number of disjoint batches that the rows are put into.
        stddev: of the noise on each number, as a multiple of the norm; set when priced.
    """

    trainer: CriticTrainer
    steps: int
    batches: int = 1
    stddev: float = 0.0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batches < 1:
            raise BudgetError(
                f"{self.steps} steps with {self.batches} batches were asked for; take at least 1 of each."
            )

    @property
    def mechanism(self) -> str:
        return "gaussian"

    @property
    def releases(self) -> int:
        return self.steps

    @property
    def visits(self) -> int:
        """The largest number of steps in which one row is used."""
        return -(-self.steps // self.batches)

    @property
    def detail(self) -> str:
        return f"clipped gradients, stddev {self.stddev:.6g} norms, {self.visits} steps per row"

    def priced(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> CriticSums:
        """The request with the smallest noise that the remaining budget pays for. Uses public numbers only."""
        return replace(self, stddev=stddev_for_rest("The critic's training", budget, spent, neighbours, self.visits))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> None:
        batch_of_row = SystemRandom(insecure_rng).below(self.batches, len(codes))
        for step in range(self.steps):
            rows = codes[batch_of_row == step % self.batches] if self.batches > 1 else codes
            critic, norm = self.trainer.critic()
            exact = critic.clipped_sums(rows, norm)
            stddev = Fraction(self.stddev) * norm
            self.trainer.learn(exact + rounded_gaussian(stddev, exact.shape, insecure_rng=insecure_rng))
