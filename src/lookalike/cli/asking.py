"""The commands that ask about a release: query and verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, output, print_json, print_table
from lookalike.guards import MAX_MODEL_MB

if TYPE_CHECKING:
    from lookalike.models.answers import AnsweredQuestion


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
        Path | None, typer.Option("--model", help="A stored model of the release, which must match, too.")
    ] = None,
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
    as_json: options.JsonOption = False,
) -> None:
    """Check that a privacy statement, the ledger and the model agree. Exits with code 1 where they differ."""
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


COMMANDS = (query, verify)


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
