"""The comparison runner: grid, resuming, failures, summaries."""

from __future__ import annotations

import json
import math

import pytest

from lookalike.errors import InputError
from lookalike.evaluate.compare import Job, jobs_of, peak_mb, read_results, run_jobs, summary, table_rows


def plain_run(job: Job) -> dict[str, object]:
    if job.method == "broken":
        raise ValueError("no luck")
    return {"tvd": {"3": job.epsilon + job.repeat}, "score": 1}


def test_grid_takes_first_repeats_first():
    jobs = jobs_of(["t"], ["a", "b"], [1, 2], 2)
    assert len(jobs) == len(set(jobs)) == 8
    assert [job.repeat for job in jobs] == [0] * 4 + [1] * 4


def test_resumes_and_retries_failures(tmp_path):
    path, calls = tmp_path / "sub" / "r.jsonl", []

    def counted(job: Job) -> dict[str, object]:
        calls.append(job)
        return plain_run(job)

    jobs = jobs_of(["t"], ["a", "broken"], [1.0, 2.0])
    first = run_jobs(jobs[:2], counted, path, isolated=False)
    assert first[1]["error"] == "ValueError: no luck"
    assert first[0]["private"] is False
    with path.open("a") as file:
        file.write('{"table": "t", "meth')
    reported = []
    lines = run_jobs(jobs, counted, path, isolated=False, progress=lambda *args: reported.append(args[:2]))
    assert [(job.method, job.epsilon) for job in calls] == [
        ("a", 1.0), ("broken", 1.0), ("broken", 1.0), ("a", 2.0), ("broken", 2.0)
    ]  # fmt: skip
    assert len(lines) == 4
    assert len(read_results(path)) == 5
    assert reported[-1] == (4, 4)


def test_a_process_of_its_own_reports_its_own_memory(tmp_path):
    line = run_jobs([Job("t", "a", 1.0)], plain_run, tmp_path / "r.jsonl")[0]
    assert line["tvd"] == {"3": 1.0}
    assert line["peak_mb"] is None or 1 < line["peak_mb"] < 1000
    assert line["cpu_seconds"] < 5
    assert peak_mb() is None or peak_mb() > 1


def test_summary_and_table(tmp_path):
    jobs = jobs_of(["t"], ["a", "b"], [1.0], 2)
    lines = run_jobs(jobs, plain_run, tmp_path / "r.jsonl", isolated=False)
    lines[1]["tvd"]["3"] = 0.5
    assert summary(lines, "tvd.3")["t", "a", 1.0] == (1.5, pytest.approx(0.5), 2)
    assert summary(lines, "score")["t", "b", 1.0][:2] == (1.0, 0.0)
    assert summary(lines, "nothing") == {}
    assert math.isnan(summary(lines[:1], "tvd.3")["t", "a", 1.0][1])
    rows = table_rows(lines, "tvd.3")
    assert rows[0] == {"table": "t", "method": "a", "1": "1.5000 ±0.5000"}
    assert rows[1]["1"].startswith("1.2500*")


def test_refuses_nonsense(tmp_path):
    with pytest.raises(InputError, match="not positive"):
        Job("t", "a", 0)
    with pytest.raises(InputError, match=r"0\.8"):
        Job("t", "a", 1, train_share=2)
    path = tmp_path / "r.jsonl"
    path.write_text("no json\n" + json.dumps({"table": "t"}) + "\n")
    with pytest.raises(InputError, match="line 1"):
        read_results(path)
