"""Discovery alone: it finds what the columns of a table hold, as a schema that later runs can use."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.discovery.discover import Discovery, discovered
from lookalike.errors import SchemaError
from lookalike.inputs import as_ledger, as_schema, as_table, with_persons
from lookalike.notebook import card, table
from lookalike.pipeline import discovery_steps
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import Ledger, RunSummary
from lookalike.privacy.run import Spent, ended
from lookalike.schema.bins import Binned
from lookalike.schema.columns import Column, Identifier
from lookalike.schema.explained import save_explained
from lookalike.schema.schema import Schema
from lookalike.schema.unseen import Unseen
from lookalike.selection.steps import measure_columns
from lookalike.synthesizers.base import Progress
from lookalike.synthesizers.split import limits_of, noise_source

if TYPE_CHECKING:
    from numpy.random import Generator

NAME = "inspect"
COLUMNS = "inspect: single columns"
_SHOWN = 6
"""Values of a column that a table of columns shows."""


@dataclass(frozen=True, slots=True, repr=False)
class Inspection:
    """What was found about a table. All of it is noisy or public.

    Attributes:
        schema: all facts, marked as measured where they were found, with noisy counts of every column.
        rows: noisy number of rows; None where nothing had to be found.
        unseen: what could not be seen, and what to declare.
        notes: the same and the rules that were found, for people.
        spent: the account.
    """

    schema: Schema
    rows: float | None
    unseen: tuple[Unseen, ...]
    notes: tuple[str, ...]
    spent: Spent

    def save(self, path: str | Path) -> None:
        """Write the schema with comments; later runs can use it without paying again."""
        save_explained(self.schema, Path(path))

    def columns(self) -> list[tuple[str, str, str, str, str]]:
        """Return for every column its name, kind, range or values, missing markers, and what was not seen."""
        doubts = {entry.column: entry.reason for entry in self.unseen if entry.column is not None}
        return [
            (c.name, _kind(c), _contents(c), ", ".join(m or "empty" for m in c.missing), doubts.get(c.name, ""))
            for c in self.schema.columns
        ]

    def __repr__(self) -> str:
        return f"Inspection({len(self.schema.columns)} columns; {len(self.unseen)} notes; {self.spent!r})"

    def _repr_html_(self) -> str:
        shown = table(HEADINGS, self.columns())
        return card(f"Inspection of {len(self.schema.columns)} columns", list(self.notes), shown)


HEADINGS = ("column", "kind", "values or range", "missing", "not seen")


def inspect(
    table: Any,
    *,
    schema: Schema | str | Path | dict[str, Any] | None = None,
    epsilon: float = 0.1,
    delta: float = 1e-5,
    ledger: Ledger | str | Path | None = None,
    neighbours: Neighbours | None = None,
    person: str | None = None,
    discovery: Discovery | None = None,
    progress: Progress | None = None,
    insecure_rng: Generator | None = None,
) -> Inspection:
    """Spend a small budget on what a schema leaves open, and return what was found.

    `synthesize(table, schema=inspection.schema)` then uses it: the run does not discover anything again, and uses
    the noisy counts of columns beside its own. Both runs are in the ledger, and count with the sum of their epsilons.

    The arguments are those of `synthesize`. What discovery leaves of the budget pays for counts of every column.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 500, "age": list(range(20, 70)) * 20})
    >>> found = inspect(people, epsilon=5.0)
    >>> found.schema["sex"].fact("values"), found.spent.epsilon
    ('measured', 5.0)
    """
    table = as_table(table)
    public, people = with_persons(as_schema(schema, table), person, neighbours or Neighbours())
    search = discovery or Discovery()
    if not public.open_facts:
        raise SchemaError("The schema leaves nothing open, so there is nothing to inspect. Run 'lookalike synth'.")
    budget = search.budget(public, epsilon, delta, "gdp")
    book, noise = as_ledger(ledger, table), noise_source((), reproducible=insecure_rng is not None)
    fingerprint = public.fingerprint()
    account = book.begin(method=NAME, schema=fingerprint, budget=budget, neighbours=people, noise=noise)
    report = progress or (lambda message, fraction: None)
    with ended(account), ExitStack() as closed_after:
        report("reading the table", 0.0)
        opening = {"neighbours": people, "insecure_rng": insecure_rng, "keep_rows": search.wants_rules(public)}
        door = closed_after.enter_context(closing(open_table(table, public, budget, account, **opening)))
        account.keep_to({**limits_of(discovery_steps(public, budget, search)), COLUMNS: float(budget.rho)})
        found = discovered(search, public, door, report)
        report("counting columns", 0.9)
        counts = measure_columns(found.door, found.door.remaining, step=COLUMNS)
    report("done", 1.0)
    spent = _spent(budget, people, account.summary())
    return Inspection(found.schema_with(counts), found.rows, found.unseen, found.notes, spent)


def _spent(budget: Budget, people: Neighbours, summary: RunSummary) -> Spent:
    return Spent(
        method=NAME,
        settings={},
        epsilon=budget.epsilon,
        delta=budget.delta,
        accounting=budget.accounting,
        neighbours=people.describe(),
        charges=summary.charges,
        private=summary.private,
        threshold_delta=budget.threshold_delta,
    )


def _kind(column: Column) -> str:
    if isinstance(column, Identifier):
        return "made up"
    return "computed" if column.derived else "category" if column.field_type == "string" else column.field_type


def _contents(column: Column) -> str:
    if isinstance(column, Binned):
        return f"{column.minimum} to {column.maximum}"
    if isinstance(column, Identifier):
        return column.pattern
    values = list(getattr(column, "values", None) or ())
    more = f", ... {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more
