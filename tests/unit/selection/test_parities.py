"""Parities: what they are, what noise and charge they have, what they find and do not find, when nothing is spent."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from lookalike.models.graphical import GraphicalModel, fit
from lookalike.models.weighted_rows import ReweightedModel, SupportSettings
from lookalike.privacy.kernel.accounting import Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable, open_table
from lookalike.privacy.ledger import Ledger
from lookalike.schema.domain import ColumnSet
from lookalike.schema.schema import Schema
from lookalike.selection.parities import CHANCE, LEAST, MAX_FOUND, Parities, mean_products
from tests.made_tables import parity_table

RHO = 0.02 * float(Budget(1.0, 1e-5, "gdp").rho)
"""What a run of epsilon 1 spends on parities."""


def door_on(codes: np.ndarray, sizes: dict[str, int], seed: int, neighbours: Neighbours | None = None) -> GuardedTable:
    budget, people = Budget(100.0, 1e-5, "gdp"), neighbours or Neighbours()
    run = Ledger(None, "t").begin(method="m", schema="", budget=budget, neighbours=people, noise="reproducible")
    table = pa.table({name: codes[:, i] for i, name in enumerate(sizes)})
    rng = np.random.default_rng(seed)
    return open_table(table, Schema.from_sizes(sizes), budget, run, neighbours=people, insecure_rng=rng)


def independent_of(door: GuardedTable) -> tuple[GraphicalModel, ReweightedModel]:
    """The model of independent columns, and its weighted rows."""
    oneways = door.measure([(name,) for name in door.domain.names], 1.0, step="columns")
    network = fit(door.domain, oneways)
    return network, ReweightedModel(network, oneways, SupportSettings(max_rows=20_000, renewals=0, iterations=3))


def found_in(codes: np.ndarray, sizes: dict[str, int], draws: int) -> list[list[ColumnSet]]:
    """What is found with so many draws of the noise, beyond independent columns."""
    door = door_on(codes, sizes, 0)
    network, model = independent_of(door)
    measured = [Parities.of(door, network, RHO, step="parities") for _ in range(draws)]
    return [parities.unexplained(model) for parities in measured if parities is not None]


def test_mean_products_are_those_of_every_set() -> None:
    rng = np.random.default_rng(0)
    signs, weights = rng.choice([-1.0, 1.0], (50, 7)), rng.dirichlet(np.ones(50))
    for order in (3, 4, 5, 7):
        expected = [weights @ signs[:, list(places)].prod(axis=1) for places in combinations(range(7), order)]
        np.testing.assert_allclose(mean_products(signs, weights, order), expected)


@pytest.mark.parametrize("neighbours", [Neighbours(), Neighbours("replace", 2)], ids=["added", "replaced"])
def test_parities_have_the_stated_noise_and_cost_no_more_than_they_may(neighbours: Neighbours) -> None:
    codes, sizes = parity_table(20_000, 9, order=3, values=3)
    door = door_on(codes, sizes, 0, neighbours)
    network, _ = independent_of(door)
    before, rho = door.remaining, RHO * neighbours.squared_l2
    parities = Parities.of(door, network, rho, step="parities")
    assert parities is not None
    assert 0.99 * rho < before - door.remaining <= rho * (1 + 1e-9)
    signs = np.column_stack([1 - 2 * parities.halves[name][codes[:, i]] for i, name in enumerate(sizes)])
    weights = np.full(len(codes), 1.0)
    exact = np.concatenate([mean_products(signs, weights, k) for k in range(3, parities.order + 1)])
    ratios = (parities.values - exact) / parities.stddevs
    assert len(ratios) == 84 + 126 + 126 + 84
    assert np.sqrt(np.mean(ratios**2)) == pytest.approx(1.0, abs=0.15)


def test_no_noise_is_less_than_needed() -> None:
    codes, sizes = parity_table(20_000, 6, order=2)
    door = door_on(codes, sizes, 0)
    network, _ = independent_of(door)
    before = door.remaining
    assert Parities.of(door, network, 5.0, step="parities") is not None
    assert before - door.remaining < 0.1


@pytest.mark.parametrize(("order", "values"), [(2, 2), (3, 2), (4, 2), (2, 7), (3, 4), (4, 6)])
def test_the_set_that_holds_together_is_found_and_no_other(order: int, values: int) -> None:
    codes, sizes = parity_table(20_000, 10, order=order, values=values)
    expected = (*(f"c{i}" for i in range(order)), "c9")
    found = found_in(codes, sizes, draws=5)
    assert len(found) == 5
    assert all(expected in sets for sets in found)
    assert sum(len(sets) for sets in found) <= 7


def test_a_weak_parity_is_found_as_far_as_it_should_show() -> None:
    """A correlation of LEAST; of that of a seventh nothing is seen."""
    for flips, least, most in ((0.5 * (1 - LEAST), 9, 10), (0.5 * (1 - LEAST / 7), 0, 1)):
        codes, sizes = parity_table(20_000, 10, order=2, flips=flips)
        seen = sum(("c0", "c1", "c9") in sets for sets in found_in(codes, sizes, draws=10))
        assert least <= seen <= most


def test_nothing_is_found_where_columns_are_independent() -> None:
    """Of two to six values of any frequency; chance finds something in one of twenty draws."""
    rng = np.random.default_rng(5)
    sizes = {f"c{i}": int(size) for i, size in enumerate(rng.integers(2, 7, 9))}
    shares = [rng.dirichlet(np.ones(size)) for size in sizes.values()]
    codes = np.column_stack([rng.choice(len(share), 20_000, p=share) for share in shares])
    found = found_in(codes, sizes, draws=50)
    assert len(found) == 50
    assert sum(bool(sets) for sets in found) <= 50 * CHANCE + 4


def test_what_a_mixture_shows_is_bounded() -> None:
    rng = np.random.default_rng(1)
    shares, kinds = rng.random((12, 10)), rng.integers(0, 12, 20_000)
    codes = (rng.random((20_000, 10)) < shares[kinds]).astype(int)
    (found,) = found_in(codes, dict.fromkeys((f"c{i}" for i in range(10)), 2), draws=1)
    assert len(found) <= MAX_FOUND
    assert not any(set(one) < set(other) for one in found for other in found)


@pytest.mark.parametrize(("rows", "columns", "rho"), [(2000, 10, RHO), (20_000, 10, RHO / 50), (20_000, 2, RHO)])
def test_nothing_is_spent_where_nothing_would_show(rows: int, columns: int, rho: float) -> None:
    codes, sizes = parity_table(rows, columns, order=1)
    door = door_on(codes, sizes, 0)
    network, _ = independent_of(door)
    before = door.remaining
    assert Parities.of(door, network, rho, step="parities") is None
    assert door.remaining == before


def test_wide_tables_keep_to_triples_or_to_nothing() -> None:
    orders = []
    for columns in (10, 20, 40):
        codes, sizes = parity_table(20_000, columns, order=2)
        door = door_on(codes, sizes, 0)
        parities = Parities.of(door, independent_of(door)[0], RHO, step="parities")
        orders.append(parities and parities.order)
    assert orders == [6, 3, None]
