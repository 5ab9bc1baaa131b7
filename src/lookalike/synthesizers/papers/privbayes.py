"""PrivBayes as in its paper (Zhang and others 2017), and PB-PGM on its network, corrected only for privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lookalike.generate.bayes_net import dirichlet_means
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import IndependenceGap, PerfectGap
from lookalike.schema.domain import Clique, Domain
from lookalike.select.model_size import model_zeros
from lookalike.select.parent_sets import (
    Family,
    allowed_cells,
    binary_degree,
    choose_network,
    fit_families,
    fitting_families,
    maximal_sets,
    network_model,
)
from lookalike.select.useful import useful_cells
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.synthesizers.privbayes import FAMILIES, NETWORK, PBPGM, PrivBayes, network_steps
from lookalike.tables.measurement import NoisyMarginal, estimated_total

COUNT = "number of rows"
_CORRECTED = (
    "scores in counts, of constant sensitivity for added or removed rows (the paper's hold for replaced rows and a "
    "public number of rows); the number of rows is noisy; Gaussian noise in zCDP; domains from the schema"
)


@dataclass(frozen=True, slots=True)
class PrivBayesPaper:
    """Columns one after another, each with the parents that tell most about it; then noisy counts of every family.

    Tables of binary columns have the score F of the paper, k parents for every column after the first k, and nested
    families measured once; other tables the score R, and as many parents as theta allows.

    Attributes:
        theta: a family is allowed while its average cell is this many times the average noise.
        degree: largest number of parents of a column; None for as many as theta allows.
        candidates: how many random families compete in a choice where there are more.
        network_share: part of the budget for choosing the network, the paper's beta.
        count_share: part of the budget for the number of rows.
    """

    theta: float = 4.0
    degree: int | None = None
    candidates: int = 1000
    network_share: float = 0.3
    count_share: float = 0.01

    name: ClassVar[str] = "privbayes-paper"
    accounting: ClassVar[Accounting] = "zcdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PrivBayes, the paper's variant",
        paper=PrivBayes.info.paper,
        good_for="repeating the paper's experiments; privbayes is more accurate",
        corrected=_CORRECTED,
    )

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, degree=self.degree, candidates=self.candidates)
        check_shares(self.network_share, self.count_share)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        return _plan(domain, budget, self.count_share, self.network_share)

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        count, families = _network(self, door, rng, progress)
        progress("measuring families", 0.6)
        measured = _measured(door, families)
        total = estimated_total([*count, *measured])
        tables = {m.attrs: np.maximum(m.values, 0.0) for m in measured}
        return network_model(door.domain, total, families, tables, _probabilities)


@dataclass(frozen=True, slots=True)
class PBPGMPaper:
    """The network of `privbayes-paper`, whose families are fitted all together as a graphical model.

    Attributes:
        theta: a family is allowed while its average cell is this many times the average noise.
        degree: largest number of parents of a column; None for as many as theta allows.
        candidates: how many random families compete in a choice where there are more.
        network_share: part of the budget for choosing the network, the paper's beta.
        count_share: part of the budget for the number of rows.
        model_ms: largest model, in predicted milliseconds per evaluation; families lose parents where it would pass it.
    """

    theta: float = 4.0
    degree: int | None = None
    candidates: int = 1000
    network_share: float = 0.3
    count_share: float = 0.01
    model_ms: float = 60.0

    name: ClassVar[str] = "pb-pgm-paper"
    accounting: ClassVar[Accounting] = "zcdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PB-PGM, the paper's variant",
        paper=PBPGM.info.paper,
        good_for="repeating the paper's experiments; pb-pgm is more accurate",
        corrected=_CORRECTED,
    )

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, degree=self.degree, candidates=self.candidates, model_ms=self.model_ms)
        check_shares(self.network_share, self.count_share)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        return _plan(domain, budget, self.count_share, self.network_share)

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        count, families = _network(self, door, rng, progress)
        progress("measuring families", 0.6)
        measured = _measured(door, fitting_families(door.domain, families, model_zeros(door.schema), self.model_ms))
        progress("estimating", 0.7)
        return fit_families(door, count, measured)


def _plan(domain: Domain, budget: Budget, count_share: float, network_share: float) -> list[PlannedStep]:
    rho, d = float(budget.rho), len(domain)
    if d == 1:
        return [PlannedStep(FAMILIES, "gaussian", 1, rho, "counts of the only column")]
    count = PlannedStep(COUNT, "gaussian", 1, rho * count_share, "number of rows")
    return [count, *network_steps(d, rho * network_share, rho - count.rho)]


def _network(
    settings: PrivBayesPaper | PBPGMPaper, door: GuardedTable, rng: np.random.Generator, progress: Progress
) -> tuple[list[NoisyMarginal], list[Family]]:
    """Measure the number of rows and choose the network; a single column is a family that is measured later."""
    domain, rho = door.domain, door.remaining
    if len(domain) == 1:
        return [], [Family(domain.names[0], ())]
    progress("counting rows", 0.0)
    count = door.measure([()], door.stddev_for(rho * settings.count_share), step=COUNT)
    progress("choosing the network", 0.05)
    total, network_rho, degree = estimated_total(count), rho * settings.network_share, settings.degree or len(domain)

    def useful(marginals: int) -> float:
        return useful_cells(total, door.stddev_for(door.remaining - network_rho, marginals), settings.theta)

    if _is_binary(domain):
        degree = min(degree, binary_degree(len(domain), useful))
        max_cells, score = useful(len(domain) - degree), PerfectGap
    else:
        max_cells, score = useful(len(domain)), IndependenceGap
    max_cells = allowed_cells(max_cells, settings.candidates)
    return count, choose_network(
        door, score, max_cells, degree, settings.candidates, network_rho, rng, step=NETWORK
    )  # fmt: skip


def _measured(door: GuardedTable, families: Sequence[Family]) -> list[NoisyMarginal]:
    """Measure all families with the same noise; of binary tables only those that lie inside no other one."""
    cliques = [family.clique(door.domain) for family in families]
    if _is_binary(door.domain):
        cliques = maximal_sets(cliques)
    rho = door.remaining / len(cliques)
    return door.measure(cliques, [door.stddev_for(rho)] * len(cliques), step=FAMILIES)


def _probabilities(counts: np.ndarray, _held: Clique) -> np.ndarray:
    """Return the child's shares of the counts, uniform where the parents' values have none."""
    return dirichlet_means(counts, np.ones(counts.shape[-1]), 1e-6)


def _is_binary(domain: Domain) -> bool:
    """Return whether the paper's algorithm for binary tables applies."""
    return max(domain.sizes) <= 2
