"""Contrasts: the projection they are defined by, in three forms that must agree."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import (
    CellTable,
    Contrasts,
    ContrastSpace,
    NoisyMarginal,
    averaged,
    completed,
    estimated_total,
    merged_columns,
    total_stddev,
)

SHAPES = [(2,), (5,), (2, 2), (3, 4), (2, 3, 4), (2, 1, 3), (2, 2, 2, 2)]


def projection(shape: tuple[int, ...]) -> np.ndarray:
    """The orthogonal projection onto the complement of the total, and of the single axes where there are several."""
    cells = int(np.prod(shape))
    index = np.indices(shape).reshape(len(shape), cells)
    known = [np.ones((1, cells))]
    if len(shape) > 1:
        known += [(index[axis] == np.arange(size)[:, None]).astype(float) for axis, size in enumerate(shape)]
    basis = np.linalg.svd(np.vstack(known).T, full_matrices=False)
    space = basis.U[:, basis.S > 1e-9]
    return np.eye(cells) - space @ space.T


@pytest.mark.parametrize("shape", SHAPES)
def test_contrasts_are_the_orthogonal_complement_of_what_is_known(shape: tuple[int, ...]) -> None:
    contrasts, expected = Contrasts(shape), projection(shape)
    counts = np.random.default_rng(0).integers(0, 50, shape)
    np.testing.assert_allclose(contrasts.of(counts).ravel(), expected @ counts.ravel(), atol=1e-9)
    np.testing.assert_allclose(contrasts.scaled(counts) / contrasts.cells, contrasts.of(counts), atol=1e-9)
    assert contrasts.dimensions == round(np.trace(expected))
    assert contrasts.scaled(counts).dtype == np.int64


def test_a_space_projects_every_part_and_leaves_the_rest() -> None:
    shapes = [(3, 4), (2, 2, 2)]
    parts = [(slice(2, 14), shapes[0]), (slice(14, 22), shapes[1])]
    space = ContrastSpace(25, [(where, shape, np.indices(shape).reshape(len(shape), -1)) for where, shape in parts])
    flat = np.random.default_rng(1).normal(size=25)
    found = space(flat)
    np.testing.assert_allclose(found[:2], flat[:2])
    np.testing.assert_allclose(found[22:], flat[22:])
    for where, shape in parts:
        np.testing.assert_allclose(found[where], Contrasts(shape).of(flat[where].reshape(shape)).ravel(), atol=1e-12)
    np.testing.assert_allclose(space(found), found, atol=1e-12)
    np.testing.assert_array_equal(ContrastSpace(25, [])(flat), flat)


def test_columns_that_merge_nothing_need_no_groups() -> None:
    assert merged_columns(("a", "b"), [np.arange(3), np.arange(2)]).groups is None
    table = merged_columns(("a", "b"), [np.array([0, 1, 1]), np.arange(2)])
    counts = np.array([[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(table.sums(counts).reshape(table.shape), [[1, 2], [8, 10]])


@pytest.mark.parametrize("groups", [None, np.array([[0, 1, 1], [2, 3, 3]])])
def test_completed_counts_have_the_measured_contrasts_and_the_models_rest(groups: np.ndarray | None) -> None:
    shape = (2, 3) if groups is None else (2, 2)
    table = CellTable(("a", "b"), shape, groups)
    truth, model = np.array([[9.0, 1.0, 4.0], [2.0, 8.0, 3.0]]), np.full((2, 3), 4.5)
    sums, contrasts = table.sums(truth), Contrasts(shape)
    noisy = NoisyMarginal(("a", "b"), contrasts.of(sums), 1.0, groups, contrasts=shape)
    full = completed(noisy, model)
    np.testing.assert_allclose(contrasts.of(full.values), contrasts.of(sums), atol=1e-12)
    np.testing.assert_allclose(full.values.reshape(shape).sum(axis=0), table.sums(model).reshape(shape).sum(axis=0))
    assert full.contrasts == shape


def test_contrasts_do_not_count_rows_and_repeats_are_averaged_apart_from_counts() -> None:
    counts = NoisyMarginal(("a",), np.array([6.0, 4.0]), 1.0)
    first = NoisyMarginal(("a",), np.array([1.0, -1.0]), 1.0, contrasts=(2,))
    second = NoisyMarginal(("a",), np.array([4.0, -4.0]), 2.0, contrasts=(2,))
    assert estimated_total([counts, first]) == 10.0
    assert total_stddev([counts, first]) == pytest.approx(2**0.5)
    assert total_stddev([first]) == 0
    means = averaged([counts, first, second])
    assert [m.contrasts for m in means] == [None, (2,)]
    np.testing.assert_allclose(means[1].values, [1.6, -1.6])
    with pytest.raises(ValueError, match="contrasts"):
        NoisyMarginal(("a",), np.zeros(2), 1.0, contrasts=(3,))
