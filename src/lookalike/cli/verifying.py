"""The privacy statement of a release on the command line: verify, and the options of synth that write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli import options
from lookalike.cli.terminal import output, print_json
from lookalike.guards import MAX_MODEL_MB

if TYPE_CHECKING:
    from lookalike.privacy.ledger import Ledger
    from lookalike.release import Release

StatementOption = Annotated[
    Path | None, typer.Option("--statement", help="Also write the privacy statement, a JSON file for machines.")
]
TitleOption = Annotated[str, typer.Option("--title", help="Name of the table in the report and the statement.")]
IssuerOption = Annotated[str, typer.Option("--issuer", help="Who publishes it, for the report and the statement.")]
ContactOption = Annotated[str, typer.Option("--contact", help="Whom to ask, for the report and the statement.")]


def write_statement(path: Path, release: Release, book: Ledger, **about: str) -> None:
    """Write the privacy statement of a release to a file."""
    from lookalike.release import write_page
    from lookalike.statement import statement_of

    write_page(path, json.dumps(statement_of(release.fitted, book, **about), indent=2, ensure_ascii=False) + "\n")


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


COMMANDS = (verify,)


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
