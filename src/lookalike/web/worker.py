"""The process of one run: the page starts it, talks to it through pipes, and ends it when the page ends.

The first line of standard input is the task, as JSON; the rest of standard input is empty and stays open as long as the
page lives. When it ends, so does this process: what was answered so far is in the journal, and the run can be resumed.
Standard output gets one JSON object per line: `run` (its number in the ledger), `progress`, and at last `done`,
`failed` or `page`. Nothing else is written: no traceback, no value of the table.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import zipfile
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

# Set before NumPy is loaded, as in `cli/main.py`.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GRACE = 10.0
"""Seconds that a run has to close its account when the page ends or cancels it."""
MODEL, REPORT, STATEMENT, SCHEMA = "model.lookalike", "report.html", "statement.json", "schema.yaml"
TABLES, SCRIPT, RECORD, FOUND = "noisy-tables.zip", "repeat_run.py", "run.json", "found.yaml"
FIRST_ROWS = 20


_channel: IO[str] = sys.stdout


def say(**message: Any) -> None:
    """Write one line for the page."""
    _channel.write(json.dumps(message) + "\n")
    _channel.flush()


def _keep_channel() -> None:
    """Leave standard output to the page alone: what a library prints goes nowhere."""
    global _channel
    _channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main() -> int:
    """Read the task, do it, and return the exit code."""
    _keep_channel()
    task = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with_the_page, daemon=True).start()
    from lookalike.errors import DoubtfulError, LookalikeError

    try:
        {"release": _release, "resume": _resume, "compare": _compare}[task["kind"]](task)
    except DoubtfulError as error:
        from lookalike.schema.explained import save_explained

        save_explained(error.schema, Path(task["state"]) / FOUND)
        say(failed=str(error), reason="doubtful")
    except LookalikeError as error:
        say(failed=str(error), reason="error")
    except MemoryError:
        say(failed="", reason="memory")
    except KeyboardInterrupt:
        say(failed="", reason="cancelled")
    except Exception:  # noqa: BLE001
        # A bug. Its message may hold a value of the table, so nothing of it is said.
        say(failed="", reason="bug")
    return 0


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _end_with_the_page() -> None:
    while os.read(0, 4096):  # not by sys.stdin, whose lock would be held when the process ends by itself
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _progress(message: str, fraction: float) -> None:
    say(progress=[message, fraction])


def _release(task: dict[str, Any]) -> None:
    from lookalike.inputs import as_ledger
    from lookalike.pipeline import Making, begin
    from lookalike.web.orders import Order

    order = Order.from_json(task["order"])
    run = order.prepared(task["where"])
    book = as_ledger(None, run.table)
    told = {"end": order.end, "about": order.about}
    _finish(task, begin(run, Making(rows=order.rows, outputs={"page": told}), ledger=book), book)


def _resume(task: dict[str, Any]) -> None:
    from lookalike.inputs import as_ledger
    from lookalike.resuming import reopen
    from lookalike.web.orders import opened

    table = opened(task["where"])
    book = as_ledger(None, table)
    _finish(task, reopen(table, task["run"], ledger=book), book)


def _finish(task: dict[str, Any], begun: Any, book: Any) -> None:
    """Finish a run and write its results into a separate folder."""
    from lookalike.outputs import write_results
    from lookalike.release import Release, write_page
    from lookalike.web.orders import reading_of, script_of
    from lookalike.web.tables import make_folder

    number, file = begun.account.number, begun.run.table
    told = (begun.making.outputs or {}).get("page", {})  # a run of the command line was told nothing
    end, about = told.get("end", ".csv"), told.get("about", {})
    folder = Path(task["state"]) / f"run-{number}"
    make_folder(folder)
    say(run=number)
    out = f"synthetic-{task['stem']}{end}"
    files = {"out": out, "model": MODEL, "report": REPORT, "write_schema": SCHEMA, "statement": STATEMENT}

    def finish(release: Release) -> None:
        places = {name: str(folder / written) for name, written in files.items()}
        write_results(release, {"files": places, "about": about}, book)
        _zip_noisy_tables(release, folder / TABLES)
        write_page(folder / SCRIPT, script_of(begun.run, begun.making, name=SCRIPT, end=end))
        written = {**files, "tables": TABLES, "script": SCRIPT}
        record = {**_facts(release), "end": end, "reading": asdict(reading_of(file)), "files": written}
        write_page(folder / RECORD, json.dumps(record, indent=1, ensure_ascii=False))

    begun.finished(progress=_progress, finish=finish)
    say(done=number)


def _zip_noisy_tables(release: Any, target: Path) -> None:
    with TemporaryDirectory() as folder, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in release.fitted.write_noisy_tables(folder):
            archive.write(path, path.name)


def _facts(release: Any) -> dict[str, Any]:
    """What the page of the result shows. All of it is released."""
    head = release.rows.slice(0, FIRST_ROWS)
    first = [["" if value is None else str(value) for value in row.values()] for row in head.to_pylist()]
    spent = release.spent
    return {
        "rows": release.rows.num_rows,
        "columns": head.column_names,
        "first": first,
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "method": spent.method_text,
        "hides": spent.neighbours,
        "private": spent.private,
        "notes": list(release.notes),
    }


def _compare(task: dict[str, Any]) -> None:
    """Compare real and synthetic rows. NOT PRIVATE: the page goes to memory of the server alone, never to disk."""
    from lookalike.evaluate import real_data
    from lookalike.evaluate.report import internal_report
    from lookalike.release import load
    from lookalike.web.orders import Reading

    reading = Reading(task["reading"]["encoding"], task["reading"]["delimiter"], tuple(task["reading"]["dropped"]))
    real, folder = reading.table(task["where"]), Path(task["folder"])
    schema = load(folder / MODEL).schema
    found = real_data.evaluate(real, folder / task["out"], schema, progress=_progress)
    say(page=internal_report(found))


if __name__ == "__main__":
    sys.exit(main())
