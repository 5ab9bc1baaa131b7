"""DP-WGAN: a generator network trained by a critic that learns from noisy gradient sums of real rows, corrected."""

from __future__ import annotations

import math

import numpy as np

from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.critic_sums import CriticSums
from lookalike.synthesizers.base import Progress, method, tuned
from lookalike.synthesizers.gan_training import (
    GeneratorMethod,
    GeneratorTraining,
    WassersteinTrainer,
    training_progress,
)

GRADIENTS = "gradients of the critic"

_BATCH_ROWS = 100_000
"""Approximate number of rows in a batch of the critic."""


@method(
    "dp-wgan",
    title="DP-WGAN",
    paper="Arjovsky, Chintala, Bottou: Wasserstein GAN (ICML 2017) with noisy gradients, as in UCLA's entry to the "
    "NIST challenge of 2018",
    good_for="comparison with networks; ahead of independent columns, behind the good marginal methods",
    corrected="no amplification by sampling is claimed (the public program shuffles and is accounted as if it "
    "drew every row independently); one clip over all layers, in exact whole numbers; exact unseeded noise; number of "
    "rows, delta and values no longer taken from the table; a number of steps that no private loss decides",
    page="docs/reproductions/gans.md",
    rank=180,
)
class DPWGAN(GeneratorMethod):
    """Train a network that turns random numbers into rows by a second one, the critic, that separates real from made.

    Attributes:
        steps: maximum number of steps of the critic; fewer where their noise would exceed `noise`.
        noise: maximum norm of the noise in a step, as a share of the norm at which a row's gradient is clipped.
        units: maximum number of hidden units of the critic; no more than 4 per value of any column are used.
        critic_rate: learning rate of the critic, whose weights lie between -1 and 1.
    """

    request_step = GRADIENTS

    steps: int = tuned(250)
    noise: float = tuned(0.5)
    units: int = tuned(64)
    critic_rate: float = tuned(0.1)

    def _note(self) -> str:
        return f"noisy sums of the rows' clipped gradients, at most {self.steps} times"

    def _request(
        self,
        door: GuardedTable,
        total: float,
        training: GeneratorTraining,
        rng: np.random.Generator,
        progress: Progress,
    ) -> CriticSums:
        cells, batches = sum(door.domain.sizes), math.ceil(max(total, 1.0) / _BATCH_ROWS)
        units = min(self.units, 4 * cells)
        steps = self._steps(door, total, (cells + 2) * units)
        trainer = WassersteinTrainer(
            training, self.generator_steps, max(1.0, total / batches), units=units, rate=self.critic_rate, rng=rng,
            progress=training_progress(progress, steps),
        )  # fmt: skip
        return CriticSums(trainer, steps, batches)

    def _steps(self, door: GuardedTable, total: float, parameters: int) -> int:
        """Return the number of steps at which the noise of each stays below `noise`, if every gradient is clipped."""
        once = door.stddev_for(door.remaining) * math.sqrt(parameters) / max(1.0, total)
        return max(1, min(self.steps, math.floor((self.noise / once) ** 2)))
