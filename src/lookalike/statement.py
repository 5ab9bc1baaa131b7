"""The privacy statement of a release: what is guaranteed and why, for machines; and the check of it against the ledger.

A statement is a JSON object; `statement_schema.json`, a JSON Schema, says what it holds. It is made from the account of
the run alone, so it is as public as the release. `differences` compares it with the ledger of the data holder and with
a stored model: each number that they share must be the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date
from fractions import Fraction
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from lookalike.errors import InputError, LedgerError
from lookalike.privacy.composition import epsilon_spent
from lookalike.privacy.kernel.accounting import ACCOUNTINGS, Budget, Charge, Neighbours
from lookalike.privacy.ledger import NO_NOISE, SYSTEM_ENTROPY, Ledger, RunSummary
from lookalike.release import FittedModel, Spent
from lookalike.schema.columns import Identifier
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS, create

FORMAT = 1
Statement = dict[str, Any]
_ALWAYS_PUBLIC = ("names of columns", "order of columns", "storage types of columns", "the method and its settings")
_STDDEV = re.compile(r"stddev ([0-9.e+-]+)(?: to ([0-9.e+-]+))?")
_MAX_DIFFERENCES = 50
_KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


def statement_schema() -> dict[str, Any]:
    """Return the JSON Schema of statements."""
    return json.loads(files("lookalike").joinpath("statement_schema.json").read_text(encoding="utf-8"))


def statement_of(
    fitted: FittedModel, book: Ledger, *, title: str = "", issuer: str = "", contact: str = ""
) -> Statement:
    """Return the privacy statement of a release whose run is in this ledger."""
    spent, schema = fitted.spent, fitted.schema
    run, declared = _run_of(book, spent)
    return {
        "format": FORMAT,
        "software": {"name": "lookalike", "version": version("lookalike")},
        "date": date.today().isoformat(),
        "title": title,
        "issuer": issuer,
        "contact": contact,
        "guarantee": _guarantee(spent),
        "unit": _unit(spent.neighbours, schema),
        "noise": {"source": run.noise, "distribution": _distribution(spent)},
        "mechanisms": [_mechanism(charge, spent.neighbours) for charge in spent.charges],
        "method": _method(spent, schema),
        "public": {"always": list(_ALWAYS_PUBLIC), "facts": _facts(schema), "table": spent.public},
        "schema": {"declared": declared, "released": schema.fingerprint()},
        "ledger": {"run": run.number, "started": run.started},
    }


def _run_of(book: Ledger, spent: Spent) -> tuple[RunSummary, str]:
    """Return the newest run of the ledger with these charges, and the fingerprint of the schema it began with."""
    for run in reversed(book.runs()):
        if run.charges == spent.charges:
            begun = next(e for e in book.entries() if e["kind"] == "begin" and e["run"] == run.number)
            return run, begun["schema"]
    raise InputError(
        f"The ledger {book.path} has no run with the charges of this release. Give the ledger of its table."
    )


def _distribution(spent: Spent) -> str:
    others = sorted({charge.mechanism for charge in spent.charges} - {"gaussian", "threshold"})
    gaussian = "Gaussian, rounded to whole numbers, drawn exactly"
    return "; ".join([gaussian, *(f"{name} mechanism as its charges say" for name in others)])


def _guarantee(spent: Spent) -> Statement:
    allowed = Budget(spent.epsilon, spent.delta, spent.accounting, spent.threshold_delta).rho
    found: Statement = {
        "definition": "(epsilon, delta)-differential privacy",
        "holds": spent.private,
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "delta_of_thresholds": spent.threshold_delta,
        "accounting": spent.accounting,
        "rho_allowed": float(allowed),
        "rho_charged": str(spent.rho),
    }
    if spent.accounting == "gdp":
        found["mu_allowed"] = math.sqrt(2 * allowed)
    return found


def _unit(text: str, schema: Schema) -> Statement:
    neighbours = neighbours_of(text)
    persons = [column.name for column in schema.columns if isinstance(column, Identifier) and column.person]
    return {
        "neighbours": text,
        "relation": neighbours.relation,
        "max_rows_per_person": neighbours.max_rows_per_person,
        "person_column": persons[0] if persons else None,
        "rows_are_bounded_by": "dropping rows beyond the maximum at random" if persons else "assumption",
    }


def neighbours_of(text: str) -> Neighbours:
    """Return the neighbours that `Neighbours.describe` put into words.

    >>> neighbours_of("replacing one person with up to 3 rows")
    Neighbours(relation='replace', max_rows_per_person=3)
    """
    rows = re.search(r"up to (\d+) rows", text)
    found = Neighbours("replace" if text.startswith("replacing") else "add-remove", int(rows[1]) if rows else 1)
    if found.describe() != text:
        raise InputError(f"The unit of privacy {text[:80]!r} is not known to this version of lookalike.")
    return found


def _mechanism(charge: Charge, neighbours: str) -> Statement:
    """One charge with its noise and sensitivity, which its price connects: rho = n sensitivity^2 / (2 stddev^2)."""
    found: Statement = {
        "step": charge.step,
        "mechanism": charge.mechanism,
        "releases": charge.releases,
        "rho": str(charge.rho),
        "delta": charge.delta,
        "detail": charge.detail,
    }
    noise = _STDDEV.search(charge.detail)
    if charge.mechanism not in ("gaussian", "threshold") or noise is None or not charge.rho:
        return found
    low, high = float(noise[1]), float(noise[2] or noise[1])
    ratio = math.sqrt(charge.releases / (2 * charge.rho))
    counts = math.sqrt(neighbours_of(neighbours).squared_l2)
    own = charge.detail.startswith("stddev")
    found["noise"] = {"stddev_smallest": low, "stddev_largest": high, "stddev_over_sensitivity": float(f"{ratio:.9g}")}
    found["sensitivity"] = {
        "norm": "L2",
        "of": "the counts of one table" if own else "one released number or table",
        "value": counts if own else float(f"{low / ratio:.6g}") if low == high else None,
    }
    return found


def _method(spent: Spent, schema: Schema) -> Statement:
    chosen = create(spent.method, {}).chosen(schema.domain).name if spent.method in METHODS else spent.method
    return {"asked": spent.method, "chosen": chosen, "settings": {k: str(v) for k, v in spent.settings.items()}}


def _facts(schema: Schema) -> list[Statement]:
    return [
        {"column": column.name, "fact": fact, "provenance": column.fact(fact)}
        for column in schema.columns
        for fact in column.facts
    ]


# The check.


def read_statement(path: Path) -> Statement:
    """Return the statement in a file; an InputError where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the path and its permissions.") from None
    except ValueError:
        raise InputError(
            f"{path} is not a JSON file. Give a statement that 'lookalike synth --statement' wrote."
        ) from None
    faults = list(schema_faults(found, statement_schema(), "the statement"))
    if faults:
        raise InputError(
            f"{path} is not a privacy statement: {faults[0]}. Make it again with 'lookalike synth --statement'."
        )
    return found


def schema_faults(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield what is wrong with a value, for the keywords that our JSON Schema uses."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        yield f"{place} is a {type(value).__name__}, not a {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {str(value)[:40]!r}, not one of {', '.join(map(str, schema['enum']))}"
    if "minimum" in schema and _is_kind(value, "number") and not value >= schema["minimum"]:
        yield f"{place} is {value}, below {schema['minimum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{place} is {value[:40]!r}, which is not of the form {schema['pattern']}"
    if isinstance(value, dict):
        yield from (f"{place} has no {name!r}" for name in schema.get("required", ()) if name not in value)
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield from schema_faults(value[name], inner, f"{place}: {name}")
    if isinstance(value, list) and "items" in schema:
        for i, entry in enumerate(value):
            yield from schema_faults(entry, schema["items"], f"{place} {i + 1}")


def _is_kind(value: Any, kind: str) -> bool:
    if kind == "null":
        return value is None
    return isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def differences(statement: Statement, ledger: Path, model: FittedModel | None = None) -> list[str]:
    """Return how a statement differs from the ledger or the model; an empty list where all agree."""
    book = open_ledger(ledger)
    number = statement["ledger"]["run"]
    runs = {run.number: run for run in book.runs()}
    if number not in runs:
        return [f"the ledger has no run {number}; it has {len(runs)} runs"]
    begun = next(e for e in book.entries() if e["kind"] == "begin" and e["run"] == number)
    found = [*_from_run(statement, runs[number], begun["schema"]), *_from_itself(statement)]
    if model is not None:
        found += _from_model(statement, model, len(book.entries()))
    more = [f"and {len(found) - _MAX_DIFFERENCES} more"] if len(found) > _MAX_DIFFERENCES else []
    return found[:_MAX_DIFFERENCES] + more


def open_ledger(path: Path) -> Ledger:
    """Return the ledger in a file, whichever table it belongs to; its chain is checked when it is read."""
    try:
        with path.open(encoding="utf-8") as file:
            identity = json.loads(file.readline())["table"]
    except OSError as error:
        raise LedgerError(f"Cannot read the ledger {path}: {error.strerror}. Check the path.") from None
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{path} is not a ledger of lookalike. 'lookalike ledger TABLE' names the file.") from None
    return Ledger(path, str(identity))


def _compared(what: str, *pairs: tuple[str, Any, Any]) -> list[str]:
    return [f"{name}: the statement says {_short(one)}, {what} {_short(two)}" for name, one, two in pairs if one != two]


def _short(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."


def _from_run(statement: Statement, run: RunSummary, schema: str) -> list[str]:
    guarantee = statement["guarantee"]
    found = _compared(
        "the ledger",
        ("epsilon", guarantee["epsilon"], run.epsilon),
        ("delta", guarantee["delta"], run.delta),
        ("delta of thresholds", guarantee["delta_of_thresholds"], run.threshold_delta),
        ("accounting", guarantee["accounting"], run.accounting),
        ("whether the guarantee holds", guarantee["holds"], run.private),
        ("neighbours", statement["unit"]["neighbours"], run.neighbours),
        ("source of noise", statement["noise"]["source"], run.noise),
        ("method", statement["method"]["asked"], run.method),
        ("declared schema", statement["schema"]["declared"], schema),
        ("public table", statement["public"].get("table", ""), run.public),
        ("number of charges", len(statement["mechanisms"]), len(run.charges)),
        ("sum of rho", guarantee["rho_charged"], str(run.rho)),
    )
    if run.status != "done":
        found.append(f"status: the ledger says that run {run.number} is {run.status}, not done")
    return found + _charges(statement, run.charges, "the ledger")


def _charges(statement: Statement, charges: tuple[Charge, ...], what: str) -> list[str]:
    found = []
    for i, (stated, charge) in enumerate(zip(statement["mechanisms"], charges, strict=False)):
        for name in ("step", "mechanism", "releases", "rho", "delta", "detail"):
            own = str(charge.rho) if name == "rho" else getattr(charge, name)
            found += _compared(what, (f"{name} of charge {i + 1}", stated[name], own))
    return found


def _from_itself(statement: Statement) -> list[str]:
    """Whether the charges of a statement are within the epsilon that it states."""
    guarantee = statement["guarantee"]
    total = sum((Fraction(one["rho"]) for one in statement["mechanisms"]), Fraction(0))
    found = _compared("its charges add up to", ("sum of rho", guarantee["rho_charged"], str(total)))
    if not guarantee["holds"] or guarantee["accounting"] not in ACCOUNTINGS:
        return found
    rest = guarantee["delta"] - guarantee["delta_of_thresholds"]
    if not 0 < rest < 1:
        return [*found, f"delta: nothing is left of {guarantee['delta']:g} after thresholds"]
    epsilon = epsilon_spent(total, rest, guarantee["accounting"])
    if epsilon > guarantee["epsilon"] * (1 + 1e-9):
        found.append(f"epsilon: the statement says {guarantee['epsilon']:g}, its charges need {epsilon:.6g}")
    if statement["noise"]["source"] not in (SYSTEM_ENTROPY, "not recorded"):
        found.append(f"the guarantee is said to hold, but the noise is {statement['noise']['source'] or NO_NOISE!r}")
    return found


def _from_model(statement: Statement, model: FittedModel, lines: int) -> list[str]:
    spent, guarantee = model.spent, statement["guarantee"]
    found = _compared(
        "the model",
        ("epsilon", guarantee["epsilon"], spent.epsilon),
        ("delta", guarantee["delta"], spent.delta),
        ("accounting", guarantee["accounting"], spent.accounting),
        ("whether the guarantee holds", guarantee["holds"], spent.private),
        ("neighbours", statement["unit"]["neighbours"], spent.neighbours),
        ("method", statement["method"]["asked"], spent.method),
        ("released schema", statement["schema"]["released"], model.schema.fingerprint()),
        ("public table", statement["public"].get("table", ""), spent.public),
        ("number of charges", len(statement["mechanisms"]), len(spent.charges)),
    )
    entries = [m.ledger_entry for m in model.measurements]
    if any(entry >= lines for entry in entries):
        found.append(f"the model names line {max(entries)} of the ledger, which has {lines} lines")
    return found + _charges(statement, spent.charges, "the model")
