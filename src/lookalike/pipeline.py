"""The whole flow in one short function: read this first.

schema -> budget -> plan -> ledger -> door -> model -> rows -> values
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.errors import SchemaError
from lookalike.privacy.budget import Budget
from lookalike.privacy.door import open_table
from lookalike.privacy.ledger import NO_GUARANTEE, Ledger, default_ledger_path
from lookalike.privacy.neighbours import Neighbours
from lookalike.release import FittedModel, Release, Spent, check_rows
from lookalike.schema.schema import Schema
from lookalike.synthesizers import create, settings_of
from lookalike.synthesizers.base import PlannedStep, Progress

if TYPE_CHECKING:
    from numpy.random import Generator


def synthesize(
    table: Any,
    *,
    schema: Schema | str | Path | dict[str, Any],
    epsilon: float = 1.0,
    delta: float = 1e-5,
    method: str = "mst",
    rows: int | None = None,
    seed: int | None = None,
    ledger: Ledger | str | Path | None = None,
    neighbours: Neighbours | None = None,
    progress: Progress | None = None,
    insecure_rng: Generator | None = None,
    **settings: Any,
) -> Release:
    """A release: a synthetic table like `table`, the model behind it, and the account of what it cost.

    Args:
        table: a pandas, polars or Arrow table, or the path of a CSV or Parquet file.
        schema: public facts about the columns: a Schema, a path to one, or {column: number of codes}.
        epsilon: privacy budget of this run.
        delta: probability that the guarantee may miss by more than epsilon.
        method: one of `lookalike.methods()`.
        rows: how many rows to make; by default the noisy estimate of the table's own number.
        seed: fixes rounding and sampling given the noise. Noise itself has no seed.
        ledger: where spending is recorded. Files have a default ledger; a frame without one is recorded in memory only.
        neighbours: what one person can change; adding or removing one row by default.
        progress: called with a message and the fraction done.
        insecure_rng: reproducible noise for benchmarks. The release is then NOT PRIVATE and says so.
        **settings: settings of the method.
    """
    check_rows(rows)
    schema = as_schema(schema)
    neighbours = neighbours or Neighbours()
    report = progress or _silent
    synthesizer = create(method, settings)
    check_rows(rows, getattr(synthesizer, "most_rows", None))
    budget = Budget(epsilon, delta, synthesizer.accounting)
    plan = tuple(synthesizer.plan(schema.domain, budget))
    book = as_ledger(ledger, table)
    run = book.begin(method=synthesizer.name, schema=schema.fingerprint(), budget=budget, neighbours=neighbours)
    status = "failed"
    try:
        report("reading the table", 0.0)
        door = open_table(table, schema, budget, run, neighbours=neighbours, insecure_rng=insecure_rng)
        model = synthesizer.fit(door, rng=np.random.default_rng(seed), progress=report)
        status = "done"
    finally:
        run.end(status)
    summary = run.summary()
    spent = Spent(
        method=synthesizer.name,
        settings=settings_of(synthesizer),
        epsilon=budget.epsilon,
        delta=budget.delta,
        accounting=budget.accounting,
        neighbours=neighbours.describe(),
        charges=summary.charges,
        private=insecure_rng is None and all(charge.mechanism != NO_GUARANTEE for charge in summary.charges),
    )
    check_plan(plan, spent)
    report("making rows", 0.9)
    fitted = FittedModel(door.schema, model, spent, door.form)
    release = Release(fitted.sample_arrow(rows, seed=seed), fitted, plan)
    report("done", 1.0)
    return release


def plan_run(
    schema: Schema, *, epsilon: float, delta: float, method: str, settings: dict[str, Any] | None = None
) -> tuple[Budget, tuple[PlannedStep, ...]]:
    """What a run would spend, step by step, from public facts alone."""
    synthesizer = create(method, settings or {})
    budget = Budget(epsilon, delta, synthesizer.accounting)
    return budget, tuple(synthesizer.plan(schema.domain, budget))


def check_plan(plan: tuple[PlannedStep, ...], spent: Spent) -> None:
    """Compare what was announced with what was charged. A difference is a bug in a method, never a user's mistake."""
    allowed = {step.step: step.rho for step in plan}
    for step, rho in spent.by_step().items():
        if step not in allowed:
            raise RuntimeError(f"{spent.method} charged step {step!r}, which its plan does not list")
        if float(rho) > allowed[step] * (1 + 1e-9):
            raise RuntimeError(f"{spent.method} spent rho {float(rho)} on {step!r}; its plan allows {allowed[step]}")


def as_schema(schema: Schema | str | Path | dict[str, Any]) -> Schema:
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, dict):
        return (
            Schema.from_sizes(schema) if all(isinstance(v, int) for v in schema.values()) else Schema.from_dict(schema)
        )
    if isinstance(schema, (str, Path)):
        path = Path(schema)
        return Schema.from_domain_json(path) if path.suffix == ".json" else Schema.load(path)
    raise SchemaError(f"A schema cannot be a {type(schema).__name__}; give a Schema, a path or a mapping of sizes.")


def as_ledger(ledger: Ledger | str | Path | None, table: Any) -> Ledger:
    """The ledger to write to: the one given, or the default one of a file, or one in memory."""
    if isinstance(ledger, Ledger):
        return ledger
    identity = table_identity(table)
    if ledger is not None:
        return Ledger(Path(ledger), identity or f"ledger:{Path(ledger).resolve()}")
    return Ledger(default_ledger_path(identity) if identity else None, identity or "a table in memory")


def table_identity(table: Any) -> str | None:
    """Name under which a table's spending is kept: its resolved path. A frame in memory has none."""
    return str(Path(table).expanduser().resolve()) if isinstance(table, (str, Path)) else None


def _silent(message: str, fraction: float) -> None:
    """No progress wanted."""
