"""Adding a method is adding one file: the one that docs/adding_a_method.md shows, put into a temporary module."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lookalike
from lookalike import estimators
from lookalike.cli.main import app
from lookalike.errors import SchemaError
from lookalike.forecast import forecast
from lookalike.pipeline import plan_run
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.schema.schema import Schema
from lookalike.synthesizers import METHODS
from lookalike.synthesizers.base import Method, MethodInfo, method
from tests.contract import test_rules, test_synthesizers
from tests.contract.test_synthesizers import ROOT, SIZES

PAGE = (ROOT / "docs" / "adding_a_method.md").read_text()
SOURCE = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a method that stands in a module outside the package."""
    (tmp_path / "chain_method.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    import_module("chain_method")
    yield "chain"
    METHODS.pop("chain")
    sys.modules.pop("chain_method")
    vars(estimators).pop("Chain", None)


def test_the_contract_holds(chain: str, tmp_path: Path) -> None:
    contract = test_synthesizers
    contract.test_spends_its_budget_exactly_and_makes_rows_of_the_schema(chain, 1.0, 1e-6)
    contract.test_tables_of_hardly_any_rows(chain, 1)
    for sizes in ({"only": 5}, {"only": 1}, {"a": 3, "constant": 1, "c": 2}):
        contract.test_narrow_tables_and_constant_columns(chain, sizes)
    contract.test_spends_its_budget_for_other_neighbours(chain)
    contract.test_the_same_noise_and_seed_give_the_same_rows(chain)
    contract.test_a_stored_model_answers_and_samples_like_the_fitted_one(chain, tmp_path)
    contract.test_a_generous_budget_keeps_every_column(chain)
    contract.test_the_plan_is_made_without_data_and_lists_the_whole_budget(chain)
    contract.test_every_method_says_what_it_is(chain)
    contract.test_every_setting_says_where_its_default_comes_from(chain)


def test_rules_hold(chain: str) -> None:
    test_rules.test_no_row_breaks_a_rule(chain, 2.0)
    test_rules.test_the_model_itself_knows_what_is_impossible(chain)


def test_library_and_command_line_know_it(chain: str) -> None:
    assert chain in lookalike.methods()
    assert "Chain" in dir(lookalike)
    estimator = lookalike.Chain(epsilon=3.0, oneway_share=0.4)
    assert "oneway_share=0.4" in repr(pickle.loads(pickle.dumps(estimator)))
    table = pa.table({"a": [0, 1, 2, 2] * 20, "b": [0, 1, 1, 0] * 20})
    assert estimator.fit(table, {"a": 3, "b": 2}).sample(7).num_rows == 7
    listed = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    assert listed[chain]["settings"] == {"oneway_share": 0.3}
    assert listed[chain]["origins"] == {"oneway_share": "tuned: docs/adding_a_method.md"}


def test_the_forecast_knows_it(chain: str) -> None:
    schema = Schema.from_sizes(SIZES)
    _, steps = plan_run(schema, epsilon=1.0, delta=1e-5, method=chain)
    ahead = forecast(schema, steps, method=chain, neighbours=Neighbours())
    assert len(ahead.columns) == 4
    assert ahead.sets == 3
    assert ahead.resources is None


def test_a_taken_name_is_refused(chain: str) -> None:
    info = {name: getattr(METHODS[chain].info, name) for name in MethodInfo.__slots__}
    with pytest.raises(SchemaError, match="'chain' already: Chain"):
        method(chain, **info)(type("Other", (Method,), {}))


def test_a_file_in_the_folder_is_all_it_takes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "lookalike", tmp_path / "lookalike", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "lookalike" / "synthesizers" / "chain.py").write_text(SOURCE)
    table = tmp_path / "t.csv"
    table.write_text("a,b\n" + "0,1\n1,0\n" * 50)
    command = [sys.executable, "-m", "lookalike", "plan", str(table), "--method", "chain", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert [step["kind"] for step in json.loads(done.stdout)["steps"]][-2:] == ["columns", "sets"]
