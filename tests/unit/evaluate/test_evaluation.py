"""The collected evaluation: complete, stamped, and readable as JSON."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from lookalike.evaluate.evaluation import Evaluation, Settings, evaluate_codes
from lookalike.evaluate.real_data import evaluate
from lookalike.schema.binned import Integer
from lookalike.schema.columns import Categorical, Ordinal
from lookalike.schema.constraints import AtLeast, Never, Sum
from lookalike.schema.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", minimum=0, maximum=99, bins=10),
        Categorical("sex", ("F", "M"), missing=("?",), outside="absorb"),
        Ordinal("level", ("low", "mid", "high"), outside="absorb"),
    )
)


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = rng.integers(0, 100, rows)
    return pa.table(
        {
            "age": ages,
            "sex": rng.choice(["F", "M", "?"], rows, p=[0.5, 0.4, 0.1]),
            "level": np.array(["low", "mid", "high"])[np.clip(ages // 30 - rng.integers(0, 2, rows), 0, 2)],
        }
    )


def test_everything_is_measured_and_stamped():
    pytest.importorskip("sklearn")
    reported = []
    found = evaluate(
        people(400, 0),
        people(300, 1),
        SCHEMA,
        holdout=people(200, 2),
        progress=lambda name, share: reported.append((name, share)),
        group_by="sex",
        questions=("count where age >= 30 and sex = F", "count"),
        target="level",
        svm=True,
    )
    numbers = json.loads(found.to_json())
    assert "NOT PRIVATE" in numbers["notice"]
    assert numbers["private"] is False
    assert numbers["rows"] == {"real": 400, "synth": 300}
    assert set(numbers["marginals"]) == {"1", "2", "3"}
    real = people(400, 0).to_pydict()
    expected = sum(age >= 30 and sex == "F" for age, sex in zip(real["age"], real["sex"], strict=True))
    assert numbers["questions"][0]["real"] == expected
    assert numbers["questions"][1] == {"text": "count", "real": 400, "synth": 300, "share_difference": 0}
    assert [row["label"] for row in numbers["groups"]["rows"]] == ["F", "M", "missing (?)"]
    assert numbers["histograms"]["sex"]["real"] == [real["sex"].count(value) for value in ("F", "M", "?")]
    assert {"classifiers", "svm", "private_reference", "distinguishing"} <= set(numbers)
    assert reported[0] == ("histograms", 0.0)
    assert all(share < 1 for _, share in reported)
    printed = found.table()
    assert all(len(row) == 3 and all(isinstance(text, str) for text in row) for row in printed)
    assert any("SVM" in row[0] for row in printed)


def test_cheap_measures_need_no_extra_and_equal_tables_are_perfect():
    codes = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(np.int32)
    found = evaluate_codes(codes, codes, SCHEMA, Settings(orders=(1, 2)))
    assert found["marginals"]["2"]["mean"] == 0
    assert found["marginals"]["2"]["score"] == 1000
    assert found["association"]["pair_trends"]["mean"] == pytest.approx(1)
    assert "classifiers" not in found


def test_an_evaluation_without_its_stamp_is_refused():
    with pytest.raises(ValueError, match="not private"):
        Evaluation({"private": True, "notice": ""})


def test_rows_that_break_rules_are_counted_and_shown():
    rules = (AtLeast("end", "start"), Sum("end", ("start", "days")), Never("sex = M and ward = Maternity"))
    schema = Schema(
        (
            Integer("start", minimum=0, maximum=99, bins=10),
            Integer("days", minimum=0, maximum=99, bins=10),
            Integer("end", minimum=0, maximum=199, bins=20),
            Categorical("sex", ("F", "M")),
            Categorical("ward", ("Maternity", "Surgery")),
        ),
        rules,
    )
    sound = {
        "start": [5, 7, 9],
        "days": [1, 2, 3],
        "end": [6, 9, 12],
        "sex": ["F", "M", "F"],
        "ward": ["Maternity", "Surgery", "Surgery"],
    }
    broken = {**sound, "end": [4, 9, 13], "sex": ["M", "M", "F"]}
    found = evaluate(pa.table(sound), pa.table(broken), schema)["rules"]
    assert [rule["real"] for rule in found] == [0, 0, 0]
    assert [rule["synth"] for rule in found] == [1, 2, 1]
    assert found[0]["examples"] == [{"end": "4", "start": "5"}]
    assert "Maternity" in found[2]["text"]
