"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lookalike.errors import InputError, SchemaError
from lookalike.pipeline import as_schema
from lookalike.privacy.kernel.neighbours import Neighbours, Relation
from lookalike.schema.schema import Schema
from lookalike.selection.workload import read_workload
from lookalike.synthesizers import METHODS, default_settings

TablePath = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file with the private rows.")]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="YAML file with the public facts about the columns; values outside are clamped, or count as 'other'.",
    ),
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
NeighboursOption = Annotated[
    str, typer.Option("--neighbours", help="'add-remove' or 'replace': what one person's data may change.")
]
RowsPerPersonOption = Annotated[int, typer.Option("--max-rows-per-person", help="Most rows that belong to one person.")]
PersonOption = Annotated[
    str | None, typer.Option("--person", help="Column that says whose row it is; surplus rows go.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
FormulaOption = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="Put an apostrophe before texts of a CSV file that a spreadsheet would run as formulas.",
    ),
]
ModelSizeOption = Annotated[
    float, typer.Option("--max-model-mb", help="Most memory that a model file may take, in MiB.")
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="Ledger file; by default one per table.")]


def schema_of(schema: Path | None, domain: Path | None, table: Path | None) -> Schema:
    """The schema that was given, or the draft of the table's."""
    if schema is not None and domain is not None:
        raise SchemaError("Give the public facts about the columns with --schema or with --domain, not with both.")
    if schema is None and domain is None and table is None:
        raise SchemaError("Name a table, or give --schema FILE.yaml or --domain FILE.json.")
    return Schema.from_domain_json(domain) if domain is not None else as_schema(schema, table)


def neighbours_of(relation: str, rows: int) -> Neighbours:
    known: dict[str, Relation] = {"add-remove": "add-remove", "replace": "replace"}
    return Neighbours(known.get(relation, relation), rows)  # type: ignore[arg-type]


def settings_of(method: str, given: list[str] | None, workload: str | None) -> dict[str, Any]:
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
        except (ValueError, RecursionError):
            settings[name] = value
    return settings
