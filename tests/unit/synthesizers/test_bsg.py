"""The method bsg through the whole pipeline: default, seeds, histogram, parts, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import lookalike as la
from lookalike.errors import BudgetExceededError, InputError, LookalikeError, SchemaError
from lookalike.models.bayes_net import BayesNet, PrefixHistogram
from lookalike.models.rows import ReleasedRows
from lookalike.privacy.ledger import Ledger
from lookalike.release import load

SIZES = {"a": 3, "b": 4, "c": 12, "e": 2}


def frame(rows: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """c is a noisy function of a and b; e goes with a."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    c = np.where(rng.random(rows) < 0.8, 4 * a + b, rng.integers(0, 12, rows))
    e = (rng.random(rows) < np.array([0.1, 0.5, 0.9])[a]).astype(int)
    return pd.DataFrame({"a": a, "b": b, "c": c, "e": e})


def synthesize(table: pd.DataFrame, **settings: Any) -> Any:
    given = {"epsilon": 2.0, "delta": 1e-6, "method": "bsg", "seed": 0, "insecure_rng": np.random.default_rng(1)}
    return la.synthesize(table, schema=SIZES, **{**given, **settings})


def distance(first: pd.DataFrame, second: pd.DataFrame, columns: list[str]) -> float:
    shares = [table.groupby(columns).size() / len(table) for table in (first, second)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def test_the_network_keeps_what_columns_say_about_each_other() -> None:
    real = frame()
    release = synthesize(real, parent_values=12)
    assert isinstance(release.fitted.model, BayesNet)
    made = release.fitted.sample(20_000, seed=1)
    assert distance(real, made, ["a", "c"]) < 0.06
    assert distance(real, made, ["a", "e"]) < 0.04
    assert release.spent.epsilon_spent <= 2.0


def test_ten_thousand_seeded_rows_are_refused_with_numbers_and_run_without_seeds() -> None:
    real, ledger = frame(80_000), Ledger(None, "t")
    asked = {"epsilon": 1.0, "delta": 1e-9, "ledger": ledger, "insecure_rng": None}
    with pytest.raises(
        BudgetExceededError, match=r"10,000 rows from seeds with k = 50.*would need k = [\d,]+.*histogram"
    ):
        synthesize(real, omega=2, seeded_rows=10_000, k=50, **asked)
    refused = ledger.runs()[-1]
    assert [charge.step for charge in refused.charges] == ["number of seeds"]
    assert refused.epsilon_counted == 1.0  # that it stopped, and where, says something of the data
    assert synthesize(real, rows=10_000, **asked).table.shape == (10_000, 4)


def test_seeded_rows_are_charged_as_one_release_that_takes_all_the_rest() -> None:
    release = synthesize(frame(), omega="1-3", seeded_rows=40, k=300)
    assert isinstance(release.fitted.model, ReleasedRows)
    assert release.table.shape == (40, 4)
    last = release.spent.charges[-1]
    assert (last.step, last.mechanism, last.releases) == ("rows from seeds", "plausible deniability", 40)
    assert release.spent.epsilon_spent == pytest.approx(2.0)
    with pytest.raises(LookalikeError, match="were released from seeds"):
        release.fitted.sample(41)
    with pytest.raises(InputError, match="seeded_rows=41"):
        synthesize(frame(), omega=2, seeded_rows=40, rows=41)


def test_most_seeded_rows_keep_a_frequent_real_prefix() -> None:
    """The network here cannot know that a and b agree; the seeds show it."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 50_000)
    real = pd.DataFrame({"a": a, "b": a, "c": rng.integers(0, 12, 50_000), "e": rng.integers(0, 2, 50_000)})
    seeded = synthesize(real, omega=1, seeded_rows=400, k=500, epsilon=8.0, max_cost=1).table
    alone = synthesize(real, epsilon=8.0, max_cost=1, rows=400).table
    assert (seeded["a"] == seeded["b"]).mean() > 0.8 > 0.5 > (alone["a"] == alone["b"]).mean()


def test_the_histogram_makes_any_number_of_rows() -> None:
    real = frame()
    release = synthesize(real, omega=1, seeds="histogram", rows=30_000)
    assert isinstance(release.fitted.model, PrefixHistogram)
    assert release.spent.charges[-1].mechanism == "thresholded histogram"
    kept = list(release.fitted.model.network.order[:3])
    assert distance(real, release.table, kept) < distance(real, synthesize(real, rows=30_000).table, kept)


def test_the_deterministic_test_is_stamped_not_private() -> None:
    ledger = Ledger(None, "t")
    release = synthesize(frame(), omega=2, test="deterministic", seeded_rows=500, ledger=ledger, insecure_rng=None)
    assert not release.spent.private
    assert release.spent.epsilon_spent == float("inf")
    assert ledger.spent()[0] == float("inf")
    assert release.spent.charges[-1].mechanism == "none"


def test_parts_are_paid_for_by_the_split_and_estimate_the_whole_table() -> None:
    release = synthesize(frame(), parts="0.3,0.4")
    assert release.fitted.model.total == pytest.approx(20_000, rel=0.05)
    split, *others = release.spent.charges
    assert split.mechanism == "disjoint parts"
    assert all(charge.rho == 0 for charge in others)
    assert synthesize(frame(), parts="0.2,0.2,0.6", omega=2, seeded_rows=20, k=400).table.shape == (20, 4)


@pytest.mark.parametrize(
    "settings", [{}, {"omega": 2, "seeded_rows": 20, "k": 400}, {"omega": 1, "seeds": "histogram"}]
)
def test_models_are_stored_and_read_back(tmp_path: Any, settings: dict[str, Any]) -> None:
    fitted = synthesize(frame(), **settings).fitted
    fitted.save(tmp_path / "model.lookalike")
    again = load(tmp_path / "model.lookalike")
    pd.testing.assert_frame_equal(again.sample(20, seed=3), fitted.sample(20, seed=3))
    first, second = (model.model.marginal(("a", "c")) for model in (fitted, again))
    np.testing.assert_allclose(first, second)
    assert first.sum() == pytest.approx(fitted.model.total)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"omega": "x"}, "omega"),
        ({"omega": "3-2"}, "must rise"),
        ({"omega": 9}, "at most all columns"),
        ({"parts": "0.5"}, "shares"),
        ({"parts": "0.9,0.9"}, "shares"),
        ({"parts": "a,b"}, "shares"),
        ({"seeds": "birds"}, "seeds"),
        ({"test": "none"}, "test"),
        ({"model_share": 1.0}, "model_share"),
        ({"parent_values": 1}, "parent_values"),
        ({"oneway_share": 0.6, "score_share": 0.5}, "families"),
    ],
)
def test_senseless_settings_are_refused_before_anything_is_spent(settings: dict[str, Any], message: str) -> None:
    ledger = Ledger(None, "t")
    with pytest.raises(SchemaError, match=message):
        synthesize(frame(50), ledger=ledger, **settings)
    assert ledger.spent() == (0.0, 0.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "bsg", "parts": "0.3,0.4"},
        {"method": "bsg", "omega": "1"},
        {"method": "bsg-paper", "omega": "1-2", "mixture": True},
        {"method": "bsg-paper", "noise": "laplace"},
    ],
)
@pytest.mark.parametrize("complete", [False, True])
def test_prices_that_are_no_rho_are_refused_where_discovery_spends_before(
    settings: dict[str, Any], complete: bool
) -> None:
    """What discovery spends follows from its noisy answers; these prices are proved for an amount that does not."""
    ledger = Ledger(None, "t")
    given = {"schema": SIZES, "discovery": la.Discovery(rules=True)} if complete else {}
    with pytest.raises(SchemaError, match="what is spent before it is fixed"):
        la.synthesize(frame(50), ledger=ledger, **given, **settings)
    assert ledger.spent() == (0.0, 0.0)


@pytest.mark.parametrize("table", [frame(1), frame(300)[["a"]]])
def test_tiny_tables_and_single_columns_work(table: pd.DataFrame) -> None:
    sizes = {name: SIZES[name] for name in table.columns}
    release = la.synthesize(table, schema=sizes, method="bsg", rows=7, seed=0)
    assert release.table.shape == (7, len(sizes))
