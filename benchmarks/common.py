"""What all benchmarks share: paths, command lines, stored lines, fresh processes, Markdown. Standard library only,
because a part of the engine's benchmark runs where the package is not installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("LOOKALIKE_BENCHMARK_DATA", ROOT.parent / "shared" / "data"))
DOCS = ROOT / "docs"
REPRODUCTIONS = DOCS / "reproductions"

Line = dict[str, Any]
"""One stored line of a results file."""


def results_of(name: str) -> Path:
    """The file of stored runs of a benchmark."""
    return ROOT / "benchmarks" / "results" / f"{name}.jsonl"


def stored(path: Path) -> list[Line]:
    """The lines of a results file; none where it does not exist."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def append(path: Path, line: Line) -> None:
    """Add one line to a results file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def dispatch(package: str, commands: Sequence[str]) -> None:
    """Run the module of a package that the first word of the command line names, with the words after it."""
    parser = parser_of(package, importlib.import_module(package).__doc__)
    parser.add_argument("command", choices=commands)
    command = parser.parse_args(sys.argv[1:2]).command
    importlib.import_module(f"{package}.{command}").main(sys.argv[2:])


def parser_of(module: str, description: str | None, *actions: str) -> argparse.ArgumentParser:
    """The parser of a module's command line, whose first word is one of `actions` if there are any."""
    prog = "python -m " + (module if module.count(".") < 2 else " ".join(module.rsplit(".", 1)))
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=prog, description=description, formatter_class=form)
    if actions:
        parser.add_argument("action", choices=actions)
    return parser


def add_grid(
    parser: argparse.ArgumentParser,
    *,
    tables: Iterable[str],
    methods: Iterable[str] | None = None,
    epsilons: Iterable[float],
    repeats: int,
) -> None:
    """Add the options of a grid of runs, with their defaults; several values are separated by spaces."""
    parser.add_argument("--tables", nargs="+", default=list(tables))
    if methods is not None:
        parser.add_argument("--methods", nargs="+", default=list(methods))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(epsilons))
    parser.add_argument("--repeats", type=int, default=repeats)


def in_fresh_process(
    *command: str, python: str = sys.executable, environment: Mapping[str, str] | None = None, **options: Any
) -> Line:
    """The JSON line that `python -m COMMAND` prints in a process of its own, or `error` with the reason of its failure.

    `options` go to `subprocess.run`.
    """
    variables = os.environ | dict(environment or {})
    words = [python, "-m", *command]
    try:
        done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, **options)
    except subprocess.TimeoutExpired as error:
        return {"error": str(error)}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def markdown(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a Markdown table."""
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def replace_parts(page: Path, parts: Mapping[str, Iterable[str]]) -> None:
    """Write lines into each part of a page anew, between its markers `<!-- name:begin -->` and `<!-- name:end -->`."""
    text = page.read_text(encoding="utf-8")
    for name, lines in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, rest = text.split(begin)
        content = "\n".join(lines).strip()
        text = f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"
    page.write_text(text, encoding="utf-8")
    print(page)
