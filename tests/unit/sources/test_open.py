import pickle
import time

import numpy as np
import pytest

from lookalike.errors import ModelTooLargeError, SchemaError
from lookalike.schema.domain import Domain
from lookalike.sources.counting import BLOCK_ROWS
from lookalike.sources.open import MemorySource


def test_refuses_codes_outside_the_domain():
    with pytest.raises(SchemaError, match=r"outside 0\.\.1"):
        MemorySource(Domain.of({"a": 2}), np.array([[2]]))
    with pytest.raises(SchemaError, match=r"outside 0\.\.1"):
        MemorySource(Domain.of({"a": 2}), np.array([[-1]]))
    with pytest.raises(SchemaError, match="need 1 columns"):
        MemorySource(Domain.of({"a": 2}), np.zeros((3, 2)))


def test_shows_and_pickles_no_data():
    source = MemorySource(Domain.of({"a": 2}), np.array([[1], [1], [0]]))
    assert repr(source) == "MemorySource(1 columns)"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(source)


def test_too_many_cells_are_refused_before_counting():
    domain = Domain.of({"a": 100_000, "b": 10_000})
    with pytest.raises(ModelTooLargeError, match=r"1e\+09 cells"):
        MemorySource(domain, np.zeros((1, 2))).counts([("a", "b")])


def test_many_pairs_over_several_blocks_are_fast():
    rng = np.random.default_rng(0)
    sizes = {f"a{i}": 16 for i in range(15)}
    codes = rng.integers(0, 16, (BLOCK_ROWS + 1000, 15))
    source = MemorySource(Domain.of(sizes), codes)
    pairs = [(f"a{i}", f"a{j}") for i in range(15) for j in range(i + 1, 15)]
    start = time.process_time()
    counts = source.counts(pairs)
    assert time.process_time() - start < 1.0
    assert all(table.sum() == len(codes) for table in counts)
