"""Workloads: what a text, a list or a file means, which parts it has, how much they matter, and what is refused."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import InputError, ModelTooLargeError, SchemaError
from lookalike.schema.domain import Domain
from lookalike.selection.workload import Workload, as_workload, read_workload

DOMAIN = Domain(("a", "b", "c", "income"), (2, 3, 4, 2))


def test_all_sets_of_an_order() -> None:
    workload = as_workload("all-2way", DOMAIN)
    assert list(workload.cliques) == list(combinations(DOMAIN.names, 2))
    assert set(workload.weights) == {1.0}


def test_an_order_beyond_the_columns_is_the_whole_table() -> None:
    assert as_workload("all-9way", DOMAIN).cliques == (DOMAIN.names,)


def test_a_target_is_in_every_set() -> None:
    assert as_workload("target-2way:income", DOMAIN).cliques == (("a", "income"), ("b", "income"), ("c", "income"))
    triples = as_workload("target:b", DOMAIN).cliques
    assert len(triples) == 3
    assert all("b" in clique and len(clique) == 3 for clique in triples)


def test_a_target_may_have_a_colon_in_its_name() -> None:
    domain = Domain(("x:y", "z"), (2, 2))
    assert as_workload("target:x:y", domain).cliques == (("x:y", "z"),)


def test_lists_mix_columns_texts_and_weights_and_repeats_add_up() -> None:
    spec = [["income", "a"], {"sets": "all-1way", "weight": 2}, {"columns": ["a", "income"], "weight": 0.5}]
    workload = as_workload(spec, DOMAIN)
    assert dict(zip(workload.cliques, workload.weights, strict=True)) == {
        ("a", "income"): 1.5, ("a",): 2.0, ("b",): 2.0, ("c",): 2.0, ("income",): 2.0,
    }  # fmt: skip


def test_the_closure_holds_every_part_once_small_ones_first() -> None:
    closure = as_workload([["a", "c", "income"], ["a", "b"]], DOMAIN).closure(DOMAIN)
    assert closure == [
        ("a",), ("b",), ("c",), ("income",),
        ("a", "b"), ("a", "c"), ("a", "income"), ("c", "income"),
        ("a", "c", "income"),
    ]  # fmt: skip


def test_relevance_is_the_weighted_overlap() -> None:
    workload = as_workload([["a", "b"], {"columns": ["b", "c"], "weight": 3}], DOMAIN)
    candidates = [("a",), ("b",), ("a", "b"), ("b", "c"), ("income",)]
    by_hand = [
        sum(w * len(set(r) & set(s)) for s, w in zip(workload.cliques, workload.weights, strict=True))
        for r in candidates
    ]
    np.testing.assert_allclose(workload.relevance(DOMAIN, candidates), by_hand)
    assert by_hand == [1, 4, 5, 7, 0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("all-0way", "sets of 0 columns"),
        ("allway", "is not known.*all-3way"),
        ("target:nobody", "No column 'nobody'; the columns are a, b, c, income"),
        ([], "is empty"),
        ([["a", "z"]], "No column 'z'"),
        ([["a", "a"]], "names a column twice"),
        ([[]], "not a list of column names"),
        ([[1, 2]], "not a list of column names"),
        ([{"columns": ["a"], "weight": 0}], "must be positive"),
        ([{"columns": ["a"], "weight": float("nan")}], "must be positive"),
        ([{"columns": ["a"], "weight": "much"}], "must be a positive number"),
        ([{"weight": 1}], "'columns' or 'sets'"),
        ([{"columns": ["a"], "sets": "all-1way"}], "'columns' or 'sets'"),
        ([{"columns": ["a"], "wieght": 2}], "'columns' or 'sets'"),
        ([3], "'columns' or 'sets'"),
        ({"a": 1}, "cannot be a dict"),
    ],
)
def test_mistakes_are_named(spec: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        as_workload(spec, DOMAIN)  # type: ignore[arg-type]


def test_too_many_sets_are_refused_before_they_are_listed() -> None:
    wide = Domain.of({f"c{i}": 2 for i in range(300)})
    with pytest.raises(ModelTooLargeError, match=r"all-5way.*2e\+05 marginals"):
        as_workload("all-5way", wide)
    with pytest.raises(ModelTooLargeError, match="parts"):
        as_workload([list(wide.names)], wide).closure(wide)
    assert len(as_workload("all-2way", wide).closure(wide)) == 300 + 300 * 299 // 2


def test_a_workload_needs_a_weight_for_each_marginal() -> None:
    with pytest.raises(SchemaError, match="1 marginals but 2 weights"):
        Workload((("a",),), (1.0, 2.0))


def test_files_hold_the_same_as_lists(tmp_path: Path) -> None:
    spec = [["a", "b"], {"sets": "target-2way:income", "weight": 2.0}]
    (tmp_path / "w.json").write_text(json.dumps(spec))
    (tmp_path / "w.yaml").write_text("- [a, b]\n- {sets: 'target-2way:income', weight: 2.0}\n")
    (tmp_path / "one.yml").write_text("all-2way\n")
    assert read_workload(str(tmp_path / "w.json")) == spec
    assert read_workload(str(tmp_path / "w.yaml")) == spec
    assert read_workload(str(tmp_path / "one.yml")) == "all-2way"
    assert read_workload("target:income") == "target:income"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("w.json", "{", "is not JSON"), ("w.yaml", "a: [", "is not YAML"), ("none.yaml", None, "Cannot read")],
)
def test_bad_files_are_named(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_workload(str(tmp_path / name))


def test_a_text_that_is_no_workload_and_no_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"'everything' is not known.*\.yaml"):
        read_workload("everything")
