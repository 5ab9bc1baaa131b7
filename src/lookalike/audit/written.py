"""Whole runs on neighbouring tables, distinguished by anything that they write.

An audit shows that a guarantee is false, or fails to show it; docs/privacy_argument.md says why it is true. The event
is chosen on some runs and counted on others. Exact binomial bounds give an epsilon that is overstated with a stated
probability at most. `tests/privacy/test_everything_written.py` makes runs leak on purpose, and checks that they are
caught.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.audit.bounds import epsilon_shown, gaussian_epsilon_shown, rate_bounds
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.release import Release
from lookalike.schema import codec

Features = dict[str, float]
_TOKEN = re.compile(r"[\w.+-]+")
_CHOOSING_FAILURE = 0.2


def features(written: Any, name: str = "") -> Features:
    """Return all features of what a run wrote, as numbers by name.

    A number is a feature; features of a text are its length and the number of times that each token occurs in it; of a
    list its length and the features of its items.

    >>> features({"rows": 3, "town": ["Ox", "Ox"]})
    {'rows': 3.0, 'town: length': 2.0, 'town: Ox': 2.0}
    """
    if isinstance(written, Mapping):
        return {
            key: value
            for part, inner in written.items()
            for key, value in features(inner, f"{name}/{part}" if name else str(part)).items()
        }
    if isinstance(written, str):
        tokens = Counter(_TOKEN.findall(written))
        return {f"{name}: length": float(len(written))} | {f"{name}: {t}": float(n) for t, n in tokens.items()}
    if isinstance(written, Sequence):
        found: Features = {f"{name}: length": float(len(written))}
        for i, item in enumerate(written):
            inner = {f"{name}: {item}": 1.0} if isinstance(item, str) else features(item, f"{name}/{i}")
            for key, value in inner.items():
                found[key] = found.get(key, 0.0) + value
        return found
    return {} if written is None else {name: float(written)}


@dataclass(frozen=True, slots=True)
class Event:
    """A feature above its threshold, or not above it; more likely under the first table if `left`.

    A missing feature is below every threshold.
    """

    feature: str
    threshold: float
    above: bool
    left: bool

    def happened(self, found: Features) -> bool:
        return (found.get(self.feature, -np.inf) > self.threshold) == self.above

    def describe(self) -> str:
        return f"{self.feature} {'>' if self.above else '<='} {self.threshold:.6g}"


def best_event(left: Sequence[Features], right: Sequence[Features], delta: float) -> Event | None:
    """Return the event with the largest expected epsilon in equally many runs of two tables; None if none differs."""
    runs = len(left)
    names = sorted({key for found in (*left, *right) for key in found})
    if not names:
        return None
    values = np.array([[found.get(name, -np.inf) for found in (*left, *right)] for name in names])
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    # For every possible threshold of every feature: the number of runs of each table above it.
    above_left = runs - np.cumsum(order < runs, axis=1)[:, :-1]
    above_right = runs - np.cumsum(order >= runs, axis=1)[:, :-1]
    low, high = rate_bounds(np.arange(runs + 1), runs, _CHOOSING_FAILURE)
    steps = ordered[:, 1:] > ordered[:, :-1]
    # Of equally good events, one of a feature with few values is more reliable than one of a noisy number.
    penalty = 1e-9 * np.sum(steps, axis=1, keepdims=True)
    best, best_worth = None, -np.inf
    for above in (True, False):
        hits = (above_left, above_right) if above else (runs - above_left, runs - above_right)
        for first in (True, False):
            here, there = hits if first else hits[::-1]
            worth = np.where(steps, (low[here] - delta) / high[there] - penalty, -np.inf)
            row, cut = np.unravel_index(np.argmax(worth), worth.shape)
            if worth[row, cut] > best_worth:
                best_worth = worth[row, cut]
                low_value, high_value = float(ordered[row, cut]), float(ordered[row, cut + 1])
                below_high = high_value - 0.5 * max(abs(high_value), 1.0)
                threshold = (low_value + high_value) / 2 if np.isfinite(low_value) else below_high
                best = Event(names[row], threshold, above, first)
    return best


ROWS, SECRET = 30, "Zzyzx"


@dataclass(frozen=True, slots=True)
class Case:
    """A table, and the rows `extra` of one more person, whom the name describes, which its neighbour has in addition.

    The arguments are those of the run: schema, person column, neighbours.
    """

    name: str
    table: pa.Table
    extra: pa.Table
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def neighbour(self) -> pa.Table:
        return pa.concat_tables([self.table, self.extra])


def cases() -> list[Case]:
    """Return the pairs of tables of an audit: in each, one person has something that nobody else has."""
    texts = _texts()
    people = texts.append_column("who", pa.array([f"p{i // 2}" for i in range(ROWS)]))
    twice = {"person": "who", "neighbours": Neighbours(max_rows_per_person=2)}
    lone, sizes = {"who": "lone", "town": SECRET}, {"a": 2, "b": 2, "c": 2}
    codes = pa.table({name: np.zeros(ROWS, dtype=np.int32) for name in sizes})
    return [
        Case("new category", texts, _row(texts, town=SECRET)),
        Case("extreme number", texts, _row(texts, pay="987654321012.75")),
        Case("new maximum", texts, _row(texts, age="119")),
        Case("lone null", texts, _row(texts, age=None)),
        Case("lone person", people, pa.concat_tables([_row(people, **lone), _row(people, **lone)]), twice),
        Case("the first row", texts.slice(0, 0), _row(texts, town=SECRET)),
        Case("declared columns", codes, pa.table({n: np.ones(1, dtype=np.int32) for n in "abc"}), {"schema": sizes}),
    ]


def _texts() -> pa.Table:
    """Return a table of texts, as in a CSV file: categories, whole numbers, decimals, days."""
    number = range(ROWS)
    columns = {
        "town": [("Ox", "Rye")[i % 2] for i in number],
        "age": [str(20 + 3 * (i % 15)) for i in number],
        "pay": [f"{1000 + 37 * i}.50" for i in number],
        "seen": [f"2024-{1 + i % 12:02d}-1{i % 9}" for i in number],
    }
    return pa.table(columns)


def _row(table: pa.Table, **values: str | None) -> pa.Table:
    """Return one typical row with the columns of `table`, except for these values."""
    chosen = {"town": "Ox", "age": "35", "pay": "1500.50", "seen": "2024-05-11", "who": "p0", **values}
    return pa.table({name: pa.array([chosen[name]], pa.string()) for name in table.column_names})


@dataclass(frozen=True, slots=True)
class Claim:
    """The guarantee that a run claims; Gaussian DP allows a stronger audit. Noisy thresholds use `threshold_delta`."""

    epsilon: float
    delta: float
    gaussian: bool = False
    threshold_delta: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of an audit.

    Attributes:
        event: the event in words, "none" if all runs wrote the same.
        hits: number of runs with the event, on the table where it is more likely and on the other.
        runs: number of runs of each table in which the event was counted.
        epsilon, detectable: the epsilon that the event shows; the largest that this number of runs can show.
    """

    event: str
    hits: tuple[int, int]
    runs: int
    epsilon: float
    detectable: float
    claim: Claim

    @property
    def broken(self) -> bool:
        """Whether the claim is contradicted."""
        return self.epsilon > self.claim.epsilon


def try_pair(
    left: Callable[[], Any],
    right: Callable[[], Any],
    claim: Claim,
    *,
    runs: int,
    rng: np.random.Generator,
    failure: float = 1e-6,
) -> Finding:
    """Search for an event that contradicts the claim, in `runs` runs on each of two neighbouring tables.

    In a third of the runs the event is chosen, in the others counted.

    Args:
        left, right: make one run on their table and return all that it wrote: numbers, texts, lists and mappings.
        claim: the guarantee to contradict.
        runs: number of runs of each table.
        rng: shuffles the runs of the two tables, so that clocks and caches affect both alike.
        failure: probability of calling a true claim false.
    """
    found: tuple[list[Features], list[Features]] = ([], [])
    for side in rng.permutation(np.repeat([0, 1], runs)):
        found[side].append(features((left, right)[side]()))
    return judge(found[0], found[1], claim, failure)


def judge(left: list[Features], right: list[Features], claim: Claim, failure: float) -> Finding:
    """Return the finding from the features of equally many runs of two tables."""
    chosen = len(left) // 3
    event = best_event(left[:chosen], right[:chosen], claim.delta)
    counted = len(left) - chosen
    detectable = _shown(counted, 0, counted, claim, failure)
    if event is None:
        return Finding("none", (0, 0), counted, 0.0, detectable, claim)
    hits = [sum(map(event.happened, side[chosen:])) for side in (left, right)]
    here, there = hits if event.left else hits[::-1]
    shown = _shown(here, there, counted, claim, failure)
    return Finding(event.describe(), (here, there), counted, shown, detectable, claim)


def _shown(here: int, there: int, runs: int, claim: Claim, failure: float) -> float:
    shown = epsilon_shown(here, there, runs, delta=claim.delta, failure=failure)
    if not claim.gaussian:
        return shown
    parts = {"delta": claim.delta, "threshold_delta": claim.threshold_delta, "failure": failure}
    return max(shown, gaussian_epsilon_shown(here, there, runs, **parts))


def everything(
    table: pa.Table, extra: pa.Table, arguments: Mapping[str, Any], *, report: bool = True
) -> dict[str, Any]:
    """Return what a run on `table` wrote, and what an attacker who knows the rows `extra` would compute from it.

    Times are left out: the guarantee does not cover them.
    """
    messages: list[str] = []
    ledger = Ledger(None, "audited table")
    release = synthesize(
        table, ledger=ledger, progress=lambda message, done: messages.append(f"{message} {done:.3g}"), **arguments
    )
    return {
        "table": _columns(release.rows),
        "schema": release.schema.to_yaml(),
        "released": [np.ravel(m.values)[:64].astype(float).tolist() for m in release.fitted.measurements],
        "ledger": [{key: entry[key] for key in entry if key not in _CLOCKS} for entry in ledger.entries()],
        "plan": [f"{step.step} {step.rho:.9g} {step.releases}" for step in release.plan],
        "progress": messages,
        "report": release.report() if report else "",
        "attack": likelihood(release, extra),
        **given_back(release, ledger, extra),
    }


_CLOCKS = ("time", "hash", "prev")
_PLACES = ("PROTO", "FRAME", "PUT", "GET", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET")
"""Operations of a pickle whose numbers are positions, not values."""
_WORD = re.compile(r"\b[^\W\d]\w*|(?<![\w.])\d+(?![\w.])")


def given_back(release: Release, ledger: Ledger, extra: pa.Table) -> dict[str, Any]:
    """Return the contents of the objects that a run returns: their pickles, representations and HTML.

    For each: its length, its words and whole numbers, and how often each value of the rows `extra` occurs in it.
    """
    parts = ("spent", "fitted", "model", "plan", "schema")
    things = {"release": release, "ledger": ledger, "form": release.fitted.form}
    things |= {name: getattr(release, name) for name in parts}
    values = sorted({str(value) for row in extra.to_pylist() for value in row.values() if value is not None})
    found: dict[str, Any] = {}
    for name, thing in things.items():
        data = pickle.dumps(thing)
        found[f"pickle of {name}"] = {
            "bytes": len(data),
            # The pickle of a release contains the words of its parts.
            "words": _pickled_words(data) if name in ("release", "ledger") else [],
            **{f"times {value}": sum(map(data.count, _stored(value))) for value in values},
        }
        page = thing._repr_html_() if hasattr(thing, "_repr_html_") else ""
        for kind, shown in (("repr", repr(thing)), ("html", page)):
            found[f"{kind} of {name}"] = {
                "characters": len(shown),
                "words": _WORD.findall(shown),
                **{f"times {value}": shown.count(value) for value in values},
            }
    return found


def _pickled_words(data: bytes) -> list[str]:
    """Return texts and whole numbers of a pickle. Released floats and arrays are already in `everything`."""
    steps = ((step.name, value) for step, value, _ in pickletools.genops(data))
    return [str(value) for name, value in steps if isinstance(value, str | int) and name not in _PLACES]


def _stored(value: str) -> set[bytes]:
    """Return the bytes of a value in a file: as text and, for a number, as a float or a whole number."""
    found = {value.encode()}
    try:
        found.add(struct.pack("<d", float(value)))
        found.add(struct.pack("<q", int(value)))
    except (ValueError, struct.error):
        pass
    return found


def likelihood(release: Release, extra: pa.Table) -> float:
    """Return the most powerful statistic of the noisy counts: the sum of count / stddev^2 in the cells of the rows."""
    codes = codec.encode(release.schema, extra.select(list(release.schema.names)))
    domain, total = release.schema.domain, 0.0
    for marginal in release.fitted.measurements:
        places = tuple(codes[:, domain.position(name)] for name in marginal.attrs)
        cells = places if marginal.groups is None else marginal.groups[places]
        total += float(np.sum(marginal.values[cells])) / marginal.stddev**2
    return total


def _columns(table: pa.Table) -> dict[str, Any]:
    """Return the number of rows of the synthetic table, and the number of each value in each column."""
    found: dict[str, Any] = {"rows": table.num_rows, "bytes": table.nbytes}
    for name in table.column_names:
        column = table.column(name)
        counted = column.cast(pa.string()).value_counts()
        texts, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        found[name] = {str(text): count for text, count in zip(texts, counts, strict=True)}
        found[f"{name} longest"] = max((len(text) for text in texts if text is not None), default=0)
    return found
