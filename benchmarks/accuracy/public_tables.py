"""What a public table beside the private one is worth, and that a biased one does no harm.

    python -m benchmarks.accuracy public_tables run [--methods mosaic] [--tables adult] [--epsilons 0.1] [--repeats 5]
    python -m benchmarks.accuracy public_tables document

80 % of the rows are private, the public table comes from the others: 5,000 of them as they are, or biased on purpose.
`run` appends one JSON line per run to benchmarks/results/public_tables.jsonl; `document` writes the generated part of
docs/laboratory/public_tables.md. A method is named with its kind of public table, such as `mosaic+tilted`.
NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import DOCS, add_grid, parser_of, replace_parts, results_of
from benchmarks.runs import method_rows, results_in, show_progress, table_of, three_and_five
from lookalike.evaluate.compare import Job, Result, jobs_of, judge_method, run_jobs
from lookalike.evaluate.real_data import split_rows

PUBLIC_ROWS = 5000
METHODS = tuple(f"mosaic+{kind}" for kind in ("none", "unbiased", "tilted", "half", "shuffled"))


def biased(rows: pa.Table, kind: str, rng: np.random.Generator) -> pa.Table | None:
    """The public table of a kind, out of rows that are not private; None for `none`.

    `tilted` draws rows by odds that rise and fall with the first, third and last column, `half` takes the rows of the
    smallest codes of the first column alone, `shuffled` shuffles every column.
    """
    rows = rows.take(rng.permutation(rows.num_rows))
    if kind == "none":
        return None
    if kind == "tilted":
        first, third, last = (np.asarray(rows.column(i), float) for i in (0, 2, rows.num_columns - 1))
        odds = np.exp(0.25 * first / first.std() + 0.5 * last - 0.4 * third / third.std())
        chosen = rng.choice(rows.num_rows, min(PUBLIC_ROWS, rows.num_rows // 2), replace=False, p=odds / odds.sum())
        return rows.take(chosen)
    if kind == "half":
        return rows.take(np.argsort(np.asarray(rows.column(0)), kind="stable")[: rows.num_rows // 2])
    rows = rows.slice(0, PUBLIC_ROWS)
    if kind == "shuffled":
        columns = [column.take(rng.permutation(rows.num_rows)) for column in rows.columns]
        return pa.table(columns, names=rows.column_names)
    return rows


def run_one(job: Job) -> Result:
    """Numbers of one run; called in a process of its own."""
    rows, schema = table_of(job.table)
    method, _, kind = job.method.partition("+")
    public = biased(split_rows(rows, job.train_share, job.repeat)[1], kind, np.random.default_rng(job.repeat))
    notes: list[str] = []
    synthesize = partial(_synthesize, public=public, name=method, notes=notes)
    return {**judge_method(job, table=rows, schema=schema, synthesize=synthesize), "note": (notes or [""])[-1]}


def _synthesize(
    rows: pa.Table, *, method: str, public: pa.Table | None, name: str, notes: list[str], **more: Any
) -> Any:
    import lookalike

    release = lookalike.synthesize(rows, method=name, public=public, **more)
    notes.extend(release.notes)
    return release


def distances(results: Sequence[dict[str, Any]]) -> list[str]:
    """3-way and 5-way distances, one row per method with its kind of public table."""
    cell: Callable[..., str] = three_and_five(list(results))
    runs = dict.fromkeys((line["table"], line["epsilon"]) for line in results)
    methods = dict.fromkeys(line["method"] for line in results)
    return method_rows(methods, {f"{table}, epsilon {e:g}": (table, e) for table, e in runs}, cell)


def main(arguments: Sequence[str]) -> None:
    parser, results = parser_of(__name__, __doc__, "run", "document"), results_of("public_tables")
    add_grid(parser, tables=("adult",), methods=METHODS, epsilons=(0.1,), repeats=5)
    given = parser.parse_args(arguments)
    if given.action == "run":
        jobs = jobs_of(given.tables, given.methods, given.epsilons, given.repeats, train_share=0.8)
        run_jobs(jobs, run_one, results, progress=show_progress)
    else:
        replace_parts(DOCS / "laboratory" / "public_tables.md", {"distances": distances(results_in(results))})
