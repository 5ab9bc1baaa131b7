"""How often error bars hold the truth: whole runs on made-up tables, compared with the data.

    python -m benchmarks.accuracy error_bars run --runs 50
    python -m benchmarks.accuracy error_bars document

One JSON line per run goes to benchmarks/results/error_bars.jsonl: for each kind of number the share of intervals that
hold the truth, their mean width, and how many there are. `document` writes the table of docs/error_bars.md. Nominal
level 90 %. *Measured* intervals should hold in 85 to 95 % of all cases, others in 85 % and more. `rows` is the share of
the report's intervals that hold the count of the published rows, `ends` the share of estimates at an end of theirs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import lookalike
from benchmarks.accuracy.error_bars_tables import CASES, Case
from benchmarks.common import DOCS, Line, append, markdown, parser_of, replace_parts, results_of, stored
from benchmarks.engine.cases import counts_of
from lookalike.models.intervals import Answer
from lookalike.release import Release
from lookalike.report.public import public_numbers
from lookalike.schema import codec
from lookalike.schema.binned import Datetime
from lookalike.schema.bins import Binned

RESULTS, PAGE = results_of("error_bars"), DOCS / "error_bars.md"
LEVEL = 0.9
PAIRS = 4
Found = Iterator[tuple[str, bool, float]]
"""Kind of number, whether its interval holds, and its width (in units of the truth for means, else in counts)."""


def one_run(case: Case, seed: int, *, reproducible: bool = False) -> dict[str, list[float]]:
    """For each kind of number: share of intervals that hold the truth, mean width, number of intervals."""
    frame = case.frame()
    options = {"epsilon": case.epsilon, "method": case.method, "seed": seed, **case.options}
    noise = np.random.default_rng([seed, 7]) if reproducible else None
    release = lookalike.synthesize(frame, schema=case.schema, insecure_rng=noise, **options)
    codes = codec.encode(release.schema, pa.Table.from_pandas(frame, preserve_index=False))
    rng = np.random.default_rng([seed, 3])
    found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for part in (
        report_cells(release, codes),
        pair_counts(release, codes, rng),
        statistics(release, frame, codes, rng),
    ):
        for kind, held, width in part:
            found[kind].append((held, width))
    return {kind: [*np.mean(pairs, axis=0).round(4).tolist(), len(pairs)] for kind, pairs in found.items()}


def report_cells(release: Release, codes: np.ndarray) -> Found:
    """The single columns of the public report: against the truth, against the published rows, and at ends."""
    rows = codec.encode_columns(release.schema.columns, release.rows)
    scale = release.model.total / max(len(rows), 1)
    fitted = release.fitted
    numbers = public_numbers(fitted.schema, fitted.model, fitted.spent, fitted.error_bars())
    for column in numbers["columns"]:
        at, size = release.schema.domain.position(column["name"]), column["values"]
        if size < 2:
            continue
        truth, made = (np.bincount(table[:, at], minlength=size) for table in (codes, rows))
        shown = zip(column["all"]["counts"], column["all"]["low"], column["all"]["high"], truth, made, strict=True)
        for value, low, high, true, drawn in shown:
            yield f"report: columns, {column['basis']}", low <= true <= high, high - low
            yield "rows", low <= drawn * scale <= high, high - low
            inside = low + 0.001 < value < high - 0.001 or value == 0
            yield "ends", not inside, high - low


def pair_counts(release: Release, codes: np.ndarray, rng: np.random.Generator) -> Found:
    """Cells and sums of cells of pairs, as `query` answers them: measured, grouped, or bounded."""
    domain, model, bars = release.schema.domain, release.model, release.fitted.error_bars()
    pairs = [pair for pair in combinations(domain.names, 2) if min(domain.shape(pair)) > 1]
    for i in rng.permutation(len(pairs))[:PAIRS]:
        truth = counts_of(codes, [domain.position(name) for name in pairs[i]], domain.shape(pairs[i]))
        answers = np.asarray(model.marginal(pairs[i]))
        chosen = rng.permutation(truth.size)[:40]
        for weights in [*(np.eye(1, truth.size, cell)[0] for cell in chosen), *(rng.random((5, truth.size)) < 0.5)]:
            weights = np.reshape(weights, truth.shape).astype(float)
            kind = "cells" if weights.sum() == 1 else "sums"
            answer = bars.answer(pairs[i], weights, float((weights * answers).sum()), model.total, LEVEL)
            yield _held(f"query: {kind} of pairs", answer, float((weights * truth).sum()))


def statistics(release: Release, frame: pd.DataFrame, codes: np.ndarray, rng: np.random.Generator) -> Found:
    """Counts at any bound, means, medians and correlations, also by the values of a column."""
    schema, fitted = release.schema, release.fitted
    numbers = {c.name: _numbers(c, frame) for c in schema.columns if isinstance(c, Binned)}
    groups = [c for c in schema.columns if 1 < c.size <= 5 and not isinstance(c, Binned)]
    for name, values in numbers.items():
        known = ~np.isnan(values)
        if not isinstance(schema[name], Datetime):
            bound = float(rng.choice(values[known]))
            answer = fitted.query(f"count where `{name}` >= {bound:g}").rows[0][1]
            yield _held("query: counts at a bound", answer, float(np.count_nonzero(values[known] >= bound)))
        group = groups[int(rng.integers(len(groups)))]
        column = codes[:, schema.domain.position(group.name)]
        for asked, truth_of in (("mean", np.mean), ("median", np.median)):
            yield _held(
                f"query: {asked}s", fitted.query(f"{asked} of `{name}`").rows[0][1], float(truth_of(values[known]))
            )
            labels = group.labels()
            for (label,), answer in fitted.query(f"{asked} of `{name}` by `{group.name}`").rows:
                inside = known & (column == labels.index(label))
                if inside.any():
                    yield _held(f"query: {asked}s by group", answer, float(truth_of(values[inside])))
    for one, two in combinations(numbers, 2):
        known = ~np.isnan(numbers[one]) & ~np.isnan(numbers[two])
        answer = fitted.query(f"correlation of `{one}` and `{two}`").rows[0][1]
        yield _held("query: correlations", answer, np.corrcoef(numbers[one][known], numbers[two][known])[0, 1])


def _held(kind: str, answer: Answer, truth: float) -> tuple[str, bool, float]:
    near = 1e-6 * max(1.0, abs(truth))
    if kind.startswith("query: median") and answer.low == answer.high:
        kind += " of one value"  # no interval is narrower, so it holds as often as the value is sure
    return f"{kind}, {answer.basis}", bool(answer.low - near <= truth <= answer.high + near), answer.high - answer.low


def _numbers(column: Binned, frame: pd.DataFrame) -> np.ndarray:
    """A column's true values as numbers, clamped to the schema's bounds as the schema says; missing ones are nan."""
    values = frame[column.name]
    if isinstance(column, Datetime):
        values = (values - pd.Timestamp("1970-01-01")) / pd.Timedelta(1, column.resolution)
    low, high = column.internal(column.minimum), column.internal(column.maximum)
    return np.clip(values.to_numpy(dtype=float), low, high)


def table(lines: list[Line]) -> list[str]:
    """Coverage over all runs by table and kind of number, as a Markdown table."""
    groups: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for line in lines:
        for kind, numbers in line["kinds"].items():
            groups[line["table"], kind].append(numbers)
    rows = []
    for (name, kind), runs in sorted(groups.items(), key=lambda group: (list(CASES).index(group[0][0]), group[0][1])):
        held, width, sizes = np.array(runs).T
        share, mean = np.average(held, weights=sizes), np.average(width, weights=sizes)
        rows.append((name, kind, len(runs), f"{sizes.sum():,.0f}", f"{share:.1%}", f"{mean:,.3g}"))
    return markdown(("table", "numbers", "runs", "intervals", "hold", "mean width"), rows)


def document(lines: list[Line]) -> None:
    replace_parts(PAGE, {"error_bars": table(lines)})


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--tables", nargs="+", default=list(CASES))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    if given.action == "document":
        document(stored(given.results))
        return
    done = {(line["table"], line["run"]) for line in stored(given.results)}
    for name, seed in ((name, seed) for seed in range(given.runs) for name in given.tables):
        if (name, seed) not in done:
            start = time.process_time()
            case = CASES[name]
            facts = {"table": name, "method": case.method, "epsilon": case.epsilon, "run": seed}
            kinds = one_run(case, seed)
            append(given.results, {**facts, "kinds": kinds, "cpu_seconds": round(time.process_time() - start, 2)})
    print("\n".join(table(stored(given.results))))
