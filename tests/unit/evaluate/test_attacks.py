"""Attacks succeed where rows leak, fail where they do not, and the bounds are those of the definition."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from lookalike.errors import InputError
from lookalike.evaluate.attacks import Attacked, Guarantee, attack, attack_rows
from lookalike.evaluate.compare import Job, judge_method
from lookalike.evaluate.membership import SCORES, View, all_scores, auc, guessed
from lookalike.evaluate.real_data import Attacks, evaluate
from lookalike.evaluate.report import internal_report
from lookalike.measurements import NoisyMarginal
from lookalike.pipeline import synthesize
from lookalike.schema.domain import Domain, counted
from lookalike.schema.schema import Schema

SIZES = {f"c{i}": 6 for i in range(8)}
DOMAIN = Domain.of(SIZES)


@cache
def people(rows: int, seed: int) -> np.ndarray:
    """Codes of a population whose columns depend on a common cause; most rows are unique."""
    rng = np.random.default_rng(seed)
    cause = rng.integers(0, 6, rows)
    noise = rng.integers(0, 6, (rows, len(SIZES)))
    return np.where(rng.random(noise.shape) < 0.35, cause[:, None], noise).astype(np.int32)


def table(codes: np.ndarray) -> pa.Table:
    return pa.table({name: codes[:, i] for i, name in enumerate(SIZES)})


MEMBERS, CONTROL = people(500, 1), people(2_000, 2)
DISCLOSURE = ("linkability", "inference", "attribute disclosure", "singling out")


def found_of(synth: np.ndarray, **more: Any) -> dict[str, Any]:
    return attack(Attacked(MEMBERS, CONTROL, synth, DOMAIN, **more))


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in (*found["membership"], *found["disclosure"])}


# The attacks work.


def test_every_attack_succeeds_against_a_bootstrap_of_the_rows() -> None:
    rows = MEMBERS[np.random.default_rng(3).integers(0, len(MEMBERS), len(MEMBERS))]
    found = by_name(found_of(rows))
    assert found["closest synthetic row"]["auc"] > 0.75
    assert found["density ratio"]["auc"] > 0.75
    assert found["marginal ratio"]["auc"] > 0.6
    assert found["density ratio"]["found_at_0.01"] > 0.4
    for name in DISCLOSURE:
        assert found[name]["gained"], name
        assert found[name]["members"] > 1.3 * found[name]["control"], name


def test_no_attack_succeeds_against_rows_of_other_people() -> None:
    found = by_name(found_of(people(500, 4)))
    for name in SCORES:
        assert abs(found[name]["auc"] - 0.5) < 0.06 if name in found else name == "released marginals"
    for name in DISCLOSURE:
        assert abs(found[name]["members"] - found[name]["control"]) < 0.08, name


@pytest.mark.parametrize("method", ["independent", "mst"])
def test_attacks_fail_at_epsilon_a_tenth(method: str) -> None:
    release = synthesize(table(MEMBERS), schema=SIZES, method=method, epsilon=0.1, seed=0)
    codes = np.column_stack([release.rows.column(name).to_numpy() for name in SIZES])
    known = {"measurements": release.fitted.measurements, "rows": release.fitted.rows}
    found = by_name(found_of(codes, guarantee=Guarantee.of(release.spent), **known))
    for name in SCORES:
        # Four standard errors of an area under the curve of 500 and 1,000 scores, besides what epsilon allows.
        assert found[name]["auc"] < found[name]["auc_most"] + 4 * 0.016, name
    for name in ("linkability", "inference", "attribute disclosure"):
        assert found[name]["members"] < found[name]["members_most"] + 0.08, name


def test_released_marginals_betray_members_at_a_large_epsilon() -> None:
    rng = np.random.default_rng(5)
    pairs = [(f"c{i}", f"c{j}") for i in range(8) for j in range(i)]
    canonical = [DOMAIN.canonical(pair) for pair in pairs]
    noisy = [
        NoisyMarginal(attrs, exact + rng.normal(0, 0.5, exact.shape), 0.5)
        for attrs in canonical
        for exact in [counted(DOMAIN, MEMBERS, attrs)]
    ]
    found = by_name(found_of(people(500, 4), measurements=noisy, rows=500))
    assert found["released marginals"]["auc"] > 0.65
    assert found["released marginals"]["auc"] > found["marginal ratio"]["auc"] + 0.1


def test_groups_and_contrasts_are_compared_with_what_the_reference_lets_expect() -> None:
    pair = ("c0", "c1")
    counts = counted(DOMAIN, CONTROL, pair)
    groups = np.arange(36).reshape(6, 6) % 5
    grouped = NoisyMarginal(pair, np.bincount(groups.ravel(), counts.ravel()), 1.0, groups)
    from lookalike.measurements import Contrasts

    contrasts = NoisyMarginal(pair, Contrasts((6, 6)).of(counts), 1.0, None, -1, (6, 6))
    for released in (grouped, contrasts):
        view = View(CONTROL, CONTROL, DOMAIN, (), len(CONTROL), [released])
        scores = all_scores(view, MEMBERS)["released marginals"]
        assert np.allclose(scores, 0, atol=1e-9)


def test_shadow_models_learn_which_score_to_trust() -> None:
    def copies(chosen: np.ndarray) -> tuple[np.ndarray, tuple[NoisyMarginal, ...]]:
        return CONTROL[chosen], ()

    found = by_name(found_of(MEMBERS, release=copies, shadows=2))
    assert found["shadow models"]["auc"] > 0.95
    assert found["shadow models"]["auc"] > found["marginal ratio"]["auc"]


def test_shadow_releases_never_contain_attacked_control_rows() -> None:
    marked = np.arange(len(CONTROL))
    asked: list[int] = []

    def watched(chosen: np.ndarray) -> tuple[np.ndarray, tuple[NoisyMarginal, ...]]:
        asked.extend(marked[chosen])
        return CONTROL[chosen], ()

    found = found_of(MEMBERS, release=watched, shadows=3)
    assert len(set(asked)) <= found["rows"]["reference"] // 2
    order = np.random.default_rng([0, 29]).permutation(len(CONTROL))
    assert set(asked) <= set(order[: found["rows"]["reference"]].tolist())


def test_order_of_a_column_counts_in_distances() -> None:
    target, synth = np.array([[0, 0]], dtype=np.int32), np.array([[1, 0], [5, 0]], dtype=np.int32)
    domain = Domain(("a", "b"), (6, 2))
    reference = np.zeros((5, 2), dtype=np.int32)
    for ordered, distance in ((frozenset({0}), 0.2), (frozenset[int](), 1.0)):
        scores = all_scores(View(synth, reference, domain, ordered, 2.0), target)
        assert scores["closest synthetic row"] == pytest.approx(-distance)


# Figures.


def test_area_and_rates_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(0)
    members, control = rng.normal(1, 1, 400).round(1), rng.normal(0, 1, 300).round(1)
    pairs = (members[:, None] > control[None]).mean() + (members[:, None] == control[None]).mean() / 2
    assert auc(members, control) == pytest.approx(pairs)
    figures = guessed(members, control)
    assert figures["auc_low"] < norm.cdf(1 / math.sqrt(2)) < figures["auc_high"]
    thresholds = [t for t in np.unique(control) if np.mean(control > t) <= 0.1]
    assert figures["found_at_0.1"] == pytest.approx(np.mean(members > min(thresholds)))
    assert figures["gained"]
    assert not guessed(control, control)["gained"]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_bounds_follow_from_the_definition(epsilon: float) -> None:
    plain = Guarantee(epsilon, 1e-5)
    gaussian = Guarantee(epsilon, 1e-5, _mu(epsilon))
    chances = np.linspace(0, 1, 201)
    for one in (plain, gaussian, plain.replaced(), gaussian.replaced()):
        most = np.array([one.most(chance) for chance in chances])
        assert (most >= chances - 1e-12).all()
        assert (most <= 1).all()
        assert (np.diff(most, 2) <= 1e-9).all(), "concave, so that averages over people obey it"
        assert (most <= np.exp(one.epsilon) * chances + one.delta + 1e-12).all() or one is gaussian.replaced()
        fine = np.linspace(0, 1, 100_001)
        area = np.trapezoid([one.most(chance) for chance in fine], fine)
        assert one.most_auc == pytest.approx(area, abs=1e-4)
    assert gaussian.most_auc <= plain.most_auc
    assert plain.replaced().epsilon == 2 * epsilon


def _mu(epsilon: float) -> float:
    release = synthesize(table(MEMBERS[:50]), schema=SIZES, method="independent", epsilon=epsilon)
    found = Guarantee.of(release.spent)
    assert found is not None
    assert found.mu is not None
    return found.mu


def test_a_run_without_a_guarantee_has_no_bound() -> None:
    release = synthesize(
        table(MEMBERS), schema=SIZES, method="independent", insecure_rng=np.random.default_rng(0), ledger=None
    )
    assert Guarantee.of(release.spent) is None
    found = found_of(MEMBERS)
    assert found["guarantee"] is None
    assert all(one["auc_most"] is None for one in found["membership"])
    assert not any("allow" in notes for _, _, notes in attack_rows(found))


# Through the evaluation.


def test_the_evaluation_shows_attacks_and_their_bounds() -> None:
    release = synthesize(table(MEMBERS), schema=SIZES, method="independent", epsilon=1.0, seed=0)
    given = Attacks(model=release.fitted, shadows=1)
    found = evaluate(
        table(MEMBERS), release.rows, Schema.from_sizes(SIZES), holdout=table(CONTROL[:300]), attacks=given, orders=(1,)
    )
    names = by_name(found["attacks"])
    assert {"shadow models", *SCORES} <= set(names)
    assert found["attacks"]["guarantee"]["epsilon"] == 1.0
    page = internal_report(found)
    assert "Attacks" in page
    assert "proves nothing about privacy" in page
    assert "NOT PRIVATE" in page
    assert any("epsilon allows" in notes for _, _, notes in found.table())
    json.dumps(found.numbers, allow_nan=False)


def test_attacks_need_control_rows_and_shadows_a_model() -> None:
    synth = table(people(100, 4))
    with pytest.raises(InputError, match="--holdout"):
        evaluate(table(MEMBERS), synth, Schema.from_sizes(SIZES), attacks=Attacks())
    with pytest.raises(InputError, match="at least 40"):
        Attacked(MEMBERS, CONTROL[:10], MEMBERS, DOMAIN)
    with pytest.raises(InputError, match="--model"):
        evaluate(
            table(MEMBERS), synth, Schema.from_sizes(SIZES), holdout=table(CONTROL), attacks=Attacks(shadows=1),
            orders=(1,),
        )  # fmt: skip


def test_a_comparison_sets_a_share_aside_as_control() -> None:
    common = {"table": table(CONTROL[:400]), "schema": Schema.from_sizes(SIZES), "synthesize": synthesize}
    line = judge_method(Job("t", "independent", 1.0, train_share=0.5), **common, attacks=True)
    assert 0.3 < line["attacks"]["auc"] < 0.8  # pyright: ignore[reportIndexIssue]
    assert set(DISCLOSURE) <= set(line["attacks"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="--train-share"):
        judge_method(Job("t", "independent", 1.0), **common, attacks=True)


def test_a_table_of_one_column_has_no_links() -> None:
    one = Domain(("a",), (4,))
    codes = np.random.default_rng(0).integers(0, 4, (100, 1)).astype(np.int32)
    found = attack(Attacked(codes, codes, codes, one))
    assert [entry["name"] for entry in found["disclosure"]] == ["singling out"]
