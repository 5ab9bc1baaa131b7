"""Draws per CPU second of the privacy noise, on a million cells: prints a table, appends to results/noise.jsonl.

python benchmarks/noise.py
"""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path

import numpy as np
import scipy

from lookalike.privacy.kernel.noise import rounded_gaussian
from lookalike.privacy.row_level.geometric import two_sided_geometric

CELLS = 1_000_000
SCALES = (0.5, 1.0, 10.0, 100.0, 1e4, 1e6, 1e9)
RESULTS = Path(__file__).parent / "results" / "noise.jsonl"


def main() -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as out:
        for draw in (rounded_gaussian, two_sided_geometric):
            for scale in SCALES:
                seconds = []
                for _ in range(5):
                    start = time.process_time()
                    draw(scale, CELLS)
                    seconds.append(time.process_time() - start)
                rate = CELLS / float(np.median(seconds))
                print(f"{draw.__name__:20s} scale {scale:<8g} {rate / 1e6:6.1f} million draws per CPU second")
                row = {
                    "benchmark": "noise",
                    "law": draw.__name__,
                    "scale": scale,
                    "cells": CELLS,
                    "draws_per_cpu_second": round(rate),
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    "scipy": scipy.__version__,
                }
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
