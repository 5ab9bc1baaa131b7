"""Run `lookalike synth TABLE --epsilon E` with no schema, and store what came of it.

    python -m benchmarks.real_tables run --label LABEL [--tables actg weather] [--epsilons 1] [--parts table downstream]

Each run is the command itself, in a process of its own, with fresh noise. Above `--limit` CPU seconds it is stopped and
`mst` is run instead, which the line says. Part `table` compares all rows; part `downstream` gives the command four
fifths of the rows and predicts the others (tables adult, actg and flights). `--method resample` draws real rows. One
JSON line per run goes to `--out`, benchmarks/results/real_tables.jsonl by default; runs that are stored there under the
same label are not repeated.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.common import Line, add_grid, append, parser_of, results_of, stored
from benchmarks.real_tables import downstream, rules
from benchmarks.real_tables.kinds import named_as, texts_of
from benchmarks.real_tables.measures import table_measures
from benchmarks.real_tables.tables import TABLES, file_of

RESULTS = results_of("real_tables")
PARTS = ("table", "downstream")
INSTEAD = "mst"
RESAMPLE = "resample"
"""Not a method: a bootstrap of the real rows, no privacy at all. What it is off by is the noise of sampling."""
WALL_LIMIT = 3600
FRAMES = "┏┃┡│└┗├╇━─"
KEY = ("label", "part", "table", "epsilon", "asked", "repeat")


def limited(seconds: int) -> Callable[[], None]:
    """What a child does before it becomes the command: accept a limit of its CPU seconds."""
    return lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))


def synth(table: Path, out: Path, epsilon: float, method: str, limit: int) -> Line:
    """Run the command; its method, CPU seconds, exit code, and what it printed that a user should heed."""
    words = [sys.executable, "-m", "lookalike", "synth", str(table), "--epsilon", str(epsilon), "-o", str(out)]
    words += ["--method", method, "--ledger", str(out.with_suffix(".ledger.jsonl"))]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=WALL_LIMIT, preexec_fn=limited(limit),
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    line: Line = {"method": method, "cpu_seconds": round(seconds, 1), "exit": done.returncode}
    line["notes"] = notes(done.stderr.replace(f"{table.parent}{os.sep}", "").replace(f"{out.parent}{os.sep}", ""))
    return line


def notes(printed: str) -> list[str]:
    """What the command printed besides the plan and its table of steps; of a traceback the error alone."""
    said, _, traced = printed.partition("Traceback (most recent call last):")
    lines = [text.strip() for text in (*said.splitlines(), *traced.splitlines()[-1:])]
    return [text for text in lines if text and text[0] not in FRAMES and not text.startswith("Plan:")]


def synth_in_time(table: Path, out: Path, epsilon: float, method: str, limit: int) -> Line:
    """As `synth`, and once more with the fast method where the limit was passed."""
    if method == RESAMPLE:
        rows = pd.DataFrame(texts_of(table))
        rows.sample(len(rows), replace=True, random_state=0).to_csv(out, index=False)
        return {"method": method, "cpu_seconds": 0.0, "exit": 0, "notes": []}
    line = synth(table, out, epsilon, method, limit)
    if line["exit"] in (-signal.SIGXCPU, -signal.SIGKILL) and method != INSTEAD:
        stopped = line["cpu_seconds"]
        line = synth(table, out, epsilon, INSTEAD, limit) | {"stopped_after": stopped}
    return line


def whole_table(name: str, epsilon: float, method: str, limit: int, folder: Path) -> Line:
    """Compare the output of a run on all rows with them."""
    out = folder / "out.csv"
    line = synth_in_time(file_of(name), out, epsilon, method, limit)
    if line["exit"]:
        return line
    real = texts_of(file_of(name))
    made = named_as(real, texts_of(out))
    line |= table_measures(real, made)
    if name == "flights":
        line["rules"] = rules.flights(made)
    return line


def trained(name: str, epsilon: float, method: str, limit: int, folder: Path) -> Line:
    """Train on the output of a run on four fifths of the rows, test on the others."""
    real, out, source = texts_of(file_of(name)), folder / "out.csv", folder / "train.csv"
    train, test = downstream.split(real)
    pd.DataFrame(train).to_csv(source, index=False)
    line = synth_in_time(source, out, epsilon, method, limit)
    if not line["exit"]:
        target = downstream.TARGETS[name]
        line["auc"] = downstream.auc(train, named_as(train, texts_of(out)), test, target)
        line["auc_real"] = downstream.auc(train, train, test, target)
    return line


def one_run(key: Line, limit: int, keep: Path | None = None) -> Line:
    """The stored line of one run; its output is copied into the folder `keep`, if one is given."""
    make = whole_table if key["part"] == "table" else trained
    with tempfile.TemporaryDirectory() as folder:
        line = make(key["table"], key["epsilon"], key["asked"], limit, Path(folder))
        out = Path(folder) / "out.csv"
        if keep and out.exists():
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{'-'.join(map(str, key.values()))}.csv").write_bytes(out.read_bytes())
    return key | line


def run(keys: Sequence[Line], out: Path, limit: int, keep: Path | None) -> None:
    """Run what is not stored yet."""
    known = {tuple(line[name] for name in KEY) for line in stored(out)}
    for key in keys:
        if tuple(key.values()) in known:
            continue
        line = one_run(key, limit, keep)
        append(out, line)
        print({name: value for name, value in line.items() if name not in ("by_column", "notes")}, flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    add_grid(parser, tables=TABLES, epsilons=(1.0,), repeats=1)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--label", required=True, help="name of the code that runs, such as 'before'")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds of a run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--keep", type=Path, help="folder that keeps the synthetic tables")
    given = parser.parse_args(arguments)
    keys: list[Line] = [
        dict(zip(KEY, (given.label, part, table, epsilon, given.method, repeat), strict=True))
        for repeat in range(given.repeats)
        for epsilon in given.epsilons
        for table in given.tables
        for part in given.parts
        if part == "table" or table in downstream.TARGETS
    ]
    run(keys, given.out, given.limit, given.keep)
