"""MCF: rows moved to the wanted marginals by min-cost flows, which the paper compares GUM with (PrivSyn 5.1).

For small marginals. Every marginal is met exactly in its turn, with as few changes as
possible, which undoes part of what the others had reached; one flow per visit makes it slow.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, sparse

from lookalike.errors import ModelTooLargeError
from lookalike.estimate.consistency import ConsistentMarginals
from lookalike.schema.cells import mixed_radix, rows_by_cell

MAX_ARCS = 250_000
"""Largest number of arcs of one flow, over-full cells times under-full cells: a few seconds of the solver."""


def flow_rows(
    codes: np.ndarray, targets: ConsistentMarginals, rng: np.random.Generator, *, sweeps: int = 20
) -> np.ndarray:
    """A copy of `codes` in which every marginal in turn is made equal to its target, to within rounding.

    Moving a row from one cell to another costs the number of its columns that change; the flow of least total cost
    goes from over-full to under-full cells. Raises ModelTooLargeError, before any work, where a marginal could need
    more than `MAX_ARCS` arcs.
    """
    for clique, table in zip(targets.cliques, targets.tables, strict=True):
        if flow_arcs(table) > MAX_ARCS:
            remedy = "Use GUM (update_rows), which has no such limit, or smaller marginals."
            raise ModelTooLargeError(f"The flow for {clique}", flow_arcs(table), MAX_ARCS, "arcs", remedy)
    codes = np.asfortranarray(codes.copy())
    for _ in range(sweeps):
        for clique, table in zip(targets.cliques, targets.tables, strict=True):
            columns = [targets.domain.position(name) for name in clique]
            _meet(codes, columns, whole_counts(table, len(codes)), rng)
        codes = np.asfortranarray(codes[rng.permutation(len(codes))])
    return codes


def flow_arcs(table: np.ndarray) -> float:
    """Return the number of arcs that a flow to the table needs at most: half its cells over-full, half under-full."""
    return (table.size / 2) ** 2


def whole_counts(table: np.ndarray, rows: int) -> np.ndarray:
    """Integers in proportion to `table` that add up to `rows`: rounded down, the largest remainders up.

    >>> whole_counts(np.array([1.0, 1.0, 1.0]), 4)
    array([2, 1, 1])
    """
    exact = table * (rows / table.sum())
    counts = np.floor(exact).astype(np.int64)
    missing = rows - int(counts.sum())
    largest = np.argsort(-(exact - counts).ravel(), kind="stable")[:missing]
    counts.ravel()[largest] += 1
    return counts


def min_cost_flow(supply: np.ndarray, demand: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The cheapest whole flows, supplies x demands, that ship every supply and meet every demand.

    A transport problem: with whole supplies and demands every vertex of its polytope is whole, and the dual simplex
    method ends at a vertex. Supplies and demands must have the same sum.
    """
    if not supply.size or not demand.size:
        return np.zeros(cost.shape, np.int64)
    ships = sparse.kron(sparse.eye_array(supply.size), np.ones((1, demand.size)))
    meets = sparse.kron(np.ones((1, supply.size)), sparse.eye_array(demand.size))
    solved = optimize.linprog(
        cost.ravel(),
        A_eq=sparse.vstack([ships, meets]).tocsc(),
        b_eq=np.concatenate([supply, demand]),
        method="highs-ds",
    )
    if solved.status != 0:
        raise RuntimeError(f"the flow solver stopped: {solved.message}")
    return np.rint(solved.x).astype(np.int64).reshape(cost.shape)


def _meet(codes: np.ndarray, columns: list[int], wanted: np.ndarray, rng: np.random.Generator) -> None:
    """Changes as few columns of `codes` as possible, in place, so that the marginal has the wanted counts."""
    order, starts = rows_by_cell(mixed_radix([codes[:, c] for c in columns], wanted.shape, len(codes)), wanted.size)
    excess = np.diff(starts) - wanted.ravel()
    over, under = np.flatnonzero(excess > 0), np.flatnonzero(excess < 0)
    here, there = (np.array(np.unravel_index(cells, wanted.shape)) for cells in (over, under))
    cost = (here[:, :, None] != there[:, None, :]).sum(axis=0).astype(float)
    flow = min_cost_flow(excess[over], -excess[under], cost)
    for cell, leaving in zip(over, flow, strict=True):
        members = rng.permutation(order[starts[cell] : starts[cell + 1]])[: leaving.sum()]
        cells = np.repeat(under, leaving)
        for column, values in zip(columns, np.unravel_index(cells, wanted.shape), strict=True):
            codes[members, column] = values
