"""Plausible seeds of given rows, against counting by hand; the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lookalike as la
from lookalike.cli.main import app
from lookalike.errors import InputError
from lookalike.evaluate.measures import deniability
from lookalike.models.bayes_net import BayesNet
from lookalike.schema.domain import Domain

DOMAIN = Domain(("x", "y"), (3, 2))
MODEL = BayesNet(
    DOMAIN, 10.0, ("y", "x"), ((), ("y",)), (np.array([0.5, 0.5]), np.array([[0.5, 0.5, 0], [0.2, 0.3, 0.5]])), {}
)
REAL = np.array([[0, 0]] * 5 + [[1, 1]] * 3 + [[2, 1]], dtype=np.int32)


def test_seeds_share_the_prefix_and_can_draw_the_rest() -> None:
    rows = np.array([[0, 0], [2, 1], [2, 0]], dtype=np.int32)
    found = deniability(MODEL, REAL, rows, [0, 1, 2])
    assert found.omegas == (0, 1, 2)
    # Row (x=2, y=0) cannot be drawn after y=0, and no real row equals it.
    assert found.seeds.tolist() == [[5, 5, 9], [1, 4, 9], [0, 0, 0]]
    assert found.deniable(4).tolist() == [1 / 3, 2 / 3, 2 / 3]


def test_the_smallest_class_counts_for_a_mixture() -> None:
    found = deniability(MODEL, REAL, np.array([[2, 1]], dtype=np.int32), [0, 1], gamma=2.0)
    # The row itself makes it with (1 + 0.5)/2, the three others of y=1 with 0.25: classes of 1 and 3.
    assert found.fewest.tolist() == [1]
    assert deniability(MODEL, REAL, np.array([[2, 0]], dtype=np.int32), [1]).fewest.tolist() == [0]


def test_senseless_questions_are_refused() -> None:
    rows = REAL[:1]
    with pytest.raises(InputError, match="omega"):
        deniability(MODEL, REAL, rows, [3])
    with pytest.raises(InputError, match="gamma"):
        deniability(MODEL, REAL, rows, [1], gamma=1.0)
    with pytest.raises(InputError, match="no rows"):
        deniability(MODEL, REAL, rows[:0])


def test_the_command_is_stamped_not_private(tmp_path: Path) -> None:
    frame = pd.DataFrame(REAL, columns=["x", "y"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    release = la.synthesize(
        tmp_path / "t.csv", schema={"x": 3, "y": 2}, method="bsg", rows=30, seed=0, ledger=tmp_path / "l"
    )
    release.fitted.save(tmp_path / "m")
    release.table.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    paths = [str(tmp_path / name) for name in ("m", "t.csv", "rows.csv")]
    result = CliRunner().invoke(app, ["deniability", *paths, "--k", "4"])
    assert result.exit_code == 0, result.output
    assert "NOT PRIVATE" in result.output
    found = json.loads(CliRunner().invoke(app, ["deniability", *paths, "--omega", "1-2", "--json"]).output)
    assert "NOT PRIVATE" in found["stamp"]
    assert [row[1] for row in found["seeds"]] == [9] * 30
    other = la.synthesize(frame, schema={"x": 3, "y": 2}, method="mst", rows=3)
    other.fitted.save(tmp_path / "m2")
    refused = CliRunner().invoke(app, ["deniability", str(tmp_path / "m2"), *paths[1:]])
    assert isinstance(refused.exception, InputError)
