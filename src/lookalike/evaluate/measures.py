"""Measures of two tables: association, scores, errors by group, copied rows, plausible seeds of rows. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.evaluate.marginals import CountedPair, TablePair, distances_of, random_cliques
from lookalike.models.bayes_net import BayesNet
from lookalike.models.model import Model
from lookalike.privacy.row_level.prefixes import PrefixCounts, class_sizes, probability_classes
from lookalike.release import load
from lookalike.report.pairs import cramers_v
from lookalike.schema.domain import ColumnSet, Domain

_BLOCK_ROWS = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class PairAssociation:
    """The association of all pairs of columns in two tables, as symmetric matrices with ones on the diagonal.

    Attributes:
        real: association in the first table.
        synth: association in the second table.
        distances: total variation distance of the two 2-way marginals (1-way on the diagonal).
    """

    real: np.ndarray
    synth: np.ndarray
    distances: np.ndarray

    @property
    def mean_difference(self) -> float:
        """The mean of |real - synth| over pairs of different columns; 0 for a table of one column."""
        upper = np.triu_indices(len(self.real), 1)
        return float(np.abs(self.real - self.synth)[upper].mean()) if len(upper[0]) else 0.0

    @property
    def worst_difference(self) -> float:
        upper = np.triu_indices(len(self.real), 1)
        return float(np.abs(self.real - self.synth)[upper].max(initial=0.0))


def correlation(codes: np.ndarray) -> np.ndarray:
    """Return the Pearson correlation matrix of integer codes; 0 for constant columns, 1 on the diagonal."""
    rows, d = codes.shape
    centred_sums = np.zeros((d, d))
    means = codes.mean(axis=0)
    for start in range(0, rows, _BLOCK_ROWS):
        block = codes[start : start + _BLOCK_ROWS] - means
        centred_sums += block.T @ block
    spread = np.sqrt(np.diag(centred_sums))
    product = np.outer(spread, spread)
    result = np.divide(centred_sums, product, out=np.zeros((d, d)), where=product > 0)
    np.fill_diagonal(result, 1.0)
    return np.clip(result, -1.0, 1.0)


def correlation_of_counts(counts: np.ndarray) -> float:
    """Return the Pearson correlation of two columns of codes from the counts of their pair; 0 for a constant one."""
    rows = counts.sum()
    shares = counts.sum(axis=1) / rows, counts.sum(axis=0) / rows
    codes = [np.arange(len(share)) - np.arange(len(share)) @ share for share in shares]
    spread = np.prod([np.sqrt(share @ code**2) for share, code in zip(shares, codes, strict=True)])
    return float(np.clip(codes[0] @ counts @ codes[1] / rows / spread, -1.0, 1.0)) if spread > 0 else 0.0


def pair_association(pair: TablePair | CountedPair, ordered: Collection[str] = ()) -> PairAssociation:
    """Return the association of every pair: Pearson correlation if both columns are `ordered`, else Cramer's V."""
    domain, d = pair.domain, len(pair.domain)
    real, synth, distances = np.eye(d), np.eye(d), np.zeros((d, d))
    by_rows = (correlation(pair.real), correlation(pair.synth)) if isinstance(pair, TablePair) else ()
    for i, first in enumerate(domain.names):
        distances[i, i] = pair.distance((first,))
        for j in range(i + 1, d):
            second = domain.names[j]
            one, two = pair.square(first, second)
            distances[i, j] = distances[j, i] = 0.5 * np.abs(one / pair.real_rows - two / pair.synth_rows).sum()
            if first in ordered and second in ordered:
                exact = [found[i, j] for found in by_rows]
                real[i, j], synth[i, j] = exact or [correlation_of_counts(counts) for counts in (one, two)]
            else:
                real[i, j], synth[i, j] = cramers_v(one), cramers_v(two)
            real[j, i], synth[j, i] = real[i, j], synth[i, j]
    return PairAssociation(real, synth, distances)


def column_shapes(pair: TablePair | CountedPair, ordered: Collection[str] = ()) -> dict[str, float]:
    """Return the similarity of every column: 1 - Kolmogorov-Smirnov statistic if `ordered`, else 1 - distance.

    These are KSComplement and TVComplement of sdmetrics, the parts of its score 'Column Shapes'.
    """
    shapes = {}
    for name in pair.domain.names:
        if name in ordered:
            one, two = pair.counts((name,))
            shapes[name] = 1.0 - float(np.abs(one.cumsum() / pair.real_rows - two.cumsum() / pair.synth_rows).max())
        else:
            shapes[name] = 1.0 - pair.distance((name,))
    return shapes


def pair_trends(association: PairAssociation, domain: Domain, ordered: Collection[str] = ()) -> np.ndarray:
    """Return the similarity of every pair of columns: 1 for equal ones.

    It is 1 - |difference of correlations| / 2 if both are `ordered`, else 1 - distance of the 2-way marginals: the
    CorrelationSimilarity and ContingencySimilarity of sdmetrics, the parts of its score 'Column Pair Trends'.
    """
    similarity = 1.0 - association.distances
    flags = np.array([name in ordered for name in domain.names])
    both = np.outer(flags, flags) & ~np.eye(len(flags), dtype=bool)
    similarity[both] = 1.0 - np.abs(association.real - association.synth)[both] / 2.0
    return similarity


_SHARES = (0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def k_marginal_score(mean_distance: float) -> float:
    """Return the score of NIST for k-way marginals, 1000 * (1 - mean distance): 1000 for equal tables.

    The challenge defined it as 1000 * (2 - mean L1 distance) / 2, which is the same.
    """
    return 1000.0 * (1.0 - mean_distance)


def sample_equivalent(pair: TablePair, cliques: Sequence[ColumnSet], distance: float, seed: int = 0) -> float:
    """Return the share of the real rows at which a random sample is as far from the real table as `distance`.

    Samples of 90 % down to 0.1 % of the rows are drawn without replacement, and their mean distances over the column
    sets `cliques` computed. Between two samples, log distance is interpolated linearly in the log odds of the share x
    (distances fall like sqrt((1 - x) / x)). A larger distance than that of the smallest sample returns its share.
    """
    if distance <= 0:
        return 1.0
    rng = np.random.default_rng([seed, 11])
    shares = [share for share in _SHARES if share * pair.real_rows >= 1]
    logs = []
    for share in shares:
        rows = rng.choice(pair.real_rows, size=round(share * pair.real_rows), replace=False)
        sample = TablePair(pair.real, pair.real[rows], pair.domain)
        logs.append(np.log(max(distances_of(sample, cliques).mean, 1e-12)))
    odds = [np.log(share / (1.0 - share)) for share in shares]
    # The running maximum restores the order that interpolation needs where chance has swapped two points.
    at = float(np.interp(np.log(distance), np.maximum.accumulate(logs), odds, left=np.inf, right=odds[-1]))
    if np.isinf(at):
        # Closer than a 90 % sample: extrapolate by sqrt((1 - x) / x).
        at = odds[0] + 2.0 * (logs[0] - np.log(distance))
    return float(1.0 / (1.0 + np.exp(-at)))


@dataclass(frozen=True, slots=True)
class GroupError:
    """Errors within one group of rows.

    Attributes:
        code: the value of the grouping column.
        real_share: share of the real rows in the group.
        synth_share: share of the synthetic rows in the group.
        distance_1: mean distance of 1-way marginals of the other columns within the group; None if a table has no
            rows of the group.
        distance_2: the same for 2-way marginals.
    """

    code: int
    real_share: float
    synth_share: float
    distance_1: float | None
    distance_2: float | None


def group_errors(pair: TablePair, column: str, sets: int = 100, seed: int = 0) -> list[GroupError]:
    """Return the errors within every group of rows with the same value of `column`.

    Small groups have larger distances by chance alone, in samples of real rows too.
    """
    position = pair.domain.position(column)
    others = pair.domain.project(name for name in pair.domain.names if name != column)
    cliques_1 = random_cliques(others, 1, None) if len(others) else []
    cliques_2 = random_cliques(others, 2, sets, seed) if len(others) > 1 else []
    real_group, synth_group = pair.real[:, position], pair.synth[:, position]
    errors = []
    for code in range(pair.domain.size(column)):
        real, synth = pair.real[real_group == code], pair.synth[synth_group == code]
        one = two = None
        if len(real) and len(synth):
            within = TablePair(real, synth, pair.domain)
            one = distances_of(within, cliques_1).mean if cliques_1 else None
            two = distances_of(within, cliques_2).mean if cliques_2 else None
        errors.append(GroupError(code, len(real) / pair.real_rows, len(synth) / pair.synth_rows, one, two))
    return errors


@dataclass(frozen=True, slots=True)
class Copies:
    """Shares of rows that both tables have; of the synthetic rows, unless said otherwise.

    Attributes:
        rows_equal_to_real: synthetic rows equal to some real row in every column.
        rows_equal_to_unique_real: synthetic rows equal to a real row that occurs once, which are the critical ones.
        unique_real_rows: share of the real rows that occur once.
        unique_real_rows_found: share of those that some synthetic row equals.
        repeated_rows: synthetic rows that have an equal synthetic row before them.

    Equal rows do not prove a leak: if few cells hold most rows, independent draws repeat them.
    """

    rows_equal_to_real: float
    rows_equal_to_unique_real: float
    unique_real_rows: float
    unique_real_rows_found: float
    repeated_rows: float


def copies(pair: TablePair) -> Copies:
    """Return how many synthetic rows equal real ones in every column."""
    real, synth = pair.counts(pair.domain.names)
    once = real == 1
    return Copies(
        rows_equal_to_real=float(synth[real > 0].sum()) / pair.synth_rows,
        rows_equal_to_unique_real=float(synth[once].sum()) / pair.synth_rows,
        unique_real_rows=float(once.sum()) / pair.real_rows,
        unique_real_rows_found=float((once & (synth > 0)).sum()) / max(1.0, float(once.sum())),
        repeated_rows=1.0 - float((synth > 0).sum()) / pair.synth_rows,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Deniability:
    """Numbers of plausible seeds of some rows. NOT PRIVATE.

    Attributes:
        omegas: the numbers of columns drawn anew.
        seeds: for each row and each omega, the number of real rows that could have been the seed, all equally likely.
        fewest: for each row, the number of real rows in the smallest non-empty class of probabilities when omega is
            drawn from all `omegas`; 0 if no real row could have made it.
        gamma: maximum ratio of the probabilities in one class.
    """

    omegas: tuple[int, ...]
    seeds: np.ndarray
    fewest: np.ndarray
    gamma: float

    def deniable(self, k: int) -> np.ndarray:
        """Return for each omega the share of rows with at least k plausible seeds."""
        return (self.seeds >= k).mean(axis=0)

    def table(self, k: int) -> list[tuple[str, ...]]:
        """Return for each omega its value, the minimum, median and maximum number of seeds, and the share with k."""
        return [
            (str(omega), f"{seeds.min():,}", f"{int(np.median(seeds)):,}", f"{seeds.max():,}", f"{share:.1%}")
            for omega, seeds, share in zip(self.omegas, self.seeds.T, self.deniable(k), strict=True)
        ]

    def to_json(self, k: int) -> dict[str, Any]:
        return {
            "stamp": "NOT PRIVATE: exact counts of real rows; do not publish",
            "k": k,
            "gamma": self.gamma,
            "omegas": list(self.omegas),
            "share_deniable": [float(share) for share in self.deniable(k)],
            "share_deniable_mixture": float((self.fewest >= k).mean()),
            "seeds": self.seeds.tolist(),
            "fewest": self.fewest.tolist(),
        }


def network_of(model: Model) -> BayesNet:
    """Return the Bayesian network that made rows from seeds; refuse models without one."""
    network = model if isinstance(model, BayesNet) else getattr(model, "network", None)
    if not isinstance(network, BayesNet):
        raise InputError(f"A model of kind {model.kind!r} has no seeds; give a model of the method bsg.")
    return network


def check_files(model: Path, table: Path, rows: Path, omega: str = "", *, gamma: float = 4.0) -> Deniability:
    """Return the `deniability` of the rows of a file, given the files of the model and of the real table."""
    # Imported late, since the reader of real rows imports the measures.
    from lookalike.evaluate.real_data import encoded

    fitted = load(model)
    network_of(fitted.model)
    low, dash, high = omega.partition("-")
    if omega and not (low.isdecimal() and (high.isdecimal() or not dash)):
        raise InputError(f"omega is {omega!r}; write a number such as 9 or a range such as 9-11.")
    omegas = range(int(low), int(high or low) + 1) if omega else None
    real, made = (encoded(where, fitted.schema) for where in (table, rows))
    return deniability(fitted.model, real, made, omegas, gamma=gamma)


def deniability(
    model: Model, real: np.ndarray, rows: np.ndarray, omegas: Sequence[int] | None = None, *, gamma: float = 4.0
) -> Deniability:
    """Return the numbers of plausible seeds of each row, in O(columns) per row after one sort of the real rows.

    Args:
        model: a model of the method bsg.
        real: codes of the real table.
        rows: codes of the rows to check.
        omegas: numbers of columns drawn anew; by default every number but all of them.
        gamma: maximum ratio of the probabilities in one class, above 1.
    """
    network = network_of(model)
    width = len(network.domain)
    chosen = tuple(sorted(set(omegas))) if omegas else tuple(range(1, width))
    if not chosen or chosen[0] < 0 or chosen[-1] > width:
        raise InputError(f"omega is {chosen}; with {width} columns it must lie between 0 and {width}.")
    if not gamma > 1:
        raise InputError(f"gamma is {gamma:g}; it must be above 1.")
    if not len(rows):
        raise InputError("There are no rows to check; give at least 1.")
    columns = [network.domain.position(name) for name in network.order]
    shared = PrefixCounts(real[:, columns], network.domain.shape(network.order)).of_codes(rows[:, columns])
    logs = network.log_probabilities(rows)
    kept = [width - omega for omega in chosen]
    drawable = np.cumsum(np.isneginf(logs)[:, ::-1], axis=1)[:, ::-1] == 0
    drawable = np.concatenate([drawable, np.ones((len(rows), 1), dtype=bool)], axis=1)
    sizes = class_sizes(shared, probability_classes(logs, kept, gamma))
    held = np.where(sizes > 0, sizes, np.iinfo(np.int64).max).min(axis=1)
    fewest = np.where((sizes > 0).any(axis=1), held, 0)
    return Deniability(chosen, shared[:, kept] * drawable[:, kept], fewest, gamma)
