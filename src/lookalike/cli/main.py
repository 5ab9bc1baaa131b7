"""The command line: `main`, the list of all commands, and the commands ledger, query, verify and serve.

Results go to standard output, notes to standard error.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

# Our matrix products are small: threads cost more than they save. Set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from lookalike.cli import judging, options, planning, running
from lookalike.cli.terminal import notes, output, print_json, print_table, table_of
from lookalike.errors import DoubtfulError, LookalikeError, MissingExtraError
from lookalike.guards import MAX_MODEL_MB

if TYPE_CHECKING:
    from lookalike.models.answers import AnsweredQuestion
    from lookalike.privacy.ledger import Ledger, RunSummary

# Commands import what they use when they are called: help appears at once, without numeric libraries.

app = typer.Typer(
    name="lookalike",
    help="Differentially private synthetic tables: the same columns and formats, rows that belong to nobody.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def ledger(
    table: options.TablePath,
    table_name: options.TableNameOption = None,
    cap: Annotated[
        float | None, typer.Option(help="Set the maximum epsilon that all runs on this table together may spend.")
    ] = None,
    composition: Annotated[
        str,
        typer.Option(
            help="How the runs under --cap are added up: 'sum' of their epsilons, 'gdp' or 'zcdp' of their rho.",
            show_default=True,
        ),
    ] = "sum",
    cap_delta: Annotated[float, typer.Option(help="Delta of a cap by 'gdp' or 'zcdp', of all runs together.")] = 1e-5,
    ledger: options.LedgerOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what each run has spent on a table; set the maximum that may ever be spent on it."""
    from lookalike.inputs import as_ledger, check_apart
    from lookalike.privacy.ledger import epsilon_json

    check_apart({"--ledger": ledger}, {"the private table": options.input_of(table)})
    book = as_ledger(ledger, options.table_of(table, "utf-8", None, None, table_name) if table_name else table)
    if cap is not None:
        book.set_cap(cap, cast(Any, composition), cap_delta)
    runs = book.runs()
    spent, spent_delta = book.spent()
    if not as_json:
        _print_ledger(book, runs, spent, spent_delta)
        return
    (together, how), limit = book.composed(), book.limit
    totals = {"cap": book.cap, "cap_composition": limit.composition if limit else None,
              "epsilon": epsilon_json(spent), "delta": spent_delta, "epsilon_composed": epsilon_json(together),
              "composed_by": how}  # fmt: skip
    listed = [_run_json(run) for run in runs]
    print_json({"table": book.identity, "ledger": str(book.path), **totals, "runs": listed})


def _print_ledger(book: Ledger, runs: list[RunSummary], spent: float, delta: float) -> None:
    from lookalike.privacy.composition import NAMES, mixed_neighbours
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
    cap, (together, how) = book.limit, book.composed()
    left = "no cap; set one with --cap" if cap is None else book.left()
    if cap is not None and cap.composition == "sum":
        left = f"cap {cap.epsilon:g}, left {max(0.0, cap.epsilon - spent):.6g}"
    output.print(f"Total: epsilon {epsilon_text(spent)}, delta {delta:.3g} ({left}).")
    if how != "sum":
        output.print(f"At the same delta all runs together cost at most epsilon {together:.4g}, by {NAMES[how]}.")
    if mixed := mixed_neighbours(run.neighbours for run in runs if run.charges):
        output.print(mixed)
    output.print(
        "A run counts with its whole epsilon once anything was charged; as infinite if its noise was not secret."
    )
    if any(run.status == STOPPED for run in runs):
        output.print("Strict runs that stopped count with what they had spent, rounded up.")
    output.print(f"File: {book.path}")
    resumable = journals_of(book.path) if book.path else {}
    if resumable:
        listed = ", ".join(map(str, resumable))
        output.print(f"Interrupted runs, which 'lookalike resume' finishes at no further cost: {listed}")


def _run_json(run: RunSummary) -> dict[str, Any]:
    from lookalike.privacy.ledger import epsilon_json

    facts = {name: getattr(run, name) for name in run.__slots__}
    facts["charges"] = [{**asdict(charge), "rho": float(charge.rho)} for charge in run.charges]
    return {**facts, "private": run.private, "epsilon_counted": epsilon_json(run.epsilon_counted)}


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


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of the tables that the page offers.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; by default the system chooses one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open a local page that leads from a table to its release, on this machine alone. Ctrl-C ends it."""
    try:
        from lookalike.web.app import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "starlette", "web", "The page") from None
    serve(folder, said=output.print, port=port, browser=browser)


def query(
    model: options.ModelPath,
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            help="'count by sex where age >= 30', 'mean of age by sex', 'median of age', 'quantile 0.9 of age' or "
            "'correlation of age and hours where sex = F'.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file for the answer, one line per group.")
    ] = None,
    level: Annotated[float, typer.Option(help="Probability with which an interval covers the true number.")] = 0.9,
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
    as_json: options.JsonOption = False,
) -> None:
    """Ask a stored model for counts, means, quantiles or correlations with error bars, without data and for free."""
    from lookalike.inputs import check_apart, check_target
    from lookalike.release import load, write_page

    if out is not None:
        check_apart({"--out": out}, {"the model": model})
        check_target(out, table=False)
    found = load(model, max_mb=max_model_mb).query(question, level=level)
    if out is not None:
        write_page(out, found.to_csv())
    if as_json:
        print_json(_as_json(found))
        return
    print_table(question, found.headings(level), found.texts())
    for note in found.notes():
        notes.print(note)
    if out is not None:
        notes.print(f"Answer written to {out}.")


def _as_json(found: AnsweredQuestion) -> dict[str, Any]:
    rows = []
    for (labels, _), record in zip(found.rows, found.records(), strict=True):
        named = {"value" if name == found.statistic else name: record[name] for name in list(record)[len(found.by) :]}
        rows.append({"values": dict(zip(found.by, labels, strict=True)), **named})
    facts = {"question": found.text, "statistic": found.statistic, "exact": found.exact, "left_out": found.left_out}
    return {**facts, "rows": rows}


def verify(
    statement: Annotated[
        Path, typer.Argument(metavar="STATEMENT", help="A file written by 'lookalike synth --statement'.")
    ],
    ledger: Annotated[Path, typer.Option("--ledger", help="The ledger of the table, which the statement must match.")],
    model: Annotated[
        Path | None, typer.Option("--model", help="A stored model of the release, which the statement must match, too.")
    ] = None,
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
    as_json: options.JsonOption = False,
) -> None:
    """Check that a privacy statement, the ledger and the model agree. The exit code is 1 if they differ."""
    from lookalike.release import load
    from lookalike.statement import differences, read_statement

    stated = read_statement(statement)
    found = differences(stated, ledger, None if model is None else load(model, max_mb=max_model_mb))
    if as_json:
        print_json({"agree": not found, "differences": found})
    else:
        output.print(_verdict(stated, found, with_model=model is not None))
    if found:
        raise typer.Exit(1)


def _verdict(stated: dict[str, Any], found: list[str], *, with_model: bool) -> str:
    guarantee = stated["guarantee"]
    who = "Statement, ledger and model" if with_model else "Statement and ledger"
    if found:
        return "\n".join([f"{who} DIFFER:", *(f"  {text}" for text in found)])
    holds = "" if guarantee["holds"] else " NOT PRIVATE: the noise is not secret, so nothing is guaranteed."
    return (
        f"{who} agree: run {stated['ledger']['run']}, epsilon {guarantee['epsilon']:g}, delta {guarantee['delta']:g}, "
        f"{len(stated['mechanisms'])} charges, hiding {stated['unit']['neighbours']}.{holds}"
    )


for command in (*running.COMMANDS, planning.inspect, ledger, serve, *planning.COMMANDS, query, verify,
                *judging.COMMANDS):  # fmt: skip
    app.command()(command)


_INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


def main() -> NoReturn:
    """Run the command line. A user's mistake ends with one paragraph and exit code 2, not with a traceback.

    A strict run that stopped because something was in doubt ends with exit code 3.
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
    except (Exception, KeyboardInterrupt) as error:
        # An interrupt, or a mistake in the command itself. Which classes these are depends on the version of typer.
        if isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt):
            code = _INTERRUPTED
        elif hasattr(error, "format_message"):
            _print_usage(error)
            sys.exit(getattr(error, "exit_code", 2))
        else:
            raise
    if code == _INTERRUPTED:  # some versions of typer return it
        notes.print(
            "Stopped. What was charged stays charged; see 'lookalike ledger TABLE'. If a run was going on, "
            "'lookalike resume TABLE' finishes it without paying again."
        )
    sys.exit(code if isinstance(code, int) else 0)


def _print_usage(error: Any) -> None:
    context, message = getattr(error, "ctx", None), error.format_message()
    if message.startswith("Usage:"):
        notes.print(message)
        return
    if context is not None:
        notes.print(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
    notes.print(f"Error: {_with_value(error, message)}")


def _with_value(error: Any, message: str) -> str:
    """Return the message with the value that was refused: not every version of typer names it."""
    found = getattr(error.__cause__, "errors", list[dict[str, Any]])()
    if not found or "input" not in found[0]:
        return message
    expected = {"float_parsing": "a number such as 0.5", "int_parsing": "a whole number such as 100"}
    given, kind = found[0]["input"], expected.get(found[0]["type"])
    reason = f"{given!r} is given; it must be {kind}." if kind else f"{error.message}: {given!r} is given."
    return message.replace(error.message, reason)
