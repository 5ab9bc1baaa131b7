"""An inspection, and a strict run that stops, write and say nothing that tells neighbouring tables apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookalike.audit.written import SECRET, Case
from lookalike.discovery.discover import Discovery
from lookalike.errors import DoubtfulError
from lookalike.inputs import as_schema
from lookalike.inspecting import COLUMNS, inspect
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel import door
from lookalike.privacy.ledger import REPRODUCIBLE, SYSTEM_ENTROPY, Ledger
from lookalike.schema.explained import explained

from .test_everything_written import EPSILON, audited

RUNS = 48
CASES = [
    Case("new category", pa.table({"town": ["Ox", "Rye"] * 150}), pa.table({"town": [SECRET]})),
    Case("new maximum", pa.table({"age": [str(20 + i % 50) for i in range(300)]}), pa.table({"age": ["99999999"]})),
]


def inspected(table: pa.Table, extra: pa.Table, arguments: dict[str, Any]) -> dict[str, Any]:
    """All that an inspection gives back or writes."""
    budget = {name: arguments[name] for name in ("epsilon", "delta")}
    said: list[str] = []
    found = inspect(table, **budget, progress=lambda message, _: said.append(message))
    charges = [(charge.step, charge.mechanism) for charge in found.spent.charges]
    shown = {"repr": repr(found), "page": found._repr_html_(), "said": said, "charges": charges}
    return {"schema": explained(found.schema), "columns": found.columns(), "notes": list(found.notes), **shown}


def stopped(table: pa.Table, extra: pa.Table, arguments: dict[str, Any]) -> dict[str, Any]:
    """All that a strict run shows that may stop."""
    ledger = Ledger(None, "t")
    try:
        synthesize(table, **arguments, discovery=Discovery(strict=True), ledger=ledger, rows=3)
    except DoubtfulError as error:
        return {"error": str(error), "schema": explained(error.schema), "status": ledger.runs()[0].status}
    return {"status": ledger.runs()[0].status}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", [inspected, stopped])
@pytest.mark.parametrize("case", [CASES[0], pytest.param(CASES[1], marks=pytest.mark.slow)], ids=lambda case: case.name)
def test_nothing_tells_neighbours_apart(case: Case, write: Any) -> None:
    finding = audited(case, RUNS, write=write)
    assert not finding.broken, finding
    assert finding.detectable > 2 * EPSILON  # a fact that always shows would have been noticed: 40 runs show nothing


@pytest.mark.filterwarnings("ignore")
def test_an_inspection_without_thresholds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 3,000 rows: in 300, a third of the inspections finds no list of values that could give the new one away."""
    many = Case("new category", pa.table({"town": ["Ox", "Rye"] * 1500}), pa.table({"town": [SECRET]}))
    monkeypatch.setattr(door, "threshold", lambda *_: -np.inf)
    finding = audited(many, RUNS, write=inspected)
    assert finding.broken, finding


@pytest.mark.filterwarnings("ignore")
def test_all_that_an_inspection_spends_is_charged_planned_and_within_its_budget() -> None:
    ledger = Ledger(None, "t")
    table = pa.table({"town": ["Ox", "Rye"] * 500, "age": [str(20 + i % 50) for i in range(1000)]})
    found = inspect(table, epsilon=0.5, ledger=ledger)
    (run,) = ledger.runs()
    assert (run.method, run.status, run.noise) == ("inspect", "done", SYSTEM_ENTROPY)
    assert run.epsilon_counted == 0.5
    assert all(charge.step == COLUMNS or charge.step.startswith("discover: ") for charge in run.charges)
    assert found.spent.epsilon_spent <= 0.5
    whole = Discovery().budget(as_schema(None, table), 0.5, 1e-5, "gdp").rho
    assert 0.999 < run.rho / whole <= 1
    assert found.spent.threshold_delta == run.threshold_delta > 0


def test_an_inspection_with_repeatable_noise_is_not_private() -> None:
    """Plant: it is recorded as one with secret noise."""
    ledger = Ledger(None, "t")
    table = pa.table({"town": ["Ox", "Rye"] * 50})
    found = inspect(table, epsilon=0.5, ledger=ledger, insecure_rng=np.random.default_rng(0))
    assert (ledger.runs()[0].noise, ledger.spent()[0]) == (REPRODUCIBLE, math.inf)
    assert not found.spent.private
