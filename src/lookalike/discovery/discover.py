"""Private discovery finds what a schema leaves open, and rules between columns, within the run's own budget.

`Discovery` has its settings and its price, `discovered` is what a run does before its method starts; `search.py` and
`rules.py` have the steps. What is counted there is used again: the counts of the codes found (`Found.known`) are
averaged into the counts of columns of every method that asks for these by `selection/steps.py`. The noisy number of
rows decides how much of the budget discovery spends, and how many bins numbers get. docs/proofs/discovery.md has the
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.discovery import rules as rule_search
from lookalike.discovery.found_columns import closed
from lookalike.discovery.rules import FoundRule, FoundRules
from lookalike.discovery.search import PERSONS, STEPS, Search
from lookalike.errors import BudgetError, DoubtfulError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.thresholds import threshold_probability
from lookalike.privacy.stopping import stop_delta
from lookalike.schema.binned import Continuous
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.constraints import rule_text
from lookalike.schema.domain import Domain
from lookalike.schema.schema import KnownCounts, Schema
from lookalike.schema.unseen import Unseen, merged, unseen, unseen_lines


@dataclass(frozen=True, slots=True)
class Found:
    """What discovery found.

    Attributes:
        schema: the schema without open facts.
        known: noisy counts of single columns in the codes of that schema.
        rows: noisy number of rows, None where it was not needed.
        notes: what remains in doubt, by the noisy answers.
    """

    schema: Schema
    known: tuple[NoisyMarginal, ...] = ()
    rows: float | None = None
    notes: tuple[Unseen, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """Settings of private discovery.

    Attributes:
        share: largest part of the budget that discovery may spend; on large tables it spends less. The method can use
            what is left.
        delta_share: part of delta for the thresholds of frequent values.
        max_bins: about how many bins a number or time gets; fewer on small tables, more on very large ones.
        rules: whether rules between columns are searched for (`rules.py`); None for where the schema has open facts.
        rules_share: part of the budget that this search may spend, beside `share`.
        strict: whether a run stops after discovery if its noisy answers leave a column in doubt
            (`schema/unseen.py`). The decision looks at released numbers alone. A run that stops counts with what it
            spent, rounded up; for that a strict run sets a part of its delta aside (`privacy/stopping.py`).
    """

    share: float = 0.93
    delta_share: float = 0.3
    max_bins: int = 16
    rules: bool | None = None
    rules_share: float = rule_search.SHARE
    strict: bool = False

    def __post_init__(self) -> None:
        shares = {"share": self.share, "delta_share": self.delta_share, "rules_share": self.rules_share}
        for name, value in shares.items():
            if not 0 < value < 1:
                raise BudgetError(f"The {name} of discovery is {value:g}; it must be between 0 and 1, such as 0.2.")
        if self.max_bins < 2:
            raise BudgetError(f"The max_bins of discovery is {self.max_bins}; it must be at least 2, such as 16.")

    def budget(self, schema: Schema, epsilon: float, delta: float, accounting: Accounting) -> Budget:
        """The run's budget, with a part of delta kept for thresholds where values may have to be found.

        A strict run sets another part of delta aside, which is not in the budget.
        """
        delta -= self.stop_delta(delta)
        kept = delta * self.delta_share if any(_may_list(column) for column in schema.columns) else 0.0
        if kept:
            threshold_probability(kept, epsilon)  # refuses what a threshold cannot do before anything is charged
        return Budget(epsilon, delta, accounting, kept)

    def stop_delta(self, delta: float) -> float:
        """The part of delta that a strict run sets aside, so that it costs less epsilon if it stops."""
        return stop_delta(delta) if self.strict else 0.0

    def nominal(self, schema: Schema) -> Domain:
        """The domain as far as it is known, with `max_bins` codes for every column whose values are still open."""
        sizes = tuple(_nominal_size(column, self.max_bins) for column in schema.columns)
        return Domain(schema.names, sizes)

    def plan(self, schema: Schema, budget: Budget) -> list[tuple[str, str, float, str]]:
        """Name, mechanism, largest rho and purpose of every step that the open facts of a schema may need."""
        rho = float(budget.rho) * self.share
        open_facts = {fact for facts in schema.open_facts.values() for fact in facts}
        steps = [
            (step.name, step.mechanism, rho * step.share, step.note)
            for step in STEPS
            if ("repeats" in open_facts if step == PERSONS else open_facts - {"repeats"})
        ]
        if self.wants_rules(schema):
            steps.append((rule_search.STEP, "gaussian", self._rules_rho(budget), rule_search.NOTE))
        return steps

    def wants_rules(self, schema: Schema) -> bool:
        """Whether rules are searched for in a table with this schema."""
        return bool(schema.open_facts) if self.rules is None else self.rules

    def _rules_rho(self, budget: Budget) -> float:
        return float(budget.rho) * self.rules_share

    def find_rules(self, door: GuardedTable, rows: float | None) -> FoundRules:
        """The door's schema, which has no open facts, with the rules that its rows keep; `rows` are noisy, if known."""
        return rule_search.find_rules(door, self._rules_rho(door.budget), rows)

    def fill(self, door: GuardedTable) -> Found:
        """The door's schema with all open facts filled, marked as measured, and the counts that were paid for."""
        search = Search(door, self.share, self.max_bins)
        schema, known, notes = search.run()
        return Found(schema, known, search.answers.rows if search.answers.signal else None, notes)


def _may_list(column: Column) -> bool:
    """Whether frequent values may have to be found: in columns of texts, and of numbers with any decimals."""
    facts = set(column.open_facts)
    floats = isinstance(column, Continuous) and column.decimals is None and bool({"bounds", "bins"} & facts)
    return floats or bool({"values", "type", "decimals"} & facts)


def _nominal_size(column: Column, guess: int) -> int:
    """The number of codes of a column, or the guess where its values are still open."""
    if isinstance(column, Identifier):
        return 1 + len(column.missing)
    if not column.open_facts:
        return column.size
    return guess if {"type", "values", "bounds", "bins"} & set(column.open_facts) else closed(column).size


# What a run does before its method starts.


@dataclass(frozen=True, slots=True)
class Discovered:
    """A table with everything that a method needs to know about it.

    Attributes:
        door: the table, encoded by the schema without open facts; its `known` counts are those that were paid for.
        unseen: what could not be seen.
        rules: the rules that were found.
        rows: noisy number of rows, None where it was not needed.
    """

    door: GuardedTable
    unseen: tuple[Unseen, ...]
    rules: tuple[FoundRule, ...] = ()
    rows: float | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: what could not be seen, and the rules that were found."""
        return (*(f"Not seen: {line}" for line in unseen_lines(self.unseen)), *found_notes(self.rules))

    def check(self) -> None:
        """Stop the run if something is in doubt. Only released values are looked at, so nothing is charged."""
        found = tuple(entry for entry in self.unseen if entry.is_doubt)
        if found:
            raise DoubtfulError(unseen_lines(found), found, self.schema_with(self.door.known))

    def schema_with(self, counts: Sequence[NoisyMarginal]) -> Schema:
        """The schema that was found with noisy counts of its columns, from which a later run can go on."""
        domain = self.door.domain
        single = [m for m in counts if len(m.attrs) == 1 and m.values.shape == domain.shape(m.attrs)]
        told = [(m.attrs[0], m.stddev, m.values.tolist()) for m in single if domain.cells(m.attrs) > 1]
        return self.door.schema.with_counts(told)


def discovered(
    search: Discovery, schema: Schema, door: GuardedTable, report: Callable[[str, float], None]
) -> Discovered:
    """Find, within the budget, what the schema of a table leaves open, and rules between its columns.

    Counts that the schema carries from an earlier run are used where they still describe its columns.
    """
    filled, rules = Found(door.schema), FoundRules(door.schema)
    if schema.open_facts:
        report("discovering what the schema leaves open", 0.02)
        filled = search.fill(door)
        door = door.encoded(filled.schema, filled.known)
    if search.wants_rules(schema):
        report("looking for rules between columns", 0.3)
        rules = search.find_rules(door, filled.rows)
        door = door.encoded(rules.schema, filled.known)
    fresh = {m.attrs for m in filled.known}
    known = [*filled.known, *(m for m in map(_measurement, schema.known_counts) if m.attrs not in fresh)]
    # A column that a rule computes has one code, of which there is nothing to know.
    door.known = tuple(m for m in known if m.values.shape == door.domain.shape(m.attrs))
    return Discovered(door, merged(filled.notes, unseen(schema, door.schema)), rules.rules, filled.rows)


def _measurement(counts: KnownCounts) -> NoisyMarginal:
    return NoisyMarginal((counts.column,), np.array(counts.counts), counts.stddev)


def found_notes(found: Sequence[FoundRule]) -> tuple[str, ...]:
    """Return a note for the user that lists the rules that were found; none if there are none."""
    if not found:
        return ()
    head = "Rules found in the table, which every synthetic row keeps (--no-rules or rules=False turns the search off):"
    shares = [f"  {rule_text(f.rule)}  [broken by {f.broken:.1%} of the rows, noise {f.stddev:.1%}]" for f in found]
    return ("\n".join([head, *shares]),)
