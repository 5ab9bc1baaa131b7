"""Private search for rules between columns, inside the run's own budget, once all columns are known.

Candidates come from public facts (`candidates.py`). Each is tested by counting the rows that break it, with noise: one
row is one unit of one count, so that m candidates at noise sigma cost m / (2 sigma^2), whatever the rows hold. The
search has four rounds, each with a fixed share of what is set aside, and every decision is made on noisy numbers:

1. the number of rows, which limits the number of candidates: noise must stay small beside the rows;
2. a screening of all candidates; then of time zones, and of pairs of columns that may determine a third;
3. tables of counts from which determined values are read;
4. the rules that are left, exactly as they will be enforced, on the values of the rows: first the rows that break any
   of most of them, which is one count with little noise; if that is not small, each rule separately.

A rule counts as found if, up to noise, hardly any row breaks it. Columns that it computes from others are marked
`derived` and not modelled. Relations that stay uncertain are not made rules, and are modelled like all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np

from lookalike.discovery import candidates, tables
from lookalike.discovery.choosing import BROKEN, SURE, Family, Likely, chosen_rules, holds, limits
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import Undetermined
from lookalike.schema.binned import Datetime
from lookalike.schema.columns import Column
from lookalike.schema.constraints import AtLeast, ClockSum, Constraint, Determines, Never, Parts, Sum
from lookalike.schema.probes import Comparison, HourLate, RowProbe, RuleProbe, ValueAndMissing
from lookalike.schema.schema import Schema

STEP = "discover: rules"
NOTE = "rows that break candidates for rules between columns"
SHARE = 0.03
"""Largest part of a run's budget for the search; most tables need less."""
_ROWS, _SCREENING, _SECOND, _TABLES = 0.05, 0.3, 0.2, 0.25
"""Shares of the rounds; the last has what they leave."""
_TOGETHER = 0.3
"""Share of the last round for all rules together."""
_MAX_QUESTIONS, _MIN_QUESTIONS = 150, 3
_SCREENED = 0.05
"""Noise of the screening, at most, as a part of the number of rows; candidates beyond that are left out. Also the part
of rows that may break a candidate, noise apart."""
_LIKELY_PAIR = 0.9
"""A pair of columns may determine a third of which the better one alone leaves open at most this part."""


@dataclass(frozen=True, slots=True)
class FoundRule:
    """A rule with the estimated share of rows that break it, and the noise on that."""

    rule: Constraint
    broken: float
    stddev: float


@dataclass(frozen=True, slots=True)
class FoundRules:
    """The schema with the rules that were found, and a list of these rules."""

    schema: Schema
    rules: tuple[FoundRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _Question:
    """A probe, or a family of columns for the score of determined columns, and what its noisy answer makes likely."""

    asked: RowProbe | Family
    read: Callable[[np.ndarray, float], Iterable[Likely]]


def find_rules(door: GuardedTable, rho: float, rows: float | None = None) -> FoundRules:
    """The schema of a door, with the rules that its rows keep; all that the search asks costs at most rho.

    `rows` is a noisy number of rows, where it is known already.
    """
    return _Search(door, rho).run(rows)


class _Search:
    """One search: the schema, the noisy number of rows, and what the screening tells about determined columns.

    Attributes:
        shaped: the schema with noisy counts of columns that are known already, from which candidates are chosen.
        fine: the schema with a bin for every value that may be determined, where several share a bin.
        open: for every target, by source, the noisy number of rows that the best rule leaves open; the source () is
            the most frequent value alone.
        determined: (source, target) where the screening lets little open, to be asked again with less noise.
        late: for times in UTC, the hours by which a column of hours is ahead: its name, and the noisy counts of those
            that stand out from the noise.
    """

    def __init__(self, door: GuardedTable, rho: float) -> None:
        self.door, self.rho, self.schema = door, rho, door.schema
        self.shaped = candidates.with_shapes(self.schema, door.known)
        self.fine = candidates.with_value_bins(self.schema)
        self.fine_door = door if self.fine == self.schema else door.encoded(self.fine)
        self.comparable = dict.fromkeys(candidates.comparable(self.shaped))
        self.rows, self.left = 0.0, rho
        self.open: dict[str, dict[tuple[str, ...], float]] = {}
        self.determined: list[Family] = []
        self.late: dict[str, tuple[str, np.ndarray]] = {}

    def run(self, rows: float | None) -> FoundRules:
        if rows is None:
            rows = float(self.door.measure([()], self._stddev(self.rho * _ROWS, 1), step=STEP)[0].values)
        self.rows = max(rows, 1.0)
        likely = self._asked(self._first_questions(), _SCREENING)
        likely += self._asked(self._second_questions(), _SECOND)
        chosen = chosen_rules(self.schema, likely)
        return self._confirmed([*chosen, *self._tabulated(chosen)])

    # Questions and their answers.

    def _stddev(self, rho: float, questions: int) -> float:
        """The noise at which this number of questions costs rho in all; rho is taken from what is left."""
        self.left -= rho
        return self.door.stddev_for(rho, questions)

    def _limit(self, share: float) -> int:
        """How many questions a round may ask, so that its noise stays small beside the rows."""
        allowed = 2.0 * self.rho * share * (_SCREENED * self.rows) ** 2 / self._price()
        return 0 if allowed < _MIN_QUESTIONS else min(int(allowed), _MAX_QUESTIONS)

    def _price(self) -> float:
        """What one question costs at noise of one row, in units of that of a single row."""
        return 2.0 * self.rho * self.door.stddev_for(self.rho) ** 2

    def _asked(self, questions: Iterable[_Question], share: float) -> list[Likely]:
        """What the noisy answers to the first questions make likely."""
        asked = list(islice(questions, self._limit(share)))
        if not asked:
            return []
        answers = self._answers([question.asked for question in asked], self._stddev(self.rho * share, len(asked)))
        return list(
            chain.from_iterable(question.read(*answer) for question, answer in zip(asked, answers, strict=True))
        )

    def _answers(self, asked: Sequence[RowProbe | Family], stddev: float) -> list[tuple[np.ndarray, float]]:
        """Noisy counts of the probes' classes and noisy scores of the families, each with its noise."""
        probes = {i: replace(probe, name=f"q{i}") for i, probe in enumerate(asked) if isinstance(probe, RowProbe)}
        families = {i: family for i, family in enumerate(asked) if not isinstance(family, RowProbe)}
        found: dict[int, tuple[np.ndarray, float]] = {}
        if probes:
            view = self.door.encoded(Schema(tuple(probes.values())))
            counts = view.measure([(probe.name,) for probe in probes.values()], stddev, step=STEP)
            found = dict(zip(probes, ((answer.values, stddev) for answer in counts), strict=True))
        if families:
            cliques = tuple(self.fine.domain.canonical((*sources, target)) for sources, target in families.values())
            score = Undetermined(cliques, tuple(target for _, target in families.values()))
            noise = self.door.score_stddev_for(score, self._cost(stddev, len(families)))
            scores = self.fine_door.noisy_scores(score, noise, step=STEP)
            found |= dict(zip(families, ((np.array([value]), noise) for value in scores), strict=True))
        return [found[i] for i in range(len(asked))]

    def _cost(self, stddev: float, questions: int) -> float:
        """What this number of questions costs at this noise, a little less so that rounding stays within a share."""
        return questions * self._price() / (2.0 * stddev**2) * (1 - 1e-9)

    def _part(self, *names: str) -> tuple[Column, ...]:
        return tuple(self.schema[name] for name in names)

    def _likely(self, rule: Constraint, derived: tuple[str, ...] = (), among: float | None = None) -> _Question:
        """A question about one rule: whether few enough of the rows that could break it do."""
        scale = self._complete(rule.columns) if among is None else among

        def read(counts: np.ndarray, stddev: float) -> list[Likely]:
            broken, enough = float(counts[1]), scale > 4 * SURE * stddev
            few = broken <= _SCREENED * scale + SURE * stddev
            return [Likely(rule, derived, scale, broken)] if enough and few else []

        return _Question(_rule_probe(self.schema, [Likely(rule, derived, 1.0, 0.0)]), read)

    def _complete(self, names: Iterable[str]) -> float:
        """At most how many rows have a value in all of some columns, by noisy counts that are known already."""
        known = {m.attrs[0]: m.values for m in self.door.known}
        held = (known[name][: self.schema[name].regular].sum() for name in names if name in known)
        return min(self.rows, *(float(rows) for rows in held), self.rows)

    def _first_questions(self) -> Iterator[_Question]:
        """The screening: groups of candidates in turn, so that a small number of questions has some of each."""
        schema, compared = self.schema, self.comparable
        parts, hours = self._part_candidates()
        lacking = (pair for pair in candidates.missing_pairs(schema) if pair not in compared)
        return _in_turn(
            chain(hours, (self._likely(rule) for rule in parts)),
            (self._likely(rule, (rule.total,)) for rule in candidates.written_together(self.shaped)),
            (self._likely(rule, (rule.total,)) for rule in candidates.sums(self.shaped)),
            (self._likely(rule, (rule.total,)) for rule in candidates.clock_sums(self.shaped)),
            self._determined(candidates.determined_pairs(schema, self.fine, self.rows)),
            (self._comparison(*pair) for pair in compared),
            (self._comparison(*pair) for pair in lacking),
            (self._value_missing(*pair) for pair in candidates.value_and_missing(schema)),
        )

    def _part_candidates(self) -> tuple[list[Parts], list[_Question]]:
        """Parts to be tested at once, and questions about hours of times in UTC, which may be those of a zone."""
        parts = candidates.parts_of_times(self.shaped)
        utc = {rule.time for rule in parts if candidates.is_utc(_time(self.schema, rule))}
        hours = [rule for rule in parts if rule.time in utc and rule.parts[0][0] == "hour"]
        open_zones = {rule.time for rule in hours}
        return [rule for rule in parts if rule.time not in open_zones], [self._hours(rule) for rule in hours]

    def _hours(self, rule: Parts) -> _Question:
        def read(counts: np.ndarray, stddev: float) -> list[Likely]:
            known, before = np.where(counts[:-1] > 1.5 * SURE * stddev, counts[:-1], 0.0), self.late.get(rule.time)
            if before is None or known.max() > before[1].max():
                self.late[rule.time] = rule.parts[0][1], known
            return []

        return _Question(HourLate("", schema=Schema(self._part(rule.time, rule.parts[0][1]))), read)

    def _determined(self, families: Sequence[Family]) -> Iterator[_Question]:
        """Questions about columns that others determine, each target first with nothing to determine it."""
        alone = [((), target) for target in dict.fromkeys(target for _, target in families)]
        return (self._family(sources, target) for sources, target in (*alone, *families))

    def _family(self, sources: tuple[str, ...], target: str) -> _Question:
        def read(value: np.ndarray, stddev: float) -> list[Likely]:
            left = self.open.setdefault(target, {})
            again = sources in left or len(sources) > 1
            left[sources], free = float(value[0]), left.get((), 0.0)
            if not again and sources and left[sources] <= _SCREENED * free + SURE * stddev < free / 4:
                self.determined.append((sources, target))
            if not again or not holds(left[sources], free, stddev, *BROKEN):
                return []
            coarse = 2 * self.fine[target].regular < max(self.schema[name].regular for name in sources)
            source = sources[0] if len(sources) == 1 else sources
            return [Likely(Determines(source, target, ()), () if coarse else (target,), free, left[sources])]

        return _Question((sources, target), read)

    def _comparison(self, one: str, two: str) -> _Question:
        first, second = self.schema[one], self.schema[two]
        ordered = (one, two) in self.comparable

        def read(counts: np.ndarray, stddev: float) -> list[Likely]:
            both, lost, gone, less, _, more = counts.tolist()
            found: list[Likely] = []
            few = _SCREENED * self.rows + SURE * stddev
            if ordered and max(less, more) <= few and lost + gone <= few:
                found.append(Likely(Sum(two, (one,)), (two,), self.rows, less + more))
            elif ordered and min(less, more) <= SURE * stddev:
                larger, smaller = (two, one) if more < less else (one, two)
                found.append(Likely(AtLeast(larger, smaller), (), self.rows, min(less, more)))
            if both > 4 * SURE * stddev:
                for names, count in (((one, two), lost), ((two, one), gone)):
                    if count <= BROKEN[0] * both + SURE * stddev:
                        words = f"`{names[0]}` is missing and `{names[1]}` is not missing"
                        found.append(Likely(Never(words), (), both, count))
            return found

        return _Question(Comparison("", schema=Schema((first, second))), read)

    def _value_missing(self, one: str, two: str) -> _Question:
        column = self.schema[one]

        def read(counts: np.ndarray, stddev: float) -> list[Likely]:
            there, gone = counts.reshape(-1, 2).T
            found: list[Likely] = []
            for code, text in enumerate(tables.texts_of_codes(column)[: column.regular]):
                others = max(gone.sum() - gone[code], 0.0), max(there.sum() - there[code], 0.0)
                tells = others[1] > 0.25 * sum(others) and gone[code] > 4 * SURE * stddev
                if tells and there[code] <= _SCREENED * gone[code] + SURE * stddev:
                    words = f"`{one}` = `{text}` and `{two}` is not missing"
                    found.append(Likely(Never(words), (), float(gone[code]), float(there[code])))
            return found

        return _Question(ValueAndMissing("", schema=Schema(self._part(one, two))), read)

    # What the screening leaves to be asked.

    def _second_questions(self) -> Iterator[_Question]:
        families = [*self.determined, *self._pairs_of_sources()]
        pairs = (self._family(sources, target) for sources, target in families)
        return _in_turn((self._likely(rule) for rule in self._zoned_parts()), pairs)

    def _zoned_parts(self) -> list[Parts]:
        """Parts of times in UTC, in the zone that explains the hours best."""
        found: list[Parts] = []
        for rule in candidates.parts_of_times(self.shaped):
            if rule.time in self.late:
                zone = candidates.best_zone(_time(self.schema, rule), self.late[rule.time][1], self.rows)
                found += [] if zone is None else [replace(rule, zone=zone)]
        return found

    def _pairs_of_sources(self) -> list[Family]:
        """For targets that one column determines in part, this column with every other."""
        found: list[Family] = []
        names = {column.name: column for column in candidates.listed(self.schema)}
        for target, left in self._partly_known().items():
            best = min(left, key=lambda sources: left[sources])
            for other in names:
                sources = self.schema.domain.canonical((*best, other))
                sizes = [names[name].written_codes for name in sources]
                fits = math.prod(sizes) * self.fine[target].written_codes <= candidates.MAX_CELLS
                enough = math.prod(sizes) >= self.fine[target].regular and 2 * self.fine[target].regular >= max(sizes)
                few = math.prod(sizes) <= min(self.rows / 50, tables.MAX_ENTRIES)
                if other not in (*best, target) and fits and enough and few:
                    found.append((sources, target))
        return found

    def _partly_known(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Targets of which a single column leaves open some part, but not most, of what is open without it."""
        partly: dict[str, dict[tuple[str, ...], float]] = {}
        for target, left in self.open.items():
            if () not in left:
                continue
            free, single = left[()], {k: v for k, v in left.items() if len(k) == 1}
            known = any(one == target for _, one in self.determined)
            if single and not known and min(single.values()) <= _LIKELY_PAIR * free:
                partly[target] = single
        return partly

    def _tabulated(self, chosen: Sequence[Likely]) -> list[Likely]:
        """Determined columns with the values that noisy counts give, in place of the empty tables of the screening."""
        empty = [likely for likely in chosen if isinstance(likely.rule, Determines)]
        if not empty:
            return []
        stddev = self._stddev(self.rho * _TABLES, len(empty))
        cliques = [likely.rule.columns for likely in empty]
        counted = self.fine_door.measure(cliques, stddev, step=STEP)
        return [
            replace(likely, rule=tables.filled(self.fine, likely.rule, answer, stddev))
            for likely, answer in zip(empty, counted, strict=True)
            if isinstance(likely.rule, Determines)
        ]

    def _confirmed(self, likely: Sequence[Likely]) -> FoundRules:
        """The schema with the rules that hold, counted as they will be enforced."""
        exact = [found for found in likely if isinstance(found.rule, Parts | Sum | ClockSum)]
        held = self._held_together(exact) if len(exact) > 1 else []
        known = [found for found, _, _ in held]
        empty = [found for found in likely if isinstance(found.rule, Determines) and not found.rule.table]
        unsure = [found for found in likely if found not in known and found not in empty]
        if unsure:
            stddev = self._stddev(self.left * (1 - 1e-9), len(unsure))
            counts = self._answers([_rule_probe(self.schema, [found]) for found in unsure], stddev)
            pairs = zip(unsure, (float(count[1]) for count, _ in counts), strict=True)
            held += [(f, broken, stddev) for f, broken in pairs if holds(broken, f.among, stddev, *limits(f.rule))]
        derived = {name for found, _, _ in held for name in found.derived}
        columns = tuple(replace(c, derived=True) if c.name in derived else c for c in self.schema.columns)
        rules = tuple(
            FoundRule(replace(found.rule, provenance="measured"), max(broken, 0.0) / self.rows, stddev / self.rows)
            for found, broken, stddev in held
        )
        return FoundRules(Schema(columns, (*self.schema.constraints, *(found.rule for found in rules))), rules)

    def _held_together(self, likely: Sequence[Likely]) -> list[tuple[Likely, float, float]]:
        """All rules, if so few rows break any of them that each rule must hold; else none."""
        stddev = self._stddev(self.left * _TOGETHER, 1)
        broken = float(self._answers([_rule_probe(self.schema, likely)], stddev)[0][0][1])
        kept = all(holds(broken, found.among, stddev, *limits(found.rule)) for found in likely)
        return [(found, broken, stddev) for found in likely] if kept else []


def _in_turn(*groups: Iterable[_Question]) -> Iterator[_Question]:
    """The first of every group, then the second of every group, and so on, made when they are asked for."""
    waiting = [iter(group) for group in groups]
    while waiting:
        for group in list(waiting):
            question = next(group, None)
            if question is None:
                waiting.remove(group)
            else:
                yield question


def _rule_probe(schema: Schema, likely: Sequence[Likely]) -> RuleProbe:
    """The probe that tells which rows break one of the rules, with only their own columns."""
    names = {name for found in likely for name in found.rule.columns or tables.names_in(found.rule, schema)}
    derived = {name for found in likely for name in found.derived}
    columns = tuple(
        replace(column, derived=column.name in derived) for column in schema.columns if column.name in names
    )
    return RuleProbe("", schema=Schema(columns, tuple(found.rule for found in likely)))


def _time(schema: Schema, rule: Parts) -> Datetime:
    column = schema[rule.time]
    if not isinstance(column, Datetime):
        raise RuntimeError(f"{rule.time!r} is not a time")
    return column
