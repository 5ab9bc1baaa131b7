"""The planted bugs stay plantable: their texts, files and tests exist, and they cover what can go wrong."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutations import Mutation, mutations

ROOT = Path(__file__).parents[2]
MUTATIONS = mutations()
KINDS = {
    "noise scale", "sensitivity", "factor of 2", "weights", "rows per person", "threshold", "delta", "delta twice",
    "charge after release", "ledger skipped", "ledger", "identity", "domain", "seed", "n", "totals", "partition",
    "stopping", "messages", "pickles", "plan reads data", "budget from data", "answers twice", "database",
    "composition",
}  # fmt: skip


def test_there_are_many_of_every_kind() -> None:
    assert len(MUTATIONS) >= 60
    assert set(Counter(mutation.kind for mutation in MUTATIONS)) >= KINDS
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_text_occurs_once_and_the_changed_file_is_a_program(mutation: Mutation) -> None:
    text = (ROOT / "src" / "lookalike" / mutation.file).read_text()
    assert text.count(mutation.old) == 1, "the code has changed: plant this bug anew"
    ast.parse(text.replace(mutation.old, mutation.new))
    assert mutation.new != mutation.old


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_named_tests_exist(mutation: Mutation) -> None:
    assert mutation.tests
    for test in mutation.tests:
        path, _, name = test.partition("::")
        place = ROOT / "tests" / path
        assert place.exists(), path
        assert not name or f"def {name}(" in place.read_text(), test
