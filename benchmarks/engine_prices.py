"""Measures the prices by which the engine predicts the time of a contraction: prices.json beside `recipes.py`.

    python benchmarks/engine_prices.py [--contractions 400] [--seed 0] [--write]

Random contractions C = sum A * B run on each executor: by the recipe that the present prices choose, as plain loops,
and as a matrix product where that is possible. The predicted time is linear in the prices; they are fitted by
non-negative least squares on relative errors. Without --write the present and the fitted prices are printed. New
prices choose other plans, whose results agree to rounding only: compare digests knowingly.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from lookalike.engine import numba_executor, numba_kernels, numpy_executor, recipes
from lookalike.engine.plan import Array, ContractionPlan, Layout, Operation
from lookalike.engine.recipes import AS_LOOPS, Price
from lookalike.schema.domain import Domain

FILE = Path(recipes.__file__).with_name("prices.json")
FIELDS = len(Price._fields)
MAX_TERMS = 3_000_000
DEAR = 1e9
EXECUTORS = {"numpy": numpy_executor, "numba": numba_executor}


def contraction(rng: np.random.Generator) -> Layout:
    """A layout whose only operation is a random contraction of two arrays that share something to sum over."""
    while True:
        sizes = tuple(int(size) for size in np.exp(rng.uniform(0.7, 4.0, rng.integers(2, 6))))
        classes = rng.choice([3, 5, 6, 7], len(sizes))
        if 3 in classes and math.prod(sizes) <= MAX_TERMS:
            break
    domain = Domain(tuple(f"v{i}" for i in range(len(sizes))), sizes)
    masks = [sum(1 << i for i, member in enumerate(classes) if member & bit) for bit in (1, 2, 4)]
    offsets, end = [], 0
    for mask in masks:
        offsets.append(end)
        end += -(-math.prod(size for i, size in enumerate(sizes) if mask >> i & 1) // 8) * 8
    a, b, c = (Array(offset, mask) for offset, mask in zip(offsets, masks, strict=True))
    order = tuple(int(i) for i in rng.permutation(len(sizes)))
    axes = {position: place for place, position in enumerate(order)}
    plan = ContractionPlan(domain, (), (), order)
    return Layout(plan, (), (0,), (), (), (Operation(a, b, c),), (), end, axes)


def features(layout: Layout, price: Price) -> np.ndarray:
    """How often each price is paid by the recipe that `price` chooses."""
    loops = layout.loops(layout.forward[0])[::-1]
    size, a, b, c = ([loop[which] for loop in loops] for which in range(4))
    kind = [(loop.a > 0) + 2 * (loop.b > 0) + 4 * (loop.c > 0) for loop in loops]
    _, row, column = recipes.least_ns(len(loops), size, a, b, c, kind, price)
    terms = float(math.prod(size))
    if row == AS_LOOPS:
        runs = terms / size[0] if size else 1.0
        return np.array([0.0] * 7 + [1.0, runs, runs / size[1] if len(size) > 1 else 1.0, terms])
    units = np.eye(FIELDS)
    return np.array([recipes.matrix_ns(len(loops), size, a, b, c, kind, row, column, terms, unit) for unit in units])


def runner(name: str, layout: Layout) -> Callable[[], object]:
    """A function that runs the layout's operation once."""
    if name == "numpy":
        steps = numpy_executor.NumpyExecutor(layout)._forward_steps
        return steps[0]
    executor = numba_executor.NumbaExecutor(layout)
    code, starts = executor._code, executor._starts
    return lambda: numba_kernels.run(executor.buffer, code, starts, len(starts))


def nanoseconds(run: Callable[[], object]) -> float:
    """CPU time of one run: the least of five timed batches."""
    run()
    start = time.process_time()
    run()
    repeats = max(1, int(2e-3 / max(time.process_time() - start, 1e-6)))
    found = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(repeats):
            run()
        found.append((time.process_time() - start) / repeats)
    return 1e9 * min(found)


def measured(name: str, present: Price, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features and nanoseconds of random contractions, each by up to three recipes."""
    choices = [present, present._replace(loop_call=DEAR), present._replace(call=DEAR)]
    module, constant = EXECUTORS[name], name.upper()
    rows, times = [], []
    for _ in range(count):
        layout = contraction(rng)
        for number, price in enumerate(choices):
            setattr(module, constant, price)
            found = features(layout, price)
            if number and any(np.array_equal(found, row) for row in rows[-number:]):
                continue
            rows.append(found)
            times.append(nanoseconds(runner(name, layout)))
    setattr(module, constant, present)
    return np.array(rows), np.array(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contractions", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the fitted prices to prices.json")
    options = parser.parse_args()
    prices = json.loads(FILE.read_text())
    for name in EXECUTORS:
        present = Price(**prices[name])
        rows, times = measured(name, present, options.contractions, np.random.default_rng(options.seed))
        fitted, _ = nnls(rows / times[:, None], np.ones(len(times)))
        for label, price in (("present", np.array(present)), ("fitted", fitted)):
            factor = np.exp(np.sqrt(np.mean(np.log(np.maximum(rows @ price, 1.0) / times) ** 2)))
            print(f"{name} {label}: off by a factor {factor:.2f} (rms of {len(times)} timings)")
            print("   ", {field: round(float(value), 2) for field, value in zip(Price._fields, price, strict=True)})
        prices[name] = {field: round(float(value), 3) for field, value in zip(Price._fields, fitted, strict=True)}
    if options.write:
        FILE.write_text(json.dumps(prices, indent=2) + "\n")


if __name__ == "__main__":
    main()
