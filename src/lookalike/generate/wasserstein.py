"""Training a generator against a critic (Wasserstein GAN, Arjovsky, Chintala, Bottou 2017) from noisy gradient sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lookalike.generate.network import RmsProp
from lookalike.generate.teaching import GeneratorLessons
from lookalike.tables.critic import Critic

SHOWN = 2048
"""Generated rows that the critic is shown per step, at most; no more than real ones where there are over 256."""


class WassersteinTrainer:
    """A critic that tells real from generated rows, and a generator that it teaches.

    Real rows come in only as noisy sums of the critic's clipped gradients; generated rows are clipped in the same way,
    so that clipping favours neither. Norms are clipped at the median of those of generated rows, which is public.

    Args:
        lessons: how the generator learns.
        steps: steps of the generator per step of the critic.
        rows: estimated number of real rows behind every sum.
        units: hidden units of the critic.
        rate: learning rate of the critic, whose weights are kept between -1 and 1.
        rng: random numbers.
        progress: called after every step of the critic.
    """

    def __init__(
        self,
        lessons: GeneratorLessons,
        steps: int,
        rows: float,
        *,
        units: int,
        rate: float,
        rng: np.random.Generator,
        progress: Callable[[], None],
    ) -> None:
        self._lessons, self._steps, self._rows, self._progress = lessons, steps, rows, progress
        inputs = rng.uniform(-1, 1, (sum(lessons.generator.sizes) + 1, units))
        inputs[-1] = 0
        self._weights = (inputs, rng.uniform(-1, 1, units))
        self._critic_steps = RmsProp(self._weights, rate)
        self._show = round(min(SHOWN, max(rows, 256)))
        self._shown, self._norm = lessons.made(1), 1

    def critic(self) -> tuple[Critic, int]:
        """The critic as it is now, in whole numbers, and the norm to clip at."""
        critic = self._critic()
        self._shown = self._lessons.made(self._show)
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
        for _ in range(self._steps):
            self._lessons.step(critic.slopes)
        self._progress()

    def _critic(self) -> Critic:
        return Critic.rounded(self._lessons.generator.sizes, *self._weights)
