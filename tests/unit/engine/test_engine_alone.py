"""The engine stands alone: what it imports of the package, and the example of its README."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from lookalike.engine import planner

FOLDER = Path(planner.__file__).parent
PACKAGE = planner.__name__.rpartition(".")[0]
README = (FOLDER / "README.md").read_text()
MODULES = sorted(set(re.findall(r"`(\w+)\.py`", README.partition("## Files")[2].partition("## Used")[0])))
ALLOWED = {
    "lookalike.schema.domain",
    "lookalike.errors",
    "lookalike.guards",
    *(f"{PACKAGE}.{name}" for name in MODULES),
}


def imported(module: str) -> set[str]:
    """Modules of the package that a module of the engine imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = node.module in ("lookalike", PACKAGE)
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if whole else {node.module}
    return {name for name in found if name.partition(".")[0] == "lookalike"}


def test_the_readme_lists_the_modules():
    assert len(MODULES) == 11
    assert all((FOLDER / f"{name}.py").exists() for name in MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_the_engine_imports_the_domain_errors_and_itself_only(module):
    assert imported(module) <= ALLOWED


def test_the_example_of_the_readme_runs_and_is_right():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    names: dict = {}
    exec(code, names)
    first, second = names["tables"]
    joint = np.exp(first[:, :, None] + second[None, :, :])
    assert names["log_z"] == pytest.approx(np.log(joint.sum()))
    marginal = names["network"].unpack(1, names["network"].marginals)
    np.testing.assert_allclose(marginal, joint.sum(axis=0) / joint.sum())
