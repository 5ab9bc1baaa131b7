"""PrivBayes: a Bayesian network chosen by the exponential mechanism (Zhang et al. 2017), and PB-PGM, which fits it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lookalike.errors import BudgetError
from lookalike.estimate import fit
from lookalike.estimate.consistency import make_consistent
from lookalike.estimate.norm_sub import norm_sub
from lookalike.generate.bayes_net import BayesNet, dirichlet_means
from lookalike.generate.model import Model
from lookalike.privacy.door import GuardedTable
from lookalike.privacy.scores import FamilyGap, IndependenceGap, PerfectGap, Score
from lookalike.schema.domain import Clique, Domain
from lookalike.select.allocation import allocate
from lookalike.select.model_size import model_zeros
from lookalike.select.network_sets import fitting_parts
from lookalike.select.parent_sets import Family, binary_degree, family_candidates
from lookalike.select.useful import useful_cells
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, choice, method, tuned
from lookalike.synthesizers.split import UNKNOWN, Split, Step
from lookalike.tables.measurement import NoisyMarginal, estimated_total

ONEWAYS, COUNT = "one-way marginals", "number of rows"
NETWORK, FAMILIES = "parents of each column", "families of the network"

_MOST_CELLS = 100_000
"""Most cells of a family, however many rows there are."""

_MOST_COUNTED = 100_000_000
"""Most cells of all families that one choice looks at."""


@method(
    "privbayes",
    title="PrivBayes",
    paper="Zhang, Cormode, Procopiuc, Srivastava, Xiao: PrivBayes (ACM TODS 2017)",
    good_for="a plain Bayesian network; as the baseline that other methods are compared with",
    corrected="scores in counts, of constant sensitivity for added or removed rows (the paper's hold for replaced "
    "rows and a public number of rows); the number of rows is noisy; Gaussian noise in zCDP; domains from the "
    "schema. The default goes on: dependence measured against a released law of the child (half the sensitivity), "
    "budget by cells, consistent families",
    page="docs/reproductions/privbayes.md",
    accounting="zcdp",
    rank=90,
)
class PrivBayes(Method):
    """Columns one after another, each with the parents that tell most about it; then noisy counts of every family.

    A setting of 0 stands for the way's own value, given as (default / faithful).

    Attributes:
        faithful: the paper's steps, corrected only where privacy demands it.
        theta: a family is allowed while its average cell is this many times the average noise.
        degree: most parents of a column; 0 for as many as theta allows.
        candidates: how many random families a choice looks at where there are more.
        network_share: part of the budget for choosing the network (0.05 / the paper's beta = 0.3).
        oneway_share: part of the budget for one-way marginals (default only).
        count_share: part of the budget for the number of rows (faithful only).
        prior: strength of the prior of every column given its parents, in standard deviations of noise (default only).
    """

    faithful: bool = choice(False)
    theta: float = tuned(4.0)
    degree: int = tuned(0)
    candidates: int = tuned(1000)
    network_share: float = tuned(0.0)
    oneway_share: float = tuned(0.1)
    count_share: float = tuned(0.01)
    prior: float = tuned(0.2)

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, candidates=self.candidates)
        if self.degree < 0 or self.prior < 0:
            raise BudgetError(f"degree is {self.degree} and prior {self.prior}; neither may be negative.")
        check_shares(self._network_share, self.count_share if self.faithful else self.oneway_share)

    @property
    def _network_share(self) -> float:
        return self.network_share or (0.3 if self.faithful else 0.05)

    def split(self, domain: Domain, rho: float) -> Split:
        if len(domain) == 1:
            return Split.of(rho, rest=Step.sets(FAMILIES, 1, "counts of the only column"))
        if self.faithful:
            first = Step.number_of_rows(rho * self.count_share)
        else:
            first = Step.columns(domain, rho * self.oneway_share)
        note = "which column comes next, and its parents"
        network = Step.choices(NETWORK, len(domain) - 1, note, rho * self._network_share)
        return Split.of(rho, first, network, rest=Step.sets(FAMILIES, UNKNOWN, "counts of columns with their parents"))

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        domain, rho = door.domain, door.remaining
        known: list[NoisyMarginal] = []
        families = [Family(domain.names[0], ())]
        if len(domain) > 1:
            progress("counting rows", 0.0)
            known = self._count(door, rho)
            progress("choosing the network", 0.05)
            families = self._network(door, known, rho * self._network_share, rng)
        progress("measuring families", 0.6)
        families = self._affordable(door, families)
        measured = self._measured(door, families)
        progress("estimating", 0.7)
        return self._estimate(door, families, known, measured)

    def _affordable(self, door: GuardedTable, families: list[Family]) -> list[Family]:
        """The families that the estimate can take, from public facts: here all of them."""
        return families

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
        """Families in an order in which parents come first. The first column is drawn at random, as in the paper."""
        domain, total = door.domain, estimated_total(known)
        cells, degree = self._limits(door, total, door.remaining - rho)
        laws = {} if self.faithful else {m.attrs[0]: norm_sub(m.values, total) + 1e-9 * total for m in known}
        order = [domain.names[int(rng.integers(len(domain)))]]
        families = [Family(order[0], ())]
        for _ in range(len(domain) - 1):
            waiting = [name for name in domain.names if name not in order]
            options = family_candidates(domain, order, waiting, cells, degree, self.candidates, rng)
            score = self._score(domain, options, laws)
            chosen = options[door.choose(score, math.sqrt(8 * rho / (len(domain) - 1)), step=NETWORK)]
            order.append(chosen.child)
            families.append(chosen)
        return families

    def _limits(self, door: GuardedTable, total: float, rho: float) -> tuple[float, int]:
        """Most cells of a family and most parents of a column."""
        d = len(door.domain)
        degree = self.degree or d

        def useful(marginals: int) -> float:
            return useful_cells(total, door.stddev_for(rho, marginals), self.theta)

        measured = d
        if self.faithful and _binary(door.domain):
            degree = min(degree, binary_degree(d, useful))
            measured = d - degree
        return min(useful(measured), _MOST_CELLS, _MOST_COUNTED / self.candidates), degree

    def _score(self, domain: Domain, options: Sequence[Family], laws: dict[str, np.ndarray]) -> Score:
        """How much the parents of each family tell about its child."""
        cliques = tuple(family.clique(domain) for family in options)
        children = tuple(family.child for family in options)
        if not self.faithful:
            return FamilyGap(cliques, children, laws)
        return PerfectGap(cliques, children) if _binary(domain) else IndependenceGap(cliques, children)

    # The parameters.

    def _measured(self, door: GuardedTable, families: Sequence[Family]) -> list[NoisyMarginal]:
        """Noisy counts of the families. Those inside another one are left out, as the paper does for binary tables."""
        domain, rho = door.domain, door.remaining
        cliques = [family.clique(domain) for family in families]
        if not self.faithful or _binary(domain):
            cliques = _maximal(cliques)
        shares = [rho / len(cliques)] * len(cliques)
        if not self.faithful:
            shares = list(allocate([domain.cells(clique) for clique in cliques], rho))
        return door.measure(cliques, [door.stddev_for(share) for share in shares], step=FAMILIES)

    def _estimate(
        self, door: GuardedTable, families: Sequence[Family], known: list[NoisyMarginal], measured: list[NoisyMarginal]
    ) -> Model:
        """A column's law given its parents from the smallest table that holds both."""
        domain, total = door.domain, estimated_total([*known, *measured])
        if self.faithful:
            tables = {m.attrs: np.maximum(m.values, 0.0) for m in measured}
        else:
            agreed = make_consistent(domain, [*known, *measured], total=total, tolerance=1e-2, rounds=50)
            both = dict(zip(agreed.cliques, agreed.tables, strict=True))
            tables = {m.attrs: both[m.attrs] for m in measured}
        stddevs = {m.attrs: m.stddev for m in measured}
        laws = []
        for family in families:
            held = min((clique for clique in tables if set(family.clique(domain)) <= set(clique)), key=domain.cells)
            counts = _turned(tables[held], held, (*family.parents, family.child))
            own = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
            if self.faithful:
                # Even where the parents' configuration has no counts, next to nothing elsewhere.
                laws.append(dirichlet_means(counts, np.ones(len(own)), 1e-6))
            else:
                laws.append(dirichlet_means(counts, own + 1e-3, max(1.0, self.prior * stddevs[held])))
        order = tuple(family.child for family in families)
        return BayesNet(domain, total, order, tuple(family.parents for family in families), tuple(laws), {})


def _binary(domain: Domain) -> bool:
    """Whether the paper's way for binary tables applies: its score F, k parents each, nested families measured once."""
    return max(domain.sizes) <= 2


def _maximal(cliques: Sequence[Clique]) -> list[Clique]:
    """Without the sets that lie inside another one."""
    sets = [set(clique) for clique in cliques]
    return [clique for clique, own in zip(cliques, sets, strict=True) if not any(own < other for other in sets)]


def _turned(table: np.ndarray, attrs: Clique, wanted: Sequence[str]) -> np.ndarray:
    """The marginal of the wanted attributes, axes in that order."""
    left = [name for name in attrs if name in wanted]
    summed = table.sum(axis=tuple(i for i, name in enumerate(attrs) if name not in wanted))
    return summed.transpose([left.index(name) for name in wanted])


@method(
    "pb-pgm",
    title="PB-PGM",
    paper="McKenna, Sheldon, Miklau: Graphical-model based estimation and inference (ICML 2019)",
    good_for="the families of PrivBayes used in full: all counts agree, not only columns given their parents",
    corrected=PrivBayes.info.corrected,
    page="docs/reproductions/privbayes.md",
    accounting="zcdp",
    rank=80,
)
class PBPGM(PrivBayes):
    """The network of `privbayes`, whose families are fitted all together as a graphical model.

    Settings are those of `privbayes`, where `prior` has no effect, and one more.

    Attributes:
        model_ms: largest model, in predicted milliseconds per evaluation; families lose parents where it would pass it.
    """

    model_ms: float = tuned(60.0)

    def _affordable(self, door: GuardedTable, families: list[Family]) -> list[Family]:
        """The families, without some of the parents where the model would be too large. Sizes only: free."""
        rules = [[attrs] for attrs in model_zeros(door.schema)]
        parts = [*rules, *(_parts(door.domain, family) for family in families)]
        fitting = fitting_parts(door.domain, parts, self.model_ms)[len(rules) :]
        return [
            Family(family.child, tuple(name for name in clique or () if name != family.child))
            for family, clique in zip(families, fitting, strict=True)
        ]

    def _estimate(
        self, door: GuardedTable, families: Sequence[Family], known: list[NoisyMarginal], measured: list[NoisyMarginal]
    ) -> Model:
        """The model of greatest entropy that explains all counts; it has no use for the order of the network."""
        counted = [marginal for marginal in (*known, *measured) if marginal.attrs]
        total = estimated_total([*known, *measured])
        return fit(door.domain, counted, total=total, zeros=model_zeros(door.schema))


def _parts(domain: Domain, family: Family) -> list[Clique]:
    """The family, then without its parent of most values, and so on down to the child alone."""
    parents = sorted(family.parents, key=lambda name: (domain.size(name), domain.position(name)))
    return [domain.canonical((family.child, *parents[:kept])) for kept in range(len(parents), -1, -1)]
