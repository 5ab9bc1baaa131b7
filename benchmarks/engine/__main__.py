"""The command `python -m benchmarks.engine`: each of its sub-commands is a module of this folder."""

from __future__ import annotations

from benchmarks.common import dispatch

COMMANDS = ("compare", "mbi_worker", "stopping")

if __name__ == "__main__":
    dispatch("benchmarks.engine", COMMANDS)
