"""Weighted rows: weights that match marginals, Gibbs sweeps, row exchange, and the model they make."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lookalike.fitting.row_weights import (
    MeasuredCells,
    SingularValues,
    WeightPenalty,
    _add_counts,
    _add_potentials,
    cell_counts,
    fit_weights,
    row_potentials,
)
from lookalike.measurements import Contrasts, NoisyMarginal, completed
from lookalike.models import weighted_rows
from lookalike.models.archive import stored_model
from lookalike.models.graphical import fit
from lookalike.models.intervals import ErrorBars
from lookalike.models.model import RowParts
from lookalike.models.weighted_rows import ReweightedModel, SupportSettings, WeightedRows, distinct_rows, furthest_step
from lookalike.sampling.draws import draw_by_weight, gibbs_sweep, systematic
from lookalike.sampling.exchange import (
    ExchangeSettings,
    MarginalCells,
    _add_weights,
    _exchange_block,
    _exchange_rows,
    choose_rows,
)
from lookalike.schema.domain import Domain, counted
from lookalike.schema.schema import Schema
from lookalike.stored import Stored, taken_apart

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 2, 5))


def joint(domain: Domain = DOMAIN, seed: int = 0) -> np.ndarray:
    table = np.random.default_rng(seed).dirichlet(np.full(domain.cells(), 0.3)) + 0.5 / domain.cells()
    return (table / table.sum()).reshape(domain.sizes)


def marginal_of(table: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    return table.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def measured_pairs(total: float, stddev: float) -> list[NoisyMarginal]:
    singles = [(name,) for name in DOMAIN.names]
    cliques = [*singles, *combinations(DOMAIN.names, 2)]
    return [NoisyMarginal(c, total * marginal_of(joint(), c), stddev) for c in cliques]


def model(settings: SupportSettings) -> ReweightedModel:
    measured = measured_pairs(10_000.0, 1.0)
    network = fit(DOMAIN, [m for m in measured if len(m.attrs) == 1 or m.attrs in {("a", "b"), ("b", "c")}])
    return ReweightedModel(network, measured, settings)


def test_the_variance_of_a_marginal_is_that_of_rows_drawn_at_random() -> None:
    made = model(SupportSettings(whole_domain=0, max_rows=20_000, renewals=0))
    weights, codes = made.rows.weights, made.rows.codes
    for value, variance in enumerate(made.variance(("b",))):
        assert variance == pytest.approx(made.total**2 * np.square(weights[codes[:, 1] == value]).sum())
    assert made.variance(("b", "d")).sum() == pytest.approx(made.variance(("b",)).sum())
    whole = model(SupportSettings())
    assert not whole.variance(("b",)).any(), "all cells of the domain are rows"


def test_rows_are_chosen_with_care_once_in_a_table_of_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing takes most of the time of a part, and further rows matter less."""
    chosen: list[int] = []

    def noted(codes: np.ndarray, weights: np.ndarray, number: int, *given: Any) -> np.ndarray:
        chosen.append(number)
        return choose_rows(codes, weights, number, *given)

    monkeypatch.setattr(weighted_rows, "choose_rows", noted)
    monkeypatch.setattr(weighted_rows, "_PART", 7_000)
    made = model(SupportSettings(max_rows=20_000, whole_domain=0))
    parts = RowParts(made, Schema.from_sizes(dict(zip(DOMAIN.names, DOMAIN.sizes, strict=True))), 60_000, 20_000)
    tables = list(parts)
    assert chosen == [10_000]
    for table in tables:
        codes = np.column_stack([table.column(name).to_numpy() for name in DOMAIN.names])
        found = counted(DOMAIN, codes, ("a", "d")) / len(codes)
        assert np.abs(found - marginal_of(joint(), ("a", "d"))).max() < 0.02
    assert parts[2].equals(tables[2])
    assert not tables[1].equals(tables[2])


@pytest.mark.parametrize("whole_domain", [100_000, 0], ids=["whole domain", "drawn rows"])
def test_sets_outside_the_network_are_met(whole_domain: int) -> None:
    made = model(SupportSettings(max_rows=40_000, whole_domain=whole_domain))
    for clique in combinations(DOMAIN.names, 2):
        wanted = 10_000 * marginal_of(joint(), clique)
        assert np.abs(made.marginal(clique) - wanted).sum() / 20_000 < 0.004, clique
        assert made.marginal(clique).sum() == pytest.approx(made.total)
    outside = np.abs(made.network.marginal(("a", "d")) - 10_000 * marginal_of(joint(), ("a", "d"))).sum() / 20_000
    assert outside > 0.05


@pytest.mark.parametrize("whole_domain", [100_000, 0], ids=["whole domain", "drawn rows"])
def test_contrasts_are_met_whatever_completes_them(whole_domain: int) -> None:
    """Single columns and contrasts of pairs, completed from a model that has single columns quite wrong."""
    other = joint(seed=9)
    measured = [m for m in measured_pairs(10_000.0, 1.0) if len(m.attrs) == 1]
    for pair in [("a", "d"), ("b", "d")]:
        shape = DOMAIN.shape(pair)
        contrasts = Contrasts(shape).of(10_000 * marginal_of(joint(), pair))
        noisy = NoisyMarginal(pair, contrasts, 1.0, contrasts=shape)
        measured.append(completed(noisy, 10_000 * marginal_of(other, pair)))
    network = fit(DOMAIN, [m for m in measured if m.attrs != ("b", "d")], total=10_000)
    made = ReweightedModel(network, measured, SupportSettings(max_rows=40_000, whole_domain=whole_domain))
    for clique in [("a",), ("b",), ("d",), ("a", "d"), ("b", "d")]:
        wanted = 10_000 * marginal_of(joint(), clique)
        assert np.abs(made.marginal(clique) - wanted).sum() / 20_000 < 0.006, clique


@pytest.mark.parametrize("whole_domain", [100_000, 0], ids=["whole domain", "drawn rows"])
def test_sums_of_groups_are_met_and_cells_within_follow_the_rest(whole_domain: int) -> None:
    """The group of two cells of (a, d) has the measured sum; nothing says how the two share it but single columns."""
    groups = np.arange(15).reshape(3, 5)
    groups[1, 1] = groups[1, 0]
    groups = np.unique(groups, return_inverse=True)[1].reshape(3, 5)
    wanted = 10_000 * marginal_of(joint(), ("a", "d"))
    sums = np.bincount(groups.ravel(), wanted.ravel())
    singles = [m for m in measured_pairs(10_000.0, 1.0) if len(m.attrs) == 1]
    measured = [*singles, NoisyMarginal(("a", "d"), sums, 1.0, groups)]
    settings = SupportSettings(max_rows=40_000, whole_domain=whole_domain)
    for network in (fit(DOMAIN, singles), fit(DOMAIN, measured)):
        made = ReweightedModel(network, measured, settings)
        found = made.marginal(("a", "d"))
        assert np.abs(np.bincount(groups.ravel(), found.ravel()) - sums).sum() / 20_000 < 0.004
        meta, arrays = taken_apart(made)
        np.testing.assert_allclose(stored_model(Stored(meta, arrays)).marginal(("a", "d")), found)


@pytest.mark.parametrize("whole_domain", [100_000, 0], ids=["whole domain", "drawn rows"])
def test_impossible_cells_of_the_network_stay_empty(whole_domain: int) -> None:
    impossible = np.zeros(DOMAIN.shape(("a", "d")), dtype=bool)
    impossible[0, :3] = impossible[2, 4] = True
    truth = joint() * ~impossible[:, None, None, :]
    rng = np.random.default_rng(3)
    measured = [
        NoisyMarginal(
            m.attrs, 10_000 * marginal_of(truth / truth.sum(), m.attrs) + rng.normal(0, 5, m.values.shape), 5.0
        )
        for m in measured_pairs(10_000.0, 1.0)
    ]
    network = fit(DOMAIN, [m for m in measured if len(m.attrs) == 1], zeros={("a", "d"): impossible})
    settings = SupportSettings(max_rows=20_000, whole_domain=whole_domain)
    made = ReweightedModel(network, measured, settings)
    assert made.marginal(("a", "d"))[impossible].sum() == 0
    again = stored_model(Stored(*taken_apart(made)))
    assert isinstance(again, ReweightedModel)
    rows = again.sample(2000, np.random.default_rng(1))
    assert not impossible[rows[:, 0], rows[:, 3]].any()
    for noisy in measured:
        assert np.abs(made.marginal(noisy.attrs) - noisy.values).sum() / 20_000 < 0.01, noisy.attrs


def test_rows_are_the_same_for_the_same_seed_and_follow_the_model() -> None:
    made = model(SupportSettings(max_rows=20_000, whole_domain=0))
    rows = made.sample(3000, np.random.default_rng(5))
    assert rows.dtype == np.int32
    assert np.array_equal(rows, made.sample(3000, np.random.default_rng(5)))
    for clique in combinations(DOMAIN.names, 2):
        places = [DOMAIN.position(name) for name in clique]
        counts = np.zeros(DOMAIN.shape(clique))
        np.add.at(counts, tuple(rows[:, places].T), 1)
        # An independent sample of 3000 rows would miss by about 0.01 to 0.02.
        assert np.abs(counts / 3000 - made.marginal(clique) / made.total).sum() / 2 < 0.005


def test_any_number_of_rows_can_be_made() -> None:
    made = model(SupportSettings(max_rows=20_000, whole_domain=0, iterations=5, exchange=ExchangeSettings(passes=1)))
    assert made.sample(0, np.random.default_rng(0)).shape == (0, 4)
    assert made.sample(1, np.random.default_rng(0)).shape == (1, 4)
    many = made.sample(25_000, np.random.default_rng(0))
    assert many.shape == (25_000, 4)
    assert np.all(many < np.array(DOMAIN.sizes))


def test_parts_make_the_same_model() -> None:
    made = model(SupportSettings(max_rows=20_000, whole_domain=0, iterations=10))
    again = stored_model(Stored(*taken_apart(made)))
    assert isinstance(again, ReweightedModel)
    assert again.settings == made.settings
    np.testing.assert_allclose(again.marginal(("a", "c", "d")), made.marginal(("a", "c", "d")))
    assert np.array_equal(again.sample(50, np.random.default_rng(1)), made.sample(50, np.random.default_rng(1)))


def test_repeated_sets_are_refused() -> None:
    measured = measured_pairs(100.0, 1.0)
    with pytest.raises(ValueError, match="each column set once"):
        ReweightedModel(fit(DOMAIN, measured[:4]), [*measured, measured[0]])


def test_compiled_and_plain_sums_agree() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 30, (6, 5000)).astype(np.int32)
    values, weights = rng.normal(size=30), rng.random(5000)
    looped, counted = np.zeros(5000), np.zeros(30)
    _add_potentials(cells[:, :200], values, looped[:200])
    _add_counts(cells[:, :200], weights[:200], counted)
    np.testing.assert_allclose(row_potentials(cells, values)[:200], looped[:200])
    np.testing.assert_allclose(cell_counts(cells[:, :200], weights[:200], 30), counted)
    wide = np.tile(cells, 10)
    np.testing.assert_allclose(row_potentials(wide, values)[:5000], row_potentials(cells, values))
    np.testing.assert_allclose(cell_counts(wide, np.tile(weights, 10), 30), 10 * cell_counts(cells, weights, 30))


def test_cells_without_rows_and_trust_hold_parameters_back() -> None:
    domain = Domain(("a", "b"), (2, 2))
    measured = MeasuredCells(domain, [NoisyMarginal(("a", "b"), np.array([[900.0, 50.0], [30.0, 20.0]]), 1.0)])
    codes = np.array([[0, 0], [0, 1], [1, 0]] * 5, np.int32)
    penalty = WeightPenalty(0.01, 0.0, trust=0.7)
    theta, weights = fit_weights(measured, measured.cells(codes), 1000.0, np.zeros(4), penalty)
    assert theta[3] == 0.0
    assert np.abs(theta).max() <= 0.7 + 1e-9
    assert weights.sum() == pytest.approx(1.0)
    far, far_weights = fit_weights(
        measured, measured.cells(codes), 980.0, np.zeros(4), WeightPenalty(1e-6, 0.0, trust=9.0)
    )
    assert far_weights[::3].sum() * 980 == pytest.approx(900, abs=0.5)
    assert far[3] == 0.0


def test_rows_drawn_several_times_are_fitted_as_one_with_its_share() -> None:
    measured = MeasuredCells(DOMAIN, measured_pairs(10_000.0, 5.0))
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.integers(0, size, 3000) for size in DOMAIN.sizes]).astype(np.int32)
    rows, shares = distinct_rows(DOMAIN, codes)
    assert len(rows) <= DOMAIN.cells() < len(codes)
    base, settings = np.zeros(measured.observed.size), {"penalty": WeightPenalty(), "iterations": 200}
    each = fit_weights(measured, measured.cells(codes), 10_000.0, base, **settings)[1]
    once = fit_weights(measured, measured.cells(rows), 10_000.0, base, **settings, shares=shares)[1]
    assert once.sum() == pytest.approx(1.0)
    counts = [counted(DOMAIN, found, ("a", "d"), weights) for found, weights in ((codes, each), (rows, once))]
    np.testing.assert_allclose(counts[0], counts[1], atol=1e-4)


def test_many_equal_rows_leave_as_many_rows_to_exchange() -> None:
    made = model(SupportSettings(max_rows=20_000, whole_domain=0))
    assert made.rows.drawn == 20_000
    assert len(made.rows.codes) <= DOMAIN.cells()
    assert len(np.unique(made.rows.codes, axis=0)) == len(made.rows.codes)
    assert len(made.sample(10_000, np.random.default_rng(1))) == 10_000


def test_rare_values_of_single_columns_are_raised_less() -> None:
    domain = Domain(("a",), (3,))
    measured = MeasuredCells(domain, [NoisyMarginal(("a",), np.array([980.0, 19.0, 1.0]), 5.0)])
    cells = measured.cells(np.arange(3, dtype=np.int32)[:, None])

    def rare(single: float) -> float:
        penalty = WeightPenalty(0.5, 0.0, trust=np.inf, single=single)
        return 1000.0 * fit_weights(measured, cells, 1000.0, np.zeros(3), penalty)[1][2]

    assert 1.0 < rare(0.3) < 0.7 * rare(1.0)


def test_gibbs_leaves_the_model_unchanged_and_finds_it() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 2))
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 2))]
    scopes = [(0, 1), (1, 2), (0, 2)]
    exact = np.exp(tables[0][:, :, None] + tables[1][None] + tables[2][:, None, :])
    exact /= exact.sum()
    codes = np.asfortranarray(
        np.column_stack([rng.integers(0, size, 40_000) for size in domain.sizes]).astype(np.int32)
    )
    for _ in range(12):
        gibbs_sweep(domain, codes, scopes, tables, rng)
    counts = np.zeros(domain.sizes)
    np.add.at(counts, tuple(codes.T), 1)
    assert np.abs(counts / 40_000 - exact).max() < 0.015


def test_gibbs_moves_columns_that_determine_each_other() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 3))
    rng = np.random.default_rng(4)
    tables = [rng.normal(size=(2, 3)), np.where(np.eye(3) > 0, 0.0, -np.inf), rng.normal(size=3)]
    scopes = [(0, 1), (1, 2), (2,)]
    codes = np.asfortranarray(np.zeros((40_000, 3), np.int32))
    for _ in range(12):
        gibbs_sweep(domain, codes, scopes, tables, rng)
    assert (codes[:, 1] == codes[:, 2]).all()
    exact = np.exp(tables[0] + tables[2])
    counts = np.zeros((2, 3))
    np.add.at(counts, (codes[:, 0], codes[:, 1]), 1)
    assert np.abs(counts / 40_000 - exact / exact.sum()).max() < 0.015


def test_exchange_beats_a_plain_draw_in_every_order() -> None:
    rng = np.random.default_rng(1)
    cells = rng.choice(DOMAIN.cells(), 20_000, p=joint().ravel())
    codes = np.column_stack(np.unravel_index(cells, DOMAIN.sizes)).astype(np.int32)
    weights = rng.random(20_000)
    weights /= weights.sum()

    def misses(chosen: np.ndarray, order: int) -> float:
        marginals = MarginalCells(DOMAIN, ExchangeSettings(orders=(order,)))
        wanted = marginals.counts(codes, weights * 2000)
        return float(np.abs(marginals.counts(codes[chosen], np.ones(2000)) - wanted).sum())

    chosen = choose_rows(codes, weights, 2000, ExchangeSettings(), DOMAIN, np.random.default_rng(2))
    plain = draw_by_weight(weights, 2000, np.random.default_rng(2))
    assert misses(chosen, 2) < 0.4 * misses(plain, 2)
    assert misses(chosen, 3) < 0.5 * misses(plain, 3)


def test_marginal_cells_count_like_histograms_and_keep_their_limits() -> None:
    codes = np.column_stack(np.unravel_index(np.arange(120), DOMAIN.sizes)).astype(np.int32)
    pairs = MarginalCells(DOMAIN, ExchangeSettings(orders=(2,)))
    assert pairs.count == sum(DOMAIN.cells(pair) for pair in combinations(DOMAIN.names, 2))
    assert pairs.counts(codes, np.ones(120)).sum() == 6 * 120
    assert MarginalCells(DOMAIN, ExchangeSettings(orders=(2, 3), cells=30)).count <= 30
    assert MarginalCells(Domain(("a",), (3,)), ExchangeSettings()).count == 0


def test_systematic_draws_are_within_one_of_expectation() -> None:
    weights = np.array([0.0, 3.0, 1.5, 0.5])
    counts = np.bincount(systematic(weights, 20, np.random.default_rng(0)), minlength=4)
    assert np.all(np.abs(counts - 4 * weights) <= 1)
    assert counts[0] == 0


def test_compiled_exchange_is_the_block_exchange_with_blocks_of_one_row() -> None:
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.integers(0, size, 60) for size in DOMAIN.sizes]).astype(np.int32)
    marginals = MarginalCells(DOMAIN, ExchangeSettings())
    chosen, pools = rng.integers(0, 60, 40), rng.integers(0, 60, (2, 40))
    wanted = marginals.counts(codes, np.full(60, 40 / 60))
    looped = np.zeros_like(wanted)
    _add_weights(codes, np.full(60, 40 / 60), *marginals.layout, looped)
    np.testing.assert_allclose(looped, wanted)
    worth = 1.0 / (wanted + 0.5)
    slope = 2.0 * (marginals.counts(codes[chosen], np.ones(40)) - wanted) * worth
    ours, cells, theirs, their_slope = chosen.copy(), np.column_stack([slope, worth]), chosen.copy(), slope.copy()
    _exchange_rows(codes, ours, pools, *marginals.layout, cells)
    for row in range(40):
        _exchange_block(codes, theirs, slice(row, row + 1), list(pools), marginals, worth, their_slope)
    assert np.array_equal(ours, theirs)
    assert (ours != chosen).sum() > 10
    np.testing.assert_allclose(cells[:, 0], their_slope, atol=1e-9)


def survey_with_skips(rows: int, seed: int = 0, wide: int = 16) -> np.ndarray:
    """Codes of columns that are "not applicable" together and determine each other."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 8, rows)
    works, moved = (age > 2) & (rng.random(rows) < 0.6), rng.random(rows) < 0.08
    job = np.where(works, 1 + (rng.zipf(1.5, rows) + age) % (wide - 1), 0)
    other = (rng.random(rows) < 0.3) * rng.integers(0, wide - 1, rows)
    trade = np.where(works, 1 + (5 * job + other) % (wide - 1), 0)
    hours = np.where(works, 1 + rng.integers(0, 5, rows) * (job % 2), 0)
    kind = np.where(works, 1 + (trade + rng.integers(0, 2, rows)) % 6, 0)
    status = works.astype(int) + (works & (rng.random(rows) < 0.3))
    place = np.where(moved, 1 + rng.integers(0, wide - 1, rows), 0)
    major = [(codes + 3) // 4 for codes in (job, trade, place)]
    return np.column_stack([age, status, job, trade, hours, kind, moved, place, *major]).astype(np.int32)


def measured_survey(stddev: float, rows: int = 8000) -> tuple[Domain, list[NoisyMarginal]]:
    """All columns and pairs of the survey, with noise."""
    codes, rng = survey_with_skips(rows), np.random.default_rng(1)
    domain = Domain(tuple("abcdefghijk"), tuple(int(top) + 1 for top in codes.max(axis=0)))
    cliques = [*((name,) for name in domain.names), *combinations(domain.names, 2)]
    measured = []
    for clique in cliques:
        cells = np.ravel_multi_index([codes[:, domain.position(name)] for name in clique], domain.shape(clique))
        counts = np.bincount(cells, minlength=domain.cells(clique)).reshape(domain.shape(clique))
        measured.append(NoisyMarginal(clique, counts + rng.normal(0, stddev, counts.shape), stddev))
    return domain, measured


def off(model: ReweightedModel, order: int) -> float:
    """Mean share of rows in a wrong cell of the measured sets of so many columns, noise among it."""
    sets = [m for m in model.measurements if len(m.attrs) == order]
    return float(np.mean([np.abs(model.marginal(m.attrs) - m.values).sum() for m in sets])) / (2 * model.total)


def test_single_columns_stay_right_where_rows_cannot_carry_what_was_measured() -> None:
    domain, measured = measured_survey(6.0)
    independent = fit(domain, [m for m in measured if len(m.attrs) == 1])
    weighted = ReweightedModel(independent, measured, SupportSettings(max_rows=20_000))
    assert off(weighted, 1) < 0.01
    assert off(weighted, 2) < 0.6 * np.mean(
        [np.abs(independent.marginal(m.attrs) - m.values).sum() / (2 * weighted.total) for m in measured[11:]]
    )


def test_columns_lie_in_the_intervals_that_reports_show_whatever_the_fit() -> None:
    """The rows of a network of columns alone cannot carry the pairs; the columns are right all the same."""
    domain, measured = measured_survey(6.0)
    network = fit(domain, [m for m in measured if len(m.attrs) == 1])
    model = ReweightedModel(network, measured, SupportSettings(max_rows=20_000, iterations=20, renewals=0))
    bars = ErrorBars(domain, measured)
    for name in domain.names:
        counts = model.marginal((name,))
        shown = bars.marginal((name,), counts, model.total)
        assert np.mean((counts >= shown.low) & (counts <= shown.high)) >= 0.9, name
    assert model.rows.raked


def test_a_single_value_that_the_weights_miss_is_raked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty values, one of them 8 stddevs off: the chi-square of the column is about 2, and yet it is raked."""
    domain = Domain.of({"a": 30, "b": 30, "c": 30, "d": 30})
    columns = [NoisyMarginal((name,), np.full(30, 1000.0), 10.0) for name in domain.names]
    made = ReweightedModel(fit(domain, columns, total=30_000.0), columns, SupportSettings(max_rows=20_000))
    codes = np.random.default_rng(0).integers(0, 30, (20_000, 4)).astype(np.int32)
    even = np.ones(len(codes))
    for place in range(4):
        even /= np.bincount(codes[:, place], even, minlength=30)[codes[:, place]]
    odd = even * np.where(codes[:, 0] == 3, 1.06, 1.0)
    held = [
        30_000 * np.bincount(codes[:, 0], w / w.sum(), minlength=30)
        for w in (odd, made._with_columns(WeightedRows(codes, odd / odd.sum(), np.empty(0))).weights)
    ]
    assert np.mean(((held[0] - 1000) / 10) ** 2) < 2.0 < 3.0 < (held[0].max() - 1000) / 10
    assert (held[1].max() - 1000) / 10 < 1.0


def test_a_column_that_the_network_misses_follows_its_own_noisy_counts() -> None:
    domain = Domain.of({"a": 3, "b": 30, "c": 30, "d": 30})
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    columns = [NoisyMarginal((name,), np.full(size, 30_000.0 / size), 10.0) for name, size in sizes.items()]
    missed = [NoisyMarginal(("a",), np.array([9000.0, 10_000.0, 11_000.0]), 10.0), *columns[1:]]
    made = ReweightedModel(fit(domain, missed, total=30_000.0), columns, SupportSettings(max_rows=20_000))
    codes = made.network.sample(20_000, np.random.default_rng(0))
    weights = made._with_columns(WeightedRows(codes, np.full(len(codes), 1 / len(codes)), np.empty(0))).weights
    held = 30_000 * np.bincount(codes[:, 0], weights, minlength=3)
    assert np.abs(held - 10_000).max() < 10.0


def test_rows_reach_a_distant_distribution_in_steps_that_keep_enough_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two pairs, and weights for all 55: in one step the weights rest on a few hundred rows, which fail."""
    domain, measured = measured_survey(6.0)
    pairs = (("a", "b"), ("d", "e"))
    network = fit(domain, [m for m in measured if len(m.attrs) == 1 or m.attrs in pairs])
    settings = SupportSettings(max_rows=40_000)
    in_steps = off(ReweightedModel(network, measured, settings), 2)
    monkeypatch.setattr("lookalike.models.weighted_rows._EFFECTIVE", 1e-4)
    at_once = off(ReweightedModel(network, measured, settings), 2)
    assert in_steps < 0.03 < 0.06 < at_once


@given(
    potentials=arrays(float, 20, elements=st.floats(-50, 50)),
    draws=arrays(float, 20, elements=st.floats(0.01, 1)),
    least=st.floats(0.05, 0.95),
)
def test_a_step_is_as_long_as_the_effective_rows_allow(potentials: Any, draws: Any, least: float) -> None:
    shares = draws / draws.sum()
    step, weights = furthest_step(potentials, shares, least)
    effective = 1 / float((weights**2 / shares).sum())
    assert 0 < step <= 1
    assert weights.sum() == pytest.approx(1)
    assert effective >= least - 0.01
    assert step == 1 or effective == pytest.approx(least, abs=0.01)


def test_rows_whose_renewal_explains_less_are_kept_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, measured = measured_survey(6.0, rows=4000)
    network = fit(domain, [m for m in measured if len(m.attrs) == 1])
    drawn_codes = network.sample(20_000, np.random.default_rng([20, 0]))

    def spoil(domain: Domain, codes: np.ndarray, *_: object) -> None:
        codes[:] = np.random.default_rng(0).integers(0, domain.sizes, codes.shape)

    monkeypatch.setattr("lookalike.models.weighted_rows.gibbs_sweep", spoil)
    rows = ReweightedModel(network, measured, SupportSettings(max_rows=20_000, iterations=5)).rows
    assert np.array_equal(rows.codes, distinct_rows(domain, drawn_codes)[0])


PAIR = Domain(("x", "y"), (8, 6))


def one_pattern(total: float) -> np.ndarray:
    """Counts of two columns of which low values of one go with low values of the other: one singular value."""
    x, y = np.linspace(-1, 1, 8), np.linspace(-1, 1, 6)
    table = np.exp(1.2 * np.outer(x, y))
    return total * table / table.sum()


@pytest.mark.parametrize("grouped", [False, True])
def test_the_penalty_on_singular_values_and_its_slope(grouped: bool) -> None:
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.arange(48) % 20).reshape(8, 6) if grouped else None
    counts = rng.uniform(0, 50, 20 if grouped else (8, 6))
    measured = MeasuredCells(
        PAIR, [NoisyMarginal(("x",), np.ones(8), 2.0), NoisyMarginal(("x", "y"), counts, 2.0, groups)]
    )
    penalty = SingularValues(measured, measured.sigma, 0.5)
    assert penalty.cells.tolist() == [0.0] * 8 + [1.0] * counts.size
    theta = rng.normal(0, 1, measured.observed.size)
    table = theta[8:][groups] if grouped else theta[8:].reshape(8, 6)
    value, slope = penalty(theta)
    unsmoothed = 0.5 * 2.0 * (np.sqrt(8) + np.sqrt(6)) * np.linalg.svd(table)[1].sum()
    assert unsmoothed < value < 1.02 * unsmoothed
    for place in range(theta.size):
        step = np.zeros(theta.size)
        step[place] = 1e-5
        assert slope[place] == pytest.approx((penalty(theta + step)[0] - penalty(theta - step)[0]) / 2e-5, abs=1e-5)


def test_singular_values_are_of_pairs_of_counts_whose_columns_have_three_values() -> None:
    domain = Domain(("a", "b", "c"), (2, 5, 5))
    shapes = {("a", "b"): (2, 5), ("b", "c"): (5, 5), ("a", "b", "c"): (2, 5, 5)}
    counted_ = [NoisyMarginal(attrs, np.ones(shape), 1.0) for attrs, shape in shapes.items()]
    measured = MeasuredCells(domain, counted_)
    cells = SingularValues(measured, measured.sigma, 0.2).cells
    assert cells.tolist() == [0.0] * 10 + [1.0] * 25 + [0.0] * 50
    contrasts = [NoisyMarginal(("b", "c"), np.zeros((5, 5)), 1.0, contrasts=(5, 5))]
    measured = MeasuredCells(domain, contrasts)
    assert not SingularValues(measured, measured.sigma, 0.2).cells.any()
    assert not SingularValues(MeasuredCells(domain, counted_), np.ones(85), 0.0).cells.any()


def test_few_patterns_are_found_in_more_noise() -> None:
    """Two columns that go together in one way are estimated better than by a penalty on each cell."""
    total, stddev = 2000.0, 15.0
    true, codes = one_pattern(total), np.argwhere(np.ones((8, 6))).astype(np.int32)
    errors = {0.0: 0.0, 0.2: 0.0}
    for seed in range(20):
        noisy = true + np.random.default_rng(seed).normal(0, stddev, true.shape)
        measured = MeasuredCells(PAIR, [NoisyMarginal(("x", "y"), noisy, stddev)])
        for rank in errors:
            penalty = WeightPenalty(rank=rank)
            _, weights = fit_weights(measured, measured.cells(codes), total, np.zeros(48), penalty)
            errors[rank] += float(np.abs(total * weights - true.ravel()).sum())
    assert errors[0.2] < 0.95 * errors[0.0]
