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
    from lookalike.audit.written import Finding

_MIN_RUNS = 6
_WRITTEN_RUNS = 100
_DOOR = "door"


def audit(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD", help="Name of a method; see 'lookalike methods'. 'door': every mechanism that they use."
        ),
    ],
    epsilon: options.EpsilonOption = 1.0,
    delta: options.DeltaOption = 1e-5,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Number of runs on each of two neighbouring tables; more runs can show more. [default: as "
            "many as fit into --minutes]"
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(help="About how long the audit of a method may take.")] = 3.0,
    written: Annotated[
        bool, typer.Option("--written", help="Search for any difference in everything that runs write.")
    ] = False,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="CASE", help="With --written: only this pair of tables; may be repeated."),
    ] = None,
    failure: Annotated[
        float, typer.Option(help="With --written: probability of calling a true guarantee false, for each pair.")
    ] = 1e-6,
    as_json: options.JsonOption = False,
) -> None:
    """Try to break the guarantee on small made-up tables: what is claimed, and what was shown of it.

    The exit code is 1 if it is broken.
    """  # fmt: skip
    if runs is not None and runs < _MIN_RUNS:
        raise InputError(f"--runs is {runs}; it must be at least {_MIN_RUNS}. Hundreds detect smaller leaks.")
    if written or case:
        broken = _audit_written(method, epsilon, delta, runs or _WRITTEN_RUNS, case, failure, as_json)
    else:
        figures = _door(epsilon, delta, runs) if method == _DOOR else _method(method, epsilon, delta, runs, minutes)
        broken = any(line["broken"] for line in figures)
        if as_json:
            print_json({"audited": method, "epsilon": epsilon, "delta": delta, "broken": broken, "audits": figures})
        else:
            _print_figures(method, epsilon, delta, figures)
    if broken:
        sys.exit(1)


def _door(epsilon: float, delta: float, runs: int | None) -> list[dict[str, Any]]:
    from lookalike.audit.mechanisms import audits, seconds_needed

    planned = list(audits(epsilon, delta, runs))
    notes.print(f"{len(planned)} mechanisms, about {_clock(seconds_needed(epsilon, delta, runs))} on this machine.")
    figures: list[dict[str, Any]] = []
    with progress_bar() as progress:
        for number, (name, make) in enumerate(planned):
            progress(name, number / len(planned))
            figures.append(make())
    return figures


def _method(method: str, epsilon: float, delta: float, runs: int | None, minutes: float) -> list[dict[str, Any]]:
    from lookalike.audit.methods import MethodAudit

    audited = MethodAudit(method, epsilon, delta)
    seconds = audited.seconds_per_run()
    runs = runs or min(max(round(60 * minutes / seconds), 10 * _MIN_RUNS), 20_000)
    notes.print(f"{runs} runs on each of two tables and {runs} with many rows, about {_clock(runs * seconds)}.")
    with progress_bar() as progress:
        return list(audited.all(runs, progress))


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def _print_figures(method: str, epsilon: float, delta: float, figures: list[dict[str, Any]]) -> None:
    right = ("runs", "unit", "claimed", "shown", "part", "most", "epsilon shown")
    rows = []
    for line in figures:
        runs = line["runs"] if "runs" in line else f"{line['correct']} of {line['guesses']} guessed"
        shown = f"{line['shown']:.3g}{'  BROKEN' if line['broken'] else ''}"
        epsilons = line.get("epsilon") or {"shown": line["shown"] if line["unit"] == "epsilon" else None}
        of_epsilon = "" if epsilons["shown"] is None else f"{epsilons['shown']:.3g}"
        most = line.get("most", line.get("at_most", 0.0))
        part = f"{line['shown'] / line['claimed']:.2f}"
        rows.append(
            (line["name"], runs, line["unit"], f"{line['claimed']:.3g}", shown, part, f"{most:.3g}", of_epsilon)
        )
    title = f"Audit of {method}, claimed epsilon {epsilon:g}, delta {delta:g}"
    output.print(table_of(title, ("audit", *right), rows, right=right))
    if any(line["broken"] for line in figures):
        output.print("The guarantee is FALSE: please report this, with the version and the line above.")
        return
    output.print(
        "Nothing contradicts the claim. Each line holds with 99.9 % confidence; 'most' is what this number of runs\n"
        "would show of a release without any noise. An audit can refute a guarantee, never prove it."
    )


def _audit_written(
    method: str, epsilon: float, delta: float, runs: int, case: list[str] | None, failure: float, as_json: bool
) -> bool:
    """Search everything that runs write for an event that contradicts the claim; return whether there is one."""
    findings, refused = _findings(method, epsilon, delta, runs, case, failure)
    broken = any(finding.broken for finding in findings.values())
    if as_json:
        listed = {name: {**asdict(finding), "broken": finding.broken} for name, finding in findings.items()}
        print_json({"method": method, "failure": failure, "broken": broken, "cases": listed, "refused": refused})
    else:
        _print_findings(method, epsilon, findings, refused, failure)
    return broken


def _findings(
    method: str, epsilon: float, delta: float, runs: int, case: list[str] | None, failure: float
) -> tuple[dict[str, Finding], dict[str, str]]:
    import numpy as np

    from lookalike.audit.written import Claim, cases, everything, try_pair
    from lookalike.discovery.discover import Discovery
    from lookalike.synthesizers import create

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
    return findings, refused


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
    title = f"Audit of all that {method} writes, claimed epsilon {epsilon:g}"
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
