"""How far real rows are from real rows: what a distance of a synthetic table can be compared with.

    python -m benchmarks.accuracy references run [--tables adult nltcs] [--repeats 3]
    python -m benchmarks.accuracy references document

No method runs here. Rows are split into halves; distances to the first half are those of a bootstrap of it (`resample`)
and of the second half (`fresh`), a sample of the same size that shares no row with it. Then 80 % are split off as for
the methods, and distances to the other 20 %, which no method sees, are those of the 80 % (`training`) and of a
bootstrap of it. `run` appends to benchmarks/results/references.jsonl; `document` writes the generated part of
docs/references.md. NOT PRIVATE: everything here is about real rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.common import DOCS, Line, add_grid, append, markdown, parser_of, replace_parts, results_of, stored
from benchmarks.runs import TABLES, table_of
from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.schema import codec
from lookalike.schema.domain import Domain

RESULTS = results_of("references")
HALVES, UNSEEN = ("resample", "fresh"), ("resample, unseen rows", "training, unseen rows")


def distances(one: np.ndarray, two: np.ndarray, domain: Domain) -> dict[str, float]:
    """Mean distances of the random 3-way and 5-way marginals on which methods are judged."""
    pair = TablePair(one, two, domain)
    return {str(k): round(distances_of(pair, random_cliques(domain, k)).mean, 6) for k in (3, 5)}


def references(codes: np.ndarray, domain: Domain, seed: int) -> dict[str, dict[str, float]]:
    """Return the distances of all four references for one split of the rows."""
    rng = np.random.default_rng(seed)
    codes = np.asfortranarray(codes[rng.permutation(len(codes))])
    half, most = len(codes) // 2, int(0.8 * len(codes))
    first, second, training, unseen = codes[:half], codes[half : 2 * half], codes[:most], codes[most:]
    return {
        "resample": distances(first, first[rng.integers(0, half, half)], domain),
        "fresh": distances(first, second, domain),
        "resample, unseen rows": distances(unseen, training[rng.integers(0, most, most)], domain),
        "training, unseen rows": distances(unseen, training, domain),
    }


def run(tables: Sequence[str], repeats: int) -> None:
    """Compute what is not stored yet."""
    done = {(line["table"], line["repeat"]) for line in stored(RESULTS)}
    for repeat in range(repeats):
        for table in tables:
            if (table, repeat) not in done:
                rows, schema = table_of(table)
                found = references(codec.encode(schema, rows), schema.domain, repeat)
                append(RESULTS, {"table": table, "repeat": repeat, "rows": rows.num_rows, "tvd": found})
                print(table, repeat, found, flush=True)


def shown(results: Sequence[Line]) -> list[str]:
    """Mean distances of the references, one row per table, and how much further fresh rows are than a bootstrap."""
    rows = []
    for table in dict.fromkeys(line["table"] for line in results):
        own = [line["tvd"] for line in results if line["table"] == table]
        mean = {kind: [float(np.mean([tvd[kind][k] for tvd in own])) for k in ("3", "5")] for kind in own[0]}
        times = [mean["fresh"][i] / mean["resample"][i] for i in (0, 1)]
        cells = [f"{mean[kind][0]:.4f} / {mean[kind][1]:.4f}" for kind in (*HALVES, *UNSEEN)]
        rows.append([table, len(own), *cells[:2], f"{times[0]:.2f} / {times[1]:.2f}", *cells[2:]])
    heads = ["table", "splits", "half: resample", "half: fresh", "fresh / resample", *UNSEEN]
    return markdown(heads, rows)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=TABLES, epsilons=(), repeats=3)
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.tables, given.repeats)
    else:
        replace_parts(DOCS / "references.md", {"references": shown(stored(RESULTS))})
