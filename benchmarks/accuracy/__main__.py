"""The command `python -m benchmarks.accuracy`: each of its sub-commands is a module of this folder."""

from __future__ import annotations

from benchmarks.common import dispatch

COMMANDS = (
    "papers_tables",
    "held_out",
    "sweep",
    "error_bars",
    "public_tables",
    "references",
    "inference",
    "target",
    "parities",
)

if __name__ == "__main__":
    dispatch("benchmarks.accuracy", COMMANDS)
