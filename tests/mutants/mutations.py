"""The planted bugs: which text of which file is replaced by what, what that breaks, and which tests must fail.

They stand in `mutations.yaml`. Every old text occurs exactly once in its file (`tests/unit/test_mutants.py`), so that
none can rot unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True, slots=True)
class Mutation:
    """One planted bug.

    Attributes:
        breaks: what goes wrong, in words.
        kind: the same in a word or two.
        file: path below src/lookalike.
        old, new: exact texts.
        tests: tests below `tests` that must notice, by path and name.
        slow: whether only tests of `make test-slow` notice.
    """

    breaks: str
    kind: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.file}: {self.breaks}"


def mutations() -> list[Mutation]:
    """Return all planted bugs, in the order of the file."""
    listed = yaml.safe_load((Path(__file__).parent / "mutations.yaml").read_text(encoding="utf-8"))
    return [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in listed]
