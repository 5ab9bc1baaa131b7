"""A small coded table, and the command line called in process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from lookalike.cli import main as cli


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Run the command line with these arguments; ledgers go to a folder of the test's own."""
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["lookalike", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        code = exit_.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """600 coded rows of four columns, the first two dependent."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 3, 600)
    rows = np.column_stack([a, (a + (rng.random(600) < 0.2)) % 3, rng.integers(0, 5, 600), rng.integers(0, 2, 600)])
    path = tmp_path / "table.csv"
    np.savetxt(path, rows, fmt="%d", delimiter=",", header="a,b,c,d", comments="")
    return path


@pytest.fixture
def domain(tmp_path: Path) -> Path:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps({"a": 3, "b": 3, "c": 5, "d": 2}))
    return path
