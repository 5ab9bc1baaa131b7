"""Write the CSV files of the tables, out of the packages that ship them.

python -m benchmarks.real_tables build [--tables actg weather]
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import parser_of
from benchmarks.real_tables.tables import FOLDER, TABLES, write


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    for name in parser.parse_args(arguments).tables:
        write(name)
        print(FOLDER / f"{name}.csv")
