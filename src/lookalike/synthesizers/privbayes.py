"""PrivBayes: a Bayesian network chosen by the exponential mechanism (Zhang et al. 2017), and PB-PGM, which fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lookalike.estimate import fit
from lookalike.estimate.consistency import make_consistent
from lookalike.estimate.norm_sub import norm_sub
from lookalike.generate.bayes_net import BayesNet, dirichlet_means
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, Budget
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import FamilyGap, IndependenceGap, Score
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.parent_sets import Family, binary_degree, family_candidates
from lookalike.select.residual import EXPECTED_ABS
from lookalike.select.useful import useful_cells
from lookalike.synthesizers.base import MethodInfo, PlannedStep, Progress, check_positive, check_shares
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ONEWAYS, COUNT = "one-way marginals", "number of rows"
NETWORK, FAMILIES = "parents of each column", "families of the network"

_MOST_CELLS = 100_000
"""Most cells of a family, however many rows there are."""


@dataclass(frozen=True, slots=True)
class PrivBayes:
    """Columns one after another, each with the parents that tell most about it; then noisy counts of every family.

    A setting of 0 stands for the way's own value, given as (default / faithful).

    Attributes:
        faithful: the paper's steps, corrected only where privacy demands it.
        theta: a family is allowed while its average cell is this many times the average noise.
        degree: most parents of a column; 0 for as many as theta allows.
        candidates: how many random families a choice looks at where there are more.
        network_share: part of the budget for choosing the network (0.15 / the paper's beta = 0.3).
        oneway_share: part of the budget for one-way marginals (default only).
        count_share: part of the budget for the number of rows (faithful only).
        caution: weight of noise against dependence when families are chosen (default only).
        prior: strength of the prior of every column given its parents, in standard deviations of noise (default only).
    """

    faithful: bool = False
    theta: float = 4.0
    degree: int = 0
    candidates: int = 1000
    network_share: float = 0.0
    oneway_share: float = 0.1
    count_share: float = 0.01
    caution: float = 1.0
    prior: float = 0.2

    name: ClassVar[str] = "privbayes"
    accounting: ClassVar[Accounting] = "zcdp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PrivBayes",
        paper="Zhang, Cormode, Procopiuc, Srivastava, Xiao: PrivBayes (ACM TODS 2017)",
        good_for="a plain Bayesian network; as the baseline that other methods are compared with",
        corrected="scores in counts with a constant sensitivity for added or removed rows (the paper's hold for replaced "
        "rows and a public number of rows); the number of rows is noisy; Gaussian noise and zCDP. The default goes "
        "on: dependence on parents against a released law of the child (half the sensitivity), budget by cells",
    )

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, candidates=self.candidates)
        check_shares(self._network_share, self.count_share if self.faithful else self.oneway_share)

    @property
    def _network_share(self) -> float:
        return self.network_share or (0.3 if self.faithful else 0.15)

    def plan(self, domain: Domain, budget: Budget) -> list[PlannedStep]:
        rho, d = float(budget.rho), len(domain)
        if d == 1:
            return [PlannedStep(FAMILIES, "gaussian", 1, rho, "counts of the only column")]
        if self.faithful:
            first = PlannedStep(COUNT, "gaussian", 1, rho * self.count_share, "number of rows")
        else:
            first = PlannedStep(ONEWAYS, "gaussian", d, rho * self.oneway_share, "counts of every column")
        network = PlannedStep(
            NETWORK, "exponential", d - 1, rho * self._network_share, "which column comes next, and its parents"
        )  # fmt: skip
        rest = rho - first.rho - network.rho
        return [first, network, PlannedStep(FAMILIES, "gaussian", -1, rest, "counts of columns with their parents")]

    def fit(self, door: GuardedTable, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        known: list[NoisyMarginal] = []
        families = [Family(domain.names[0], ())]
        if len(domain) > 1:
            progress("counting rows", 0.0)
            known = self._count(door, rho)
            progress("choosing the network", 0.05)
            families = self._network(door, known, rho * self._network_share, rng)
        progress("measuring families", 0.6)
        measured = self._measured(door, families)
        progress("estimating", 0.7)
        return self._estimate(domain, families, known, measured)

    def _count(self, door: GuardedTable, rho: float) -> list[NoisyMarginal]:
        """The number of rows, by itself or from all one-way marginals."""
        if self.faithful:
            return door.measure([()], door.stddev_for(rho * self.count_share), step=COUNT)
        shares = allocate(door.domain.sizes, rho * self.oneway_share)
        singles = [(name,) for name in door.domain.names]
        return door.measure(singles, [door.stddev_for(share) for share in shares], step=ONEWAYS)

    # The network.

    def _network(
        self, door: GuardedTable, known: Sequence[NoisyMarginal], rho: float, rng: np.random.Generator
    ) -> list[Family]:
        """Families in an order in which parents come first; rho is spent on all columns but the first, drawn at random."""
        domain, total = door.domain, estimated_total(known)
        cells, degree, stddev = self._limits(door, total, door.remaining - rho)
        laws = {} if self.faithful else {m.attrs[0]: norm_sub(m.values, total) + 1e-9 * total for m in known}
        order = [domain.names[int(rng.integers(len(domain)))]]
        families = [Family(order[0], ())]
        for _ in range(len(domain) - 1):
            waiting = [name for name in domain.names if name not in order]
            options = family_candidates(
                domain, order, waiting, cells, degree, self.candidates, rng, maximal=self.faithful
            )  # fmt: skip
            chosen = options[self._choice(door, options, laws, stddev, rho / (len(domain) - 1))]
            order.append(chosen.child)
            families.append(chosen)
        return families

    def _limits(self, door: GuardedTable, total: float, rho: float) -> tuple[float, int, float]:
        """Most cells of a family, most parents, and the noise that families are expected to have."""
        d = len(door.domain)
        degree = self.degree or d

        def useful(marginals: int) -> float:
            return useful_cells(total, door.stddev_for(rho, marginals), self.theta)

        measured = d
        if self.faithful and set(door.domain.sizes) <= {1, 2}:
            degree = min(degree, binary_degree(d, useful))
            measured = d - degree
        return min(useful(measured), _MOST_CELLS), degree, door.stddev_for(rho, measured)

    def _choice(
        self, door: GuardedTable, options: Sequence[Family], laws: dict[str, np.ndarray], stddev: float, rho: float
    ) -> int:
        cliques = tuple(family.clique(door.domain) for family in options)
        children = tuple(family.child for family in options)
        epsilon = float(np.sqrt(8 * rho))
        if self.faithful:
            return door.choose(IndependenceGap(cliques, children), epsilon, step=NETWORK)
        # What measuring the family costs, in the unit of the score: half of the expected L1 norm of its noise.
        noise = 0.5 * EXPECTED_ABS * stddev * np.array([door.domain.cells(clique) for clique in cliques])
        score = FamilyGap(cliques, children, laws)
        return door.choose(score, epsilon, step=NETWORK, offsets=self.caution * noise)

    # The parameters.

    def _measured(self, door: GuardedTable, families: Sequence[Family]) -> list[NoisyMarginal]:
        """Noisy counts of the families. Those inside another one are left out, as the paper does for binary tables."""
        domain, rho = door.domain, door.remaining
        cliques = [family.clique(domain) for family in families]
        if not self.faithful or set(domain.sizes) <= {1, 2}:
            cliques = _maximal(cliques)
        shares = [rho / len(cliques)] * len(cliques)
        if not self.faithful:
            shares = list(allocate([domain.cells(clique) for clique in cliques], rho))
        return door.measure(cliques, [door.stddev_for(share) for share in shares], step=FAMILIES)

    def _estimate(
        self, domain: Domain, families: Sequence[Family], known: list[NoisyMarginal], measured: list[NoisyMarginal]
    ) -> Model:
        total = estimated_total([*known, *measured])
        tables = []
        for family in families:
            holder = _holder(family.clique(domain), measured)
            counts = np.maximum(holder.values, 0.0)
            axes = tuple(i for i, name in enumerate(holder.attrs) if name != family.child and name not in family.parents)
            left = [name for name in holder.attrs if name == family.child or name in family.parents]
            counts = counts.sum(axis=axes).transpose([left.index(name) for name in (*family.parents, family.child)])
            prior = np.ones(counts.shape[-1])
            strength = 1e-9
            tables.append(dirichlet_means(counts, prior, strength))
        order = tuple(family.child for family in families)
        return BayesNet(domain, total, order, tuple(family.parents for family in families), tuple(tables), {})


def _maximal(cliques: Sequence[Clique]) -> list[Clique]:
    """Without the sets that lie inside another one."""
    sets = [set(clique) for clique in cliques]
    return [clique for clique, own in zip(cliques, sets, strict=True) if not any(own < other for other in sets)]


def _holder(clique: Clique, measured: Sequence[NoisyMarginal]) -> NoisyMarginal:
    """The first of the measured marginals of fewest cells that holds the clique."""
    return min((m for m in measured if set(clique) <= set(m.attrs)), key=lambda m: m.cells)


@dataclass(frozen=True, slots=True)
class PBPGM(PrivBayes):
    """The network of `privbayes`, whose families are fitted all together as a graphical model."""

    name: ClassVar[str] = "pb-pgm"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PB-PGM",
        paper="McKenna, Sheldon, Miklau: Graphical-model based estimation and inference (ICML 2019)",
        good_for="PrivBayes' families used in full: all counts agree, not only columns given their parents",
        corrected=PrivBayes.info.corrected,
    )

    def _estimate(
        self, domain: Domain, families: Sequence[Family], known: list[NoisyMarginal], measured: list[NoisyMarginal]
    ) -> Model:
        return fit(domain, [m for m in known if m.attrs] + measured, total=estimated_total([*known, *measured]))
