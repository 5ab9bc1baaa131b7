"""Reads real rows to judge a release; besides the door, only this module does so. NOT PRIVATE.

Where no schema is given, `exact_schema` finds values and bins of the exact rows, in which both tables are compared.
"""

# Arrow makes its compute functions at import time, so a type checker does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookalike.errors import InputError, LookalikeWarning
from lookalike.evaluate.attacks import Attacked, Guarantee, Numbers, attack
from lookalike.evaluate.evaluation import Evaluation, Settings, evaluate_codes, evaluate_counts, ordered_columns
from lookalike.evaluate.marginals import CountedPair
from lookalike.evaluate.membership import Release
from lookalike.measurements import NoisyMarginal
from lookalike.pipeline import synthesize
from lookalike.release import FittedModel
from lookalike.schema import codec
from lookalike.schema.binned import Continuous
from lookalike.schema.bins import Binned
from lookalike.schema.columns import NULL, Categorical, Column, Identifier, Undeclared, measured
from lookalike.schema.constraints import rule_text
from lookalike.schema.enforce import broken_rows
from lookalike.schema.form_columns import column_of, detail_of, markers_of
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft, is_text, texts_of, to_numbers
from lookalike.schema.text_forms import AFFIXES, FORMS, OFFSETS, Form, affix_of, form_of, offset_of
from lookalike.sources.base import Place
from lookalike.sources.files import TableFile
from lookalike.sources.frames import read_table
from lookalike.sources.open import OpenedTable, read, streamed_parts

MAX_VALUES, MAX_BINS = 100, 16
"""Values of a category and bins of a number that are compared; rarer values are compared as `other`."""


def exact_schema(rows: pa.Table) -> Schema:
    """Return the schema that fits these rows: kinds, formats, frequent values and quantiles. NOT PRIVATE."""
    drafted = draft(rows.schema)
    columns = [
        _filled(replace(column, storage=str(rows.schema.field(column.name).type)), rows.column(column.name))
        for column in drafted.columns
    ]
    # The synthetic table may be stored in other types, such as the texts of a CSV file.
    return Schema(tuple(replace(column, storage="") for column in columns))


def _filled(column: Column, values: pa.ChunkedArray) -> Column:
    array = values.combine_chunks()
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    texts = texts_of(array)
    forms = {FORMS[i]: float(n) for i, n in enumerate(np.bincount(form_of(texts), minlength=len(FORMS))) if n}
    if isinstance(column, Undeclared):
        column = _kind(column.name, texts, forms)
    missing = markers_of(forms, words=isinstance(column, Binned)) if is_text(array.type) else ()
    missing = tuple(dict.fromkeys((*([NULL] if array.null_count else []), *missing)))
    if not isinstance(column, Categorical) or not set(missing) & set(column.values or ()):
        column = replace(column, missing=missing)
    if isinstance(column, Categorical) and column.values is None:
        column = _with_values(column, texts)
    if isinstance(column, Binned) and {"bounds", "bins"} & set(column.open_facts):
        column = _with_bins(column, array)
    return measured(column, *column.open_facts)


def _kind(name: str, texts: pa.Array, forms: dict[Form, float]) -> Column:
    """A number, time or category, by how most of the texts are written."""
    facts: dict[str, Any] = {}
    detail = detail_of(forms) if forms else ""
    if detail == "affix":
        common = int(np.argmax(np.bincount(affix_of(texts), minlength=len(AFFIXES))[:-1]))
        facts = dict(zip(("prefix", "suffix"), AFFIXES[common], strict=True))
    elif detail == "offset":
        facts = {"zone": OFFSETS[int(np.argmax(np.bincount(offset_of(texts), minlength=len(OFFSETS))[:-1]))]}
    values = {form: count for form, count in forms.items() if form.family not in ("missing", "word")}
    return (column_of(name, forms, **facts) if values else None) or Categorical(name)


def _with_values(column: Categorical, texts: pa.Array) -> Column:
    """The column with its most frequent values; an identifier where most values occur once."""
    counted = pc.value_counts(texts.drop_null()).to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in counted if entry["values"] not in column.missing}
    if len(counts) > max(MAX_VALUES, sum(counts.values()) // 2):
        return Identifier(column.name, missing=column.missing)
    names = sorted(counts, key=lambda value: (-counts[value], value))[:MAX_VALUES] or ["none"]
    return measured(column, "values", values=tuple(names), outside="other")


def _with_bins(column: Binned, array: pa.Array) -> Binned:
    """The column with its bounds, and bins that hold about as many rows each."""
    numbers, readable = to_numbers(column, array)
    numbers = numbers[readable]
    if isinstance(column, Continuous):
        numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        numbers = np.zeros(1, dtype=np.int64)
    cuts = np.quantile(numbers, np.arange(MAX_BINS) / MAX_BINS, method="lower")
    edges = [column.external(edge) for edge in np.unique(cuts).tolist()]
    bounds = {"minimum": edges[0], "maximum": column.external(numbers.max().item())}
    return measured(column, "bounds", "bins", **bounds, bins=tuple(edges), outside="clamp")


_EXAMPLES = 3


def broken_rules(schema: Schema, real: pa.Table, synth: pa.Table) -> list[dict[str, Any]]:
    """Return for each rule its text, the numbers of real and synthetic rows that break it, and examples."""
    sides = [(codec.encode(schema, rows), _ticks(schema, rows)) for rows in (real, synth)]
    found = []
    for rule in schema.constraints:
        alone = replace(schema, constraints=(rule,))
        broken = [broken_rows(alone, codes, numbers) for codes, numbers in sides]
        names = rule.columns or schema.names
        examples = synth.select(list(names)).take(np.flatnonzero(broken[1])[:_EXAMPLES]).to_pylist()
        texts = [{name: str(value) for name, value in row.items()} for row in examples]
        counts = {"real": int(broken[0].sum()), "synth": int(broken[1].sum())}
        found.append({"text": rule_text(rule), **counts, "examples": texts})
    return found


def _ticks(schema: Schema, rows: pa.Table) -> dict[str, np.ndarray]:
    """Return every number and time in ticks of its column (unchanged for columns without ticks)."""
    binned = [column for column in schema.columns if isinstance(column, Binned)]
    return {column.name: codec.ticks_of(column, rows.column(column.name)) for column in binned}


def drafted(real: Any, synth: Any = None) -> Schema:
    """Return a schema by which real and synthetic rows can be compared, from the real rows. NOT PRIVATE.

    No ledger is charged, and nothing of it may be released. With `synth`, it has only the columns of both tables.
    """
    rows = arrow_rows(real)
    if synth is not None:
        found = set(arrow_rows(synth).column_names)
        rows = rows.select([name for name in rows.column_names if name in found])
        if not rows.column_names:
            raise InputError("The two tables have no column in common. Give the synthetic table of this real one.")
    return exact_schema(rows)


def arrow_rows(table: Any) -> pa.Table:
    """Return the exact rows of a path, or of a pandas, polars or Arrow table."""
    rows = read_table(table)[0]
    if not rows.num_rows:
        raise InputError("The table has no rows; a comparison needs at least 1.")
    return rows


def split_rows(rows: pa.Table, share: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return random rows to synthesise and the rest, to test classifiers on; all rows twice for a share of 1."""
    if share >= 1:
        return rows, rows
    order = np.random.default_rng([seed, 80]).permutation(rows.num_rows)
    cut = max(1, round(share * rows.num_rows))
    return rows.take(order[:cut]), rows.take(order[cut:])


def encoded(table: Any, schema: Schema) -> np.ndarray:
    """Return the exact codes of a table (a path, or a pandas, polars or Arrow table). Not for release."""
    return codec.encode(schema, arrow_rows(table))


def evaluate(
    real: Any,
    synth: Any,
    schema: Schema | None = None,
    settings: Settings | None = None,
    *,
    holdout: Any = None,
    attacks: Attacks | None = None,
    progress: Callable[[str, float], None] | None = None,
    **changes: Any,
) -> Evaluation:
    """Return all measures of a synthetic table against the real one. NOT PRIVATE: for the data holder only.

    Args:
        real: the table that was synthesised: a path, or a pandas, polars or Arrow table. Files larger than memory and
            tables of databases and of Spark are compared by counts: marginals of up to three columns and associations.
        synth: the synthetic table.
        schema: the columns of both; without one it is drafted from the real rows, for this comparison only.
        settings: what to measure; see `Settings`.
        holdout: real rows that were not synthesised, to test classifiers on, and the control of attacks.
        attacks: also attack the release, with what it claims; needs `holdout`.
        progress: called with the current measure and the fraction done.
        **changes: single settings, for instance `group_by="sex"`.
    """
    settings = replace(settings or Settings(), **changes)
    if attacks is not None and holdout is None:
        raise InputError(
            "Attacks need rows that were not synthesised, to see what succeeds on anybody. Set some rows aside before "
            "the release and give them as --holdout; 'lookalike compare --attacks' sets such rows aside itself."
        )
    if is_outside_memory(real) or is_outside_memory(synth):
        _check_counts_suffice(schema, settings, holdout)
        return _evaluated_by_counts(real, synth, cast(Schema, schema), settings, progress)
    real, synth = arrow_rows(real), arrow_rows(synth)
    left_out = list[str]()
    if schema is None:
        schema = drafted(real, synth)
        left_out = sorted({*real.column_names, *synth.column_names} - {*schema.names})
        real, synth = real.select(list(schema.names)), synth.select(list(schema.names))
    full = schema.with_all_codes()
    others = None if holdout is None else arrow_rows(holdout).select(list(schema.names))
    test = None if others is None else codec.encode(full, others)
    codes, made = codec.encode(full, real), codec.encode(full, synth)
    numbers = dict(evaluate_codes(codes, made, full, settings, test=test, progress=progress).numbers)
    if left_out:
        numbers["left_out"] = left_out
    if schema.constraints:
        numbers["rules"] = broken_rules(full, real, synth)
    if attacks is not None and others is not None:
        numbers["attacks"] = attacked(real, others, synth, schema, attacks, seed=settings.seed, progress=progress)
    return Evaluation(numbers)


@dataclass(frozen=True, slots=True)
class Attacks:
    """What attackers are given besides the synthetic rows, and what the release claims.

    Attributes:
        epsilon, delta: the claim where there is no model; an epsilon of None claims nothing.
        model: the stored model of the release: its claim, its noisy marginals, and the method for shadow models.
        shadows: number of releases of shadow models, each about as long as the run itself.
        coins: each row was put into the real table by a coin of its own; see `Attacked`.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    model: FittedModel | None = None
    shadows: int = 0
    coins: bool = False


def attacked(
    real: pa.Table,
    control: pa.Table,
    synth: pa.Table,
    schema: Schema,
    attacks: Attacks,
    *,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Numbers:
    """Return how well attacks on the synthetic rows do, with rows that were not synthesised as control. NOT PRIVATE."""
    model = attacks.model
    if model is not None:
        # Noisy marginals have the codes of the release.
        schema = model.schema
        guarantee = Guarantee.of(model.spent)
    else:
        guarantee = None if attacks.epsilon is None else Guarantee(attacks.epsilon, attacks.delta)
    if attacks.shadows and model is None:
        raise InputError("Shadow models repeat the release; give its stored model with --model.")

    codes = [codec.encode(schema, rows.select(list(schema.names))) for rows in (real, control, synth)]
    known: dict[str, Any] = {} if model is None else {"measurements": model.measurements, "rows": model.rows}
    if attacks.shadows and model is not None:
        known |= {"release": _shadow(control, model), "shadows": attacks.shadows}
    known |= {"ordered": ordered_columns(schema), "guarantee": guarantee, "coins": attacks.coins}
    todo = Attacked(codes[0], codes[1], codes[2], schema.domain, **known)
    return attack(todo, seed=seed, progress=progress)


def _shadow(control: pa.Table, model: FittedModel) -> Release:
    """Return what makes releases of control rows as the model's run made its own, with ledgers in memory."""
    spent, schema = model.spent, model.schema
    budget = {"epsilon": spent.epsilon, "delta": spent.delta}

    def release(chosen: np.ndarray) -> tuple[np.ndarray, tuple[NoisyMarginal, ...]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LookalikeWarning)  # what a shadow's run could not see is of no interest
            made = synthesize(control.take(chosen), schema=schema, method=spent.method, **budget, **spent.settings)
        return codec.encode(schema, made.rows), made.fitted.measurements

    return release


def is_outside_memory(table: Any) -> bool:
    """Return whether the rows of a table stay where they are: in large files, in a database or on a cluster."""
    if isinstance(table, str | os.PathLike):
        return streamed_parts(TableFile.at(table)) is not None
    return isinstance(table, Place)


def _check_counts_suffice(schema: Schema | None, settings: Settings, holdout: Any) -> None:
    """Refuse what needs single rows, or a schema made from them."""
    why = "A table larger than memory, of a database or of Spark is compared by counts"
    if schema is None:
        raise InputError(f"{why}, which needs a schema. Give --schema, --domain, or --model of the release.")
    asked = {"groups": settings.group_by, "questions": settings.questions, "rows to test on": holdout is not None}
    needed = [name for name, given in {**asked, "classifiers": settings.target or settings.svm}.items() if given]
    if needed:
        raise InputError(f"{why}, but {' and '.join(needed)} need single rows. Leave them out, or give smaller files.")


def _evaluated_by_counts(real: Any, synth: Any, schema: Schema, settings: Settings, progress: Any) -> Evaluation:
    schema = schema.with_all_codes()
    with ExitStack() as closed_after:
        opened = [_opened(table, schema) for table in (real, synth)]
        for table in opened:
            closed_after.callback(table.close)
        one, two = (table.source.domain for table in opened)
        if one != two:
            other = next(name for name in one.names if one.size(name) != two.size(name))
            raise InputError(f"Column {other!r} has types that cannot hold the same values. Convert one of the tables.")
        return evaluate_counts(CountedPair(*(t.source for t in opened)), schema, settings, progress=progress)


def _opened(table: Any, schema: Schema) -> OpenedTable:
    """The counts of a table under the schema, whatever the types in which the other table is stored."""
    found = read(table)
    plain = replace(schema, columns=tuple(replace(column, storage="") for column in schema.columns))
    return found.encoded(found.bound(plain).ordered(schema.names))
