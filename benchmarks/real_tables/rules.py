"""Rules that hold in every row of nycflights13, and how often they hold in a synthetic table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.common import Line
from benchmarks.real_tables.kinds import column_of

ZONE = 5 * 3600
"""The file writes time_hour in universal time, year, month, day and hour as New York's winter clocks show them; summer
time moves them by an hour, so a day may differ by one around midnight. Real rows agree in all but these."""


def flights(table: pd.DataFrame) -> Line:
    """Shares of rows in which the rules of the table hold; the number of distances of a route; values of `year`."""
    names = ("year", "month", "day", "sched_dep_time", "hour", "minute", "distance")
    number = {name: column_of(table[name], "number").values for name in names}
    moment = column_of(table["time_hour"], "time").values
    with np.errstate(invalid="ignore"):
        clock = number["sched_dep_time"] == number["hour"] * 100 + number["minute"]
        same = _same_day(number, moment)
    routes = table.assign(distance=number["distance"]).groupby(["origin", "dest"])["distance"]
    return {
        "clock": round(float(clock.mean()), 4),
        "date": round(float(same.mean()), 4),
        "distances_per_route": round(float(routes.nunique().mean()), 2),
        "one_distance": round(_share_of_main(routes), 4),
        "years": int(table["year"].nunique()),
    }


def _same_day(number: dict[str, np.ndarray], moment: np.ndarray) -> np.ndarray:
    """Whether year, month and day are those of time_hour on New York's clock, in winter or in summer."""
    known = np.isfinite(moment)
    agree = np.zeros(len(moment), dtype=bool)
    for zone in (ZONE, ZONE - 3600):
        local = pd.Series(pd.to_datetime(np.where(known, moment - zone, 0), unit="s"))
        parts = {"year": local.dt.year, "month": local.dt.month, "day": local.dt.day}
        agree |= np.logical_and.reduce([number[name] == part.to_numpy() for name, part in parts.items()])
    return agree & known


def _share_of_main(routes: pd.api.typing.SeriesGroupBy) -> float:
    """The share of rows whose distance is the most frequent one of their route."""
    main = routes.agg(lambda found: found.value_counts().max() if found.notna().any() else 0)
    return float(main.sum() / max(1, routes.size().sum()))
