"""Compiled loops where their machine code cannot be kept on disk."""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast

import pytest

from lookalike.engine.executor import jitted

dispatcher = pytest.importorskip("numba.core.dispatcher")


def twice(number):
    return 2 * number


def test_loops_are_compiled_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(*_: Any) -> None:
        raise RuntimeError("cannot cache function 'twice': no locator available")

    monkeypatch.setattr(dispatcher.Dispatcher, "enable_caching", no_place)
    assert jitted(cast(FunctionType, twice))(21) == 42
