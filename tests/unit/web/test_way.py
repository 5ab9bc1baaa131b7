"""The whole way by plain requests: no row before a release, cancel, resume, caps, two runs at once, a killed server."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from lookalike.privacy.ledger import Ledger
from lookalike.statement import differences
from lookalike.web import drafts
from lookalike.web.worker import MODEL

from .conftest import ROWS, SECRET, people
from .serving import Served, serving


@pytest.fixture
def table(served: Served) -> str:
    """The address of the table, with the schema of its file and an empty draft otherwise."""
    path = served.table("people.csv")
    assert served.post(f"{path}/schema/import", {"action": "file", "file": "people.yaml"}).status == 303
    budget(served, path)
    return path


def budget(served: Served, path: str, **changes: str) -> None:
    usual = {"epsilon": "1", "delta": "1e-5", "protect": "row", "method": "mst", "relation": "add-remove"}
    form = {**usual, **changes, "version": served.version(f"{path}/budget")}
    assert served.post(f"{path}/budget", form).status == 303


def started(served: Served, path: str) -> str:
    """Start a run and return its address."""
    answer = served.post(f"{path}/run", {"version": served.version(f"{path}/run")})
    assert answer.status == 303, answer.text
    return answer.headers["Location"]


def book(served: Served, path: str) -> Ledger:
    return served.page.folder.table(path.split("/")[2]).ledger


def test_no_row_is_read_before_a_release(served: Served, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("rows were read")

    for reader in ("frames.read_table", "files.read_file", "csvfiles.read_csv"):
        monkeypatch.setattr(f"lookalike.sources.{reader}", fails)
    for step in ("", "/schema", "/budget", "/run", "/result", "/schema.yaml"):
        answer = served.get(table + step)
        assert answer.status == 200
        assert SECRET not in answer.text
    assert served.post(f"{table}/schema/import", {"action": "reset"}).status == 303
    assert "4 columns leave facts open" in served.get(f"{table}/schema").text


def test_entries_with_mistakes_are_kept_and_explained(served: Served, table: str) -> None:
    form = [("version", served.version(f"{table}/schema")), ("rules", "- perhaps: age > 3"), ("action", "next")]
    for i, name in enumerate(("age", "sex", "town", "weight")):
        form += [("column", name), (f"kind-{i}", "integer" if i == 0 else "any"), (f"missing-{i}", "open")]
    form += [("low-0", "old"), ("high-0", "older")]
    answer = served.post(f"{table}/schema", form)
    assert answer.headers["Location"].endswith("/schema")
    page = served.get(f"{table}/schema").text
    assert "&#39;old&#39; as a bound" in page
    assert 'name="low-0" value="old"' in page
    assert "perhaps" in page
    assert "The run cannot start yet" in served.get(f"{table}/run").text
    assert served.post(f"{table}/run", {"version": served.version(f"{table}/schema")}).status == 400
    assert not book(served, table).entries() or SECRET not in str(book(served, table).entries())


def test_a_cap_of_a_composition_is_said_and_kept(served: Served) -> None:
    path = served.table("inner/more.csv")
    book(served, path).set_cap(3.0, "gdp", 1e-6)
    for page in (f"{path}/budget", f"{path}/run", "/ledger", "/"):
        assert served.get(page).status == 200
    assert served.post(f"/ledger/{path.split('/')[2]}", {"cap": "4"}).status == 303
    limit = book(served, path).limit
    assert limit is not None
    assert (limit.epsilon, limit.composition, limit.delta) == (4.0, "gdp", 1e-6)


def test_a_form_of_an_older_version_changes_nothing(served: Served, table: str) -> None:
    version = served.version(f"{table}/budget")
    budget(served, table, epsilon="2")
    answer = served.post(f"{table}/budget", {"version": version, "epsilon": "7", "protect": "row", "method": "mst"})
    assert answer.status == 409
    assert 'value="7"' in answer.text
    assert drafts.load(served.page.folder.table(table.split("/")[2])).budget.epsilon == "2"


def repeated(served: Served, run: str, folder: Path) -> None:
    """The script that repeats a run makes a table of the same columns, as a run of its own."""
    script, out = folder / "repeat_run.py", folder / "again.csv"
    script.write_bytes(served.get(f"{run}/files/repeat_run.py").body)
    environment = {**os.environ, "LOOKALIKE_LEDGERS": str(folder / "ledgers")}
    command = [sys.executable, str(script), str(served.page.folder.root / "people.csv"), str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Method: mst" in done.stdout
    assert out.read_text().startswith("age,sex,town,weight\n")


def test_a_run_gives_everything_and_private_values_stay_out(served: Served, table: str, tmp_path: Path) -> None:
    run = started(served, table)
    assert served.until(run, "done", "failed", "interrupted") == "done"
    result = served.get(f"{run}/result")
    assert result.status == 200
    rows = list(csv.reader(io.StringIO(served.get(f"{run}/files/synthetic-people.csv").text)))
    assert rows[0] == ["age", "sex", "town", "weight"]
    assert abs(len(rows) - ROWS) < 100
    statement = json.loads(served.get(f"{run}/files/statement.json").text)
    ledger = book(served, table).path
    assert ledger is not None
    assert differences(statement, ledger) == []
    archive = zipfile.ZipFile(io.BytesIO(served.get(f"{run}/files/noisy-tables.zip").body))
    assert len(archive.namelist()) > 4
    assert served.get(f"{run}/files/{MODEL}").status == 200
    report = served.get(f"{run}/report")
    assert "What is guaranteed" in report.text
    assert "frame-ancestors 'self'" in report.headers["Content-Security-Policy"]
    repeated(served, run, tmp_path)
    for answer in (result, report, served.get(f"{run}/files/schema.yaml")):
        assert SECRET not in answer.text

    assert served.post(f"{run}/questions", {"question": "count by sex", "level": "0.9"}).status == 303
    assert "count by sex" in served.get(f"{run}/result").text
    wrong = served.post(f"{run}/questions", {"question": "sum of everything", "level": "0.9"})
    assert wrong.status == 422
    assert 'value="sum of everything"' in wrong.text
    more = served.post(f"{run}/rows", {"rows": "25", "where": "sex = F", "end": ".tsv"})
    assert more.status == 303
    assert len(served.get(f"{run}/files/more-rows-1.tsv").text.splitlines()) == 26
    assert served.post(f"{run}/rows", {"rows": "0", "end": ".tsv"}).status == 422

    place = served.page.folder.table(table.split("/")[2])
    for path in place.state.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    assert oct(place.state.stat().st_mode & 0o777) == "0o700"


def test_the_comparison_needs_a_yes_and_is_not_written_to_disk(served: Served, table: str) -> None:
    run = started(served, table)
    assert served.until(run, "done", "failed") == "done"
    path = f"{run}/comparison"
    assert "NOT PRIVATE" in served.get(path).text
    assert served.post(path, {}).status == 303
    assert served.get(f"{path}/page").status == 404
    assert served.post(path, {"understood": "on"}).status == 303
    key, number = run.split("/")[2], int(run.split("/")[4])
    place = served.page.folder.table(key)
    live = served.page.runs.live(place, number, "compare")
    assert live is not None
    assert live.ended.wait(120)
    assert (live.process.returncode, live.failed) == (0, None)
    found = served.get(f"{path}/page?as=file")
    assert "NOT-PRIVATE" in found.headers["Content-Disposition"]
    assert "Real against synthetic" in found.text
    assert not [one for one in place.state.rglob("*") if one.is_file() and b"Real against" in one.read_bytes()]


def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let every process that the page starts wait after each noisy answer, so that there is time to interrupt it."""
    hook = "import time, lookalike.privacy.run as r\nkeep = r.Run.keep\n"
    hook += "def slow(self, *a):\n    keep(self, *a)\n    time.sleep(1.5)\nr.Run.keep = slow\n"
    (tmp_path / "sitecustomize.py").write_text(hook)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


def charged(served: Served, table: str, number: int) -> int:
    return len(book(served, table).runs()[number - 1].charges)


def until_charged(served: Served, table: str, number: int) -> None:
    end = time.monotonic() + 60
    while not charged(served, table, number) and time.monotonic() < end:
        time.sleep(0.1)


def test_a_cancelled_run_stays_charged_and_is_resumed(
    served: Served, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow(monkeypatch, tmp_path)
    run = started(served, table)
    number = int(run.split("/")[-1])
    until_charged(served, table, number)
    assert 'role="status"' in served.get(run).text
    assert served.post(f"{run}/cancel").status == 303
    assert served.until(run, "interrupted", "failed", "done") == "interrupted"
    before = book(served, table).spent()[0]
    assert book(served, table).runs()[number - 1].epsilon_counted == 1.0
    assert "Resume the run" in served.get(run).text
    monkeypatch.undo()
    assert served.post(f"{run}/resume").status == 303
    assert served.until(run, "done", "failed", "interrupted") == "done"
    assert book(served, table).spent()[0] == before


def test_two_runs_at_once_do_not_pass_the_cap(
    served: Served, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow(monkeypatch, tmp_path)
    spent = book(served, table).spent()[0]
    assert served.post(f"/ledger/{table.split('/')[2]}", {"cap": str(spent + 1.5)}).status == 303
    version = served.version(f"{table}/run")
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(served.post(f"{table}/run", {"version": version})))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [303, 409]  # one form starts one run
    (run,) = [answer.headers["Location"] for answer in answers if answer.status == 303]
    until_charged(served, table, int(run.split("/")[-1]))
    refused = served.post(f"{table}/run", {"version": served.version(f"{table}/run")})
    assert refused.status == 409
    assert "only 0.5 is left" in refused.text
    assert served.until(run, "done", "failed") == "done"
    assert book(served, table).spent()[0] == pytest.approx(spent + 1.0)
    assert served.post(f"/ledger/{table.split('/')[2]}", {"cap": "-1"}).status == 422
    assert served.post(f"/ledger/{table.split('/')[2]}", {"cap": "1000"}).status == 303


def gone(process: int) -> bool:
    """Whether a process ends within half a minute."""
    for _ in range(300):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_a_killed_server_leaves_a_run_that_is_resumed(
    served: Served, table: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow(monkeypatch, tmp_path)
    number = 1 + len(book(served, table).runs())
    place = served.page.folder.table(table.split("/")[2])
    code = "import sys, time, json\nfrom pathlib import Path\nfrom lookalike.web.runs import Runs\n"
    code += "from lookalike.web.tables import Folder\nfrom lookalike.web import drafts\n"
    code += "place = Folder(Path(sys.argv[1])).table(sys.argv[2])\ndraft = drafts.load(place)\n"
    code += "live = Runs().release(place, drafts.order_of(place, draft, drafts.sheet_of(place, draft)))\n"
    code += "print(live.process.pid, flush=True)\ntime.sleep(600)\n"
    folder = str(served.page.folder.root)
    server = subprocess.Popen([sys.executable, "-c", code, folder, place.key], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    worker = int(server.stdout.readline())
    until_charged(served, table, number)
    server.kill()
    server.wait()
    server.stdout.close()
    run = f"{table}/runs/{number}"
    assert served.until(run, "interrupted", seconds=30) == "interrupted"
    assert gone(worker)
    monkeypatch.undo()
    with serving(served.page.folder.root) as again:  # a new page finds draft and run
        assert drafts.load(again.page.folder.table(place.key)).budget.method == "mst"
        assert again.post(f"{run}/resume").status == 303
        assert again.until(run, "done", "failed") == "done"


def write_database(path: Path) -> None:
    rows = list(csv.reader(io.StringIO(people())))[1:]
    with closing(sqlite3.connect(path)) as base:
        base.execute("create table visits (age integer, sex text, town text, weight integer)")
        base.executemany("insert into visits values (?, ?, ?, ?)", rows)
        base.commit()


def test_a_table_of_a_database_is_chosen_by_its_address(served: Served) -> None:
    pytest.importorskip("sqlglot")
    write_database(served.page.folder.root / "clinic.db")
    write_database(served.page.folder.root.parent / "outside" / "clinic.db")
    for url in ("sqlite:///../outside/clinic.db", "sqlite:///nothing.db", "sqlite:////etc/passwd", "mysql://h/d",
                "postgresql://me:secret@127.0.0.1/d", "sqlite:///clinic.db%00", "clinic.db", ""):  # fmt: skip
        answer = served.post("/databases", {"url": url, "table": "visits"})
        assert answer.status == 422, url
    assert served.post("/databases", {"url": "sqlite:///clinic.db", "table": "nothing"}).status == 422
    answer = served.post("/databases", {"url": "sqlite:///clinic.db", "table": "visits"})
    assert answer.status == 303
    path = answer.headers["Location"]
    assert "visits (sqlite)" in served.get("/").text
    assert "4 columns" in served.get(path).text
    assert served.post(f"{path}/schema/import", {"action": "file", "file": "people.yaml"}).status == 303
    budget(served, path)
    run = started(served, path)
    assert served.until(run, "done", "failed", "interrupted") == "done"
    assert served.get(f"{run}/files/synthetic-visits.csv").text.startswith("age,sex,town,weight")
    assert "database_table(sys.argv[1], 'visits', ())" in served.get(f"{run}/files/repeat_run.py").text
    assert book(served, path).spent()[0] == 1.0


def test_the_command_serves_until_it_is_interrupted(served: Served) -> None:
    command = [sys.executable, "-m", "lookalike", "serve", str(served.page.folder.root), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert "http://127.0.0.1:" in lines[2]
    # Only a server that answers has set up what is to be closed.
    with urllib.request.urlopen(lines[2].strip(), timeout=60):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in out + err
    assert process.returncode in (0, 130)
