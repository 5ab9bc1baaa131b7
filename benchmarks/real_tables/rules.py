"""Rules that hold in every row of nycflights13, and how often they hold in a synthetic table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common import Line
from benchmarks.real_tables.kinds import Table, column_of

WINTER, SUMMER = 5 * 3600, 4 * 3600
"""Seconds from New York's clock, which year, month, day and hour show, to universal time, which time_hour shows."""
NUMBERS = ("year", "month", "day", "sched_dep_time", "hour", "minute", "distance")


def flights(table: Table) -> Line:
    """How well the rules of the table hold.

    clock: share of rows with sched_dep_time = hour * 100 + minute. date: share of rows whose year, month and day are
    those of time_hour. distances_per_route: mean number of distances of a pair of origin and dest. one_distance: share
    of rows with the most frequent distance of their route. years: number of values of `year`, one in the real table.
    """
    number = {name: column_of(table[name], "number").values for name in NUMBERS}
    clock = number["sched_dep_time"] == number["hour"] * 100 + number["minute"]
    date = same_day(number, column_of(table["time_hour"], "time").values)
    routes = pd.factorize(table["origin"] + " " + table["dest"])[0]
    pairs = np.column_stack([routes, pd.factorize(number["distance"])[0]])
    found, rows = np.unique(pairs, axis=0, return_counts=True)
    most = np.zeros(routes.max() + 1)
    np.maximum.at(most, found[:, 0], rows)
    return {
        "clock": round(float(np.mean(clock)), 4),
        "date": round(float(np.mean(date)), 4),
        "distances_per_route": round(len(found) / len(most), 2),
        "one_distance": round(float(most.sum() / len(routes)), 4),
        "years": len(set(table["year"])),
    }


def same_day(number: dict[str, np.ndarray], moment: np.ndarray) -> np.ndarray:
    """Whether year, month and day are those of a moment on New York's clock, in winter or in summer."""
    known = np.isfinite(moment)
    agree = np.zeros(len(moment), dtype=bool)
    for zone in (WINTER, SUMMER):
        days = np.where(known, moment - zone, 0).astype("datetime64[s]").astype("datetime64[D]")
        years, months = days.astype("datetime64[Y]"), days.astype("datetime64[M]")
        parts = years.astype(int) + 1970, months.astype(int) % 12 + 1, (days - months).astype(int) + 1
        agree |= np.logical_and.reduce(
            [number[name] == part for name, part in zip(("year", "month", "day"), parts, strict=True)]
        )
    return agree & known
