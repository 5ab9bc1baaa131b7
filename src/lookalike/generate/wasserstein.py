"""Training a generator against a critic (Wasserstein GAN, Arjovsky, Chintala, Bottou 2017) from noisy gradient sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.generate.network import Generator, RmsProp
from lookalike.tables.critic import Critic


@dataclass(frozen=True, slots=True)
class Training:
    """How the two networks are trained; all of it public.

    Attributes:
        units: hidden units of the critic.
        critic_rate: learning rate of the critic, whose weights lie between -1 and 1.
        generator_rate: learning rate of the generator.
        generator_steps: steps of the generator per step of the critic.
        rows: generated rows that the critic is shown per step.
        batch: generated rows per step of the generator.
        pull: how strongly every step of the generator is drawn back to the released margins; 0 for not at all.
    """

    units: int = 64
    critic_rate: float = 0.1
    generator_rate: float = 1e-3
    generator_steps: int = 3
    rows: int = 2048
    batch: int = 512
    pull: float = 0.3


class WassersteinTrainer:
    """A critic that tells real from generated rows, and a generator that it teaches.

    Real rows come in only as noisy sums of the critic's clipped gradients; generated rows are clipped in the same way,
    so that clipping favours neither. Norms are clipped at the median of those of generated rows, which is public.
    """

    def __init__(
        self,
        generator: Generator,
        margins: Sequence[np.ndarray],
        rows: float,
        training: Training,
        rng: np.random.Generator,
        progress: Callable[[], None],
    ) -> None:
        """`rows` is the estimated number of real rows behind every sum; `progress` is called after every step."""
        self._generator, self._margins, self._rows = generator, margins, rows
        self._training, self._rng, self._progress = training, rng, progress
        inputs = rng.uniform(-1, 1, (sum(generator.sizes) + 1, training.units))
        inputs[-1] = 0
        self._weights = (inputs, rng.uniform(-1, 1, training.units))
        self._critic_steps = RmsProp(self._weights, training.critic_rate)
        self._generator_steps = RmsProp(generator.weights, training.generator_rate)
        self._shown, self._norm = self._made(training.rows), 1

    def critic(self) -> tuple[Critic, int]:
        """The critic as it is now, in whole numbers, and the norm to clip at."""
        critic = self._critic()
        self._shown = self._made(self._training.rows)
        self._norm = max(1, int(np.median(critic.norms(self._shown))))
        return critic, self._norm

    def learn(self, sums: np.ndarray, /) -> None:
        """One step of the critic towards telling the two apart, and some of the generator against that."""
        made = self._critic().clipped_sums(self._shown, self._norm) / len(self._shown)
        falling = made - sums / self._rows
        inputs = self._weights[0]
        self._critic_steps.step((falling[: inputs.size].reshape(inputs.shape), falling[inputs.size :]))
        for part in self._weights:
            np.clip(part, -1, 1, out=part)
        critic = self._critic()
        for _ in range(self._training.generator_steps):
            self._teach(critic)
        self._progress()

    def _teach(self, critic: Critic) -> None:
        """The critic judges drawn rows, and its slopes there move the probabilities they were drawn from."""
        made = self._generator.forward(self._generator.noise(self._training.batch, self._rng))
        slopes = critic.slopes(self._generator.draw(made.probabilities, self._rng))
        self._generator_steps.step(self._generator.gradients(made, -slopes))
        if self._training.pull:
            self._generator.pull(made.probabilities.mean(axis=0), self._margins, self._training.pull, 1e-4)

    def _critic(self) -> Critic:
        return Critic.rounded(self._generator.sizes, *self._weights)

    def _made(self, rows: int) -> np.ndarray:
        return self._generator.sample(rows, self._rng)
