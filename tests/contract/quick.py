"""Settings with which the methods that train for long are quick; no contract depends on how well they fit."""

from __future__ import annotations

from typing import Any

QUICK: dict[str, dict[str, Any]] = {"rap-paper": {"relaxed_rows": 100, "steps": 20}}


def quick(method: str) -> dict[str, Any]:
    """Settings of a method for tiny tables."""
    return QUICK.get(method, {})
