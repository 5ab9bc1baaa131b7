"""Laws of workloads and of adaptive runs, for whatever settings."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.pipeline import synthesize
from lookalike.privacy.kernel.accounting import Budget
from lookalike.schema.domain import Domain
from lookalike.selection.workload import as_workload

DOMAIN = Domain(tuple("abcde"), (2, 3, 2, 4, 1))
SETS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(DOMAIN.names), min_size=1, max_size=4, unique=True), st.floats(0.1, 10.0)
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip


@given(SETS)
def test_a_closure_holds_all_parts_and_nothing_else(entries: list[tuple[list[str], float]]) -> None:
    workload = as_workload([{"columns": columns, "weight": weight} for columns, weight in entries], DOMAIN)
    closure = workload.closure(DOMAIN)
    assert len(set(closure)) == len(closure)
    wanted = {
        DOMAIN.canonical(part)
        for columns, _ in entries
        for k in range(len(columns))
        for part in combinations(columns, k + 1)
    }
    assert set(closure) == wanted


@given(SETS)
def test_relevance_is_positive_and_grows_with_the_set(entries: list[tuple[list[str], float]]) -> None:
    workload = as_workload([{"columns": columns, "weight": weight} for columns, weight in entries], DOMAIN)
    closure = workload.closure(DOMAIN)
    weight = dict(zip(closure, workload.relevance(DOMAIN, closure), strict=True))
    assert min(weight.values()) > 0
    for clique in closure:
        for name in clique:
            part = tuple(other for other in clique if other != name)
            assert not part or weight[part] <= weight[clique]


@settings(max_examples=12, deadline=None)
@given(
    method=st.sampled_from(["aim", "mwem-pgm", "mwem"]),
    epsilon=st.floats(0.01, 20.0),
    rounds=st.integers(1, 12),
    choice_share=st.floats(0.01, 0.9),
    rows=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_whatever_the_settings_the_budget_is_spent_and_not_exceeded(
    method: str, epsilon: float, rounds: int, choice_share: float, rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3, "c": 2}
    table = pa.table({name: rng.integers(0, size, rows) for name, size in sizes.items()})
    made = synthesize(
        table, schema=sizes, epsilon=epsilon, method=method, insecure_rng=rng, rounds=rounds, choice_share=choice_share
    )
    budget = Budget(epsilon, 1e-5, "zcdp").rho
    assert budget * (1 - 1 / 10**8) <= made.spent.rho <= budget
