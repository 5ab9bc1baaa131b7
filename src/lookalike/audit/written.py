"""One run on a table in memory with everything that it wrote or printed, for an audit."""

from __future__ import annotations

import pickle
import pickletools
import re
import struct
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
    """Return what a run on `table` wrote, and what an attacker who knows the rows `extra` would compute from it.

    Times are left out: the guarantee does not cover them.
    """
    messages: list[str] = []
    ledger = Ledger(None, "audited table")
    release = synthesize(
        table, ledger=ledger, progress=lambda message, done: messages.append(f"{message} {done:.3g}"), **arguments
    )
    entries = [{key: value for key, value in entry.items() if key not in _CLOCKS} for entry in ledger.entries()]
    return {
        "table": _columns(release.rows),
        "schema": release.schema.to_yaml(),
        "released": [_numbers(m.values) for m in release.fitted.measurements],
        "ledger": entries,
        "plan": [f"{step.step} {step.rho:.9g} {step.releases}" for step in release.plan],
        "progress": messages,
        "report": release.report() if report else "",
        "attack": likelihood(release, extra),
        **given_back(release, ledger, extra),
    }


_CLOCKS = ("time", "hash", "prev")
_PLACES = ("PROTO", "FRAME", "PUT", "GET", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET")
"""Operations of a pickle whose numbers are positions, not values."""
_WORD = re.compile(r"\b[^\W\d]\w*|(?<![\w.])\d+(?![\w.])")


def given_back(release: Release, ledger: Ledger, extra: pa.Table) -> dict[str, Any]:
    """Return the contents of the objects that a run returns: their pickles, representations and HTML.

    For each: its length, its words and whole numbers, and how often each value of the rows `extra` occurs in it.
    """
    fitted = release.fitted
    parts = {"fitted": fitted, "model": release.model, "plan": release.plan, "schema": release.schema}
    things = {"release": release, "ledger": ledger, "spent": release.spent, "form": fitted.form, **parts}
    values = sorted({str(value) for row in extra.to_pylist() for value in row.values() if value is not None})
    found: dict[str, Any] = {}
    for name, thing in things.items():
        data = pickle.dumps(thing)
        found[f"pickle of {name}"] = {
            "bytes": len(data),
            # The pickle of a release contains the words of its parts.
            "words": _pickled_words(data) if name in ("release", "ledger") else [],
            **{f"times {value}": sum(map(data.count, _stored(value))) for value in values},
        }
        page = thing._repr_html_() if hasattr(thing, "_repr_html_") else ""
        for kind, shown in (("repr", repr(thing)), ("html", page)):
            found[f"{kind} of {name}"] = {
                "characters": len(shown),
                "words": _WORD.findall(shown),
                **{f"times {value}": shown.count(value) for value in values},
            }
    return found


def _pickled_words(data: bytes) -> list[str]:
    """Return texts and whole numbers of a pickle. Released floats and arrays are already in `everything`."""
    steps = ((step.name, value) for step, value, _ in pickletools.genops(data))
    return [str(value) for name, value in steps if isinstance(value, str | int) and name not in _PLACES]


def _stored(value: str) -> set[bytes]:
    """Return the bytes of a value in a file: as text and, for a number, as a float or a whole number."""
    found = {value.encode()}
    try:
        found.add(struct.pack("<d", float(value)))
        found.add(struct.pack("<q", int(value)))
    except (ValueError, struct.error):
        pass
    return found


def likelihood(release: Release, extra: pa.Table) -> float:
    """Return how strongly the noisy counts suggest that the rows were in the table.

    It is the sum over all released marginals of count / stddev^2 in the cells of the rows: with Gaussian noise the most
    powerful statistic of those marginals.
    """
    codes = codec.encode(release.schema, extra.select(list(release.schema.names)))
    domain, total = release.schema.domain, 0.0
    for marginal in release.fitted.measurements:
        places = tuple(codes[:, domain.position(name)] for name in marginal.attrs)
        cells = places if marginal.groups is None else marginal.groups[places]
        total += float(np.sum(marginal.values[cells])) / marginal.stddev**2
    return total


def _columns(table: pa.Table) -> dict[str, Any]:
    """Return the number of rows of the synthetic table, and the number of each value in each column."""
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
