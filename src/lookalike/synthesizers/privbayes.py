"""PrivBayes: a Bayesian network chosen by the exponential mechanism (Zhang et al. 2017), and PB-PGM, which fits it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.errors import BudgetError
from lookalike.fitting.consistency import make_consistent, norm_sub
from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.bayes_net import dirichlet_means
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.kernel.requests import Score
from lookalike.privacy.scores import FamilyGap
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.parent_sets import (
    Family,
    allowed_cells,
    choose_network,
    fit_families,
    fitting_families,
    maximal_sets,
    network_model,
)
from lookalike.selection.pricing import useful_cells
from lookalike.selection.steps import measure_columns, measure_sets
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, method, paper, tuned
from lookalike.synthesizers.split import ONEWAYS, UNKNOWN, Split, Step

NETWORK, FAMILIES = "parents of each column", "families of the network"


@dataclass(frozen=True, slots=True)
class NetworkSettings(Method, ABC):
    """What PrivBayes and PB-PGM share: the settings of the network, and how it is chosen and measured.

    Attributes:
        theta: a family is allowed while its average cell is this many times the average noise.
        degree: maximum number of parents of a column; None for as many as theta allows.
        candidates: how many random families compete in a choice where there are more.
        network_share: part of the budget for choosing the network.
        oneway_share: part of the budget for one-way marginals.
    """

    theta: float = paper(4.0)
    degree: int | None = tuned(None)
    candidates: int = tuned(1000)
    network_share: float = tuned(0.05)
    oneway_share: float = tuned(0.1)

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, degree=self.degree, candidates=self.candidates)
        check_shares(self.network_share, self.oneway_share)

    def split(self, domain: Domain, rho: float) -> Split:
        return network_split(domain, rho, Step.columns(domain, rho * self.oneway_share), self.network_share)

    def _network(
        self, door: GuardedTable, split: Split, rng: np.random.Generator, progress: Progress
    ) -> tuple[list[NoisyMarginal], list[Family]]:
        """Measure every column and choose the network; a single column is a family that is measured later."""
        domain = door.domain
        if len(domain) == 1:
            return [], [Family(domain.names[0], ())]
        progress("measuring every column", 0.0)
        oneways = measure_columns(door, split.rho(ONEWAYS), step=ONEWAYS)
        progress("choosing the network", 0.05)
        total, rho = estimated_total(oneways), split.rho(NETWORK)
        stddev = door.stddev_for(door.remaining - rho, len(domain))
        max_cells = allowed_cells(useful_cells(total, stddev, self.theta), self.candidates)
        columns = {m.attrs[0]: norm_sub(m.values, total) + 1e-9 * total for m in oneways}

        def score(cliques: tuple[ColumnSet, ...], children: tuple[str, ...]) -> Score:
            return FamilyGap(cliques, children, columns)

        degree = self.degree or len(domain)
        return oneways, choose_network(door, score, max_cells, degree, self.candidates, rho, rng, step=NETWORK)


@method(
    "privbayes",
    title="PrivBayes",
    paper="Zhang, Cormode, Procopiuc, Srivastava, Xiao: PrivBayes (ACM TODS 2017)",
    good_for="a plain Bayesian network; as the baseline that other methods are compared with",
    corrected="scores in counts, of constant sensitivity for added or removed rows (the paper's hold for replaced "
    "rows and a public number of rows); the number of rows is noisy; Gaussian noise in zCDP; domains from the "
    "schema. Beyond the paper: dependence measured against a released distribution of the child (half the "
    "sensitivity), budget by cells, consistent families",
    page="docs/reproductions/privbayes.md",
    accounting="zcdp",
    rank=90,
)
class PrivBayes(NetworkSettings):
    """Choose for one column after another the parents on which it depends most; then measure every family.

    Attributes:
        prior: strength of the prior of every column given its parents, in standard deviations of noise.
    """

    prior: float = tuned(0.2)

    def __post_init__(self) -> None:
        NetworkSettings.__post_init__(self)
        if self.prior < 0:
            raise BudgetError(f"prior is {self.prior}; it must not be negative.")

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        oneways, families = self._network(door, split, rng, progress)
        progress("measuring families", 0.6)
        measured = _measured(door, families)
        progress("estimating", 0.7)
        total = estimated_total([*oneways, *measured])
        agreed = make_consistent(door.domain, [*oneways, *measured], total=total, tolerance=1e-2, rounds=50)
        tables = dict(zip(agreed.cliques, agreed.tables, strict=True))
        stddevs = {m.attrs: m.stddev for m in measured}

        def estimate(counts: np.ndarray, held: ColumnSet) -> np.ndarray:
            own = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
            return dirichlet_means(counts, own + 1e-3, max(1.0, self.prior * stddevs[held]))

        return network_model(door.domain, total, families, {m.attrs: tables[m.attrs] for m in measured}, estimate)


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
class PBPGM(NetworkSettings):
    """Choose the network of `privbayes`, then fit all its families together as a graphical model.

    Attributes:
        model_ms: maximum size of the model, in predicted milliseconds per evaluation; families lose parents above it.
    """

    model_ms: float = tuned(60.0)

    def __post_init__(self) -> None:
        NetworkSettings.__post_init__(self)
        check_positive(model_ms=self.model_ms)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        oneways, families = self._network(door, split, rng, progress)
        progress("measuring families", 0.6)
        measured = _measured(door, fitting_families(door.domain, families, model_zeros(door.schema), self.model_ms))
        progress("estimating", 0.7)
        return fit_families(door, oneways, measured)


def network_split(domain: Domain, rho: float, first: Step, network_share: float) -> Split:
    """Return the split into a first step, choosing the network and measuring its families.

    A table of one column has nothing to choose: all of rho is for its counts.
    """
    if len(domain) == 1:
        return Split.of(rho, rest=Step.sets(FAMILIES, 1, "counts of the only column"))
    note = "which column comes next, and its parents"
    network = Step.choices(NETWORK, len(domain) - 1, note, rho * network_share)
    return Split.of(rho, first, network, rest=Step.sets(FAMILIES, UNKNOWN, "counts of columns with their parents"))


def _measured(door: GuardedTable, families: Sequence[Family]) -> list[NoisyMarginal]:
    """Measure the families that lie inside no other one, with budgets by their cells."""
    cliques = maximal_sets([family.clique(door.domain) for family in families])
    return measure_sets(door, cliques, door.remaining, step=FAMILIES)
