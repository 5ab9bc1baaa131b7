"""PrivBayes and PB-PGM, our variants and the paper's, PriView and DP-Copula, on the papers' tables.

    python -m benchmarks.papers privbayes run [--methods priview dp-copula] [--tables nltcs adult] [--epsilons 0.1 0.4]
    python -m benchmarks.papers privbayes document

`run` appends one JSON line per run to benchmarks/results/privbayes.jsonl and never repeats a run that is there;
`document` writes the tables of docs/reproductions/privbayes.md from them. 80 % of the rows are synthesised, delta is
1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the noisy
count says. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import REPRODUCTIONS, Line
from benchmarks.runs import Page, costs, method_rows, three_and_five
from lookalike.evaluate.compare import summary

TABLES = ("nltcs", "acs", "adult", "br2000")
EPSILONS = (0.1, 0.4, 1.0, 1.6, 3.2)
REPEATS = 3
METHODS = ("privbayes-paper", "privbayes", "pb-pgm-paper", "pb-pgm", "priview", "dp-copula")


def distances(results: list[Line], table: str) -> list[str]:
    """3-way / 5-way distances, one row per method, one column per epsilon."""
    epsilons = sorted({key[2] for key in summary(results, "tvd.3") if key[0] == table})
    return method_rows(METHODS, {f"{epsilon:g}": (table, epsilon) for epsilon in epsilons}, three_and_five(results))


def parts(results: list[Line]) -> dict[str, list[str]]:
    """The generated parts of the page."""
    listed = [line for table in TABLES for line in (f"### {table}", "", *distances(results, table), "")]
    return {"distances": listed, "costs": costs(results, TABLES, METHODS)}


def main(arguments: Sequence[str]) -> None:
    page = Page(TABLES, METHODS, EPSILONS, REPEATS, "privbayes", REPRODUCTIONS / "privbayes.md", parts)
    page.main(__name__, __doc__, arguments)
