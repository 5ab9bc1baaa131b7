"""The Python interface: frames of every kind in, the same kind out, scikit-learn manners."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lookalike as la
from lookalike.errors import BudgetExceededError, InputError, SchemaError
from lookalike.estimators import estimator_names
from lookalike.synthesizers import create

SIZES = {"a": 3, "b": 2}


def arrow(rows: int = 400) -> pa.Table:
    a = np.random.default_rng(0).integers(0, 3, rows)
    return pa.table({"a": a, "b": (a > 0).astype(np.int64)})


@pytest.mark.parametrize("kind", [pa.Table, pd.DataFrame, pl.DataFrame])
def test_the_frame_type_comes_back(kind: type) -> None:
    frame = {pa.Table: arrow(), pd.DataFrame: arrow().to_pandas(), pl.DataFrame: pl.from_arrow(arrow())}[kind]
    release = la.synthesize(frame, schema=SIZES, epsilon=5.0, method="mst")
    assert isinstance(release.table, kind)
    assert list(release.table.columns if kind is not pa.Table else release.table.column_names) == ["a", "b"]
    if kind is pd.DataFrame:
        assert (release.table.dtypes == frame.dtypes).all()
    if kind is pl.DataFrame:
        assert release.table.schema == frame.schema


def test_a_path_gives_an_arrow_table_and_a_ledger_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKALIKE_LEDGERS", str(tmp_path / "ledgers"))
    arrow().to_pandas().to_csv(tmp_path / "t.csv", index=False)
    release = la.synthesize(tmp_path / "t.csv", schema=SIZES, method="independent")
    assert isinstance(release.table, pa.Table)
    assert len(list((tmp_path / "ledgers").glob("*.jsonl"))) == 1


def test_columns_come_back_in_the_order_of_the_table_not_of_the_schema() -> None:
    release = la.synthesize(arrow().select(["b", "a"]), schema=SIZES, method="independent")
    assert release.table.column_names == ["b", "a"]


def test_the_bill_names_every_charge_and_never_passes_the_budget() -> None:
    spent = la.synthesize(arrow(), schema=SIZES, epsilon=0.7, delta=1e-6, method="mst").spent
    assert spent.epsilon_spent <= 0.7
    assert spent.epsilon_spent == pytest.approx(0.7, rel=1e-9)
    assert [charge.step for charge in spent.charges] == ["one-way marginals", "pair scores", "pairs of the tree"]
    assert spent.private


def test_reproducible_noise_is_stamped_not_private() -> None:
    first, second = (
        la.synthesize(arrow(), schema=SIZES, method="mst", seed=1, insecure_rng=np.random.default_rng(3)) for _ in "ab"
    )
    assert first.table.equals(second.table)
    assert not first.spent.private


def test_secure_noise_differs_under_the_same_seed() -> None:
    totals = {la.synthesize(arrow(), schema=SIZES, method="mst", epsilon=0.1, seed=1).model.total for _ in range(4)}
    assert len(totals) > 1


def test_a_ledger_may_be_shared_by_frames(tmp_path: Path) -> None:
    ledger = la.Ledger(tmp_path / "people.jsonl", "people")
    ledger.set_cap(1.0)
    la.synthesize(arrow(), schema=SIZES, epsilon=0.6, method="mst", ledger=ledger)
    with pytest.raises(BudgetExceededError):
        la.synthesize(arrow(), schema=SIZES, epsilon=0.6, method="mst", ledger=ledger)
    assert "people" in ledger._repr_html_()


def test_estimators_fit_sample_save_and_load(tmp_path: Path) -> None:
    estimator = la.MST(epsilon=3.0).fit(arrow().to_pandas(), SIZES)
    assert len(estimator.sample(17)) == 17
    estimator.save(tmp_path / "m.lookalike")
    loaded = la.load(tmp_path / "m.lookalike")
    assert np.allclose(loaded.model.marginal(["a", "b"]), estimator.fitted_.model.marginal(["a", "b"]))
    assert loaded.spent == estimator.spent_
    assert loaded.sample(9, seed=1).equals(loaded.sample(9, seed=1))
    for shown in (estimator, loaded, estimator.schema_, estimator.spent_):
        assert "<" in shown._repr_html_()


def test_estimators_follow_scikit_learn() -> None:
    from sklearn.base import clone

    estimator = la.MST(epsilon=2.0, oneway_share=0.3)
    twin = clone(estimator)
    assert twin is not estimator
    assert twin.get_params() == estimator.get_params()
    assert estimator.set_params(epsilon=1.5).epsilon == 1.5
    assert "oneway_share=0.3" in repr(estimator)
    with pytest.raises(SchemaError, match="oneway_share"):
        la.MST(nonsense=1)
    with pytest.raises(SchemaError, match="epsilon"):
        estimator.set_params(nonsense=1)


def test_estimators_document_their_settings_and_survive_pickling() -> None:
    assert "oneway_share: part of the budget" in la.MST.__doc__
    assert inspect.signature(la.MST).parameters["oneway_share"].default == 0.15
    again = pickle.loads(pickle.dumps(la.AIM(epsilon=2.0, rounds=None)))
    assert type(again) is la.AIM
    assert again.get_params()["rounds"] is None


@pytest.mark.parametrize(
    ("method", "settings"), [("aim", {"rounds": "9"}), ("mwem", {"rounds": 1.5}), ("bsg", {"k": True})]
)
def test_settings_have_the_types_of_their_annotations(method: str, settings: dict) -> None:
    with pytest.raises(SchemaError, match="it must be a whole number"):
        create(method, settings)


def test_a_schema_must_be_one() -> None:
    with pytest.raises(SchemaError, match="Schema"):
        la.synthesize(arrow(), schema=3, method="mst")  # type: ignore[arg-type]


def test_no_schema_is_needed() -> None:
    assert la.synthesize(arrow(), epsilon=5.0, method="mst").table.column_names == ["a", "b"]


def test_a_frame_must_be_one() -> None:
    with pytest.raises(InputError, match="pandas"):
        la.synthesize([1, 2, 3], schema=SIZES, method="mst")


def test_public_names_exist() -> None:
    assert all(getattr(la, name) is not None for name in la.__all__)
    assert set(la.__all__) <= set(dir(la))
    with pytest.raises(AttributeError, match="nothing"):
        la.nothing  # noqa: B018


def test_progress_reaches_the_end() -> None:
    seen: list[float] = []
    la.synthesize(arrow(), schema=SIZES, method="mst", progress=lambda message, fraction: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_every_method_has_an_estimator() -> None:
    assert {getattr(la, name).method for name in estimator_names()} == set(la.methods())
