"""The command `python -m benchmarks.papers`: each of its sub-commands is a module of this folder."""

from __future__ import annotations

from benchmarks.common import dispatch

COMMANDS = ("run", "document", "bsg", "claims", "extremes", "gans", "ppsyn", "ppsyn_folds", "privbayes", "privmrf")
COMMANDS += ("privmrf_svm", "privmrf_wide", "privsyn", "queries", "svm_folds")

if __name__ == "__main__":
    dispatch("benchmarks.papers", COMMANDS)
