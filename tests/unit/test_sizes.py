"""Functions fit on a screen, and a file is one idea: bounds on their lengths."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lookalike

ROOT = Path(lookalike.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MAX_FILE = 450
LONGER: dict[str, int] = {}
"""Files that hold more than one idea and wait to be taken apart."""
MAX_METHOD_FILE = {"mosaic.py": 250, "ppsyn.py": 250, "bsg.py": 250}
MEDIAN, PERCENTILE_90, LONGEST = 6, 20, 50


def body_lengths() -> Iterator[tuple[int, str]]:
    """The number of lines of every function without signature and docstring, and its name."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                yield lines, f"{path.relative_to(ROOT)}:{node.name}"


def test_functions_are_short() -> None:
    lengths = sorted(body_lengths())
    print(*(f"{lines:4} {name}" for lines, name in lengths[-10:]), sep="\n")  # noqa: T201
    middle, late = (lengths[int(share * len(lengths))][0] for share in (0.5, 0.9))
    print(f"{len(lengths)} functions, median {middle}, 90th percentile {late}")  # noqa: T201
    assert middle <= MEDIAN
    assert late <= PERCENTILE_90
    assert [name for lines, name in lengths if lines > LONGEST] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short(path: Path) -> None:
    text = path.read_text()
    limit = LONGER.get(str(path.relative_to(ROOT)), MAX_FILE)
    if "\n@method(" in text:
        limit = MAX_METHOD_FILE.get(path.name, 200)
    assert len(text.splitlines()) <= limit
