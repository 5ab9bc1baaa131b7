"""PrivBayes as in its paper (Zhang and others 2017), and PB-PGM on its network, corrected only for privacy."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.fitting.maximum_entropy import model_zeros
from lookalike.measurements import NoisyMarginal, estimated_total
from lookalike.models.bayes_net import dirichlet_means
from lookalike.models.model import Model
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import IndependenceGap, PerfectGap
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.selection.parent_sets import (
    Family,
    allowed_cells,
    binary_degree,
    choose_network,
    fit_families,
    fitting_families,
    maximal_sets,
    network_model,
)
from lookalike.selection.pricing import useful_cells
from lookalike.synthesizers.base import Method, Progress, check_positive, check_shares, method, paper, tuned
from lookalike.synthesizers.privbayes import FAMILIES, NETWORK, PBPGM, PrivBayes, network_split
from lookalike.synthesizers.split import Split, Step, count_rows

_CORRECTED = (
    "scores in counts, of constant sensitivity for added or removed rows (the paper's hold for replaced rows and a "
    "public number of rows); the number of rows is noisy; Gaussian noise in zCDP; domains from the schema"
)


@dataclass(frozen=True, slots=True)
class PaperNetworkSettings(Method, ABC):
    """What the paper's variants of PrivBayes and PB-PGM share: settings of the network, and how it is chosen.

    Tables of binary columns have the score F of the paper, k parents for every column after the first k, and nested
    families measured once; other tables the score R, and as many parents as theta allows.

    Attributes:
        theta: a family is allowed while its average cell is this many times the average noise.
        degree: maximum number of parents of a column; None for as many as theta allows.
        candidates: how many random families compete in a choice where there are more.
        network_share: part of the budget for choosing the network, the paper's beta.
        count_share: part of the budget for the number of rows.
    """

    theta: float = paper(4.0)
    degree: int | None = paper(None)
    candidates: int = tuned(1000)
    network_share: float = paper(0.3)
    count_share: float = tuned(0.01)

    def __post_init__(self) -> None:
        check_positive(theta=self.theta, degree=self.degree, candidates=self.candidates)
        check_shares(self.network_share, self.count_share)

    def split(self, domain: Domain, rho: float) -> Split:
        return network_split(domain, rho, Step.number_of_rows(rho * self.count_share), self.network_share)

    def _network(
        self, door: GuardedTable, split: Split, rng: np.random.Generator, progress: Progress
    ) -> tuple[list[NoisyMarginal], list[Family]]:
        """Measure the number of rows and choose the network; a single column is a family that is measured later."""
        domain = door.domain
        if len(domain) == 1:
            return [], [Family(domain.names[0], ())]
        progress("counting rows", 0.0)
        count = count_rows(door, split)
        progress("choosing the network", 0.05)
        total, rho, degree = estimated_total(count), split.rho(NETWORK), self.degree or len(domain)

        def useful(marginals: int) -> float:
            return useful_cells(total, door.stddev_for(door.remaining - rho, marginals), self.theta)

        if _is_binary(domain):
            degree = min(degree, binary_degree(len(domain), useful))
            max_cells, score = useful(len(domain) - degree), PerfectGap
        else:
            max_cells, score = useful(len(domain)), IndependenceGap
        max_cells = allowed_cells(max_cells, self.candidates)
        return count, choose_network(door, score, max_cells, degree, self.candidates, rho, rng, step=NETWORK)


@method(
    "privbayes-paper",
    title="PrivBayes, the paper's variant",
    paper=PrivBayes.info.paper,
    good_for="repeating the paper's experiments; privbayes is more accurate",
    corrected=_CORRECTED,
    page="docs/reproductions/privbayes.md",
    accounting="zcdp",
    rank=90,
    is_paper_variant=True,
)
class PrivBayesPaper(PaperNetworkSettings):
    """Choose for one column after another the parents on which it depends most; then measure every family."""

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        count, families = self._network(door, split, rng, progress)
        progress("measuring families", 0.6)
        measured = _measured(door, families)
        total = estimated_total([*count, *measured])
        tables = {m.attrs: np.maximum(m.values, 0.0) for m in measured}
        return network_model(door.domain, total, families, tables, _probabilities)


@method(
    "pb-pgm-paper",
    title="PB-PGM, the paper's variant",
    paper=PBPGM.info.paper,
    good_for="repeating the paper's experiments; pb-pgm is more accurate",
    corrected=_CORRECTED,
    page="docs/reproductions/privbayes.md",
    accounting="zcdp",
    rank=80,
    is_paper_variant=True,
)
class PBPGMPaper(PaperNetworkSettings):
    """Choose the network of `privbayes-paper`, then fit all its families together as a graphical model.

    Attributes:
        model_ms: maximum size of the model, in predicted milliseconds per evaluation; families lose parents above it.
    """

    model_ms: float = tuned(60.0)

    def __post_init__(self) -> None:
        PaperNetworkSettings.__post_init__(self)
        check_positive(model_ms=self.model_ms)

    def fit(self, door: GuardedTable, split: Split, *, rng: np.random.Generator, progress: Progress) -> Model:
        count, families = self._network(door, split, rng, progress)
        progress("measuring families", 0.6)
        measured = _measured(door, fitting_families(door.domain, families, model_zeros(door.schema), self.model_ms))
        progress("estimating", 0.7)
        return fit_families(door, count, measured)


def _measured(door: GuardedTable, families: Sequence[Family]) -> list[NoisyMarginal]:
    """Measure all families with the same noise; of binary tables only those that lie inside no other one."""
    cliques = [family.clique(door.domain) for family in families]
    if _is_binary(door.domain):
        cliques = maximal_sets(cliques)
    rho = door.remaining / len(cliques)
    return door.measure(cliques, [door.stddev_for(rho)] * len(cliques), step=FAMILIES)


def _probabilities(counts: np.ndarray, _held: ColumnSet) -> np.ndarray:
    """Return the child's shares of the counts, uniform where the parents' values have none."""
    return dirichlet_means(counts, np.ones(counts.shape[-1]), 1e-6)


def _is_binary(domain: Domain) -> bool:
    """Return whether the paper's algorithm for binary tables applies."""
    return max(domain.sizes) <= 2
