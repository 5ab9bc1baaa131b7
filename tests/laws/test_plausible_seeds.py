"""The fast count of plausible seeds against its definition: every record's probability, computed one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lookalike.models.bayes_net import BayesNet
from lookalike.privacy.row_level.prefixes import PrefixCounts, class_sizes, probability_classes
from lookalike.schema.domain import Domain

MODELS = 2400


def random_model(rng: np.random.Generator) -> BayesNet:
    """A random network: sizes, order, parents, buckets and conditional probabilities, some of them zero."""
    width = int(rng.integers(2, 5))
    domain = Domain(tuple(f"c{i}" for i in range(width)), tuple(int(s) for s in rng.integers(1, 4, size=width)))
    order = tuple(domain.names[i] for i in rng.permutation(width))
    buckets = {}
    for name in domain.names:
        if rng.random() < 0.3 and domain.size(name) > 1:
            buckets[name] = np.unique(rng.integers(0, 2, size=domain.size(name)), return_inverse=True)[1]
    parents, tables = [], []
    for place, name in enumerate(order):
        chosen = tuple(p for p in order[:place] if rng.random() < 0.5)
        shape = tuple(int(buckets[p].max()) + 1 if p in buckets else domain.size(p) for p in chosen)
        table = rng.dirichlet(np.full(domain.size(name), 0.7), size=shape)
        if rng.random() < 0.2:
            table[..., 0] = 0.0
            table[..., -1] += 1e-9
            table /= table.sum(axis=-1, keepdims=True)
        parents.append(chosen)
        tables.append(table)
    return BayesNet(domain, 1.0, order, tuple(parents), tuple(tables), buckets)


def step_probability(model: BayesNet, row: np.ndarray, place: int) -> float:
    """P(value of the column | parents) straight from the tables."""
    index = []
    for parent in model.parents[place]:
        value = int(row[model.domain.position(parent)])
        index.append(int(model.buckets[parent][value]) if parent in model.buckets else value)
    return float(model.tables[place][(*index, int(row[model.domain.position(model.order[place])]))])


def probability(model: BayesNet, record: np.ndarray, made: np.ndarray, kept: int) -> float:
    """Pr[made = M(record)] for a fixed number of kept columns, by running the mechanism's definition forward."""
    columns = [model.domain.position(name) for name in model.order]
    if any(record[c] != made[c] for c in columns[:kept]):
        return 0.0
    return math.prod(step_probability(model, made, place) for place in range(kept, len(columns)))


def brute_force(
    model: BayesNet, records: np.ndarray, seed: int, made: np.ndarray, kept: list[int], gamma: float
) -> int:
    """Records whose probability lies in the seed's class; -1 where a probability is too near a boundary to say."""

    def mixture(record: np.ndarray) -> float:
        return sum(probability(model, record, made, number) for number in kept) / len(kept)

    own = mixture(records[seed])
    place = -math.log(own) / math.log(gamma)
    values = [mixture(record) for record in records]
    places = [-math.log(v) / math.log(gamma) for v in values if v > 0]
    if any(abs(p - round(p)) < 1e-9 and p > 1e-9 for p in places):
        return -1
    return sum(1 for p in places if math.floor(p + 1e-12) == math.floor(place + 1e-12))


@pytest.mark.parametrize("chunk", range(4))
def test_fast_counts_equal_the_definition(chunk: int) -> None:
    rng = np.random.default_rng(100 + chunk)
    compared = mixed = 0
    for _ in range(MODELS // 4):
        model = random_model(rng)
        width = len(model.domain)
        count = int(rng.integers(1, 13))
        records = np.stack([rng.integers(0, s, size=count) for s in model.domain.sizes], axis=1).astype(np.int32)
        columns = [model.domain.position(name) for name in model.order]
        prefixes = PrefixCounts(records[:, columns], [model.domain.sizes[c] for c in columns])
        seeds = rng.integers(0, len(records), size=3)
        drawn = rng.integers(0, width + 1, size=3)
        made = np.asfortranarray(records[seeds])
        model.resample(made, drawn, rng)
        gamma = float(rng.choice([1.3, 2.0, 4.0]))

        # Variant one: the test is for the drawn number of kept columns.
        for seed, kept, row in zip(seeds, drawn, made, strict=True):
            fast = int(prefixes.of_rows(np.array([seed]), np.array([kept]))[0])
            assert fast == int(prefixes.of_codes(row[None, columns])[0, kept])
            if probability(model, records[seed], row, int(kept)) > 0:
                expected = brute_force(model, records, int(seed), row, [int(kept)], gamma)
                assert expected in (-1, fast)
                compared += 1

        # Variant two: the test is for the mixture over several numbers of kept columns.
        kept_law = sorted({int(kept) for kept in drawn})
        classes = probability_classes(model.log_probabilities(made), kept_law, gamma)
        sizes = class_sizes(prefixes.of_codes(made[:, columns]), classes)
        for i, (seed, row) in enumerate(zip(seeds, made, strict=True)):
            agreeing = int(np.cumprod(records[seed][columns] == row[columns]).sum())
            expected = brute_force(model, records, int(seed), row, kept_law, gamma)
            if expected >= 0:
                assert expected == sizes[i, min(agreeing, max(kept_law))]
                mixed += 1
    assert compared > MODELS // 4
    assert mixed > MODELS // 4
