"""The commands that judge or ask a release: evaluate, compare, query, deniability. Thin: parse, call, print."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.cli.options import ModelSizeOption
from lookalike.cli.terminal import notes, print_json, print_table, progress_bar
from lookalike.errors import SchemaError
from lookalike.models.archive import MODEL_MB
from lookalike.pipeline import as_schema, synthesize
from lookalike.places import check_apart, check_target
from lookalike.release import load, write_page
from lookalike.schema.schema import Schema

SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="YAML file with the public facts about the columns.")
]
DomainOption = Annotated[
    Path | None, typer.Option("--domain", help="JSON object {column: number of codes}, for integer-coded tables.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
RealPath = Annotated[Path, typer.Argument(metavar="REAL", help="The private table.")]


def add_commands(app: typer.Typer) -> None:
    """Put the commands of this module on the command line."""
    for command in (evaluate, compare, query, deniability):
        app.command()(command)


def evaluate(
    real: RealPath,
    synth: Annotated[Path, typer.Argument(metavar="SYNTH", help="The synthetic table.")],
    schema: SchemaOption = None,
    domain: DomainOption = None,
    group_by: Annotated[str | None, typer.Option(help="Column whose groups get errors of their own.")] = None,
    ask: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION", help="'count where ...', may be repeated.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column that classifiers predict; none are trained without.")
    ] = None,
    holdout: Annotated[Path | None, typer.Option(help="Real rows that were not synthesised, to test on.")] = None,
    svm: Annotated[bool, typer.Option("--svm", help="Also an SVM for every column, as in PrivMRF (slow).")] = False,
    seed: Annotated[int, typer.Option(help="Fixes which marginals, ranges and rows are drawn.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Also write the internal report; NOT-PRIVATE is put into its name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a synthetic table with the real one. NOT PRIVATE: for the data holder's eyes only."""
    from lookalike.evaluate import real_data
    from lookalike.evaluate.report import internal_name, internal_report

    inputs = {"the real table": real, "the synthetic table": synth, "the real rows to test on": holdout}
    page = None if report is None else internal_name(report)
    check_apart({"--report": page}, {**inputs, "the schema": schema, "the domain": domain})
    public = _schema(schema, domain)
    if page is not None:
        check_target(page, table=False)
    with progress_bar() as progress:
        found = real_data.evaluate(
            real,
            synth,
            public,
            holdout=holdout,
            progress=progress,
            group_by=group_by,
            questions=tuple(ask or ()),
            target=target,
            svm=svm,
            seed=seed,
            ordered=() if domain is not None else None,
        )
    if as_json:
        print_json(found.numbers)
    else:
        print_table("NOT PRIVATE: real against synthetic", ("measure", "value", "reading"), found.table())
    if page is not None:
        write_page(page, internal_report(found))
        notes.print(f"Internal report (NOT PRIVATE): {page}")


def compare(
    real: RealPath,
    methods: Annotated[str, typer.Option(help="Names of methods, separated by commas; see 'lookalike methods'.")],
    schema: SchemaOption = None,
    domain: DomainOption = None,
    epsilons: Annotated[str, typer.Option(help="Budgets, separated by commas.")] = "0.1,1,3",
    repeats: Annotated[int, typer.Option(help="Runs of each method at each epsilon.")] = 3,
    delta: Annotated[float, typer.Option(help="Probability with which epsilon may be missed.")] = 1e-5,
    train_share: Annotated[float, typer.Option(help="Share of the rows to synthesise; the rest tests the SVM.")] = 1.0,
    svm: Annotated[bool, typer.Option("--svm", help="Also the mean SVM error over all columns (slow).")] = False,
    results: Annotated[
        Path, typer.Option(help="JSON lines, one per run; runs that are there are not repeated.")
    ] = Path("compare.NOT-PRIVATE.jsonl"),
    report: Annotated[
        Path | None, typer.Option(help="Also write a page with plots; NOT-PRIVATE is put into its name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run methods at several budgets and compare the outcomes. NOT PRIVATE, for no release: nothing enters the
    ledger.
    """
    from lookalike.evaluate.compare import jobs_of, judge_method, run_jobs, table_rows
    from lookalike.evaluate.report import comparison_report, internal_name

    page = None if report is None else internal_name(report)
    inputs = {"the real table": real, "the schema": schema, "the domain": domain}
    check_apart({"--results": results, "--report": page}, inputs)
    public = _schema(schema, domain)
    if page is not None:
        check_target(page, table=False)
    jobs = jobs_of([real.name], _names(methods), _numbers(epsilons), repeats, delta=delta, train_share=train_share)
    run = partial(judge_method, table=real, schema=public, synthesize=synthesize, svm=svm)
    with progress_bar() as progress:
        lines = run_jobs(
            jobs, run, results, progress=lambda done, total, job, _: progress(_job_text(job), done / total)
        )
    if as_json:
        print_json(lines)
    for line in lines:
        if "error" in line:
            notes.print(f"{line['method']} at epsilon {line['epsilon']}: {line['error']}")
    for measure in () if as_json else ("tvd.1", "tvd.2", "tvd.3", "cpu_seconds"):
        rows = table_rows(lines, measure)
        if rows:
            headings = tuple(rows[0])
            print_table(f"NOT PRIVATE: {measure}", headings, [[str(row[h]) for h in headings] for row in rows])
    if page is not None:
        write_page(page, comparison_report(lines))
        notes.print(f"Page with plots (NOT PRIVATE): {page}")


def query(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model stored by 'synth --model'.")],
    question: Annotated[str, typer.Argument(help="For instance: count by sex where age >= 30.")],
    level: Annotated[float, typer.Option(help="Probability with which the interval holds the true count.")] = 0.9,
    max_model_mb: ModelSizeOption = MODEL_MB,
    as_json: JsonOption = False,
) -> None:
    """Ask a stored model for a count with its error bars. Touches no private data and costs nothing."""
    fitted = load(model, max_mb=max_model_mb)
    found = fitted.query(question, level=level)
    if as_json:
        rows = [{"values": dict(zip(found.by, labels, strict=True)), **asdict(answer)} for labels, answer in found.rows]
        print_json({"question": question, "exact": found.exact, "rows": rows})
        return
    headings = (*found.by, "count", f"{level:.0%} interval", "sampling ±", "basis")
    rows = [
        (*labels, f"{a.value:,.0f}", f"{a.low:,.0f} to {a.high:,.0f}", f"{a.sampling_stddev:,.0f}", a.basis)
        for labels, a in found.rows
    ]
    print_table(question, headings, rows)
    notes.print(
        "The interval is about the true count of the private table and comes from the recorded noise. Sampling is how "
        "much the same count varies between tables drawn from the model."
    )
    if any(answer.basis == "bounded" for _, answer in found.rows):
        notes.print(
            "'bounded': not measured together; the interval is what measured counts allow, whatever the association."
        )
    if not found.exact:
        notes.print("A bound cuts a bin; values in the bin count as evenly spread.")


def deniability(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model of the method bsg.")],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="The private table.")],
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="CSV or Parquet file with the rows to check.")],
    omega: Annotated[str, typer.Option(help="Columns drawn anew: a number or a range such as 9-11; default all.")] = "",
    gamma: Annotated[float, typer.Option(help="Factor between probabilities of one class of seeds.")] = 4.0,
    k: Annotated[int, typer.Option(help="How many plausible seeds make a row deniable.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Count the real rows that could have been the seed of each given row. NOT PRIVATE: for the data holder."""
    from lookalike.evaluate.deniability import check_files

    found = check_files(model, table, rows, omega, gamma=gamma)
    if as_json:
        print_json(found.to_json(k))
        return
    headings = ("columns drawn anew", "fewest seeds", "median", "most", f"rows with {k} or more")
    title = f"NOT PRIVATE: exact counts of real rows that could be seeds of the {len(found.seeds):,} rows"
    print_table(title, headings, found.table(k))


def _schema(schema: Path | None, domain: Path | None) -> Schema:
    if (schema is None) == (domain is None):
        raise SchemaError("Give the columns with either --schema FILE.yaml or --domain FILE.json.")
    return as_schema(schema or domain or "")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in _names(text)]
    except ValueError:
        raise SchemaError(f"--epsilons {text!r} is no list of numbers; write for instance 0.1,1,3.") from None


def _job_text(job: Any) -> str:
    return f"{job.method}, epsilon {job.epsilon:g}, run {job.repeat + 1}"
