"""Faults of machines and people: nothing is under-reported, nothing is half-written, nobody is locked out.

    kills       a process is killed (SIGKILL) at random moments
    interrupts  the same with Ctrl-C (SIGINT), through the command line: no traceback, and the run can be finished
    disk        every single operation on the ledger's files fails once, as on a full disk; then outputs of every size

A child process makes runs, one after the other, on one table with one ledger on disk, writes the synthetic table of
each, and says after each release that it was made. Then the ledger must load, must have charged every release that was
made, and must count at least its epsilon; the output must be absent or complete. The next child goes on with the same
ledger. `run` stores the outcome.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import DOCS, Line, append, markdown, parser_of, replace_parts, results_of, stored
from lookalike.cli import main as cli
from lookalike.errors import LookalikeError
from lookalike.pipeline import synthesize
from lookalike.privacy.kernel import door
from lookalike.privacy.ledger import Ledger
from lookalike.release import Release, write_page
from lookalike.schema.explained import save_explained
from lookalike.statement import statement_of

RESULTS, PAGE = results_of("faults"), DOCS / "faults.md"
SIZES = {"a": 3, "b": 2}
ROWS, EPSILON = 300, 0.5
FAULTS = ("under_reported", "half_written")
LONGEST = 6.0
"""Runs' time after which a child is killed at the latest."""


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--faults", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--interrupts", type=int, default=100)
    given = parser.parse_args(arguments)
    if given.action == "document":
        return document()
    for name in given.faults:
        with tempfile.TemporaryDirectory() as folder:
            line = KINDS[name](Path(folder), getattr(given, name, 0))
        append(RESULTS, line)
        print(line)


def document() -> None:
    """Write the table of the page."""
    rows = []
    for line in stored(RESULTS):
        figures = {name.replace("_", " "): value for name, value in line.items() if name not in ("fault", "seconds")}
        rows.append((line["fault"], ", ".join(f"{name}: {value}" for name, value in figures.items()), line["seconds"]))
    replace_parts(PAGE, {"outcomes": markdown(("fault", "outcome", "seconds"), rows)})


def kills(count: int, folder: Path, rng: random.Random) -> Line:
    """Kill a child so often and count what is wrong with what each kill left."""
    ledger, output = folder / "ledger.jsonl", folder / "out.csv"
    one_run(Ledger(None, "t"))  # loads what runs need, so that children begin at once
    started = time.perf_counter()
    one_run(Ledger(folder / "timed.jsonl", "t"))
    made, faults, each = 0, Counter[str](), time.perf_counter() - started
    for _ in range(count):
        made += one_kill(ledger, output, rng.random() * LONGEST * each)
        faults.update(faults_left(ledger, output, made))
    runs = Ledger(ledger, "t").runs() if ledger.exists() else []
    if not made:
        raise RuntimeError("no child lived long enough to release anything: nothing was checked")
    return {
        "fault": "kill -9 at random moments", "kills": count, "releases_seen": made, "runs_in_ledger": len(runs),
        "runs_cut_off": sum(run.status == "unfinished" for run in runs),
        **{name: faults[name] for name in FAULTS}, "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def one_kill(ledger: Path, output: Path, after: float) -> int:
    """Start a child, kill it after some seconds, and return how many releases it said it made."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(ledger, output, writer)
    os.close(writer)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as said:
        return len(said.read())


def _work(ledger: Path, output: Path, writer: int) -> None:
    """Make runs until the process is killed."""
    try:
        while True:
            release = one_run(Ledger(ledger, "t"))
            os.write(writer, b"r")
            release.write(output)
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(1)


def one_run(ledger: Ledger) -> Release:
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, size, ROWS).astype(np.int32) for name, size in SIZES.items()})
    return synthesize(table, schema=SIZES, method="independent", epsilon=EPSILON, ledger=ledger)


def faults_left(ledger: Path, output: Path, made: int) -> list[str]:
    """What is wrong with ledger and output after a kill, when `made` releases were seen so far."""
    found: list[str] = []
    runs = Ledger(ledger, "t").runs() if ledger.exists() else []
    charged = [run for run in runs if run.charges]
    counted = sum(run.epsilon_counted for run in charged)
    if len(charged) < made or counted < made * EPSILON * (1 - 1e-12):
        found.append("under_reported")
    if output.exists():
        lines = output.read_text().splitlines(keepends=True)
        whole = [line.endswith("\n") and line.count(",") == len(SIZES) - 1 for line in lines]
        if not whole or not all(whole) or lines[0].strip() != ",".join(SIZES):
            found.append("half_written")
    return found


# Ctrl-C.


_STARTED = 0.02
"""Seconds after which a child has entered the command line."""


def interrupts(count: int, folder: Path, rng: random.Random) -> Line:
    """Interrupt runs of the command line so often, and finish what is left of each by `resume`."""
    table, domain, output = folder / "t.csv", folder / "domain.json", folder / "out.csv"
    codes = np.random.default_rng(0).integers(0, 2, (ROWS, 8))
    names = [f"c{i}" for i in range(8)]
    np.savetxt(table, codes, fmt="%d", delimiter=",", header=",".join(names), comments="")
    domain.write_text(json.dumps(dict.fromkeys(names, 2)))
    os.environ["LOOKALIKE_LEDGERS"] = str(folder / "ledgers")
    command = ("synth", str(table), "--domain", str(domain), "-m", "mst", "-o", str(output))
    started = time.perf_counter()
    one_command(command, None)
    each = time.perf_counter() - started
    started, outcomes, wrong = time.perf_counter(), Counter[int](), Counter[str]()
    for _ in range(count):
        output.unlink(missing_ok=True)
        code, said = one_command(command, _STARTED + rng.random() * each)
        outcomes[code] += 1
        wrong["tracebacks"] += "Traceback" in said
        wrong["half_written"] += output.exists() and len(output.read_text().splitlines()) < ROWS // 2
        wrong["ledgers_lost"] += one_command(("ledger", str(table)), None)[0] != 0
        resumed, said = one_command(("resume", str(table)), None) if code else (0, "")
        begun = "Nothing to resume" not in said and "stopped before it had spent" not in said
        wrong["finished_by_resume"] += code != 0 and begun
        wrong["not_finished"] += begun and (resumed != 0 or not output.exists())
    return {
        "fault": "Ctrl-C at random moments", "interrupts": count, "runs_cut_off": count - outcomes[0],
        "exit_codes": {str(code): number for code, number in sorted(outcomes.items())},
        **{name: wrong[name] for name in ("finished_by_resume", "not_finished")},
        **{name: wrong[name] for name in ("tracebacks", "half_written", "ledgers_lost")},
        "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def one_command(arguments: Sequence[str], after: float | None) -> tuple[int, str]:
    """Run the command line in a child, interrupt it after some seconds, and return its exit code and messages."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            _command(arguments)
        if after is not None:
            time.sleep(after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return code, said.read().decode()


def _command(arguments: Sequence[str]) -> None:
    sys.argv = ["lookalike", *arguments]
    # Messages go to the child's own file, also where the parent's streams are someone else's, as in a test.
    sys.stdout, sys.stderr = (os.fdopen(place, "w", closefd=False) for place in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# A full disk.

_OPERATIONS = ("open", "write", "fsync", "ftruncate", "replace")


class FullDisk:
    """While entered, the operation number `at` on files of a folder fails; `half` lets a write take half of the data.

    Attributes:
        seen: how many operations there were.
    """

    def __init__(self, folder: Path, at: int, *, half: bool = False) -> None:
        self.folder, self.at, self.half, self.seen = folder.resolve(), at, half, 0
        self._real: dict[str, Any] = {}

    def __enter__(self) -> FullDisk:
        self._real = {name: getattr(os, name) for name in _OPERATIONS}
        for name in _OPERATIONS:
            setattr(os, name, functools.partial(self._call, name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _call(self, name: str, where: Any, *more: Any, **options: Any) -> Any:
        place = Path(os.readlink(f"/proc/self/fd/{where}")) if isinstance(where, int) else Path(where).absolute()
        if self.folder in place.parents:
            self.seen += 1
            if self.seen == self.at:
                if not (self.half and name == "write"):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                more = (more[0][: len(more[0]) // 2],)
        return self._real[name](where, *more, **options)


def full_disk(folder: Path, most: int = 1000) -> Line:
    """Let every operation on the ledger's files fail once, in a run of its own, then write outputs to small disks."""
    started, faults, runs, at, half = time.perf_counter(), Counter[str](), 0, 0, False
    one_run(Ledger(None, "t"))
    while at < most:
        at, half = (at, True) if not half and at else (at + 1, False)
        place = folder / f"disk-{at}-{half}"
        place.mkdir()
        disk = FullDisk(place, at, half=half)
        faults.update(_run_on(disk))
        runs += 1
        if disk.seen < at:
            break
    sizes = small_disks(folder)
    return {
        "fault": "disk full at every operation", "operations": at - 1, "runs": runs, "sizes_of_outputs": sizes[0],
        **{name: faults[name] for name in ("under_reported", "locked_out", "other_errors")},
        "half_written": sizes[1], "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def _run_on(disk: FullDisk) -> Iterator[str]:
    """Make a run on a disk that fails, and yield what is wrong with what it leaves."""
    path, drawn = disk.folder / "ledger.jsonl", []
    real = door.noisy_counts

    def noisy_counts(*given: Any, **options: Any) -> Any:
        drawn.append(True)
        return real(*given, **options)

    door.noisy_counts = noisy_counts
    try:
        with disk:
            one_run(Ledger(path, "t"))
    except LookalikeError:
        pass
    except Exception:  # noqa: BLE001 - any other error is what is looked for
        yield "other_errors"
    finally:
        door.noisy_counts = real
    if drawn and sum(run.epsilon_counted for run in Ledger(path, "t").runs()) < EPSILON:
        yield "under_reported"
    try:
        one_run(Ledger(path, "t"))
    except Exception:  # noqa: BLE001
        yield "locked_out"


def small_disks(folder: Path, steps: int = 25) -> tuple[int, int]:
    """Write every kind of output where no file may pass a size, for many sizes; return how many were tried and wrong.

    An output must be absent or whole. Of a folder of noisy tables every file must be.
    """
    book, tried, wrong = Ledger(None, "t"), 0, 0
    for name, write in outputs_of(one_run(book), book).items():
        (folder / "whole").mkdir(exist_ok=True)
        write(folder / "whole" / name)
        whole = _contents(folder / "whole")
        largest = max(map(len, whole.values()))
        for limit in range(0, largest, max(1, largest // steps)):
            small = folder / f"small-{limit}-{name}"
            small.mkdir()
            child = os.fork()
            if child == 0:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                with contextlib.suppress(BaseException):
                    write(small / name)
                os._exit(0)
            os.waitpid(child, 0)
            tried += 1
            wrong += any(len(data) > limit or place not in whole for place, data in _contents(small).items())
            wrong += any(len(data) != len(whole[place]) for place, data in _contents(small).items() if place in whole)
        shutil.rmtree(folder / "whole")
    return tried, wrong


def outputs_of(release: Release, book: Ledger) -> dict[str, Callable[[Path], Any]]:
    """Everything that a run can write, by the name of its file."""
    tables = {f"out{end}": release.write for end in (".csv", ".csv.gz", ".parquet", ".feather", ".jsonl")}
    page = release.report()
    return {
        **tables, "model.lookalike": release.fitted.save, "report.html": lambda path: write_page(path, page),
        "schema.yaml": release.schema.save, "explained.yaml": lambda path: save_explained(release.schema, path),
        "statement.json": lambda path: write_page(path, json.dumps(statement_of(release.fitted, book))),
        "tables": release.fitted.write_noisy_tables,
    }  # fmt: skip


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


KINDS: dict[str, Callable[[Path, int], Line]] = {
    "kills": lambda folder, count: kills(count, folder, random.Random()),
    "interrupts": lambda folder, count: interrupts(count, folder, random.Random()),
    "disk": lambda folder, _: full_disk(folder),
}
