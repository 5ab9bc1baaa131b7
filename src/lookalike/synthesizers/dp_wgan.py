"""DP-WGAN: a generator network taught by a critic that sees real rows through noisy gradients, corrected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import numpy as np

from lookalike.errors import SchemaError
from lookalike.estimate import fit
from lookalike.generate.model import Model
from lookalike.generate.network import Generator, NetworkModel
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.row_level.critic_sums import CriticSums
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.model_size import model_zeros
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.synthesizers.gan_training import GeneratorLessons, WassersteinTrainer

ONEWAYS, GRADIENTS = "one-way marginals", "gradients of the critic"

_BATCH_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class DPWGAN:
    """Random numbers become rows by a network; a second one, the critic, says what is wrong with them.

    Attributes:
        oneway_share: part of the budget for one-way marginals, which give the number of rows and where to start.
        steps: most steps of the critic. Fewer are made where their noise would pass `noise`.
        noise: most noise in a step: its norm, as a share of the norm that a row's gradient is clipped to.
        units: most hidden units of the critic; no more than 4 per value of any column are used.
        hidden: most hidden units of the generator; no more than 8 per value of any column are used.
        latent: random numbers that a row is made of.
        critic_rate: learning rate of the critic, whose weights lie between -1 and 1.
        generator_rate: learning rate of the generator.
        generator_steps: steps of the generator per step of the critic.
        keep_margins: hold the generator's columns to the one-way marginals while it learns, and at the end.
    """

    oneway_share: float = 0.2
    steps: int = 250
    noise: float = 0.5
    units: int = 64
    hidden: int = 256
    latent: int = 32
    critic_rate: float = 0.1
    generator_rate: float = 1e-3
    generator_steps: int = 3
    keep_margins: bool = True

    name: ClassVar[str] = "dp-wgan"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="DP-WGAN",
        paper="Arjovsky, Chintala, Bottou: Wasserstein GAN (ICML 2017) with noisy gradients, as in UCLA's entry to the "
        "NIST challenge of 2018",
        good_for="comparison with networks; ahead of independent columns, behind the good marginal methods",
        corrected="no amplification by sampling is claimed (the public program shuffles and is accounted as if it "
        "drew every row by itself); one clip over all layers, in exact whole numbers; exact unseeded noise; number of "
        "rows, delta and values no longer taken from the table; a number of steps that no private loss decides",
    )

    def __post_init__(self) -> None:
        check_shares(self.oneway_share)
        check_positive(noise=self.noise, critic_rate=self.critic_rate, generator_rate=self.generator_rate)
        for name in ("steps", "units", "hidden", "latent", "generator_steps"):
            if getattr(self, name) < 1:
                raise SchemaError(f"dp-wgan: {name} is {getattr(self, name)}; it must be at least 1.")

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho = float(budget.rho)
        margins = rho * self.oneway_share
        note = f"noisy sums of the rows' clipped gradients, at most {self.steps} times"
        return [
            PlannedStep(ONEWAYS, "gaussian", len(domain), margins, "counts of every column"),
            PlannedStep(GRADIENTS, "gaussian", -1, rho - margins, note),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        progress("measuring every column", 0.02)
        total, margins = columns_alone(door, self.oneway_share)
        cells, batches = sum(door.domain.sizes), math.ceil(max(total, 1.0) / _BATCH_ROWS)
        generator = Generator.start(margins, self.latent, min(self.hidden, 8 * cells), rng)
        lessons = GeneratorLessons(generator, margins, self.generator_rate, rng, pull=self.keep_margins)
        units = min(self.units, 4 * cells)
        steps = self._steps(door, total, (cells + 2) * units)
        trainer = WassersteinTrainer(
            lessons,
            self.generator_steps,
            max(1.0, total / batches),
            units=units,
            rate=self.critic_rate,
            rng=rng,
            progress=training_progress(progress, steps),
        )
        door.release_rows(CriticSums(trainer, steps, batches), step=GRADIENTS)
        if self.keep_margins:
            generator.calibrate(margins, rng)
        return NetworkModel(door.domain, total, generator)

    def _steps(self, door: GuardedTable, total: float, parameters: int) -> int:
        """As many steps as leave the noise of each below the limit, were all rows' gradients of the clipped norm."""
        once = door.stddev_for(door.remaining) * math.sqrt(parameters) / max(1.0, total)
        return max(1, min(self.steps, math.floor((self.noise / once) ** 2)))


def columns_alone(door: GuardedTable, share: float) -> tuple[float, list[np.ndarray]]:
    """The noisy number of rows and the noisy margin of every column, for that share of what is left."""
    singles = [(name,) for name in door.domain.names]
    stddevs = [door.stddev_for(rho) for rho in allocate(door.domain.sizes, door.remaining * share)]
    model = fit(door.domain, door.measure(singles, stddevs, step=ONEWAYS), zeros=model_zeros(door.schema))
    return model.total, model.marginals(singles)


def training_progress(progress: Progress, steps: int) -> Callable[[], None]:
    """Something to call after each of these steps of training."""
    done = count(1)
    return lambda: progress("training", 0.05 + 0.85 * next(done) / steps)
