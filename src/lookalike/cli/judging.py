"""The commands that judge a release (evaluate, compare, deniability) and the guarantee (audit tries to break it)."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli import options
from lookalike.cli.terminal import notes, output, print_json, print_table, progress_bar, table_of
from lookalike.errors import InputError, LookalikeError

if TYPE_CHECKING:
    from lookalike.schema.schema import Schema

InternalReportOption = Annotated[
    Path | None, typer.Option("--report", help="Also write an HTML page; NOT-PRIVATE is put into its name.")
]
SchemaModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Take the schema from this stored model of the release, instead of --schema."),
]


def evaluate(
    real: options.RealPlace,
    synth: options.SynthPlace,
    table_name: options.TableNameOption = None,
    synth_table: options.SynthTableOption = None,
    encoding: options.RealEncodingOption = "utf-8",
    delimiter: options.RealDelimiterOption = None,
    schema: options.SchemaOption = None,
    domain: options.DomainOption = None,
    model: SchemaModelOption = None,
    group_by: Annotated[str | None, typer.Option(help="Column by whose values errors are also shown.")] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help="A count to compare, such as 'count where age >= 30'; may be repeated."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column for classifiers to predict; without it none are trained.")
    ] = None,
    holdout: Annotated[
        Path | None,
        typer.Option(
            "--holdout",
            "--control",
            help="Real rows that were not synthesised, to test classifiers on, and as control of attacks.",
        ),
    ] = None,
    attacks: Annotated[
        bool,
        typer.Option("--attacks", help="Also attack the release: membership, singling out, linkability, inference."),
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            "-e",
            help="Epsilon of the release, where no --model says it: attacks are shown beside what it allows.",
        ),
    ] = None,
    delta: options.DeltaOption = 1e-5,
    shadows: Annotated[
        int,
        typer.Option(
            help="Number of further releases by --model's method on which an attacker is trained; each is a run."
        ),
    ] = 0,
    svm: Annotated[bool, typer.Option("--svm", help="Also train an SVM for every column as in PrivMRF: slow.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the choice of marginals, ranges and rows.")] = 0,
    report: InternalReportOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare a synthetic table with the real one. NOT PRIVATE: the result is for the data holder only."""
    from lookalike.evaluate import real_data
    from lookalike.evaluate.report import internal_name, internal_report
    from lookalike.inputs import check_apart, check_target
    from lookalike.release import load, write_page

    files = {"the real table": options.input_of(real), "the synthetic table": options.input_of(synth)}
    inputs = {**files, "the real rows to test on": holdout}
    page = None if report is None else internal_name(report)
    check_apart({"--report": page}, {**inputs, "the schema": schema, "the domain": domain, "the model": model})
    if page is not None:
        check_target(page, table=False)
    questions, ordered = tuple(ask or ()), () if domain is not None else None
    settings = real_data.Settings(
        group_by=group_by, questions=questions, target=target, svm=svm, seed=seed, ordered=ordered
    )
    public = _schema_or_none(schema, domain, model)
    given = None
    if attacks:
        given = real_data.Attacks(epsilon, delta, None if model is None else load(model), shadows)
    one = options.table_of(real, encoding, delimiter, None, table_name)
    two = options.table_of(synth, "utf-8", None, None, synth_table)
    others = None if holdout is None else options.table_of(holdout, encoding, delimiter, None)
    with progress_bar() as progress:
        found = real_data.evaluate(one, two, public, settings, holdout=others, attacks=given, progress=progress)
    if as_json:
        print_json(found.numbers)
    else:
        print_table("NOT PRIVATE: real against synthetic", ("measure", "value", "notes"), found.table())
    if page is not None:
        write_page(page, internal_report(found))
        notes.print(f"Internal report (NOT PRIVATE): {page}")


def compare(
    real: options.RealPath,
    methods: Annotated[str, typer.Option(help="Names of methods, separated by commas; see 'lookalike methods'.")],
    encoding: options.RealEncodingOption = "utf-8",
    delimiter: options.RealDelimiterOption = None,
    schema: options.SchemaOption = None,
    domain: options.DomainOption = None,
    model: SchemaModelOption = None,
    epsilons: Annotated[str, typer.Option(help="Budgets, separated by commas.")] = "0.1,1,3",
    repeats: Annotated[int, typer.Option(help="Number of runs of each method at each epsilon.")] = 3,
    delta: options.DeltaOption = 1e-5,
    train_share: Annotated[
        float, typer.Option(help="Share of the rows to synthesise; the rest is for testing the SVM.")
    ] = 1.0,
    svm: Annotated[bool, typer.Option("--svm", help="Also compute the mean SVM error of all columns: slow.")] = False,
    attacks: Annotated[
        bool,
        typer.Option("--attacks", help="Also attack each release, with the rows that were not synthesised as control."),
    ] = False,
    results: Annotated[
        Path, typer.Option(help="File of JSON lines, one for each run; runs that it already holds are not repeated.")
    ] = Path("compare.NOT-PRIVATE.jsonl"),
    report: InternalReportOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run methods at several budgets and compare the outcomes. NOT PRIVATE, not for release: no ledger is charged."""
    from lookalike.evaluate.compare import jobs_of, judge_method, run_jobs, table_rows
    from lookalike.evaluate.real_data import drafted
    from lookalike.evaluate.report import comparison_report, internal_name
    from lookalike.inputs import check_apart, check_target
    from lookalike.pipeline import synthesize
    from lookalike.release import write_page
    from lookalike.synthesizers import create

    page = None if report is None else internal_name(report)
    inputs = {"the real table": real, "the schema": schema, "the domain": domain, "the model": model}
    check_apart({"--results": results, "--report": page}, inputs)
    if page is not None:
        check_target(page, table=False)
    for name in _names(methods):
        create(name, {})  # refuses names that no method has
    jobs = jobs_of([real.name], _names(methods), _numbers(epsilons), repeats, delta=delta, train_share=train_share)
    public = _schema_or_none(schema, domain, model)
    file = options.table_of(real, encoding, delimiter, None)
    common = {"table": file, "schema": public or drafted(file), "discover": public is None}
    run = partial(judge_method, **common, synthesize=synthesize, svm=svm, attacks=attacks)
    with progress_bar() as progress:
        lines = run_jobs(jobs, run, results, progress=lambda done, total, job, _: progress(str(job), done / total))
    if as_json:
        print_json(lines)
    for line in lines:
        if "error" in line:
            notes.print(f"{line['method']} at epsilon {line['epsilon']}: {line['error']}")
    attacked = ("attacks.auc", "attacks.linkability", "attacks.inference") if attacks else ()
    for measure in () if as_json else ("tvd.1", "tvd.2", "tvd.3", "cpu_seconds", *attacked):
        if rows := table_rows(lines, measure):
            print_table(f"NOT PRIVATE: {measure}", tuple(rows[0]), [list(map(str, row.values())) for row in rows])
    if page is not None:
        write_page(page, comparison_report(lines))
        notes.print(f"Page with plots (NOT PRIVATE): {page}")


def deniability(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A stored model of the method bsg.")],
    table: options.TablePath,
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="CSV or Parquet file with the rows to check.")],
    omega: Annotated[
        str, typer.Option(help="Number of columns drawn anew, or a range such as 9-11; by default every number.")
    ] = "",
    gamma: Annotated[float, typer.Option(help="Maximum ratio of the probabilities of seeds in one class.")] = 4.0,
    k: Annotated[int, typer.Option(help="Number of plausible seeds that makes a row deniable.")] = 50,
    as_json: options.JsonOption = False,
) -> None:
    """Count the real rows that could have been the seed of each given row. NOT PRIVATE: for the data holder only."""
    from lookalike.evaluate.measures import check_files

    found = check_files(model, table, rows, omega, gamma=gamma)
    if as_json:
        print_json(found.to_json(k))
        return
    headings = ("columns drawn anew", "fewest seeds", "median", "maximum", f"rows with {k} or more")
    title = f"NOT PRIVATE: numbers of real rows that could be the seed of each of the {len(found.seeds):,} rows"
    print_table(title, headings, found.table(k))


def _schema_or_none(schema: Path | None, domain: Path | None, model: Path | None) -> Schema | None:
    """Return the schema that describes both tables, or None, with a note, where it is drafted from the real rows."""
    if model is not None:
        if schema is not None or domain is not None:
            raise InputError("Both --model and --schema or --domain were given. Describe the columns with one of them.")
        from lookalike.release import load

        return load(model).schema
    if schema is not None or domain is not None:
        return options.schema_of(schema, domain)
    notes.print(
        "No schema was given, so values and bins are compared as they are found in the real rows. That is NOT PRIVATE, "
        "as is all that this command prints; --model or --schema compares in the values and bins of the release."
    )
    return None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in _names(text)]
    except ValueError:
        raise InputError(f"--epsilons is {text!r}, not a list of numbers; write for instance 0.1,1,3.") from None


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
    """Try to break the guarantee on small made-up tables, and print the claimed epsilon beside the one that was shown.

    The exit code is 1 if the guarantee is broken.
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
    right = ("runs", "unit", "claimed", "shown", "part", "maximum", "epsilon shown")
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
        "Nothing contradicts the claim. Each line holds with 99.9 % confidence; 'maximum' is what this number of\n"
        "runs would show of a release without any noise. An audit can refute a guarantee, never prove it."
    )


def _audit_written(
    method: str, epsilon: float, delta: float, runs: int, case: list[str] | None, failure: float, as_json: bool
) -> bool:
    """Search all that runs write for an event that contradicts the claim; return whether there is one."""
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


COMMANDS = (evaluate, compare, deniability, audit)
