"""The command line: parse, call the pipeline, print. Results go to standard output, notes to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

# Our matrix products are small: threads that wait for each other cost more than they bring. Set before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer
from rich.table import Table

from lookalike import __version__
from lookalike.cli_judging import add_commands
from lookalike.errors import InputError, LookalikeError, SchemaError
from lookalike.pipeline import (
    Generation,
    as_ledger,
    as_schema,
    check_generator,
    plan_run,
    reason_of,
    synthesize,
    with_persons,
)
from lookalike.privacy.budget import Budget
from lookalike.privacy.ledger import Ledger, RunSummary
from lookalike.privacy.neighbours import Neighbours, Relation
from lookalike.release import Release, check_target, load, write_page
from lookalike.schema.schema import Schema
from lookalike.select.workload import read_workload
from lookalike.synthesizers import METHODS, default_settings
from lookalike.synthesizers.base import PlannedStep
from lookalike.terminal import notes, output, print_json, progress_bar

app = typer.Typer(
    name="lookalike",
    help="Differentially private synthetic tables: the same columns and formats, rows that belong to nobody.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file with the private rows.")]
SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="YAML file with the public facts about the columns.")
]
DomainOption = Annotated[
    Path | None, typer.Option("--domain", help="JSON object {column: number of codes}, for integer-coded tables.")
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy budget of this run.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="Probability with which epsilon may be missed.")]
MethodOption = Annotated[str, typer.Option("--method", "-m", help="See 'lookalike methods'.")]
SettingOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated.")
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="SETS",
        help="Marginals that matter, for methods that take some: all-3way, target:COLUMN, or a YAML or JSON file.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="Ledger file; by default one per table.")]


@app.command()
def synth(
    table: TablePath,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where the synthetic table goes; the suffix sets the format.")
    ],
    schema: SchemaOption = None,
    domain: DomainOption = None,
    epsilon: EpsilonOption = 1.0,
    delta: DeltaOption = 1e-5,
    method: MethodOption = "auto",
    generator: Annotated[
        str, typer.Option(help="'model' draws from the method's model; 'gum' updates rows until its marginals fit.")
    ] = "model",
    rows: Annotated[int | None, typer.Option(help="Rows to make; by default the noisy number of real rows.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Fixes rounding and sampling given the noise, never the noise.")
    ] = None,
    ledger: LedgerOption = None,
    model: Annotated[Path | None, typer.Option(help="Also store the model, for 'lookalike sample'.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the public report as an HTML page.")] = None,
    neighbours: Annotated[
        str, typer.Option(help="'add-remove' or 'replace': what one person's data may change.")
    ] = "add-remove",
    max_rows_per_person: Annotated[int, typer.Option(help="Most rows that belong to one person.")] = 1,
    person: Annotated[str | None, typer.Option(help="Column that says whose row it is; surplus rows go.")] = None,
    workload: WorkloadOption = None,
    setting: SettingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a synthetic table from a private one, within a privacy budget."""
    public = _schema(schema, domain, table)
    check_target(out, table=True)
    for path in filter(None, (model, report)):
        check_target(path, table=False)
    made_by = _generator(generator)
    settings = _settings(method, setting, workload)
    public, people = with_persons(public, person, _neighbours(neighbours, max_rows_per_person))
    budget, plan = plan_run(public, epsilon=epsilon, delta=delta, method=method, settings=settings)
    if not as_json:
        notes.print(_plan_table(method, budget, plan, reason_of(public, method)))
    with progress_bar() as progress:
        release = synthesize(
            table,
            schema=public,
            epsilon=epsilon,
            delta=delta,
            method=method,
            generator=made_by,
            rows=rows,
            seed=seed,
            ledger=ledger,
            neighbours=people,
            progress=progress,
            **settings,
        )
    book = as_ledger(ledger, table)
    with _rescue(release, book):
        release.write(out)
        if model is not None:
            release.fitted.save(model)
        if report is not None:
            write_page(report, release.report())
    _print_release(release, {"out": out, "model": model, "report": report, "ledger": book.path}, as_json)


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model stored by 'synth --model'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the synthetic table goes.")],
    rows: Annotated[int | None, typer.Option(help="Rows to make; by default the noisy number of real rows.")] = None,
    where: Annotated[
        str | None, typer.Option(help='Only rows that satisfy a condition such as "age >= 65 and sex = F".')
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes the sample.")] = None,
) -> None:
    """Draw more rows from a stored model. Touches no private data and costs nothing."""
    check_target(out, table=True)
    written = load(model).write(out, rows, seed=seed, where=where)
    output.print(f"{written:,} rows written to {out}; no budget was spent.")


@app.command()
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
    workload: WorkloadOption = None,
    setting: SettingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run would spend, step by step, without opening the data."""
    public = _schema(schema, domain, table)
    budget, steps = plan_run(
        public, epsilon=epsilon, delta=delta, method=method, settings=_settings(method, setting, workload)
    )
    if as_json:
        listed = [{name: getattr(step, name) for name in PlannedStep.__slots__} for step in steps]
        facts = {"method": method, "epsilon": epsilon, "delta": delta, "rho": float(budget.rho)}
        print_json({**facts, "reason": reason_of(public, method), "steps": listed})
        return
    output.print(_plan_table(method, budget, steps, reason_of(public, method)))
    if table is not None:
        book = as_ledger(ledger, table)
        spent, _ = book.spent()
        cap = book.cap
        output.print(
            f"Spent on {table} so far: epsilon {spent:.6g}" + (f" of a cap of {cap:g}." if cap else "; no cap is set.")
        )


@app.command()
def schema(
    table: TablePath,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the draft goes; otherwise it is printed.")
    ] = None,
) -> None:
    """Draft a schema from the names and types of a table's columns. Rows are not used; open facts are marked so."""
    drafted = as_schema(None, table)
    if out is None:
        sys.stdout.write(drafted.to_yaml())
        return
    check_target(out, table=False)
    drafted.save(out)
    output.print(f"Draft written to {out}. Declare what is public; a run discovers the rest inside its own budget.")


@app.command()
def methods(as_json: JsonOption = False) -> None:
    """List the methods: what each is good for, and what was corrected to make it private."""
    if as_json:
        listed = {
            name: {
                **{field: getattr(method.info, field) for field in method.info.__slots__},
                "accounting": method.accounting,
                "settings": default_settings(name),
            }
            for name, method in METHODS.items()
        }
        print_json(listed)
        return
    for name, method in METHODS.items():
        output.print(f"[bold]{name}[/bold]  {method.info.title}")
        output.print(f"  paper:      {method.info.paper}")
        output.print(f"  good for:   {method.info.good_for}")
        output.print(f"  guarantee:  {_guarantee(method.accounting)}")
        output.print(f"  corrected:  {method.info.corrected}")
        settings = ", ".join(f"{key}={value}" for key, value in default_settings(name).items())
        output.print(f"  settings:   {settings or 'none'}\n")


@app.command()
def ledger(
    table: TablePath,
    cap: Annotated[
        float | None, typer.Option(help="Most epsilon that all runs on this table together may spend.")
    ] = None,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what has been spent on a table, by which run; set what it may ever spend."""
    book = as_ledger(ledger, table)
    if cap is not None:
        book.set_cap(cap)
    runs = book.runs()
    spent, spent_delta = book.spent()
    if as_json:
        print_json(
            {
                "table": book.identity,
                "ledger": str(book.path),
                "cap": book.cap,
                "epsilon": spent,
                "delta": spent_delta,
                "runs": [_run_json(run) for run in runs],
            }
        )
        return
    _print_ledger(book, runs, spent, spent_delta)


def _version(value: bool) -> None:
    if value:
        output.print(f"lookalike {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private synthetic tables."""


add_commands(app)


def main() -> NoReturn:
    """Run the command line; a user's mistake ends in one paragraph and exit code 2, never in a traceback."""
    try:
        app()
    except LookalikeError as error:
        notes.print(f"Error: {error}", markup=False, style="red" if notes.is_terminal else None)
        sys.exit(2)
    except KeyboardInterrupt:
        notes.print("Stopped. What was charged stays charged; see 'lookalike ledger'.")
        sys.exit(130)
    sys.exit(0)


def _schema(schema: Path | None, domain: Path | None, table: Path | None) -> Schema:
    if schema is not None and domain is not None:
        raise SchemaError("Give the public facts about the columns with --schema or with --domain, not with both.")
    if schema is None and domain is None and table is None:
        raise SchemaError("Name a table, or give --schema FILE.yaml or --domain FILE.json.")
    return Schema.from_domain_json(domain) if domain is not None else as_schema(schema, table)


def _generator(name: str) -> Generation:
    check_generator(name)
    return "gum" if name == "gum" else "model"


def _neighbours(relation: str, rows: int) -> Neighbours:
    known: dict[str, Relation] = {"add-remove": "add-remove", "replace": "replace"}
    return Neighbours(known.get(relation, relation), rows)  # type: ignore[arg-type]


def _settings(method: str, given: list[str] | None, workload: str | None) -> dict[str, Any]:
    """Settings from NAME=VALUE texts, each read as JSON where it is JSON, and the workload if one is given."""
    settings: dict[str, Any] = {}
    if workload is not None:
        takers = [name for name in METHODS if "workload" in default_settings(name)]
        if method in METHODS and method not in takers:
            raise SchemaError(f"{method} takes no workload; the methods that do are {', '.join(takers)}.")
        settings["workload"] = read_workload(workload)
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r} has no value; write --set NAME=VALUE.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


@contextmanager
def _rescue(release: Release, book: Ledger) -> Generator[None]:
    """Keep the model beside the ledger when its table cannot be written: the budget for it is spent."""
    try:
        yield
    except InputError as error:
        if book.path is None:
            raise
        kept = book.path.with_name(f"{book.path.stem}-run{len(book.runs())}.lookalike")
        try:
            release.fitted.save(kept)
        except LookalikeError:
            raise error from None
        raise InputError(
            f"{error} The budget is spent, so the model was kept at {kept}: 'lookalike sample {kept} -o OUT' makes the "
            "table without spending again."
        ) from error


def _guarantee(accounting: str) -> str:
    return {
        "gdp": "(epsilon, delta)-DP by the exact Gaussian-DP curve",
        "zcdp": "(epsilon, delta)-DP by zero-concentrated DP",
    }[accounting]


def _plan_table(method: str, budget: Budget, steps: tuple[PlannedStep, ...], reason: str | None) -> Table:
    unit = f"rho {float(budget.rho):.6g} ({budget.accounting})"
    title = f"Plan: {method}, epsilon {budget.epsilon:g}, delta {budget.delta:g}, {unit}"
    table = Table(title=title, title_justify="left", caption=reason, caption_justify="left")
    for heading in ("step", "mechanism", "releases", "share", "what"):
        table.add_column(heading, justify="right" if heading in ("releases", "share") else "left")
    for step in steps:
        releases = str(step.releases) if step.releases >= 0 else "as it goes"
        table.add_row(step.step, step.mechanism, releases, f"{step.rho / float(budget.rho):.1%}", step.note)
    return table


def _print_release(release: Release, paths: dict[str, Path | None], as_json: bool) -> None:
    spent = release.spent
    if as_json:
        by_step = {step: float(rho) for step, rho in spent.by_step().items()}
        print_json(
            {
                **{name: str(path) if path else None for name, path in paths.items()},
                "method": spent.method,
                "epsilon": spent.epsilon,
                "epsilon_spent": spent.epsilon_spent,
                "delta": spent.delta,
                "private": spent.private,
                "rho_by_step": by_step,
            }
        )
        return
    bill = f"epsilon {spent.epsilon_spent:.4g} of {spent.epsilon:g}, delta {spent.delta:g}"
    if spent.private:
        output.print(f"Spent: {bill}, hiding {spent.neighbours}.")
    else:
        output.print(f"NOT PRIVATE: this release has no differential privacy, whatever was charged ({bill}).")
    for step, rho in spent.by_step().items():
        output.print(f"  {step}: {float(rho / spent.rho):.1%}")
    for name, path in paths.items():
        if path is not None:
            output.print(f"{name}: {path}")


def _print_ledger(book: Ledger, runs: list[RunSummary], spent: float, delta: float) -> None:
    table = Table(title=f"Ledger of {book.identity}", title_justify="left")
    for heading in ("run", "time (UTC)", "method", "epsilon", "delta", "spent", "charges", "status"):
        table.add_column(heading, no_wrap=True)
    for run in runs:
        values = (
            run.number,
            run.started[:16].replace("T", " "),
            run.method,
            f"{run.epsilon:g}",
            f"{run.delta:g}",
            f"{run.epsilon_counted:.6g}",
        )
        table.add_row(*map(str, values), str(len(run.charges)), run.status)
    output.print(table)
    cap = book.cap
    left = f"cap {cap:g}, left {max(0.0, cap - spent):.6g}" if cap is not None else "no cap; set one with --cap"
    output.print(f"Total: epsilon {spent:.6g}, delta {delta:.3g} ({left}).")
    output.print(f"File: {book.path}")


def _run_json(run: RunSummary) -> dict[str, Any]:
    charges = [
        {"step": c.step, "mechanism": c.mechanism, "releases": c.releases, "rho": float(c.rho), "detail": c.detail}
        for c in run.charges
    ]
    names = ("number", "started", "method", "epsilon", "delta", "accounting", "neighbours", "status", "epsilon_counted")
    return {**{name: getattr(run, name) for name in names}, "charges": charges}
