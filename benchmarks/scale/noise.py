"""Draws per CPU second of the privacy noise, on a million cells: prints a table, appends to results/noise.jsonl.

python -m benchmarks.scale noise
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence

import numpy as np
import scipy

from benchmarks.common import append, parser_of, results_of
from lookalike.privacy.kernel.mechanisms import rounded_gaussian
from lookalike.privacy.row_level.seeded_rows import two_sided_geometric

CELLS = 1_000_000
SCALES = (0.5, 1.0, 10.0, 100.0, 1e4, 1e6, 1e9)
RESULTS = results_of("noise")
"""In its lines `law` is the name of the function that draws."""


def main(arguments: Sequence[str]) -> None:
    parser_of(__name__, __doc__).parse_args(arguments)
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    for draw in (rounded_gaussian, two_sided_geometric):
        for scale in SCALES:
            seconds = []
            for _ in range(5):
                start = time.process_time()
                draw(scale, CELLS)
                seconds.append(time.process_time() - start)
            rate = CELLS / float(np.median(seconds))
            print(f"{draw.__name__:20s} scale {scale:<8g} {rate / 1e6:6.1f} million draws per CPU second")
            line = {"benchmark": "noise", "law": draw.__name__, "scale": scale, "cells": CELLS}
            append(RESULTS, {**line, "draws_per_cpu_second": round(rate), **versions})
