"""Guesses who is in the private table, from a release and rows of other people. NOT PRIVATE.

The attacker has the synthetic rows and *reference* rows: people of the same population who are not in the table. Each
attack gives a row a score that is higher where the release looks more as if the row had been in the table.

    closest synthetic row   minus the distance to it (GAN-Leaks: Chen et al. 2020)
    density ratio           log of the synthetic over the reference density at the row (DOMIAS: van Breugel et al. 2023)
    marginal ratio          how many more rows share its cells in marginals of one and two columns than the reference
                            lets expect, as in MAMA-MIA (Golob et al. 2024)
    released marginals      the same with the noisy counts that the method measured, if the model file is published
    shadow models           the combination of the scores above that works best on releases of the attacker's own
                            (Shokri et al. 2017; Stadler et al. 2022)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from scipy.stats import rankdata

from lookalike.evaluate.classifiers import logistic_regression
from lookalike.measurements import Contrasts, NoisyMarginal
from lookalike.schema.domain import Domain, counted

MAX_ROWS = 10_000
"""Rows of a table that distances are computed to; of a larger table, random ones."""
CONFIDENCE = 0.95
FALSE_ALARMS = (0.01, 0.1)
_MISMATCH = 0.2
"""Weight of a row in a density for each column in which it differs (the kernel of Aitchison and Aitken 1976)."""
_NEIGHBOURS = 5
_CHUNK = 4_000_000
_MAX_CELLS = 100_000

Release = Callable[[np.ndarray], tuple[np.ndarray, Sequence[NoisyMarginal]]]
"""Makes a release of reference rows, given by their numbers: synthetic codes, and the noisy marginals of the run."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What an attacker sees, and what the attacker knows beforehand.

    Attributes:
        synth: codes of the synthetic rows.
        reference: codes of rows of the same population that are not in the private table.
        domain: names and sizes of the columns.
        ordered: positions of columns whose codes have an order.
        rows: about the number of rows of the private table.
        measurements: noisy marginals of the run, if they were published.
    """

    synth: np.ndarray
    reference: np.ndarray
    domain: Domain
    ordered: Collection[int]
    rows: float
    measurements: Sequence[NoisyMarginal] = ()


def column_distance(column: int, one: np.ndarray, other: np.ndarray, view: View) -> np.ndarray:
    """Return the distance of all pairs of codes of a column: 0 to 1 where it has an order, else 0 or 1 (Gower 1971)."""
    if column in view.ordered:
        steps = np.float32(max(1, view.domain.sizes[column] - 1))
        return np.abs(one[:, None] - other[None, :]).astype(np.float32) / steps
    return (one[:, None] != other[None, :]).astype(np.float32)


def distances(targets: np.ndarray, rows: np.ndarray, view: View, columns: Sequence[int] | None = None) -> np.ndarray:
    """Return the sum of the columns' distances between every target and every row."""
    total = np.zeros((len(targets), len(rows)), dtype=np.float32)
    for column in range(len(view.domain)) if columns is None else columns:
        total += column_distance(column, targets[:, column], rows[:, column], view)
    return total


def in_chunks(targets: np.ndarray, rows: int) -> list[np.ndarray]:
    """Return the targets in parts whose distances to this number of rows need little memory."""
    return np.array_split(targets, max(1, -(-len(targets) * rows // _CHUNK)))


def _closest(view: View, targets: np.ndarray) -> np.ndarray:
    parts = in_chunks(targets, len(view.synth))
    return -np.concatenate([distances(part, view.synth, view).min(axis=1) for part in parts])


def _density_ratio(view: View, targets: np.ndarray) -> np.ndarray:
    logs = []
    for rows in (view.synth, view.reference):
        parts = in_chunks(targets, len(rows))
        logs.append(np.concatenate([np.mean(_MISMATCH ** distances(part, rows, view), axis=1) for part in parts]))
    return np.log(logs[0] / logs[1])


def _marginal_ratio(view: View, targets: np.ndarray) -> np.ndarray:
    """Sum over marginals of (n p_S - n p_R) / (n p_R + 1): weighted by the inverse variance of a count that varies by
    chance, which is the most powerful sum of the differences where the noise is small."""
    names, scores = view.domain.names, np.zeros(len(targets))
    for attrs in [(name,) for name in names] + list(combinations(names, 2)):
        if view.domain.cells(attrs) > _MAX_CELLS:
            continue
        expected = counted(view.domain, view.reference, attrs) * (view.rows / len(view.reference))
        found = counted(view.domain, view.synth, attrs) * (view.rows / len(view.synth))
        places = tuple(targets[:, view.domain.position(name)] for name in attrs)
        scores += ((found - expected) / (expected + 1))[places]
    return scores


def _released_marginals(view: View, targets: np.ndarray) -> np.ndarray:
    """The same with released counts y of stddev s, whose noise adds variance: (y - n p_R) / (n p_R + 1 + s^2)."""
    scores = np.zeros(len(targets))
    for marginal in view.measurements:
        counts = counted(view.domain, view.reference, marginal.attrs) * (view.rows / len(view.reference))
        groups = np.arange(counts.size) if marginal.groups is None else marginal.groups.ravel()
        expected = np.bincount(groups, counts.ravel(), minlength=marginal.cells)
        centre = expected if marginal.contrasts is None else Contrasts(marginal.contrasts).of(expected)
        surprise = (marginal.values.ravel() - centre) / (expected + 1 + marginal.stddev**2)
        places = [targets[:, view.domain.position(name)] for name in marginal.attrs]
        cells = np.ravel_multi_index(places, counts.shape) if places else np.zeros(len(targets), dtype=np.int64)
        scores += surprise[groups[cells]]
    return scores


SCORES: dict[str, Callable[[View, np.ndarray], np.ndarray]] = {
    "closest synthetic row": _closest,
    "density ratio": _density_ratio,
    "marginal ratio": _marginal_ratio,
    "released marginals": _released_marginals,
}
SHADOW = "shadow models"


def all_scores(view: View, targets: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the scores of the targets by each attack that the view allows."""
    rng = np.random.default_rng([seed, 31])
    near = replace(view, synth=_some(view.synth, rng), reference=_some(view.reference, rng))
    found: dict[str, np.ndarray] = {}
    for name, score in SCORES.items():
        if score is not _released_marginals or view.measurements:
            found[name] = score(near if score in (_closest, _density_ratio) else view, targets)
    return found


def shadow_scores(
    view: View, scores: dict[str, np.ndarray], release: Release, runs: int, *, seed: int = 0
) -> np.ndarray:
    """Return the targets' scores by the combination of `scores` that an attacker learns from own releases.

    Half of the reference rows stay reference. Of the others, a random half is released in each run as the private table
    was; a logistic regression learns from all runs which rows were in.
    """
    rng = np.random.default_rng([seed, 37])
    order = rng.permutation(len(view.reference))
    kept, others = np.split(order, [len(order) // 2])
    features, signs = [], []
    for run in range(runs):
        inside, outside = np.split(rng.permutation(others), [len(others) // 2])
        synth, measurements = release(inside)
        own = replace(view, synth=synth, reference=view.reference[kept], rows=len(inside), measurements=measurements)
        shadowed = all_scores(own, view.reference[np.concatenate([inside, outside])], seed + run)
        features.append(_features([shadowed[name] for name in scores]))
        signs.append(np.repeat([1.0, -1.0], [len(inside), len(outside)]))
    weights = logistic_regression(sparse.csr_matrix(np.vstack(features)), np.concatenate(signs), 1e-3)
    return _features(list(scores.values())) @ weights


def unusual(view: View, targets: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the mean distance of each target from its closest reference rows: unusual rows are the vulnerable ones."""
    reference = _some(view.reference, np.random.default_rng([seed, 41]))
    closest = min(_NEIGHBOURS, len(reference)) - 1
    parts = in_chunks(targets, len(reference))
    near = [np.partition(distances(part, reference, view), closest, axis=1)[:, : closest + 1] for part in parts]
    return np.concatenate(near).mean(axis=1)


def _features(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Scores in units of their standard deviation, so that releases of different sizes can be compared."""
    columns = np.column_stack(scores)
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _some(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= MAX_ROWS else rows[rng.choice(len(rows), MAX_ROWS, replace=False)]


# How well scores guess.


def auc(members: np.ndarray, control: np.ndarray) -> float:
    """Return the chance that a member has a higher score than a control row, ties counting half.

    >>> auc(np.array([1.0, 2.0]), np.array([0.0, 2.0]))
    0.625
    """
    ranks = rankdata(np.concatenate([members, control]))
    above = ranks[: len(members)].sum() - len(members) * (len(members) + 1) / 2
    return float(above / (len(members) * len(control)))


def guessed(members: np.ndarray, control: np.ndarray) -> dict[str, Any]:
    """Return the figures of a membership attack from the scores of both sides.

    The interval of the area under the curve is Hanley and McNeil's (1982); `found_at` is the share of members above the
    threshold that a given share of the control rows passes, `advantage` the difference of the rates above the median.
    """
    area = auc(members, control)
    more, less = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (len(members) - 1) * (more - area**2) + (len(control) - 1) * (less - area**2)
    error = float(ndtri((1 + CONFIDENCE) / 2)) * math.sqrt(max(variance, 0) / (len(members) * len(control)))
    figures: dict[str, Any] = {"auc": area, "auc_low": max(0.0, area - error), "auc_high": min(1.0, area + error)}
    figures["gained"] = area - error > 0.5
    ordered = np.sort(control)
    for alarm in FALSE_ALARMS:
        threshold = ordered[len(ordered) - 1 - math.floor(alarm * len(ordered))]
        figures[f"found_at_{alarm:g}"] = float(np.mean(members > threshold))
    middle = np.median(np.concatenate([members, control]))
    figures["advantage"] = float(np.mean(members > middle) - np.mean(control > middle))
    return figures
