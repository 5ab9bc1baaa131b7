"""The command `python -m benchmarks.real_tables`: each of its sub-commands is a module of this folder."""

from __future__ import annotations

from benchmarks.common import dispatch

COMMANDS = ("build", "run", "show", "document", "declared", "privtree")

if __name__ == "__main__":
    dispatch("benchmarks.real_tables", COMMANDS)
