"""Counting, reading and writing at scale: CPU seconds as ratios to fixed peers measured in the same run.

    python -m benchmarks.scale sources pairs [--rows 1000000]      all pairs of 15 columns in memory
    python -m benchmarks.scale sources parquet [--rows 1000000]    the same from Parquet, as codes and as texts
                                      [--kinds codes]              one of the two
    python -m benchmarks.scale sources csv [--rows 300000]         writing CSV

Each appends a line to results/scale.jsonl. The peers do not change with the package: one NumPy `bincount` per marginal
and block of 65,536 rows of 32-bit codes (what the source in memory did at first), the same after reading the whole file
and encoding each value by a lookup (what files cost at first), DuckDB's GROUP BY on the same file, and Python's `csv`.
Files of more than 20 million rows are not read whole.
"""

from __future__ import annotations

import csv
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as parquet

from benchmarks.common import Line, append, parser_of, results_of

SIZES = (2, 16, 7, 5, 9, 12, 4, 6, 2, 10, 8, 3, 15, 5, 7)
NAMES = tuple(f"c{i}" for i in range(len(SIZES)))
PAIRS = tuple(combinations(NAMES, 2))
BLOCK = 1 << 16
RESULTS = results_of("scale")
MAX_WHOLE = 20_000_000
"""Rows up to which the peer reads a whole file, in up to 150 bytes a row."""


def codes_of(rows: int, seed: int = 0) -> np.ndarray:
    """Dependent coded columns, 32 bits each, a column contiguous."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 4, rows)
    codes = np.empty((rows, len(SIZES)), np.int32, order="F")
    for i, size in enumerate(SIZES):
        noise = rng.integers(0, size, rows) * (rng.random(rows) < 0.5)
        codes[:, i] = (noise + hidden * size // 4) % size
    return codes


def write_parquet(path: Path, rows: int, *, texts: bool) -> None:
    """A Parquet file of such rows, a million at a time."""
    kind = pa.string() if texts else pa.int8()
    with parquet.ParquetWriter(path, pa.schema([(name, kind) for name in NAMES])) as writer:
        for part in range(0, rows, 1_000_000):
            codes = codes_of(min(1_000_000, rows - part), seed=part)
            arrays = [pa.array(codes[:, i]).cast(pa.int8()).cast(kind) for i in range(len(SIZES))]
            writer.write_table(pa.Table.from_arrays(arrays, names=list(NAMES)))


def cpu_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, all threads."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def bincounts(codes: np.ndarray) -> list[np.ndarray]:
    """The peer in memory: a `bincount` per pair and block."""
    places = [(NAMES.index(a), NAMES.index(b)) for a, b in PAIRS]
    totals = [np.zeros(SIZES[i] * SIZES[j], np.int64) for i, j in places]
    for start in range(0, len(codes), BLOCK):
        block = codes[start : start + BLOCK]
        for total, (i, j) in zip(totals, places, strict=True):
            cells = block[:, i].astype(np.int64)
            cells *= SIZES[j]
            cells += block[:, j]
            total += np.bincount(cells, minlength=total.size)
    return totals


def read_and_count(path: Path) -> list[np.ndarray]:
    """The peer for files: the whole table, each value looked up among the values, then `bincounts`."""
    table = parquet.read_table(path)
    codes = np.empty((table.num_rows, len(SIZES)), np.int32, order="F")
    for i, size in enumerate(SIZES):
        column = table.column(i).combine_chunks()
        values = pa.array(range(size)).cast(column.type)
        found = pc.index_in(column, value_set=values, skip_nulls=True)  # pyright: ignore[reportAttributeAccessIssue]
        codes[:, i] = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return bincounts(codes)


def grouped(path: Path) -> list[Any]:
    """DuckDB's counts of the same pairs, one GROUP BY each, on one thread."""
    import duckdb

    base = duckdb.connect()
    base.execute("SET threads = 1")
    return [base.execute(f"SELECT {a}, {b}, count(*) FROM '{path}' GROUP BY ALL").fetchall() for a, b in PAIRS]


def table_of(groups: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The counts of a GROUP BY as a table of all cells."""
    counts = np.zeros(shape, np.int64)
    for *cell, number in groups:
        counts[tuple(map(int, cell))] = number
    return counts


def warm() -> None:
    """Load compiled loops, which every process pays for once."""
    from lookalike.schema.domain import Domain
    from lookalike.sources.counting import Tally
    from lookalike.sources.numba_counting import tally

    tally(np.zeros(1, np.int32), np.zeros(1, np.uint32), 1)
    Tally(Domain(NAMES, SIZES), PAIRS).add({name: np.zeros(10, np.uint8) for name in NAMES}, 10)


def pairs(rows: int) -> Line:
    """All pairs in memory."""
    from lookalike.schema.domain import Domain
    from lookalike.sources.open import MemorySource

    codes = codes_of(rows)
    source = MemorySource(Domain(NAMES, SIZES), codes)
    warm()
    ours, counts = cpu_of(lambda: source.counts(PAIRS))
    peer, wanted = cpu_of(lambda: bincounts(codes))
    same = all(np.array_equal(a.ravel(), b) for a, b in zip(counts, wanted, strict=True))
    return {"ours": ours, "bincount": peer, "ratio": ours / peer, "same_counts": same}


def from_parquet(rows: int, kinds: Sequence[str] = ("codes", "texts")) -> Line:
    """All pairs from files of codes and of texts, reading included."""
    from lookalike.schema.columns import Categorical
    from lookalike.schema.schema import Schema
    from lookalike.sources.base import View
    from lookalike.sources.counting import CountedSource
    from lookalike.sources.files import TableFile
    from lookalike.sources.frames import TableForm
    from lookalike.sources.streams import FileTable

    found: Line = {}
    warm()
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            path = Path(folder) / f"{kind}.parquet"
            write_parquet(path, rows, texts=kind == "texts")
            columns = Schema.from_sizes(dict(zip(NAMES, SIZES, strict=True))).columns
            if kind == "texts":
                listed = [tuple(map(str, range(size))) for size in SIZES]
                columns = tuple(Categorical(n, values=v, outside="absorb") for n, v in zip(NAMES, listed, strict=True))
            engine = FileTable([TableFile(path)], parquet.read_schema(path), TableForm("parquet"))
            source = CountedSource(engine, View.of(columns))
            ours, counts = cpu_of(lambda source=source: source.counts(PAIRS))
            duck, groups = cpu_of(lambda path=path: grouped(path))
            same = all(np.array_equal(a, table_of(g, a.shape)) for a, g in zip(counts, groups, strict=True))
            found[kind] = {"ours": ours, "duckdb": duck, "ratio_duckdb": ours / duck, "same_counts": same}
            if rows <= MAX_WHOLE:
                peer, wanted = cpu_of(lambda path=path: read_and_count(path))
                found[kind]["same_counts"] &= all(map(np.array_equal, map(np.ravel, counts), wanted))
                found[kind] |= {"whole": peer, "ratio": ours / peer}
            path.unlink()
    return found


def writing(rows: int) -> Line:
    """CSV lines of numbers and of texts, some of which need quotes."""
    from lookalike.sources.csvfiles import CsvStyle, as_texts, write_csv

    codes = codes_of(rows)
    words = pa.array([f"{'a, b' if i == 3 else 'word'} {i}" for i in range(16)])
    arrays = [words.take(pa.array(codes[:, i])) if i % 2 else pa.array(codes[:, i]) for i in range(len(SIZES))]
    table = pa.Table.from_arrays(arrays, names=list(NAMES))

    def by_python() -> bytes:
        made = io.StringIO(newline="")
        writer = csv.writer(made, lineterminator="\n")
        writer.writerow(NAMES)
        for start in range(0, rows, BLOCK):
            writer.writerows(zip(*(as_texts(c) for c in table.slice(start, BLOCK).columns), strict=True))
        return made.getvalue().encode()

    made = io.BytesIO()
    write_csv([table.slice(0, 1000)], io.BytesIO(), CsvStyle())
    ours, _ = cpu_of(lambda: write_csv([table], made, CsvStyle()))
    peer, wanted = cpu_of(by_python)
    return {"ours": ours, "python": peer, "ratio": ours / peer, "same_bytes": made.getvalue() == wanted}


def main(arguments: Sequence[str]) -> None:
    tasks: dict[str, Callable[[int], Line]] = {"pairs": pairs, "csv": writing}
    parser = parser_of(__name__, __doc__, *tasks, "parquet")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kinds", nargs="+", default=["codes", "texts"])
    given = parser.parse_args(arguments)
    parquets = given.action == "parquet"
    found = from_parquet(given.rows, given.kinds) if parquets else tasks[given.action](given.rows)
    print(given.action, given.rows, found, flush=True)
    append(RESULTS, {"task": given.action, "rows": given.rows, **found})
