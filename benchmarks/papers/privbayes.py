"""PrivBayes and PB-PGM, both ways, PriView and DP-Copula, on the papers' tables.

    python benchmarks/privbayes.py run [--methods 'priview;dp-copula'] [--tables nltcs,adult] [--epsilons 0.1,0.4]
    python benchmarks/privbayes.py document

`run` appends one JSON line per run to benchmarks/results/privbayes.jsonl and never repeats a run that is there;
`document` writes the tables of docs/reproductions/privbayes.md from them. 80 % of the rows are synthesised, delta is
1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the noisy
count says. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from pathlib import Path

from lookalike.evaluate.compare import Result, summary
from page import FAITHFUL, Page, costs, run_faithful

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "privbayes.jsonl"
DOCUMENT = HERE.parent / "docs" / "reproductions" / "privbayes.md"
TABLES = ("nltcs", "acs", "adult", "br2000")
EPSILONS = (0.1, 0.4, 1.0, 1.6, 3.2)
METHODS = ("privbayes" + FAITHFUL, "privbayes", "pb-pgm" + FAITHFUL, "pb-pgm", "priview", "dp-copula")


def distances(results: list[Result], table: str) -> list[str]:
    """3-way / 5-way distances, one row per method, one column per epsilon."""
    three, five = summary(results, "tvd.3"), summary(results, "tvd.5")
    epsilons = sorted({key[2] for key in three if key[0] == table})
    text = ["| method | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |", "|---|" + "---|" * len(epsilons)]
    for method in METHODS:
        keys = [(table, method, epsilon) for epsilon in epsilons]
        cells = [f"{three[key][0]:.4f} / {five[key][0]:.4f} ({three[key][2]})" if key in three else "" for key in keys]
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def parts(results: list[Result]) -> dict[str, list[str]]:
    """The generated parts of the page."""
    listed = [line for table in TABLES for line in (f"### {table}", "", *distances(results, table), "")]
    return {"distances": listed, "costs": costs(results, TABLES, METHODS)}


if __name__ == "__main__":
    Page(TABLES, METHODS, EPSILONS, 3, RESULTS, DOCUMENT, run_faithful, parts).main(__doc__)
