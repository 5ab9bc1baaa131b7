"""RAP, FEM and DualQuery, our variants and the papers', beside independent columns and MWEM+PGM, on the papers' tables.

    python -m benchmarks.papers queries run [--methods rap fem-paper] [--tables nltcs adult] [--epsilons 0.1 1]
    python -m benchmarks.papers queries document

`run` appends one JSON line per run to benchmarks/results/queries.jsonl and never repeats a run that is there;
`document` writes the tables of docs/reproductions/query_methods.md from them. 80 % of the rows are synthesised, delta
is 1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the
noisy count says. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import REPRODUCTIONS, Line
from benchmarks.runs import Page, costs, method_rows, three_and_five

TABLES = ("nltcs", "adult", "br2000")
EPSILONS = (0.1, 1.0)
REPEATS = 3
OWN = ("rap", "fem", "dualquery")
METHODS = ("independent", "mwem-pgm", *OWN, *(f"{name}-paper" for name in OWN))


def parts(results: list[Line]) -> dict[str, list[str]]:
    """The generated parts of the page: distances and costs, one row per method."""
    columns = {f"{table}, {epsilon:g}": (table, epsilon) for table in TABLES for epsilon in EPSILONS}
    return {
        "distances": method_rows(METHODS, columns, three_and_five(results)),
        "costs": costs(results, TABLES, METHODS),
    }


def main(arguments: Sequence[str]) -> None:
    page = Page(TABLES, METHODS, EPSILONS, REPEATS, "queries", REPRODUCTIONS / "query_methods.md", parts)
    page.main(__name__, __doc__, arguments)
