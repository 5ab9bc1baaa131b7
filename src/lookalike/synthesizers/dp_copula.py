"""DP-Copula: noisy margins and noisy correlations of ranks (Li, Xiong and Jiang 2014), corrected."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from lookalike.estimate import fit
from lookalike.generate.copula import GaussianCopula, Grades, nearest_correlation, normal_correlation
from lookalike.generate.model import Model
from lookalike.privacy.kernel.accounting import Accounting, Budget
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import GradeProducts
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.model_size import model_zeros
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_shares

ONEWAYS, PRODUCTS = "one-way marginals", "products of ranks"

_BATCH_CELLS = 50_000_000


@dataclass(frozen=True, slots=True)
class DPCopula:
    """One-way marginals, and for every pair of columns how far their ranks go together.

    Attributes:
        margin_share: part of the budget for one-way marginals; the products of ranks get the rest.
    """

    margin_share: float = 0.3

    name: ClassVar[str] = "dp-copula"
    accounting: ClassVar[Accounting] = "gdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="DP-Copula",
        paper="Li, Xiong, Jiang: Differentially Private Synthesization of Multi-Dimensional Data using Copula "
        "Functions (EDBT 2014)",
        good_for="numeric or ordered columns with many values that rise and fall together; weak for named categories",
        corrected="products of public grades, of sensitivity 1, for Kendall's tau, whose sensitivity depends on the "
        "private number of rows and, with ties as in its public program, has no useful bound; ties are part of the "
        "model; the number of rows is noisy; domains from the schema",
    )

    def __post_init__(self) -> None:
        check_shares(self.margin_share)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        if d == 1:
            return [PlannedStep(ONEWAYS, "gaussian", 1, rho, "counts of the only column")]
        margins = rho * self.margin_share
        note = "how far the ranks of each pair go together"
        return [
            PlannedStep(ONEWAYS, "gaussian", d, margins, "counts of every column"),
            PlannedStep(PRODUCTS, "gaussian", d * (d - 1) // 2, rho - margins, note),
        ]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        progress("measuring every column", 0.1)
        shares = allocate(domain.sizes, rho * self.margin_share if len(domain) > 1 else rho)
        singles = [(name,) for name in domain.names]
        oneways = door.measure(singles, [door.stddev_for(share) for share in shares], step=ONEWAYS)
        independent = fit(domain, oneways, zeros=model_zeros(door.schema))
        total, margins = independent.total, [counts / independent.total for counts in independent.marginals(singles)]
        correlation = np.eye(len(domain))
        if len(domain) > 1:
            progress("measuring products of ranks", 0.4)
            columns = [Grades.of(margin, GradeProducts.STEPS) for margin in margins]
            for (i, j), product in self._products(door, columns).items():
                correlation[i, j] = correlation[j, i] = normal_correlation(columns[i], columns[j], product / total)
        return GaussianCopula(domain, total, tuple(margins), nearest_correlation(correlation))

    def _products(self, door: GuardedTable, columns: list[Grades]) -> dict[tuple[int, int], float]:
        """Noisy sums over all rows of the product of two columns' grades, for every pair of columns."""
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
