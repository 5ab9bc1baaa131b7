"""The command `python -m benchmarks.scale`: each of its sub-commands is a module of this folder."""

from __future__ import annotations

from benchmarks.common import dispatch

COMMANDS = ("databases", "document", "forecast", "noise", "passes", "rows", "runs", "sources", "spark")

if __name__ == "__main__":
    dispatch("benchmarks.scale", COMMANDS)
