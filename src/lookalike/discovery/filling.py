"""All that is found out about a table before a method starts: open facts, rules, and what could not be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.discovery.discover import Discovery, Found
from lookalike.discovery.rules import FoundRule, FoundRules
from lookalike.errors import DoubtfulError
from lookalike.measurements import NoisyMarginal
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.schema.constraints import rule_text
from lookalike.schema.schema import KnownCounts, Schema
from lookalike.schema.unseen import Unseen, merged, unseen, unseen_lines


@dataclass(frozen=True, slots=True)
class Discovered:
    """A table of which all that a method needs is known.

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
        """What people should know."""
        return (*(f"Not seen: {line}" for line in unseen_lines(self.unseen)), *found_notes(self.rules))

    def check(self) -> None:
        """Refuse to go on where something is in doubt. All that this looks at was released, so nothing is charged."""
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
    """Return the table with what its schema leaves open, and the rules, found within the budget.

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
    """Return what people should know about the rules that were found."""
    if not found:
        return ()
    head = "Rules found in the table, which every synthetic row keeps (--no-rules or rules=False turns the search off):"
    shares = [f"  {rule_text(f.rule)}  [broken by {f.broken:.1%} of the rows, noise {f.stddev:.1%}]" for f in found]
    return ("\n".join([head, *shares]),)
