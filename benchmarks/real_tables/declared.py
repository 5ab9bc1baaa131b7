"""A raw CSV file and an epsilon, with no schema: how much does discovery cost against the public domain?

    python -m benchmarks.real_tables declared run [--methods auto mst] [--repeats 3]
    python -m benchmarks.real_tables declared table

Adult as it was published (adult-raw.csv: texts, `?` for missing, exact numbers) at epsilon 1. `open` runs see the file
alone; `declared` runs a schema with the public domain: all values, the bounds of numbers, and the papers' numbers of
equally wide bins. Both outputs are compared with the real rows over these same bins, in all 455 triples of columns.
Distances of single columns are over 16 quantiles of each number, a binning that no run knows. One JSON line per run
goes to benchmarks/results/adult_raw.jsonl; stored runs are not repeated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import lookalike
from benchmarks.common import DATA, Line, append, markdown, parser_of, results_of, stored
from benchmarks.runs import marginal_distance
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.schema import Schema

RESULTS = results_of("adult_raw")
SOURCE = DATA / "adult-raw.csv"
QUANTILES = 16
NUMBERS = {
    "age": 16, "fnlwgt": 16, "educational-num": 16, "capital-gain": 8, "capital-loss": 15, "hours-per-week": 16,
}  # fmt: skip
"""Bins of the numbers in the papers' version of the table."""


def real_rows() -> pd.DataFrame:
    return pd.read_csv(SOURCE, dtype=str, keep_default_na=False)


def declared_schema(rows: pd.DataFrame) -> Schema:
    """The public domain. It is read off the table here, which is fair for a benchmark of a table everybody knows."""
    columns = []
    for name in rows.columns:
        if name in NUMBERS:
            numbers = rows[name].to_numpy(dtype=int)
            columns.append(Integer(name, minimum=int(numbers.min()), maximum=int(numbers.max()), bins=NUMBERS[name]))
        else:
            values, missing = tuple(sorted(set(rows[name]) - {"?"})), ("?",) if "?" in set(rows[name]) else ()
            columns.append(Categorical(name, values=values, missing=missing, outside="absorb"))
    return Schema(tuple(columns))


def codes_of(real: pd.DataFrame, made: pd.DataFrame, edges: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Both tables in one binning: categories as they are, numbers by the given edges."""
    codes = []
    for name in real.columns:
        if name in edges:
            codes.append([np.searchsorted(edges[name], t[name].astype(float), side="right") for t in (real, made)])
        else:
            known = {value: code for code, value in enumerate(sorted(set(real[name]) | set(made[name])))}
            codes.append([np.array([known[value] for value in t[name]]) for t in (real, made)])
    first, second = (np.column_stack([pair[i] for pair in codes]).astype(np.int64) for i in (0, 1))
    return first, second


def distance(real: np.ndarray, made: np.ndarray, places: tuple[int, ...]) -> float:
    """Total variation distance of one marginal."""
    return marginal_distance(real, made, places, [int(max(real[:, p].max(), made[:, p].max())) + 1 for p in places])


def one_run(method: str, kind: str, repeat: int) -> Line:
    """Numbers of one run, with the schema that is declared or with none."""
    real = real_rows()
    schema = None if kind == "open" else declared_schema(real)
    started = time.process_time()
    rng = np.random.default_rng([repeat, 7])
    release = lookalike.synthesize(
        SOURCE, schema=schema, method=method, epsilon=1.0, delta=1e-5, seed=repeat, insecure_rng=rng,
        ledger=lookalike.Ledger(None, "benchmark"),
    )  # fmt: skip
    seconds = time.process_time() - started
    made = release.rows.to_pandas().astype(object).fillna("").astype(str)
    public = declared_schema(real)
    common = codes_of(real, made, {name: public[name].edges[1:] for name in NUMBERS})  # type: ignore[attr-defined]
    steps = np.linspace(0, 1, QUANTILES + 1)[1:-1]
    fine = codes_of(real, made, {name: np.unique(np.quantile(real[name].astype(int), steps)) for name in NUMBERS})
    columns = range(len(real.columns))
    oneway = {real.columns[i]: round(distance(*fine, (i,)), 5) for i in columns}
    triples = [distance(*common, triple) for triple in combinations(columns, 3)]
    return {
        "method": method, "kind": kind, "repeat": repeat, "cpu_seconds": round(seconds, 2), "oneway": oneway,
        "oneway_mean": round(float(np.mean(list(oneway.values()))), 5),
        "threeway_mean": round(float(np.mean(triples)), 5), "triples": len(triples),
        "question_marks": all("?" in set(made[n]) for n in real.columns if "?" in set(real[n])),
        "whole_numbers": bool(all(made[n].str.fullmatch("[0-9]+").all() for n in NUMBERS)),
        "known_categories": bool(all(set(made[n]) <= {*real[n], "other"} for n in real.columns if n not in NUMBERS)),
        "rows": len(made), "insecure_rng": True,
    }  # fmt: skip


def run(methods: Sequence[str], repeats: int) -> None:
    """Run what is not stored yet."""
    known = {(line["method"], line["kind"], line["repeat"]) for line in stored(RESULTS)}
    for repeat in range(repeats):
        for method in methods:
            for kind in ("open", "declared"):
                if (method, kind, repeat) not in known:
                    append(RESULTS, one_run(method, kind, repeat))


def table(lines: list[Line]) -> list[str]:
    """Means of the stored runs, one row per method that was run both ways."""

    def mean(method: str, kind: str, measure: str) -> float:
        return float(np.mean([line[measure] for line in lines if (line["method"], line["kind"]) == (method, kind)]))

    rows: list[list[Any]] = []
    for method in sorted({line["method"] for line in lines}):
        kinds = [line["kind"] for line in lines if line["method"] == method]
        if {"open", "declared"} <= set(kinds):
            one, three, seconds = (mean(method, "open", m) for m in ("oneway_mean", "threeway_mean", "cpu_seconds"))
            base = mean(method, "declared", "threeway_mean")
            cells = [f"{one:.4f}", f"{three:.4f}", f"{base:.4f}", f"{three / base:.2f}", f"{seconds:.1f}"]
            rows.append([method, kinds.count("open"), *cells])
    heads = ("method", "runs", "one-way, no schema", "3-way, no schema", "3-way, declared", "ratio", "CPU s")
    return markdown(heads, rows)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "table")
    parser.add_argument("--methods", nargs="+", default=["auto", "mst"])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.methods, given.repeats)
    else:
        print("\n".join(table(stored(RESULTS))))
