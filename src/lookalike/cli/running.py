"""The commands that make rows (synth, resume, sample), and tables, which exports the noisy marginals."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, output, plan_table, print_json, progress_bar
from lookalike.errors import DoubtfulError, InputError
from lookalike.guards import MAX_MODEL_MB

if TYPE_CHECKING:
    from lookalike.pipeline import PreparedRun
    from lookalike.privacy.ledger import Ledger
    from lookalike.release import Release


def synth(
    table: options.TablePath,
    out: options.OutOption,
    table_name: options.TableNameOption = None,
    out_table: options.OutTableOption = None,
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
    generator: Annotated[
        str,
        typer.Option(help="'model' draws rows from the method's model; 'gum' or 'mcf' update rows to fit marginals."),
    ] = "model",
    rows: options.RowsOption = None,
    tables: options.TablesOption = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for rounding and sampling. The privacy noise has no seed.")
    ] = None,
    ledger: options.LedgerOption = None,
    public: options.PublicOption = None,
    model: Annotated[Path | None, typer.Option(help="Also store the model, for 'lookalike sample'.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the public report, an HTML page.")] = None,
    write_schema: Annotated[
        Path | None, typer.Option("--write-schema", help="Also write the schema with what was discovered, as YAML.")
    ] = None,
    statement: options.StatementOption = None,
    title: options.TitleOption = "",
    issuer: options.IssuerOption = "",
    contact: options.ContactOption = "",
    neighbours: options.NeighboursOption = "add-remove",
    max_rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    workload: options.WorkloadOption = None,
    target: options.TargetOption = None,
    setting: options.SettingOption = None,
    rules: options.RulesOption = None,
    strict: options.StrictOption = False,
    escape_formulas: options.FormulaOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Make a synthetic table from a private one, within a privacy budget."""
    from lookalike.discovery.discover import Discovery
    from lookalike.inputs import STANDARD, as_ledger, check_apart, check_format, drawn_files
    from lookalike.outputs import check_outputs, write_results
    from lookalike.pipeline import Making, check_generator, execute, prepare, reason_of
    from lookalike.privacy.kernel.accounting import Neighbours
    from lookalike.synthesizers.base import check_draws

    file = options.table_of(table, encoding, delimiter, drop, table_name)
    book = as_ledger(ledger, file)
    read = options.input_of(table)
    inputs = {"the private table": read, "the schema": schema, "the domain": domain, "the workload": _file(workload)}
    inputs["the public table"] = public
    check_apart({"--ledger": ledger}, inputs)
    written = options.target_of(out, out_table)
    outputs = {"out": written, "model": model, "report": report, "write_schema": write_schema, "statement": statement}
    check_outputs(outputs, inputs, book, drawn := drawn_files(written, tables))
    run = prepare(
        file,
        schema=options.schema_of(schema, domain, file, options.hints_of(types, ranges, values, ids)),
        epsilon=epsilon,
        delta=delta,
        method=method,
        neighbours=Neighbours(cast(Any, neighbours), max_rows_per_person),
        person=person,
        discovery=Discovery(rules=rules, strict=strict),
        public=public,
        settings=options.settings_of(method, setting, workload, target),
    )
    generation = check_generator(generator, public)
    check_format(written or STANDARD, run.schema.names)
    if drawn:
        check_draws(run.method, generation)
    if not as_json:
        notes.print(plan_table(method, run.budget, run.plan, reason_of(run.schema, method)))
    if not as_json or written != STANDARD:  # where rows go to standard output, standard error is JSON alone
        warn_if_long(run, rows)
    told = {"out": str(out), **{name: str(path) for name, path in outputs.items() if path is not None}}
    about = {"title": title or (written.stem if written else out_table), "issuer": issuer, "contact": contact}
    told_all: dict[str, Any] = {"files": told, "escape_formulas": escape_formulas, "about": about}
    told_all |= {"out_table": out_table} if out_table else {}
    told_all |= {"drawn": {"files": [str(path) for path in drawn], "rows": rows, "seed": seed}} if drawn else {}
    making = Making(generation, rows, seed, told_all)
    finish = partial(write_results, told=told_all, book=book)
    with kept_if_stopped(write_schema, book, as_json=as_json), progress_bar() as progress:
        release = execute(run, making, ledger=book, progress=progress, finish=finish)
    print_summary(release, told, book, as_json=as_json, drawn=[str(path) for path in drawn])


def resume(
    table: options.TablePath,
    table_name: options.TableNameOption = None,
    run: Annotated[
        int | None, typer.Option("--run", help="Number of the run in the ledger; by default the only one.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File for the synthetic table, instead of the one named at the start."),
    ] = None,
    ledger: options.LedgerOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Finish a run that was interrupted. Its noisy answers so far are used again and cost nothing more."""
    from lookalike.inputs import as_ledger, check_apart
    from lookalike.outputs import check_outputs, write_results
    from lookalike.resuming import interrupted, only_run, reopen

    read = options.input_of(table)
    check_apart({"--ledger": ledger}, {"the private table": read})
    file = options.table_of(table, "utf-8", None, None, table_name)
    book = as_ledger(ledger, file)
    number = only_run(interrupted(file, ledger=book)) if run is None else run
    again = reopen(file, number, ledger=book)
    told = again.making.outputs or {}
    if out is not None:
        told = {**told, "files": {**told.get("files", {}), "out": str(out)}}
    if "out" not in told.get("files", {}):
        raise InputError(f"Run {number} was started without a file for its table. Give --out FILE.")
    if out is not None:
        told = {key: value for key, value in told.items() if key != "out_table"}
    kept = {name: Path(path) for name, path in told["files"].items() if name != "out" or "out_table" not in told}
    drawn = told.get("drawn", {}).get("files", [])
    check_outputs(dict(kept), {"the private table": read}, book, [Path(path) for path in drawn])
    notes.print(f"Run {number} continues. Its {again.answers} noisy answers so far are used again.")
    finish = partial(write_results, told=told, book=book)
    with progress_bar() as progress:
        release = again.finished(progress=progress, finish=finish)
    print_summary(release, told["files"], book, as_json=as_json, drawn=drawn)


def sample(
    model: options.ModelPath,
    out: options.OutOption,
    out_table: options.OutTableOption = None,
    rows: options.RowsOption = None,
    tables: options.TablesOption = None,
    where: Annotated[
        str | None, typer.Option(help='Only rows that satisfy a condition such as "age >= 65 and sex = F".')
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the sample.")] = None,
    escape_formulas: options.FormulaOption = False,
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
) -> None:
    """Draw more rows from a stored model. Reads no private data and costs nothing."""
    from lookalike.inputs import check_apart, check_target, drawn_files
    from lookalike.outputs import write_draws
    from lookalike.release import load

    target = options.target_of(out, out_table)
    drawn = drawn_files(target, tables)
    if target is None:
        written = load(model, max_mb=max_model_mb).write_into(out, str(out_table), rows, seed=seed, where=where)
        output.print(f"{written:,} rows written to {out_table}; no budget was spent.")
        return
    targets = {f"Table {number} of --tables": path for number, path in enumerate(drawn, 1)}
    check_apart({"--out": target, **targets}, {"the model": model})
    for path in (target, *drawn):
        check_target(path, table=True)
    fitted = load(model, max_mb=max_model_mb)
    write_draws(fitted, drawn, rows=rows, seed=seed, where=where, escape_formulas=escape_formulas)
    written = fitted.write(target, rows, seed=seed, where=where, escape_formulas=escape_formulas)
    said, where_to = (notes, "standard output") if str(out) == "-" else (output, str(out))
    further = f", and {_drawn_text(drawn)} of draws of the model" if drawn else ""
    said.print(f"{written:,} rows written to {where_to}{further}; no budget was spent.")


def tables(
    model: options.ModelPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the CSV files; it is created if need be.")],
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
) -> None:
    """Export the noisy tables of a stored model as CSV files with their variances. Costs nothing."""
    from lookalike.release import load

    written = load(model, max_mb=max_model_mb).write_noisy_tables(out)
    output.print(f"{len(written) - 1} noisy tables written to {out}; {written[0].name} lists them.")


COMMANDS = (synth, resume, sample, tables)


def warn_if_long(run: PreparedRun, rows: int | None) -> None:
    """Warn of a run that will take long, before anything is spent, and say what to do. No row is read for it."""
    from lookalike.forecast import forecast

    ahead = forecast(run.schema, run.plan, method=run.method.name, neighbours=run.neighbours, rows=rows)
    if ahead.resources is not None and ahead.is_long:
        notes.print(
            f"This run is predicted to take about {ahead.resources.seconds / 60:.0f} minutes for "
            f"{ahead.resources.rows:,} rows. Faster: --method mst or independent, fewer columns (--drop), fewer bins "
            "and values (--schema). If it is interrupted, 'lookalike resume TABLE' finishes it without paying again."
        )


@contextmanager
def kept_if_stopped(write_schema: Path | None, book: Ledger, *, as_json: bool) -> Generator[None]:
    """Write the schema that was found, with the counts that were paid for, if a strict run stops."""
    from lookalike.schema.explained import save_explained

    try:
        yield
    except DoubtfulError as error:
        if write_schema is not None:
            save_explained(error.schema, write_schema)
            notes.print(f"What was found is in {write_schema}. Declare more facts there, then run with --schema.")
        if as_json:
            written = None if write_schema is None else str(write_schema)
            facts = {"stopped": True, "epsilon_counted": error.counted, "write_schema": written}
            total = {"ledger": str(book.path) if book.path else None, "epsilon_of_all_runs": book.spent()[0]}
            print_json({**facts, **total, "unseen": [asdict(entry) for entry in error.unseen]})
        raise


def _file(workload: str | None) -> Path | None:
    """Return the path of a workload that is a file; None for a workload in words, such as all-3way."""
    return Path(workload) if workload is not None and Path(workload).suffix else None


# What a run prints at its end: five lines for a person, or JSON.


def _drawn_text(drawn: Sequence[str | Path]) -> str:
    return f"{drawn[0]} to {drawn[-1]}"


def print_summary(
    release: Release, files: dict[str, str], book: Ledger, *, as_json: bool, drawn: Sequence[str] = ()
) -> None:
    """Print how many rows were made, the method, the price, what could not be seen, and where the files are.

    Args:
        release: the finished run.
        files: what was written, by name.
        book: the ledger.
        as_json: print JSON instead of text.
        drawn: the tables of draws of the model that were written.
    """
    to_stdout = files.get("out") == "-"
    if as_json:
        print_json({**_facts(release, files, book), "tables": list(drawn)}, stderr=to_stdout)
    else:
        screen = notes if to_stdout else output
        files = {**files, "tables": _drawn_text(drawn)} if drawn else files
        for line in _lines(release, files, book):
            screen.print(line)
    for note in () if as_json and to_stdout else release.notes:
        if not note.startswith("Not seen: "):  # these are among the lines above
            notes.print(note)


def _lines(release: Release, files: dict[str, str], book: Ledger) -> list[str]:
    from lookalike.schema.unseen import unseen_text

    places = {**files, "ledger": str(book.path)} if book.path else files
    places = {name: "standard output" if path == "-" else path for name, path in places.items()}
    said = {"out": "", "write_schema": "schema "}
    listed = ", ".join(f"{said.get(name, f'{name} ')}{path}" for name, path in places.items())
    return [
        f"Rows: {_rows(release)}",
        f"Method: {_method(release)}",
        f"Spent: {release.spent.price_text} {budget_left(book)}",
        f"Not seen: {unseen_text(release.unseen, release.schema)}",
        f"Files: {listed}.",
    ]


def _method(release: Release) -> str:
    """Return the method that ran; where the columns that were found made `auto` choose another, also why."""
    from lookalike.synthesizers.base import create

    spent = release.spent
    reason = create(spent.method, {}).reason(release.schema.domain) if spent.method == "auto" else None
    if reason is None or spent.chosen == "mosaic":
        return f"{spent.method_text}."
    return f"{spent.method_text}, since {reason.partition(': ')[2]}"


def _rows(release: Release) -> str:
    made = f"{release.number_of_rows:,} of {len(release.schema.columns)} columns, all made up"
    if release.number_of_rows != release.fitted.rows:
        return f"{made}, as many as asked for."
    bounding = release.schema.bounding
    return f"{made}; the private table has about as many rows." if bounding is None else f"{made}. {bounding}"


def budget_left(book: Ledger) -> str:
    """Say what all runs on a table have spent, or what its cap leaves."""
    from lookalike.privacy.ledger import epsilon_text

    spent, cap = book.spent()[0], book.limit
    if cap is not None and cap.composition == "sum":
        return f"Left: epsilon {max(0.0, cap.epsilon - spent):.6g} of the cap of {cap.epsilon:g}."
    return f"All runs on this table: epsilon {epsilon_text(spent)}; {book.left()}."


def _facts(release: Release, files: dict[str, str], book: Ledger) -> dict[str, Any]:
    from lookalike.privacy.ledger import epsilon_json

    spent, total = release.spent, book.spent()
    named = {name: files.get(name) for name in ("out", "model", "report", "write_schema", "statement")}
    return {
        **named,
        "ledger": str(book.path) if book.path else None,
        "rows": release.number_of_rows,
        "method": spent.method,
        "chosen": spent.chosen or spent.method,
        "epsilon": spent.epsilon,
        "epsilon_spent": epsilon_json(spent.epsilon_spent),
        "delta": spent.delta,
        "private": spent.private,
        "epsilon_of_all_runs": epsilon_json(total[0]),
        "cap": book.cap,
        "rho_by_step": {step: float(rho) for step, rho in spent.by_step().items()},
        "not_seen": release.not_seen,
        "unseen": [asdict(entry) for entry in release.unseen],
        "notes": list(release.notes),
    }
