"""CPU of Spark for one pair of 15 columns: from cached blocks of codes, and by an uncached `mapInArrow`.

python -m benchmarks.scale spark [--rows 3000000] [--cores 2]

Prints CPU seconds of all processes of Spark on this machine and appends them to results/spark.jsonl: of making the
blocks (with the first round), of a round of one pair and one of all 105 pairs from them, and of the peers, which read
the Parquet file, encode and count in one `mapInArrow`, the pair's two columns alone or all fifteen. Each was run once
before on the same rows, so that Java has compiled it; counts are compared.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import append, parser_of, results_of
from benchmarks.scale.databases import cpu_seconds
from benchmarks.scale.sources import NAMES, PAIRS, SIZES, write_parquet
from lookalike.schema.schema import Schema
from lookalike.sources.base import View
from lookalike.sources.blocks import Counting, Packing, joined, sums
from lookalike.sources.clusters import SparkTable
from lookalike.sources.counting import CountedSource

RESULTS = results_of("spark")
PAIR = (NAMES[1], NAMES[4])
VIEW = View.of(Schema.from_sizes(dict(zip(NAMES, SIZES, strict=True))).columns)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder) / "coded.parquet", given.rows, texts=False)
        table = SparkTable(f"local[{given.cores}]", f"{folder}/coded.parquet")
        measured = compared(table)
        table.session.stop()
    for name, seconds in measured.items():
        print(f"{name:24} {seconds:8.2f} CPU s")
    print(f"one pair: {measured['pair'] / measured['uncached_pair']:.3f} of an uncached round")
    facts = {"benchmark": "spark", "rows": given.rows, "columns": len(NAMES), "python": platform.python_version()}
    append(RESULTS, {**facts, **{f"{name}_cpu_seconds": round(seconds, 3) for name, seconds in measured.items()}})


def compared(table: SparkTable) -> dict[str, float]:
    """CPU seconds by what was done, each the second time."""
    first: Any = table.scanner()
    first.scan(VIEW, [PAIR])
    CountedSource(first, VIEW).counts(PAIRS)
    first.close()
    scanner: Any = table.scanner()
    found = {"pack_and_pair": spent(lambda: scanner.scan(VIEW, [PAIR]))}
    found["pair"] = spent(lambda: scanner.scan(VIEW, [PAIR]))
    found["all_pairs"] = spent(lambda: CountedSource(scanner, VIEW).counts(PAIRS))
    wanted = scanner.scan(VIEW, [PAIR])[0]
    scanner.close()
    for name, columns in (("uncached_pair", PAIR), ("uncached_table", NAMES)):
        if not np.array_equal(uncached(table, columns), wanted):
            raise RuntimeError("the peer counts otherwise")
        found[name] = spent(lambda columns=columns: uncached(table, columns))
    return found


def uncached(table: SparkTable, columns: Sequence[str]) -> np.ndarray:
    """Counts of the pair by one pass that reads these columns, encodes and counts."""
    chosen = View.of([column for column in VIEW.columns if column.name in columns])
    pack, count = Packing(chosen.columns, table.structure()), Counting(chosen.domain, chosen.domain, (PAIR,), {})
    both = table.frame.select(*columns).mapInArrow(
        lambda rows: count.counted(pack.packed(rows)), "piece int, counts binary"
    )
    cells = chosen.domain.cells(PAIR)
    return joined(sums(both.toArrow().to_batches()), cells).reshape(chosen.domain.shape(PAIR))


def spent(work: Callable[[], Any]) -> float:
    """CPU seconds of this process and of all that it has started."""
    before = {process: cpu_seconds(process) for process in family()}
    work()
    return sum(cpu_seconds(process) - before.get(process, 0.0) for process in family())


def family() -> list[int]:
    """This process and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found
