"""All methods on tables that had no part in choosing any setting: a confirmation, not a search.

    python benchmarks/held_out.py build
    python benchmarks/held_out.py run [--methods mst,aim] [--tables crashes,flights] [--epsilons 1,0.1] [--repeats 3]
    python benchmarks/held_out.py document

`build` writes the tables of held_out_tables.py; `run` appends one JSON line per run to
benchmarks/results/held_out.jsonl and never repeats a run that is there; `document` writes the generated parts of
docs/held_out.md from them. 80 % of the rows are synthesised, delta is 1e-5, distances are means over 300 random
marginals between those rows and as many synthetic rows as the noisy count says. A run is given up after three minutes
of processor time; that is a result, too. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import argparse
import math
import resource
import signal
from pathlib import Path
from types import FrameType
from typing import NoReturn

import accuracy
from held_out_tables import TABLES, build, table_of
from lookalike.evaluate.compare import Job, Result, jobs_of, judge_method, read_results, run_jobs, summary
from tables import replace_parts

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "held_out.jsonl"
DOCUMENT = HERE.parent / "docs" / "held_out.md"
EPSILONS = (0.1, 1.0, 3.2)
METHODS = ("independent", "mst", "aim", "privmrf", "privsyn", "ppsyn", "mosaic", "resample")
JUDGED = "mosaic"
MOST_CPU_SECONDS = 180

Key = tuple[str, str, float]
Cells = dict[Key, tuple[float, float, int]]


class TooLongError(Exception):
    """A run used up its processor time."""


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run, or that it took too long; called in a process of its own."""
    rows, schema = table_of(job.table)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    signal.signal(signal.SIGXCPU, give_up)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, hard))
    try:
        numbers = judge_method(job, table=rows, schema=schema, synthesize=accuracy.synthesize)
    except TooLongError:
        return {"over_cpu_seconds": MOST_CPU_SECONDS}
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    if math.isinf(float(str(numbers["epsilon_spent"]))):
        numbers["epsilon_spent"] = None
    return numbers


def give_up(number: int, frame: FrameType | None) -> NoReturn:
    """Handles the signal that a process has used its processor time."""
    raise TooLongError


def to_run(jobs: list[Job], results: list[Result]) -> list[Job]:
    """Without the repeats of what took too long once."""
    long = {(line["table"], line["method"], line["epsilon"]) for line in results if "over_cpu_seconds" in line}
    return [job for job in jobs if (job.table, job.method, job.epsilon) not in long]


def show_progress(done: int, total: int, job: Job, line: Result | None) -> None:
    if line is None or "over_cpu_seconds" not in line:
        accuracy.show_progress(done, total, job, line)
    else:
        print(
            f"[{done}/{total}] {job.table} {job.method} eps {job.epsilon:g}: over {MOST_CPU_SECONDS} CPU s", flush=True
        )


def methods_in(results: list[Result]) -> list[str]:
    return [method for method in METHODS if any(line["method"] == method for line in results)]


def distances(results: list[Result], table: str) -> list[str]:
    """3-way and 5-way distances with standard errors, one row per method, one column per epsilon."""
    three, five = summary(results, "tvd.3"), summary(results, "tvd.5")
    long = {(line["table"], line["method"], line["epsilon"]) for line in results if "over_cpu_seconds" in line}
    text = ["| method | " + " | ".join(f"epsilon {e:g}" for e in EPSILONS) + " |", "|---|" + "---|" * len(EPSILONS)]
    for method in methods_in(results):
        cells = []
        for key in ((table, method, epsilon) for epsilon in EPSILONS):
            if key in three:
                cells.append(f"{_with_error(three[key])} / {_with_error(five[key])} ({three[key][2]})")
            else:
                cells.append(f"over {MOST_CPU_SECONDS} s" if key in long else "")
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def _with_error(cell: tuple[float, float, int]) -> str:
    mean, error, runs = cell
    return f"{mean:.4f}" + (f" ±{error:.4f}" if runs > 1 else "")


def costs(results: list[Result]) -> list[str]:
    """Mean processor seconds and most memory at epsilon 1, one row per method, one column per table."""
    results = [line for line in results if line["epsilon"] == 1]
    seconds = summary([line for line in results if "tvd" in line], "cpu_seconds")
    text = ["| method | " + " | ".join(TABLES) + " |", "|---|" + "---|" * len(TABLES)]
    for method in methods_in(results):
        cells = []
        for table in TABLES:
            own = [line for line in results if line["table"] == table and line["method"] == method]
            memory = max((float(str(line["peak_mb"])) for line in own), default=0.0)
            key = (table, method, 1.0)
            taken = f"{seconds[key][0]:.1f}" if key in seconds else f"over {MOST_CPU_SECONDS}"
            cells.append(f"{taken} s, {memory:.0f} MB" if own else "")
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def verdict(results: list[Result]) -> list[str]:
    """The judged method against the best other one, per table and epsilon: ratio of distances, and their difference.

    A difference counts as clear where it is more than two standard errors of the difference of the two means.
    """
    three, five = ({k: v for k, v in summary(results, f"tvd.{n}").items() if k[1] != "resample"} for n in (3, 5))
    if not any(method == JUDGED for _, method, _ in three):
        return [f"`{JUDGED}` has not been run on these tables yet."]
    heading = " | ".join(f"{order}-way: {JUDGED} | best other | ratio" for order in (3, 5))
    text = [f"| table | epsilon | {heading} |", "|" + "---|" * 8]
    for table in TABLES:
        for epsilon in EPSILONS:
            cells = [_against(cells, table, epsilon) for cells in (three, five)]
            if all(cells):
                text.append(f"| {table} | {epsilon:g} | " + " | ".join(filter(None, cells)) + " |")
    return text


def _against(cells: Cells, table: str, epsilon: float) -> str | None:
    others = {key: cell for key, cell in cells.items() if (key[0], key[2]) == (table, epsilon) and key[1] != JUDGED}
    own = cells.get((table, JUDGED, epsilon))
    if own is None or not others:
        return None
    best = min(others, key=lambda key: others[key][0])
    mean, error, _ = others[best]
    doubt = 2 * math.hypot(own[1], error)
    clear = "" if abs(own[0] - mean) > doubt else " (not clear)"
    return f"{own[0]:.4f} | {best[1]} {mean:.4f} | {own[0] / mean:.2f}{clear}"


def document(results: list[Result]) -> None:
    """Replaces the generated parts of the page, each between its markers."""
    shown = [line for table in TABLES for line in (f"### {table}", "", *distances(results, table), "")]
    parts = {"verdict": verdict(results), "distances": shown, "costs": costs(results)}
    replace_parts(DOCUMENT, {name: "\n".join(lines) for name, lines in parts.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("build", "run", "document"))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in EPSILONS))
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    tables = given.tables.split(",")
    if given.action == "document":
        document([line for line in read_results(RESULTS) if "error" not in line])
        print(DOCUMENT)
        return
    for table in tables:
        build(table)
    if given.action == "run":
        epsilons = [float(epsilon) for epsilon in given.epsilons.split(",")]
        for repeat in range(1, given.repeats + 1):
            listed = jobs_of(tables, given.methods.split(","), epsilons, repeat, train_share=0.8)
            run_jobs(to_run(listed, read_results(RESULTS)), run_one, RESULTS, progress=show_progress)


if __name__ == "__main__":
    main()
