"""The noise that is drawn is never less than the noise that was paid for, not by one unit in the last place."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lookalike
from lookalike.measurements import CellTable
from lookalike.privacy.kernel import mechanisms
from lookalike.privacy.kernel.accounting import Accountant, Budget, Neighbours, gaussian_rho
from lookalike.privacy.kernel.door import GuardedTable, contrasts_rho
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.row_level import critic_sums
from lookalike.privacy.row_level import seeded_rows as geometric
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.sources.frames import TableForm
from lookalike.sources.open import MemorySource, OpenedTable

SIZES = {"a": 2, "b": 3, "c": 7}
CODES = np.array([[0, 1, 6], [1, 2, 3]], dtype=np.int32)
STDDEVS = st.floats(1e-2, 1e5)
# Every example sets its spies anew, so what the one before left behind does not matter.
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Drawn:
    """Stands for the laws of the noise: keeps the scales that they are made with, as exact numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scales: list[Fraction] = []
        for module, name in ((mechanisms, "Gaussian"), (geometric, "Geometric")):
            real = getattr(module, name)
            real = getattr(real, "real", real)

            def law(scale: float, real: Any = real) -> Any:
                self.scales.append(Fraction(scale))
                return real(scale)

            law.real = real  # type: ignore[attr-defined]
            monkeypatch.setattr(module, name, law)


def guarded() -> GuardedTable:
    budget = Budget(1000.0, 0.5, "zcdp")
    run = Ledger(None, "t").begin(method="m", schema="s", budget=budget, neighbours=Neighbours())
    accountant = Accountant(budget, run)
    accountant.charge = lambda charge: 0  # type: ignore[method-assign]
    opened = OpenedTable(MemorySource(Domain.of(SIZES), CODES), Schema.from_sizes(SIZES), TableForm("arrow"))
    return GuardedTable(opened, accountant, Neighbours())


@dataclass(frozen=True)
class AnyScore:
    """A score of any resolution."""

    resolution: int
    cliques: tuple[ColumnSet, ...] = (("a",),)
    sensitivity: Fraction = Fraction(1)

    def evaluate(self, counts: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([5 * self.resolution])


@QUICK
@given(stddev=STDDEVS, resolution=st.one_of(st.integers(1, 10**4), st.sampled_from([1000, 2 << 20, 3])))
def test_scores(monkeypatch: pytest.MonkeyPatch, stddev: float, resolution: int) -> None:
    drawn = Drawn(monkeypatch)
    guarded().noisy_scores(AnyScore(resolution), stddev, step="s")
    (scale,) = drawn.scales
    assert scale / resolution >= Fraction(stddev)
    assert scale / resolution <= Fraction(stddev) * (1 + Fraction(1, 2**51))


@QUICK
@given(stddev=STDDEVS, clique=st.sampled_from([("a",), ("b",), ("c",), ("b", "c"), ("a", "b", "c")]))
def test_contrasts(monkeypatch: pytest.MonkeyPatch, stddev: float, clique: ColumnSet) -> None:
    drawn = Drawn(monkeypatch)
    table = CellTable(clique, Domain.of(SIZES).shape(clique))
    guarded().measure_contrasts([table], [stddev], step="s")
    (scale,), cells = drawn.scales, table.contrasts.cells
    assert scale / cells >= Fraction(stddev)
    squared = Neighbours().squared_contrasts(table.contrasts)
    assert contrasts_rho([table], [stddev], Neighbours()) >= squared * cells**2 / (2 * scale**2)


@QUICK
@given(stddev=STDDEVS)
def test_counts_and_thresholds(monkeypatch: pytest.MonkeyPatch, stddev: float) -> None:
    drawn = Drawn(monkeypatch)
    guarded().measure([("a",), ("b",)], stddev, step="s")
    assert drawn.scales == [Fraction(stddev)] * 2
    assert gaussian_rho(1, stddev) >= 1 / (2 * drawn.scales[0] ** 2)


class _Trainer:
    def __init__(self, norm: int) -> None:
        self.norm = norm

    def critic(self) -> tuple[Any, int]:
        return self, self.norm

    def clipped_sums(self, rows: np.ndarray, norm: int) -> np.ndarray:
        return np.zeros(3, dtype=np.int64)

    def learn(self, sums: np.ndarray, /) -> None:
        pass


@QUICK
@given(stddev=st.floats(1e-2, 1e4), norm=st.integers(1, 10**6))
def test_gradients(monkeypatch: pytest.MonkeyPatch, stddev: float, norm: int) -> None:
    drawn = Drawn(monkeypatch)
    critic_sums.CriticSums(_Trainer(norm), 1, stddev=stddev).release(CODES, Domain.of(SIZES), None)
    assert drawn.scales[0] / norm >= Fraction(stddev)


@QUICK
@given(epsilon=st.floats(1e-2, 50.0))
def test_thresholds_of_seeds(monkeypatch: pytest.MonkeyPatch, epsilon: float) -> None:
    """Geometric noise of scale s costs 1/s: no more than the epsilon that the seeds' price is computed from."""
    drawn = Drawn(monkeypatch)
    geometric.two_sided_geometric(1 / Fraction(epsilon), 1)
    assert 1 / drawn.scales[0] <= Fraction(epsilon)


def test_no_stddev_is_multiplied_or_divided_in_floats_before_it_is_drawn_with() -> None:
    """A product or quotient that is handed to the noise, anywhere in the package, is one of a `Fraction`."""
    found = 0
    for path in Path(lookalike.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = getattr(getattr(node, "func", None), "id", "")
            if called in ("rounded_gaussian", "two_sided_geometric") and not isinstance(node.args[0], ast.Name):
                found += 1
                parts = [getattr(getattr(part, "func", None), "id", "") for part in ast.walk(node.args[0])]
                plain = isinstance(node.args[0], ast.Attribute)
                assert plain or "Fraction" in parts, f"{path}: {ast.unparse(node)}"
    assert found >= 3
