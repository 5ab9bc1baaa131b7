"""Every method's release gives a public report, answers with error bars, and keeps both when stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lookalike
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Ordinal
from lookalike.schema.schema import Schema

from .quick import quick

SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=10),
        Categorical("sex", ("F", "M")),
        Ordinal("level", ("low", "mid", "high")),
    )
)


def people() -> pa.Table:
    rng = np.random.default_rng(0)
    ages = rng.integers(0, 100, 1500)
    level = np.array(SCHEMA["level"].labels())[np.clip(ages // 34 + rng.integers(-1, 2, 1500), 0, 2)]
    return pa.table({"age": ages, "sex": rng.choice(["F", "M"], 1500), "level": level})


@pytest.mark.parametrize("method", lookalike.methods())
def test_report_and_answers_survive_storage(method: str, tmp_path: Path) -> None:
    release = lookalike.synthesize(people(), schema=SCHEMA, epsilon=2.0, method=method, seed=0, **quick(method))
    release.fitted.save(tmp_path / "m.lookalike")
    loaded = lookalike.load(tmp_path / "m.lookalike")
    assert loaded.report() == release.fitted.report()
    assert "What is guaranteed" in release.report()
    for question in ("count", "count by sex where age >= 50", "count where level != mid or sex = F"):
        answered, before = loaded.query(question), release.fitted.query(question)
        assert [labels for labels, _ in answered.rows] == [labels for labels, _ in before.rows]
        for (_, answer), (_, same) in zip(answered.rows, before.rows, strict=True):
            # A stored model may be summed in another order.
            assert (answer.value, answer.low, answer.high) == pytest.approx((same.value, same.low, same.high), rel=1e-9)
            assert 0 <= answer.low <= answer.value + 1e-6
            assert answer.value <= answer.high + 1e-6
    # 1500 rows at epsilon 2: noise of some dozens at most, here allowed ten times over.
    total = loaded.query("count").rows[0][1]
    assert total.low - 500 < 1500 < total.high + 500
