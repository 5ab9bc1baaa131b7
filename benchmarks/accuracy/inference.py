"""How often 95 % intervals from several synthetic tables hold the truth of the population.

    python -m benchmarks.accuracy inference run [--runs 60] [--cases "wages, mosaic, epsilon 1"]
    python -m benchmarks.accuracy inference document

Each run draws a private table of a made-up population, releases it, makes five tables of draws of the model, and
estimates means, proportions and coefficients of a linear and a logistic regression, in four ways: by the private rows
(`private`), by the one released table as if its rows were real (`one table`), by five tables of the same model
(`same model`, combined as if they were draws), and by tables of draws (`draws`). One JSON line per run goes to
benchmarks/results/inference.jsonl: for each way, what was estimated, whether the interval holds and its width.
`document` writes the generated part of docs/inference.md.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

import lookalike
from benchmarks.accuracy.inference_tables import CASES, Case
from benchmarks.common import DOCS, Line, append, markdown, parser_of, replace_parts, results_of, stored
from lookalike.release import Release

RESULTS, PAGE = results_of("inference"), DOCS / "inference.md"
TABLES, POPULATION, STEPS = 5, 2_000_000, 12
WAYS = ("private", "one table", "same model", "draws")
Estimates = tuple[np.ndarray, np.ndarray]
"""Estimates and their variances, in the order of `names`."""


def names(case: Case) -> list[tuple[str, tuple[str, ...]]]:
    """Kind of every number that is estimated, and the columns whose joint counts it needs most."""
    last = case.covariates[-1]
    found = [("mean", (case.amount,)), ("proportion", (case.event,)), ("proportion of a part", (case.event, last))]
    for kind, outcome in (("linear coefficient", case.amount), ("logistic coefficient", case.event)):
        found += [(kind, (outcome, name)) for name in case.covariates]
    return found


def analysed(case: Case, frame: pd.DataFrame) -> Estimates:
    """What an analyst of real rows would report: estimates and squared standard errors."""
    amount, event = frame[case.amount].to_numpy(float), frame[case.event].to_numpy(float)
    part = event[frame[case.covariates[-1]].to_numpy() == 1]
    means = [(x.mean(), x.var(ddof=1) / x.size) for x in (amount, event, part)]
    design = np.column_stack([np.ones(len(frame)), frame[list(case.covariates)].to_numpy(float)])
    fitted = [linear(design, amount), logistic(design, event)]
    estimates, variances = zip(*means, strict=True)
    return (
        np.concatenate([estimates, *(q[1:] for q, _ in fitted)]),
        np.concatenate([variances, *(v[1:] for _, v in fitted)]),
    )


def linear(design: np.ndarray, outcome: np.ndarray) -> Estimates:
    """Least squares, with variances that hold whatever the variance of the outcome depends on (HC0)."""
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ (design.T @ outcome)
    scaled = design * (outcome - design @ found)[:, None]
    return found, np.diag(inverse @ (scaled.T @ scaled) @ inverse)


def logistic(design: np.ndarray, outcome: np.ndarray) -> Estimates:
    """Maximum likelihood by Newton's method."""
    found, inverse = np.zeros(design.shape[1]), np.eye(design.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-design @ found))
        inverse = np.linalg.inv(design.T @ (design * (chance * (1 - chance))[:, None]))
        found = found + inverse @ (design.T @ (outcome - chance))
    return found, np.diag(inverse)


def one_run(case: Case, seed: int, truth: np.ndarray, *, reproducible: bool = False) -> Line:
    """For each way: whether each interval holds the truth, and its width; and which columns were measured together."""
    private = case.rows(case.number, np.random.default_rng([seed, 5]))
    noise = np.random.default_rng([seed, 7]) if reproducible else None
    facts = {"schema": case.schema, "epsilon": case.epsilon, "method": case.method, "seed": seed}
    release = lookalike.synthesize(private, insecure_rng=noise, **facts)
    fitted = release.fitted
    same = [analysed(case, fitted.sample(seed=1000 * seed + i)) for i in range(TABLES)]
    drawn = [analysed(case, draw.sample(seed=i)) for i, draw in enumerate(fitted.draws(TABLES, seed=seed))]
    alone = {"private": analysed(case, private), "one table": analysed(case, release.table)}
    ends = {way: (q - 1.96 * v**0.5, q + 1.96 * v**0.5) for way, (q, v) in alone.items()}
    for way, tables in (("same model", same), ("draws", drawn)):
        found = lookalike.combine(*zip(*tables, strict=True))
        ends[way] = (found.low, found.high)
    holds = {way: [int(low <= true <= high) for low, high, true in zip(*ends[way], truth, strict=True)] for way in WAYS}
    widths = {way: [float(f"{x:.4g}") for x in high - low] for way, (low, high) in ends.items()}
    return {"holds": holds, "widths": widths, "together": together(case, release)}


def together(case: Case, release: Release) -> list[int]:
    """Whether the columns of each number were counted together."""
    sets = [set(m.attrs) for m in release.fitted.measurements]
    return [int(any(set(columns) <= attrs for attrs in sets)) for _, columns in names(case)]


def table(lines: Sequence[Line]) -> list[str]:
    """Coverage of each way, and widths relative to those of the private rows, by case and kind of number."""
    found: dict[tuple[str, str, str], list[tuple[list[int], list[float]]]] = defaultdict(list)
    for line in lines:
        for i, (kind, _) in enumerate(names(CASES[line["case"]])):
            basis = "counted together" if line["together"][i] else "not counted together"
            holds, widths = ([line[what][way][i] for way in WAYS] for what in ("holds", "widths"))
            found[line["case"], kind, basis].append((holds, [width / widths[0] for width in widths]))
    rows = []
    for (case, kind, basis), numbers in sorted(found.items(), key=lambda item: list(CASES).index(item[0][0])):
        holds, widths = (np.array([number[i] for number in numbers]) for i in (0, 1))
        shares = [f"{share:.1%}" for share in holds.mean(axis=0)]
        rows.append([case, kind, basis, f"{len(numbers):,}", *shares, f"{np.median(widths[:, -1]):.2f}"])
    return markdown(["case", "number", "columns", "intervals", *WAYS, "width of draws / private"], rows)


def run(cases: Sequence[str], runs: int) -> None:
    """Make the runs that are not stored yet."""
    done = {(line["case"], line["run"]) for line in stored(RESULTS)}
    for name in cases:
        case = CASES[name]
        truth, _ = analysed(case, case.rows(POPULATION, np.random.default_rng(4)))
        for seed in range(runs):
            if (name, seed) not in done:
                start = time.process_time()
                found = one_run(case, seed, truth)
                append(
                    RESULTS, {"case": name, "run": seed, **found, "cpu_seconds": round(time.process_time() - start, 2)}
                )


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args(arguments)
    if given.action == "run":
        run(given.cases, given.runs)
        print("\n".join(table(stored(RESULTS))))
    else:
        replace_parts(PAGE, {"inference": table(stored(RESULTS))})
