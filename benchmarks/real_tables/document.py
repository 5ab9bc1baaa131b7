"""Write docs/real_tables.md from stored runs."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    raise SystemExit("not yet")
