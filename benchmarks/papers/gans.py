"""DP-WGAN and PATE-GAN beside independent columns and columns of equal shares, on two of the papers' tables.

    python -m benchmarks.papers gans run [--methods dp-wgan pate-gan] [--tables nltcs adult] [--epsilons 1 3.2]
    python -m benchmarks.papers gans document

`run` appends one JSON line per run to benchmarks/results/gans.jsonl and never repeats a run that is there; `document`
writes the tables of docs/reproductions/gans.md from them. 80 % of the rows are synthesised, delta is 1e-5, distances
are means over 300 random marginals, between the training rows and as many synthetic rows as the noisy count says.
`uniform` draws every value of every column alike and looks at nothing but the schema and the number of rows. NOT
PRIVATE: the numbers compare with real rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import REPRODUCTIONS, Line
from benchmarks.runs import Key, Page, costs, method_rows
from lookalike.evaluate.compare import summary

TABLES = ("nltcs", "adult")
EPSILONS = (1.0, 3.2)
REPEATS = 3
METHODS = ("dp-wgan", "pate-gan", "independent", "uniform")


def distances(results: list[Line]) -> list[str]:
    """1-way / 2-way / 3-way / 5-way distances, one row per method, one column per table and epsilon."""
    ways = [summary(results, f"tvd.{k}") for k in (1, 2, 3, 5)]

    def cell(key: Key) -> str:
        return " / ".join(f"{way[key][0]:.4f}" for way in ways if key in way)

    columns = {f"{table}, {epsilon:g}": (table, epsilon) for table in TABLES for epsilon in EPSILONS}
    return method_rows(METHODS, columns, cell)


def parts(results: list[Line]) -> dict[str, list[str]]:
    """The generated parts of the page."""
    return {"distances": distances(results), "costs": costs(results, TABLES, METHODS[:3])}


def main(arguments: Sequence[str]) -> None:
    page = Page(TABLES, METHODS, EPSILONS, REPEATS, "gans", REPRODUCTIONS / "gans.md", parts)
    page.main(__name__, __doc__, arguments)
