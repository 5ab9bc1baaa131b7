"""The command that spends on discovery alone: inspect."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, output, print_json, progress_bar, table_of

if TYPE_CHECKING:
    from lookalike.inspecting import Inspection
    from lookalike.privacy.ledger import Ledger


def inspect(
    table: options.TablePath,
    schema: options.SchemaOption = None,
    types: options.TypeOption = None,
    ranges: options.RangeOption = None,
    values: options.ValuesOption = None,
    ids: options.IdOption = None,
    drop: options.DropOption = None,
    encoding: options.EncodingOption = "utf-8",
    delimiter: options.DelimiterOption = None,
    epsilon: options.EpsilonOption = 0.1,
    delta: options.DeltaOption = 1e-5,
    ledger: options.LedgerOption = None,
    write_schema: Annotated[
        Path | None,
        typer.Option(
            "--write-schema",
            help="File for the schema that was found, with noisy counts: 'synth --schema' goes on from it.",
        ),
    ] = None,
    neighbours: options.NeighboursOption = "add-remove",
    max_rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    rules: options.RulesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Find out what columns hold, for a small budget. A later run goes on from the schema without paying again."""
    from lookalike.cli.running import check_outputs
    from lookalike.discovery.discover import Discovery
    from lookalike.inputs import as_ledger
    from lookalike.inspecting import inspect as inspected
    from lookalike.places import check_apart
    from lookalike.privacy.kernel.neighbours import Neighbours

    file = options.table_of(table, encoding, delimiter, drop)
    book = as_ledger(ledger, file)
    inputs = {"the private table": table, "the schema": schema}
    check_apart({"--ledger": ledger}, inputs)
    check_outputs({"write_schema": write_schema}, inputs, book)
    described = options.schema_of(schema, None, file, options.hints_of(types, ranges, values, ids))
    with progress_bar() as progress:
        found = inspected(
            file,
            schema=described,
            epsilon=epsilon,
            delta=delta,
            ledger=book,
            neighbours=Neighbours(cast(Any, neighbours), max_rows_per_person),
            person=person,
            discovery=Discovery(rules=rules),
            progress=progress,
        )
    if write_schema is not None:
        found.save(write_schema)
    if as_json:
        print_json(_facts(found, write_schema, book))
    else:
        _print(found, write_schema, book)


COMMANDS = (inspect,)


def _print(found: Inspection, written: Path | None, book: Ledger) -> None:
    from lookalike.cli.running import budget_left
    from lookalike.inspecting import HEADINGS

    rows = "" if found.rows is None else f", about {max(found.rows, 0.0):,.0f} rows"
    output.print(table_of(f"{len(found.schema.columns)} columns{rows}", HEADINGS, found.columns()))
    for note in found.notes:
        output.print(note)
    output.print(f"Spent: {found.spent.price_text} {budget_left(book)}")
    if written is None:
        notes.print("Nothing was written: with --write-schema FILE, 'lookalike synth --schema FILE' goes on from here.")
    else:
        output.print(f"Schema: {written}. 'lookalike synth TABLE --schema {written}' goes on from it.")


def _facts(found: Inspection, written: Path | None, book: Ledger) -> dict[str, Any]:
    from lookalike.inspecting import HEADINGS
    from lookalike.privacy.ledger import epsilon_json

    return {
        "write_schema": None if written is None else str(written),
        "ledger": str(book.path) if book.path else None,
        "rows": found.rows,
        "epsilon": found.spent.epsilon,
        "delta": found.spent.delta,
        "private": found.spent.private,
        "epsilon_of_all_runs": epsilon_json(book.spent()[0]),
        "cap": book.cap,
        "columns": [dict(zip(HEADINGS, column, strict=True)) for column in found.columns()],
        "unseen": [asdict(entry) for entry in found.unseen],
        "notes": list(found.notes),
    }
