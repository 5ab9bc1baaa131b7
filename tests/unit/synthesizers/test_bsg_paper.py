"""The method bsg-paper: entropies, semantic buckets, drawn parameters, Laplace noise, parts and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import lookalike as la
from lookalike.errors import SchemaError
from lookalike.measurements import NoisyMarginal
from lookalike.models.bayes_net import BayesNet
from lookalike.privacy.ledger import Ledger
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.selection.feature_network import Network, drawn_network, semantic_buckets
from tests.unit.synthesizers.test_bsg import SIZES, distance, frame


def synthesize(table: pd.DataFrame, **settings: Any) -> Any:
    given = {"epsilon": 2.0, "delta": 1e-6, "method": "bsg-paper", "seed": 0, "insecure_rng": np.random.default_rng(1)}
    return la.synthesize(table, schema=SIZES, **{**given, **settings})


@pytest.mark.parametrize("settings", [{}, {"noise": "laplace"}, {"parameters": "means"}, {"parts": "0.5,0.5"}])
def test_the_network_keeps_what_columns_say_about_each_other(settings: dict[str, Any]) -> None:
    real = frame()
    release = synthesize(real, **settings)
    assert isinstance(release.fitted.model, BayesNet)
    assert release.fitted.model.total == pytest.approx(20_000, rel=0.1)
    made = release.fitted.sample(20_000, seed=1)
    assert distance(real, made, ["a", "c"]) < 0.06
    assert distance(real, made, ["a", "e"]) < 0.04
    assert release.spent.epsilon_spent <= 2.0


def test_parents_are_those_of_large_symmetric_uncertainty() -> None:
    """Of a and b, which determine most of c, and e, which goes with a: no edge joins b and e, which are independent."""
    model = synthesize(frame(), epsilon=100.0).fitted.model
    edges = {frozenset((n, p)) for n, ps in zip(model.order, model.parents, strict=True) for p in ps}
    assert {frozenset("ac"), frozenset("bc"), frozenset("ae")} <= edges


def test_laplace_noise_is_charged_as_what_is_left_and_said_so() -> None:
    ledger = Ledger(None, "t")
    synthesize(frame(2000), noise="laplace", ledger=ledger, insecure_rng=None)
    charges = ledger.runs()[-1].charges
    assert {charge.mechanism for charge in charges[:-1]} == {"gaussian"}
    assert charges[-1].mechanism == "laplace"
    assert "advanced composition" in charges[-1].detail


@pytest.mark.parametrize("omega", [2, "1-2"])
def test_rows_from_seeds_are_those_of_bsg(omega: Any) -> None:
    release = synthesize(frame(), epsilon=8.0, omega=omega, seeded_rows=20, k=500)
    assert release.table.shape == (20, 4)
    parts = {"parts": "0.2,0.2,0.6", "noise": "laplace"}
    assert synthesize(frame(), epsilon=8.0, omega=omega, seeded_rows=20, k=500, **parts).table.shape == (20, 4)


def test_settings_that_do_not_fit_are_refused() -> None:
    table = frame(10)
    with pytest.raises(SchemaError, match="nothing is left for seeds"):
        synthesize(table, noise="laplace", omega=2)
    for wrong in ({"max_buckets": 1}, {"structure_share": 1.0}, {"noise": "uniform"}, {"parameters": "modes"}):
        with pytest.raises(SchemaError, match=next(iter(wrong))):
            synthesize(table, **wrong)


def test_a_single_column_has_no_entropies() -> None:
    ledger = Ledger(None, "t")
    release = la.synthesize(frame(500)[["c"]], epsilon=1.0, method="bsg-paper", schema={"c": 12}, ledger=ledger)
    assert release.fitted.model.parents == ((),)
    assert [charge.step for charge in ledger.runs()[-1].charges] == ["number of rows", "families of the network"]


def test_buckets_follow_the_meaning_of_values() -> None:
    school = ({"school": ["9th", "12th"], "degree": ["BSc", "MSc"]},)
    columns = (
        Integer("age", minimum=17, maximum=96, bins=80, missing=("",)),
        Categorical("education", values=("9th", "12th", "BSc", "MSc"), hierarchy=school),
        Categorical("work", values=tuple("abcdefghijkl")),
        Integer("children", minimum=0, maximum=3, bins=4),
    )
    maps = semantic_buckets(Schema(columns), 8)
    assert set(maps) == {"age", "education"}
    assert maps["age"].tolist() == [code // 10 for code in range(80)] + [8]
    assert maps["education"][:4].tolist() == [0, 0, 1, 1]


def test_parameters_are_drawn_from_their_posterior() -> None:
    domain, counts = Domain(("x", "y"), (2, 3)), np.array([[300.0, 100.0, 0.0], [-5.0, -1.0, -2.0]])
    network = Network(("x", "y"), ((), ("x",)))
    families = [NoisyMarginal(("x",), np.array([400.0, -8.0]), 1.0), NoisyMarginal(("x", "y"), counts, 1.0)]
    means = drawn_network(domain, network, {}, families, 400.0, 1.0, None).tables[1]
    assert means == pytest.approx(np.array([[300 + 1 / 3, 100 + 1 / 3, 1 / 3], [401 / 3] * 3]) / 401)
    rng = np.random.default_rng(0)
    drawn = [drawn_network(domain, network, {}, families, 400.0, 1.0, rng).tables[1] for _ in range(2000)]
    assert np.mean(drawn, axis=0) == pytest.approx(means, abs=0.03)
    a, b = 300 + 1 / 3, 401
    assert np.std([table[0, 0] for table in drawn]) == pytest.approx(np.sqrt(a * (b - a) / (b**2 * (b + 1))), rel=0.1)
