"""After consistency: equal shared sub-marginals, one total, no negative cell, for any overlapping noisy marginals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.fitting.consistency import make_consistent
from lookalike.measurements import NoisyMarginal
from lookalike.schema.domain import Domain


@st.composite
def noisy_marginals(draw: st.DrawFn) -> tuple[Domain, list[NoisyMarginal]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=6))
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes))
    subsets = st.sets(st.sampled_from(domain.names), min_size=1, max_size=4)
    cliques = draw(st.lists(subsets, min_size=1, max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([1.0, 30.0, 1000.0]))
    found = []
    for attrs in cliques:
        clique = domain.canonical(attrs)
        stddev = scale * float(rng.uniform(0.2, 5))
        counts = rng.dirichlet(np.full(domain.cells(clique), 0.2)) * 1000
        values = counts.reshape(domain.shape(clique)) + rng.normal(0, stddev, domain.shape(clique))
        found.append(NoisyMarginal(clique, np.rint(values), stddev))
    return domain, found


@settings(max_examples=80, deadline=None)
@given(noisy_marginals(), st.sampled_from([0, 1, 20, 200]))
def test_shared_sub_marginals_agree_and_no_cell_is_negative(
    case: tuple[Domain, list[NoisyMarginal]], rounds: int
) -> None:
    domain, measurements = case
    result = make_consistent(domain, measurements, rounds=rounds)
    for table in result.tables:
        assert table.min() >= 0
        assert table.sum() == pytest.approx(result.total, abs=1e-6)
    pieces = list(zip(result.cliques, result.tables, strict=True))
    for (one, x), (other, y) in combinations(pieces, 2):
        shared = set(one) & set(other)
        left = x.sum(axis=tuple(i for i, name in enumerate(one) if name not in shared))
        right = y.sum(axis=tuple(i for i, name in enumerate(other) if name not in shared))
        np.testing.assert_allclose(left, right, atol=1e-6)
