"""PrivMRF on wide tables: hierarchies on Adult as published, with 100 or 16 bins for every numeric column, and a
made-up table of 150 columns.

    python -m benchmarks.papers privmrf_wide [--tables adult-100 adult-16 made-150] [--epsilons 0.1 1] [--repeats 3]

Appends one JSON line per run to benchmarks/results/privmrf_wide.jsonl and never repeats a run that is there;
`privmrf document` writes them into docs/reproductions/privmrf.md. Distances `tvd` are on the bins of the run, those
called `tvd16` on 16 bins per numeric column, whatever the run had. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.csv

import lookalike
from benchmarks.common import DATA, Line, add_grid, markdown, parser_of, results_of
from benchmarks.runs import show_progress
from lookalike.evaluate.compare import Job, Result, jobs_of, peak_mb, run_jobs, summary
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques, range_errors
from lookalike.evaluate.real_data import split_rows
from lookalike.schema import codec
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Column
from lookalike.schema.schema import Schema

RESULTS = results_of("privmrf_wide")
METHODS = ("privmrf", "privmrf, hierarchy", "privmrf-paper", "privmrf-paper, hierarchy")
TABLES, EPSILONS, REPEATS = ("adult-100",), (0.1, 1.0), 3
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
    rows = pyarrow.csv.read_csv(DATA / "adult-raw.csv")
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


def run_made_up(job: Job) -> Result:
    """Numbers of one run on the made-up table, all of whose rows are synthesised."""
    rows, schema = made_up(int(job.table.removeprefix("made-")))
    release, numbers = timed_release(job, rows, schema)
    numbers["tvd"] = distances(TablePair(codec.encode(schema, rows), codec.encode(schema, release.rows), schema.domain))
    return numbers


def timed_release(job: Job, rows: pa.Table, schema: Schema) -> tuple[lookalike.Release, Result]:
    """The release of a job, with its processor seconds and peak memory."""
    cpu = time.process_time()
    given = {"epsilon": job.epsilon, "delta": job.delta, "seed": job.repeat}
    release = lookalike.synthesize(rows, schema=schema, method=job.method.removesuffix(", hierarchy"), **given)
    return release, {"cpu_seconds": round(time.process_time() - cpu, 3), "peak_mb": peak_mb()}


def distances(pair: TablePair, max_order: int = 3) -> dict[str, float]:
    """Mean distances of random marginals, by their number of columns."""
    return {str(k): distances_of(pair, random_cliques(pair.domain, k)).mean for k in range(1, max_order + 1)}


def run_one(job: Job) -> Result:
    """Numbers of one run; called in a process of its own."""
    if job.table.startswith("made-"):
        return run_made_up(job)
    rows, schema = rows_and_schema(int(job.table.removeprefix("adult-")))
    train, _ = split_rows(rows, job.train_share, job.repeat)
    used = schema if job.method.endswith("hierarchy") else without_hierarchies(schema)
    release, numbers = timed_release(job, train, used)
    numbers["coarser"] = list(getattr(release.fitted.model, "maps", {}))
    pair = TablePair(codec.encode(schema, train), codec.encode(schema, release.rows), schema.domain)
    numbers |= {"tvd": distances(pair), "ranges": {"3": range_errors(pair, 3, 210).mean_squared}}
    _, few = rows_and_schema(16)
    pair = TablePair(codec.encode(few, train), codec.encode(few, release.rows), few.domain)
    return {**numbers, "tvd16": distances(pair, 5)}


def wide_rows(results: list[Line]) -> list[str]:
    """A Markdown table of all stored runs."""
    measures = ("tvd.1", "tvd.2", "tvd.3", "tvd16.2", "tvd16.3", "tvd16.5", "cpu_seconds")
    cells = {measure: summary(results, measure) for measure in measures}
    titles = ["1-way", "2-way", "3-way", "2-way, 16 bins", "3-way, 16 bins", "5-way, 16 bins", "CPU s", "runs"]
    rows = []
    for table, epsilon in sorted({(key[0], key[2]) for key in cells["tvd16.2"]}, reverse=True):
        for key in [(table, method, epsilon) for method in METHODS]:
            if key in cells["tvd.1"]:
                numbers = [f"{cells[measure][key][0]:.4f}" for measure in measures[:-1]]
                numbers += [f"{cells['cpu_seconds'][key][0]:.1f}", str(cells["tvd.1"][key][2])]
                rows.append([table.removeprefix("adult-"), f"{epsilon:g}", key[1], *numbers])
    return markdown(["bins", "epsilon", "method", *titles], rows)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    add_grid(parser, tables=TABLES, methods=METHODS[:2], epsilons=EPSILONS, repeats=REPEATS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    jobs = jobs_of(given.tables, given.methods, given.epsilons, given.repeats, train_share=0.8)
    run_jobs(jobs, run_one, RESULTS, progress=show_progress, isolated=not given.together)
