"""The internal report: real against synthetic, for the data holder. NOT PRIVATE on every screen and in its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lookalike.evaluate.evaluation import Evaluation
from lookalike.report.page import render

_MAX_COLUMNS = 60
_MAX_MAP_COLUMNS = 32
_MAX_BARS = 14
_MAX_BINS = 128
MARK = "NOT-PRIVATE"
_OPTIONAL = ("groups", "questions", "rules", "distinguishing", "classifiers", "private_reference", "svm")


def internal_name(path: str | Path) -> Path:
    """The path with NOT-PRIVATE in the file's name, whatever was asked for.

    >>> internal_name("out/adult.html").name, internal_name("a.NOT-PRIVATE.html").name
    ('adult.NOT-PRIVATE.html', 'a.NOT-PRIVATE.html')
    """
    path = Path(path)
    return path if MARK in path.name else path.with_name(f"{path.stem}.{MARK}{path.suffix or '.html'}")


def internal_report(evaluation: Evaluation) -> str:
    """The page of an evaluation."""
    numbers = evaluation.numbers
    association = numbers["association"]
    shown = slice(_MAX_MAP_COLUMNS)
    names = association["names"][shown]
    errors = np.array(association["distances"])[shown, shown]
    differences = np.abs(np.array(association["real"]) - np.array(association["synth"]))[shown, shown]
    return render(
        "internal.html",
        numbers={**dict.fromkeys(_OPTIONAL), **numbers},
        columns=_columns(numbers),
        left_out=max(0, len(numbers["histograms"]) - _MAX_COLUMNS),
        names=names,
        errors=errors.tolist(),
        largest_error=max(0.02, float(errors.max())),
        differences=differences.tolist(),
        largest_difference=max(0.02, float(differences.max())),
        svm=_svm(numbers.get("svm")),
    )


def _columns(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """One-way overlays: real counts scaled to the synthetic number of rows, so that bars can be compared."""
    scale = numbers["rows"]["synth"] / numbers["rows"]["real"]
    found = []
    for name, histogram in list(numbers["histograms"].items())[:_MAX_COLUMNS]:
        labels = histogram["labels"]
        real, synth = np.array(histogram["real"]) * scale, np.array(histogram["synth"], dtype=float)
        distance = 0.5 * float(np.abs(real - synth).sum()) / max(1.0, float(synth.sum()))
        as_histogram = histogram["ordered"] and _MAX_BARS < len(labels) <= _MAX_BINS
        if len(labels) > _MAX_BARS and not as_histogram:
            kept = np.sort(np.argsort(-real, kind="stable")[: _MAX_BARS - 1])
            labels = [labels[i] for i in kept] + [f"{len(labels) - len(kept):,} others"]
            real, synth = (np.append(side[kept], side.sum() - side[kept].sum()) for side in (real, synth))
        found.append(
            {
                "name": name,
                "labels": labels,
                "real": real.tolist(),
                "synth": synth.tolist(),
                "distance": distance,
                "as_histogram": as_histogram,
            }
        )
    return found


def _svm(errors: dict[str, dict[str, float]] | None) -> list[dict[str, Any]]:
    if errors is None:
        return []
    return [{"column": name, "real": errors["real"][name], "synth": errors["synth"][name]} for name in errors["real"]]
