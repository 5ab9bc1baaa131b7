"""Single numbers: k-marginal score, 'as good as a sample of x %', errors by group, copies of rows. NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lookalike.evaluate.marginals import TablePair, distances_of, random_cliques
from lookalike.schema.domain import Clique

_SHARES = (0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def k_marginal_score(mean_distance: float) -> float:
    """NIST's score of k-way marginals, 1000 for equal tables and 0 for disjoint ones: 1000 * (1 - mean distance).

    The challenge printed it as 1000 * (2 - mean L1 distance) / 2, the same number.
    """
    return 1000.0 * (1.0 - mean_distance)


def sample_equivalent(pair: TablePair, cliques: Sequence[Clique], distance: float, seed: int = 0) -> float:
    """Share x of the real rows such that a random sample of that size is as far from the real table as `distance`.

    Samples without replacement of shares from 90 % down to 0.1 % are drawn (fixed seed) and the mean distance over
    `cliques` taken; between them the share is read off along a straight line in logarithms (distances fall like
    sqrt((1 - x) / x)). A distance above that of the smallest sample gives that share: read '0.001 or less'.
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
    # Running maximum: chance may make neighbouring points change places, and interpolation needs an order.
    at = float(np.interp(np.log(distance), np.maximum.accumulate(logs), odds, left=np.inf, right=odds[-1]))
    if np.isinf(at):
        # Better than a 90 % sample: follow the law sqrt((1 - x) / x) from there.
        at = odds[0] + 2.0 * (logs[0] - np.log(distance))
    return float(1.0 / (1.0 + np.exp(-at)))


@dataclass(frozen=True, slots=True)
class GroupError:
    """Error inside one group of rows.

    Attributes:
        code: the value of the grouping column.
        real_share: share of the real rows in the group.
        synth_share: share of the synthetic rows in the group.
        distance_1: mean distance of 1-way marginals of the other columns inside the group; None where a side is empty.
        distance_2: the same for 2-way marginals.
    """

    code: int
    real_share: float
    synth_share: float
    distance_1: float | None
    distance_2: float | None


def group_errors(pair: TablePair, column: str, sets: int = 100, seed: int = 0) -> list[GroupError]:
    """Errors inside every group of rows with the same value of `column`: whom does the release serve worse?

    Small groups have larger distances by chance alone, in real samples too.
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
            inside = TablePair(real, synth, pair.domain)
            one = distances_of(inside, cliques_1).mean if cliques_1 else None
            two = distances_of(inside, cliques_2).mean if cliques_2 else None
        errors.append(GroupError(code, len(real) / pair.real_rows, len(synth) / pair.synth_rows, one, two))
    return errors


@dataclass(frozen=True, slots=True)
class Copies:
    """Rows that both tables have. Shares of the synthetic rows unless said otherwise.

    Attributes:
        rows_equal_to_real: synthetic rows equal to some real row in every column.
        rows_equal_to_unique_real: synthetic rows equal to a real row that occurs once: the ones to worry about.
        unique_real_rows: share of the real rows that occur once.
        unique_real_rows_found: share of those that some synthetic row equals.
        repeated_rows: synthetic rows that have an equal synthetic row before them.

    Equal rows are no proof of a leak: where few cells hold most rows, independent draws repeat them. The guarantee, not
    this count, is what protects a person.
    """

    rows_equal_to_real: float
    rows_equal_to_unique_real: float
    unique_real_rows: float
    unique_real_rows_found: float
    repeated_rows: float


def copies(pair: TablePair) -> Copies:
    """How many synthetic rows equal real ones in every column."""
    real, synth = pair.counts(pair.domain.names)
    once = real == 1
    return Copies(
        rows_equal_to_real=float(synth[real > 0].sum()) / pair.synth_rows,
        rows_equal_to_unique_real=float(synth[once].sum()) / pair.synth_rows,
        unique_real_rows=float(once.sum()) / pair.real_rows,
        unique_real_rows_found=float((once & (synth > 0)).sum()) / max(1.0, float(once.sum())),
        repeated_rows=1.0 - float((synth > 0).sum()) / pair.synth_rows,
    )
