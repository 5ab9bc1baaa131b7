"""Write all pages of docs/reproductions from stored results, the table of the papers' claims among them.

python -m benchmarks.papers document
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common import parser_of
from benchmarks.papers import (
    bsg,
    claims,
    extremes,
    gans,
    ppsyn,
    ppsyn_folds,
    privbayes,
    privmrf,
    privmrf_svm,
    privsyn,
    queries,
    svm_folds,
)

PAGES = (bsg, extremes, gans, ppsyn, ppsyn_folds, privbayes, privmrf, privmrf_svm, svm_folds, privsyn, queries, claims)


def main(arguments: Sequence[str]) -> None:
    parser_of(__name__, __doc__).parse_args(arguments)
    for page in PAGES:
        page.main(["document"])
