"""DP-Copula: noisy margins and noisy correlations of ranks (Li, Xiong and Jiang 2014), corrected."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from lookalike.models.copula import GaussianCopula, Grades, nearest_correlation, normal_correlation
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import GradeProducts
from lookalike.schema.domain import Domain
from lookalike.selection.steps import fit_columns, singles
from lookalike.synthesizers.base import Method, Progress, check_shares, method, tuned
from lookalike.synthesizers.split import ONEWAYS, Split, Step

PRODUCTS = "products of ranks"

_BATCH_CELLS = 50_000_000
"""Maximum number of cells of the pairs whose products are summed at a time."""


@method(
    "dp-copula",
    title="DP-Copula",
    paper="Li, Xiong, Jiang: Differentially Private Synthesization of Multi-Dimensional Data using Copula "
    "Functions (EDBT 2014)",
    good_for="numeric or ordered columns with many values that rise and fall together; weak for named categories",
    corrected="products of public grades, of sensitivity 1, for Kendall's tau, whose sensitivity depends on the "
    "private number of rows and, with ties as in its public program, has no useful bound; ties are part of the "
    "model; the number of rows is noisy; domains from the schema",
    page="docs/reproductions/privbayes.md",
    rank=140,
)
class DPCopula(Method):
    """Measure the columns, and for every pair of columns how strongly their ranks are correlated.

    Attributes:
        margin_share: part of the budget for one-way marginals; the products of ranks get the rest.
    """

    margin_share: float = tuned(0.3)

    def __post_init__(self) -> None:
        check_shares(self.margin_share)

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.only_column(rho)
        pairs, note = len(domain) * (len(domain) - 1) // 2, "how far the ranks of each pair go together"
        return Split.of(rho, Step.columns(domain, rho * self.margin_share), rest=Step.scores(PRODUCTS, pairs, note))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain = door.domain
        progress("measuring every column", 0.1)
        independent = fit_columns(door, split.rho(ONEWAYS), step=ONEWAYS)[1]
        total = independent.total
        margins = [counts / total for counts in independent.marginals(singles(domain))]
        correlation = np.eye(len(domain))
        if PRODUCTS in split:
            progress("measuring products of ranks", 0.4)
            columns = [Grades.of(margin, GradeProducts.STEPS) for margin in margins]
            for (i, j), product in self._products(door, columns).items():
                correlation[i, j] = correlation[j, i] = normal_correlation(columns[i], columns[j], product / total)
        return GaussianCopula(domain, total, tuple(margins), nearest_correlation(correlation))

    def _products(self, door: GuardedTable, columns: list[Grades]) -> dict[tuple[int, int], float]:
        """Return the noisy sum over all rows of the product of two columns' grades, for every pair of columns."""
        names, rho = door.domain.names, door.remaining
        graded = {name: column.values for name, column in zip(names, columns, strict=True)}
        pairs = list(combinations(range(len(names)), 2))
        sums: dict[tuple[int, int], float] = {}
        size = max(1, int(_BATCH_CELLS // max(door.domain.sizes) ** 2))
        for start in range(0, len(pairs), size):
            batch = pairs[start : start + size]
            score = GradeProducts(tuple((names[i], names[j]) for i, j in batch), graded)
            stddev = door.score_stddev_for(score, rho * len(batch) / len(pairs))
            sums |= dict(zip(batch, door.noisy_scores(score, stddev, step=PRODUCTS), strict=True))
        return sums
