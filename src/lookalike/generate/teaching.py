"""How a generator follows whoever judges its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lookalike.generate.network import Generator, RmsProp

BATCH, PULL, LEAST = 512, 0.3, 1e-4
"""Rows per step; how strongly each step draws margins back; the smallest probability that this tells apart."""


class GeneratorLessons:
    """Steps of a generator against a judge of drawn rows.

    Args:
        generator: trained in place.
        margins: the released margins of its columns.
        rate: learning rate.
        rng: random numbers.
        pull: whether every step is drawn back to the margins.
    """

    def __init__(
        self,
        generator: Generator,
        margins: Sequence[np.ndarray],
        rate: float,
        rng: np.random.Generator,
        *,
        pull: bool = True,
    ) -> None:
        self.generator, self._margins, self._pull, self._rng = generator, margins, pull, rng
        self._steps = RmsProp(generator.weights, rate)

    def made(self, rows: int) -> np.ndarray:
        """Codes of generated rows."""
        return self.generator.sample(rows, self._rng)

    def step(self, slopes: Callable[[np.ndarray], np.ndarray]) -> None:
        """The judge's slopes at drawn rows move the probabilities that they were drawn from (straight through).

        `slopes` says for rows of codes how much better each value of each column would be judged.
        """
        made = self.generator.forward(self.generator.noise(BATCH, self._rng))
        better = slopes(self.generator.draw(made.probabilities, self._rng))
        self._steps.step(self.generator.gradients(made, -better))
        if self._pull:
            self.generator.pull(made.probabilities.mean(axis=0), self._margins, PULL, LEAST)
