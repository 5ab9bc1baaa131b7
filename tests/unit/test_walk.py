"""How many files of the package a run passes through, and that it reads, plans and prepares once.

`python -m tests.unit.test_walk synth TABLE.csv ...` prints the files of any command, each with the function
called first in it. Functions that run while a module is imported do not count.
"""

from __future__ import annotations

import csv
import inspect
import json
import os
import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import lookalike

PACKAGE = str(Path(lookalike.__file__).parent) + os.sep
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MAX_FILES = {"declared": 60, "discovered": 92}
"""What was counted with a schema; without one it was about 90, since noise decides which rules a run finds."""


def traced(arguments: list[str]) -> dict[str, int]:
    """How often the command line calls each function of the package, as 'file:function' in the order of first calls."""
    calls: dict[CodeType, int] = {}
    ignored: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in ignored:
            return
        if not code.co_filename.startswith(PACKAGE) or not code.co_flags & inspect.CO_OPTIMIZED:
            ignored.add(code)
        elif code in calls or not importing(frame):
            calls[code] = calls.get(code, 0) + 1

    from lookalike.cli.main import main

    sys.argv = ["lookalike", *arguments]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
    return {f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}": count for code, count in calls.items()}


def importing(frame: FrameType | None) -> bool:
    """Whether a module of the package is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def files(calls: dict[str, int]) -> dict[str, str]:
    """The files that were passed through, in order, with the first function called in each."""
    found: dict[str, str] = {}
    for name in calls:
        file, _, function = name.partition(":")
        found.setdefault(file, function)
    return found


def show(passed: dict[str, str]) -> None:
    listed = [f"{file}: {function}" for file, function in passed.items()]
    sys.stdout.write("\n".join([*listed, f"{len(passed)} files", ""]))


@pytest.fixture(scope="module", params=["declared", "discovered"])
def walk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, int]]:
    """The calls of one `synth` of the example table, in a process of its own, which has imported nothing yet."""
    folder = tmp_path_factory.mktemp("walk")
    table, options = EXAMPLES / "admissions.csv", ["--schema", str(EXAMPLES / "admissions.yaml"), "--method", "mst"]
    if request.param == "discovered":
        # A part of the table takes seconds, and the same way through the package.
        table, options = folder / "part.csv", []
        with open(EXAMPLES / "admissions.csv", newline="") as whole, open(table, "w", newline="") as part:
            csv.writer(part).writerows(row[:9] for row in islice(csv.reader(whole), 4000))
    places = ["--out", str(folder / "out.csv"), "--ledger", str(folder / "ledger.jsonl")]
    command = [sys.executable, "-m", __name__, "--json", "synth", str(table), *options, *places]
    environment = {**os.environ, "LOOKALIKE_NUMBA": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return request.param, json.loads(done.stdout.splitlines()[-1])


def test_a_run_passes_through_few_files(walk: tuple[str, dict[str, int]]) -> None:
    passed = files(walk[1])
    show(passed)
    assert len(passed) <= MAX_FILES[walk[0]]


def test_a_table_is_parsed_once_and_a_run_prepared_once(walk: tuple[str, dict[str, int]]) -> None:
    run, calls = walk
    once = ["sources/csvfiles.py:read_csv", "sources/csvfiles.py:_parse", "inputs.py:with_persons"]
    assert [calls[name] for name in once] == [1, 1, 1]
    assert calls.get("sources/csvfiles.py:read_names", 0) == (run == "discovered")
    assert calls["pipeline.py:_planned"] == 1


if __name__ == "__main__":
    as_json = sys.argv[1:2] == ["--json"]
    seen = traced(sys.argv[1 + as_json :])
    if as_json:
        sys.stdout.write(f"{json.dumps(seen)}\n")
    else:
        show(files(seen))
