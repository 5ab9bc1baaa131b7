"""One run on a table in memory, and all that it wrote or said, for an audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.pipeline import synthesize
from lookalike.privacy.ledger import Ledger
from lookalike.release import Release
from lookalike.schema import codec


def everything(
    table: pa.Table, extra: pa.Table, arguments: Mapping[str, Any], *, report: bool = True
) -> dict[str, Any]:
    """What a run on `table` wrote, and what an attacker who knows the rows `extra` would compute from it.

    Time is left out: how long a run takes is not part of the guarantee.
    """
    said: list[str] = []
    ledger = Ledger(None, "audited table")
    release = synthesize(
        table, ledger=ledger, progress=lambda message, done: said.append(f"{message} {done:.3g}"), **arguments
    )
    entries = [{key: value for key, value in entry.items() if key not in _CLOCKS} for entry in ledger.entries()]
    return {
        "table": _columns(release.rows),
        "schema": release.schema.to_yaml(),
        "released": [_numbers(m.values) for m in release.fitted.measurements],
        "ledger": entries,
        "plan": [f"{step.step} {step.rho:.9g} {step.releases}" for step in release.plan],
        "progress": said,
        "report": release.report() if report else "",
        "attack": likelihood(release, extra),
    }


_CLOCKS = ("time", "hash", "prev")


def likelihood(release: Release, extra: pa.Table) -> float:
    """How far the noisy counts speak for the rows: the sum over all released marginals of count / stddev^2 there.

    With Gaussian noise that is the best statistic there is to tell whether the rows were in, given those marginals.
    """
    codes = codec.encode(release.schema, extra.select(list(release.schema.names)))
    domain, total = release.schema.domain, 0.0
    for marginal in release.fitted.measurements:
        places = tuple(codes[:, domain.position(name)] for name in marginal.attrs)
        cells = places if marginal.groups is None else marginal.groups[places]
        total += float(np.sum(marginal.values[cells])) / marginal.stddev**2
    return total


def _columns(table: pa.Table) -> dict[str, Any]:
    """The synthetic table by its number of rows and by how often each value is in each column."""
    found: dict[str, Any] = {"rows": table.num_rows, "bytes": table.nbytes}
    for name in table.column_names:
        column = table.column(name)
        counted = column.cast(pa.string()).value_counts()
        texts, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        found[name] = {str(text): count for text, count in zip(texts, counts, strict=True)}
        found[f"{name} longest"] = max((len(text) for text in texts if text is not None), default=0)
    return found


def _numbers(values: np.ndarray) -> list[float]:
    return [float(value) for value in np.ravel(values)[:64]]
