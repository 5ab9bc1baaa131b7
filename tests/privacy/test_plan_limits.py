"""A method is held to its plan: what the plan does not allow is refused before it is read, and leaves no charge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import BudgetError, BudgetExceededError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget, Charge, Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.schema.domain import Domain
from lookalike.sources.open import MemorySource
from lookalike.synthesizers import METHODS
from lookalike.synthesizers.base import Method
from lookalike.synthesizers.independent import Independent
from lookalike.synthesizers.split import ONEWAYS, Split, Step

SIZES = {"a": 3, "b": 2}
TABLE = pa.table({"a": [0, 1, 2, 2] * 20, "b": [0, 1, 1, 0] * 20})


@dataclass(frozen=True, slots=True)
class Wayward(Method):
    """Counts columns as planned, then asks for something else."""

    name: ClassVar[str] = "wayward"
    accounting: ClassVar = "gdp"
    info: ClassVar = Independent.info

    second: str = "more"
    share: float = 0.5
    looks: int = 1

    def split(self, domain: Domain, rho: float) -> Split:
        return Split((Step.columns(domain, rho / 4), Step.sets("more", 1, "counts of both", rho / 4)))

    def fit(self, door, split, *, rng, progress):
        rho = float(door.budget.rho)
        door.measure([("a",), ("b",)], door.stddev_for(rho / 4, 2), step=ONEWAYS)
        for _ in range(self.looks):
            door.measure([("a", "b")], door.stddev_for(rho * self.share / self.looks), step=self.second)
        free = _Free(door)
        return Independent().fit(free, Independent().split(free.domain, 1.0), rng=rng, progress=progress)


class _Free:
    """Answers that cost nothing, for the model that a well-behaved run of the method returns."""

    def __init__(self, door) -> None:
        self.domain, self.schema, self.remaining, self.known = door.domain, door.schema, 1.0, ()

    def stddev_for(self, rho: float, releases: int = 1) -> float:
        return 1.0

    def measure(self, cliques, stddev, *, step, groups=None):
        from lookalike.measurements import NoisyMarginal

        return [NoisyMarginal(c, np.full(self.domain.shape(c), 40.0), 1.0, None, 0) for c in cliques]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, ...]]]:
    """What is read, set by set."""
    monkeypatch.setitem(METHODS, "wayward", Wayward)
    seen: list[list[tuple[str, ...]]] = []
    real = MemorySource.counts

    def counts(self, cliques):
        seen.append(list(cliques))
        return real(self, cliques)

    monkeypatch.setattr(MemorySource, "counts", counts)
    return seen


def run(ledger: Ledger, **settings):
    return synthesize(TABLE, schema=SIZES, method="wayward", epsilon=1.0, delta=1e-5, ledger=ledger, seed=0, **settings)


@pytest.mark.parametrize("looks", [1, 3])
def test_a_method_that_keeps_to_its_plan_runs(reads, looks: int) -> None:
    ledger = Ledger(None, "t")
    run(ledger, share=0.25, looks=looks)
    assert [charge.step for charge in ledger.runs()[0].charges] == [ONEWAYS] + ["more"] * looks
    assert len(reads) == 1 + looks


def test_more_than_a_step_may_spend_is_refused_before_it_is_read(reads, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "book", "t")
    with pytest.raises(BudgetExceededError, match=r"Step 'more' of the plan .* only .* is left.*bug in the method"):
        run(ledger, share=0.26)
    assert [charge.step for charge in Ledger(tmp_path / "book", "t").runs()[0].charges] == [ONEWAYS]
    assert reads == [[("a",), ("b",)]]


def test_a_step_is_held_to_the_sum_of_its_charges(reads) -> None:
    ledger = Ledger(None, "t")
    with pytest.raises(BudgetExceededError, match="Step 'more'"):
        run(ledger, share=0.5, looks=4)
    assert [charge.step for charge in ledger.runs()[0].charges] == [ONEWAYS, "more", "more"]
    assert len(reads) == 3


def test_a_step_that_is_not_planned_is_refused_before_it_is_read(reads) -> None:
    ledger = Ledger(None, "t")
    with pytest.raises(BudgetError, match=r"Step 'else' is not in the plan .*bug in the method"):
        run(ledger, share=0.01, second="else")
    assert [charge.step for charge in ledger.runs()[0].charges] == [ONEWAYS]
    assert ledger.runs()[0].status == "failed"
    assert reads == [[("a",), ("b",)]]


def test_what_a_stopped_run_is_charged_needs_no_plan() -> None:
    ledger = Ledger(None, "t")
    budget = Budget(1.0, 1e-5, "gdp")
    open_run = ledger.begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    open_run.keep_to({ONEWAYS: float(budget.rho)})
    open_run.charge(Charge("stopped", "stopped", 0, budget.rho))
    assert ledger.spent() == (1.0, 1e-5)


def test_after_discovery_the_plan_of_what_is_left_holds(reads) -> None:
    ledger = Ledger(None, "t")
    table = pa.table({"a": ["x", "y", "z", "z"] * 200, "b": ["u", "v", "v", "u"] * 200})
    with pytest.raises(BudgetExceededError, match="Step 'one-way marginals'"):
        synthesize(table, method="wayward", epsilon=1.0, delta=1e-5, ledger=ledger, seed=0)
    assert all(charge.step.startswith("discover: ") for charge in ledger.runs()[0].charges)
