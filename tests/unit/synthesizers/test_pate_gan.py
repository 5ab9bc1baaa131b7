"""PATE-GAN on tables made here. What every method must do is in tests/contract."""

from __future__ import annotations

import numpy as np
import pytest

from lookalike.errors import BudgetError, SchemaError
from lookalike.pipeline import synthesize
from lookalike.synthesizers.pate_gan import PATEGAN, VOTES
from tests.unit.synthesizers.test_dp_wgan import SIZES, joint, table


def release(rows: int, epsilon: float, **settings):
    run = {"schema": SIZES, "epsilon": epsilon, "seed": 1, "insecure_rng": np.random.default_rng(3)}
    return synthesize(table(rows), method="pate-gan", **run, **settings)


def test_it_learns_how_columns_depend_on_each_other() -> None:
    real = joint(table(6000))
    alone = [real.sum(axis=tuple(j for j in range(3) if j != i)) for i in range(3)]
    independent = np.einsum("i,j,k->ijk", *alone)
    made = release(6000, 5.0, rounds=40, generator_rate=5e-3)
    distance = np.abs(joint(made.table) - real).sum() / 2
    assert distance < np.abs(independent - real).sum() / 2 / 2
    assert made.fitted.model.kind == "network"


def test_teachers_and_rounds_follow_the_noisy_number_of_rows() -> None:
    few, many = (release(rows, 2.0, rounds=9).spent.charges[-1] for rows in (200, 8000))
    assert (few.step, many.step) == (VOTES, VOTES)
    assert few.releases < many.releases
    teachers = [int(charge.detail.split()[2]) for charge in (few, many)]
    assert teachers[0] == pytest.approx(10, abs=3)
    assert teachers[1] == pytest.approx(400, abs=20)


def test_without_margins_kept_it_still_makes_rows() -> None:
    assert release(300, 1.0, keep_margins=False).table.num_rows > 0


@pytest.mark.parametrize("setting", ["rounds", "teacher_rows", "teacher_units", "units", "student_steps", "latent"])
def test_settings_below_one_are_refused(setting: str) -> None:
    with pytest.raises(SchemaError, match=setting):
        PATEGAN(**{setting: 0})


def test_rates_and_shares_are_checked() -> None:
    with pytest.raises(BudgetError, match="teacher_rate"):
        PATEGAN(teacher_rate=-1.0)
    with pytest.raises(BudgetError, match="shares"):
        PATEGAN(oneway_share=0.0)
