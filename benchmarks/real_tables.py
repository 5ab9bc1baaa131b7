"""A raw CSV file and an epsilon, with no schema: how much does discovery cost against the public domain?

    python benchmarks/real_tables.py run [--methods auto,mst] [--repeats 3]
    python benchmarks/real_tables.py table

Adult as it was published (adult-raw.csv: texts, `?` for missing, exact numbers) at epsilon 1. `open` runs see the file
alone; `declared` runs a schema with the values and bounds that the table's public description gives. Both outputs are
compared with the real rows over one common binning: categories as they are, numbers in the 16 equally wide bins of the
declared schema or, where few values dominate, by quantiles. One JSON line per run goes to
benchmarks/results/real_tables.jsonl; stored runs are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import lookalike
from accuracy import DATA
from lookalike.schema.columns import Categorical, Integer
from lookalike.schema.schema import Schema

RESULTS = Path(__file__).parent / "results" / "real_tables.jsonl"
SOURCE = DATA / "adult-raw.csv"
BINS = 16


def real_rows() -> pd.DataFrame:
    return pd.read_csv(SOURCE, dtype=str, keep_default_na=False)


def is_number(column: pd.Series) -> bool:
    return bool(column.str.fullmatch(r"[0-9]+").all())


def declared_schema(rows: pd.DataFrame) -> Schema:
    """The public domain, as a careful data holder would declare it: all values, bounds, and bins by quantiles.

    Reads the table: for a benchmark's reference only, where the domain is common knowledge.
    """
    columns = []
    for name in rows.columns:
        if is_number(rows[name]):
            numbers = rows[name].astype(int)
            edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)[:-1], method="lower")).tolist()
            bounds = {"minimum": int(numbers.min()), "maximum": int(numbers.max())}
            columns.append(Integer(name, **bounds, bins=tuple(int(edge) for edge in edges)))
        else:
            values = tuple(sorted(set(rows[name]) - {"?"}))
            columns.append(Categorical(name, values=values, missing=("?",) if (rows[name] == "?").any() else ()))
    return Schema(tuple(columns))


def common_codes(real: pd.DataFrame, made: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Both tables in one binning: categories as they are, numbers by the real quantiles."""
    codes = []
    for name in real.columns:
        if is_number(real[name]):
            numbers = real[name].astype(int)
            edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)[1:-1], method="lower"))
            pair = [np.searchsorted(edges, pd.to_numeric(t[name], errors="coerce").fillna(-1)) for t in (real, made)]
        else:
            known = {value: code for code, value in enumerate(sorted(set(real[name]) | set(made[name])))}
            pair = [t[name].map(known).to_numpy() for t in (real, made)]
        codes.append(pair)
    return tuple(np.column_stack([pair[i] for pair in codes]).astype(np.int64) for i in (0, 1))  # type: ignore


def distance(real: np.ndarray, made: np.ndarray, places: tuple[int, ...]) -> float:
    """Total variation distance of one marginal."""
    keys = []
    sizes = [int(max(real[:, p].max(), made[:, p].max())) + 1 for p in places]
    for codes in (real, made):
        keys.append(np.ravel_multi_index(tuple(codes[:, p] for p in places), sizes))
    counts = [np.bincount(key, minlength=int(np.prod(sizes))) / len(key) for key in keys]
    return float(np.abs(counts[0] - counts[1]).sum() / 2)


def one_run(method: str, kind: str, repeat: int) -> dict:
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
    codes = common_codes(real, made)
    columns = range(len(real.columns))
    oneway = {real.columns[i]: round(distance(*codes, (i,)), 5) for i in columns}
    triples = [distance(*codes, triple) for triple in combinations(columns, 3)]
    return {
        "method": method, "kind": kind, "repeat": repeat, "cpu_seconds": round(seconds, 2), "oneway": oneway,
        "oneway_mean": round(float(np.mean(list(oneway.values()))), 5),
        "threeway_mean": round(float(np.mean(triples)), 5), "triples": len(triples),
        "question_marks": bool(all((made[n] == "?").any() for n in real.columns if (real[n] == "?").any())),
        "same_types": bool(all(is_number(made[n]) == is_number(real[n]) for n in real.columns)),
        "rows": len(made), "insecure_rng": True,
    }  # fmt: skip


def stored() -> list[dict]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def run(methods: list[str], repeats: int) -> None:
    known = {(line["method"], line["kind"], line["repeat"]) for line in stored()}
    for repeat in range(repeats):
        for method in methods:
            for kind in ("open", "declared"):
                if (method, kind, repeat) not in known:
                    line = one_run(method, kind, repeat)
                    with RESULTS.open("a") as stream:
                        stream.write(json.dumps(line) + "\n")


def table() -> None:
    lines = stored()
    print("| method | runs | one-way, no schema | 3-way, no schema | 3-way, declared | ratio | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for method in sorted({line["method"] for line in lines}):
        found = {
            kind: [x for x in lines if x["method"] == method and x["kind"] == kind] for kind in ("open", "declared")
        }
        if not all(found.values()):
            continue
        one, three, seconds = (
            float(np.mean([line[measure] for line in found["open"]]))
            for measure in ("oneway_mean", "threeway_mean", "cpu_seconds")
        )
        base = float(np.mean([line["threeway_mean"] for line in found["declared"]]))
        cells = (
            len(found["open"]),
            f"{one:.4f}",
            f"{three:.4f}",
            f"{base:.4f}",
            f"{three / base:.2f}",
            f"{seconds:.1f}",
        )
        print(f"| {method} | {' | '.join(map(str, cells))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--methods", default="auto,mst")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    run(given.methods.split(","), given.repeats) if given.command == "run" else table()


if __name__ == "__main__":
    main()
