"""GUM's laws: rows and domains are kept, errors fall, exact targets are reached, removals are exact."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.fitting.consistency import ConsistentMarginals
from lookalike.sampling.raking import independent_rows
from lookalike.sampling.row_update import GumSchedule, mean_l1, removal_counts, update_rows
from lookalike.schema.domain import Domain


def dependent_table(rows: int, sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, ConsistentMarginals]:
    """Rows whose columns follow one another, and their exact pairs."""
    rng = np.random.default_rng(seed)
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), sizes)
    codes = np.empty((rows, len(sizes)), np.int32, order="F")
    codes[:, 0] = rng.integers(0, sizes[0], rows)
    for i in range(1, len(sizes)):
        follows = codes[:, i - 1] * sizes[i] // sizes[i - 1]
        codes[:, i] = np.where(rng.random(rows) < 0.7, follows, rng.integers(0, sizes[i], rows))
    pairs = tuple(combinations(domain.names, 2))
    tables = []
    for a, b in pairs:
        table = np.zeros(domain.shape((a, b)))
        np.add.at(table, (codes[:, domain.position(a)], codes[:, domain.position(b)]), 1)
        tables.append(table)
    return codes, ConsistentMarginals(domain, pairs, tuple(tables), (0.0,) * len(pairs), float(rows))


def test_exact_targets_are_nearly_reached_from_an_independent_start() -> None:
    _, targets = dependent_table(5000, (4, 6, 3, 5, 2), 0)
    rng = np.random.default_rng(0)
    start = independent_rows(targets, 5000, rng)
    made = update_rows(start, targets, rng, GumSchedule(sweeps=30))
    assert mean_l1(start, targets) > 0.3
    assert mean_l1(made, targets) < 0.02


def test_the_error_falls_with_more_sweeps_and_both_kinds_of_update_are_needed() -> None:
    _, targets = dependent_table(4000, (5, 5, 5, 5, 5, 5), 1)
    start = independent_rows(targets, 4000, np.random.default_rng(1))

    def error(**schedule) -> float:
        return mean_l1(update_rows(start, targets, np.random.default_rng(2), GumSchedule(**schedule)), targets)

    errors = [error(sweeps=sweeps) for sweeps in (1, 5, 25)]
    assert mean_l1(start, targets) > errors[0] > errors[1] > errors[2]
    assert error(sweeps=25, duplicate=(0.0,)) > 2 * errors[2]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(0, 5), st.floats(0, 1))
def test_rows_and_domains_are_kept_whatever_the_targets(seed: int, rows: int, sweeps: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain.of({"a": 1, "b": 3, "c": 4})
    tables = tuple(rng.dirichlet(np.full(domain.cells(c), 0.3)).reshape(domain.shape(c)) for c in (("b", "c"), ("a",)))
    targets = ConsistentMarginals(domain, (("b", "c"), ("a",)), tables, (0.0, 0.0), 1.0)
    start = np.column_stack([rng.integers(0, size, rows) for size in domain.sizes]).astype(np.int32)
    kept = start.copy()
    made = update_rows(start, targets, rng, GumSchedule(sweeps=sweeps, duplicate=(share,)))
    assert made.shape == (rows, 3)
    assert made.min() >= 0
    assert (made.max(axis=0) < domain.sizes).all()
    np.testing.assert_array_equal(start, kept)


def test_no_rows_stay_no_rows() -> None:
    _, targets = dependent_table(50, (2, 2), 0)
    assert update_rows(np.empty((0, 2), np.int32), targets, np.random.default_rng(0)).shape == (0, 2)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 0.99))
def test_beta_is_exact(seed: int, part: float) -> None:
    rng = np.random.default_rng(seed)
    counts, wanted = rng.integers(0, 50, 12), rng.uniform(0, 40, 12)
    excess = np.maximum(counts - wanted, 0)
    needed = part * excess.sum()
    removed = removal_counts(counts, wanted, needed)
    assert removed.sum() == pytest.approx(needed)
    assert (removed <= excess + 1e-9).all()
    held = removed > 0
    if held.any():
        # One beta for all: cells below their excess lose the same share, capped cells at most that share.
        shares = removed[held] / counts[held]
        open_cells = removed[held] < excess[held] - 1e-9
        assert np.ptp(shares[open_cells]) < 1e-9 if open_cells.any() else True
        assert shares.max() <= (shares[open_cells].max() if open_cells.any() else 1) + 1e-9


def test_settled_marginals_are_left_alone() -> None:
    codes, targets = dependent_table(2000, (3, 3, 3), 3)
    made = update_rows(codes, targets, np.random.default_rng(0), GumSchedule(sweeps=5, stop_early=True))
    np.testing.assert_array_equal(made, codes)


def test_settling_never_makes_the_total_error_larger() -> None:
    codes, exact = dependent_table(300, (6, 6, 6, 6, 6), 4)
    rng = np.random.default_rng(5)
    noisy = tuple(np.maximum(table + rng.normal(0, 8, table.shape), 0) for table in exact.tables)
    targets = ConsistentMarginals(exact.domain, exact.cliques, noisy, exact.stddevs, exact.total)
    for sweeps in (1, 2, 5):
        made = update_rows(codes, targets, np.random.default_rng(6), GumSchedule(sweeps=sweeps, stop_early=True))
        assert mean_l1(made, targets) <= mean_l1(codes, targets)


def test_schedule() -> None:
    schedule = GumSchedule(sweeps=50)
    assert [schedule.alpha(t) for t in (0, 19, 20, 40)] == pytest.approx([1, 1, 0.84, 0.84**2])
    assert [schedule.share(t) for t in (46, 47, 48, 49)] == [1.0, 0.5, 1.0, 0.5]
    with pytest.raises(ValueError, match="decay"):
        GumSchedule(decay=0.0)
    with pytest.raises(ValueError, match="sweeps"):
        GumSchedule(sweeps=-1)
