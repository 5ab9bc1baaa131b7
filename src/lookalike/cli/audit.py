"""The command that tries to break the guarantee."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, output, print_json, progress_bar, table_of
from lookalike.errors import InputError, LookalikeError

if TYPE_CHECKING:
    from lookalike.audit import Finding

_MIN_RUNS = 6


def audit(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="Name of a method; see 'lookalike methods'.")],
    epsilon: options.EpsilonOption = 1.0,
    delta: options.DeltaOption = 1e-5,
    runs: Annotated[
        int, typer.Option(help="Number of runs on each of two neighbouring tables; more runs can detect more.")
    ] = 100,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="CASE", help="Only this pair of tables, such as 'new category'; may be repeated."),
    ] = None,
    failure: Annotated[
        float, typer.Option(help="Probability of calling a true guarantee false, for each pair of tables.")
    ] = 1e-6,
    as_json: options.JsonOption = False,
) -> None:
    """Try to break the guarantee on small made-up tables. The exit code is 1 if it is broken."""
    import numpy as np

    from lookalike.audit import Claim, cases, everything, try_pair
    from lookalike.discovery.discover import Discovery
    from lookalike.synthesizers import create

    if runs < _MIN_RUNS:
        raise InputError(f"--runs is {runs}; it must be at least {_MIN_RUNS}. Hundreds detect smaller leaks.")
    known = {pair.name: pair for pair in cases()}
    for name in case or []:
        if name not in known:
            raise InputError(f"There is no case {name!r}; the cases are {', '.join(known)}.")
    gaussian = create(method, {}).accounting == "gdp"
    findings: dict[str, Finding] = {}
    refused: dict[str, str] = {}
    chosen = case or list(known)
    with progress_bar() as progress:
        for number, name in enumerate(chosen):
            progress(f"running on two tables: {name}", number / len(chosen))
            pair = known[name]
            arguments: dict[str, Any] = {**pair.arguments, "method": method, "epsilon": epsilon, "delta": delta}
            threshold = 0.0 if "schema" in pair.arguments else delta * Discovery().delta_share
            try:
                findings[name] = try_pair(
                    lambda: everything(pair.table, pair.extra, arguments),  # noqa: B023
                    lambda: everything(pair.neighbour, pair.extra, arguments),  # noqa: B023
                    Claim(epsilon, delta, gaussian, threshold),
                    runs=runs,
                    rng=np.random.default_rng(),
                    failure=failure,
                )
            except LookalikeError as error:
                refused[name] = str(error)
    broken = any(finding.broken for finding in findings.values())
    if as_json:
        listed = {name: {**asdict(finding), "broken": finding.broken} for name, finding in findings.items()}
        print_json({"method": method, "failure": failure, "broken": broken, "cases": listed, "refused": refused})
    else:
        _print_findings(method, epsilon, findings, refused, failure)
    if broken:
        sys.exit(1)


def _print_findings(
    method: str, epsilon: float, findings: dict[str, Finding], refused: dict[str, str], failure: float
) -> None:
    right = ("runs with the event", "epsilon shown", "detectable")
    rows = []
    for name, finding in findings.items():
        rates = f"{finding.hits[0]} / {finding.hits[1]} of {finding.runs}"
        shown = f"{finding.epsilon:.3g}{'  BROKEN' if finding.broken else ''}"
        event = finding.event if len(finding.event) <= 44 else f"...{finding.event[-41:]}"
        rows.append((name, event, rates, shown, f"{finding.detectable:.3g}"))
    title = f"Audit of {method}, claimed epsilon {epsilon:g}"
    output.print(table_of(title, ("pair of tables", "event", *right), rows, right=right))
    if any(finding.broken for finding in findings.values()):
        output.print("The guarantee is FALSE: please report this, with the version and the line above.")
    else:
        output.print(
            f"Nothing contradicts epsilon {epsilon:g}. Each line is wrong with probability {failure:g} at most;\n"
            "'detectable' is the largest epsilon that this number of runs can show. An audit can refute a guarantee, "
            "never prove it."
        )
        if any(finding.detectable <= epsilon for finding in findings.values()):
            output.print("Here even a complete leak would go undetected: raise --runs or lower --epsilon.")
    for name, reason in refused.items():
        notes.print(f"{name}: not run. {reason}")
