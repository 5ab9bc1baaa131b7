"""The diagnosis of fits: numbers that a model explains, numbers that it does not, in cells, groups and contrasts."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.measurements import Contrasts, NoisyMarginal
from lookalike.models.graphical import fit
from lookalike.models.model import CHI_LIMIT, COLUMN_LIMIT, diagnose, misfit_of
from lookalike.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c"), (4, 5, 3))
RNG = np.random.default_rng(0)
JOINT = 10_000 * RNG.dirichlet(np.full(60, 0.5)).reshape(DOMAIN.sizes)
PAIR = JOINT.sum(axis=2)


def noisy(attrs: tuple[str, ...], stddev: float = 20.0, shift: float = 0.0) -> NoisyMarginal:
    counts = JOINT.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in attrs))
    counts = counts + RNG.normal(0, stddev, counts.shape)
    counts.flat[0] += shift
    counts.flat[1] -= shift
    return NoisyMarginal(attrs, counts, stddev)


def grouped(stddev: float) -> NoisyMarginal:
    groups = np.arange(20).reshape(4, 5) // 2
    return NoisyMarginal(
        ("a", "b"), np.bincount(groups.ravel(), PAIR.ravel()) + RNG.normal(0, stddev, 10), stddev, groups
    )


def contrasts(stddev: float) -> NoisyMarginal:
    values = Contrasts((4, 5)).of(PAIR + RNG.normal(0, stddev, (4, 5)))
    return NoisyMarginal(("a", "b"), values, stddev, contrasts=(4, 5))


def test_a_fit_of_its_measurements_is_explained() -> None:
    measured = [noisy(("a",)), noisy(("b",)), noisy(("c",)), noisy(("a", "b")), noisy(("b", "c"))]
    found = diagnose(fit(DOMAIN, measured), measured)
    assert len(found.misfits) == 5
    assert max(m.chi_square for m in found.misfits) < CHI_LIMIT
    assert found.notes == ()


def test_a_model_of_other_numbers_is_announced_by_its_worst_column() -> None:
    honest = [noisy((name,)) for name in DOMAIN.names]
    found = diagnose(fit(DOMAIN, honest), [honest[0], noisy(("b",), shift=800.0), honest[2]])
    assert [m.attrs for m in found.unexplained] == [("b",)]
    assert found.misfits[0].excess == pytest.approx(0.08, abs=0.01)
    assert "b (" in found.notes[0]


def test_what_is_off_by_less_than_the_limit_is_no_reason_for_a_notice() -> None:
    shift = 0.8 * COLUMN_LIMIT * 10_000
    model = fit(DOMAIN, [noisy((name,), stddev=0.5) for name in DOMAIN.names])
    found = diagnose(model, [noisy(("a",), stddev=0.5, shift=shift)])
    assert found.misfits[0].chi_square > CHI_LIMIT
    assert found.notes == ()


@pytest.mark.parametrize("measure", [grouped, contrasts])
def test_groups_and_contrasts_are_judged_by_what_was_measured(measure) -> None:
    chi = [misfit_of(measure(5.0), PAIR, 10_000.0).chi_square for _ in range(40)]
    assert np.mean(chi) == pytest.approx(1.0, abs=0.2)
    wrong = np.roll(PAIR, 1, axis=0)
    assert misfit_of(measure(5.0), wrong, 10_000.0).chi_square > 10 * CHI_LIMIT


def test_contrasts_say_nothing_of_the_total_and_of_single_columns() -> None:
    measured = contrasts(5.0)
    other = PAIR + 50.0 + 30.0 * np.arange(5)
    assert misfit_of(measured, other, 10_000.0).chi_square == pytest.approx(
        misfit_of(measured, PAIR, 10_000.0).chi_square
    )


def test_repeats_count_as_their_mean() -> None:
    counts = JOINT.sum(axis=(1, 2))
    up, down = (NoisyMarginal(("a",), counts + d, 10.0) for d in (60.0, -60.0))
    model = fit(DOMAIN, [NoisyMarginal(("a",), counts, 0.1)])
    assert diagnose(model, [up, down]).misfits[0].chi_square < 0.1
    assert diagnose(model, [up]).misfits[0].chi_square > CHI_LIMIT


def test_a_sample_of_fewer_rows_is_not_judged() -> None:
    """As of seeded rows, of which only so many are released as were asked for."""
    measured = [noisy(("a",)), noisy(("b",))]
    assert diagnose(fit(DOMAIN, measured, total=50.0), measured).misfits == ()
    assert diagnose(fit(DOMAIN, measured, total=8_000.0), measured).notes


def test_noise_alone_is_hardly_ever_a_misfit() -> None:
    """Also of columns with one or two values in a small table, where the noise is a large share of the rows."""
    rng = np.random.default_rng(1)
    for size in (1, 2, 5):
        counts = np.full(size, 200.0 / size)
        domain = Domain(("a",), (size,))
        model = fit(domain, [NoisyMarginal(("a",), counts, 1.0)])
        runs = [NoisyMarginal(("a",), counts + rng.normal(0, 20, size), 20.0) for _ in range(1000)]
        assert [run for run in runs if diagnose(model, [run]).notes] == []
    assert diagnose(model, [NoisyMarginal(("a",), counts + 200 * np.eye(size)[0], 20.0)]).notes
