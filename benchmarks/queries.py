"""RAP, FEM and DualQuery, both ways, beside independent columns and MWEM+PGM, on the papers' tables.

    python benchmarks/queries.py run [--methods 'rap;fem, faithful'] [--tables nltcs,adult] [--epsilons 0.1,1]
    python benchmarks/queries.py document

`run` appends one JSON line per run to benchmarks/results/queries.jsonl and never repeats a run that is there;
`document` writes the tables of docs/reproductions/query_methods.md from them. 80 % of the rows are synthesised, delta
is 1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the
noisy count says. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import accuracy
from lookalike.evaluate.compare import Job, Result, jobs_of, judge_method, read_results, run_jobs, summary
from tables import replace_parts

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "queries.jsonl"
DOCUMENT = HERE.parent / "docs" / "reproductions" / "query_methods.md"
TABLES = ("nltcs", "adult", "br2000")
EPSILONS = (0.1, 1.0)
FAITHFUL = ", faithful"
OWN = ("rap", "fem", "dualquery")
METHODS = ("independent", "mwem-pgm", *OWN, *(name + FAITHFUL for name in OWN))


def synthesize(rows: Any, *, method: str, **arguments: Any) -> Any:
    """A release by a method whose name may say that it is to be faithful."""
    if method.endswith(FAITHFUL):
        return accuracy.synthesize(rows, method=method.removesuffix(FAITHFUL), faithful=True, **arguments)
    return accuracy.synthesize(rows, method=method, **arguments)


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run; called in a process of its own."""
    rows, schema = accuracy.table_of(job.table)
    return judge_method(job, table=rows, schema=schema, synthesize=synthesize)


def distances(results: list[Result]) -> list[str]:
    """3-way / 5-way distances, one row per method, one column per table and epsilon."""
    three, five = summary(results, "tvd.3"), summary(results, "tvd.5")
    columns = [(table, epsilon) for table in TABLES for epsilon in EPSILONS]
    text = ["| method | " + " | ".join(f"{table}, {epsilon:g}" for table, epsilon in columns) + " |"]
    text.append("|---|" + "---|" * len(columns))
    for method in METHODS:
        keys = [(table, method, epsilon) for table, epsilon in columns]
        cells = [f"{three[key][0]:.4f} / {five[key][0]:.4f} ({three[key][2]})" if key in three else "" for key in keys]
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def costs(results: list[Result]) -> list[str]:
    """Most processor seconds and memory of any run, per table and method."""
    text = ["| method | " + " | ".join(TABLES) + " |", "|---|" + "---|" * len(TABLES)]
    for method in METHODS:
        cells = []
        for table in TABLES:
            own = [line for line in results if line["table"] == table and line["method"] == method]
            seconds, memory = (max((line[name] for line in own), default=0.0) for name in ("cpu_seconds", "peak_mb"))
            cells.append(f"{seconds:.1f} s, {memory:.0f} MB" if own else "")
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def document(results: list[Result]) -> None:
    """Replaces the generated parts of the document, each between its markers."""
    parts = {"costs": costs(results), "distances": distances(results)}
    replace_parts(DOCUMENT, {name: "\n".join(lines) for name, lines in parts.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "document"))
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by ;")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in EPSILONS))
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    if given.action == "run":
        epsilons = [float(epsilon) for epsilon in given.epsilons.split(",")]
        listed = jobs_of(given.tables.split(","), given.methods.split(";"), epsilons, given.repeats, train_share=0.8)
        run_jobs(listed, run_one, RESULTS, progress=accuracy.show_progress)
    else:
        document(read_results(RESULTS))
        print(DOCUMENT)


if __name__ == "__main__":
    main()
