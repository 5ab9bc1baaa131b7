"""What every source must do: one test body, run over all of them."""

import itertools

import numpy as np
import pytest

from lookalike.errors import SchemaError
from lookalike.schema.domain import Domain
from lookalike.sources.memory import MemorySource

SOURCES = {"memory": MemorySource}
DOMAIN = Domain.of({"a": 3, "b": 1, "c": 4, "d": 7})


@pytest.fixture(params=[0, 1, 500], ids=lambda rows: f"{rows} rows")
def codes(request):
    rng = np.random.default_rng(5)
    return np.column_stack([rng.integers(0, size, request.param) for size in DOMAIN.sizes]).astype(np.int32)


@pytest.fixture(params=SOURCES)
def source(request, codes):
    return SOURCES[request.param](DOMAIN, codes)


def brute_force(codes, domain, clique):
    table = np.zeros(domain.shape(clique), dtype=np.int64)
    for row in codes:
        table[tuple(row[domain.position(name)] for name in clique)] += 1
    return table


def test_counts_of_all_cliques(source, codes):
    cliques = [c for k in range(len(DOMAIN) + 1) for c in itertools.combinations(DOMAIN.names, k)]
    for clique, table in zip(cliques, source.counts(cliques), strict=True):
        assert table.dtype == np.int64
        assert np.array_equal(table, brute_force(codes, DOMAIN, clique)), clique


def test_no_cliques(source):
    assert source.counts([]) == []


def test_the_same_clique_twice_gives_independent_arrays(source):
    one, two = source.counts([("a",), ("a",)])
    one += 1
    assert not np.array_equal(one, two)


def test_recoded_counts_are_merged_counts(source, codes):
    maps = {"c": np.array([0, 1, 1, 0]), "d": np.array([2, 2, 1, 0, 0, 0, 1])}
    merged = source.recoded(maps)
    assert merged.domain.sizes == (3, 1, 2, 3)
    recoded = codes.copy()
    recoded[:, 2], recoded[:, 3] = maps["c"][codes[:, 2]], maps["d"][codes[:, 3]]
    assert np.array_equal(merged.counts([("c", "d")])[0], brute_force(recoded, merged.domain, ("c", "d")))
    assert source.domain == DOMAIN


@pytest.mark.parametrize("codes_of_c", [[0, 1, 2], [0, 1, 2, 4], [0, 1, -1, 2]])
def test_bad_maps_are_refused(source, codes_of_c):
    with pytest.raises(SchemaError, match="map of column 'c'"):
        source.recoded({"c": np.array(codes_of_c)})


def test_cliques_must_be_canonical_and_known(source):
    with pytest.raises(SchemaError, match="order of the domain"):
        source.counts([("c", "a")])
    with pytest.raises(SchemaError, match="No column 'z'"):
        source.counts([("z",)])
