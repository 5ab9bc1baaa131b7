"""What a critic of DP-WGAN learns from real rows: noisy sums of clipped gradients, one per step.

The published program draws batches by shuffling and accounts for them as if every row were drawn by itself. Here no
amplification by sampling is claimed, so none can fail. Every row is put into one of `batches` batches at random,
whatever the other rows do, and step t uses batch t mod `batches`. So a row is used in at most ceil(steps / batches)
steps, and in each it adds a vector of whole numbers of norm `norm` at most (`tables/critic.py`). All else that a step
uses is public: the critic, the norm, the noise. Given the row's batch the steps are an adaptive composition of Gaussian
mechanisms with mu^2 = ceil(steps / batches) * (rows * norm / stddev)^2 in all, and a mixture over the row's batch is no
worse, as the hockey-stick divergence from the law without the row is convex. Several rows of a person add up to norm
rows * norm at most, replaced ones to twice that: `Neighbours.rows`.

Sums are whole numbers, so Gaussian noise rounded to whole numbers is post-processing of the Gaussian mechanism, and the
exact Gaussian curve holds.
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
from lookalike.tables.critic import Critic


class CriticTrainer(Protocol):
    """Whoever trains the critic. It sees noisy sums and nothing else of the table."""

    def critic(self) -> tuple[Critic, int]:
        """The critic whose gradient is wanted next, and the norm that rows' gradients are clipped to."""
        ...

    def learn(self, sums: Floats, /) -> None:
        """Takes the noisy sum over the rows of one batch, laid out as by `Critic.clipped_sums`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CriticSums:
    """A number of steps of a critic's training, all paid for together with what is left of the budget.

    Attributes:
        trainer: what asks, and learns.
        steps: how often it asks.
        batches: number of disjoint batches that the rows are put into.
        stddev: of the noise on each number, as a multiple of the norm; set when settled.
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
        """Steps that one row is used in, at most."""
        return -(-self.steps // self.batches)

    @property
    def detail(self) -> str:
        return f"clipped gradients, stddev {self.stddev:.6g} norms, {self.visits} steps per row"

    def settled(self, domain: Domain, budget: Budget, spent: Fraction, neighbours: Neighbours) -> CriticSums:
        """The request with the smallest noise that what is left pays for. Looks at nothing private."""
        return replace(self, stddev=stddev_for_rest("The critic's training", budget, spent, neighbours, self.visits))

    def release(self, codes: Codes, domain: Domain, insecure_rng: np.random.Generator | None) -> None:
        batch_of_row = SystemRandom(insecure_rng).below(self.batches, len(codes))
        for step in range(self.steps):
            rows = codes[batch_of_row == step % self.batches] if self.batches > 1 else codes
            critic, norm = self.trainer.critic()
            exact = critic.clipped_sums(rows, norm)
            stddev = Fraction(self.stddev) * norm
            self.trainer.learn(exact + rounded_gaussian(stddev, exact.shape, insecure_rng=insecure_rng))
