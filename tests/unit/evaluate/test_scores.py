"""Ranges, sample equivalents, groups and copies against plain loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lookalike.evaluate.marginals import (
    RangeQuery,
    TablePair,
    distances_of,
    random_cliques,
    random_ranges,
    range_errors,
    skewed_cliques,
)
from lookalike.evaluate.measures import copies, group_errors, k_marginal_score, sample_equivalent
from lookalike.schema.domain import Domain

from .tables import DOMAIN, random_codes

REAL, SYNTH = random_codes(300, 1), random_codes(211, 2)
PAIR = TablePair(REAL, SYNTH, DOMAIN)


def test_ranges_count_rows_inside():
    query = RangeQuery(("a", "d"), (1, 2), (2, 4))
    expected = sum(1 <= row[0] <= 2 and 2 <= row[3] <= 4 for row in REAL.tolist()) / 300
    assert query.share(REAL, DOMAIN) == pytest.approx(expected)
    with pytest.raises(ValueError, match="ends before"):
        RangeQuery(("a",), (2,), (1,))
    with pytest.raises(ValueError, match="as many"):
        RangeQuery(("a",), (2,), (1, 2))


def test_range_errors_are_means_over_the_same_queries():
    found = range_errors(PAIR, 3, sets=4, per_set=5)
    assert len(found.queries) == 20
    assert found.queries == random_ranges(DOMAIN, 3, 4, 5)
    for query in found.queries:
        for name, low, high in zip(query.attrs, query.low, query.high, strict=True):
            assert 0 <= low <= high < DOMAIN.size(name)
    differences = [q.share(REAL, DOMAIN) - q.share(SYNTH, DOMAIN) for q in found.queries]
    assert found.mean_squared == pytest.approx(np.mean(np.square(differences)))
    assert found.mean_absolute == pytest.approx(np.mean(np.abs(differences)))
    assert range_errors(TablePair(REAL, REAL, DOMAIN), 2, sets=3).mean_relative == 0.0


def test_k_marginal_score_ends():
    assert k_marginal_score(0.0) == 1000
    assert k_marginal_score(1.0) == 0


@pytest.mark.parametrize("share", [0.05, 0.25, 0.6])
def test_a_sample_is_as_good_as_a_sample_of_its_size(share):
    real = random_codes(20_000, 1)
    cliques = random_cliques(DOMAIN, 2)
    rng = np.random.default_rng(5)
    sample = real[rng.choice(len(real), round(share * len(real)), replace=False)]
    pair = TablePair(real, sample, DOMAIN)
    found = sample_equivalent(pair, cliques, distances_of(pair, cliques).mean)
    assert found == pytest.approx(share, rel=0.5)


def test_sample_equivalent_at_the_ends():
    cliques = random_cliques(DOMAIN, 2)
    real = random_codes(2000, 1)
    pair = TablePair(real, real, DOMAIN)
    assert sample_equivalent(pair, cliques, 0.0) == 1.0
    assert 0.9 < sample_equivalent(pair, cliques, 1e-6) <= 1.0
    assert sample_equivalent(pair, cliques, 1.0) == pytest.approx(0.001)


def test_group_errors_are_those_of_the_groups_alone():
    errors = group_errors(PAIR, "a")
    for error in errors:
        real, synth = (codes[codes[:, 0] == error.code] for codes in (REAL, SYNTH))
        assert error.real_share == pytest.approx(len(real) / 300)
        assert error.synth_share == pytest.approx(len(synth) / 211)
        others = DOMAIN.project(("b", "c", "d"))
        assert error.distance_1 == pytest.approx(
            distances_of(TablePair(real[:, 1:], synth[:, 1:], others), random_cliques(others, 1)).mean
        )
        assert error.distance_2 == pytest.approx(
            distances_of(TablePair(real[:, 1:], synth[:, 1:], others), random_cliques(others, 2)).mean
        )


def test_empty_groups_have_no_distance():
    errors = group_errors(TablePair(REAL, SYNTH[SYNTH[:, 2] == 0], DOMAIN), "c")
    assert errors[1].synth_share == 0
    assert errors[1].distance_1 is None


def test_copies_count_equal_rows():
    real, synth = (Counter(map(tuple, codes.tolist())) for codes in (REAL, SYNTH))
    found = copies(PAIR)
    once = {row for row, count in real.items() if count == 1}
    assert found.rows_equal_to_real == pytest.approx(sum(c for row, c in synth.items() if row in real) / 211)
    assert found.rows_equal_to_unique_real == pytest.approx(sum(c for row, c in synth.items() if row in once) / 211)
    assert found.unique_real_rows == pytest.approx(len(once) / 300)
    assert found.unique_real_rows_found == pytest.approx(len(once & synth.keys()) / len(once))
    assert found.repeated_rows == pytest.approx(1 - len(synth) / 211)


def test_skewed_sets_are_distinct_fixed_and_prefer_some_attributes():
    domain = Domain(tuple("abcdefghij"), (3,) * 10)
    sets = skewed_cliques(domain, 3, 40)
    assert len(set(sets)) == 40
    assert sets == skewed_cliques(domain, 3, 40)
    assert all(domain.canonical(attrs) == attrs for attrs in sets)
    times = [sum(name in attrs for attrs in sets) for name in domain.names]
    assert max(times) > 2 * np.median(times) or min(times) < np.median(times) / 2
    assert len(skewed_cliques(domain, 9, 40)) == 10
    assert {query.attrs for query in random_ranges(domain, 3, 40, 2, skewed=True)} == set(sets)
