"""The commands before a run: plan, schema and methods read no row; inspect spends a small budget."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, output, plan_table, print_json, progress_bar, shown, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from lookalike.forecast import ExpectedError, Forecast, Resources
    from lookalike.inspecting import Inspection
    from lookalike.privacy.ledger import Ledger
    from lookalike.synthesizers.base import Method

_MAX_COLUMNS_SHOWN = 20


def plan(
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="TABLE",
            parser=options.place,
            help="Only the names and types of its columns and its ledger are read.",
        ),
    ] = None,
    table_name: options.TableNameOption = None,
    schema: options.SchemaOption = None,
    domain: options.DomainOption = None,
    types: options.TypeOption = None,
    ranges: options.RangeOption = None,
    values: options.ValuesOption = None,
    ids: options.IdOption = None,
    drop: options.DropOption = None,
    encoding: options.EncodingOption = "utf-8",
    delimiter: options.DelimiterOption = None,
    epsilon: options.EpsilonOption = 1.0,
    delta: options.DeltaOption = 1e-5,
    method: options.MethodOption = "auto",
    ledger: options.LedgerOption = None,
    neighbours: options.NeighboursOption = "add-remove",
    max_rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    rows: Annotated[
        int | None, typer.Option(help="Approximate number of rows, if it is public: errors are then also shares of it.")
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,COLUMN", help="A pair of columns to predict the error of; may be repeated."),
    ] = None,
    workload: options.WorkloadOption = None,
    target: options.TargetOption = None,
    setting: options.SettingOption = None,
    rules: options.RulesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what a run would spend in each step, its time, memory and errors, without reading a row."""
    from lookalike.discovery.discover import Discovery
    from lookalike.forecast import forecast
    from lookalike.inputs import as_ledger, check_apart, check_gives_rows, with_persons
    from lookalike.pipeline import plan_run, reason_of
    from lookalike.privacy.kernel.accounting import Neighbours
    from lookalike.privacy.ledger import epsilon_text
    from lookalike.release import check_rows
    from lookalike.synthesizers.split import reads_rows

    check_rows(rows)
    check_apart(
        {"--ledger": ledger}, {"the private table": options.input_of(table), "the schema": schema, "the domain": domain}
    )
    relation = Neighbours(cast(Any, neighbours), max_rows_per_person)
    file = None if table is None else options.table_of(table, encoding, delimiter, drop, table_name)
    described = options.schema_of(schema, domain, file, options.hints_of(types, ranges, values, ids))
    public, people = with_persons(described, person, relation)
    settings = options.settings_of(method, setting, workload, target)
    given = {"settings": settings, "discovery": Discovery(rules=rules)}
    budget, steps = plan_run(public, epsilon=epsilon, delta=delta, method=method, **given)
    if reads_rows(steps):
        check_gives_rows(file, method)
    ahead = forecast(public, steps, method=method, neighbours=people, rows=rows, pairs=tuple(pair or ()))
    reason = reason_of(public, method)
    if as_json:
        listed = [{name: getattr(step, name) for name in step.__slots__} for step in steps]
        facts = {"method": method, "chosen": ahead.method, "epsilon": epsilon, "delta": delta, "rho": float(budget.rho)}
        print_json({**facts, "reason": reason, "steps": listed, "forecast": asdict(ahead)})
        return
    output.print(plan_table(method, budget, steps, reason))
    output.print(f"Hides {people.describe()}." + (f" {public.bounding}" if public.bounding else ""))
    _print_forecast(ahead)
    if table is not None:
        book = as_ledger(ledger, file if table_name else table)
        cap = f" of a cap of {book.limit.describe()}." if book.limit else "; no cap is set."
        output.print(f"Spent on {table_name or table} so far: epsilon {epsilon_text(book.spent()[0])}{cap}")


def schema(
    table: options.TablePath,
    table_name: options.TableNameOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the draft; without it the draft is printed.")
    ] = None,
    types: options.TypeOption = None,
    ranges: options.RangeOption = None,
    values: options.ValuesOption = None,
    ids: options.IdOption = None,
    drop: options.DropOption = None,
    encoding: options.EncodingOption = "utf-8",
    delimiter: options.DelimiterOption = None,
) -> None:
    """Draft a schema from the names and types of a table's columns. No row is used; unknown facts are marked open."""
    from lookalike.inputs import check_apart, check_target
    from lookalike.schema.explained import explained, save_explained

    check_apart({"--out": out}, {"the private table": options.input_of(table)})
    file = options.table_of(table, encoding, delimiter, drop, table_name)
    drafted = options.schema_of(None, None, file, options.hints_of(types, ranges, values, ids))
    if all(column.field_type == "any" for column in drafted.columns):
        notes.print(
            "This file stores texts, and no row is used for a draft, so every type is open. Declare them here or by "
            "--type, --range, --values and --id; or let 'lookalike inspect TABLE --epsilon 0.1 --write-schema "
            "found.yaml' find them."
        )
    if out is None:
        text = explained(drafted)
        sys.stdout.write(shown(text) if output.is_terminal else text)
        return
    check_target(out, table=False)
    save_explained(drafted, out)
    output.print(f"Draft written to {out}. Declare the facts that are public; a run discovers the rest in its budget.")


def methods(as_json: options.JsonOption = False) -> None:
    """List the methods: what each is good for, and what was corrected to make it private."""
    from lookalike.synthesizers import METHODS, default_settings
    from lookalike.synthesizers.base import origins

    if as_json:
        fields = ("title", "paper", "good_for", "corrected", "page", "is_paper_variant")
        listed = {}
        for name, method in METHODS.items():
            facts = {field: getattr(method.info, field) for field in fields}
            settings = {"settings": default_settings(name), "origins": origins(method)}
            listed[name] = {**facts, "accounting": method.accounting, **settings}
        print_json(listed)
        return
    headings = {False: "Methods", True: "Variants that follow a paper to the letter, to repeat its experiments"}
    for is_paper_variant, heading in headings.items():
        output.print(f"{heading}\n", style="bold underline")
        for name, method in METHODS.items():
            if method.info.is_paper_variant == is_paper_variant:
                _print_method(name, method, default_settings(name))


COMMANDS = (plan, schema, methods)
_GUARANTEES = {
    "gdp": "(epsilon, delta)-DP by the exact Gaussian-DP curve",
    "zcdp": "(epsilon, delta)-DP by zero-concentrated DP",
}


def _print_method(name: str, method: type[Method], settings: dict[str, Any]) -> None:
    output.print(f"{name}  {method.info.title}", style="bold")
    output.print(f"  paper:      {method.info.paper}")
    output.print(f"  good for:   {method.info.good_for}")
    output.print(f"  guarantee:  {_GUARANTEES[method.accounting]}")
    output.print(f"  corrected:  {method.info.corrected}")
    listed = ", ".join(f"{key}={value}" for key, value in settings.items())
    output.print(f"  settings:   {listed or 'none'}\n")


def _print_forecast(ahead: Forecast) -> None:
    output.print(_resources_text(ahead.resources, ahead.method))
    if ahead.passes is not None:
        times = "once" if ahead.passes == 1 else f"about {ahead.passes} times"
        output.print(f"Rows that stay in a large file, in a database or on a cluster are read {times}.")
    if ahead.columns:
        output.print("\nWhat the noise alone does to single columns (not the error of the rows; see below):")
        worst = sorted(ahead.columns, key=lambda error: -error.rows)
        listed = ahead.columns if len(ahead.columns) <= _MAX_COLUMNS_SHOWN else worst[: _MAX_COLUMNS_SHOWN // 2]
        output.print(_error_table("column", listed, ahead.guessed))
        if len(listed) < len(ahead.columns):
            output.print(f"These are the {len(listed)} worst of {len(ahead.columns)} columns; --json lists all.")
    if ahead.pairs:
        output.print(f"\nWhat noise does to pairs, each as if it were one of about {ahead.sets} measured column sets:")
        output.print(_error_table("pair", ahead.pairs, ahead.guessed))
    if ahead.columns or ahead.pairs:
        output.print(_error_notes(ahead))


def _resources_text(found: Resources | None, method: str) -> str:
    if found is None:
        return f"Time and memory cannot be predicted: no runs of {method} are stored."
    low, high = found.seconds / found.seconds_off, found.seconds * found.seconds_off
    return (
        f"Predicted for {found.rows:,} rows: about {_rounded(found.seconds)} CPU seconds ({_rounded(low)} to "
        f"{_rounded(high)}) and {_rounded(found.memory_mb)} MB.\n"
        "This is a rough prediction from stored runs with default settings; the range covers the worst of them."
    )


def _rounded(value: float) -> str:
    """Return a number with two significant digits: a prediction is not more precise.

    >>> _rounded(0.0432), _rounded(1234.5), _rounded(7.77)
    ('0.04', '1,200', '7.8')
    """
    if value < 0.1:
        return f"{value:.2f}"
    return f"{float(f'{value:.2g}'):,.10g}"


def _error_table(heading: str, errors: Sequence[ExpectedError], guessed: Sequence[str]) -> Table:
    shares = ["share of rows"] if errors[0].distance is not None else []
    right = ("cells", "noise (stddev)", "rows misplaced", *shares)
    rows = []
    for error in errors:
        about = "~" if set(error.attrs) & set(guessed) else ""
        cells = [", ".join(error.attrs), f"{about}{error.cells:,}", f"{error.stddev:.1f}", f"{error.rows:,.0f}"]
        if error.distance is not None:
            cells.append(f"{error.distance:.2%}" if error.distance < 1 else "all noise")
        rows.append(cells)
    return table_of("", (heading, *right), rows, right=right)


def _error_notes(ahead: Forecast) -> str:
    text = (
        "Rows misplaced = cells * stddev * sqrt(2/pi) / 2: the noise alone, before a model is fitted. Synthetic rows\n"
        "have other errors, which depend on the data: rare values are counted together with others, values and bins\n"
        "must be discovered, and column sets that are not measured follow from a model. Rows can be closer than the\n"
        "noise where sets confirm each other, or several times as far off where columns have hundreds of values or\n"
        "determine each other. The public report of a run says how well its rows agree with what was measured."
    )
    if all(error.distance is None for error in (*ahead.columns, *ahead.pairs)):
        text += "\nFor errors as shares of the rows give --rows N, if the approximate number of rows is public."
    return text + ("\n~ marks columns whose values or bins are still to be discovered." if ahead.guessed else "")


def inspect(
    table: options.TablePath,
    table_name: options.TableNameOption = None,
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
            help="File for the schema that was found, with noisy counts, for 'lookalike synth --schema'.",
        ),
    ] = None,
    neighbours: options.NeighboursOption = "add-remove",
    max_rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    rules: options.RulesOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Find out what the columns hold, for a small budget. A later run can use the schema found without paying again."""
    from lookalike.discovery.discover import Discovery
    from lookalike.inputs import as_ledger, check_apart
    from lookalike.inspecting import inspect as inspected
    from lookalike.outputs import check_outputs
    from lookalike.privacy.kernel.accounting import Neighbours

    file = options.table_of(table, encoding, delimiter, drop, table_name)
    book = as_ledger(ledger, file)
    inputs = {"the private table": options.input_of(table), "the schema": schema}
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
        print_json(_found_facts(found, write_schema, book))
    else:
        _print_found(found, write_schema, book)


def _print_found(found: Inspection, written: Path | None, book: Ledger) -> None:
    from lookalike.cli.running import budget_left
    from lookalike.inspecting import HEADINGS

    rows = "" if found.rows is None else f", about {max(found.rows, 0.0):,.0f} rows"
    output.print(table_of(f"{len(found.schema.columns)} columns{rows}", HEADINGS, found.columns()))
    for note in found.notes:
        output.print(note)
    output.print(f"Spent: {found.spent.price_text} {budget_left(book)}")
    if written is None:
        notes.print("No schema was written. With --write-schema FILE, later runs can use what was found.")
    else:
        output.print(f"Schema: {written}. 'lookalike synth TABLE --schema {written}' uses it without paying again.")


def _found_facts(found: Inspection, written: Path | None, book: Ledger) -> dict[str, Any]:
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
