"""The whole flow of a run: read this first.

`prepare` decides everything that follows from public facts: schema -> budget -> plan. `execute` spends the budget:
ledger -> door -> discovery -> model -> rows -> values. `synthesize` does both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from lookalike.discovery.discover import Discovery, Found
from lookalike.discovery.rules import FoundRule, FoundRules
from lookalike.errors import SchemaError
from lookalike.measurements import NoisyMarginal, completed, spread_over_cells
from lookalike.models.model import Model
from lookalike.models.rows import RowsModel, gum_model
from lookalike.places import with_side_files
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.privacy.kernel.opening import open_table
from lookalike.privacy.ledger import (
    NO_NOISE,
    REPRODUCIBLE,
    SYSTEM_ENTROPY,
    Ledger,
    NoiseSource,
    Run,
    RunSummary,
    default_ledger_path,
)
from lookalike.privacy.recording import Recording
from lookalike.release import FittedModel, Release, Spent, check_rows
from lookalike.sampling.row_update import GumSettings
from lookalike.schema.columns import Identifier
from lookalike.schema.constraints import rule_text
from lookalike.schema.enforce import aligned, check_rules
from lookalike.schema.schema import Schema
from lookalike.schema.storage import draft
from lookalike.sources.frames import read_structure
from lookalike.synthesizers import create, settings_of
from lookalike.synthesizers.base import Method, Progress
from lookalike.synthesizers.split import UNKNOWN, Kind, Step, limits_of

if TYPE_CHECKING:
    from numpy.random import Generator

Generation = Literal["model", "gum", "mcf"]


def synthesize(
    table: Any,
    *,
    schema: Schema | str | Path | dict[str, Any] | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    method: str = "auto",
    generator: Generation = "model",
    rows: int | None = None,
    seed: int | None = None,
    ledger: Ledger | str | Path | None = None,
    neighbours: Neighbours | None = None,
    person: str | None = None,
    discovery: Discovery | None = None,
    progress: Progress | None = None,
    insecure_rng: Generator | None = None,
    **settings: Any,
) -> Release:
    """Return a release: a synthetic table like `table`, the model behind it, and the account of what it cost.

    Args:
        table: a pandas, polars or Arrow table, or the path of a CSV or Parquet file.
        schema: public facts about the columns: a Schema, a path to one, or {column: number of codes}. Facts that it
            leaves open are discovered privately, inside the same budget; without a schema all but names and types are.
        epsilon: privacy budget of this run.
        delta: probability that the bound epsilon fails to hold.
        method: one of `lookalike.methods()`.
        generator: "model" draws rows from the model of the method; "gum" updates rows to fit the noisy marginals (the
            generator of PrivSyn); "mcf" does so by min-cost flows (slow, for small marginals; the paper of PrivSyn
            compares with it).
        rows: number of rows to make; by default the noisy number of rows of the table.
        seed: seed of rounding and sampling. The privacy noise has no seed.
        ledger: where charges are recorded. Files have a default ledger; charges on a frame are kept in memory only.
        neighbours: what one person can change; adding or removing one row by default.
        person: column that says whose row it is. At most `neighbours.max_rows_per_person` random rows of each person
            are then used, and synthetic persons have about as many rows each.
        discovery: how much of the budget the discovery of open facts may spend.
        progress: called with a message and the fraction done.
        insecure_rng: reproducible noise for benchmarks. The release is then NOT PRIVATE, and stamped so.
        **settings: settings of the method.
    """
    check_rows(rows)
    check_generator(generator)
    public = {"schema": schema, "epsilon": epsilon, "delta": delta, "neighbours": neighbours, "person": person}
    run = prepare(table, **public, method=method, discovery=discovery, settings=settings)
    return execute(
        run, generator=generator, rows=rows, seed=seed, ledger=ledger, progress=progress, insecure_rng=insecure_rng
    )


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Everything that is decided about a run before any private row is read."""

    table: Any
    schema: Schema
    neighbours: Neighbours
    method: Method
    search: Discovery
    budget: Budget
    plan: tuple[Step, ...]


def prepare(
    table: Any,
    *,
    schema: Schema | str | Path | dict[str, Any] | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    method: str = "auto",
    neighbours: Neighbours | None = None,
    person: str | None = None,
    discovery: Discovery | None = None,
    settings: dict[str, Any] | None = None,
) -> PreparedRun:
    """Return the run for `execute`: its schema, method, budget and plan, from public facts alone.

    The arguments are those of `synthesize`. Of the table only names and types of columns are read, and only if no
    schema is given.
    """
    public, people = with_persons(as_schema(schema, table), person, neighbours or Neighbours())
    search = discovery or Discovery()
    chosen = create(method, settings or {})
    budget = search.budget(public, epsilon, delta, chosen.accounting)
    plan = _planned(public, budget, chosen, search)
    check_rules(public)
    return PreparedRun(table, public, people, chosen, search, budget, plan)


def execute(
    run: PreparedRun,
    *,
    generator: Generation = "model",
    rows: int | None = None,
    seed: int | None = None,
    ledger: Ledger | str | Path | None = None,
    progress: Progress | None = None,
    insecure_rng: Generator | None = None,
) -> Release:
    """Spend the budget of a prepared run on a model of its table, and make a synthetic table from the model."""
    check_rows(rows, run.method.max_rows)
    report = progress or _silent
    book = as_ledger(ledger, run.table)
    account = book.begin(
        method=run.method.name,
        schema=run.schema.fingerprint(),
        budget=run.budget,
        neighbours=run.neighbours,
        noise=noise_source(run.plan, insecure_rng),
    )
    with _ended(account):
        report("reading the table", 0.0)
        door = open_table(
            run.table,
            run.schema,
            run.budget,
            account,
            neighbours=run.neighbours,
            insecure_rng=insecure_rng,
            keep_rows=run.search.wants_rules(run.schema),
        )
        account.keep_to(limits_of(run.plan))
        door, found = _discovered(run, door, report)
        # The columns and the remaining budget are now known exactly, so this is the split that the method spends.
        split = run.method.split(door.domain, door.remaining)
        plan = (*_discovery_steps(run.schema, run.budget, run.search), *split.steps)
        account.keep_to(limits_of(plan))
        recording = Recording()
        door = door.recorded_by(recording)
        model = run.method.fit(door, split, rng=np.random.default_rng(seed), progress=report)
        if generator != "model":
            report("updating rows", 0.8)
            model = updated_rows(model, recording.released, np.random.default_rng(seed), generator)
    report("making rows", 0.9)
    spent, files = _spent(run, account.summary()), _files_of(run.table, book)
    released, residuals = tuple(recording.released), tuple(recording.residuals)
    fitted = FittedModel(door.schema, model, spent, door.form, released, residuals, inputs=files)
    notes = (*found, *fitted.diagnosis().notes)
    release = Release(fitted.sample_arrow(rows, seed=seed), fitted, plan, notes)
    report("done", 1.0)
    return release


def found_notes(found: Sequence[FoundRule]) -> tuple[str, ...]:
    """Return what people should know about the rules that were found."""
    if not found:
        return ()
    head = "Rules found in the table, which every synthetic row keeps (--no-rules or rules=False turns the search off):"
    shares = [f"  {rule_text(f.rule)}  [broken by {f.broken:.1%} of the rows, noise {f.stddev:.1%}]" for f in found]
    return ("\n".join([head, *shares]),)


def _discovered(run: PreparedRun, door: GuardedTable, report: Progress) -> tuple[GuardedTable, tuple[str, ...]]:
    """Return the door with what the schema leaves open, and the rules, found within the budget; and what to say."""
    filled, rules = Found(door.schema), FoundRules(door.schema)
    if run.schema.open_facts:
        report("discovering what the schema leaves open", 0.02)
        filled = run.search.fill(door)
        door = door.encoded(filled.schema, filled.known)
    if run.search.wants_rules(run.schema):
        report("looking for rules between columns", 0.04)
        rules = run.search.find_rules(door, filled.rows)
        door = door.encoded(rules.schema, filled.known)
    return door, (*filled.notes, *found_notes(rules.rules))


@contextmanager
def _ended(account: Run) -> Iterator[None]:
    """Close the account of a run when it has spent its budget or failed."""
    status = "failed"
    try:
        yield
        status = "done"
    finally:
        account.end(status)


def _spent(run: PreparedRun, summary: RunSummary) -> Spent:
    """Return the account of a run, for its release."""
    return Spent(
        method=run.method.name,
        settings=settings_of(run.method),
        epsilon=run.budget.epsilon,
        delta=run.budget.delta,
        accounting=run.budget.accounting,
        neighbours=run.neighbours.describe(),
        charges=summary.charges,
        private=summary.private,
        threshold_delta=run.budget.threshold_delta,
    )


def check_generator(name: str) -> Generation:
    """Return the name of a generator, or refuse one that does not exist."""
    if name not in get_args(Generation):
        raise SchemaError(f"The generator is {name!r}; it must be 'model', 'gum' or 'mcf'.")
    return cast(Generation, name)


def updated_rows(
    model: Model, released: list[NoisyMarginal], rng: np.random.Generator, generator: Generation = "gum"
) -> RowsModel:
    """Return rows that fit the released marginals.

    Contrasts are completed, and sums of groups of cells spread over the cells, by the expected counts of the model.
    """
    counts = [m for m in released if m.contrasts is None and m.groups is None]
    for m in released:
        if m.contrasts is not None or m.groups is not None:
            expected = model.marginal(m.attrs)
            counts.append(replace(spread_over_cells(completed(m, expected), expected), contrasts=None))
    settings = GumSettings.of_flows() if generator == "mcf" else GumSettings()
    return gum_model(model.domain, counts, total=model.total, rng=rng, settings=settings)


def with_persons(schema: Schema, person: str | None, neighbours: Neighbours) -> tuple[Schema, Neighbours]:
    """Return the schema with the person column, and neighbours with the same maximum number of rows per person."""
    if person is not None:
        schema = schema.with_person(person, neighbours.max_rows_per_person)
    for column in schema.columns:
        if isinstance(column, Identifier) and column.person:
            neighbours = replace(neighbours, max_rows_per_person=column.max_rows)
    return schema, neighbours


def plan_run(
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    method: str,
    settings: dict[str, Any] | None = None,
    discovery: Discovery | None = None,
) -> tuple[Budget, tuple[Step, ...]]:
    """Return the budget of a run and what each step may spend, from public facts alone."""
    synthesizer = create(method, settings or {})
    search = discovery or Discovery()
    budget = search.budget(schema, epsilon, delta, synthesizer.accounting)
    return budget, _planned(schema, budget, synthesizer, search)


def _planned(schema: Schema, budget: Budget, method: Method, search: Discovery) -> tuple[Step, ...]:
    """Return the steps of discovery and those of the method, which gets what discovery leaves."""
    found = _discovery_steps(schema, budget, search)
    left = float(budget.rho) - sum(step.rho for step in found)
    return (*found, *method.split(search.nominal(schema), left).steps)


def _discovery_steps(schema: Schema, budget: Budget, search: Discovery) -> tuple[Step, ...]:
    """Return what discovery of the facts that the schema leaves open may spend."""
    found = search.plan(schema, budget)
    return tuple(Step(step, kind, UNKNOWN, rho, note, Kind.DISCOVERY) for step, kind, rho, note in found)


def reason_of(schema: Schema, method: str) -> str | None:
    """Return why `auto` chose its method; None for other methods."""
    return create(method, {}).reason(Discovery().nominal(schema))


def noise_source(plan: tuple[Step, ...], insecure_rng: Generator | None) -> NoiseSource:
    """Return where the noise of a run with this plan comes from."""
    if any(step.mechanism == NO_GUARANTEE for step in plan):
        return NO_NOISE
    return SYSTEM_ENTROPY if insecure_rng is None else REPRODUCIBLE


def as_schema(schema: Schema | str | Path | dict[str, Any] | None, table: Any = None) -> Schema:
    """Return the schema, read from a file if need be, or drafted from the names and types of the table's columns."""
    if schema is None:
        return draft(read_structure(table))
    if isinstance(schema, Schema):
        return aligned(schema)
    if isinstance(schema, dict):
        coded = all(isinstance(value, int) for value in schema.values())
        return Schema.from_sizes(schema) if coded else aligned(Schema.from_dict(schema))
    if isinstance(schema, (str, Path)):
        path = Path(schema)
        return Schema.from_domain_json(path) if path.suffix == ".json" else aligned(Schema.load(path))
    raise SchemaError(
        f"The schema is a {type(schema).__name__}; give a Schema, a path, or {{column: number of codes}}."
    )


def as_ledger(ledger: Ledger | str | Path | None, table: Any) -> Ledger:
    """Return the ledger to write to: the given one, the default one of a file, or one in memory."""
    if isinstance(ledger, Ledger):
        return ledger
    identity = table_identity(table)
    if ledger is not None:
        return Ledger(Path(ledger), identity or f"ledger:{Path(ledger).resolve()}")
    return Ledger(default_ledger_path(identity) if identity else None, identity or "a table in memory")


def table_identity(table: Any) -> str | None:
    """Return the name of a table in ledgers: the resolved path of a file, None for a frame in memory."""
    return str(Path(table).resolve()) if isinstance(table, str | os.PathLike) else None


def _files_of(table: Any, book: Ledger) -> tuple[str, ...]:
    """Return the files of a run that its results may not overwrite."""
    read = [Path(table).expanduser()] if isinstance(table, (str, Path)) else []
    return tuple(str(path.resolve()) for path in (*read, *with_side_files(book.path)))


def _silent(message: str, fraction: float) -> None:
    """Report no progress."""
