"""The command line: parse, call the pipeline, print. Results go to standard output, notes to standard error."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

# Our matrix products are small: threads cost more than they save. Set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from lookalike.cli import asking, inspecting, judging, options, planning, running, verifying
from lookalike.cli.audit import audit
from lookalike.cli.terminal import notes, output, print_json, table_of
from lookalike.errors import DoubtfulError, LookalikeError

if TYPE_CHECKING:
    from lookalike.privacy.ledger import Ledger, RunSummary

# Commands import what they use when they are called: help appears at once, without numeric libraries.

app = typer.Typer(
    name="lookalike",
    help="Differentially private synthetic tables: the same columns and formats, rows that belong to nobody.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


for command in (*running.COMMANDS, *inspecting.COMMANDS):
    app.command()(command)


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
    from lookalike.inputs import as_ledger
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
    """Run the command line. A user's mistake ends in one paragraph and exit code 2, not in a traceback.

    A strict run that stopped because it could not see enough ends with exit code 3.
    """
    try:
        code = app(standalone_mode=False)
    except DoubtfulError as error:
        notes.print(str(error))
        sys.exit(3)
    except LookalikeError as error:
        notes.print(f"Error: {error}", style="red" if notes.is_terminal else None)
        sys.exit(2)
    except MemoryError:
        notes.print("Error: There is not enough memory. What was charged stays charged; see 'lookalike ledger TABLE'.")
        sys.exit(2)
    except Exception as error:
        # An interrupt, or a mistake in the command itself. Which classes these are depends on the version of typer.
        if isinstance(error.__cause__, KeyboardInterrupt):
            notes.print(
                "Stopped. What was charged stays charged; see 'lookalike ledger TABLE'. If a run was going on, "
                "'lookalike resume TABLE' finishes it without paying again."
            )
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


def _print_ledger(book: Ledger, runs: list[RunSummary], spent: float, delta: float) -> None:
    from lookalike.privacy.journal import journals_of
    from lookalike.privacy.ledger import epsilon_text
    from lookalike.privacy.stopping import STOPPED

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
    if any(run.status == STOPPED for run in runs):
        output.print("Strict runs that stopped count with what they had spent, rounded up.")
    output.print(f"File: {book.path}")
    resumable = journals_of(book.path) if book.path else {}
    if resumable:
        output.print(f"Interrupted, to be finished for free by 'lookalike resume': {', '.join(map(str, resumable))}")


def _run_json(run: RunSummary) -> dict[str, Any]:
    from lookalike.privacy.ledger import epsilon_json

    facts = {name: getattr(run, name) for name in run.__slots__}
    facts["charges"] = [{**asdict(charge), "rho": float(charge.rho)} for charge in run.charges]
    return {**facts, "private": run.private, "epsilon_counted": epsilon_json(run.epsilon_counted)}
