"""Spies on what reaches the noise and the exponential mechanism, and the privacy loss that follows from it.

A `Tape` stands in for the package's three sources of randomness. A first run on one table records what the noise was
added to, at which scale, and what came out. Runs on neighbouring tables are then given the same answers, whatever they
hold. So all of them take the same path, unless something but the noisy answers tells the tables apart, and the change
of what the noise was added to is the change that the noise had to hide: `losses` adds it up, in rho, for every pair.
Nothing here knows what a method is meant to cost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np

from lookalike.privacy.kernel import mechanisms
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.row_level import seeded_rows as geometric

RELATIONS = [(relation, rows) for relation in ("add-remove", "replace") for rows in (1, 2, 5)]


class Violation(BaseException):
    """Something was released that the charges do not pay for. No `Exception`, which the door would hide."""


@dataclass
class Draw:
    """One act of randomness.

    Attributes:
        step: what the run was doing, where it says so in `Tape.step`.
        kind: "gaussian", "geometric" or "choice".
        scale: stddev or scale of the noise; for a choice its epsilon.
        charged: what the ledger said at the time.
        private: whether the system's entropy would have been used.
        sensitivity: of a choice, as it was passed.
        exact: what the noise was added to; the scores of a choice.
        answer: what came out.
    """

    step: str
    kind: str
    scale: float
    shape: tuple[int, ...]
    charged: Fraction
    private: bool
    sensitivity: Fraction = Fraction(1)
    exact: np.ndarray | None = None
    answer: Any = None

    @property
    def public(self) -> tuple[Any, ...]:
        """What must be the same for all neighbours."""
        return self.kind, self.scale, self.shape, self.sensitivity


@dataclass
class Tape:
    """A record of all randomness of a run.

    Attributes:
        answers: a tape whose answers are given again; without one, noise is drawn from `rng`.
        shift: a constant to be used as noise instead.
        ledger: where charges are looked up.
        step: name of what the run is doing, for messages.
        result: what the run returned.
    """

    answers: Tape | None = None
    shift: int | None = None
    ledger: Ledger | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    draws: list[Draw] = field(default_factory=list)
    step: str = ""
    result: Any = None
    _lines: int = 0
    _rho: Fraction = Fraction(0)

    @property
    def charged(self) -> Fraction:
        """What the newest lines of the ledger add to what was seen of it before."""
        entries = self.ledger.entries() if self.ledger is not None else []
        self._rho += sum((Fraction(e["rho"]) for e in entries[self._lines :] if e["kind"] == "charge"), Fraction(0))
        self._lines = len(entries)
        return self._rho

    def gaussian(self, stddev: float, size: Any, *, insecure_rng: Any = None) -> Noise:
        return self._noise("gaussian", stddev, size, insecure_rng)

    def geometric(self, scale: float, size: Any, *, insecure_rng: Any = None) -> Noise:
        return self._noise("geometric", scale, size, insecure_rng)

    def choose(self, scores: Any, epsilon: float, sensitivity: Any, *, insecure_rng: Any = None) -> int:
        """A candidate, by exact scores."""
        exact = scores.fractions()
        public = (float(epsilon), (len(exact),), self.charged, insecure_rng is None, Fraction(sensitivity))
        draw = Draw(self.step, "choice", *public, exact=np.array(exact, dtype=object))
        earlier = self._next(draw)
        rates = np.array([float((score - max(exact)) / draw.sensitivity) for score in exact]) * epsilon / 2
        drawn = int(self.rng.choice(len(exact), p=np.exp(rates) / np.exp(rates).sum()))
        draw.answer = drawn if earlier is None else earlier.answer
        return draw.answer

    def _noise(self, kind: str, scale: float, size: Any, insecure_rng: Any) -> Noise:
        shape = tuple(size) if isinstance(size, Sequence) else (int(size),)
        draw = Draw(self.step, kind, float(scale), shape, self.charged, insecure_rng is None)
        return Noise.of(self, draw, self._next(draw))

    def _next(self, draw: Draw) -> Draw | None:
        self.draws.append(draw)
        if self.answers is None:
            return None
        if len(self.draws) > len(self.answers.draws):
            raise Violation("there are more draws on a neighbouring table, given the same answers")
        earlier = self.answers.draws[len(self.draws) - 1]
        if earlier.public != draw.public:
            raise Violation(f"noise depends on the table: {earlier.public} and {draw.public}")
        return earlier

    def added(self, draw: Draw, earlier: Draw | None, exact: Any) -> np.ndarray:
        """The noisy answer, when the noise of that draw is added to something."""
        if draw.exact is not None:
            raise Violation("the same noise is added twice")
        draw.exact = np.array(exact)
        if draw.exact.shape != draw.shape:
            raise Violation(f"noise of shape {draw.shape} is added to {draw.exact.shape} numbers")
        if not np.array_equal(draw.exact, np.rint(draw.exact)):
            raise Violation("whole noise is added to fractions, which it does not hide")
        if earlier is not None:
            draw.answer = earlier.answer
        elif self.shift is not None:
            draw.answer = draw.exact + self.shift
        elif draw.kind == "gaussian":
            draw.answer = draw.exact + np.rint(self.rng.normal(0, draw.scale, draw.shape)).astype(np.int64)
        else:
            share = -np.expm1(-1 / draw.scale)
            signed = self.rng.geometric(share, draw.shape) - self.rng.geometric(share, draw.shape)
            draw.answer = draw.exact + signed
        return draw.answer.copy()


class Noise(np.ndarray):
    """Stands for noise. It may be added, as a whole and once, to whole numbers; nothing else may be done with it."""

    link: Any = None

    @classmethod
    def of(cls, tape: Tape, draw: Draw, earlier: Draw | None) -> Noise:
        made = np.zeros(draw.shape, dtype=np.int64).view(cls)
        made.link = (tape, draw, earlier)
        return made

    def __array_finalize__(self, other: Any) -> None:
        # A cast or a reshaped view is still all of the noise; a part of it is not.
        if isinstance(other, Noise) and other.size == self.size and other.shape == self.shape:
            self.link = other.link

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **_: Any) -> Any:
        others = [given for given in inputs if not isinstance(given, Noise)]
        if ufunc is not np.add or method != "__call__" or len(others) != 1:
            raise Violation(f"noise is changed by {ufunc.__name__} before it is added")
        if self.link is None:
            raise Violation("only a part of the noise is used")
        tape, draw, earlier = self.link
        result = tape.added(draw, earlier, others[0])
        if out is None:
            return result
        np.copyto(out[0].view(np.ndarray), result, casting="same_kind")
        return out[0].view(np.ndarray)


_ORIGINALS = {
    "gaussian": mechanisms.rounded_gaussian,
    "geometric": geometric.two_sided_geometric,
    "choose": mechanisms.exponential_mechanism,
}


@contextmanager
def listening(tape: Tape) -> Iterator[Tape]:
    """The tape in place of all noise and choices, wherever a module of the package has them by name."""
    replaced: list[tuple[Any, str, Any]] = []
    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "lookalike"]
    try:
        for module in modules:
            for name, value in list(vars(module).items()):
                for kind, original in _ORIGINALS.items():
                    if value is original:
                        replaced.append((module, name, value))
                        setattr(module, name, getattr(tape, kind))
        yield tape
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)
    if any(draw.exact is None for draw in tape.draws):
        raise Violation("noise was drawn and never added")
    if tape.answers is not None and len(tape.draws) != len(tape.answers.draws):
        raise Violation("there are fewer draws on a neighbouring table, given the same answers")


# Privacy loss.


def loss(tapes: Sequence[Tape], place: int, relation: str) -> np.ndarray:
    """rho of one draw for all pairs of neighbours among runs with the same answers.

    The first tape is of a table without a person, the others are of that table with a person's rows. Gaussian noise:
    |change|^2 / (2 stddev^2). Geometric: (|change|_1 / scale)^2 / 2. A choice: the width of the interval of its
    log-ratios, squared, over 8; besides, no score may change by more than the sensitivity that was passed.
    """
    draw = tapes[0].draws[place]
    if draw.kind == "choice" and (move := largest_move(tapes, place, relation)) > 1:
        raise Violation(f"{draw.step}: a score moves by {float(move):.12g} times the sensitivity that was passed")
    exact = np.array([np.ravel(tape.draws[place].exact - tapes[0].draws[place].exact) for tape in tapes], dtype=float)
    change = exact[1:] - (exact[:1] if relation == "add-remove" else exact[1:, None])
    if draw.kind == "gaussian":
        return (change**2).sum(axis=-1) / (2 * draw.scale**2)
    if draw.kind == "geometric":
        return (np.abs(change).sum(axis=-1) / draw.scale) ** 2 / 2
    rates = change * draw.scale / (2 * float(draw.sensitivity))
    return (rates.max(axis=-1) - rates.min(axis=-1)) ** 2 / 8


def largest_move(tapes: Sequence[Tape], place: int, relation: str) -> Fraction:
    """The largest change of any score of a choice between neighbours, in units of the sensitivity that was passed."""
    exact = np.array([tape.draws[place].exact for tape in tapes])
    if relation == "add-remove":
        return np.abs(exact[1:] - exact[0]).max() / tapes[0].draws[place].sensitivity
    return (exact[1:].max(axis=0) - exact[1:].min(axis=0)).max() / tapes[0].draws[place].sensitivity


def check_paid(tapes: Sequence[Tape], relation: str = "add-remove") -> dict[str, float]:
    """The share of its charges that each step uses up for some pair of neighbours; a Violation where it is too much.

    All draws between two charges are the first one's to pay for, so that a charge that is missing, late or meant for
    something else shows.
    """
    for tape in tapes[1:]:
        if not same(tape.result, tapes[0].result):
            raise Violation("results differ on neighbouring tables, given the same answers")
    draws, shares = tapes[0].draws, dict[str, float]()
    if not draws:
        raise Violation("nothing was drawn")
    start, before = 0, Fraction(0)
    while start < len(draws):
        paid, step = draws[start].charged, draws[start].step
        stop = next((i for i in range(start, len(draws)) if draws[i].charged != paid), len(draws))
        worst = float(np.max(sum(loss(tapes, place, relation) for place in range(start, stop))))
        price = float(paid - before)
        if worst > price * (1 + 1e-9):
            raise Violation(f"{step}: neighbours differ by rho {worst:.6g} where {price:.6g} was charged")
        shares[step] = min(worst / price, shares.get(step, 1.0))
        start, before = stop, paid
    return shares


def share_used(tapes: Sequence[Tape], relation: str = "add-remove") -> float:
    """The share of all charges together that some pair of neighbours uses up."""
    everything = sum(loss(tapes, place, relation) for place in range(len(tapes[0].draws)))
    return float(np.max(everything)) / float(tapes[0].charged)


def plain_scores(scores: Any) -> mechanisms.WeightedScores:
    """Scores without weights and offsets: integers, or floats that are taken as exact."""
    numbers = np.asarray(scores)
    numbers = numbers if numbers.dtype.kind in "iu" else numbers.astype(np.float64)
    return mechanisms.WeightedScores(numbers, np.ones(numbers.shape), np.zeros(numbers.shape))


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal to the last bit."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def neighbouring(
    run: Callable[[np.ndarray, Tape], Any], base: np.ndarray, persons: Sequence[np.ndarray], seed: int = 0
) -> list[Tape]:
    """Tapes of `run` on the base table, and, with the same answers, on that table with each person's rows after it."""
    tapes: list[Tape] = []
    for rows in (base[:0], *persons):
        tape = Tape(answers=tapes[0] if tapes else None, rng=np.random.default_rng(seed))
        with listening(tape):
            tape.result = run(np.vstack([base, rows]).astype(np.int32), tape)
        tapes.append(tape)
    return tapes


def persons(cells: Sequence[tuple[int, ...]], rows: int) -> list[np.ndarray]:
    """All persons of up to two rows; of more rows those with all in one cell, or about half in another."""
    if rows <= 2:
        found = list(combinations_with_replacement(cells, rows))
    else:
        pairs = [(*(a,) * (rows // 2), *(b,) * (rows - rows // 2)) for a, b in combinations(cells, 2)]
        found = [*((cell,) * rows for cell in cells), *pairs]
    return [np.array(own, dtype=np.int32).reshape(rows, -1) for own in found]
