"""Every method from end to end: given the same noisy answers, neighbouring tables give the same release, and the loss
that the noise had to hide is at most what was charged before it was drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.release import Release
from lookalike.stored import taken_apart
from lookalike.synthesizers import METHODS
from tests.privacy.spies import Tape, check_paid, neighbouring, share_used

SIZES = {"a": 3, "b": 2, "c": 2, "d": 2}
RARE, COMMON = (2, 1, 0, 1), (0, 0, 0, 0)
FEW = {"rounds": 3, "per_round": 4}
QUICK: dict[str, dict[str, Any]] = {
    "ppsyn": {"iterations": 10},
    "aim": {"iterations": 10, "rounds": 4},
    "fem": FEW,
    "dualquery": FEW,
    "rap": {"relaxed_rows": 50, "steps": 10},
    "ppsyn-paper": {"iterations": 10},
    "fem-paper": FEW,
    "dualquery-paper": FEW,
    "rap-paper": {"relaxed_rows": 50, "steps": 10},
    "dp-wgan": {"steps": 40, "hidden": 16, "units": 8},
    "pate-gan": {"rounds": 10, "hidden": 16, "units": 8},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, QUICK.get(method, {})) for method in METHODS},
    "mosaic, small budget": ("mosaic", {"epsilon": 0.1}),
    "mosaic, parities": ("mosaic", {"epsilon": 20.0, "parity_share": 0.2}),
    "mst, gum": ("mst", {"generator": "gum"}),
    "mst, mcf": ("mst", {"generator": "mcf"}),
}
REPLACED = ("independent", "mosaic", "aim", "privbayes", "dualquery", "dp-copula", "dp-wgan", "pate-gan")


def table_of(rows: int = 40) -> np.ndarray:
    """Columns that depend on each other; none holds the first value of RARE."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a % 2, 0)
    return np.stack([a, b, b, rng.integers(0, 2, rows)], axis=1).astype(np.int32)


def written(release: Release) -> Any:
    """The rows, the whole model and all noisy measurements."""
    meta, arrays = taken_apart(release.fitted.model)
    columns = {name: release.table[name].to_pylist() for name in release.table.column_names}
    return columns, meta, arrays, [(m.attrs, m.values) for m in release.fitted.measurements]


def replayed(
    method: str, neighbours: Neighbours, people: tuple[tuple[int, ...], ...] = (RARE,), **arguments: Any
) -> list[Tape]:
    def run(codes: np.ndarray, tape: Tape) -> Any:
        tape.ledger, tape.step = Ledger(None, "t"), method
        table = pa.table({name: codes[:, i] for i, name in enumerate(SIZES)})
        rng = np.random.default_rng(1)
        common = {"schema": SIZES, "seed": 2, "ledger": tape.ledger, "insecure_rng": rng, "neighbours": neighbours}
        return written(synthesize(table, method=method, **common, **arguments))

    rows = neighbours.max_rows_per_person
    return neighbouring(run, table_of(), [np.array([row] * rows) for row in people])


@pytest.mark.parametrize("variant", VARIANTS)
def test_methods_release_nothing_that_is_not_paid_for(variant: str) -> None:
    method, arguments = VARIANTS[variant]
    tapes = replayed(method, Neighbours(), **arguments)
    check_paid(tapes)
    least = 0.15 if method == "pate-gan" else 0.5  # a teacher's vote need not follow its one new row
    assert least < share_used(tapes) <= 1 + 1e-9


@pytest.mark.parametrize("method", REPLACED)
def test_replaced_persons_of_several_rows_are_paid_for(method: str) -> None:
    tapes = replayed(method, Neighbours("replace", 2), (RARE, COMMON), **QUICK.get(method, {}))
    check_paid(tapes, "replace")
    assert 0.05 < share_used(tapes, "replace") <= 1 + 1e-9


def test_histograms_of_prefixes_are_paid_for() -> None:
    """The delta of cells that one row alone holds is checked with the release itself; here the cells stay the same."""
    tapes = replayed("bsg", Neighbours(), (COMMON, (1, 1, 1, 0)), omega=1, seeds="histogram")
    check_paid(tapes)
    assert tapes[0].draws[-1].exact is not None
    assert 0.9 < share_used(tapes) <= 1


def test_parts_of_the_table_spend_what_a_part_may() -> None:
    epsilon, delta, shares = 1.0, 1e-5, (0.3, 0.4)
    tapes = replayed("bsg", Neighbours(), epsilon=epsilon, delta=delta, parts="0.3,0.4")
    part = Budget(float(np.log1p(np.expm1(epsilon) / sum(shares))), delta / sum(shares), "gdp")
    used = share_used(tapes) * float(tapes[0].charged)
    assert used <= float(part.rho) * (1 + 1e-9)
    assert tapes[0].ledger is not None
    assert tapes[0].ledger.runs()[0].rho == Budget(epsilon, delta, "gdp").rho


def people(codes: np.ndarray) -> pa.Table:
    """Texts, numbers and times of coded rows, all as text; a code of 3 stands for extreme values."""
    towns, ages, days = ["Ox", "Rye", "Ely", "Ox"], ["17", "35", "62", "1" + "0" * 30], ["01-03", "04-17", "11-30"]
    town, age, day = (codes[:, i].tolist() for i in range(3))
    dates = [f"2023-{days[c]}" if c < 3 else "0001-01-01" for c in day]
    return pa.table({"town": [towns[c] for c in town], "age": [ages[c] for c in age], "seen": dates})


@pytest.mark.parametrize("neighbours", [Neighbours(), Neighbours("replace", 2)], ids=["added", "replaced"])
def test_discovery_releases_nothing_that_is_not_paid_for(neighbours: Neighbours) -> None:
    """Without a schema. Values that one person alone has are the threshold's to hide, and are checked with it."""

    def run(codes: np.ndarray, tape: Tape) -> Any:
        tape.ledger = Ledger(None, "t")
        common = {"epsilon": 20.0, "seed": 2, "ledger": tape.ledger, "neighbours": neighbours}
        return written(synthesize(people(codes), method="independent", **common))

    base = np.random.default_rng(0).integers(0, 3, (300, 3))
    rows = neighbours.max_rows_per_person
    tapes = neighbouring(run, base, [np.array([row] * rows) for row in ((3, 3, 3), (0, 0, 0), (2, 1, 0))])
    check_paid(tapes, neighbours.relation)
    assert all(draw.private for draw in tapes[0].draws)
    assert 0.2 < share_used(tapes, neighbours.relation) <= 1
    ledger = tapes[0].ledger
    assert ledger is not None
    thresholds = [charge for charge in ledger.runs()[0].charges if charge.mechanism == "threshold"]
    assert thresholds
    assert all(charge.delta > 0 for charge in thresholds)
    assert sum(charge.delta for charge in thresholds) <= ledger.runs()[0].threshold_delta
