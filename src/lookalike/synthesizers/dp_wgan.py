"""DP-WGAN: a generator network trained by a critic that learns from noisy gradient sums of real rows, corrected."""

from __future__ import annotations

import math

import numpy as np

from lookalike.errors import SchemaError
from lookalike.models.model import Model
from lookalike.models.network import Generator, NetworkModel
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.critic_sums import CriticSums
from lookalike.schema.domain import Domain
from lookalike.selection.steps import fit_columns, singles
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.gan_training import GeneratorTraining, WassersteinTrainer, training_progress
from lookalike.synthesizers.split import ONEWAYS, UNKNOWN, Kind, Split, Step

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
    "drew every row by itself); one clip over all layers, in exact whole numbers; exact unseeded noise; number of "
    "rows, delta and values no longer taken from the table; a number of steps that no private loss decides",
    page="docs/reproductions/gans.md",
    rank=180,
)
class DPWGAN(Method):
    """Train a network that turns random numbers into rows by a second one, the critic, that separates real from made.

    Attributes:
        oneway_share: part of the budget for one-way marginals, which give the number of rows and the first generator.
        steps: maximum number of steps of the critic; fewer where their noise would exceed `noise`.
        noise: maximum norm of the noise in a step, as a share of the norm at which a row's gradient is clipped.
        units: maximum number of hidden units of the critic; no more than 4 per value of any column are used.
        hidden: maximum number of hidden units of the generator; no more than 8 per value of any column are used.
        latent: number of random numbers that become a row.
        critic_rate: learning rate of the critic, whose weights lie between -1 and 1.
        generator_rate: learning rate of the generator.
        generator_steps: steps of the generator per step of the critic.
        keep_margins: hold the generator's columns to the one-way marginals while it learns, and at the end.
    """

    oneway_share: float = tuned(0.2)
    steps: int = tuned(250)
    noise: float = tuned(0.5)
    units: int = tuned(64)
    hidden: int = tuned(256)
    latent: int = tuned(32)
    critic_rate: float = tuned(0.1)
    generator_rate: float = tuned(1e-3)
    generator_steps: int = tuned(3)
    keep_margins: bool = choice(True)

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_positive(noise=self.noise, critic_rate=self.critic_rate, generator_rate=self.generator_rate)
        for name in ("steps", "units", "hidden", "latent", "generator_steps"):
            if getattr(self, name) < 1:
                raise SchemaError(f"dp-wgan: {name} is {getattr(self, name)}; it must be at least 1.")

    def split(self, domain: Domain, rho: float) -> Split:
        note = f"noisy sums of the rows' clipped gradients, at most {self.steps} times"
        gradients = Step(GRADIENTS, "gaussian", UNKNOWN, 0.0, note, Kind.ROWS)
        return Split.of(rho, Step.columns(domain, rho * self.oneway_share), rest=gradients)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.02)
        independent = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)[1]
        total, margins = independent.total, independent.marginals(singles(door.domain))
        cells, batches = sum(door.domain.sizes), math.ceil(max(total, 1.0) / _BATCH_ROWS)
        generator = Generator.start(margins, self.latent, min(self.hidden, 8 * cells), rng)
        training = GeneratorTraining(generator, margins, self.generator_rate, rng, pull=self.keep_margins)
        units = min(self.units, 4 * cells)
        steps = self._steps(door, total, (cells + 2) * units)
        trainer = WassersteinTrainer(
            training, self.generator_steps, max(1.0, total / batches), units=units, rate=self.critic_rate, rng=rng,
            progress=training_progress(progress, steps),
        )  # fmt: skip
        door.release_rows(CriticSums(trainer, steps, batches), step=GRADIENTS)
        if self.keep_margins:
            generator.calibrate(margins, rng)
        return NetworkModel(door.domain, total, generator)

    def _steps(self, door: GuardedTable, total: float, parameters: int) -> int:
        """Return the number of steps at which the noise of each stays below `noise`, if every gradient is clipped."""
        once = door.stddev_for(door.remaining) * math.sqrt(parameters) / max(1.0, total)
        return max(1, min(self.steps, math.floor((self.noise / once) ** 2)))
