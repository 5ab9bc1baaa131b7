"""The command line that pages of compared methods share: `run` stores runs, `document` writes the page from them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accuracy
from lookalike.evaluate.compare import Job, Result, jobs_of, judge_method, read_results, run_jobs
from tables import replace_parts

FAITHFUL = ", faithful"
"""At the end of a method's name: the paper's steps instead of the defaults."""


def synthesize(rows: Any, *, method: str, **arguments: Any) -> Any:
    """A release by a method whose name may say that it is to be faithful."""
    if method.endswith(FAITHFUL):
        return accuracy.synthesize(rows, method=method.removesuffix(FAITHFUL), faithful=True, **arguments)
    return accuracy.synthesize(rows, method=method, **arguments)


def run_faithful(job: Job) -> dict[str, object]:
    """Numbers of one run of a method that may be called faithful; called in a process of its own."""
    rows, schema = accuracy.table_of(job.table)
    return judge_method(job, table=rows, schema=schema, synthesize=synthesize)


@dataclass(frozen=True)
class Page:
    """A grid of runs and the document that shows them.

    Attributes:
        tables: the tables of the grid.
        methods: its methods.
        epsilons: its budgets.
        repeats: runs per cell, unless told otherwise.
        results: where runs are stored.
        document: the page.
        run_one: the numbers of one run; a function of a module, as it is sent to a fresh process.
        parts: the generated parts of the page, from the stored results.
    """

    tables: Sequence[str]
    methods: Sequence[str]
    epsilons: Sequence[float]
    repeats: int
    results: Path
    document: Path
    run_one: Callable[[Job], Mapping[str, object]]
    parts: Callable[[list[Result]], dict[str, list[str]]]

    def main(self, description: str | None) -> None:
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("action", choices=("run", "document"))
        parser.add_argument("--methods", default=";".join(self.methods), help="separated by ;")
        parser.add_argument("--tables", default=",".join(self.tables))
        parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in self.epsilons))
        parser.add_argument("--repeats", type=int, default=self.repeats)
        given = parser.parse_args()
        if given.action == "run":
            epsilons = [float(epsilon) for epsilon in given.epsilons.split(",")]
            grid = given.tables.split(","), given.methods.split(";"), epsilons
            jobs = jobs_of(*grid, given.repeats, train_share=0.8)
            run_jobs(jobs, self.run_one, self.results, progress=accuracy.show_progress)
        else:
            parts = self.parts(read_results(self.results))
            replace_parts(self.document, {name: "\n".join(lines) for name, lines in parts.items()})
            print(self.document)


def costs(results: list[Result], tables: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Most processor seconds and memory of any run, per table and method, as a Markdown table."""
    text = ["| method | " + " | ".join(tables) + " |", "|---|" + "---|" * len(tables)]
    for method in methods:
        cells = []
        for table in tables:
            own = [line for line in results if line["table"] == table and line["method"] == method]
            seconds, memory = (max((line[name] for line in own), default=0.0) for name in ("cpu_seconds", "peak_mb"))
            cells.append(f"{seconds:.1f} s, {memory:.0f} MB" if own else "")
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text
