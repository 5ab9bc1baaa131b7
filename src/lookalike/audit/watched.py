"""A door that also computes how much each of its noisy answers says about which of two known tables is behind it.

An auditor who knows both tables knows the distribution of every answer under each of them, and so the exact
log-likelihood ratio. By the lemma of Neyman and Pearson no statistic of the answers distinguishes the tables better.
Charges, noise and answers are those of the real door; nothing is added to what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from lookalike.measurements import CellTable
from lookalike.privacy.kernel.accounting import Accountant
from lookalike.privacy.kernel.door import Groups, GuardedTable, Measured, Numbers
from lookalike.privacy.kernel.requests import RowRelease, Score
from lookalike.privacy.row_level.critic_sums import CriticSums
from lookalike.privacy.row_level.teacher_votes import Teachers, TeacherVotes
from lookalike.schema.domain import ColumnSet, Domain


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring tables of codes, both made up."""

    domain: Domain
    without: np.ndarray
    with_person: np.ndarray
    _counts: dict[ColumnSet, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        return self.without, self.with_person

    def counts(self, clique: ColumnSet) -> tuple[np.ndarray, np.ndarray]:
        """Return the exact counts of a marginal in both tables."""
        if clique not in self._counts:
            places, shape = [self.domain.position(name) for name in clique], self.domain.shape(clique)
            flat = [
                np.ravel_multi_index(codes[:, places].T, shape) if clique else codes[:, 0] * 0 for codes in self.tables
            ]
            one, two = (np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) for cells in flat)
            self._counts[clique] = one, two
        return self._counts[clique]

    def recoded(self, maps: Mapping[str, np.ndarray], domain: Domain) -> Pair:
        """Return the tables with columns recoded by public maps."""
        columns = [maps.get(name) for name in self.domain.names]
        one, two = (
            np.column_stack([codes[:, i] if m is None else m[codes[:, i]] for i, m in enumerate(columns)])
            for codes in self.tables
        )
        return Pair(domain, one, two)


def gaussian_log_ratio(answer: np.ndarray, means: Sequence[np.ndarray], stddev: float) -> np.ndarray:
    """Return log(density with the person / density without) of each noisy number.

    Rounding to whole numbers is left out: a statistic need not be exact to be valid, only chosen beforehand.
    """
    without, with_person = means
    return (answer - (without + with_person) / 2) * (with_person - without) / stddev**2


class WatchedTable(GuardedTable):
    """The real door to one of the two tables; `log_ratios` has an array per request, with a number per answer.

    Requests that are not watched (thresholds, parts, seeded rows) are answered as always, and say nothing here.
    """

    def __init__(self, door: GuardedTable, pair: Pair, log_ratios: list[np.ndarray] | None = None) -> None:
        settings = (door._neighbours, door._insecure_rng, door._recorder, door.known)
        super().__init__(door._opened, door._accountant, *settings)
        self._pair = pair
        self.log_ratios: list[np.ndarray] = [] if log_ratios is None else log_ratios

    def measure(
        self, cliques: Sequence[ColumnSet], stddev: float | Sequence[float], *, step: str, groups: Groups = None
    ) -> Measured:
        answers = super().measure(cliques, stddev, step=step, groups=groups)
        self._note([self._of_counts(answer.values, answer) for answer in answers])
        return answers

    def measure_contrasts(self, tables: Sequence[CellTable], stddevs: Sequence[float], *, step: str) -> Measured:
        answers = super().measure_contrasts(tables, stddevs, step=step)
        ratios: list[float] = []
        for table, answer in zip(tables, answers, strict=True):
            means = [table.contrasts.of(table.sums(counts)) for counts in self._pair.counts(table.attrs)]
            ratios.append(float(gaussian_log_ratio(answer.values, means, answer.stddev).sum()))
        self._note(ratios)
        return answers

    def noisy_scores(self, score: Score, stddev: float, *, step: str) -> np.ndarray:
        values = super().noisy_scores(score, stddev, step=step)
        self._note(gaussian_log_ratio(values, self._scores(score), stddev))
        return values

    def choose(
        self, score: Score, epsilon: float, *, step: str, weights: Numbers = None, offsets: Numbers = None
    ) -> int:
        chosen = super().choose(score, epsilon, step=step, weights=weights, offsets=offsets)
        weight = np.ones(1) if weights is None else np.asarray(weights, dtype=float)
        sensitivity = float(np.abs(weight).max() * score.sensitivity * self._neighbours.rows)
        without, with_person = (
            weight * (exact - (0.0 if offsets is None else np.asarray(offsets))) * epsilon / (2 * sensitivity)
            for exact in self._scores(score)
        )
        self._note([_log_softmax(with_person)[chosen] - _log_softmax(without)[chosen]])
        return chosen

    def release_rows(self, request: RowRelease, *, step: str) -> Any:
        if isinstance(request, CriticSums) and request.batches == 1:
            request = replace(request, trainer=_WatchedCritic(request.trainer, self._pair, self.log_ratios))
        elif isinstance(request, TeacherVotes) and request.teachers == 1 and request.parts <= 1:
            request = replace(request, trainer=_WatchedStudent(request, self._pair, self.log_ratios))
        priced = _Priced(request)
        released = super().release_rows(cast(Any, priced), step=step)
        trainer = getattr(request, "trainer", None)
        if isinstance(trainer, _WatchedCritic | _WatchedStudent):
            trainer.finish(priced.stddev)
        return released

    def coarsened(self, maps: Mapping[str, np.ndarray]) -> GuardedTable:
        coarse = super().coarsened(maps)
        return WatchedTable(coarse, self._pair.recoded(maps, coarse.domain), self.log_ratios)

    def _with(self, source: Any, accountant: Accountant, *rest: Any) -> GuardedTable:
        made = super()._with(source, accountant, *rest)
        return WatchedTable(made, self._pair, self.log_ratios) if source is self._source else made

    def _of_counts(self, values: np.ndarray, answer: Any) -> float:
        means = self._pair.counts(answer.attrs)
        if answer.groups is not None:
            size = int(answer.groups.max()) + 1
            means = [np.bincount(answer.groups.ravel(), weights=counts.ravel(), minlength=size) for counts in means]
        return float(gaussian_log_ratio(values, means, answer.stddev).sum())

    def _scores(self, score: Score) -> list[np.ndarray]:
        both = [self._pair.counts(self.domain.canonical(clique)) for clique in score.cliques]
        return [score.evaluate([counts[side] for counts in both]) / score.resolution for side in (0, 1)]

    def _note(self, ratios: Sequence[float] | np.ndarray) -> None:
        self.log_ratios.append(np.asarray(ratios, dtype=float))


def _log_softmax(rates: np.ndarray) -> np.ndarray:
    shifted = rates - rates.max()
    return shifted - np.log(np.exp(shifted).sum())


class _Priced:
    """A request that remembers the noise it was priced with."""

    def __init__(self, request: RowRelease) -> None:
        self._request, self.stddev = request, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def priced(self, *given: Any) -> RowRelease:
        made = self._request.priced(*given)
        self.stddev = float(getattr(made, "stddev", 0.0))
        return made


class _WatchedCritic:
    """Passes noisy sums of gradients on to the trainer, and compares them with the exact sums of both tables."""

    def __init__(self, trainer: Any, pair: Pair, log_ratios: list[np.ndarray]) -> None:
        self._trainer, self._pair, self._log = trainer, pair, log_ratios
        self._products: list[float] = []
        self._asked: tuple[Any, int] | None = None
        self._means: list[np.ndarray] = []

    def critic(self) -> Any:
        asked = self._trainer.critic()
        if self._asked is None or asked[0] is not self._asked[0] or asked[1] != self._asked[1]:
            self._asked = asked
            self._means = [asked[0].clipped_sums(codes, asked[1]) for codes in self._pair.tables]
        return asked

    def learn(self, sums: np.ndarray) -> None:
        norm = float(self._asked[1]) if self._asked else 1.0
        self._products.append(float(gaussian_log_ratio(sums, self._means, norm).sum()))
        self._trainer.learn(sums)

    def finish(self, stddev: float) -> None:
        """Note the ratios, now that the noise is known: `stddev` norms."""
        self._log.append(np.array(self._products) / stddev**2)


class _WatchedStudent:
    """Passes noisy votes on to the student, and compares them with the votes of a teacher of either table."""

    def __init__(self, request: TeacherVotes, pair: Pair, log_ratios: list[np.ndarray]) -> None:
        self._trainer, self._log, self._products = request.trainer, log_ratios, list[np.ndarray]()
        weights = (request.inputs, request.outputs, request.rate)
        self._teachers = [
            Teachers(pair.domain.sizes, codes, np.zeros(len(codes), dtype=np.int64), 1, *weights)
            for codes in pair.tables
        ]

    def shown(self) -> np.ndarray:
        rows = self._trainer.shown()
        for teacher in self._teachers:
            teacher.train(rows)
        return rows

    def asked(self) -> np.ndarray:
        self._asked = self._trainer.asked()
        return self._asked

    def learn(self, votes: np.ndarray) -> None:
        means = [teacher.votes(self._asked) for teacher in self._teachers]
        self._products.append(gaussian_log_ratio(votes, means, 1.0))
        self._trainer.learn(votes)

    def finish(self, stddev: float) -> None:
        """Note the ratios, now that the noise is known."""
        self._log.append(np.concatenate(self._products) / stddev**2)
