"""Marginals of unmeasured sets equal those of the full joint table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lookalike.engine.cost import Limits
from lookalike.engine.queries import blocks_of, rooted_at_last
from lookalike.errors import ModelTooLargeError
from lookalike.models.graphical import GraphicalModel
from lookalike.schema.domain import Domain

DOMAIN = Domain(tuple("abcdefgh"), (3, 2, 4, 3, 2, 3, 2, 3))
CLIQUES = [("a", "b"), ("b", "c", "d"), ("a", "d"), ("e", "f"), ("f", "g"), ("c",)]


def model(scale: float, impossible: float = 0.0) -> GraphicalModel:
    rng = np.random.default_rng(4)
    tables = {clique: scale * rng.normal(size=DOMAIN.shape(clique)) for clique in CLIQUES}
    for table in tables.values():
        table[rng.random(table.shape) < impossible] = -np.inf
    return GraphicalModel(DOMAIN, tables, 500.0)


def joint(model: GraphicalModel) -> np.ndarray:
    logs = np.zeros(DOMAIN.sizes)
    for clique, table in model.potentials.items():
        logs = logs + table.reshape([DOMAIN.size(name) if name in clique else 1 for name in DOMAIN.names])
    weights = np.exp(logs - logs.max())
    return model.total * weights / weights.sum()


@pytest.mark.parametrize("scale", [1.0, 30.0, 900.0])
@pytest.mark.parametrize("impossible", [0.0, 0.1])
def test_all_sets_of_up_to_four_columns(scale, impossible):
    fitted = model(scale, impossible)
    full = joint(fitted)
    sets = [attrs for size in range(5) for attrs in itertools.combinations(DOMAIN.names, size)]
    for attrs, table in zip(sets, fitted.marginals(sets), strict=True):
        other = tuple(i for i, name in enumerate(DOMAIN.names) if name not in attrs)
        np.testing.assert_allclose(table, full.sum(axis=other), rtol=0, atol=1e-8)


def test_axes_are_in_domain_order_whatever_the_question():
    fitted = model(1.0)
    np.testing.assert_array_equal(fitted.marginal(("d", "a", "d")), fitted.marginal(("a", "d")))


def test_a_set_too_large_to_evaluate_is_refused():
    fitted = model(1.0)
    fitted.limits = Limits(memory_mb=1e-4)
    with pytest.raises(ModelTooLargeError, match="marginal on a, b, c"):
        fitted.marginal(("a", "b", "c"))


def test_blocks_hold_every_set_once_and_stay_small():
    pairs = list(itertools.combinations(DOMAIN.names, 2))
    blocks = blocks_of(DOMAIN, pairs, 40)
    assert sorted(pair for members in blocks.values() for pair in members) == sorted(pairs)
    assert all(DOMAIN.cells(block) <= 40 for block in blocks)
    assert all(set(pair) <= set(block) for block, members in blocks.items() for pair in members)


def test_turning_a_tree_keeps_its_unrooted_shape():
    turned = rooted_at_last(5, [(0, 1), (2, 4), (5, 3), (7, 6)])
    assert turned[-1][1] == 4
    assert sorted(child for pair in turned for child in pair) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert (0, 1) in turned
