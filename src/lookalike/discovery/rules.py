"""Private search for rules between columns, inside the run's own budget, once all columns are known.

Candidates come from public facts (`candidates.py`). Each is tested by counting the rows that break it, with noise: one
row is one unit of one count, so that m candidates at noise sigma cost m / (2 sigma^2), whatever the rows hold. The
search has four rounds, each with a fixed share of what is set aside, and every decision is made on noisy numbers:

1. the number of rows, which limits the number of candidates: noise must stay small beside the rows;
2. a screening of all candidates; then of time zones, and of pairs of columns that may determine a third;
3. tables of counts from which determined values are read;
4. the rules that are left, each exactly as it will be enforced, on the values of the rows.

A rule is found if, up to noise, hardly a row breaks it. Columns that it computes from others are marked `derived` and
not modelled. What stays unsure is not a rule, and is modelled like everything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from lookalike.discovery import candidates, tables
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import Undetermined
from lookalike.schema.binned import Datetime
from lookalike.schema.columns import Column
from lookalike.schema.constraints import AtLeast, Constraint, Determines, Never, Parts, Sum
from lookalike.schema.parts import in_zone, part_of
from lookalike.schema.row_probes import Comparison, HourLate, RowProbe, RuleProbe, ValueAndMissing
from lookalike.schema.schema import Schema
from lookalike.schema.times import TICKS

STEP = "discover: rules"
NOTE = "rows that break candidates for rules between columns"
SHARE = 0.03
"""Largest part of a run's budget for the search; most tables need less."""
_ROWS, _SCREENING, _SECOND, _TABLES, _CONFIRMING = 0.05, 0.3, 0.2, 0.25, 0.2
"""Shares of the rounds."""
_MAX_QUESTIONS, _MIN_QUESTIONS = 150, 3
_SCREENED = 0.05
"""Noise of the screening, at most, as a part of the number of rows; candidates beyond that are left out. Also the part
of rows that may break a candidate, noise apart."""
_BROKEN, _SURELY = 0.01, 0.05
"""A rule is found if no more than the first part of rows breaks it up to noise, and surely fewer than the second."""
_ORDERED = 0.0, 0.01
"""The same for comparisons, which many rows keep by chance."""
_TABLE = 0.1, 0.15
"""The same for tables of determined values, in which noise hides those of rare rows: that they are determined at all
was asked before."""
_SURE = 2.0
"""Standard deviations of noise up to which something may be noise."""
_LIKELY_PAIR = 0.8
"""A pair of columns may determine a third of which the better one alone leaves open at most this part."""
_COARSE = ("year", "quarter", "month", "day of year", "date", "clock")
"""Parts that follow from a time's bin, or from other parts; the finer ones are modelled and given to the time."""


@dataclass(frozen=True, slots=True)
class FoundRule:
    """A rule with the estimated share of rows that break it, and the noise on that."""

    rule: Constraint
    broken: float
    stddev: float


@dataclass(frozen=True, slots=True)
class FoundRules:
    """The schema with the rules that were found, and these."""

    schema: Schema
    rules: tuple[FoundRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _Likely:
    """A rule that passed the screening.

    Attributes:
        derived: columns that it computes.
        among: number of rows that could break it, by which the rows that do are judged.
        broken: noisy number of rows that break it.
    """

    rule: Constraint
    derived: tuple[str, ...]
    among: float
    broken: float


@dataclass(frozen=True, slots=True)
class _Question:
    """A probe, or a family of columns for the score of determined columns, and what its noisy answer makes likely."""

    asked: RowProbe | tuple[tuple[str, ...], str]
    read: Callable[[np.ndarray, float], Iterable[_Likely]]


def find_rules(door: GuardedTable, rho: float) -> FoundRules:
    """The schema of a door, with the rules that its rows keep; all that the search asks costs at most rho."""
    return _Search(door, rho).run()


class _Search:
    """One search: the schema, the noisy number of rows, and what the screening tells about determined columns.

    Attributes:
        open: for every target, by source, the noisy number of rows that the best rule leaves open; the source () is
            the most frequent value alone.
        late: for times in UTC, the noisy distribution of hours by which a column of hours is ahead.
    """

    def __init__(self, door: GuardedTable, rho: float) -> None:
        self.door, self.rho, self.schema = door, rho, door.schema
        self.comparable = dict.fromkeys(candidates.comparable(self.schema))
        self.rows = 0.0
        self.open: dict[str, dict[tuple[str, ...], float]] = {}
        self.late: dict[str, tuple[str, np.ndarray]] = {}

    def run(self) -> FoundRules:
        stddev = self.door.stddev_for(self.rho * _ROWS)
        self.rows = max(float(self.door.measure([()], stddev, step=STEP)[0].values), 1.0)
        likely = self._asked(self._first_questions(), _SCREENING)
        likely += self._asked(self._second_questions(), _SECOND)
        chosen = _chosen(self.schema, likely)
        return self._confirmed([*chosen, *self._tabulated(chosen)])

    # Questions and their answers.

    def _limit(self, share: float) -> int:
        """How many questions a round may ask, so that its noise stays small beside the rows."""
        allowed = 2.0 * self.rho * share * (_SCREENED * self.rows) ** 2 / self._price()
        return 0 if allowed < _MIN_QUESTIONS else min(int(allowed), _MAX_QUESTIONS)

    def _price(self) -> float:
        """What one question costs at noise of one row, in units of that of a single row."""
        return 2.0 * self.rho * self.door.stddev_for(self.rho) ** 2

    def _asked(self, questions: Sequence[_Question], share: float) -> list[_Likely]:
        """What the noisy answers to the first questions make likely; all have the same noise."""
        questions = questions[: self._limit(share)]
        if not questions:
            return []
        stddev = self.door.stddev_for(self.rho * share, len(questions))
        answers = self._answers([question.asked for question in questions], stddev)
        return list(chain.from_iterable(q.read(a, stddev) for q, a in zip(questions, answers, strict=True)))

    def _answers(self, asked: Sequence[RowProbe | tuple[tuple[str, ...], str]], stddev: float) -> list[np.ndarray]:
        """Noisy counts of the probes' classes, and noisy scores of the families."""
        probes = {i: replace(probe, name=f"q{i}") for i, probe in enumerate(asked) if isinstance(probe, RowProbe)}
        families = {i: family for i, family in enumerate(asked) if not isinstance(family, RowProbe)}
        found: dict[int, np.ndarray] = {}
        if probes:
            view = self.door.encoded(Schema(tuple(probes.values())))
            counts = view.measure([(probe.name,) for probe in probes.values()], stddev, step=STEP)
            found = dict(zip(probes, (answer.values for answer in counts), strict=True))
        if families:
            cliques = tuple(self.door.domain.canonical((*sources, target)) for sources, target in families.values())
            score = Undetermined(cliques, tuple(target for _, target in families.values()))
            noise = self.door.score_stddev_for(score, self._cost(stddev, len(families)))
            scores = self.door.noisy_scores(score, noise, step=STEP)
            found |= dict(zip(families, (np.array([value]) for value in scores), strict=True))
        return [found[i] for i in range(len(asked))]

    def _cost(self, stddev: float, questions: int) -> float:
        """What so many questions cost at this noise, a little less, so that rounding stays within a round's share."""
        return questions * self._price() / (2.0 * stddev**2) * (1 - 1e-9)

    def _part(self, *names: str) -> tuple[Column, ...]:
        return tuple(self.schema[name] for name in names)

    def _likely(self, rule: Constraint, derived: tuple[str, ...] = (), among: float | None = None) -> _Question:
        """A question about one rule: whether few enough rows break it."""

        def read(counts: np.ndarray, stddev: float) -> list[_Likely]:
            scale = self.rows if among is None else among
            broken = float(counts[1])
            return [_Likely(rule, derived, scale, broken)] if broken <= _SCREENED * scale + _SURE * stddev else []

        return _Question(_rule_probe(self.schema, rule, derived), read)

    def _first_questions(self) -> list[_Question]:
        """The screening: groups of candidates in turn, so that a small number of questions has some of each."""
        schema = self.schema
        parts, hours = self._part_candidates()
        groups: list[list[_Question]] = [
            [*hours, *(self._likely(rule) for rule in parts)],
            [self._likely(rule, (rule.total,)) for rule in candidates.written_together(schema)],
            [self._likely(rule, (rule.total,)) for rule in candidates.sums(schema)],
            self._determined(candidates.determined_pairs(schema, self.rows)),
            [self._comparison(*pair) for pair in self.comparable],
            [self._comparison(*pair) for pair in candidates.missing_pairs(schema) if pair not in self.comparable],
            [self._value_missing(*pair) for pair in candidates.value_and_missing(schema)],
        ]
        in_turn = chain.from_iterable(zip_longest(*groups))
        return [question for question in in_turn if question is not None]

    def _part_candidates(self) -> tuple[list[Parts], list[_Question]]:
        """Parts to be tested at once, and questions about hours of times in UTC, which may be those of a zone."""
        parts = candidates.parts_of_times(self.schema)
        utc = {rule.time for rule in parts if candidates.is_utc(_time(self.schema, rule))}
        hours = [rule for rule in parts if rule.time in utc and rule.parts[0][0] == "hour"]
        open_zones = {rule.time for rule in hours}
        return [rule for rule in parts if rule.time not in open_zones], [self._hours(rule) for rule in hours]

    def _hours(self, rule: Parts) -> _Question:
        def read(counts: np.ndarray, stddev: float) -> list[_Likely]:
            known, before = counts[:-1], self.late.get(rule.time)
            if before is None or known.max() > before[1].max():
                self.late[rule.time] = rule.parts[0][1], known
            return []

        return _Question(HourLate("", schema=Schema(self._part(rule.time, rule.parts[0][1]))), read)

    def _determined(self, families: Sequence[tuple[tuple[str, ...], str]]) -> list[_Question]:
        """Questions about columns that others determine, each target first with nothing to determine it."""
        alone = [((), target) for target in dict.fromkeys(target for _, target in families)]
        return [self._family(sources, target) for sources, target in (*alone, *families)]

    def _family(self, sources: tuple[str, ...], target: str) -> _Question:
        def read(value: np.ndarray, stddev: float) -> list[_Likely]:
            left = self.open.setdefault(target, {})
            left[sources], free = float(value[0]), left.get((), 0.0)
            if not sources or not _holds(left[sources], free, stddev, _BROKEN, _SURELY):
                return []
            coarse = 2 * self.schema[target].regular < max(self.schema[name].regular for name in sources)
            source = sources[0] if len(sources) == 1 else sources
            return [_Likely(Determines(source, target, ()), () if coarse else (target,), free, left[sources])]

        return _Question((sources, target), read)

    def _comparison(self, one: str, two: str) -> _Question:
        first, second = self.schema[one], self.schema[two]
        ordered = (one, two) in self.comparable

        def read(counts: np.ndarray, stddev: float) -> list[_Likely]:
            both, lost, gone, less, _, more = counts.tolist()
            found: list[_Likely] = []
            few = _SCREENED * self.rows + _SURE * stddev
            if ordered and max(less, more) <= few and lost + gone <= few:
                found.append(_Likely(Sum(two, (one,)), (two,), self.rows, less + more))
            elif ordered and min(less, more) <= few:
                larger, smaller = (two, one) if more <= few else (one, two)
                found.append(_Likely(AtLeast(larger, smaller), (), self.rows, min(less, more)))
            if both > 4 * _SURE * stddev:
                for names, count in (((one, two), lost), ((two, one), gone)):
                    if count <= _SCREENED * both + _SURE * stddev:
                        words = f"{_quoted(names[0])} is missing and {_quoted(names[1])} is not missing"
                        found.append(_Likely(Never(words), (), both, count))
            return found

        return _Question(Comparison("", schema=Schema((first, second))), read)

    def _value_missing(self, one: str, two: str) -> _Question:
        column = self.schema[one]

        def read(counts: np.ndarray, stddev: float) -> list[_Likely]:
            there, gone = counts.reshape(-1, 2).T
            found: list[_Likely] = []
            for code, text in enumerate(tables.texts_of_codes(column)[: column.regular]):
                others = max(gone.sum() - gone[code], 0.0), max(there.sum() - there[code], 0.0)
                tells = others[1] > 0.25 * sum(others) and gone[code] > 4 * _SURE * stddev
                if tells and there[code] <= _SCREENED * gone[code] + _SURE * stddev:
                    words = f"{_quoted(one)} = {_quoted(text)} and {_quoted(two)} is not missing"
                    found.append(_Likely(Never(words), (), float(gone[code]), float(there[code])))
            return found

        return _Question(ValueAndMissing("", schema=Schema(self._part(one, two))), read)

    # What the screening leaves to be asked.

    def _second_questions(self) -> list[_Question]:
        zones = [self._likely(rule) for rule in self._zoned_parts()]
        pairs = [self._family(sources, target) for sources, target in self._pairs_of_sources()]
        return [q for q in chain.from_iterable(zip_longest(zones, pairs)) if q is not None]

    def _zoned_parts(self) -> list[Parts]:
        """Parts of times in UTC, in the zone that explains the hours best."""
        found: list[Parts] = []
        for rule in candidates.parts_of_times(self.schema):
            if rule.time in self.late:
                zone = _best_zone(_time(self.schema, rule), self.late[rule.time][1], self.rows)
                found += [] if zone is None else [replace(rule, zone=zone)]
        return found

    def _pairs_of_sources(self) -> list[tuple[tuple[str, ...], str]]:
        """For targets that one column determines in part, this column with every other."""
        found: list[tuple[tuple[str, ...], str]] = []
        names = {column.name: column for column in candidates.listed(self.schema)}
        for target, left in self._partly_known().items():
            best = min(left, key=lambda sources: left[sources])
            for other in names:
                sources = self.schema.domain.canonical((*best, other))
                sizes = [names[name].written_codes for name in sources]
                fits = math.prod(sizes) * names[target].written_codes <= candidates.MAX_CELLS
                enough = math.prod(sizes) >= names[target].regular and 2 * names[target].regular >= max(sizes)
                few = math.prod(sizes) <= min(self.rows / 50, tables.MAX_ENTRIES)
                if other not in (*best, target) and fits and enough and few:
                    found.append((sources, target))
        return found

    def _partly_known(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Targets of which a single column leaves open some part, but not most, of what is open without it."""
        partly: dict[str, dict[tuple[str, ...], float]] = {}
        for target, left in self._single_scores().items():
            free, single = left[()], {k: v for k, v in left.items() if len(k) == 1}
            if single and _SCREENED * free < min(single.values()) <= _LIKELY_PAIR * free:
                partly[target] = single
        return partly

    def _single_scores(self) -> dict[str, dict[tuple[str, ...], float]]:
        return {target: left for target, left in self.open.items() if () in left}

    def _tabulated(self, chosen: Sequence[_Likely]) -> list[_Likely]:
        """Determined columns with the values that noisy counts give, in place of the empty tables of the screening."""
        empty = [likely for likely in chosen if isinstance(likely.rule, Determines)]
        if not empty:
            return []
        stddev = self.door.stddev_for(self.rho * _TABLES, len(empty))
        cliques = [likely.rule.columns for likely in empty]
        counted = self.door.measure(cliques, stddev, step=STEP)
        return [
            replace(likely, rule=tables.filled(self.schema, likely.rule, answer, stddev))
            for likely, answer in zip(empty, counted, strict=True)
            if isinstance(likely.rule, Determines)
        ]

    def _confirmed(self, likely: Sequence[_Likely]) -> FoundRules:
        """The schema with the rules that hold, each counted as it will be enforced."""
        ready = [found for found in likely if not isinstance(found.rule, Determines) or found.rule.table]
        if not ready:
            return FoundRules(self.schema)
        stddev = self.door.stddev_for(self.rho * _CONFIRMING, len(ready))
        probes = [_rule_probe(self.schema, found.rule, found.derived) for found in ready]
        held: list[tuple[_Likely, FoundRule]] = []
        for found, counts in zip(ready, self._answers(probes, stddev), strict=True):
            broken = float(counts[1])
            if _holds(broken, found.among, stddev, *_limits(found.rule)):
                rule = replace(found.rule, provenance="measured")
                held.append((found, FoundRule(rule, max(broken, 0.0) / self.rows, stddev / self.rows)))
        derived = {name for found, _ in held for name in found.derived}
        columns = tuple(replace(c, derived=True) if c.name in derived else c for c in self.schema.columns)
        rules = tuple(found for _, found in held)
        return FoundRules(Schema(columns, (*self.schema.constraints, *(found.rule for found in rules))), rules)


def _holds(broken: float, among: float, stddev: float, most: float, surely: float) -> bool:
    """Whether, of the rows that could break a rule, at most a part does up to noise, and surely fewer than another."""
    noise = _SURE * stddev
    return broken <= most * among + noise and broken + noise <= surely * among


def _limits(rule: Constraint) -> tuple[float, float]:
    if isinstance(rule, AtLeast):
        return _ORDERED
    return _TABLE if isinstance(rule, Determines) else (_BROKEN, _SURELY)


def _rule_probe(schema: Schema, rule: Constraint, derived: tuple[str, ...]) -> RuleProbe:
    """The probe that tells which rows break a rule, with only its own columns."""
    names = rule.columns or tables.names_in(rule, schema)
    columns = tuple(replace(schema[name], derived=name in derived) for name in schema.names if name in names)
    return RuleProbe("", schema=Schema(columns, (rule,)))


def _time(schema: Schema, rule: Parts) -> Datetime:
    column = schema[rule.time]
    if not isinstance(column, Datetime):
        raise RuntimeError(f"{rule.time!r} is no time")
    return column


def _quoted(text: str) -> str:
    return f"`{text}`"


def _best_zone(time: Datetime, late: np.ndarray, rows: float) -> str | None:
    """The zone whose hours are ahead of UTC as often as the counts say; "" for UTC itself, None where none fits."""
    shares = np.maximum(late, 0.0) / max(float(np.maximum(late, 0.0).sum()), 1.0)
    low, high = (time.internal(end) * TICKS[time.resolution] for end in (time.minimum, time.maximum))
    moments = np.linspace(low, high, 2000).astype(np.int64) // TICKS["hour"] * TICKS["hour"]
    distances: dict[str, float] = {}
    for zone in ("", *candidates.ZONES):
        hours = (part_of(in_zone(moments, zone), "hour") - part_of(moments, "hour")) % 24
        distances[zone] = float(np.abs(np.bincount(hours, minlength=24) / len(hours) - shares).sum() / 2)
    best = min(distances, key=lambda zone: distances[zone])
    return best if distances[best] < 0.2 and late.sum() > 0.5 * rows else None


def _chosen(schema: Schema, likely: Sequence[_Likely]) -> list[_Likely]:
    """Rules that can hold together, the best first: no column is computed twice, or from one that is computed."""
    order = (Parts, Sum, Determines, AtLeast, Never)
    merged = [*_merged_parts(schema, likely), *(found for found in likely if not isinstance(found.rule, Parts))]
    ranked = sorted(merged, key=lambda found: (order.index(type(found.rule)), found.broken / found.among))
    kept: list[_Likely] = []
    computed: set[str] = set()
    used: set[str] = set()
    for found in ranked:
        names = set(found.rule.columns or tables.names_in(found.rule, schema))
        sources = names - set(found.derived)
        if sources & computed or set(found.derived) & (used | computed):
            continue
        if isinstance(found.rule, Never) and _follows(found.rule, kept):
            continue
        kept.append(found)
        computed |= set(found.derived)
        used |= sources if found.derived else set()
    return kept


def _merged_parts(schema: Schema, likely: Sequence[_Likely]) -> list[_Likely]:
    """One rule for all parts of a time. A time of which year, month and day are known is computed from its parts."""
    times = dict.fromkeys(found.rule.time for found in likely if isinstance(found.rule, Parts))
    merged: list[_Likely] = []
    for name in times:
        own = [found for found in likely if isinstance(found.rule, Parts) and found.rule.time == name]
        parts: dict[str, str] = {}
        for found in sorted(own, key=lambda found: found.broken):
            ((part, column),) = found.rule.parts  # type: ignore[union-attr]
            if part not in parts and column not in parts.values():
                parts[part] = column
        time = schema[name]
        one_year = str(getattr(time, "minimum", "a"))[:4] == str(getattr(time, "maximum", "b"))[:4]
        whole = {"month", "day"} <= set(parts) and ("year" in parts or one_year)
        coarse = [p for p in parts if p in _COARSE and not (whole and p in ("year", "month"))]
        coarse += [p for p in parts if whole and p.startswith("weekday")]
        derived = (*((name,) if whole else ()), *(parts[p] for p in coarse))
        zone = own[0].rule.zone  # type: ignore[union-attr]
        rule = Parts(name, tuple(parts.items()), zone)
        merged.append(_Likely(rule, derived, own[0].among, max(found.broken for found in own)))
    return merged


def _follows(rule: Never, kept: Sequence[_Likely]) -> bool:
    """Whether rules that are kept already say that one column is missing wherever the other is."""
    given = [_implied(found.rule.condition) for found in kept if isinstance(found.rule, Never)]
    wanted = _implied(rule.condition)
    if wanted is None:
        return False
    reached, waiting = {wanted[0]}, [wanted[0]]
    while waiting:
        name = waiting.pop()
        new = [pair[1] for pair in given if pair is not None and pair[0] == name and pair[1] not in reached]
        reached.update(new)
        waiting += new
    return wanted[1] in reached


def _implied(condition: str) -> tuple[str, str] | None:
    """The columns of a condition of `_missing_words`, None for others."""
    found = re.fullmatch(r"`([^`]+)` is missing and `([^`]+)` is not missing", condition)
    return (found[1], found[2]) if found else None
