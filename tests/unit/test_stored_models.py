"""What runs write can be read: models of methods on tables of no, few and many rows, at small and large budgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookalike.errors import ModelFileError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget, Charge
from lookalike.privacy.run import Spent
from lookalike.release import load
from lookalike.stored import Stored


@pytest.mark.parametrize("method", ["auto", "mst", "privsyn", "privbayes", "dp-copula", "mwem"])
@pytest.mark.parametrize("epsilon", [0.05, 3.0])
@pytest.mark.parametrize("rows", [0, 3, 500])
def test_every_model_that_is_saved_can_be_loaded(tmp_path: Path, method: str, epsilon: float, rows: int) -> None:
    rng = np.random.default_rng(rows)
    table = pa.table({"a": rng.integers(0, 3, rows), "b": rng.integers(0, 4, rows), "c": rng.integers(0, 2, rows)})
    made = synthesize(table, schema={"a": 3, "b": 4, "c": 2}, epsilon=epsilon, method=method)
    made.fitted.save(tmp_path / "m.lookalike")
    stored = load(tmp_path / "m.lookalike")
    assert stored.sample_arrow(5, seed=1) == made.fitted.sample_arrow(5, seed=1)
    assert stored.spent == made.spent
    assert len(stored.measurements) == len(made.fitted.measurements)


def test_an_account_that_claims_too_much_is_refused() -> None:
    """Plants: a stored account may be private with a release that is not, or have charges beyond its budget."""
    charge = Charge("s", "gaussian", 1, Budget(1.0, 1e-5, "gdp").rho)
    good = Spent("m", {}, 1.0, 1e-5, "gdp", "one row", (charge,))
    assert Spent.from_stored(Stored(good.to_json())) == good
    leaky = replace(good, charges=(replace(charge, mechanism="none"),))
    with pytest.raises(ModelFileError, match="claims to be private"):
        Spent.from_stored(Stored(leaky.to_json()))
    assert not Spent.from_stored(Stored(replace(leaky, private=False).to_json())).private
    with pytest.raises(ModelFileError, match="charges more than its budget"):
        Spent.from_stored(Stored(replace(good, charges=(charge, charge)).to_json()))
