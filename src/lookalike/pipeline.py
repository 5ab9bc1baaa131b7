"""The whole flow of a run: read this first.

`prepare` decides everything that follows from public facts: schema -> budget -> plan. `execute` spends the budget:
ledger -> door -> discovery -> model -> rows -> values. `synthesize` does both. `resuming.py` finishes a run that was
interrupted.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import numpy as np

from lookalike.discovery.discover import Discovery
from lookalike.discovery.filling import discovered
from lookalike.errors import DoubtfulError, LookalikeWarning, SchemaError
from lookalike.inputs import as_ledger, as_schema, files_of, modified
from lookalike.models.rows import updated_rows
from lookalike.notebook import card, table
from lookalike.privacy.journal import Journal, journal_path
from lookalike.privacy.kernel.accounting import NO_GUARANTEE, Budget
from lookalike.privacy.kernel.neighbours import Neighbours
from lookalike.privacy.kernel.opening import open_table
from lookalike.privacy.ledger import Ledger, RunSummary
from lookalike.privacy.recording import Recording
from lookalike.privacy.run import NO_NOISE, REPRODUCIBLE, SYSTEM_ENTROPY, NoiseSource, Run
from lookalike.release import FittedModel, Release, check_rows
from lookalike.schema.columns import Identifier
from lookalike.schema.enforce import check_rules
from lookalike.schema.schema import Schema
from lookalike.sources.files import TableFile
from lookalike.sources.frames import index_columns
from lookalike.spent import Spent
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
        discovery: how much of the budget the discovery of open facts may spend, and whether a run stops where it cannot
            see enough (`Discovery(strict=True)`), with a `DoubtfulError`.
        progress: called with a message and the fraction done.
        insecure_rng: reproducible noise for benchmarks. The release is then NOT PRIVATE, and stamped so.
        **settings: settings of the method.

    Notices, such as columns that had to be made up, are warnings of the class `LookalikeWarning`.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 500, "smoker": ["no", "no", "yes", "no"] * 250})
    >>> sex = {"name": "sex", "constraints": {"required": True, "enum": ["F", "M"]}}
    >>> smoker = {"name": "smoker", "constraints": {"required": True, "enum": ["no", "yes"]}}
    >>> release = synthesize(people, schema={"fields": [sex, smoker]}, epsilon=1.0, rows=100)
    >>> release.table.num_rows, release.table.column_names
    (100, ['sex', 'smoker'])
    >>> release.spent.epsilon_spent <= 1.0
    True
    """
    check_rows(rows)
    check_generator(generator)
    public = {"schema": schema, "epsilon": epsilon, "delta": delta, "neighbours": neighbours, "person": person}
    run = prepare(table, **public, method=method, discovery=discovery, settings=settings)
    making = Making(generator, rows, seed)
    release = execute(run, making, ledger=ledger, progress=progress, insecure_rng=insecure_rng)
    for notice in release.notes:
        warnings.warn(notice, LookalikeWarning, stacklevel=2)
    return release


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Everything that is decided about a run before any private row is read."""

    table: Any
    schema: Schema
    neighbours: Neighbours
    method: Method
    search: Discovery
    delta: float
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
    for name in index_columns(table):
        warnings.warn(f"The index {name!r} of the frame is kept as a column.", LookalikeWarning, stacklevel=3)
    public, people = with_persons(as_schema(schema, table), person, neighbours or Neighbours())
    search = discovery or Discovery()
    chosen = create(method, settings or {})
    budget = search.budget(public, epsilon, delta, chosen.accounting)
    plan = _planned(public, budget, chosen, search)
    check_rules(public)
    return PreparedRun(table, public, people, chosen, search, delta, budget, plan)


@dataclass(frozen=True, slots=True)
class Making:
    """How rows are made from the model of a run.

    Attributes:
        generator: see `synthesize`.
        rows: number of rows; None for the noisy number of rows of the table.
        seed: of rounding and sampling.
        outputs: what is done with the release, in plain values, for whoever resumes the run.
    """

    generator: Generation = "model"
    rows: int | None = None
    seed: int | None = None
    outputs: dict[str, Any] | None = None


Finish = Callable[[Release], None]


def execute(
    run: PreparedRun,
    making: Making | None = None,
    *,
    ledger: Ledger | str | Path | None = None,
    progress: Progress | None = None,
    insecure_rng: Generator | None = None,
    finish: Finish | None = None,
) -> Release:
    """Spend the budget of a prepared run on a model of its table, and make a synthetic table from the model.

    Beside a ledger on disk, the noisy answers of the run are kept until `finish`, which writes the results, has
    returned: until then `resume` can finish the run without spending again.
    """
    making = making or Making()
    check_rows(making.rows, run.method.max_rows)
    book = as_ledger(ledger, run.table)
    noise = noise_source(run.plan, insecure_rng)
    account = book.begin(**facts_of(run), noise=noise)
    if book.path is not None and noise == SYSTEM_ENTROPY:
        making = replace(making, seed=secrets.randbits(63) if making.seed is None else making.seed)
        header = {"ledger": book.identity, "run": account.number, **_described(run, making)}
        account.record(Journal.start(journal_path(book.path, account.number), account.begun, header))
    return finished(lambda: spend(run, making, account, progress, insecure_rng), account, finish)


def facts_of(run: PreparedRun) -> dict[str, Any]:
    """What the ledger says about a run."""
    facts = {"method": run.method.name, "schema": run.schema.fingerprint(), "budget": run.budget}
    return {**facts, "neighbours": run.neighbours, "stop_delta": run.search.stop_delta(run.delta)}


def spend(
    run: PreparedRun, making: Making, account: Run, progress: Progress | None, insecure_rng: Generator | None = None
) -> Release:
    """Return the release of a run whose account is open. The account is closed when the budget is spent."""
    report = progress or (lambda message, fraction: None)
    with ended(account):
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
        found = discovered(run.search, run.schema, door, report)
        door = found.door
        if run.search.strict:
            found.check()
        # The columns and the remaining budget are now known exactly, so this is the split that the method spends.
        method = run.method.chosen(door.domain).informed(door.known)
        split = method.split(door.domain, door.remaining)
        plan = (*discovery_steps(run.schema, run.budget, run.search), *split.steps)
        account.keep_to(limits_of(plan))
        recording = Recording()
        door = door.recorded_by(recording)
        recording.measured(door.known)
        model = method.fit(door, split, rng=np.random.default_rng(making.seed), progress=report)
        if making.generator != "model":
            report("updating rows", 0.8)
            rng = np.random.default_rng(making.seed)
            model = updated_rows(model, recording.released, rng, flows=making.generator == "mcf")
    report("making rows", 0.9)
    spent, files = _spent(run, account.summary(), method.name), files_of(run.table, account.ledger)
    released, residuals = tuple(recording.released), tuple(recording.residuals)
    fitted = FittedModel(door.schema, model, spent, door.form, released, residuals, inputs=files)
    made = fitted.sample_arrow(making.rows, seed=making.seed)
    report("done", 1.0)
    return Release(made, fitted, plan, (*found.notes, *fitted.diagnosis().notes), found.unseen)


def finished(release: Callable[[], Release], account: Run, finish: Finish | None) -> Release:
    """Make a release and write its results; then forget the answers, which a resumed run would need until then."""
    try:
        made = release()
        if finish is not None:
            finish(made)
        if account.journal is not None:
            account.journal.discard()
        return made
    finally:
        if account.journal is not None:
            account.journal.close()


def _described(run: PreparedRun, making: Making) -> dict[str, Any]:
    """All that is needed to prepare the same run again, in plain values. Public: no row was read for it."""
    file = TableFile.at(run.table) if isinstance(run.table, str | os.PathLike) else None
    reading = {"encoding": file.encoding, "delimiter": file.delimiter, "dropped": file.dropped} if file else {}
    return {
        "table": {**reading, "modified": modified(run.table)},
        "schema": run.schema.to_dict(),
        "epsilon": run.budget.epsilon,
        "delta": run.delta,
        "method": run.method.name,
        "settings": settings_of(run.method),
        "neighbours": asdict(run.neighbours),
        "discovery": asdict(run.search),
        "making": asdict(making),
    }


@contextmanager
def ended(account: Run) -> Iterator[None]:
    """Close the account of a run when it has spent its budget, failed, or stopped for what its answers show."""
    try:
        yield
    except DoubtfulError as error:
        error.counted = account.stop()
        raise
    except BaseException:
        account.end("failed")
        raise
    account.end("done")


def _spent(run: PreparedRun, summary: RunSummary, chosen: str) -> Spent:
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
        chosen=chosen,
    )


def check_generator(name: str) -> Generation:
    """Return the name of a generator, or refuse one that does not exist."""
    if name not in get_args(Generation):
        raise SchemaError(f"The generator is {name!r}; it must be 'model', 'gum' or 'mcf'.")
    return cast(Generation, name)


def with_persons(schema: Schema, person: str | None, neighbours: Neighbours) -> tuple[Schema, Neighbours]:
    """Return the schema with the person column, and neighbours with the same maximum number of rows per person."""
    if person is not None:
        schema = schema.with_person(person, neighbours.max_rows_per_person)
    for column in schema.columns:
        if isinstance(column, Identifier) and column.person:
            neighbours = replace(neighbours, max_rows_per_person=column.max_rows)
    return schema, neighbours


class Plan(NamedTuple):
    """The budget of a run, and what each of its steps may spend."""

    budget: Budget
    steps: tuple[Step, ...]

    def _repr_html_(self) -> str:
        budget, whole = self.budget, float(self.budget.rho)
        head = f"epsilon {budget.epsilon:g}, delta {budget.delta:g}: rho {whole:.6g} ({budget.accounting})."
        rows = [(step.step, step.mechanism, f"{step.rho / whole:.1%}", step.note) for step in self.steps]
        return card("Plan", [head, "No row was read for it."], table(("step", "mechanism", "share", "what"), rows))


def plan_run(
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    method: str,
    settings: dict[str, Any] | None = None,
    discovery: Discovery | None = None,
) -> Plan:
    """Return the budget of a run and what each step may spend, from public facts alone."""
    synthesizer = create(method, settings or {})
    search = discovery or Discovery()
    budget = search.budget(schema, epsilon, delta, synthesizer.accounting)
    return Plan(budget, _planned(schema, budget, synthesizer, search))


def _planned(schema: Schema, budget: Budget, method: Method, search: Discovery) -> tuple[Step, ...]:
    """Return the steps of discovery and those of the method, which gets what discovery leaves."""
    found = discovery_steps(schema, budget, search)
    left = float(budget.rho) - sum(step.rho for step in found)
    return (*found, *method.split(search.nominal(schema), left).steps)


def discovery_steps(schema: Schema, budget: Budget, search: Discovery) -> tuple[Step, ...]:
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
