"""RAP, FEM and DualQuery, both ways, beside independent columns and MWEM+PGM, on the papers' tables.

    python benchmarks/queries.py run [--methods 'rap;fem, faithful'] [--tables nltcs,adult] [--epsilons 0.1,1]
    python benchmarks/queries.py document

`run` appends one JSON line per run to benchmarks/results/queries.jsonl and never repeats a run that is there;
`document` writes the tables of docs/reproductions/query_methods.md from them. 80 % of the rows are synthesised, delta
is 1e-5, distances are means over 300 random marginals, between the training rows and as many synthetic rows as the
noisy count says. NOT PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from pathlib import Path

from lookalike.evaluate.compare import Result, summary
from page import FAITHFUL, Page, costs, run_faithful

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "queries.jsonl"
DOCUMENT = HERE.parent / "docs" / "reproductions" / "query_methods.md"
TABLES = ("nltcs", "adult", "br2000")
EPSILONS = (0.1, 1.0)
OWN = ("rap", "fem", "dualquery")
METHODS = ("independent", "mwem-pgm", *OWN, *(name + FAITHFUL for name in OWN))


def distances(results: list[Result]) -> list[str]:
    """3-way / 5-way distances, one row per method, one column per table and epsilon."""
    three, five = summary(results, "tvd.3"), summary(results, "tvd.5")
    columns = [(table, epsilon) for table in TABLES for epsilon in EPSILONS]
    text = ["| method | " + " | ".join(f"{table}, {epsilon:g}" for table, epsilon in columns) + " |"]
    text.append("|---|" + "---|" * len(columns))
    for method in METHODS:
        keys = [(table, method, epsilon) for table, epsilon in columns]
        cells = [f"{three[key][0]:.4f} / {five[key][0]:.4f} ({three[key][2]})" if key in three else "" for key in keys]
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return text


def parts(results: list[Result]) -> dict[str, list[str]]:
    """The generated parts of the page."""
    return {"distances": distances(results), "costs": costs(results, TABLES, METHODS)}


if __name__ == "__main__":
    Page(TABLES, METHODS, EPSILONS, 1, RESULTS, DOCUMENT, run_faithful, parts).main(__doc__)
