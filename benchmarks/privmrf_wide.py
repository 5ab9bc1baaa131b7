"""PrivMRF on wide tables: hierarchies on Adult as published, with 100 or 16 bins for every numeric column, and a
made-up table of 150 columns.

    python benchmarks/privmrf_wide.py [--tables adult-100,adult-16,made-150] [--epsilons 0.1,1] [--repeats 3]

Appends one JSON line per run to benchmarks/results/privmrf_wide.jsonl and never repeats a run that is there;
`privmrf.py document` writes them into docs/reproductions/privmrf.md. Distances `tvd` are on the bins of the run, those
called `tvd16` on 16 bins per numeric column, whatever the run had. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import accuracy
import lookalike
from lookalike.evaluate.compare import Job, Result, jobs_of, peak_mb, run_jobs, summary
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.evaluate.ranges import range_errors
from lookalike.evaluate.real_data import split_rows
from lookalike.schema import codec
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.schema import Schema

RESULTS = Path(__file__).parent / "results" / "privmrf_wide.jsonl"
METHODS: dict[str, dict[str, Any]] = {
    "privmrf": {},
    "privmrf, hierarchy": {},
    "privmrf, faithful": {"faithful": True},
    "privmrf, faithful, hierarchy": {"faithful": True},
}
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "educational-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_499),
    "hours-per-week": (1, 99),
}
SCHOOL = {
    "up to 8th": ["Preschool", "1st-4th", "5th-6th", "7th-8th"],
    "9th to 12th": ["9th", "10th", "11th", "12th"],
    "HS-grad": ["HS-grad"],
    "college": ["Some-college", "Assoc-voc", "Assoc-acdm"],
    "Bachelors": ["Bachelors"],
    "higher degree": ["Masters", "Prof-school", "Doctorate"],
}
STUDIES = {"school": ["up to 8th", "9th to 12th", "HS-grad"], "studies": ["college", "Bachelors", "higher degree"]}
REGIONS = {
    "United-States": ["United-States"],
    "Mexico": ["Mexico"],
    "Canada": ["Canada"],
    "Caribbean": ["Puerto-Rico", "Cuba", "Jamaica", "Dominican-Republic", "Haiti", "Trinadad&Tobago"],
    "Central America": ["El-Salvador", "Guatemala", "Nicaragua", "Honduras"],
    "South America": ["Columbia", "Ecuador", "Peru"],
    "Europe": [
        "England", "Germany", "Italy", "Poland", "Portugal", "Greece", "France", "Ireland", "Yugoslavia", "Scotland",
        "Hungary", "Holand-Netherlands",
    ],
    "Asia": [
        "Philippines", "India", "China", "Vietnam", "Japan", "South", "Taiwan", "Iran", "Hong", "Thailand", "Cambodia",
        "Laos", "Outlying-US(Guam-USVI-etc)",
    ],
}  # fmt: skip
ABROAD = {"United-States": ["United-States"], "elsewhere": [name for name in REGIONS if name != "United-States"]}
GROUPS = {"education": (SCHOOL, STUDIES), "native-country": (REGIONS, ABROAD)}


@cache
def rows_and_schema(bins: int) -> tuple[pa.Table, Schema]:
    """Adult as published, with a schema that has a hierarchy for every column of many values."""
    rows = pyarrow.csv.read_csv(accuracy.DATA / "adult-raw.csv")
    columns: list[Column] = []
    for name in rows.column_names:
        if name in BOUNDS:
            low, high = BOUNDS[name]
            levels = tuple(n for n in (50, 25, 10, 5) if n < min(bins, high - low + 1))
            columns.append(Integer(name, minimum=low, maximum=high, bins=bins, hierarchy=levels))
        else:
            values = sorted(set(rows[name].unique().to_pylist()) - {"?"})
            columns.append(
                Categorical(
                    name, values=tuple(values), missing=("?",), hierarchy=GROUPS.get(name, ()), outside="absorb"
                )
            )
    return rows, Schema(tuple(columns))


def without_hierarchies(schema: Schema) -> Schema:
    content = schema.to_dict()
    for field in content["fields"]:
        field["dp"].pop("hierarchy", None)
    return Schema.from_dict(content)


def made_up(columns: int) -> tuple[pa.Table, Schema]:
    """20,000 rows of columns with 2 to 10 values that follow four hidden numbers, each in its own mixture."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(20_000, 4))
    sizes = {f"c{i}": int(size) for i, size in enumerate(rng.integers(2, 11, columns))}
    made = {}
    for name, size in sizes.items():
        score = hidden @ rng.normal(size=4) + rng.normal(size=len(hidden))
        made[name] = np.searchsorted(np.quantile(score, np.arange(1, size) / size), score)
    return pa.table(made), Schema.from_sizes(sizes)


def run_made_up(job: Job) -> dict[str, object]:
    rows, schema = made_up(int(job.table.removeprefix("made-")))
    cpu = time.process_time()
    release = lookalike.synthesize(
        rows, schema=schema, epsilon=job.epsilon, delta=job.delta, method="privmrf", seed=job.repeat,
        **METHODS[job.method],
    )  # fmt: skip
    numbers: Result = {"cpu_seconds": round(time.process_time() - cpu, 3), "peak_mb": peak_mb()}
    pair = TablePair(codec.encode(schema, rows), codec.encode(schema, release.rows), schema.domain)
    numbers["tvd"] = {str(k): distances_of(pair, random_cliques(schema.domain, k)).mean for k in (1, 2, 3)}
    return numbers


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run; called in a process of its own."""
    if job.table.startswith("made-"):
        return run_made_up(job)
    rows, schema = rows_and_schema(int(job.table.removeprefix("adult-")))
    train, _ = split_rows(rows, job.train_share, job.repeat)
    used = schema if job.method.endswith("hierarchy") else without_hierarchies(schema)
    cpu = time.process_time()
    release = lookalike.synthesize(
        train, schema=used, epsilon=job.epsilon, delta=job.delta, method="privmrf", seed=job.repeat,
        **METHODS[job.method],
    )  # fmt: skip
    numbers: Result = {"cpu_seconds": round(time.process_time() - cpu, 3), "peak_mb": peak_mb()}
    numbers["coarser"] = list(getattr(release.fitted.model, "maps", {}))
    real, synth = codec.encode(schema, train), codec.encode(schema, release.rows)
    pair = TablePair(real, synth, schema.domain)
    numbers["tvd"] = {str(k): distances_of(pair, random_cliques(schema.domain, k)).mean for k in (1, 2, 3)}
    numbers["ranges"] = {"3": range_errors(pair, 3, 210).mean_squared}
    _, few = rows_and_schema(16)
    real, synth = codec.encode(few, train), codec.encode(few, release.rows)
    pair = TablePair(real, synth, few.domain)
    numbers["tvd16"] = {str(k): distances_of(pair, random_cliques(few.domain, k)).mean for k in range(1, 6)}
    return numbers


def wide_rows(results: list[Result]) -> list[str]:
    """A Markdown table of all stored runs."""
    measures = ("tvd.1", "tvd.2", "tvd.3", "tvd16.2", "tvd16.3", "tvd16.5", "cpu_seconds")
    cells = {measure: summary(results, measure) for measure in measures}
    titles = ["1-way", "2-way", "3-way", "2-way, 16 bins", "3-way, 16 bins", "5-way, 16 bins", "CPU s", "runs"]
    text = ["| bins | epsilon | method | " + " | ".join(titles) + " |", "|---|---|---|" + "---|" * len(titles)]
    for table, epsilon in sorted({(key[0], key[2]) for key in cells["tvd16.2"]}, reverse=True):
        for method in METHODS:
            key = (table, method, epsilon)
            if key in cells["tvd.1"]:
                numbers = [f"{cells[measure][key][0]:.4f}" for measure in measures[:-1]]
                numbers += [f"{cells['cpu_seconds'][key][0]:.1f}", str(cells["tvd.1"][key][2])]
                text.append(
                    f"| {table.removeprefix('adult-')} | {epsilon:g} | {method} | " + " | ".join(numbers) + " |"
                )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="adult-100,adult-16")
    parser.add_argument("--epsilons", default="0.1,1")
    parser.add_argument("--methods", default="/".join(METHODS), help="separated by /")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args()
    jobs = jobs_of(
        given.tables.split(","), given.methods.split("/"), [float(e) for e in given.epsilons.split(",")],
        given.repeats, train_share=0.8,
    )  # fmt: skip
    run_jobs(jobs, run_one, RESULTS, progress=show_progress, isolated=not given.together)


def show_progress(done: int, total: int, job: Job, line: dict[str, object] | None) -> None:
    if line is not None:
        shown = ("tvd", "tvd16", "coarser", "cpu_seconds", "peak_mb")
        outcome = line.get("error") or {name: line[name] for name in shown if name in line}
        print(f"[{done}/{total}] {job.table} {job.method} eps {job.epsilon:g} #{job.repeat}: {outcome}", flush=True)


if __name__ == "__main__":
    main()
