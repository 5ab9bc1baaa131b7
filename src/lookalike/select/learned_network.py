"""A Bayesian network learnt through the door: its structure from noisy pair scores, its tables from noisy families."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from lookalike.estimate.consistency import norm_sub
from lookalike.generate.bayes_net import BayesNet, dirichlet_means
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import ResidualL1
from lookalike.schema.domain import Domain
from lookalike.select.allocation import allocate
from lookalike.select.feature_merit import Network, bucketed, correlations, greedy_network, mass_buckets
from lookalike.tables.measurement import NoisyMarginal, estimated_total


def learn_network(
    door: GuardedTable,
    oneways: Sequence[NoisyMarginal],
    parent_values: int,
    affordable: Callable[[int, int], bool],
    rho: float,
    *,
    step: str,
) -> tuple[Network, dict[str, np.ndarray]]:
    """The network of most merit, and the buckets of about equal mass in which children see columns of many values.

    Args:
        door: the table; every pair of columns is scored in buckets, for rho in all.
        oneways: noisy counts of every column.
        parent_values: maximum number of buckets of a column.
        affordable: whether a family with that many parent configurations and values of the child may be measured.
        rho: the budget of the scores.
        step: their step.
    """
    domain, total = door.domain, estimated_total(oneways)
    counts = {name: norm_sub(oneway.values, total) for name, oneway in zip(domain.names, oneways, strict=True)}
    maps = {name: mass_buckets(count, parent_values) for name, count in counts.items()}
    maps = {name: mapping for name, mapping in maps.items() if mapping[-1] + 1 < domain.size(name)}
    coarse = {name: bucketed(count, maps.get(name)) for name, count in counts.items()}
    pairs = tuple(combinations(domain.names, 2))
    score = ResidualL1(pairs, tuple(np.outer(coarse[a], coarse[b]) / total for a, b in pairs))
    stddev = door.score_stddev_for(score, rho)
    distances = door.coarsened(maps).noisy_scores(score, stddev, step=step)
    sizes = {name: len(count) for name, count in coarse.items()}
    return greedy_network(domain, correlations(distances, list(coarse.values()), stddev), sizes, affordable), maps


def measure_families(
    door: GuardedTable, network: Network, buckets: Mapping[str, np.ndarray], rho: float, *, step: str
) -> list[NoisyMarginal]:
    """The noisy counts of every column with its parents, as children see them, for rho in all."""
    sizes = [
        door.domain.size(name) * math.prod(_seen(door.domain, buckets, parent) for parent in parents)
        for name, parents in zip(network.order, network.parents, strict=True)
    ]
    measured = []
    for name, parents, share in zip(network.order, network.parents, allocate(sizes, rho), strict=True):
        view = door.coarsened({parent: buckets[parent] for parent in parents if parent in buckets})
        family = view.domain.canonical((name, *parents))
        measured.append(view.measure([family], door.stddev_for(share), step=step)[0])
    return measured


def network_of(
    domain: Domain,
    network: Network,
    buckets: Mapping[str, np.ndarray],
    families: Sequence[NoisyMarginal],
    oneways: Sequence[NoisyMarginal],
    prior: float,
) -> BayesNet:
    """The network with Dirichlet means of its families; the prior's strength is in stddevs of their noise.

    `oneways` are noisy counts of the same rows, if there are any.
    """
    known = {oneway.attrs[0]: oneway for oneway in oneways}
    total = estimated_total([*families, *known.values()])
    tables = []
    for name, parents, family in zip(network.order, network.parents, families, strict=True):
        axes = [family.attrs.index(attr) for attr in (*parents, name)]
        counts = norm_sub(family.values, total).transpose(axes)
        own = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
        if not parents and name in known:
            own = counts = norm_sub(_average(family, known[name]), total)
        tables.append(dirichlet_means(counts, own + 1e-3, max(1.0, prior * family.stddev)))
    return BayesNet(domain, total, network.order, network.parents, tuple(tables), buckets)


def _seen(domain: Domain, buckets: Mapping[str, np.ndarray], name: str) -> int:
    """The number of values that children see of a column."""
    return int(buckets[name].max()) + 1 if name in buckets else domain.size(name)


def _average(first: NoisyMarginal, second: NoisyMarginal) -> np.ndarray:
    """The two noisy counts of one marginal, each weighted by its precision."""
    weights = [1 / first.stddev**2, 1 / second.stddev**2]
    return np.average([first.values, second.values], axis=0, weights=weights)
