"""The whole flow of a run. Read this module first.

`prepare` decides all that can be decided from public facts: schema -> budget -> plan. `execute` spends the budget:
ledger -> door -> discovery -> model -> rows -> values. `synthesize` does both. `resuming.py` finishes a run that was
interrupted.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import numpy as np

from lookalike.discovery.discover import Discovery, discovered
from lookalike.errors import LookalikeWarning, SchemaError
from lookalike.inputs import as_ledger, as_schema, as_table, check_gives_rows, files_of, reading_of, with_persons
from lookalike.models.rows import updated_rows
from lookalike.notebook import card, table
from lookalike.privacy.journal import Journal, Recording, journal_path
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import open_table
from lookalike.privacy.ledger import Ledger, RunSummary
from lookalike.privacy.run import SYSTEM_ENTROPY, Run, Spent, ended
from lookalike.public_table import PublicTable, as_public
from lookalike.release import CHUNK_ROWS, FittedModel, Release, check_rows
from lookalike.schema.enforce import check_rules
from lookalike.schema.schema import Schema
from lookalike.synthesizers import Step, create, settings_of
from lookalike.synthesizers.base import Method, Progress, between, check_target, with_passes
from lookalike.synthesizers.split import UNKNOWN, Kind, check_sets, limits_of, noise_source, reads_rows, with_discovery

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
    public: Any = None,
    insecure_rng: Generator | None = None,
    **settings: Any,
) -> Release:
    """Return a release: a synthetic table like `table`, the model behind it, and the account of what it cost.

    Args:
        table: a pandas, polars or Arrow table, or the path of a CSV or Parquet file.
        schema: public facts about the columns: a Schema, a path to one, or {column: number of codes}. Facts that it
            leaves open are discovered privately, inside the same budget; without a schema all but names and types are.
        epsilon: privacy budget of this run.
        delta: probability with which the bound epsilon may fail.
        method: one of `lookalike.methods()`.
        generator: "model" draws rows from the model of the method; "gum" updates rows to fit the noisy marginals (the
            generator of PrivSyn); "mcf" does so by min-cost flows (slow, for small marginals; the paper of PrivSyn
            compares with it).
        rows: number of rows to make; by default the noisy number of rows of the table, at least its noise.
        seed: seed for rounding and sampling. The privacy noise has no seed.
        ledger: where charges are recorded. Files have a default ledger; charges on a frame are kept in memory only.
        neighbours: what one person can change; adding or removing one row by default.
        person: column that says whose row it is. At most `neighbours.max_rows_per_person` random rows of each person
            are then used, and synthetic persons have about as many rows each.
        discovery: how much of the budget the discovery of open facts may spend, and whether a run stops where it cannot
            see enough (`Discovery(strict=True)`), with a `DoubtfulError`.
        progress: called with a message and the fraction done.
        public: a table of the same columns that anybody may read, such as an earlier release; a path or a frame. The
            model follows it as far as the noisy answers support it; some of its rows may be among the synthetic ones.
        insecure_rng: reproducible noise for benchmarks. The release is then NOT PRIVATE, and stamped so.
        **settings: settings of the method.

    Notes about the run, such as columns that had to be guessed, are issued as `LookalikeWarning`.

    >>> import lookalike, pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 500, "smoker": ["no", "no", "yes", "no"] * 250})
    >>> sex = {"name": "sex", "constraints": {"required": True, "enum": ["F", "M"]}}
    >>> smoker = {"name": "smoker", "constraints": {"required": True, "enum": ["no", "yes"]}}
    >>> release = lookalike.synthesize(people, schema={"fields": [sex, smoker]}, epsilon=1.0, rows=100)
    >>> release.table.num_rows, release.table.column_names
    (100, ['sex', 'smoker'])
    >>> release.spent.epsilon_spent <= 1.0
    True
    """
    check_rows(rows)
    check_generator(generator, public)
    known = {"schema": schema, "epsilon": epsilon, "delta": delta, "neighbours": neighbours, "person": person}
    run = prepare(table, **known, method=method, discovery=discovery, public=public, settings=settings)
    release = execute(run, Making(generator, rows, seed), ledger=ledger, progress=progress, insecure_rng=insecure_rng)
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
    public: PublicTable | None = None


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
    public: Any = None,
    settings: dict[str, Any] | None = None,
) -> PreparedRun:
    """Return the run for `execute`: its schema, method, budget and plan, from public facts alone.

    The arguments are those of `synthesize`. Of the table only names and types of columns are read, and only if no
    schema is given.
    """
    table = as_table(table)
    facts, people = with_persons(as_schema(schema, table), person, neighbours or Neighbours())
    search = discovery or Discovery()
    chosen = create(method, settings or {})
    budget = search.budget(facts, epsilon, delta, chosen.accounting)
    plan = _planned(facts, budget, chosen, search)
    if reads_rows(plan):
        check_gives_rows(table, method)
    check_rules(facts)
    if public is not None:
        check_sets(plan, method)
        public = as_public(public, table, facts)
    return PreparedRun(table, facts, people, chosen, search, delta, budget, plan, public)


@dataclass(frozen=True, slots=True)
class Making:
    """How rows are made from the model of a run.

    Attributes:
        generator: see `synthesize`.
        rows: number of rows; None for the noisy number of rows of the table.
        seed: seed for rounding and sampling.
        outputs: what is done with the release, in plain values, so that a resumed run can do it.
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

    If the ledger is on disk, the noisy answers are kept in a file beside it until `finish`, which writes the results,
    has returned. Until then `resume` can finish the run without spending again.
    """
    begun = begin(run, making, ledger=ledger, insecure_rng=insecure_rng)
    return begun.finished(progress=progress, finish=finish, insecure_rng=insecure_rng)


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run that has a line in its ledger: a new run, or an interrupted one that is continued."""

    run: PreparedRun
    making: Making
    account: Run

    @property
    def answers(self) -> int:
        """Number of noisy answers of an interrupted run that were kept."""
        return len(self.account.journal.answers) if self.account.journal else 0

    def finished(
        self,
        *,
        progress: Progress | None = None,
        finish: Finish | None = None,
        insecure_rng: Generator | None = None,
    ) -> Release:
        """Spend what is left of the budget, and make the release. Answers that were kept are not paid for again."""
        try:
            report, _ = with_passes(progress)
            made = spend(self.run, self.making, self.account, report, insecure_rng)
            if finish is not None:
                report("writing files", 0.95)
                finish(made)
            report("done", 1.0)
            if self.account.journal is not None:  # a resumed run would need the answers until here
                self.account.journal.discard()
            return made
        finally:
            if self.account.journal is not None:
                self.account.journal.close()


def begin(
    run: PreparedRun,
    making: Making | None = None,
    *,
    ledger: Ledger | str | Path | None = None,
    insecure_rng: Generator | None = None,
) -> BegunRun:
    """Write the first line of a run to its ledger, or refuse it by the cap. Nothing is spent yet."""
    making = making or Making()
    check_rows(making.rows)
    run.method.check_rows(making.rows)
    book = as_ledger(ledger, run.table)
    noise = noise_source(run.plan, reproducible=insecure_rng is not None)
    account = book.begin(**facts_of(run), noise=noise)
    if book.path is not None and noise == SYSTEM_ENTROPY:
        making = replace(making, seed=secrets.randbits(63) if making.seed is None else making.seed)
        header = {"ledger": book.identity, "run": account.number, **_described(run, making)}
        account.record(Journal.start(journal_path(book.path, account.number), account.begun, header))
    return BegunRun(run, making, account)


def facts_of(run: PreparedRun) -> dict[str, Any]:
    """Return the facts about a run that the first of its lines in the ledger states."""
    facts = {"method": run.method.name, "schema": run.schema.fingerprint(), "budget": run.budget}
    beside = {"public": run.public.text} if run.public is not None else {}
    return {**facts, "neighbours": run.neighbours, "stop_delta": run.search.stop_delta(run.delta), **beside}


def spend(
    run: PreparedRun, making: Making, account: Run, progress: Progress | None, insecure_rng: Generator | None = None
) -> Release:
    """Return the release of a run whose account is open. The account is closed when the budget is spent."""
    report, watch = with_passes(progress)
    with ended(account), ExitStack() as closed_after:
        report("reading the table", 0.0)
        door = open_table(
            run.table,
            run.schema,
            run.budget,
            account,
            neighbours=run.neighbours,
            insecure_rng=insecure_rng,
            keep_rows=run.search.wants_rules(run.schema),
            single_rows=reads_rows(run.plan),
            watch=watch,
        )
        closed_after.callback(door.close)
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
        door = door.recorded_by(recording := Recording())
        recording.measured(door.known)
        fitting, rng = between(report, 0.35 if run.schema.open_facts else 0.02, 0.8), np.random.default_rng(making.seed)
        model = method.fit(door, split, rng=rng, progress=fitting)
        if making.generator != "model":
            report("updating rows", 0.8)
            rng = np.random.default_rng(making.seed)
            model = updated_rows(model, recording.released, rng, flows=making.generator == "mcf")
    informed = run.public.fitted(model, recording.released, door.schema) if run.public is not None else None
    model = informed.model if informed is not None else model
    report("making rows", 0.8)
    spent, files = _spent(run, account.summary(), method.name), files_of(run.table, account.ledger)
    released, residuals = tuple(recording.released), tuple(recording.residuals)
    fitted = FittedModel(door.schema, model, spent, door.form, released, residuals, inputs=files)
    number = fitted.rows if making.rows is None else making.rows
    seed = secrets.randbits(63) if making.seed is None and number > CHUNK_ROWS else making.seed
    first = next(fitted.batches(number, seed=seed))
    notes, larger = (*found.notes, *fitted.diagnosis().notes), number > CHUNK_ROWS
    notes = notes if informed is None else (*notes, informed.note)
    return Release(first, fitted, plan, notes, found.unseen, (number, cast(int, seed)) if larger else None)


def _described(run: PreparedRun, making: Making) -> dict[str, Any]:
    """Return all that is needed to prepare the same run again, as plain values. Public: no row was read for it."""
    return {
        "table": reading_of(run.table),
        "schema": run.schema.to_dict(),
        "epsilon": run.budget.epsilon,
        "delta": run.delta,
        "method": run.method.name,
        "settings": settings_of(run.method),
        "neighbours": asdict(run.neighbours),
        "discovery": asdict(run.search),
        "making": asdict(making),
        **({"public": run.public.path} if run.public is not None else {}),
    }


def _spent(run: PreparedRun, summary: RunSummary, chosen: str) -> Spent:
    """Return the account of a run, for its release."""
    method = {"method": run.method.name, "settings": settings_of(run.method), "chosen": chosen}
    budget = {name: getattr(run.budget, name) for name in ("epsilon", "delta", "accounting", "threshold_delta")}
    told = {name: getattr(summary, name) for name in ("neighbours", "charges", "private", "public")}
    return Spent(**method, **budget, **told)


def check_generator(name: str, public: Any = None) -> Generation:
    """Return the name of a generator; refuse one that does not exist, or that cannot use a public table."""
    known = get_args(Generation) if public is None else ("model",)
    if name not in known:
        beside = "" if public is None else " with a public table"
        raise SchemaError(f"The generator is {name!r}; it must be {' or '.join(map(repr, known))}{beside}.")
    return cast(Generation, name)


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
    domain = search.nominal(schema)
    check_target(method, domain)
    return with_discovery(found, method.split(domain, left), method.name)


def discovery_steps(schema: Schema, budget: Budget, search: Discovery) -> tuple[Step, ...]:
    """Return the steps by which discovery may spend budget on the facts that the schema leaves open."""
    found = search.plan(schema, budget)
    return tuple(Step(step, kind, UNKNOWN, rho, note, Kind.DISCOVERY) for step, kind, rho, note in found)


def reason_of(schema: Schema, method: str) -> str | None:
    """Return why `auto` chose its method; None for other methods."""
    return create(method, {}).reason(Discovery().nominal(schema))
