"""The experiments of PrivMRF (Cai, Lei, Wei and Xiao 2021), sections 5.1 and 5.2, on their four tables.

    python -m benchmarks.papers privmrf run [--parts targets compare useful] [--tables nltcs] [--epsilons 0.1 0.8]
    python -m benchmarks.papers privmrf document

`run` appends one JSON line per run to benchmarks/results/privmrf.jsonl and never repeats a run that is there;
`document` writes docs/reproductions/privmrf.md and its plots from them. 80 % of the rows are synthesised, delta is
1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the noisy
count says. Noise is from the operating system, so repeats differ. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from benchmarks import runs
from benchmarks.common import REPRODUCTIONS, Line, add_grid, markdown, parser_of, replace_parts, results_of, stored
from benchmarks.papers import privmrf_wide
from benchmarks.runs import Key, method_rows, results_in, spread
from lookalike.evaluate.compare import Job, Result, jobs_of, run_jobs, summary
from lookalike.evaluate.report import comparison_chart
from lookalike.privacy.kernel.accounting import Budget, stddev_for
from lookalike.selection.pricing import useful_cells

RESULTS, PAIRS = results_of("privmrf"), results_of("privmrf_pairs")
DOCUMENT = REPRODUCTIONS / "privmrf.md"
TABLES = ("nltcs", "br2000", "adult", "acs")
EPSILONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
PAPER = "privmrf-paper"
RIVALS = ("independent", "mst", "bsg", "privsyn", "privbayes", "pb-pgm", "aim")
PAPERS_RIVALS = ("pb-pgm-paper", "privbayes-paper", "bsg-paper", "dp-copula", "dp-wgan")
"""The other methods of Figure 4, as their papers have them."""
SHOWN = ("privmrf", PAPER, *PAPERS_RIVALS, *RIVALS)
DRAWN = ("privmrf", PAPER, *PAPERS_RIVALS, "mst")
"""The methods of the plots, which have eight colours."""
PARTS = ("targets", "parameters", "compare", "useful")
SAME_RUNS = ("privmrf_svm", "privbayes", "gans", "ppsyn")
"""Results of other pages whose runs count here, too."""
REPEATS, COLUMNS_OF_NLTCS = 5, 16

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
    "t": {f"t {share:g}d": {"rounds": int(share * COLUMNS_OF_NLTCS)} for share in (0.4, 0.8, 1.2)},
    "k": {f"k {value}": {"candidates": value} for value in (100, 400, 1600)},
}
SETTINGS = {name: settings for choices in STUDY.values() for name, settings in choices.items()}
SETTINGS["theta 1"] = {"theta": 1.0}
SMALL_THETAS, SMALL_TABLES, SMALL_EPSILONS = ("theta 6", "theta 2", "theta 1"), ("adult", "br2000"), (0.1, 0.2, 0.4)
"""What usefulness leaves out where columns have many values and budgets are small."""


def synthesize(rows: Any, *, method: str, **arguments: Any) -> Any:
    """A release by a method, or by the paper's variant with the settings that the name stands for."""
    if method in SETTINGS:
        return runs.synthesize(rows, method=PAPER, **SETTINGS[method], **arguments)
    return runs.synthesize(rows, method=method, **arguments)


def run_one(job: Job) -> Result:
    """Numbers of one run; called in a process of its own."""
    return runs.run_on(*runs.table_of(job.table), job, synthesize)


def jobs(parts: Iterable[str], tables: Iterable[str], epsilons: Iterable[float], repeats: int) -> list[Job]:
    """Runs of the named parts: the figures to reach, the parameter study on nltcs, the comparison of methods."""
    listed: list[Job] = []
    if "targets" in parts:
        listed += [
            Job(table, "privmrf", epsilon, repeat=repeat, train_share=0.8)
            for repeat in range(repeats)
            for table, epsilon in TARGETS
            if table in tables
        ]
    if "parameters" in parts:
        names = [name for choices in STUDY.values() for name in choices]
        listed += jobs_of(["nltcs"], names, epsilons, repeats, train_share=0.8)
    if "useful" in parts:
        chosen = [name for name in SMALL_TABLES if name in tables]
        small = [epsilon for epsilon in epsilons if epsilon in SMALL_EPSILONS]
        listed += jobs_of(chosen, [*SMALL_THETAS, "mst"], small, repeats, train_share=0.8)
    if "compare" in parts:
        listed += jobs_of(tables, SHOWN, epsilons, repeats, train_share=0.8)
    return list(dict.fromkeys(listed))


def compared_runs() -> list[Line]:
    """The stored runs of this comparison, and those of other pages with the same tables, splits and measures."""
    own = results_in(RESULTS)
    others = [line for name in SAME_RUNS for line in results_in(results_of(name))]
    return own + [line for line in others if line["method"] in SHOWN and line["table"] in TABLES]


# The document.


def target_rows(results: list[Line], method: str) -> list[str]:
    """Distances of a method beside those to reach, one row per table and epsilon."""
    three, five, cpu, memory = (summary(results, name) for name in ("tvd.3", "tvd.5", "cpu_seconds", "peak_mb"))
    heads = ["table", "epsilon", "3-way", "to reach", "5-way", "to reach", "CPU s", "MB", "runs"]
    rows = []
    for (table, epsilon), (goal3, goal5) in TARGETS.items():
        key = (table, method, epsilon)
        if key in three:
            cells = [f"{three[key][0]:.4f}", f"{goal3}", f"{five[key][0]:.4f}", f"{goal5 or ''}"]
            cells += [f"{cpu[key][0]:.1f}", f"{memory[key][0]:.0f}", str(three[key][2])]
            rows.append([table, f"{epsilon:g}", *cells])
    return markdown(heads, rows)


def comparison_rows(results: list[Line], table: str, measure: str) -> list[str]:
    """Mean distances, standard errors and numbers of runs, one row per method, one column per epsilon."""
    cells = {key: value for key, value in summary(results, measure).items() if key[0] == table}
    epsilons = sorted({key[2] for key in cells if key[2] in EPSILONS})
    methods = [name for name in SHOWN if any(key[1] == name for key in cells)]
    columns = {f"{epsilon:g}": (table, epsilon) for epsilon in epsilons}
    return method_rows(methods, columns, lambda key: spread(cells.get(key)))


def study_rows(results: list[Line], names: Iterable[str]) -> list[str]:
    """5-way distances on nltcs, standard errors, numbers of runs, one row per setting, one column per epsilon."""
    cells = summary(results, "tvd.5")
    epsilons = sorted({key[2] for key in cells if key[1] in set(names)})
    columns = {f"{epsilon:g}": ("nltcs", epsilon) for epsilon in epsilons}
    return method_rows(names, columns, lambda key: spread(cells.get(key)), "setting")


def plot(name: str, results: list[Line], measure: str, table: str) -> str:
    """Write the plot of a comparison beside the document; its file name."""
    (DOCUMENT.parent / name).write_text(comparison_chart(results, measure, table), encoding="utf-8")
    return name


def comparison_part(results: list[Line]) -> list[str]:
    """Plots and tables of the comparison of methods, table by table."""
    compared = [line for line in results if line["method"] in SHOWN]
    compared = [line for line in compared if line["epsilon"] in EPSILONS]
    text = []
    for table in [name for name in TABLES if any(line["table"] == name for line in compared)]:
        drawn = [line for method in DRAWN for line in compared if line["method"] == method]
        plots = {k: plot(f"privmrf-{table}-{k}way.svg", drawn, f"tvd.{k}", table) for k in (3, 4, 5)}
        text += [f"### {table}", "", " ".join(f"![{table}, {k}-way]({name})" for k, name in plots.items()), ""]
        for k in plots:
            text += [f"{k}-way:", "", *comparison_rows(compared, table, f"tvd.{k}"), ""]
    return text


def study_part(results: list[Line]) -> list[str]:
    """Plots and tables of the parameter study."""
    text = []
    for parameter, names in STUDY.items():
        own = [line for line in results if line["method"] in names]
        if own:
            name = plot(f"privmrf-{parameter}.svg", own, "tvd.5", "nltcs")
            text += [f"![{parameter}]({name})", "", *study_rows(own, list(names)), ""]
    return text


def useful_part(results: list[Line]) -> list[str]:
    """Distances of the paper's variant for several thetas beside MST, and the pairs that theta 6 leaves."""
    ways = [summary(results, f"tvd.{k}") for k in (1, 3, 5)]
    columns = {f"{table}, {e:g}": (table, e) for table in SMALL_TABLES for e in SMALL_EPSILONS}

    def cell(key: Key) -> str:
        return " / ".join(f"{way[key][0]:.4f}" for way in ways) + f" ({ways[0][key][2]})" if key in ways[0] else ""

    rows = method_rows((*SMALL_THETAS, "mst"), columns, cell, "setting")
    counted = {(line["table"], line["epsilon"]): line["pairs"] for line in stored(PAIRS)}
    shares = [counted[key] for key in columns.values()]
    return [*rows, "| pairs that are 6-useful | " + " | ".join(shares) + " |"]


def time_part(results: list[Line]) -> list[str]:
    """Figure 6: processor seconds of the paper's variant and of ours by budget, on all tables."""
    own = [line for line in results if line["method"] in (PAPER, "privmrf") and line["epsilon"] in EPSILONS]
    cells, rows = summary(own, "cpu_seconds"), []
    for method in (PAPER, "privmrf"):
        for table in TABLES:
            shown = [spread(cells.get((table, method, epsilon)), digits=1) for epsilon in EPSILONS]
            rows.append([f"{method}, {table}", *shown])
    drawn = [line for line in own if line["method"] == PAPER]
    name = "privmrf-seconds.svg"
    (DOCUMENT.parent / name).write_text(comparison_chart(drawn, "cpu_seconds"), encoding="utf-8")
    return [f"![Figure 6]({name})", "", *markdown(["", *(f"{epsilon:g}" for epsilon in EPSILONS)], rows)]


def store_pairs() -> None:
    """Store how many pairs are useful, by table and budget."""
    grid = [(table, epsilon) for table in SMALL_TABLES for epsilon in SMALL_EPSILONS]
    lines = [{"table": table, "epsilon": epsilon, "pairs": useful_pairs(table, epsilon)} for table, epsilon in grid]
    PAIRS.write_text("".join(json.dumps(line) + "\n" for line in lines))


def useful_pairs(table: str, epsilon: float) -> str:
    """How many pairs of columns have few enough cells for theta 6; from public sizes and the number of rows."""
    rows, schema = runs.table_of(table)
    columns = len(schema.domain)
    rho = float(Budget(epsilon, 1e-5, "gdp").rho) * 0.79  # what pair scores, choices and the count leave
    stddev = stddev_for(rho, releases=columns + int(0.8 * columns))
    limit = useful_cells(0.8 * rows.num_rows, stddev, 6.0)
    cells = [schema.domain.cells(pair) for pair in combinations(schema.domain.names, 2)]
    return f"{sum(count <= limit for count in cells)} of {len(cells)}"


def document(results: list[Line]) -> None:
    """Replace the generated parts of the document, and the plots."""
    parts = {
        "targets": target_rows(results, "privmrf"),
        "paper": target_rows(results, PAPER),
        "hierarchies": privmrf_wide.wide_rows(results_in(privmrf_wide.RESULTS)),
        "comparison": comparison_part(results),
        "parameters": study_part(results),
        "useful": useful_part(results),
        "seconds": time_part(results),
    }
    replace_parts(DOCUMENT, parts)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--parts", nargs="+", default=list(PARTS))
    add_grid(parser, tables=TABLES, epsilons=EPSILONS, repeats=REPEATS)
    parser.add_argument("--together", action="store_true", help="one process: quicker, but peak memory is that of all")
    given = parser.parse_args(arguments)
    if given.action == "run":
        listed = jobs(given.parts, given.tables, given.epsilons, given.repeats)
        run_jobs(listed, run_one, RESULTS, progress=runs.show_progress, isolated=not given.together)
        if "useful" in given.parts:
            store_pairs()
    else:
        document(compared_runs())
