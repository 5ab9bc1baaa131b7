"""What is kept for error bars is what was released, in terms of the table's own domain, and nothing else."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from lookalike.measurements import CellTable
from lookalike.models.intervals import ErrorBars
from lookalike.pipeline import synthesize
from lookalike.privacy.journal import Recording
from lookalike.privacy.kernel.accounting import Accountant, Budget, Neighbours
from lookalike.privacy.kernel.door import GuardedTable
from lookalike.privacy.ledger import Ledger
from lookalike.privacy.scores import IndependenceGap, ResidualL1
from lookalike.release import load
from lookalike.schema.domain import Domain
from lookalike.schema.schema import Schema
from lookalike.sources.frames import TableForm
from lookalike.sources.open import MemorySource, OpenedTable

DOMAIN = Domain(("a", "b"), (3, 4))
CODES = np.random.default_rng(0).integers(0, (3, 4), (5000, 2)).astype(np.int32)


def recording() -> tuple[GuardedTable, Recording]:
    budget, relation = Budget(50.0, 1e-5, "gdp"), Neighbours()
    run = Ledger(None, "t").begin(method="test", schema="s", budget=budget, neighbours=relation)
    opened = OpenedTable(MemorySource(DOMAIN, CODES), Schema.from_sizes({"a": 3, "b": 4}), TableForm("arrow"))
    kept = Recording()
    return GuardedTable(opened, Accountant(budget, run), relation, recorder=kept), kept


def test_keeps_exactly_what_it_returns():
    table, kept = recording()
    results = table.measure([("a",), ("a", "b")], 5.0, step="m")
    assert kept.released == results


def test_keeps_distances_from_public_references_only():
    table, kept = recording()
    score = ResidualL1((("a",), ("a", "b")), (np.zeros(3), np.full((3, 4), 0.4)))
    values = table.noisy_scores(score, 5.0, step="s")
    assert [r.attrs for r in kept.residuals] == [("a",), ("a", "b")]
    assert [r.value for r in kept.residuals] == values.tolist()
    assert not kept.residuals[1].reference.any()
    table.noisy_scores(IndependenceGap((("a", "b"),)), 50.0, step="s")
    table.coarsened({"a": np.array([0, 0, 1])})
    assert len(kept.residuals) == 2


def test_coarse_measurements_are_kept_as_groups_of_fine_cells():
    table, kept = recording()
    coarse = table.coarsened({"b": np.array([0, 1, 1, 0])})
    twice = coarse.coarsened({"a": np.array([0, 0, 1])})
    twice.measure([("a", "b"), ("a",)], 1.0, step="m")
    pair, single = kept.released
    counts = np.zeros((3, 4))
    np.add.at(counts, tuple(CODES.T), 1)
    assert pair.groups.shape == (3, 4)
    exact = np.bincount(pair.groups.ravel(), weights=counts.ravel())
    assert np.abs(pair.values - exact).max() < 10
    assert single.groups.tolist() == [0, 0, 1]
    found = ErrorBars(DOMAIN, kept.released).linear(
        ("a", "b"), np.array([[1, 0, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0]]) * 1.0
    )
    assert found is not None
    assert abs(found[0] - counts[:2, [0, 3]].sum()) < 10


class Listener:
    """A recorder that notes what it is given."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def measured(self, measurements, /):
        self.given += measurements

    def scored(self, score, values, stddev, /):
        self.given += [score, values, stddev]

    def coarsened(self, domain, maps, /):
        return self


def test_a_recorder_is_given_the_noisy_answers_and_nothing_else():
    listener = Listener()
    table = recording()[0].recorded_by(listener)
    score = ResidualL1((("a",),), (np.zeros(3),))
    expected = [
        *table.measure([("a",)], 5.0, step="m"),
        *table.measure_contrasts([CellTable(("a", "b"), (3, 4))], [5.0], step="m"),
        score,
        table.noisy_scores(score, 7.0, step="s"),
        7.0,
    ]
    assert len(listener.given) == len(expected)
    assert all(one is other or one == other for one, other in zip(listener.given, expected, strict=True))


def test_is_still_a_guarded_table():
    table, _ = recording()
    assert "5000" not in repr(table)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(table)


def test_a_stored_model_keeps_its_noisy_marginals(tmp_path):
    import pyarrow as pa

    frame = pa.table({"a": CODES[:, 0], "b": CODES[:, 1]})
    release = synthesize(frame, schema={"a": 3, "b": 4}, epsilon=1.0, method="mst")
    release.fitted.save(tmp_path / "m.lookalike")
    loaded = load(tmp_path / "m.lookalike")
    assert [m.attrs for m in loaded.measurements] == [m.attrs for m in release.fitted.measurements]
    for one, two in zip(loaded.measurements, release.fitted.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)
        assert (one.stddev, one.ledger_entry) == (two.stddev, two.ledger_entry)
    assert len(loaded.measurements) >= 3
    assert [r.attrs for r in loaded.residuals] == [("a", "b")]
    np.testing.assert_array_equal(loaded.residuals[0].reference, release.fitted.residuals[0].reference)
