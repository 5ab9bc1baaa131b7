"""The experiments of PrivMRF (Cai, Lei, Wei and Xiao 2021), sections 5.1 and 5.2, on their four tables.

    python benchmarks/privmrf.py run [--parts targets,parameters,compare] [--tables nltcs,adult] [--epsilons 0.1,0.8]
    python benchmarks/privmrf.py document

`run` appends one JSON line per run to benchmarks/results/privmrf.jsonl and never repeats a run that is there;
`document` writes docs/reproductions/privmrf.md and its plots from them. 80 % of the rows are synthesised, delta is
1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the noisy
count says. Noise is from the operating system, so repeats differ. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import accuracy
import privmrf_wide
from lookalike.evaluate.compare import Job, Result, jobs_of, judge_method, read_results, run_jobs, summary
from lookalike.report.comparison import comparison_chart
from lookalike.synthesizers import METHODS
from tables import replace_parts

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "privmrf.jsonl"
DOCUMENT = HERE.parent / "docs" / "reproductions" / "privmrf.md"
TABLES = ("nltcs", "br2000", "adult", "acs")
EPSILONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
FAITHFUL = "privmrf, faithful"
RIVALS = ("independent", "mst", "bsg", "privsyn", "privbayes", "pb-pgm", "aim")
COLUMNS_OF_NLTCS = 16

TARGETS = {
    ("nltcs", 0.1): (0.0283, 0.0617),
    ("nltcs", 1.0): (0.0055, 0.0129),
    ("nltcs", 3.2): (0.0032, 0.0077),
    ("adult", 0.1): (0.123, None),
    ("adult", 1.0): (0.0495, 0.134),
    ("adult", 3.2): (0.0362, 0.1142),
    ("br2000", 1.0): (0.0309, 0.0944),
    ("acs", 1.0): (0.0036, 0.0080),
}
"""What the authors' program reaches on this machine (3-way, 5-way)."""

STUDY: dict[str, dict[str, dict[str, Any]]] = {
    "theta": {f"theta {value}": {"theta": float(value)} for value in (2, 6, 12)},
    "t": {f"t {share:g}d": {"batches": int(share * COLUMNS_OF_NLTCS)} for share in (0.4, 0.8, 1.2)},
    "k": {f"k {value}": {"candidates": value} for value in (100, 400, 1600)},
}
SETTINGS: dict[str, dict[str, Any]] = {FAITHFUL: {"faithful": True}}
for _choices in STUDY.values():
    SETTINGS |= {name: {"faithful": True, **settings} for name, settings in _choices.items()}


def synthesize(rows: Any, *, method: str, **arguments: Any) -> Any:
    """A release by a method, or by privmrf with the settings that the name stands for."""
    if method in SETTINGS:
        return accuracy.synthesize(rows, method="privmrf", **SETTINGS[method], **arguments)
    return accuracy.synthesize(rows, method=method, **arguments)


def run_one(job: Job) -> dict[str, object]:
    """Numbers of one run; called in a process of its own."""
    rows, schema = accuracy.table_of(job.table)
    return judge_method(job, table=rows, schema=schema, synthesize=synthesize)


def jobs(parts: Iterable[str], tables: Iterable[str], epsilons: Iterable[float], repeats: int) -> list[Job]:
    """Runs of the named parts: the figures to reach, the parameter study on nltcs, the comparison of methods."""
    listed: list[Job] = []
    if "targets" in parts:
        listed += [
            Job(table, "privmrf", epsilon, repeat=repeat, train_share=0.8)
            for repeat in range(3)
            for table, epsilon in TARGETS
            if table in tables
        ]
    if "parameters" in parts:
        names = [name for choices in STUDY.values() for name in choices]
        listed += jobs_of(["nltcs"], names, epsilons, repeats, train_share=0.8)
    if "compare" in parts:
        methods = ["privmrf", FAITHFUL, *(name for name in RIVALS if name in METHODS)]
        listed += jobs_of(tables, methods, epsilons, repeats, train_share=0.8)
    return listed


# The document.


def target_rows(results: list[Result], method: str) -> list[str]:
    three, five, cpu, memory = (
        summary(results, measure) for measure in ("tvd.3", "tvd.5", "cpu_seconds", "peak_mb")
    )  # fmt: skip
    text = ["| table | epsilon | 3-way | to reach | 5-way | to reach | CPU s | MB | runs |", "|---|" + "---|" * 8]
    for (table, epsilon), (goal3, goal5) in TARGETS.items():
        key = (table, method, epsilon)
        if key in three:
            cells = [f"{three[key][0]:.4f}", f"{goal3}", f"{five[key][0]:.4f}", f"{goal5 or ''}"]
            cells += [f"{cpu[key][0]:.1f}", f"{memory[key][0]:.0f}", str(three[key][2])]
            text.append(f"| {table} | {epsilon:g} | " + " | ".join(cells) + " |")
    return text


def comparison_rows(results: list[Result], table: str, measure: str) -> list[str]:
    """One row per method, one column per epsilon."""
    cells = {key: value for key, value in summary(results, measure).items() if key[0] == table}
    epsilons = sorted({key[2] for key in cells if key[2] in EPSILONS})
    methods = [name for name in ("privmrf", FAITHFUL, *RIVALS) if any(key[1] == name for key in cells)]
    text = ["| method | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    for method in methods:
        means = [cells.get((table, method, epsilon)) for epsilon in epsilons]
        text.append(f"| {method} | " + " | ".join(f"{mean[0]:.4f}" if mean else "" for mean in means) + " |")
    return text


def study_rows(results: list[Result], names: Iterable[str]) -> list[str]:
    cells = summary(results, "tvd.5")
    epsilons = sorted({key[2] for key in cells if key[1] in set(names)})
    text = [
        "| setting | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |",
        "|---|" + "---|" * len(epsilons),
    ]
    for name in names:
        means = [cells.get(("nltcs", name, epsilon)) for epsilon in epsilons]
        text.append(f"| {name} | " + " | ".join(f"{m[0]:.4f} ({m[2]})" if m else "" for m in means) + " |")
    return text


def document(results: list[Result]) -> None:
    """Replaces the generated parts of the document, each between its markers, and the plots."""
    parts = {
        "targets": "\n".join(target_rows(results, "privmrf")),
        "faithful": "\n".join(target_rows(results, FAITHFUL)),
        "hierarchies": "\n".join(privmrf_wide.wide_rows(read_results(privmrf_wide.RESULTS))),
    }
    compared = [line for line in results if line["method"] in ("privmrf", FAITHFUL, *RIVALS)]
    compared = [line for line in compared if line["epsilon"] in EPSILONS]
    text = []
    for table in TABLES:
        if not any(line["table"] == table for line in compared):
            continue
        for alpha in (3, 4, 5):
            plot = DOCUMENT.parent / f"privmrf-{table}-{alpha}way.svg"
            plot.write_text(comparison_chart(compared, f"tvd.{alpha}", table), encoding="utf-8")
        images = " ".join(f"![{table}, {a}-way](privmrf-{table}-{a}way.svg)" for a in (3, 4, 5))
        text += [f"### {table}", "", images, ""]
        for alpha in (3, 4, 5):
            text += [f"{alpha}-way:", "", *comparison_rows(compared, table, f"tvd.{alpha}"), ""]
    parts["comparison"] = "\n".join(text)
    text = []
    for parameter, names in STUDY.items():
        own = [line for line in results if line["method"] in names]
        if own:
            plot = DOCUMENT.parent / f"privmrf-{parameter}.svg"
            plot.write_text(comparison_chart(own, "tvd.5", "nltcs"), encoding="utf-8")
            text += [f"![{parameter}](privmrf-{parameter}.svg)", "", *study_rows(own, list(names)), ""]
    parts["parameters"] = "\n".join(text)
    replace_parts(DOCUMENT, parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "document"))
    parser.add_argument("--parts", default="targets,parameters,compare")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default=",".join(f"{epsilon:g}" for epsilon in EPSILONS))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args()
    if given.action == "run":
        epsilons = [float(epsilon) for epsilon in given.epsilons.split(",")]
        listed = jobs(given.parts.split(","), given.tables.split(","), epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=accuracy.show_progress, isolated=not given.together)
    else:
        document(read_results(RESULTS))
        print(DOCUMENT)


if __name__ == "__main__":
    main()
