"""Whole runs at scale: CPU seconds and peak memory of a table from Parquet to Parquet, as many rows out as in.

    python -m benchmarks.scale runs rows [--rows 1000000] [--method mst]    15 columns
    python -m benchmarks.scale runs width [--rows 100000] [--method auto]   1,000 columns
    python -m benchmarks.scale runs draws [--rows 1000000]                  further rows of stored models, by method

Each appends a line to results/scale.jsonl. A run has a process of its own, so that the peak of memory is that of the
run; the file it reads is made before. `draws` measures the CPU of a row of `mosaic` and of `mst` beyond the first
million, in one process.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from benchmarks.common import Line, append, in_fresh_process, parser_of
from benchmarks.scale.sources import NAMES, RESULTS, SIZES, codes_of, cpu_of, write_parquet

WIDE = {f"c{i}": SIZES[i % len(SIZES)] for i in range(1000)}
"""Names and numbers of values of the columns of a wide table."""


def write_wide(path: Path, rows: int) -> None:
    """A Parquet file of 1,000 columns, 15 of which depend on each other at a time."""
    blocks = [codes_of(rows, seed) for seed in range(-(-len(WIDE) // len(SIZES)))]
    arrays = [pa.array(blocks[i // len(SIZES)][:, i % len(SIZES)].astype(np.int8)) for i in range(len(WIDE))]
    parquet.write_table(pa.Table.from_arrays(arrays, names=list(WIDE)), path)


def run(rows: int, method: str, folder: Path, *, wide: bool) -> Line:
    """A whole run in this process."""
    import lookalike

    sizes = WIDE if wide else dict(zip(NAMES, SIZES, strict=True))
    start = time.process_time()
    release = lookalike.synthesize(
        folder / "table.parquet", schema=sizes, method=method, epsilon=1.0, rows=rows, seed=1
    )
    fitted = time.process_time() - start
    release.write(folder / "made.parquet")
    cpu = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    chosen = {"chosen": release.spent.chosen} if release.spent.chosen else {}
    return {"method": method, **chosen, "cpu": cpu, "cpu_until_first_rows": fitted, "peak_mb": peak}


def in_own_process(action: str, rows: int, method: str) -> Line:
    """The same in a process of its own, on a file that is made here."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        if action == "width":
            write_wide(table, rows)
        else:
            write_parquet(table, rows, texts=False)
        command = ("benchmarks.scale", "runs", action, "--rows", str(rows), "--method", method, "--folder", folder)
        return in_fresh_process(*command, environment={"LOOKALIKE_LEDGERS": folder, "OPENBLAS_NUM_THREADS": "1"})


def draws(rows: int) -> Line:
    """CPU of rows beyond the first ones, which models may choose with more care, in nanoseconds each."""
    import lookalike

    found: Line = {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        write_parquet(table, 100_000, texts=False)
        sizes = dict(zip(NAMES, SIZES, strict=True))
        for method in ("mst", "mosaic"):
            release = lookalike.synthesize(
                table, schema=sizes, method=method, epsilon=1.0, seed=1, ledger=Path(folder) / f"{method}.jsonl"
            )
            parts = release.fitted.batches(3 * rows, rows, seed=1)
            first, _ = cpu_of(lambda parts=parts: next(parts))
            later, _ = cpu_of(lambda parts=parts: [part.num_rows for part in parts])
            found[method] = {"first": 1e9 * first / rows, "later": 1e9 * later / (2 * rows)}
    return {**found, "ratio": found["mosaic"]["later"] / found["mst"]["later"]}


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "rows", "width", "draws")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--method")
    parser.add_argument("--folder", type=Path, help="where the table is: run in this process and store nothing")
    given = parser.parse_args(arguments)
    rows = given.rows or (100_000 if given.action == "width" else 1_000_000)
    method = given.method or ("auto" if given.action == "width" else "mst")
    if given.folder:
        sys.stdout.write(json.dumps(run(rows, method, given.folder, wide=given.action == "width")) + "\n")
        return
    found = draws(rows) if given.action == "draws" else in_own_process(given.action, rows, method)
    print(given.action, rows, found, flush=True)
    if "error" not in found:
        append(RESULTS, {"task": "runs" if given.action == "rows" else given.action, "rows": rows, **found})
