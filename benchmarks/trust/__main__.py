"""The command `python -m benchmarks.trust`: each of its sub-commands is a module of this folder."""

from __future__ import annotations

from benchmarks.common import dispatch

COMMANDS = ("attacks", "audits", "faults")

if __name__ == "__main__":
    dispatch("benchmarks.trust", COMMANDS)
