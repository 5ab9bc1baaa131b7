"""Attacks on releases of a simulated table, beside what epsilon allows, and the page docs/attacks.md.

Of 4,000 rows of examples/admissions.csv each enters the private table by a coin of its own (chance 1/4), so that the
bound is that of adding or removing a row. `run` stores one line per method, epsilon and repeat; with `--oracle PYTHON`,
the interpreter of an environment that has anonymeter, also what that says (it needs older packages than this one).
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import (
    DOCS,
    ROOT,
    Line,
    add_grid,
    append,
    in_fresh_process,
    markdown,
    parser_of,
    replace_parts,
    results_of,
    stored,
)
from benchmarks.trust.anonymeter_oracle import PLACES
from lookalike.evaluate.evaluation import ordered_columns
from lookalike.evaluate.real_data import Attacks, arrow_rows, attacked
from lookalike.pipeline import synthesize
from lookalike.schema import codec
from lookalike.schema.schema import Schema

RESULTS, PAGE = results_of("attacks"), DOCS / "attacks.md"
POPULATION, CHANCE, SHADOWS = 4_000, 0.25, 2
EPSILONS, METHODS = (0.1, 1.0, 10.0), ("independent", "mst", "privsyn", "aim", "mosaic")
COPIES = "bootstrap (NOT PRIVATE)"
KINDS = ("linkability", "inference", "attribute disclosure", "singling out")


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    add_grid(parser, tables=("admissions",), methods=METHODS, epsilons=EPSILONS, repeats=5)
    parser.add_argument("--oracle", help="interpreter of an environment with anonymeter")
    given = parser.parse_args(arguments)
    if given.action == "document":
        return document()
    done = {(line["method"], line["epsilon"], line["repeat"]) for line in stored(RESULTS)}
    cells = [(COPIES, None), *((method, epsilon) for method in given.methods for epsilon in given.epsilons)]
    for repeat in range(given.repeats):
        for method, epsilon in cells:
            if (method, epsilon, repeat) not in done:
                line = one_run(method, epsilon, repeat, given.oracle if repeat == 0 else None)
                append(RESULTS, line)
                print(method, epsilon, repeat, {one["name"]: one["auc"] for one in line["membership"]}, flush=True)


def one_run(method: str, epsilon: float | None, repeat: int, oracle: str | None) -> Line:
    """Make one release of one sample, and attack it."""
    schema, rows = Schema.load(ROOT / "examples/admissions.yaml"), arrow_rows(ROOT / "examples/admissions.csv")
    rng = np.random.default_rng([repeat, 1])
    chosen = rows.take(rng.choice(rows.num_rows, POPULATION, replace=False))
    inside = rng.random(POPULATION) < CHANCE
    members, control = (chosen.take(np.flatnonzero(side)) for side in (inside, ~inside))
    started = time.process_time()
    if epsilon is None:
        made, given = members.take(rng.integers(0, members.num_rows, members.num_rows)), Attacks(coins=True)
    else:
        release = synthesize(members, schema=schema, method=method, epsilon=epsilon, seed=repeat)
        made, given = release.rows, Attacks(model=release.fitted, coins=True, shadows=SHADOWS)
    found = _rounded(attacked(members, control, made, schema, given, seed=repeat))
    line: Line = {"method": method, "epsilon": epsilon, "repeat": repeat, "private": False, **found}
    if oracle:
        # Its singling out compares tables of the same size only.
        said = asked(oracle, schema, members, control.slice(0, members.num_rows), made)
        line |= {} if "error" in said else {"anonymeter": said}
    return {**line, "cpu": round(time.process_time() - started, 1)}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 5) if isinstance(value, float) else value


def asked(python: str, schema: Schema, *tables: pa.Table) -> Line:
    """What anonymeter says of the same codes; categories are given to it as texts."""
    ordered = ordered_columns(schema)
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in zip(("members", "control", "synth"), tables, strict=True):
            with (Path(folder) / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(schema.names)
                for row in codec.encode(schema, rows).tolist():
                    writer.writerow(
                        code if name in ordered else f"v{code}" for name, code in zip(schema.names, row, strict=True)
                    )
        return in_fresh_process("benchmarks.trust.anonymeter_oracle", folder, python=python, timeout=900)


def document() -> None:
    """Write the tables of the page."""
    lines = stored(RESULTS)
    parts = {"membership": _membership(lines), "pooled": _pooled(lines)}
    replace_parts(PAGE, {**parts, "disclosure": _disclosure(lines), "oracle": _oracle(lines)})


def _cells(lines: list[Line]) -> dict[tuple[str, float | None], list[Line]]:
    found: dict[tuple[str, float | None], list[Line]] = defaultdict(list)
    for line in lines:
        found[line["method"], line["epsilon"]].append(line)
    return dict(sorted(found.items(), key=lambda item: (item[0][1] or 0.0, item[0][0])))


def _named(lines: list[Line], part: str, name: str) -> list[Line]:
    return [one for line in lines for one in line[part] if one["name"] == name]


def _mean(values: list[float]) -> str:
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{error}"


def _claim(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:g}"


def _membership(lines: list[Line]) -> list[str]:
    names = list(dict.fromkeys(one["name"] for line in lines for one in line["membership"]))
    rows = []
    for (method, epsilon), runs in _cells(lines).items():
        cells = [
            _mean([one["auc"] for one in found]) if (found := _named(runs, "membership", n)) else "" for n in names
        ]
        strongest = max(names, key=lambda n: np.mean([one["auc"] for one in _named(runs, "membership", n)] or [0]))
        best = _named(runs, "membership", strongest)
        most = "1" if epsilon is None else f"{best[0]['auc_most']:.3f}"
        alarms = np.mean([one["found_at_0.01"] for one in best])
        allowed = "" if epsilon is None else f" of {best[0]['found_most_at_0.01']:.1%}"
        rows.append((method, _claim(epsilon), len(runs), *cells, most, f"{alarms:.1%}{allowed}"))
    return markdown(("method", "epsilon", "runs", *names, "allowed", "found with 1 % false alarms, of allowed"), rows)


def _pooled(lines: list[Line]) -> list[str]:
    """Means over all runs of the methods with the same guarantee: their errors are small enough for the bound."""
    grouped: dict[tuple[float, float], list[Line]] = defaultdict(list)
    for line in lines:
        if line["epsilon"] is not None:
            grouped[line["epsilon"], line["membership"][0]["auc_most"]].append(line)
    names = list(dict.fromkeys(one["name"] for line in lines for one in line["membership"]))
    rows = []
    for (epsilon, most), runs in sorted(grouped.items()):
        cells = [_mean([one["auc"] for one in _named(runs, "membership", name)]) for name in names]
        methods = ", ".join(sorted({line["method"] for line in runs}))
        rows.append((f"{epsilon:g}", methods, len(runs), *cells, f"{most:.3f}"))
    return markdown(("epsilon", "methods", "runs", *names, "allowed"), rows)


def _disclosure(lines: list[Line]) -> list[str]:
    rows = []
    for (method, epsilon), runs in _cells(lines).items():
        cells = []
        for kind in KINDS:
            found = _named(runs, "disclosure", kind)
            one, other = (np.mean([entry[side] for entry in found]) for side in ("members", "control"))
            limits = [entry["members_most"] for entry in found if entry["members_most"] is not None]
            cells.append(f"{one:.1%} / {other:.1%}" + (f" (allowed {np.mean(limits):.1%})" if limits else ""))
        closer = f"{np.mean([line['closest']['closer_to_members'] for line in runs]):.1%}"
        rows.append((method, _claim(epsilon), *cells, closer))
    return markdown(("method", "epsilon", *(f"{kind}: members / control" for kind in KINDS), "closer to members"), rows)


def _oracle(lines: list[Line]) -> list[str]:
    rows = []
    for line in lines:
        if "anonymeter" not in line:
            continue
        ours = {one["name"]: one for one in line["disclosure"]}
        cells = []
        columns = list(ours["inference"]["by_column"].values())
        inferred = dict(zip(("members", "control"), np.mean([columns[place] for place in PLACES], axis=0), strict=True))
        for kind in ("singling out", "linkability", "inference"):
            for found in (inferred if kind == "inference" else ours[kind], line["anonymeter"][kind]):
                cells.append(f"{found['members']:.2f} / {found['control']:.2f}")
        rows.append((line["method"], _claim(line["epsilon"]), *cells))
    heads = [
        f"{kind}, {who}" for kind in ("singling out", "linkability", "inference") for who in ("ours", "anonymeter")
    ]
    return markdown(("method", "epsilon", *heads), rows)
