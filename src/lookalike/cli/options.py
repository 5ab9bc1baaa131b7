"""Options that several commands share, and how their texts become tables, schemas and settings."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.errors import InputError, SchemaError

if TYPE_CHECKING:
    from lookalike.schema.hints import Hints
    from lookalike.schema.schema import Schema

_FILES = "CSV, TSV, JSON lines, Parquet, Feather, Excel, Stata, SAS or SPSS file"
_DATABASES = (
    "a database as postgresql://HOST/DB, duckdb:///FILE or sqlite:///FILE, or Spark as spark://HOST:PORT or "
    "'local[*]', with --table"
)


def place(text: str) -> Path | str:
    """Return the path of a file, or the address of a database or of Spark as text: a path would lose its slashes."""
    return text if "://" in text or text.startswith("local[") else Path(text)


TablePath = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        parser=place,
        help=f"{_FILES} with the private rows, or {_DATABASES}; - is standard input.",
    ),
]
TableNameOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="SCHEMA.NAME",
        help="Table or view where TABLE is a database or Spark; for Spark also a path.",
    ),
]
RealPath = Annotated[Path, typer.Argument(metavar="REAL", help=f"{_FILES} with the private rows.")]
RealPlace = Annotated[
    Path, typer.Argument(metavar="REAL", parser=place, help=f"{_FILES} with the private rows, or {_DATABASES}.")
]
SynthPlace = Annotated[
    Path,
    typer.Argument(
        metavar="SYNTH", parser=place, help="The synthetic rows: a file, or a database or Spark with --synth-table."
    ),
]
SynthTableOption = Annotated[
    str | None, typer.Option("--synth-table", metavar="SCHEMA.NAME", help="The same as --table, for SYNTH.")
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        parser=place,
        metavar="FILE",
        help="File for the synthetic table; its suffix sets the format; - is standard output. Or a database or Spark.",
    ),
]
OutTableOption = Annotated[
    str | None,
    typer.Option("--out-table", metavar="SCHEMA.NAME", help="Name of the new table in a database or Spark."),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model stored by 'lookalike synth --model'.")]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="YAML file with the public facts about the columns; other values are clamped, or count as 'other'.",
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
        "format, such as day=date:%d.%m.%Y. Like the next four options, it may be repeated.",
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
    typer.Option(
        "--id", metavar="COLUMN", help="A column of identifiers or free text: never read, its values are made up."
    ),
]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out of the table.")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", help="Encoding of a text file, such as latin-1. Results are UTF-8.")
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter", help="Separator of fields in a CSV file, such as ; or 'tab'; by default found in the header."
    ),
]
RealEncodingOption = Annotated[
    str, typer.Option("--encoding", help="Encoding of the files with real rows, such as latin-1. SYNTH is UTF-8.")
]
RealDelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter", help="Separator of fields in the files with real rows; by default found in the header."
    ),
]
EpsilonOption = Annotated[float, typer.Option("--epsilon", "-e", help="Privacy budget of a run; smaller is stronger.")]
DeltaOption = Annotated[float, typer.Option("--delta", help="Probability with which the bound epsilon may fail.")]


def _methods_from(start: str) -> list[str]:
    """Names of methods, for completion in a shell."""
    from lookalike.synthesizers import METHODS

    return [name for name in METHODS if name.startswith(start)]


MethodOption = Annotated[
    str,
    typer.Option("--method", "-m", help="Name of a method; see 'lookalike methods'.", autocompletion=_methods_from),
]
SettingOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated.")
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="SETS",
        help="Marginals to be accurate on, for methods with a workload: all-3way, target:COLUMN, a YAML or JSON file.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        help="A column that will be predicted from the others: more of the budget goes to what depends on it. The name "
        "of the column is public.",
    ),
]
NeighboursOption = Annotated[
    str,
    typer.Option(
        "--neighbours",
        help="What the guarantee hides: that a row was added or removed ('add-remove') or exchanged ('replace').",
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
TablesOption = Annotated[
    int | None,
    typer.Option(
        "--tables",
        metavar="M",
        help="Also write M tables (people-1.csv, ...), each from its own draw of the model; 'combine' in Python makes "
        "intervals from them.",
    ),
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
        help="Stop after discovery, with exit code 3, if a column is in doubt; what was spent until then counts.",
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
    float, typer.Option("--max-model-mb", help="Maximum memory that a stored model may need, in MiB.")
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="Ledger file; by default one for each table.")]
PublicOption = Annotated[
    Path | None,
    typer.Option(
        "--public",
        metavar="FILE",
        help="A table of the same columns that anybody may read, such as an earlier release; the model follows it as "
        "far as the noisy counts support it.",
    ),
]
StatementOption = Annotated[
    Path | None, typer.Option("--statement", help="Also write the privacy statement, a JSON file for machines.")
]
TitleOption = Annotated[str, typer.Option("--title", help="Name of the table in the report and the statement.")]
IssuerOption = Annotated[str, typer.Option("--issuer", help="Who publishes it, for the report and the statement.")]
ContactOption = Annotated[str, typer.Option("--contact", help="Whom to ask, for the report and the statement.")]


def table_of(
    path: Path | str, encoding: str, delimiter: str | None, drop: list[str] | None, name: str | None = None
) -> Any:
    """Return a table: a file together with how it is read, or a table of a database or of Spark."""
    from lookalike.inputs import database_table, table_at

    if isinstance(path, str):
        return database_table(path, name, tuple(drop or ()), ask_password=_asked if sys.stdin.isatty() else None)
    if name is not None:
        raise InputError(f"--table {name} was given, but {path} is a file. Give the URL of a database, or no --table.")
    mark = "\t" if delimiter in ("tab", "\\t") else delimiter
    return table_at(path, encoding=encoding, delimiter=mark, dropped=tuple(drop or ()))


def _asked() -> str:
    return typer.prompt("Password for the database", hide_input=True, err=True)


def target_of(out: Path | str, name: str | None) -> Path | None:
    """Return the file to write the table to; None for a database, where the new table must be named."""
    if isinstance(out, str) and name is None:
        raise InputError(f"--out {out.partition(':')[0]} is not a file. Name the new table by --out-table NAME.")
    if isinstance(out, Path) and name is not None:
        raise InputError(f"--out-table {name} was given, but --out {out} is a file. Leave one of the two out.")
    if isinstance(out, Path):
        return out
    from lookalike.inputs import check_database_target

    check_database_target(out, str(name))
    return None


def input_of(path: Path | str | None) -> Path | None:
    """Return the file behind a table, which no result may overwrite; None for a server."""
    from lookalike.inputs import database_file

    return database_file(path) if isinstance(path, str) else path


def hints_of(
    types: list[str] | None, ranges: list[str] | None, values: list[str] | None, ids: list[str] | None
) -> Hints | None:
    """Return the facts about single columns that the options state, or None where no option is given."""
    if not (types or ranges or values or ids):
        return None
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


def settings_of(
    method: str, given: list[str] | None, workload: str | None, target: str | None = None
) -> dict[str, Any]:
    """Return the settings of a method: NAME=VALUE texts, whose values may be JSON, the workload and the target."""
    settings: dict[str, Any] = {}
    if workload is not None:
        from lookalike.selection.workload import read_workload

        _check_has(method, "workload")
        settings["workload"] = read_workload(workload)
    if target is not None:
        _check_has(method, "target")
        settings["target"] = target
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set {text!r} has no value; write --set NAME=VALUE.")
        try:
            settings[name] = json.loads(value)
        except (ValueError, RecursionError):
            settings[name] = value
    return settings


def _check_has(method: str, setting: str) -> None:
    """Refuse an option that the method does not have as a setting."""
    from lookalike.synthesizers import METHODS, default_settings

    able = [name for name in METHODS if setting in default_settings(name)]
    if method in METHODS and method not in able:
        raise SchemaError(f"The method {method} has no {setting}. Leave out --{setting}, or use {', '.join(able)}.")
