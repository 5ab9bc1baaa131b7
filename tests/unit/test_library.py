"""The library in a notebook: indexes, names that are numbers, lengths of time, pages, notices, pipelines."""

from __future__ import annotations

import datetime
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lookalike as la
from lookalike.errors import InputError
from lookalike.schema.schema import Schema

SIZES = {"a": 3, "b": 2}


def coded(rows: int = 300) -> pd.DataFrame:
    a = np.random.default_rng(0).integers(0, 3, rows)
    return pd.DataFrame({"a": a, "b": (a > 0).astype(int)})


# Frames.


def test_a_named_index_and_times_become_columns_with_a_notice() -> None:
    frame = coded().set_index(pd.Index(np.arange(300) % 2, name="half"))
    with pytest.warns(la.LookalikeWarning, match="The index 'half' of the frame is kept as a column"):
        release = la.synthesize(frame, schema={"half": 2, **SIZES}, method="independent")
    assert list(release.table.columns) == ["half", "a", "b"]
    times = coded().set_index(pd.date_range("2023-01-01", periods=300, freq="D"))
    with pytest.warns(la.LookalikeWarning, match="'index'"):
        made = la.synthesize(times, epsilon=20.0, method="independent").table
    assert made["index"].dtype.kind == "M"
    assert made["index"].dt.year.isin([2022, 2023, 2024]).all()


def test_plain_row_numbers_are_no_column() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = la.synthesize(coded()[::2], schema=SIZES, method="independent").table
    assert list(made.columns) == ["a", "b"]


def test_an_index_with_the_name_of_a_column_is_refused() -> None:
    frame = coded()
    frame.index = pd.Index(range(300), name="a")
    with pytest.raises(InputError, match="the name of a column, 'a'"):
        la.synthesize(frame, schema=SIZES)


def test_whole_numbers_as_names_come_back() -> None:
    frame = coded().rename(columns={"a": 0, "b": 1})
    made = la.synthesize(frame, schema={"0": 3, "1": 2}, method="independent").table
    assert list(made.columns) == [0, 1]
    assert made.dtypes.tolist() == frame.dtypes.tolist()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_lengths_of_time_are_numbers_of_seconds(kind: str) -> None:
    lengths = [datetime.timedelta(seconds=30 * (i % 60)) for i in range(600)]
    frame = pd.DataFrame({"wait": lengths}) if kind == "pandas" else pl.DataFrame({"wait": lengths})
    fields = [{"name": "wait", "type": "number", "constraints": {"minimum": 0, "maximum": 1800, "required": True}}]
    made = la.synthesize(frame, schema={"fields": fields}, epsilon=5.0, method="independent").table
    if kind == "pandas":
        assert made["wait"].dtype == frame["wait"].dtype
        assert made["wait"].between(pd.Timedelta(0), pd.Timedelta(seconds=1800)).all()
    else:
        assert made.schema == frame.schema
        assert made["wait"].dt.total_seconds().is_between(0, 1800).all()


# What is shown.


def shown() -> dict[str, object]:
    release = la.synthesize(coded(), schema=SIZES, method="mst", epsilon=2.0)
    plan = la.plan_run(Schema.from_sizes(SIZES), epsilon=1.0, delta=1e-5, method="mst")
    ledger = la.Ledger(None, "<people>")
    la.synthesize(coded(), schema=SIZES, method="independent", ledger=ledger)
    return {
        "release": release,
        "model": release.fitted,
        "spent": release.spent,
        "schema": release.schema,
        "plan": plan,
        "ledger": ledger,
        "answer": release.fitted.query("count"),
    }


def test_a_release_shows_in_five_lines() -> None:
    lines = repr(shown()["release"]).splitlines()
    assert len(lines) == 5
    assert [line.split(":")[0].strip() for line in lines] == ["Release", "Rows", "Method", "Spent", "Not seen"]
    assert all(len(repr(thing)) < 700 for name, thing in shown().items() if name in ("model", "spent"))


@pytest.mark.parametrize("name", ["release", "model", "spent", "schema", "plan", "ledger", "answer"])
def test_pages_have_a_heading_and_a_table_and_no_script(name: str) -> None:
    page = shown()[name]._repr_html_()
    assert "<table" in page
    assert re.search("<b>(Release|Model|Spent|Schema|Plan|Ledger|count)", page)
    assert page.count("Not seen: ") <= 1
    assert "<script" not in page
    assert "<people>" not in page
    assert page.count("<div") == page.count("</div>")
    assert page.count("<tr") == page.count("</tr>")


def test_notices_are_warnings_of_a_class_of_their_own() -> None:
    table = pa.table({"customer_id": [str(n) for n in range(200)], "a": [n % 2 for n in range(200)]})
    with pytest.warns(la.LookalikeWarning, match="identifiers, by name or declaration .*: customer_id") as seen:
        la.synthesize(table, epsilon=8.0, method="independent")
    assert seen[0].filename == __file__
    assert issubclass(la.LookalikeWarning, UserWarning)


def test_the_method_that_ran_is_named() -> None:
    release = la.synthesize(coded(), schema=SIZES)
    assert (release.spent.method, release.spent.chosen) == ("auto", "mosaic")
    assert "mosaic, chosen by auto" in repr(release)


# scikit-learn.


def test_fit_needs_no_schema() -> None:
    made = la.MST(epsilon=9.0).fit(coded()).sample(20)
    assert list(made.columns) == ["a", "b"]


def test_a_target_is_one_more_column() -> None:
    frame = coded()
    estimator = la.MST(epsilon=9.0).fit(frame[["a"]], frame["b"])
    assert list(estimator.sample(5).columns) == ["a", "b"]
    by_array = la.Independent(epsilon=9.0).fit(frame[["a"]].to_numpy(), frame["b"].to_numpy())
    assert list(by_array.sample(5).columns) == ["x0", "target"]
    with pytest.raises(InputError, match="one value for each of 300 rows"):
        la.MST().fit(frame, np.zeros(3))


def test_resampled_rows_train_a_classifier() -> None:
    from sklearn.tree import DecisionTreeClassifier

    frame = coded(2000)
    X, y = la.MST(epsilon=20.0, seed=1).fit_resample(frame[["a"]], frame["b"])
    assert isinstance(X, pd.DataFrame)
    assert DecisionTreeClassifier().fit(X, y).score(frame[["a"]], frame["b"]) > 0.95
    X, y = la.MST(epsilon=20.0, seed=1).fit_resample(frame[["a"]].to_numpy(), frame["b"].to_numpy())
    assert isinstance(X, np.ndarray)
    assert X.shape[1] == 1


def test_estimators_work_at_the_end_of_a_pipeline() -> None:
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    steps = Pipeline([("same", FunctionTransformer()), ("synthesize", la.MST(epsilon=9.0))])
    again = clone(steps).set_params(synthesize__epsilon=8.0)
    assert again.named_steps["synthesize"].get_params()["epsilon"] == 8.0
    fitted = again.fit(coded())
    assert fitted.named_steps["synthesize"].sample(7).shape == (7, 2)


@pytest.mark.parametrize(
    "check",
    ["check_get_params_invariance", "check_set_params", "check_no_attributes_set_in_init",
     "check_parameters_default_constructible", "check_estimator_repr", "check_estimator_cloneable"],
)  # fmt: skip
def test_checks_of_scikit_learn_that_apply(check: str) -> None:
    from sklearn.utils import estimator_checks

    getattr(estimator_checks, check)("MST", la.MST(epsilon=2.0))


@pytest.mark.parametrize("rows", [0, -3, 2.5, "ten"])
def test_a_number_of_rows_that_is_none_is_refused(rows: object) -> None:
    with pytest.raises(la.LookalikeError, match=f"{rows!r} rows were asked for"):
        la.synthesize(coded(), schema=SIZES, method="independent", rows=rows)
