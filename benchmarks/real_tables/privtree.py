"""Compare our bins of a number with those of PrivTree (Zhang, Xiao and Xie, SIGMOD 2016) at the same budget.

    python -m benchmarks.real_tables privtree [--repeats 5]

Both are given one column of a table and its bounds, and spend the same: ours as `lookalike.inspect` does, by noisy
counts of public classes, then of finer cells, then of the bins; PrivTree half on halving intervals whose noisy count is
large, half on the counts of the leaves. Ours has Gaussian noise for rho, PrivTree is pure with epsilon = sqrt(2 rho).
The measure is the one-way distance of `measures.py` of as many drawn rows. PrivTree's noise is not secure: the tables
are public. One JSON line per column and run.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import lookalike
from benchmarks.common import Line, append, parser_of, results_of, stored
from benchmarks.real_tables.kinds import column_of, texts_of
from benchmarks.real_tables.measures import cells_of, distance
from benchmarks.real_tables.tables import file_of
from lookalike.schema.decode import decode_column

RESULTS = results_of("privtree")
COLUMNS = (
    ("adult", "age"),
    ("diamonds", "price"),
    ("avocados", "total_bags"),
    ("flchain", "kappa"),
    ("storms", "wind"),
)
EPSILON, DELTA = 0.2, 1e-5
"""About what one of 20 columns has in a run at epsilon 1."""
FANOUT = 2
Bounds = tuple[float, float, float]
"""Smallest and largest number, and the distance of neighbouring numbers."""


def privtree(values: np.ndarray, bounds: Bounds, epsilon: float, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Values drawn from the leaves of PrivTree, and their number: intervals are halved while a noisy count is above 0.

    The count of an interval is lowered by `decay` for each halving before, so that all of them together cost what one
    with noise of this scale does: the paper's lambda, delta and theta.
    """
    low, high, tick = bounds
    scale = (2 * FANOUT - 1) / (FANOUT - 1) / (epsilon / 2)
    decay = scale * math.log(FANOUT)
    ordered = np.sort(values)
    intervals, leaves = [(low, high + tick, 0)], list[tuple[float, float]]()
    while intervals:
        start, end, depth = intervals.pop()
        count = int(np.searchsorted(ordered, end - tick / 2) - np.searchsorted(ordered, start - tick / 2))
        lowered = max(count - depth * decay, -decay)
        if lowered + rng.laplace(scale=scale) > 0 and end - start > 1.5 * tick:
            middle = start + tick * round((end - start) / tick / 2)
            intervals += [(start, middle, depth + 1), (middle, end, depth + 1)]
        else:
            leaves.append((start, end))
    starts, ends = np.array(leaves).T
    counts = np.searchsorted(ordered, ends - tick / 2) - np.searchsorted(ordered, starts - tick / 2)
    noisy = np.maximum(counts + rng.laplace(scale=2 / epsilon, size=len(counts)), 0.0)
    chosen = rng.choice(len(noisy), len(values), p=noisy / noisy.sum())
    places = starts[chosen] + rng.random(len(values)) * (ends - starts)[chosen]
    return np.floor((places - low) / tick + 1e-6) * tick + low, len(leaves)


def ours(texts: np.ndarray, bounds: Bounds, rng: np.random.Generator, ledger: Path) -> tuple[np.ndarray, int, float]:
    """Texts drawn from the bins that `inspect` finds, their number, and the rho that they cost."""
    low, high, tick = bounds
    told: Line = {"provenance": {"bins": "open"}} | ({} if tick == 1 else {"decimals": _places(tick)})
    ends = {"minimum": low, "maximum": high} if tick < 1 else {"minimum": int(low), "maximum": int(high)}
    kind = "integer" if tick == 1 else "number"
    field = {"name": "x", "type": kind, "constraints": {**ends, "required": True}, "dp": told}
    found = lookalike.inspect(
        pa.table({"x": pa.array(texts.astype(str))}),
        schema={"fields": [field]}, epsilon=EPSILON, delta=DELTA, ledger=ledger, insecure_rng=rng,
    )  # fmt: skip
    counts = np.maximum(np.array(found.schema.known_counts[0].counts), 0.0)
    codes = rng.choice(len(counts), len(texts), p=counts / counts.sum()).astype(np.int32)
    made = decode_column(found.schema.columns[0], codes, rng=rng).to_pylist()
    return np.array([str(value) for value in made], dtype=object), len(counts), float(found.spent.rho)


def _places(tick: float) -> int:
    return max(round(-math.log10(tick)), 0)


def bounds_of(texts: np.ndarray, values: np.ndarray) -> Bounds:
    """The smallest and the largest number, and the distance of neighbouring numbers with as many decimals."""
    present = values[np.isfinite(values)]
    decimals = max(len(str(text).partition(".")[2]) for text in texts)
    return float(present.min()), float(present.max()), 10.0**-decimals


def one_run(table: str, column: str, repeat: int, folder: Path) -> Line:
    """Both distances of one column."""
    real = column_of(texts_of(file_of(table))[column])
    real = column_of(real.texts[~real.missing])
    bounds = bounds_of(real.texts, real.values)
    rng = np.random.default_rng([repeat, len(real.texts)])
    made, bins, rho = ours(real.texts, bounds, rng, folder / f"{table}-{repeat}.jsonl")
    numbers, leaves = privtree(real.values, bounds, math.sqrt(2 * rho), rng)
    written = np.array([f"{number:.{_places(bounds[2])}f}" for number in numbers.tolist()], dtype=object)
    found = {"ours": made, "privtree": written}
    distances = {
        name: round(distance(*cells_of(real, column_of(texts, real.kind))), 4) for name, texts in found.items()
    }
    key = {"table": table, "column": column, "repeat": repeat, "rows": len(real.texts), "rho": rho}
    return key | {"bins": bins, "leaves": leaves} | distances


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    known = {(line["table"], line["column"], line["repeat"]) for line in stored(given.out)}
    with tempfile.TemporaryDirectory() as folder:
        for table, column in COLUMNS:
            for repeat in range(given.repeats):
                if (table, column, repeat) not in known:
                    line = one_run(table, column, repeat, Path(folder))
                    append(given.out, line)
                    print(line, flush=True)
