"""The one door to the data: `open_table` makes it, and every later use of private rows is one of its methods.

Each method takes the same four steps in the same order, marked in its body:
  1. check the request against the public domain;
  2. price it from its own parameters (never from data);
  3. charge it: the ledger is on disk before anything is read;
  4. read exact counts, add noise, return.
A crash after step 3 loses budget, never privacy. Any fault in step 4 becomes one constant error without its cause,
after all that is left of the budget was charged (`reading`), and warnings are dropped: no row decides what is shown.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError, OutOfDomainError, RunStoppedError, SchemaError, SourceError
from lookalike.measurements import CellTable, NoisyMarginal
from lookalike.privacy.kernel import accounting as prices
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Accountant, Book, Budget, Charge, Neighbours
from lookalike.privacy.kernel.mechanisms import WeightedScores, exponential_mechanism, largest_weight, rounded_gaussian
from lookalike.privacy.kernel.requests import Recorder, Rng, RowRelease, RowSplit, Score, row_source
from lookalike.privacy.kernel.thresholds import passing, threshold, threshold_price
from lookalike.schema.columns import Identifier
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.sources.base import check_cliques, recoded_domain
from lookalike.sources.frames import TableForm
from lookalike.sources.open import OpenedTable, ReadTable, read

Answer = TypeVar("Answer")

Groups = Sequence[np.ndarray | None] | None
Measured = list[NoisyMarginal]
Numbers = Sequence[float] | np.ndarray | None


class GuardedTable:
    """The only holder of a private table. Whatever it returns is noisy, paid for and in the ledger.

    `insecure_rng` replaces system entropy by a reproducible stream for benchmarks; its outputs are NOT PRIVATE. A
    `recorder` receives each noisy marginal and score after it was drawn.
    """

    def __init__(
        self,
        opened: OpenedTable,
        accountant: Accountant,
        neighbours: Neighbours,
        insecure_rng: Rng = None,
        recorder: Recorder | None = None,
        known: Sequence[NoisyMarginal] = (),
    ) -> None:
        self._opened, self._source, self.close = opened, opened.source, opened.close
        self._accountant, self._neighbours = accountant, neighbours
        self._insecure_rng, self._recorder = insecure_rng, recorder
        self.known = tuple(known)  # noisy counts of columns that were released before, as by discovery

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
        """Return the smallest noise with which `releases` marginals, or contrasts of the table, cost at most rho."""
        square = self._neighbours.squared_contrasts(table.contrasts) if table else self._neighbours.squared_l2
        return prices.stddev_for(Fraction(rho) / square, 1, releases)

    def score_stddev_for(self, score: Score, rho: float) -> float:
        """Return the smallest noise with which releasing all numbers of `score` costs at most rho."""
        return prices.stddev_for(rho, score.sensitivity * self._neighbours.rows, len(score.cliques))

    # Releases.

    def measure(
        self, cliques: Sequence[ColumnSet], stddev: float | Sequence[float], *, step: str, groups: Groups = None
    ) -> Measured:
        """Return noisy counts of marginals, or of groups of their cells; number i costs squared_l2 / (2 stddev_i^2)."""
        cliques = self._checked(cliques)  # 1. check
        stddevs = [float(s) for s in np.broadcast_to(np.asarray(stddev, dtype=float), len(cliques))]
        grouped = [None] * len(cliques) if groups is None else groups
        rho = self._neighbours.squared_l2 * sum((prices.gaussian_rho(1, s) for s in stddevs), Fraction(0))  # 2. price
        detail = f"stddev {min(stddevs):.6g} to {max(stddevs):.6g}"
        entry = self._charge(step, "gaussian", len(cliques), rho, detail)  # 3. charge

        def read() -> Measured:
            parts = zip(cliques, grouped, self._source.counts(cliques), stddevs, strict=True)
            return [noisy_counts(*part, entry, self._insecure_rng) for part in parts]

        return self._recorded(self._read(read, entry, cliques, stddevs, grouped))  # 4. read

    def measure_contrasts(self, tables: Sequence[CellTable], stddevs: Sequence[float], *, step: str) -> Measured:
        """Return noisy contrasts of the tables of counts: see `contrasts_rho` and `noisy_contrasts`."""
        cliques = checked_tables(self.domain, tables)  # 1. check
        rho = contrasts_rho(tables, stddevs, self._neighbours)  # 2. price
        detail = f"contrasts, stddev {min(stddevs):.6g} to {max(stddevs):.6g}"
        entry = self._charge(step, "gaussian", len(cliques), rho, detail)  # 3. charge

        def read() -> Measured:
            parts = zip(tables, self._source.counts(cliques), stddevs, strict=True)
            return [noisy_contrasts(*part, entry, self._insecure_rng) for part in parts]

        return self._recorded(self._read(read, entry, tables, stddevs))  # 4. read

    def noisy_scores(self, score: Score, stddev: float, *, step: str) -> NDArray[np.float64]:
        """Return all numbers of a score, each with Gaussian noise.

        One person changes each of m numbers by at most s = sensitivity * rows, so all cost rho = m s^2 / (2 stddev^2).
        """
        cliques = self._checked(score.cliques)  # 1. check
        rho = len(cliques) * prices.gaussian_rho(score.sensitivity * self._neighbours.rows, stddev)  # 2. price
        detail = f"{type(score).__name__}, stddev {stddev:.6g}"
        entry = self._charge(step, "gaussian", len(cliques), rho, detail)  # 3. charge

        def read() -> NDArray[np.float64]:
            exact = score.evaluate(self._source.counts(cliques))
            noise = rounded_gaussian(Fraction(stddev) * score.resolution, exact.shape, insecure_rng=self._insecure_rng)
            return (exact + noise) / score.resolution

        values = self._read(read, entry, score, stddev)  # 4. read
        if self._recorder is not None:
            self._recorder.scored(score, values, stddev)
        return values

    def choose(
        self, score: Score, epsilon: float, *, step: str, weights: Numbers = None, offsets: Numbers = None
    ) -> int:
        """Return an index drawn by the exponential mechanism on weight_i * (score_i - offset_i), for rho epsilon^2/8.

        One person moves a weighted score by at most max|weight| * sensitivity * rows, in exact arithmetic throughout.
        """
        cliques = self._checked(score.cliques)  # 1. check
        weight = np.ones(len(cliques)) if weights is None else np.asarray(weights, dtype=float)
        offset = np.zeros(len(cliques)) if offsets is None else np.asarray(offsets, dtype=float)
        sensitivity = largest_weight(weight, offset) * score.sensitivity * self._neighbours.rows
        rho = prices.exponential_rho(epsilon)  # 2. price
        detail = f"{type(score).__name__}, epsilon {epsilon:.6g}, {len(weight)} candidates"
        entry = self._charge(step, "exponential", 1, rho, detail)  # 3. charge

        def read() -> int:
            exact = WeightedScores(score.evaluate(self._source.counts(cliques)), weight, offset, score.resolution)
            return exponential_mechanism(exact, epsilon, sensitivity, insecure_rng=self._insecure_rng)

        return self._read(read, entry, score, epsilon, weight, offset)  # 4. read

    def frequent(self, names: Sequence[str], stddev: float, probability: float, *, step: str) -> list[dict[str, float]]:
        """Return for each column the values whose noisy counts pass a threshold, most frequent first, with the counts.

        Values of one person only pass with at most `probability`: `thresholds.py` says what delta that costs, and why.
        """
        limit = threshold(stddev, probability / len(names), self._neighbours, self._opened.least_count)  # 1. check
        rho = self._neighbours.squared_l2 * len(names) * prices.gaussian_rho(1, stddev)  # 2. price
        delta, detail = threshold_price(probability, self.budget.epsilon), f"stddev {stddev:.6g}, threshold {limit:.6g}"
        entry = self._charge(step, "threshold", len(names), rho, detail, delta)  # 3. charge

        def read() -> list[dict[str, float]]:
            counted = [self._opened.value_counts(name) for name in names]
            noise = [rounded_gaussian(stddev, counts.shape, insecure_rng=self._insecure_rng) for _, counts in counted]
            return [passing(texts, counts + z, limit) for (texts, counts), z in zip(counted, noise, strict=True)]

        return self._read(read, entry, tuple(names), stddev, probability)  # 4. read

    def release_rows(self, request: RowRelease, *, step: str) -> Any:
        """Return the release of a request that reads single rows; it costs the whole remaining budget."""
        source = row_source(self._source)  # 1. check
        priced = request.priced(self.domain, self.budget, self._accountant.spent, self._neighbours)  # 2. price
        self._accountant.charge_rest(step, priced.mechanism, priced.releases, priced.detail)  # 3. charge
        return self._read(lambda: priced.release(source.codes, self.domain, self._insecure_rng))  # 4. read

    def parts(self, split: RowSplit, *, step: str) -> list[GuardedTable]:
        """Return disjoint random parts of the rows, each with its own budget; together they cost all of this one."""
        source = row_source(self._source)  # 1. check
        each = split.budget_of_part(self.budget, self._neighbours)  # 2. price
        accountants = self._accountant.split(each, split.parts, step)  # 3. charge

        def read() -> list[Any]:
            part = split.part_of_rows(len(source.codes), self._insecure_rng)
            return [source.taken(part == j) for j in range(split.parts)]

        return [self._with(taken, accountant) for taken, accountant in zip(self._read(read), accountants, strict=True)]

    # Other views of the same rows behind the same accountant: nothing is released, so nothing is charged.

    def coarsened(self, maps: Mapping[str, np.ndarray]) -> GuardedTable:
        """Return the table with columns recoded by public maps from old code to new code."""
        recoded_domain(self.domain, maps)
        recorder = self._recorder.coarsened(self.domain, maps) if self._recorder else None
        return self._with(self._read(lambda: self._source.recoded(maps)), self._accountant, recorder)

    def encoded(self, schema: Schema, known: Sequence[NoisyMarginal] = ()) -> GuardedTable:
        """Return the table encoded by another public schema, with noisy counts that are known of its columns."""
        opened = self._read(lambda: self._opened.encoded(schema))
        return GuardedTable(opened, self._accountant, self._neighbours, self._insecure_rng, known=known)

    def recorded_by(self, recorder: Recorder) -> GuardedTable:
        """Return the table with a recorder, which receives everything that is released from now on."""
        return self._with(self._source, self._accountant, recorder, self.known)

    def _with(self, source: Any, accountant: Accountant, *rest: Any) -> GuardedTable:
        opened = replace(self._opened, source=source)
        return GuardedTable(opened, accountant, self._neighbours, self._insecure_rng, *rest)

    def _checked(self, cliques: Sequence[ColumnSet]) -> list[ColumnSet]:
        """Return the column sets in domain order; unknown columns and too many cells are refused, uncharged."""
        canonical = [self.domain.canonical(clique) for clique in cliques]
        check_cliques(self.domain, canonical)
        return canonical

    def _charge(self, step: str, kind: str, releases: int, rho: Fraction, detail: str, delta: float = 0.0) -> int:
        return self._accountant.charge(Charge(step, kind, releases, rho, detail, delta))

    def _read(self, read: Callable[[], Answer], *asked: Any) -> Answer:
        if asked:  # the entry of a charge and all that was asked for it
            return self._accountant.answer((*asked, self.domain), lambda: reading(self._accountant, read))
        return reading(self._accountant, read)

    def _recorded(self, measured: Measured) -> Measured:
        if self._recorder is not None:
            self._recorder.measured(measured)
        return measured

    def __repr__(self) -> str:
        return f"GuardedTable({len(self.domain)} columns, rho {self.remaining:.6g} left)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A guarded table cannot be pickled or copied: it would carry private rows past the door.")


def noisy_counts(
    clique: ColumnSet,
    groups: np.ndarray | None,
    counts: np.ndarray,
    stddev: float,
    ledger_entry: int,
    insecure_rng: Rng,
) -> NoisyMarginal:
    """Return counts, or sums of groups of them, plus Gaussian noise rounded to integers.

    Counts are integers, so round(count + z) = count + round(z): post-processing of the Gaussian mechanism, whose exact
    privacy curve therefore holds.
    """
    if groups is not None:
        counts = np.bincount(groups.ravel(), weights=counts.ravel(), minlength=int(groups.max()) + 1)
    noise = rounded_gaussian(stddev, counts.shape, insecure_rng=insecure_rng)
    return NoisyMarginal(clique, (counts + noise).astype(np.float64), stddev, groups, ledger_entry)


def checked_tables(domain: Domain, tables: Sequence[CellTable]) -> list[ColumnSet]:
    """Return the tables' column sets; refuse, uncharged, a table that does not fit the domain or has no contrasts."""
    cliques = [table.attrs for table in tables]
    check_cliques(domain, cliques)
    for table in tables:
        cells = table.shape if table.groups is None else table.groups.shape
        places = range(1) if table.groups is None else (table.groups.min(), table.groups.max())
        if cells != domain.shape(table.attrs) or min(places) < 0 or max(places) >= table.contrasts.cells:
            raise SchemaError(f"The table of {table.attrs} has shape {cells} or groups beyond it, unlike the domain.")
        if table.contrasts.dimensions < 1:
            raise SchemaError(f"A table of shape {table.shape} of {table.attrs} has no contrasts to be measured.")
    return cliques


def contrasts_rho(tables: Sequence[CellTable], stddevs: Sequence[float], neighbours: Neighbours) -> Fraction:
    """Return what `noisy_contrasts` of all tables cost: the sum of squared_contrasts / (2 stddev^2).

    Computed for the numbers that get the noise: the contrasts times the number of cells, in exact arithmetic.
    """
    rho = Fraction(0)
    for table, stddev in zip(tables, stddevs, strict=True):
        squared = neighbours.squared_contrasts(table.contrasts) * table.contrasts.cells**2
        rho += squared * prices.gaussian_rho(1, Fraction(stddev) * table.contrasts.cells)
    return rho


def noisy_contrasts(
    table: CellTable, counts: np.ndarray, stddev: float, ledger_entry: int, insecure_rng: Rng
) -> NoisyMarginal:
    """Return contrasts of the table (`measurements.py`) with Gaussian noise of `stddev` on every cell.

    The contrasts times the number of cells are integers, so noise of that many times the stddev can be rounded to
    integers, which is post-processing of the Gaussian mechanism. What the noise adds outside of the contrasts does
    not depend on the table; it is removed, and so is the factor.
    """
    exact = table.contrasts.scaled(table.sums(counts))
    noise = rounded_gaussian(Fraction(stddev) * exact.size, exact.shape, insecure_rng=insecure_rng)
    values = table.contrasts.of((exact + noise) / exact.size)
    return NoisyMarginal(table.attrs, values, stddev, table.groups, ledger_entry, table.shape)


def open_table(
    where: Any,
    schema: Schema | None,
    budget: Budget,
    book: Book,
    *,
    neighbours: Neighbours,
    insecure_rng: Rng = None,
    keep_rows: bool = False,
    **reader: Any,
) -> GuardedTable:
    """Read and encode the table, and return the only object that may answer questions about it.

    A file that is not a table is refused uncharged, and so is a schema that does not fit its names and types. Both
    follow from public structure: of a CSV file only the header can be refused. From then on nothing depends on a value,
    unless the schema says `outside: error`: a value outside it then stops the run, with an error that names the column
    and not the value, after the whole budget is charged. With `keep_rows`, the rows can be encoded again even if the
    schema is complete. `reader` are settings of `sources.open.read`.
    """
    book.check_noise(secret=insecure_rng is None)
    accountant = Accountant(budget, book)
    table = reading(accountant, lambda: read(where, **reader), InputError)
    bound = table.bound(schema)
    opened = reading(accountant, lambda: with_capped_persons(table, bound).encoded(bound, keep=keep_rows))
    return GuardedTable(opened, accountant, neighbours, insecure_rng)


# How private rows are read: a single row must not decide whether a run ends, or with which message.

_PANIC = "PanicException"
"""Libraries in Rust, such as polars, raise this on a fault: it is not an `Exception`, but its text may hold a value."""


def reading(accountant: Accountant, read: Callable[[], Answer], *refused: type[Exception]) -> Answer:
    """Return what `read` returns, or raise the constant error of a stopped run.

    Lack of memory is reported as such, at the same price. A fault that no row can cause (`SourceError`: a connection
    that was lost) is reported as it is and costs nothing further. A value outside a schema that asks for errors
    (`outside: error`) is reported by column and rule. No noise hides which value that was, so such a run counts as one
    without a guarantee. What is not an `Exception`, such as a user's interrupt, is raised as it is, except a panic of a
    library.

    Args:
        accountant: pays for a run that stops.
        read: reads private rows.
        refused: errors for a file that is not a table; they are raised as they are and cost nothing.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return read()
    except BaseException as error:  # what a row caused must not show
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        passed = (SourceError, *refused)
        charged, shown = not isinstance(error, passed), _shown(error, passed)
    # Raised after the handler has ended: else the exception would carry the one that caused it.
    mechanism = NO_GUARANTEE if isinstance(shown, OutOfDomainError) else "stopped"
    if charged and (accountant.remaining > 0 or mechanism == NO_GUARANTEE):
        accountant.charge_rest("stopped", mechanism, 0, "the run stopped while it read private rows")
    raise shown


def _shown(error: BaseException, passed: tuple[type[Exception], ...]) -> Exception:
    """The exception to raise, without traceback, cause or context, whose frames hold private rows."""
    if isinstance(error, MemoryError):
        return MemoryError()
    if isinstance(error, OutOfDomainError):
        error.args = (f"{error} The ledger counts this run as infinite epsilon, since no noise hides why it stopped.",)
    elif not isinstance(error, passed):
        return RunStoppedError()
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def with_capped_persons(table: ReadTable, schema: Schema) -> ReadTable:
    """Return the table with no more rows of a person than the schema's person column allows.

    This makes the bound on one person's rows, by which `accounting.py` prices releases, true of the table. A schema has
    one person column at most. The engine that holds the rows keeps those that `kept_rows` chooses, or chooses alike.
    """
    for column in schema.columns:
        if isinstance(column, Identifier) and column.person:
            return table.capped(column, kept_rows)
    return table


def kept_rows(persons: np.ndarray, max_rows: int) -> np.ndarray:
    """Return the places of at most `max_rows` rows of each person, chosen at random, independent of the rows of others.

    Args:
        persons: the number of the person of every row.
        max_rows: how many rows of each are kept.
    """
    order = np.lexsort((np.random.default_rng(secrets.randbits(128)).random(len(persons)), persons))
    ordered = persons[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ranks = np.arange(len(persons)) - np.repeat(starts, np.diff(np.append(starts, len(persons))))
    return np.sort(order[ranks < max_rows])
