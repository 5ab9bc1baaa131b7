"""The Bayesian network of BSG: its structure by feature selection, its tables from noisy counts of families.

Structure learning follows the plausible-deniability paper (section 3.3), from noisy numbers only: correlation-based
feature selection (Hall 1999) finds the few columns that predict each column, as an acyclic graph. The paper's
correlation, symmetric uncertainty from noisy entropies (`uncertainties`), is replaced in our variant by the L1
distance of a pair from independence in counts, whose sensitivity is 1 for any number of rows, scaled to 0 for
independent columns and 1 for equal ones (`correlations`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lookalike.fitting.consistency import norm_sub
from lookalike.measurements import NoisyMarginal, averaged, estimated_total
from lookalike.models.bayes_net import BayesNet, dirichlet_means
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.scores import PaddedEntropy, ResidualL1
from lookalike.schema.bins import Binned
from lookalike.schema.domain import ColumnSet, Domain
from lookalike.schema.schema import Schema
from lookalike.selection.steps import allocate


@dataclass(frozen=True, slots=True)
class Network:
    """Columns with parents before children, and the parents of each, in the same order."""

    order: tuple[str, ...]
    parents: tuple[tuple[str, ...], ...]


def mass_buckets(counts: np.ndarray, max_buckets: int) -> np.ndarray:
    """Return a map from code to bucket: at most `max_buckets` runs of neighbouring codes of about equal (noisy) count.

    A code with more than its share is alone in its bucket. Computed from noisy counts, hence public and free.

    >>> mass_buckets(np.array([1.0, 1.0, 90.0, 2.0, 3.0, 3.0]), 3).tolist()
    [0, 0, 1, 2, 2, 2]
    """
    if len(counts) <= max_buckets:
        return np.arange(len(counts))
    weights = np.maximum(counts, 0.0) + 1e-9 * max(1.0, float(np.abs(counts).max()))
    low, high = 0.0, float(weights.sum())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _runs(weights, middle)[-1] >= max_buckets else (low, middle)
    return _runs(weights, high)


def _runs(weights: np.ndarray, limit: float) -> np.ndarray:
    """Return the bucket of each code if a run weighs at most `limit`; a single code may weigh more."""
    buckets, bucket, weight = np.zeros(len(weights), dtype=np.int64), 0, 0.0
    for code, own in enumerate(weights):
        if code and weight + own > limit:
            bucket, weight = bucket + 1, 0.0
        weight += own
        buckets[code] = bucket
    return buckets


def semantic_buckets(schema: Schema, max_buckets: int) -> dict[str, np.ndarray]:
    """Return maps from code to bucket by what values mean: public, hence free (equation 7 of the paper).

    Columns with a hierarchy have its finest level of at most `max_buckets` groups, or its coarsest; numbers and times
    have that many runs of neighbouring bins. All others stay as they are. Missing values have buckets of their own.
    """
    maps: dict[str, np.ndarray] = {}
    for column in schema.columns:
        if column.levels:
            maps[column.name] = next((m for m in column.levels if m.max() < max_buckets), column.levels[-1])
        elif isinstance(column, Binned) and not column.derived and column.regular > max_buckets:
            runs = np.arange(column.regular) // math.ceil(column.regular / max_buckets)
            extra = runs[-1] + 1 + np.arange(column.size - column.regular)
            maps[column.name] = np.concatenate([runs, extra])
    return maps


def bucketed(counts: np.ndarray, buckets: np.ndarray | None) -> np.ndarray:
    """Return the counts of the buckets, or the counts themselves without buckets."""
    return counts if buckets is None else np.bincount(buckets, weights=counts)


def correlations(distances: np.ndarray, oneways: Sequence[np.ndarray], spread: float = 0.0) -> np.ndarray:
    """Return the symmetric matrix of correlations in [0, 1] from noisy L1 distances of all pairs from independence.

    With t half the distance as a share of the rows and g = 1 - sum p^2 of a column, the correlation is
    2t / (g_a + g_b): 1 for columns that determine each other, as for symmetric uncertainty 2 I / (H_a + H_b). The
    distance that independent columns are expected to have, sqrt(2/pi) * sum sqrt(cell), and `spread` are subtracted
    first.

    Args:
        distances: one per pair, pairs in the order of `itertools.combinations`, in rows.
        oneways: non-negative counts of every column, all with about the same total.
        spread: distance that noise may explain, in rows: some standard deviations of it.
    """
    width = len(oneways)
    total = max(1.0, float(np.mean([counts.sum() for counts in oneways])))
    shares = [counts / max(counts.sum(), 1e-12) for counts in oneways]
    gini = [max(1e-12, 1.0 - float(share @ share)) for share in shares]
    matrix = np.eye(width)
    for (a, b), distance in zip(combinations(range(width), 2), distances, strict=True):
        chance = math.sqrt(2 / math.pi * total) * float(np.sqrt(shares[a]).sum() * np.sqrt(shares[b]).sum())
        half = max(0.0, float(distance) - chance - spread) / (2 * total)
        matrix[a, b] = matrix[b, a] = min(1.0, 2 * half / (gini[a] + gini[b]))
    return matrix


def uncertainties(
    door: GuardedTable, maps: Mapping[str, np.ndarray], rows: int, rho: float, *, step: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the symmetric uncertainties in [0, 1] of columns with columns in buckets, and of these with each other.

    Equation (5) of the paper from noisy entropies, 2 - 2 H(x, y) / (H(x) + H(y)), of which only ratios matter. All that
    both matrices need have the same noise: of columns and pairs in buckets, and of every column that has buckets, as it
    is, alone and with each other column in buckets.

    Args:
        door: the table.
        maps: the buckets of the columns that have some.
        rows: a public number of rows, see `PaddedEntropy`.
        rho: the budget of all entropies.
        step: their step.
    """
    domain, width = door.domain, len(door.domain)
    every = [(name,) for name in domain.names]
    needed = width * (width + 1) // 2 + len(maps) * width

    def entropies(view: Mapping[str, np.ndarray], sets: list[ColumnSet]) -> dict[ColumnSet, float]:
        score = PaddedEntropy(tuple(sets), rows)
        stddev = door.score_stddev_for(score, rho * len(sets) / needed)
        return dict(zip(sets, door.coarsened(view).noisy_scores(score, stddev, step=step).tolist(), strict=True))

    coarse = entropies(maps, [*every, *combinations(domain.names, 2)])
    mixed, among = np.eye(width), np.eye(width)
    for i, name in enumerate(domain.names):
        pairs = [domain.canonical((name, other)) for other in domain.names if other != name]
        fine = {other: groups for other, groups in maps.items() if other != name}
        own = entropies(fine, [(name,), *pairs]) if name in maps else coarse
        for j in (j for j in range(width) if j != i):
            pair, other = domain.canonical((name, domain.names[j])), (domain.names[j],)
            mixed[i, j] = _uncertainty(own[(name,)], coarse[other], own[pair])
            among[i, j] = _uncertainty(coarse[(name,)], coarse[other], coarse[pair])
    return mixed, among


def _uncertainty(first: float, second: float, both: float) -> float:
    return min(1.0, max(0.0, 2 - 2 * both / (first + second))) if first + second > 0 else 0.0


def merit(child: int, parents: Sequence[int], correlation: np.ndarray, among: np.ndarray | None = None) -> float:
    """Return the merit of parents, equation (4) of the paper: correlated with the child, not with each other.

    merit = sum_j c(child, j) / sqrt(|parents| + sum_{j != k} c(j, k))

    `among` are the correlations of parents where they are in buckets and children are not.
    """
    if not parents:
        return 0.0
    chosen, other = list(parents), correlation if among is None else among
    inner = other[np.ix_(chosen, chosen)].sum() - other[chosen, chosen].sum()
    return float(correlation[child, chosen].sum() / math.sqrt(len(chosen) + inner))


def greedy_network(
    domain: Domain,
    correlation: np.ndarray,
    bucket_counts: Mapping[str, int],
    affordable: Callable[[int, int], bool],
    among: np.ndarray | None = None,
) -> Network:
    """Return the network that takes the edge of the largest gain in merit while it stays acyclic and affordable.

    Args:
        domain: the columns.
        correlation: their correlations, in domain order.
        bucket_counts: number of buckets of each column as a parent.
        affordable: whether a family with that many parent configurations and values of the child may be measured.
        among: correlations of columns as parents, where they differ; see `merit`.
    """
    width = len(domain)
    parents: list[list[int]] = [[] for _ in range(width)]
    reaches = np.eye(width, dtype=bool)
    while True:
        best, edge = 1e-9, None
        for child in range(width):
            now = merit(child, parents[child], correlation, among)
            configurations = math.prod(bucket_counts[domain.names[p]] for p in parents[child])
            for parent in range(width):
                if parent in parents[child] or reaches[child, parent]:
                    continue
                if not affordable(configurations * bucket_counts[domain.names[parent]], domain.sizes[child]):
                    continue
                gain = merit(child, [*parents[child], parent], correlation, among) - now
                # Of two directions of equal merit the one with the smaller parent is cheaper.
                gain -= 1e-12 * bucket_counts[domain.names[parent]]
                if gain > best:
                    best, edge = gain, (parent, child)
        if edge is None:
            break
        parent, child = edge
        parents[child].append(parent)
        reaches |= np.outer(reaches[:, parent], reaches[child])
    return _ordered(domain, parents)


def _ordered(domain: Domain, parents: Sequence[Sequence[int]]) -> Network:
    """Return the network in order: parents first, then columns of fewest values, so that many rows share a prefix."""
    waiting = {child: set(ps) for child, ps in enumerate(parents)}
    ready = [(domain.sizes[child], child) for child, ps in waiting.items() if not ps]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, place = heapq.heappop(ready)
        order.append(place)
        for child, ps in waiting.items():
            if place in ps:
                ps.discard(place)
                if not ps:
                    heapq.heappush(ready, (domain.sizes[child], child))
    names = domain.names
    return Network(tuple(names[i] for i in order), tuple(tuple(names[p] for p in parents[i]) for i in order))


def learn_network(
    door: GuardedTable,
    oneways: Sequence[NoisyMarginal],
    parent_values: int,
    affordable: Callable[[int, int], bool],
    rho: float,
    *,
    step: str,
) -> tuple[Network, dict[str, np.ndarray]]:
    """Return the greedy network, and the buckets of about equal mass of parents that have many values.

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
    door: GuardedTable,
    network: Network,
    buckets: Mapping[str, np.ndarray],
    rho: float,
    *,
    step: str,
    alike: bool = False,
) -> list[NoisyMarginal]:
    """Return the noisy counts of every column with its parents, which are in buckets, for rho in all.

    Larger families have less noise, unless all are measured alike.
    """
    sizes = [
        door.domain.size(name) * math.prod(_bucket_count(door.domain, buckets, parent) for parent in parents)
        for name, parents in zip(network.order, network.parents, strict=True)
    ]
    shares = [rho / len(sizes)] * len(sizes) if alike else allocate(sizes, rho)
    measured = []
    for name, parents, share in zip(network.order, network.parents, shares, strict=True):
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
    """Return the network with Dirichlet means of its families; `prior` is in stddevs of their noise.

    `oneways` are noisy counts of columns of the same rows, or empty.
    """
    known = {oneway.attrs[0]: oneway for oneway in oneways}
    total = estimated_total([*families, *known.values()])
    tables = []
    for name, parents, family in zip(network.order, network.parents, families, strict=True):
        axes = [family.attrs.index(attr) for attr in (*parents, name)]
        counts = norm_sub(family.values, total).transpose(axes)
        own = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
        if not parents and name in known:
            own = counts = norm_sub(averaged([family, known[name]])[0].values, total)
        tables.append(dirichlet_means(counts, own + 1e-3, max(1.0, prior * family.stddev)))
    return BayesNet(domain, total, network.order, network.parents, tuple(tables), buckets)


def drawn_network(
    domain: Domain,
    network: Network,
    buckets: Mapping[str, np.ndarray],
    families: Sequence[NoisyMarginal],
    total: float,
    prior: float,
    rng: np.random.Generator | None,
) -> BayesNet:
    """Return the network with parameters drawn from their Dirichlet distributions, equations (11), (12) and (14).

    Noisy counts below 0 count as 0; `prior` is spread evenly over a column's values. Without `rng`, the means (13).
    """
    tables = []
    for name, parents, family in zip(network.order, network.parents, families, strict=True):
        counts = np.maximum(family.values, 0.0).transpose([family.attrs.index(attr) for attr in (*parents, name)])
        weights = counts + prior / counts.shape[-1]
        drawn = weights if rng is None else rng.standard_gamma(weights)
        # Weights near 0 may all be drawn as 0.
        drawn = np.where(drawn.sum(axis=-1, keepdims=True) > 0, drawn, weights)
        tables.append(drawn / drawn.sum(axis=-1, keepdims=True))
    return BayesNet(domain, total, network.order, network.parents, tuple(tables), buckets)


def _bucket_count(domain: Domain, buckets: Mapping[str, np.ndarray], name: str) -> int:
    """Return the number of buckets of a column as a parent."""
    return int(buckets[name].max()) + 1 if name in buckets else domain.size(name)
