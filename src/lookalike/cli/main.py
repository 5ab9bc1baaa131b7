"""The command line: parse, call the pipeline, print. Results go to standard output, notes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

# Our matrix products are small: threads cost more than they save. Set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from lookalike.cli import asking, judging, options, planning, verifying
from lookalike.cli.audit import audit
from lookalike.cli.terminal import notes, output, print_json, progress_bar, table_of
from lookalike.errors import InputError, LookalikeError
from lookalike.guards import MAX_MODEL_MB

if TYPE_CHECKING:
    from lookalike.privacy.ledger import Ledger, RunSummary
    from lookalike.release import Release
    from lookalike.schema.schema import Schema

# Commands import what they use when they are called: help appears at once, without numeric libraries.

app = typer.Typer(
    name="lookalike",
    help="Differentially private synthetic tables: the same columns and formats, rows that belong to nobody.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def synth(
    table: options.TablePath,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the synthetic table; its suffix sets the format.")],
    schema: options.SchemaOption = None,
    domain: options.DomainOption = None,
    epsilon: options.EpsilonOption = 1.0,
    delta: options.DeltaOption = 1e-5,
    method: options.MethodOption = "auto",
    generator: Annotated[
        str,
        typer.Option(help="'model' draws rows from the method's model; 'gum' or 'mcf' update rows to fit marginals."),
    ] = "model",
    rows: options.RowsOption = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of rounding and sampling. The privacy noise has no seed.")
    ] = None,
    ledger: options.LedgerOption = None,
    model: Annotated[Path | None, typer.Option(help="Also store the model, for 'lookalike sample'.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the public report, an HTML page.")] = None,
    statement: verifying.StatementOption = None,
    title: verifying.TitleOption = "",
    issuer: verifying.IssuerOption = "",
    contact: verifying.ContactOption = "",
    neighbours: options.NeighboursOption = "add-remove",
    max_rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    workload: options.WorkloadOption = None,
    setting: options.SettingOption = None,
    escape_formulas: options.FormulaOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Make a synthetic table from a private one, within a privacy budget."""
    from lookalike.pipeline import as_ledger, check_generator, execute, prepare, reason_of
    from lookalike.places import check_apart, check_target, with_side_files
    from lookalike.privacy.kernel.neighbours import Neighbours
    from lookalike.release import write_page

    book = as_ledger(ledger, table)
    inputs = {"the private table": table, "the schema": schema, "the domain": domain, "the workload": _file(workload)}
    check_apart({"--ledger": ledger}, inputs)
    beside = {f"a file of the ledger ({path})": path for path in with_side_files(book.path)}
    written = {"--out": out, "--model": model, "--report": report, "--statement": statement}
    check_apart(written, {**inputs, **beside})
    public = options.schema_of(schema, domain, table)
    check_target(out, table=True)
    for path in filter(None, (model, report, statement)):
        check_target(path, table=False)
    made_by = check_generator(generator)
    run = prepare(
        table,
        schema=public,
        epsilon=epsilon,
        delta=delta,
        method=method,
        neighbours=Neighbours(cast(Any, neighbours), max_rows_per_person),
        person=person,
        settings=options.settings_of(method, setting, workload),
    )
    if not as_json:
        notes.print(planning.plan_table(method, run.budget, run.plan, reason_of(run.schema, method)))
    with progress_bar() as progress:
        release = execute(run, generator=made_by, rows=rows, seed=seed, ledger=book, progress=progress)
    with _rescue(release, book):
        release.write(out, escape_formulas=escape_formulas)
        if model is not None:
            release.fitted.save(model)
        about = {"title": title or out.stem, "issuer": issuer, "contact": contact}
        if report is not None:
            write_page(report, release.report(**about))
        if statement is not None:
            verifying.write_statement(statement, release, book, **about)
    files = {"out": out, "model": model, "report": report, "statement": statement, "ledger": book.path}
    _print_release(release, files, as_json)
    for note in release.notes:
        notes.print(note)
    if not as_json:
        _note_made_up(run.schema, release.schema, drafted=schema is None and domain is None)


@app.command()
def sample(
    model: options.ModelPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the synthetic table; its suffix sets the format.")],
    rows: options.RowsOption = None,
    where: Annotated[
        str | None, typer.Option(help='Only rows that satisfy a condition such as "age >= 65 and sex = F".')
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sample.")] = None,
    escape_formulas: options.FormulaOption = False,
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
) -> None:
    """Draw more rows from a stored model. Reads no private data and costs nothing."""
    from lookalike.places import check_apart, check_target
    from lookalike.release import load

    check_apart({"--out": out}, {"the model": model})
    check_target(out, table=True)
    fitted = load(model, max_mb=max_model_mb)
    written = fitted.write(out, rows, seed=seed, where=where, escape_formulas=escape_formulas)
    output.print(f"{written:,} rows written to {out}; no budget was spent.")


@app.command()
def ledger(
    table: options.TablePath,
    cap: Annotated[
        float | None, typer.Option(help="Set the maximum epsilon that all runs on this table together may spend.")
    ] = None,
    ledger: options.LedgerOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what each run has spent on a table; set the maximum that may ever be spent on it."""
    from lookalike.pipeline import as_ledger
    from lookalike.places import check_apart
    from lookalike.privacy.ledger import epsilon_json

    check_apart({"--ledger": ledger}, {"the private table": table})
    book = as_ledger(ledger, table)
    if cap is not None:
        book.set_cap(cap)
    runs = book.runs()
    spent, spent_delta = book.spent()
    if not as_json:
        _print_ledger(book, runs, spent, spent_delta)
        return
    totals = {"cap": book.cap, "epsilon": epsilon_json(spent), "delta": spent_delta}
    listed = [_run_json(run) for run in runs]
    print_json({"table": book.identity, "ledger": str(book.path), **totals, "runs": listed})


def _version(value: bool) -> None:
    if value:
        from lookalike import __version__

        output.print(f"lookalike {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private synthetic tables."""


for command in (*planning.COMMANDS, *asking.COMMANDS, *verifying.COMMANDS, *judging.COMMANDS, audit):
    app.command()(command)


def main() -> NoReturn:
    """Run the command line. A user's mistake ends in one paragraph and exit code 2, not in a traceback."""
    try:
        code = app(standalone_mode=False)
    except LookalikeError as error:
        notes.print(f"Error: {error}", style="red" if notes.is_terminal else None)
        sys.exit(2)
    except MemoryError:
        notes.print("Error: There is not enough memory. What was charged stays charged; see 'lookalike ledger TABLE'.")
        sys.exit(2)
    except Exception as error:
        # An interrupt, or a mistake in the command itself. Which classes these are depends on the version of typer.
        if isinstance(error.__cause__, KeyboardInterrupt):
            notes.print("Stopped. What was charged stays charged; see 'lookalike ledger TABLE'.")
            sys.exit(130)
        if not hasattr(error, "format_message"):
            raise
        _print_usage(error)
        sys.exit(getattr(error, "exit_code", 2))
    sys.exit(code if isinstance(code, int) else 0)


def _print_usage(error: Any) -> None:
    context, message = getattr(error, "ctx", None), error.format_message()
    if message.startswith("Usage:"):
        notes.print(message)
        return
    if context is not None:
        notes.print(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
    notes.print(f"Error: {message}")


def _file(workload: str | None) -> Path | None:
    """Return the path of a workload that is a file; None for a workload in words, such as all-3way."""
    return Path(workload) if workload is not None and Path(workload).suffix else None


@contextmanager
def _rescue(release: Release, book: Ledger) -> Generator[None]:
    """Save the model beside the ledger when the table cannot be written: the budget for it is spent."""
    try:
        yield
    except InputError as error:
        if book.path is None:
            raise
        kept = book.path.with_name(f"{book.path.name}-run{len(book.runs())}.lookalike")
        try:
            release.fitted.save(kept)
        except LookalikeError:
            raise error from None
        raise InputError(
            f"{error} The budget is spent, so the model was saved as {kept}. Make the table from it without "
            f"spending again: 'lookalike sample {kept} -o OUT'."
        ) from error


def _print_release(release: Release, paths: dict[str, Path | None], as_json: bool) -> None:
    from lookalike.privacy.ledger import epsilon_json, epsilon_text

    spent = release.spent
    if as_json:
        written = {name: str(path) if path else None for name, path in paths.items()}
        charged = {"epsilon": spent.epsilon, "epsilon_spent": epsilon_json(spent.epsilon_spent), "delta": spent.delta}
        by_step = {step: float(rho) for step, rho in spent.by_step().items()}
        outcome = {"private": spent.private, "rho_by_step": by_step, "notes": list(release.notes)}
        print_json({**written, "method": spent.method, **charged, **outcome})
        return
    bill = f"epsilon {spent.epsilon:g}, delta {spent.delta:g}"
    if spent.private:
        charges = epsilon_text(spent.epsilon_spent)
        output.print(f"Spent: {bill}, hiding {spent.neighbours}. (The charges add up to epsilon {charges}.)")
    else:
        output.print(f"NOT PRIVATE: this release has no differential privacy, although {bill} were asked for.")
        output.print("It counts as infinite epsilon in the ledger.")
    for step, rho in spent.by_step().items():
        output.print(f"  {step}: {float(rho / spent.rho):.1%}")
    for name, path in paths.items():
        if path is not None:
            output.print(f"{name}: {path}")


def _note_made_up(before: Schema, after: Schema, *, drafted: bool) -> None:
    """Name the columns that were taken for identifiers or free text, by name or by discovery."""
    from lookalike.schema.columns import Identifier

    named = [c.name for c in before.columns if isinstance(c, Identifier) and not c.person] if drafted else []
    found = [c.name for c in after.columns if isinstance(c, Identifier) and not isinstance(before[c.name], Identifier)]
    reasons = {
        "Their names suggest identifiers, so their values were not read": named,
        "Too few of their values are frequent enough to be released": found,
    }
    for reason, names in reasons.items():
        if names:
            notes.print(
                f"Made-up texts: {', '.join(names)}. {reason}; the synthetic values mean nothing.\n"
                "If these columns are categories or numbers, declare them: 'lookalike schema' drafts a file."
            )


def _print_ledger(book: Ledger, runs: list[RunSummary], spent: float, delta: float) -> None:
    from lookalike.privacy.ledger import epsilon_text

    rows = []
    for run in runs:
        amounts = (f"{run.epsilon:g}", f"{run.delta:g}", epsilon_text(run.epsilon_counted))
        noise = run.noise if run.private else f"{run.noise}: NOT PRIVATE"
        started = run.started[:16].replace("T", " ")
        rows.append((run.number, started, run.method, *amounts, noise, len(run.charges), run.status))
    headings = ("run", "time (UTC)", "method", "epsilon", "delta", "counted", "noise", "charges", "status")
    output.print(table_of(f"Ledger of {book.identity}", headings, rows))
    cap = book.cap
    left = f"cap {cap:g}, left {max(0.0, cap - spent):.6g}" if cap is not None else "no cap; set one with --cap"
    output.print(f"Total: epsilon {epsilon_text(spent)}, delta {delta:.3g} ({left}).")
    output.print("A run counts with its whole epsilon once anything was charged, and as infinite without secret noise.")
    output.print(f"File: {book.path}")


def _run_json(run: RunSummary) -> dict[str, Any]:
    from lookalike.privacy.ledger import epsilon_json

    facts = {name: getattr(run, name) for name in run.__slots__}
    facts["charges"] = [{**asdict(charge), "rho": float(charge.rho)} for charge in run.charges]
    return {**facts, "private": run.private, "epsilon_counted": epsilon_json(run.epsilon_counted)}
