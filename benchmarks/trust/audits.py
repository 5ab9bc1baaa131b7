"""Audits of the door's mechanisms and of every method, and the page docs/audits.md.

`run` stores each audit that is not stored yet, cheapest first; `document` writes the page from the stored ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.common import DOCS, Line, append, markdown, parser_of, replace_parts, results_of, stored
from lookalike.audit.mechanisms import audits, seconds_needed
from lookalike.audit.methods import MethodAudit
from lookalike.synthesizers import METHODS

RESULTS, PAGE = results_of("audits"), DOCS / "audits.md"
EPSILONS, DELTA = (4.0, 1.0, 0.5), 1e-5


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__, "run", "document")
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help="empty for the door alone")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each audit of a method")
    given = parser.parse_args(arguments)
    if given.action == "document":
        return document()
    methods = len(given.methods) * len(given.epsilons) * given.seconds
    door = sum(seconds_needed(epsilon, DELTA) for epsilon in given.epsilons)
    print(f"About {(methods + door) / 60:.0f} minutes in all, less what is stored: {RESULTS}", flush=True)
    done = {(line["audited"], line["name"], line["epsilon_claimed"]) for line in stored(RESULTS)}
    for epsilon in given.epsilons:
        for name, make in audits(epsilon, DELTA):
            if ("door", name, epsilon) not in done:
                keep("door", epsilon, [make])
        for method in given.methods:
            if (method, "all answers", epsilon) not in done:
                audit_method(method, epsilon, given.seconds)


def audit_method(method: str, epsilon: float, seconds: float) -> None:
    """Audit a method with as many runs as fit into the time, which is fixed before the first counted run."""
    audit = MethodAudit(method, epsilon, DELTA)
    runs = min(max(int(seconds / audit.seconds_per_run()), 30), 20_000)
    keep(method, epsilon, [lambda: audit.all(runs, lambda message, done: None)])


def keep(audited: str, epsilon: float, makers: Iterable[Any]) -> None:
    for make in makers:
        started, cpu = time.perf_counter(), time.process_time()
        made = make()
        for figures in [made] if isinstance(made, dict) else list(made):
            took = {"seconds": round(time.perf_counter() - started, 1), "cpu": round(time.process_time() - cpu, 1)}
            append(RESULTS, {"audited": audited, "epsilon_claimed": epsilon, **figures, **took})
            print(audited, epsilon, figures["name"], f"{figures['shown']:.3f} of {figures['claimed']:.3f}", flush=True)


def document() -> None:
    """Write the tables of the page."""
    lines = stored(RESULTS)
    door = [line for line in lines if line["audited"] == "door"]
    methods = [line for line in lines if line["audited"] != "door"]
    parts = {
        "door": _door_table(door),
        "methods": _method_table(methods),
        "totals": _totals(lines),
        "planted": _planted(),
    }
    replace_parts(PAGE, parts)


def _planted() -> list[str]:
    return [f"{len(stored(results_of('mutants')))} planted bugs were caught."]


def _by_epsilon(lines: Iterable[Line], key: str) -> dict[str, dict[float, Line]]:
    found: dict[str, dict[float, Line]] = {}
    for line in lines:
        found.setdefault(line[key], {})[line["epsilon_claimed"]] = line
    return found


def _door_table(lines: list[Line]) -> list[str]:
    rows = []
    for name, by_epsilon in _by_epsilon(lines, "name").items():
        cells = [_shown(by_epsilon.get(epsilon)) for epsilon in sorted(EPSILONS)]
        rows.append((f"`{name}`", next(iter(by_epsilon.values()))["unit"], *cells))
    return markdown(("mechanism", "unit", *(f"epsilon {epsilon:g}" for epsilon in sorted(EPSILONS))), rows)


def _shown(line: Line | None) -> str:
    if line is None:
        return "not run"
    shown = f"{line['shown']:.3g} of {line['claimed']:.3g} ({line['shown'] / line['claimed']:.2f})"
    return f"{shown}, {line['runs']:,} runs" if "runs" in line else shown


def _method_table(lines: list[Line]) -> list[str]:
    rows = []
    for method, audited in _grouped(lines).items():
        for epsilon in sorted(EPSILONS):
            of_epsilon = {line["name"]: line for line in audited if line["epsilon_claimed"] == epsilon}
            if not of_epsilon:
                continue
            answers = of_epsilon["all answers"]
            cells = [f"{_epsilon(line):.2f}" for line in (answers, of_epsilon["the table alone"])]
            guessed = of_epsilon["many rows at once"]
            rows.append(
                (method, f"{epsilon:g}", f"{answers['runs']:,}", *cells, f"{answers['epsilon']['if_used_up']:.2f}",
                 f"{guessed['shown']:.2f} ({guessed['correct']} of {guessed['guesses']})")
            )  # fmt: skip
    heads = ("method", "epsilon claimed", "runs on each table", "shown by all answers", "shown by the table alone")
    return markdown((*heads, "shown if all is used up", "shown by many rows at once (right guesses)"), rows)


def _grouped(lines: list[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["audited"], []).append(line)
    return found


def _epsilon(line: Line) -> float:
    return line["epsilon"]["shown"]


def _totals(lines: list[Line]) -> list[str]:
    broken = sum(line["broken"] for line in lines)
    hours = sum(line["seconds"] for line in lines) / 3600
    return [f"{len(lines)} audits are stored; {broken} of them show more than is claimed. They took {hours:.1f} hours."]
