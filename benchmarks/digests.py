"""Fingerprints of what every method releases with reproducible noise: a refactoring must not change one of them.

    LOOKALIKE_NUMBA=0 python -m benchmarks.digests record before.json
    LOOKALIKE_NUMBA=0 python -m benchmarks.digests compare before.json

Digests depend on the processor, on library versions and on what numba has compiled before, so they are compared on one
machine, without numba, and never stored here. NOT PRIVATE: the noise is reproducible.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lookalike
from lookalike.errors import LookalikeError

EXAMPLE = Path(__file__).parent.parent / "examples" / "admissions"
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "bsg": [{"omega": "3", "seeded_rows": 50}, {"parts": "0.3,0.7"}, {"omega": "4", "seeds": "histogram"}],
    "mosaic": [{}],
    **{f"{name}-paper": [{}] for name in ("privmrf", "ppsyn", "privbayes", "pb-pgm", "fem", "dualquery", "rap")},
}


def coded_table(rows: int = 3000, columns: int = 7) -> tuple[pa.Table, dict[str, int]]:
    """A table of dependent coded columns with 2 to 8 values."""
    rng = np.random.default_rng(5)
    sizes = {f"c{i}": 2 + (3 * i) % 7 for i in range(columns)}
    values, hidden = {}, rng.integers(0, 8, rows)
    for name, size in sizes.items():
        noise = rng.random(rows) < 0.3
        values[name] = np.where(noise, rng.integers(0, size, rows), hidden % size)
        hidden = (hidden + values[name]) % 8
    return pa.table({name: pa.array(codes.astype(np.int64)) for name, codes in values.items()}), sizes


def cases() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, table and arguments of every run."""
    table, sizes = coded_table()
    for method in lookalike.methods():
        for epsilon in (0.2, 2.0):
            yield f"{method} {epsilon}", table, {"schema": sizes, "method": method, "epsilon": epsilon}
        for variant in VARIANTS.get(method, []):
            name = f"{method} {json.dumps(variant)}"
            yield name, table, {"schema": sizes, "method": method, "epsilon": 8.0, **variant}
    yield "gum", table, {"schema": sizes, "method": "mst", "epsilon": 1.0, "generator": "gum"}
    kinds = f"{EXAMPLE}.csv"
    yield "declared", kinds, {"schema": f"{EXAMPLE}.yaml", "method": "mst", "epsilon": 1.0}
    yield "discovered", kinds, {"method": "mst", "epsilon": 1.0}
    people = table.append_column("who", pa.array(np.arange(table.num_rows) // 3).cast(pa.string()))
    yield "discovered codes", people, {"method": "mosaic", "epsilon": 2.0}


def digest(release: Any) -> str:
    """The hash of the synthetic table and of the charges."""
    sink = hashlib.sha256()
    for column in release.rows.columns:
        sink.update(json.dumps(column.to_pylist(), default=str).encode())
    for charge in release.spent.charges:
        sink.update(f"{charge.step} {charge.mechanism} {charge.rho}".encode())
    return sink.hexdigest()[:20]


def recorded() -> dict[str, str]:
    """The digest of every case; of a method that refuses its table, the error."""
    found: dict[str, str] = {}
    for name, table, arguments in cases():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                noise, ledger = np.random.default_rng(7), lookalike.Ledger(None, "digests")
                release = lookalike.synthesize(table, seed=3, insecure_rng=noise, ledger=ledger, **arguments)
            found[name] = digest(release)
        except LookalikeError as error:
            found[name] = f"refused: {type(error).__name__}"
        print(f"{found[name]:32s} {name}", flush=True)
    return found


def main(action: str, path: str) -> int:
    """Record all digests, or compare them with recorded ones; 1 where one differs."""
    found = recorded()
    if action == "record":
        Path(path).write_text(json.dumps(found, indent=1))
        return 0
    before = json.loads(Path(path).read_text())
    changed = [name for name in sorted(before | found) if before.get(name) != found.get(name)]
    print(f"{len(changed)} of {len(before)} differ: {', '.join(changed)}" if changed else f"all {len(before)} agree")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
