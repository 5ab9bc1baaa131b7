"""Cell numbers: row-major, the same by every function, and keys where numbers do not fit."""

from __future__ import annotations

import numpy as np

from lookalike.schema.domain import Domain, cell_keys, cell_numbers, counted, rows_by_cell, similar_rows_together

SIZES = (3, 2, 5, 4)
CODES = np.random.default_rng(0).integers(0, SIZES, (500, 4)).astype(np.int32)


def test_numbers_are_row_major_in_any_order_of_columns() -> None:
    for positions in ([], [2], [0, 1, 3], [3, 0], [1, 2, 3, 0]):
        shape = [SIZES[p] for p in positions]
        wanted = np.ravel_multi_index([CODES[:, p] for p in positions], shape) if positions else np.zeros(500)
        np.testing.assert_array_equal(cell_numbers(CODES, positions, SIZES), wanted)
        keys, bound = cell_keys(CODES, positions, SIZES)
        np.testing.assert_array_equal(keys, wanted)
        assert bound == np.prod(shape, dtype=int)


def test_keys_beyond_62_bits_distinguish_the_same_cells_in_the_same_order() -> None:
    sizes = (1000,) * 12
    codes = np.random.default_rng(1).integers(0, 3, (400, 12)).astype(np.int32)
    codes[200:] = codes[:200]
    keys, bound = cell_keys(codes, range(12), sizes)
    assert keys.max() < bound
    ordered = np.lexsort(codes.T[::-1])
    same = (np.diff(codes[ordered], axis=0) == 0).all(axis=1)
    np.testing.assert_array_equal(np.diff(keys[ordered]) == 0, same)
    assert (np.diff(keys[ordered]) >= 0).all()


def test_counts_and_weights_by_cell() -> None:
    domain, weights = Domain(("a", "b", "c", "d"), SIZES), np.random.default_rng(2).random(500)
    found, sums = np.zeros((2, 4)), np.zeros((2, 4))
    np.add.at(found, (CODES[:, 1], CODES[:, 3]), 1)
    np.add.at(sums, (CODES[:, 1], CODES[:, 3]), weights)
    np.testing.assert_array_equal(counted(domain, CODES, ("d", "b")), found)
    np.testing.assert_allclose(counted(domain, CODES, ("b", "d"), weights), sums)
    assert counted(domain, CODES, ()) == 500


def test_rows_sorted_by_cell_and_by_columns() -> None:
    cells = cell_numbers(CODES, [0, 2], SIZES)
    order, starts = rows_by_cell(cells, 15)
    for cell in range(15):
        np.testing.assert_array_equal(order[starts[cell] : starts[cell + 1]], np.flatnonzero(cells == cell))
    sorted_rows = similar_rows_together(CODES, [2, 0], SIZES, np.random.default_rng(3))
    assert (np.diff(cell_numbers(CODES, [2, 0], SIZES)[sorted_rows]) >= 0).all()
    np.testing.assert_array_equal(np.sort(sorted_rows), np.arange(500))
