"""Compiled loops where their machine code cannot be kept on disk."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, cast

import numpy as np
import pytest

from lookalike import guards, sources
from lookalike.guards import jitted
from lookalike.schema.domain import Domain
from lookalike.sources import counting

dispatcher = pytest.importorskip("numba.core.dispatcher")


def twice(number):
    return 2 * number


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder can be written, as for a user without a home folder in a container."""

    def no_place(*_: Any) -> None:
        raise RuntimeError("cannot cache function 'twice': no locator available")

    monkeypatch.setattr(dispatcher.Dispatcher, "enable_caching", no_place)


@pytest.mark.usefixtures("no_folder")
def test_loops_are_compiled_where_no_folder_can_be_written() -> None:
    assert jitted(cast(FunctionType, twice))(21) == 42


@pytest.mark.usefixtures("no_folder")
def test_rows_are_counted_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lookalike.sources.numba_counting", raising=False)
    monkeypatch.delattr(sources, "numba_counting", raising=False)
    monkeypatch.setattr(counting, "_WORTH_COMPILING", 0)
    monkeypatch.setattr(guards, "NUMBA", True)
    tally = counting.Tally(Domain(("a", "b"), (2, 3)), [("a", "b")])
    tally.add({"a": np.array([0, 1, 1], np.uint8), "b": np.array([0, 2, 2], np.uint8)}, 3)
    assert tally.counts()[0].tolist() == [[1, 0, 0], [0, 0, 2]]
