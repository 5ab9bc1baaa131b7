"""The command that asks a stored model: query."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, print_json, print_table
from lookalike.guards import MAX_MODEL_MB

if TYPE_CHECKING:
    from lookalike.models.answers import AnsweredQuestion


def query(
    model: options.ModelPath,
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            help="'count by sex where age >= 30', 'mean of age by sex', 'median of age', 'quantile 0.9 of age' or "
            "'correlation of age and hours where sex = F'.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file for the answer, one line per group.")
    ] = None,
    level: Annotated[float, typer.Option(help="Probability with which an interval covers the true number.")] = 0.9,
    max_model_mb: options.ModelSizeOption = MAX_MODEL_MB,
    as_json: options.JsonOption = False,
) -> None:
    """Ask a stored model for counts, means, quantiles or correlations with error bars, without data and for free."""
    from lookalike.places import check_apart, check_target
    from lookalike.release import load, write_page

    if out is not None:
        check_apart({"--out": out}, {"the model": model})
        check_target(out, table=False)
    found = load(model, max_mb=max_model_mb).query(question, level=level)
    if out is not None:
        write_page(out, found.to_csv())
    if as_json:
        print_json(_as_json(found))
        return
    headings = (*found.by, found.statistic, f"{level:.0%} interval", "sampling ±", "basis")
    print_table(question, headings, _rows(found))
    for note in _notes(found):
        notes.print(note)
    if out is not None:
        notes.print(f"Answer written to {out}.")


COMMANDS = (query,)


def _as_json(found: AnsweredQuestion) -> dict[str, Any]:
    rows = []
    for (labels, _), record in zip(found.rows, found.records(), strict=True):
        named = {"value" if name == found.statistic else name: record[name] for name in list(record)[len(found.by) :]}
        rows.append({"values": dict(zip(found.by, labels, strict=True)), **named})
    facts = {"question": found.text, "statistic": found.statistic, "exact": found.exact, "left_out": found.left_out}
    return {**facts, "rows": rows}


def _rows(found: AnsweredQuestion) -> list[tuple[str, ...]]:
    rows = []
    for labels, a in found.rows:
        places = 0 if found.statistic == "count" else _places(a.low, a.high)

        def text(number: float, places: int = places) -> str:
            return str(found.shown(number)) if found.times else f"{number:,.{places}f}"

        sampling = f"{a.sampling_stddev:,.{places}f}" if found.times is None else ""
        rows.append((*labels, text(a.value), f"{text(a.low)} to {text(a.high)}", sampling, a.basis))
    return rows


def _places(low: float, high: float) -> int:
    """Return how many decimals an interval needs to show two digits of its width.

    >>> _places(41.3, 44.9), _places(0.12, 0.14), _places(1000, 9000)
    (1, 3, 0)
    """
    width = high - low
    return max(0, min(6, 1 - math.floor(math.log10(width)))) if width > 0 else 2


def _notes(found: AnsweredQuestion) -> list[str]:
    texts = [
        "The interval is for the true number of the private table; it comes from the recorded noise. Sampling is how "
        "much the same number varies between tables drawn from the model."
    ]
    bases = {answer.basis for _, answer in found.rows}
    if "binned" in bases:
        texts.append(
            "'binned': values are known by their bins only. The interval holds wherever the values lie in their bins; "
            "narrower bins in the schema make it narrower."
        )
    if "bounded" in bases:
        texts.append(
            "'bounded': these columns were not measured together. The interval holds for every association that the "
            "measured counts allow."
        )
    if not found.exact:
        texts.append(
            "A bound of the question lies inside a bin; for the value, not for the interval, the values in the bin are "
            "taken as evenly spread."
        )
    if found.left_out:
        texts.append(f"{found.left_out} combinations without rows in the model are left out.")
    return texts
