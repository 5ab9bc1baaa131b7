"""What parities find: made-up tables in which a column follows from others and from none of them alone.

    python -m benchmarks.accuracy parities run [--tables xor, ...] [--repeats 3]
    python -m benchmarks.accuracy parities document

`mosaic` runs with its share for parities, and with one of nothing, with reproducible noise. `run` appends to
benchmarks/results/parities.jsonl and never repeats a run that is there; `document` writes the generated part of
docs/laboratory/mosaic.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.common import DOCS, Line, add_grid, append, markdown, parser_of, replace_parts, results_of, stored
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.schema import codec
from lookalike.schema.schema import Schema

RESULTS = results_of("parities")
SHARES = {"without": 1e-9, "with": 0.02}
"""The first is too little for any parity to be measured."""


def parity_codes(rows: int, columns: int, order: int, values: int = 2, flips: float = 0.05) -> np.ndarray:
    """Uniform columns; the last lies in the upper half where an odd number of the first `order` do, but for flips."""
    rng = np.random.default_rng([0, order])
    codes = rng.integers(0, values, (rows, columns))
    upper = values // 2
    odd = (codes[:, :order] >= upper).sum(axis=1) % 2
    odd = np.where(rng.random(rows) < flips, 1 - odd, odd)
    codes[:, -1] = np.where(odd, rng.integers(upper, values, rows), rng.integers(0, upper, rows))
    return codes


def mixture_codes(rows: int, columns: int, order: int) -> np.ndarray:
    """Binary columns that are independent within each of twelve classes; `order` has no meaning here."""
    rng = np.random.default_rng(order)
    shares, kinds = rng.random((12, columns)), rng.integers(0, 12, rows)
    return (rng.random((rows, columns)) < shares[kinds]).astype(int)


CASES = {
    "xor of 2 among 20 binary": (partial(parity_codes, 20_000, 20, 2), 2, 2),
    "the same, 35 % flips": (partial(parity_codes, 20_000, 20, 2, 2, 0.35), 2, 2),
    "xor of 2 among 16 of 6 values": (partial(parity_codes, 20_000, 16, 2, 6), 2, 6),
    "parity of 3 among 16 binary": (partial(parity_codes, 20_000, 16, 3), 3, 2),
    "parity of 3 among 10 of 4 values": (partial(parity_codes, 20_000, 10, 3, 4), 3, 4),
    "parity of 4 among 10 binary": (partial(parity_codes, 20_000, 10, 4), 4, 2),
    "parity of 4 among 10 of 4 values": (partial(parity_codes, 20_000, 10, 4, 4), 4, 4),
    "parity of 4 among 14 binary, 40,000 rows": (partial(parity_codes, 40_000, 14, 4), 4, 2),
    "mixture of 12 classes, 12 binary": (partial(mixture_codes, 20_000, 12, 0), 2, 2),
    "mixture of 12 classes, 20 binary": (partial(mixture_codes, 20_000, 20, 0), 2, 2),
}
"""How a table is made, how many columns decide the last one, and the values of every column. 20,000 rows, 5 % flips."""


def distance_of_halves(real: np.ndarray, made: np.ndarray, places: Sequence[int], values: int) -> float:
    """The total variation distance of the joint table of the upper and lower halves of these columns."""
    cells = [(codes[:, list(places)] >= values // 2) @ 2 ** np.arange(len(places)) for codes in (real, made)]
    shares = [np.bincount(own, minlength=2 ** len(places)) / len(own) for own in cells]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def compared(table: str, kind: str, repeat: int, epsilon: float) -> Line:
    """One run with a share for parities, or without."""
    import lookalike

    make, order, values = CASES[table]
    codes = make()
    schema = Schema.from_sizes({f"c{i}": values for i in range(codes.shape[1])})
    rows, start = pa.table({name: codes[:, i] for i, name in enumerate(schema.domain.names)}), time.process_time()
    release = lookalike.synthesize(
        rows, schema=schema, epsilon=epsilon, method="mosaic", seed=repeat, parity_share=SHARES[kind],
        insecure_rng=np.random.default_rng(repeat),
    )  # fmt: skip
    seconds, made = round(time.process_time() - start, 1), codec.encode(schema, release.table)
    pair, places = TablePair(codes, made, schema.domain), [*range(order), codes.shape[1] - 1]
    tvd = {str(k): round(distances_of(pair, random_cliques(schema.domain, k)).mean, 5) for k in (3, 5)}
    own = round(distance_of_halves(codes, made, places, values), 5)
    return {"table": table, "kind": kind, "epsilon": epsilon, "repeat": repeat, "set": own, "tvd": tvd, "cpu": seconds}


def run(tables: Sequence[str], epsilons: Sequence[float], repeats: int) -> None:
    """Run what is not stored yet."""
    done = {(line["table"], line["kind"], line["epsilon"], line["repeat"]) for line in stored(RESULTS)}
    for repeat in range(repeats):
        for table in tables:
            for epsilon in epsilons:
                for kind in SHARES:
                    if (table, kind, epsilon, repeat) not in done:
                        append(RESULTS, compared(table, kind, repeat, epsilon))


def shown(results: Sequence[Line]) -> list[str]:
    """One row per table and epsilon: the set that holds together in every run, and the means of all sets."""
    rows = []
    for table, epsilon in dict.fromkeys((line["table"], line["epsilon"]) for line in results):
        cells = list[str]()
        for kind in SHARES:
            own = [r for r in results if (r["table"], r["epsilon"], r["kind"]) == (table, epsilon, kind)]
            cells.append(", ".join(f"{line['set']:.3f}" for line in own))
            cells.append(" / ".join(f"{np.mean([line['tvd'][k] for line in own]):.4f}" for k in ("3", "5")))
        rows.append([table, f"{epsilon:g}", *cells])
    heads = ["table", "epsilon", *(f"{what} {kind}" for kind in SHARES for what in ("the set,", "3-way / 5-way,"))]
    return markdown(heads, rows)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=CASES, epsilons=(1.0,), repeats=3)
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.tables, given.epsilons, given.repeats)
    else:
        replace_parts(DOCS / "laboratory" / "mosaic.md", {"parities": shown(stored(RESULTS))})
