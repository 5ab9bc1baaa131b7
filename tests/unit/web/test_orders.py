"""What a run of the page spends and hides is what was ordered."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.web.orders import Order

SCHEMA = {
    "fields": [
        {"name": "who", "type": "string", "dp": {"pattern": "p-####"}},
        {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 1, "required": True}},
    ]
}


@pytest.mark.parametrize("person", [None, "who"])
def test_a_run_spends_and_hides_what_was_ordered(tmp_path: Path, person: str | None) -> None:
    """Plants: another epsilon, delta, relation, number of rows or person than the one on the page."""
    file = tmp_path / "t.csv"
    file.write_text("who,a\np-0001,1\np-0002,0\n")
    order = Order(SCHEMA, epsilon=0.7, delta=3e-6, method="mst", relation="replace", max_rows=4, person=person)
    run = Order.from_json(order.to_json()).prepared({"file": str(file)})
    assert (run.budget.epsilon, run.budget.delta, run.delta) == (0.7, 3e-6, 3e-6)
    assert run.neighbours == Neighbours("replace", 4)
    assert run.method.name == "mst"
    assert [getattr(column, "person", False) for column in run.schema.columns] == [person == "who", False]
