"""A neural network that turns random numbers into rows: one hidden layer, and a softmax per column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

import numpy as np

from lookalike.schema.domain import Domain, counted, first_places
from lookalike.stored import Stored

Weights = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""From random numbers to hidden units, their bias, from hidden units to values, and the values' bias."""

SAMPLE_ROWS = 50_000
"""Rows of the sample for marginals; a cell of probability p has the standard deviation sqrt(p / 5e4)."""

_MAX_WEIGHT = 1e6
_MIN_PROBABILITY = 1e-7
_BLOCK_ROWS = 1 << 13
_BLOCK_CELLS = 1 << 26


class Pass(NamedTuple):
    """One evaluation of the network: its random numbers, hidden units, and probabilities of all columns."""

    noise: np.ndarray
    hidden: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Generator:
    """P(column a | noise z) = softmax over a's values of (max(0, z W + b) V + c).

    A row draws z and then every column independently, so the columns depend on each other through z alone.

    Attributes:
        sizes: number of values of each column.
        weights: W, b, V and c, float32. Training changes them in place.
    """

    sizes: tuple[int, ...]
    weights: Weights

    def __post_init__(self) -> None:
        first, bias, second, values = self.weights
        if first.shape[1:] != bias.shape or second.shape != (*bias.shape, sum(self.sizes)):
            raise ValueError(f"weights of shapes {[w.shape for w in self.weights]} for {sum(self.sizes)} values")
        if values.shape != (sum(self.sizes),):
            raise ValueError(f"a bias of shape {values.shape} for {sum(self.sizes)} values")

    @classmethod
    def start(
        cls, margins: Sequence[np.ndarray], latent: int, hidden: int, rng: np.random.Generator, spread: float = 0.3
    ) -> Generator:
        """Return a network whose columns have about these distributions and are almost independent."""
        sizes = tuple(len(margin) for margin in margins)
        drawn = (
            rng.standard_normal((latent, hidden)) / np.sqrt(latent),
            rng.standard_normal(hidden) / 10,
            rng.standard_normal((hidden, sum(sizes))) * (spread / np.sqrt(hidden)),
            np.log(_side_by_side(margins, _MIN_PROBABILITY)),
        )
        first, bias, second, values = (part.astype(np.float32) for part in drawn)
        return cls(sizes, (first, bias, second, values))

    def noise(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        return rng.standard_normal((rows, self.weights[0].shape[0]), dtype=np.float32)

    def forward(self, noise: np.ndarray) -> Pass:
        first, bias, second, values = self.weights
        hidden = np.maximum(noise @ first + bias, 0)
        return Pass(noise, hidden, self._softmax(hidden @ second + values))

    def gradients(self, made: Pass, slopes: np.ndarray) -> Weights:
        """Return the gradient in the weights of the sum over rows of <slopes, probabilities>, for constant slopes."""
        weighted = made.probabilities * slopes
        means = np.add.reduceat(weighted, first_places(self.sizes), axis=1)[:, self._column()]
        logits = weighted - made.probabilities * means
        hidden = (logits @ self.weights[2].T) * (made.hidden > 0)
        return made.noise.T @ hidden, hidden.sum(axis=0), made.hidden.T @ logits, logits.sum(axis=0)

    def draw(self, probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return codes of one row per row of probabilities, every column drawn independently."""
        codes = np.empty((len(probabilities), len(self.sizes)), dtype=np.int32, order="F")
        for j, (start, size) in enumerate(zip(first_places(self.sizes), self.sizes, strict=True)):
            ends = np.cumsum(probabilities[:, start : start + size], axis=1)
            chosen = rng.random(len(codes), dtype=np.float32) * ends[:, -1]
            codes[:, j] = np.minimum((ends <= chosen[:, None]).sum(axis=1), size - 1)
        return codes

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return codes of `rows` independent rows."""
        codes = np.empty((rows, len(self.sizes)), dtype=np.int32, order="F")
        block = max(1, min(_BLOCK_ROWS, _BLOCK_CELLS // max(*self.weights[0].shape, sum(self.sizes))))
        for start in range(0, rows, block):
            count = min(block, rows - start)
            codes[start : start + count] = self.draw(self.forward(self.noise(count, rng)).probabilities, rng)
        return codes

    def pull(self, means: np.ndarray, margins: Sequence[np.ndarray], strength: float, least: float) -> None:
        """Change the bias of the values, in place, so that mean probabilities move towards `margins`.

        Args:
            means: mean probabilities of all values over some noise.
            margins: the wanted probabilities.
            strength: factor of the change of the log-probabilities.
            least: smaller probabilities are replaced by this.
        """
        wanted = _side_by_side(margins, least)
        self.weights[3][:] += strength * np.log(wanted / np.maximum(means, least)).astype(np.float32)

    def calibrate(self, margins: Sequence[np.ndarray], rng: np.random.Generator, rounds: int = 40) -> None:
        """Change the bias of the values, in place, until the columns have these margins over 8192 rows of noise."""
        unbiased = self.forward(self.noise(_BLOCK_ROWS, rng)).hidden @ self.weights[2]
        for _ in range(rounds):
            self.pull(self._softmax(unbiased + self.weights[3]).mean(axis=0), margins, 0.9, _MIN_PROBABILITY)

    def _softmax(self, logits: np.ndarray) -> np.ndarray:
        """Softmax over the values of every column, in place."""
        starts, column = first_places(self.sizes), self._column()
        logits -= np.maximum.reduceat(logits, starts, axis=1)[:, column]
        np.exp(logits, out=logits)
        logits /= np.add.reduceat(logits, starts, axis=1)[:, column]
        return logits

    def _column(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    """Rows made by a network from random numbers.

    Attributes:
        domain: names and sizes of the columns.
        total: estimated number of rows of the private table.
        generator: the network.
    """

    kind: ClassVar[str] = "network"

    domain: Domain
    total: float
    generator: Generator
    _counted: list[np.ndarray] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.generator.sizes != self.domain.sizes:
            raise ValueError(f"a network for columns of {self.generator.sizes} values, not {self.domain.sizes}")

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Return codes of `rows` independent rows."""
        return self.generator.sample(rows, rng)

    def marginal(self, attrs: Iterable[str]) -> np.ndarray:
        """Return expected counts, from a sample of a fixed seed that is made on first use."""
        if not self._counted:
            self._counted.append(self.sample(SAMPLE_ROWS, np.random.default_rng(0)))
        return counted(self.domain, self._counted[0], attrs) * (self.total / SAMPLE_ROWS)

    def marginals(self, cliques: Sequence[Iterable[str]], /) -> list[np.ndarray]:
        return [self.marginal(clique) for clique in cliques]

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        domain, weights = stored.domain(), stored.part("generator").entries("weights")
        first, bias, second, values = (
            weights.weights(str(i), axes, _MAX_WEIGHT) for i, axes in enumerate((2, 1, 2, 1))
        )
        return cls(domain, stored.total(), Generator(domain.sizes, (first, bias, second, values)))


class RmsProp:
    """Gradient steps in which each weight's gradient is divided by its running root mean square (RMSProp).

    Weights change in place. `memory` is the decay rate of the running mean, which is corrected for its start at 0.
    """

    def __init__(self, weights: Sequence[np.ndarray], rate: float, memory: float = 0.99) -> None:
        self._weights, self._rate, self._memory = weights, rate, memory
        self._squares = [np.zeros_like(part) for part in weights]
        self._known = 0.0

    def step(self, gradients: Sequence[np.ndarray]) -> None:
        self._known = self._memory * self._known + 1 - self._memory
        for weight, gradient, square in zip(self._weights, gradients, self._squares, strict=True):
            square *= self._memory
            square += (1 - self._memory) * np.square(gradient)
            weight -= (self._rate * gradient / (np.sqrt(square / self._known) + 1e-12)).astype(weight.dtype)


def _side_by_side(margins: Sequence[np.ndarray], least: float) -> np.ndarray:
    return np.maximum(np.concatenate([margin / margin.sum() for margin in margins]), least)
