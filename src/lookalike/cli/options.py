"""Options that several commands share, and what their texts are turned into."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.errors import InputError, SchemaError

if TYPE_CHECKING:
    from lookalike.schema.hints import Hints
    from lookalike.schema.schema import Schema

_FILES = "CSV, TSV, JSON lines, Parquet, Feather, Excel, Stata, SAS or SPSS file"
TablePath = Annotated[
    Path, typer.Argument(metavar="TABLE", help=f"{_FILES} with the private rows; - is standard input.")
]
RealPath = Annotated[Path, typer.Argument(metavar="REAL", help=f"{_FILES} with the private rows.")]
OutOption = Annotated[
    Path,
    typer.Option("--out", "-o", help="File for the synthetic table; its suffix sets the format. - is standard output."),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model stored by 'lookalike synth --model'.")]
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
TypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="COLUMN=TYPE",
        help="Public type of a column: integer, number, category, boolean, date, datetime or id. A date may name its "
        "format, such as day=date:%d.%m.%Y; may be repeated, as the next four.",
    ),
]
RangeOption = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="COLUMN=LOW:HIGH", help="Public bounds of a column, such as age=0:120."),
]
ValuesOption = Annotated[
    list[str] | None,
    typer.Option("--values", metavar="COLUMN=A,B", help="Public list of all values of a column, such as sex=F,M."),
]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="COLUMN", help="A column of identifiers or free text: made up anew, never read."),
]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out of the table.")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", help="Encoding of a text file, such as latin-1. Results are UTF-8.")
]
DelimiterOption = Annotated[
    str | None,
    typer.Option("--delimiter", help="What separates fields of a CSV file, such as ; or 'tab'; else its header tells."),
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy budget of a run; smaller is stronger.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="Probability that the bound epsilon fails to hold.")]
MethodOption = Annotated[str, typer.Option("--method", "-m", help="Name of a method; see 'lookalike methods'.")]
SettingOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated.")
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="SETS",
        help="Marginals that matter, for methods with a workload: all-3way, target:COLUMN, or a YAML or JSON file.",
    ),
]
NeighboursOption = Annotated[
    str,
    typer.Option(
        "--neighbours", help="What one person may change: 'add-remove' (a row more or less) or 'replace' (another row)."
    ),
]
RowsPerPersonOption = Annotated[
    int, typer.Option("--max-rows-per-person", help="Maximum number of rows of one person that are used.")
]
PersonOption = Annotated[
    str | None,
    typer.Option("--person", help="Column that says whose row it is; rows beyond a person's maximum are dropped."),
]
RowsOption = Annotated[
    int | None, typer.Option("--rows", help="Number of rows to make; by default the noisy number of real rows.")
]
RulesOption = Annotated[
    bool | None,
    typer.Option(
        "--rules/--no-rules",
        help="Look for rules between columns, inside the budget; by default where the schema leaves facts open.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Stop after discovery, with exit code 3, if a column is a guess; what was spent until then is counted.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
FormulaOption = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="Put an apostrophe before texts of a CSV file that a spreadsheet would run as formulas.",
    ),
]
ModelSizeOption = Annotated[
    float, typer.Option("--max-model-mb", help="Maximum memory that a model file may take, in MiB.")
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="Ledger file; by default one for each table.")]


def table_of(path: Path, encoding: str, delimiter: str | None, drop: list[str] | None) -> os.PathLike[str]:
    """Return the file of a table with how to read it."""
    from lookalike.inputs import table_at

    mark = "\t" if delimiter in ("tab", "\\t") else delimiter
    return table_at(path, encoding=encoding, delimiter=mark, dropped=tuple(drop or ()))


def hints_of(
    types: list[str] | None, ranges: list[str] | None, values: list[str] | None, ids: list[str] | None
) -> Hints:
    """Return what the options say about single columns."""
    from lookalike.schema.hints import Hints

    return Hints(tuple(types or ()), tuple(ranges or ()), tuple(values or ()), tuple(ids or ()))


def schema_of(
    schema: Path | None,
    domain: Path | None,
    table: os.PathLike[str] | None = None,
    hints: Hints | None = None,
) -> Schema:
    """Return the schema of the file that was given, or else a draft from the names and types of the table's columns."""
    from lookalike.inputs import as_schema
    from lookalike.schema.enforce import aligned
    from lookalike.schema.schema import Schema

    if schema is not None and domain is not None:
        raise SchemaError("Both --schema and --domain were given. Describe the columns with one of them.")
    if schema is None and domain is None and table is None:
        raise SchemaError(
            "Nothing describes the columns. Give --schema FILE.yaml or --domain FILE.json; 'lookalike plan' also "
            "accepts a TABLE."
        )
    found = Schema.from_domain_json(domain) if domain is not None else as_schema(schema, table)
    return aligned(hints.applied(found)) if hints is not None else found


def settings_of(method: str, given: list[str] | None, workload: str | None) -> dict[str, Any]:
    """Return the settings of NAME=VALUE texts, each value read as JSON where it is JSON, and the workload if given."""
    settings: dict[str, Any] = {}
    if workload is not None:
        from lookalike.selection.workload import read_workload
        from lookalike.synthesizers import METHODS, default_settings

        with_workload = [name for name in METHODS if "workload" in default_settings(name)]
        if method in METHODS and method not in with_workload:
            raise SchemaError(
                f"The method {method} has no workload. Leave out --workload, or use {', '.join(with_workload)}."
            )
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
