"""The one door to the data. Every access to private rows in this package is a method of `GuardedTable` below.

Each method takes the same four steps in the same order:
  1. check the request against the public domain;
  2. compute its price from its own parameters (never from data);
  3. charge it: the ledger is on disk before anything is read;
  4. read exact counts, add noise, return.
A crash after step 3 loses budget, never privacy. Whatever goes wrong in step 4 is one constant error, which takes the
rest of the budget: see `reading.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from lookalike.errors import InputError
from lookalike.privacy import budget as prices
from lookalike.privacy.accountant import Accountant
from lookalike.privacy.budget import Budget
from lookalike.privacy.choice import WeightedScores, exponential_mechanism, largest_weight
from lookalike.privacy.counting import checked_tables, contrasts_rho, noisy_contrasts, noisy_counts
from lookalike.privacy.ledger import Charge, Run
from lookalike.privacy.neighbours import Neighbours
from lookalike.privacy.noise import rounded_gaussian
from lookalike.privacy.reading import reading
from lookalike.privacy.rows import RowRelease, part_budget, part_of_rows, row_source
from lookalike.privacy.scores import Score
from lookalike.privacy.thresholds import passing, threshold, threshold_price
from lookalike.schema.domain import Clique, Domain
from lookalike.schema.schema import Schema
from lookalike.sources.base import check_cliques, recoded_domain
from lookalike.sources.frames import TableForm
from lookalike.sources.open import OpenedTable, read
from lookalike.tables.contrasts import CellTable
from lookalike.tables.measurement import NoisyMarginal

Answer = TypeVar("Answer")
Rng = Generator | None
Groups = Sequence[np.ndarray | None] | None
Measured = list[NoisyMarginal]
Numbers = Sequence[float] | np.ndarray | None


class GuardedTable:
    """Sole holder of a private table. What comes out is noisy, paid for and in the ledger.

    `insecure_rng` replaces system entropy by a reproducible stream for benchmarks; its outputs are NOT PRIVATE.
    """

    def __init__(self, opened: OpenedTable, accountant: Accountant, neighbours: Neighbours, insecure_rng: Rng = None):
        self._opened, self._source = opened, opened.source
        self._accountant, self._neighbours, self._insecure_rng = accountant, neighbours, insecure_rng

    # Public facts: the coded columns, the schema with the table's own order and storage types, the kind of file.

    @property
    def domain(self) -> Domain:
        return self._source.domain

    @property
    def schema(self) -> Schema:
        return self._opened.schema

    @property
    def form(self) -> TableForm:
        return self._opened.form

    @property
    def budget(self) -> Budget:
        return self._accountant.budget

    @property
    def remaining(self) -> float:
        """Unspent rho, less one part in 1e12, so that shares of it may be added up in floating point."""
        return float(self._accountant.remaining) * (1 - 1e-12)

    def stddev_for(self, rho: float, releases: int = 1, *, table: CellTable | None = None) -> float:
        """Smallest noise with which `releases` marginals, or contrasts of the table, cost at most rho in all."""
        square = self._neighbours.squared_contrasts(table.contrasts) if table else self._neighbours.squared_l2
        return prices.stddev_for(Fraction(rho) / square, 1, releases)

    def score_stddev_for(self, score: Score, rho: float) -> float:
        """Smallest noise with which releasing all numbers of `score` costs at most rho."""
        return prices.stddev_for(rho, score.sensitivity * self._neighbours.rows, len(score.cliques))

    def measure(
        self, cliques: Sequence[Clique], stddev: float | Sequence[float], *, step: str, groups: Groups = None
    ) -> Measured:
        """Noisy counts of the marginals, or of groups of their cells: marginal i costs squared_l2 / (2 stddev_i^2)."""
        cliques = self._checked(cliques)
        stddevs = [float(s) for s in np.broadcast_to(np.asarray(stddev, dtype=float), len(cliques))]
        rho = self._neighbours.squared_l2 * sum((prices.gaussian_rho(1, s) for s in stddevs), Fraction(0))
        entry = self._charge(step, "gaussian", len(cliques), rho, f"stddev {min(stddevs):.6g} to {max(stddevs):.6g}")
        grouped = [None] * len(cliques) if groups is None else groups

        def read() -> Measured:
            parts = zip(cliques, grouped, self._source.counts(cliques), stddevs, strict=True)
            return [noisy_counts(*part, entry, self._insecure_rng) for part in parts]

        return self._read(read)

    def measure_contrasts(self, tables: Sequence[CellTable], stddevs: Sequence[float], *, step: str) -> Measured:
        """Noisy contrasts of the tables of counts: `counting.py` says what they cost, and why."""
        cliques = checked_tables(self.domain, tables)
        rho, noise = contrasts_rho(tables, stddevs, self._neighbours), f"{min(stddevs):.6g} to {max(stddevs):.6g}"
        entry = self._charge(step, "gaussian", len(cliques), rho, f"contrasts, stddev {noise}")

        def read() -> Measured:
            parts = zip(tables, self._source.counts(cliques), stddevs, strict=True)
            return [noisy_contrasts(*part, entry, self._insecure_rng) for part in parts]

        return self._read(read)

    def noisy_scores(self, score: Score, stddev: float, *, step: str) -> NDArray[np.float64]:
        """All numbers of a score, each with Gaussian noise.

        One person changes each of m numbers by at most s = sensitivity * rows, so all cost rho = m s^2 / (2 stddev^2).
        """
        cliques = self._checked(score.cliques)
        rho = len(cliques) * prices.gaussian_rho(score.sensitivity * self._neighbours.rows, stddev)
        self._charge(step, "gaussian", len(cliques), rho, f"{type(score).__name__}, stddev {stddev:.6g}")

        def read() -> NDArray[np.float64]:
            exact = score.evaluate(self._source.counts(cliques))
            noise = rounded_gaussian(Fraction(stddev) * score.resolution, exact.shape, insecure_rng=self._insecure_rng)
            return (exact + noise) / score.resolution

        return self._read(read)

    def choose(
        self, score: Score, epsilon: float, *, step: str, weights: Numbers = None, offsets: Numbers = None
    ) -> int:
        """Index drawn by the exponential mechanism on weight_i * (score_i - offset_i); costs epsilon^2/8 in rho.

        One person moves a weighted score by at most max|weight| * sensitivity * rows, in exact arithmetic throughout.
        """
        cliques = self._checked(score.cliques)
        weight = np.ones(len(cliques)) if weights is None else np.asarray(weights, dtype=float)
        offset = np.zeros(len(cliques)) if offsets is None else np.asarray(offsets, dtype=float)
        sensitivity = largest_weight(weight, offset) * score.sensitivity * self._neighbours.rows
        detail = f"{type(score).__name__}, epsilon {epsilon:.6g}, {len(weight)} candidates"
        self._charge(step, "exponential", 1, prices.exponential_rho(epsilon), detail)

        def read() -> int:
            exact = WeightedScores(score.evaluate(self._source.counts(cliques)), weight, offset, score.resolution)
            return exponential_mechanism(exact, epsilon, sensitivity, insecure_rng=self._insecure_rng)

        return self._read(read)

    def frequent(self, names: Sequence[str], stddev: float, probability: float, *, step: str) -> list[dict[str, float]]:
        """For each column the values whose noisy counts pass a threshold, most frequent first, with those counts.

        Values of one person only pass with at most `probability`: `thresholds.py` says what delta that costs, and why.
        """
        limit = threshold(stddev, probability / len(names), self._neighbours)
        rho = self._neighbours.squared_l2 * len(names) * prices.gaussian_rho(1, stddev)
        price, detail = threshold_price(probability, self.budget.epsilon), f"stddev {stddev:.6g}, threshold {limit:.6g}"
        self._charge(step, "threshold", len(names), rho, detail, price)

        def read() -> list[dict[str, float]]:
            counted = [self._opened.value_counts(name) for name in names]
            noise = [rounded_gaussian(stddev, counts.shape, insecure_rng=self._insecure_rng) for _, counts in counted]
            return [passing(texts, counts + z, limit) for (texts, counts), z in zip(counted, noise, strict=True)]

        return self._read(read)

    def release_rows(self, release: RowRelease, *, step: str) -> Any:
        """What a row-level exception of `rows.py` releases; it prices itself from public numbers and takes the rest."""
        source = row_source(self._source)
        settled = release.settled(self.domain, self.budget, self._accountant.spent, self._neighbours)
        self._accountant.charge_rest(step, settled.mechanism, settled.releases, settled.detail)
        return self._read(lambda: settled.release(source.codes, self.domain, self._insecure_rng))

    def parts(self, shares: Sequence[float], *, step: str) -> list[GuardedTable]:
        """Disjoint random parts of the rows, each with a budget of its own; together they take all of this one's."""
        source = row_source(self._source)
        accountants = self._accountant.split(part_budget(self.budget, shares, self._neighbours), len(shares), step)

        def read() -> list[Any]:
            part = part_of_rows(len(source.codes), shares, self._insecure_rng)
            return [source.taken(part == j) for j in range(len(shares))]

        return [self._with(taken, accountant) for taken, accountant in zip(self._read(read), accountants, strict=True)]

    def coarsened(self, maps: Mapping[str, np.ndarray]) -> GuardedTable:
        """The same table behind the same accountant, with columns recoded by public maps from old code to new code."""
        recoded_domain(self.domain, maps)
        return self._with(self._read(lambda: self._source.recoded(maps)), self._accountant)

    def encoded(self, schema: Schema) -> GuardedTable:
        """The same rows behind the same accountant, encoded by another public schema, such as one of probes."""
        opened = self._read(lambda: self._opened.encoded(schema))
        return GuardedTable(opened, self._accountant, self._neighbours, self._insecure_rng)

    def _with(self, source: Any, accountant: Accountant) -> GuardedTable:
        return GuardedTable(replace(self._opened, source=source), accountant, self._neighbours, self._insecure_rng)

    def _checked(self, cliques: Sequence[Clique]) -> list[Clique]:
        """The cliques in domain order; unknown columns and too many cells are refused before anything is charged."""
        canonical = [self.domain.canonical(clique) for clique in cliques]
        check_cliques(self.domain, canonical)
        return canonical

    def _charge(self, step: str, kind: str, releases: int, rho: Fraction, detail: str, delta: float = 0.0) -> int:
        return self._accountant.charge(Charge(step, kind, releases, rho, detail, delta))

    def _read(self, read: Callable[[], Answer]) -> Answer:
        return reading(self._accountant, read)

    def __repr__(self) -> str:
        return f"GuardedTable({len(self.domain)} columns, rho {self.remaining:.6g} left)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A guarded table cannot be pickled or copied: it would carry private rows past the door.")


def open_table(
    where: Any, schema: Schema | None, budget: Budget, run: Run, *, neighbours: Neighbours, insecure_rng: Rng = None
) -> GuardedTable:
    """Read and encode the table, and hand back the only object that may answer questions about it.

    A file that is no table is refused for nothing, and so is a schema that does not fit its names and types. From then
    on nothing depends on a value but where the schema says `outside: error`: a value outside it then stops the run,
    with an error that names the column and not the value, after the whole budget is charged.
    """
    run.check_noise(secret=insecure_rng is None)
    accountant = Accountant(budget, run)
    table = reading(accountant, lambda: read(where), refused=InputError)
    bound = table.bound(schema)
    opened = reading(accountant, lambda: table.encoded(bound))
    return GuardedTable(opened, accountant, neighbours, insecure_rng)
