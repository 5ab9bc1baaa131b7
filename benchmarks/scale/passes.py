"""How often each method reads the rows of a table that stays where it is: in large files, a database, on a cluster.

    python -m benchmarks.scale passes [--methods mst aim ...]

Runs each method that measures counts on a Parquet file of 5,000 rows and 8 coded columns that is read in batches, and
`independent` without a schema, counts the passes over the file, appends them to results/passes.jsonl, and writes
`src/lookalike/forecast_passes.json`, from which `lookalike plan` tells them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from benchmarks.common import ROOT, append, parser_of, results_of, stored
from benchmarks.scale.sources import NAMES, SIZES, write_parquet
from lookalike.errors import LookalikeError
from lookalike.pipeline import synthesize
from lookalike.schema.domain import Domain
from lookalike.sources import open as opening
from lookalike.sources.streams import FileTable
from lookalike.synthesizers import METHODS, create
from lookalike.synthesizers.split import reads_rows

RESULTS = results_of("passes")
STORED = ROOT / "src" / "lookalike" / "forecast_passes.json"
COLUMNS, ROWS = 8, 5000
DISCOVERY = "discovery"


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--methods", nargs="*", default=counting_methods())
    chosen = parser.parse_args(arguments).methods
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coded.parquet"
        write_parquet(file, ROWS, texts=False)
        parquet.write_table(parquet.read_table(file).select(NAMES[:COLUMNS]), file)
        for name in (*chosen, DISCOVERY):
            number = passes_of(file, name)
            print(f"{name:24} {number}", flush=True)
            append(RESULTS, {"benchmark": "passes", "method": name, "rows": ROWS, "columns": COLUMNS, "passes": number})
    latest = {line["method"]: line["passes"] for line in stored(RESULTS)}
    STORED.write_text(json.dumps(dict(sorted(latest.items())), indent=1) + "\n")


def counting_methods() -> list[str]:
    """Methods that measure counts alone with their default settings, and take such a table."""
    return [name for name in METHODS if name != "auto" and measures_counts(name)]


def measures_counts(name: str) -> bool:
    domain = Domain.of(dict(zip(NAMES[:COLUMNS], SIZES, strict=False)))
    try:
        return not reads_rows(create(name, {}).split(domain, 1.0).steps)
    except LookalikeError:  # too large for it
        return False


def passes_of(file: Path, method: str) -> int:
    """How often a run reads the file; for discovery, what it adds to the one pass of `independent`."""
    discovers = method == DISCOVERY
    schema: Any = None if discovers else dict(zip(NAMES[:COLUMNS], SIZES, strict=False))
    with read_in_batches() as read:
        synthesize(file, schema=schema, method="independent" if discovers else method, ledger=file.parent / "l.jsonl")
    return len(read) - discovers


@contextmanager
def read_in_batches() -> Iterator[list[None]]:
    """Small files are read in batches too; the list grows by one with every pass."""
    passes: list[None] = []
    limit, rows_of = opening.MAX_BYTES_IN_MEMORY, FileTable._checked

    def noted(table: FileTable, names: Sequence[str]) -> Any:
        passes.append(None)
        return rows_of(table, names)

    opening.MAX_BYTES_IN_MEMORY, FileTable._checked = 0, noted  # type: ignore[method-assign]
    try:
        yield passes
    finally:
        opening.MAX_BYTES_IN_MEMORY, FileTable._checked = limit, rows_of  # type: ignore[method-assign]
