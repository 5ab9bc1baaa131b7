"""The commands that come before a run: plan, schema, methods. They spend nothing and use no row. Thin: call, print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lookalike.cli.options import (
    DeltaOption,
    DomainOption,
    EpsilonOption,
    JsonOption,
    LedgerOption,
    MethodOption,
    NeighboursOption,
    PersonOption,
    RowsPerPersonOption,
    SchemaOption,
    SettingOption,
    TablePath,
    WorkloadOption,
    neighbours_of,
    schema_of,
    settings_of,
)
from lookalike.cli.terminal import output, print_json, shown, table_of
from lookalike.forecast import ExpectedError, Forecast, Resources, forecast
from lookalike.pipeline import as_ledger, as_schema, plan_run, reason_of, with_persons
from lookalike.places import check_apart, check_target
from lookalike.privacy.kernel.accounting import Budget
from lookalike.privacy.ledger import epsilon_text
from lookalike.release import check_rows
from lookalike.synthesizers import METHODS, default_settings
from lookalike.synthesizers.base import Method, origins
from lookalike.synthesizers.split import Step

MAX_COLUMNS_SHOWN = 20


def add_commands(app: typer.Typer) -> None:
    """Put the commands of this module on the command line."""
    for command in (plan, schema, methods):
        app.command()(command)


def plan(
    table: Annotated[
        Path | None,
        typer.Argument(metavar="[TABLE]", help="Of the table, only names and types are used, and its ledger."),
    ] = None,
    schema: SchemaOption = None,
    domain: DomainOption = None,
    epsilon: EpsilonOption = 1.0,
    delta: DeltaOption = 1e-5,
    method: MethodOption = "auto",
    ledger: LedgerOption = None,
    neighbours: NeighboursOption = "add-remove",
    max_rows_per_person: RowsPerPersonOption = 1,
    person: PersonOption = None,
    rows: Annotated[
        int | None, typer.Option(help="About how many rows there are, if that is public: errors are then shares of it.")
    ] = None,
    pair: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,COLUMN", help="A pair whose error matters; may be repeated.")
    ] = None,
    workload: WorkloadOption = None,
    setting: SettingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run would spend, take and get wrong, step by step, without opening the data."""
    check_rows(rows)
    check_apart({"--ledger": ledger}, {"the private table": table, "the schema": schema, "the domain": domain})
    public, people = with_persons(
        schema_of(schema, domain, table), person, neighbours_of(neighbours, max_rows_per_person)
    )
    settings = settings_of(method, setting, workload)
    budget, steps = plan_run(public, epsilon=epsilon, delta=delta, method=method, settings=settings)
    ahead = forecast(public, steps, method=method, neighbours=people, rows=rows, pairs=tuple(pair or ()))
    if as_json:
        listed = [{name: getattr(step, name) for name in Step.__slots__} for step in steps]
        facts = {"method": method, "epsilon": epsilon, "delta": delta, "rho": float(budget.rho)}
        print_json({**facts, "reason": reason_of(public, method), "steps": listed, "forecast": asdict(ahead)})
        return
    output.print(plan_table(method, budget, steps, reason_of(public, method)))
    output.print(f"Hides {people.describe()}.")
    _print_forecast(ahead)
    if table is not None:
        book = as_ledger(ledger, table)
        spent, _ = book.spent()
        cap = book.cap
        output.print(
            f"Spent on {table} so far: epsilon {epsilon_text(spent)}"
            + (f" of a cap of {cap:g}." if cap else "; no cap is set.")
        )


def schema(
    table: TablePath,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the draft goes; otherwise it is printed.")
    ] = None,
) -> None:
    """Draft a schema from the names and types of a table's columns. Rows are not used; open facts are marked so."""
    check_apart({"--out": out}, {"the private table": table})
    drafted = as_schema(None, table)
    if out is None:
        text = drafted.to_yaml()
        sys.stdout.write(shown(text) if output.is_terminal else text)
        return
    check_target(out, table=False)
    drafted.save(out)
    output.print(f"Draft written to {out}. Declare what is public; a run discovers the rest inside its own budget.")


def methods(as_json: JsonOption = False) -> None:
    """List the methods: what each is good for, and what was corrected to make it private."""
    if as_json:
        listed = {
            name: {
                **{field: getattr(method.info, field) for field in ("title", "paper", "good_for", "corrected", "page")},
                "is_paper_variant": method.info.is_paper_variant,
                "accounting": method.accounting,
                "settings": default_settings(name),
                "origins": origins(method),
            }
            for name, method in METHODS.items()
        }
        print_json(listed)
        return
    headings = {False: "Methods", True: "Variants that follow a paper to the letter, to repeat its experiments"}
    for is_paper_variant, heading in headings.items():
        output.print(f"{heading}\n", style="bold underline")
        for name, method in METHODS.items():
            if method.info.is_paper_variant == is_paper_variant:
                _print_method(name, method)


def _print_method(name: str, method: type[Method]) -> None:
    output.print(f"{name}  {method.info.title}", style="bold")
    output.print(f"  paper:      {method.info.paper}")
    output.print(f"  good for:   {method.info.good_for}")
    output.print(f"  guarantee:  {_guarantee(method.accounting)}")
    output.print(f"  corrected:  {method.info.corrected}")
    settings = ", ".join(f"{key}={value}" for key, value in default_settings(name).items())
    output.print(f"  settings:   {settings or 'none'}\n")


def plan_table(method: str, budget: Budget, steps: tuple[Step, ...], reason: str | None) -> Table:
    """The steps of a plan for the screen."""
    unit = f"rho {float(budget.rho):.6g} ({budget.accounting})"
    title = f"Plan: {method}, epsilon {budget.epsilon:g}, delta {budget.delta:g}, {unit}"
    rows = []
    for step in steps:
        releases = str(step.releases) if step.releases >= 0 else "as it goes"
        rows.append((step.step, step.mechanism, releases, f"{step.rho / float(budget.rho):.1%}", step.note))
    headings = ("step", "mechanism", "releases", "share", "what")
    return table_of(title, headings, rows, right=("releases", "share"), caption=reason)


def _guarantee(accounting: str) -> str:
    return {
        "gdp": "(epsilon, delta)-DP by the exact Gaussian-DP curve",
        "zcdp": "(epsilon, delta)-DP by zero-concentrated DP",
    }[accounting]


def _print_forecast(ahead: Forecast) -> None:
    output.print(_resources_text(ahead.resources, ahead.method))
    if ahead.columns:
        output.print("\nExpected error of single columns, from the noise on their own counts:")
        worst = sorted(ahead.columns, key=lambda error: -error.rows)
        shown = ahead.columns if len(ahead.columns) <= MAX_COLUMNS_SHOWN else worst[: MAX_COLUMNS_SHOWN // 2]
        output.print(_error_table("column", shown, ahead.guessed))
        if len(shown) < len(ahead.columns):
            output.print(f"The {len(shown)} worst of {len(ahead.columns)} columns; --json lists all.")
    if ahead.pairs:
        output.print(f"\nExpected error of pairs, each as if it were one of the about {ahead.sets} sets counted:")
        output.print(_error_table("pair", ahead.pairs, ahead.guessed))
    if ahead.columns or ahead.pairs:
        output.print(_reading(ahead))


def _resources_text(found: Resources | None, method: str) -> str:
    if found is None:
        return f"No prediction of time and memory: no runs of {method} are stored to go by."
    low, high = found.seconds / found.seconds_off, found.seconds * found.seconds_off
    return (
        f"Predicted for {found.rows:,} rows: about {_rounded(found.seconds)} CPU seconds ({_rounded(low)} to "
        f"{_rounded(high)}), {_rounded(found.memory_mb)} MB.\n"
        "Rough: fitted to stored runs with default settings; the range is how far off the worst was."
    )


def _rounded(value: float) -> str:
    """Two digits are more than such a prediction has.

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


def _reading(ahead: Forecast) -> str:
    text = (
        "Rows misplaced = cells * stddev * sqrt(2/pi) / 2: what noise alone does to counts. A fitted\n"
        "model is usually nearer; what is not counted has errors that no plan can know."
    )
    if all(error.distance is None for error in (*ahead.columns, *ahead.pairs)):
        text += "\nGive --rows N, if about how many rows there are is public, for shares of rows."
    return text + ("\n~ marks columns whose values or bins are yet to be discovered." if ahead.guessed else "")
