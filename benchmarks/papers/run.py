"""Every experiment of every paper in one go, with a prediction of its time first.

    python -m benchmarks.papers run [--only bsg ppsyn] [--predict]

Runs that are stored in benchmarks/results are not repeated, so that an interrupted command continues where it stopped.
The prediction adds up the processor seconds of stored runs of the same method on the same table; where there are none,
of the same method, and else of all runs of that paper. `--predict` prints it and runs nothing. NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import Line, parser_of, results_of, stored
from benchmarks.papers import bsg, extremes, gans, ppsyn, privbayes, privmrf, privmrf_svm, privsyn, queries
from lookalike.evaluate.compare import Job, jobs_of
from lookalike.synthesizers import METHODS

Kind = tuple[str, str]
"""The table and the method of a run."""


@dataclass(frozen=True)
class Stage:
    """The runs of one paper.

    Attributes:
        name: the sub-command that makes them.
        missing: table and method of each run that is not stored.
        known: stored runs, with `table`, `method` and `cpu_seconds`.
        run: makes what is missing.
    """

    name: str
    missing: list[Kind]
    known: list[Line]
    run: Callable[[], None]

    def seconds(self) -> float:
        """Predicted processor seconds of what is missing."""
        return sum(self._seconds(kind) for kind in self.missing)

    def _seconds(self, kind: Kind) -> float:
        for alike in (lambda line: (line["table"], line["method"]) == kind, lambda line: line["method"] == kind[1]):
            own = [line["cpu_seconds"] for line in self.known if alike(line)]
            if own:
                return float(np.mean(own))
        return float(np.mean([line["cpu_seconds"] for line in self.known])) if self.known else 60.0


def job_stage(name: str, jobs: Sequence[Job], path: Path, run: Callable[[], None]) -> Stage:
    """A stage whose runs are jobs of a comparison."""
    lines = [line for line in stored(path) if "error" not in line]
    found = {(line["table"], line["method"], line["epsilon"], line["repeat"]) for line in lines}
    missing = [job for job in jobs if (job.table, job.method, job.epsilon, job.repeat) not in found]
    known = [line for line in lines if "cpu_seconds" in line]
    return Stage(name, [(job.table, job.method) for job in missing], known, run)


def grid(module: object) -> Sequence[Job]:
    """The jobs of a page that is one grid of runs."""
    return jobs_of(module.TABLES, module.METHODS, module.EPSILONS, 1, train_share=0.8)  # type: ignore[attr-defined]


def stages() -> list[Stage]:
    """All papers, those of which least is missing by number of runs first."""
    listed = [
        job_stage(module.__name__.rsplit(".", 1)[1], grid(module), results_of(name), lambda m=module: m.main(["run"]))
        for module, name in ((gans, "gans"), (privbayes, "privbayes"), (queries, "queries"))
    ]
    budgets = (privmrf.TABLES, privmrf.EPSILONS, 1)
    compared = privmrf.jobs(("targets", "parameters", "compare", "useful"), *budgets)
    listed.append(job_stage("privmrf", compared, privmrf.RESULTS, lambda: privmrf.main(["run"])))
    folds = privmrf_svm.jobs(privmrf_svm.TABLES, privmrf_svm.METHODS, privmrf_svm.EPSILONS, 1)
    listed.append(job_stage("privmrf_svm", folds, privmrf_svm.RESULTS, lambda: privmrf_svm.main(["run"])))
    parts = ("compare", "eta", "workload", "printed", "loans")
    wanted = ppsyn.jobs(parts, ppsyn.TABLES, ppsyn.COMPARED, ppsyn.EPSILONS, 1)
    listed.append(job_stage("ppsyn", wanted, ppsyn.RESULTS, lambda: ppsyn.main(["run"])))
    methods = [name for name in METHODS if name != "auto"]
    every = jobs_of(extremes.TABLES, methods, extremes.EPSILONS, 1)
    listed.append(job_stage("extremes", every, extremes.RESULTS, lambda: extremes.main(["run"])))
    return sorted([*listed, _bsg(), _privsyn()], key=lambda stage: len(stage.missing))


def _bsg() -> Stage:
    lines = stored(bsg.RESULTS)
    found = {(line["experiment"], line["repeat"]) for line in lines}
    wanted = [(name, repeat) for name in (*bsg.EXPERIMENTS, *bsg.LARGE) for repeat in range(bsg.repeats_of(name, 2))]
    known = [{"table": "", "method": line["experiment"], "cpu_seconds": line["cpu_seconds"]} for line in lines]
    missing = [("", name) for name, repeat in wanted if (name, repeat) not in found]
    return Stage("bsg", missing, known, lambda: bsg.main(["run"]))


def _privsyn() -> Stage:
    names, lines = ("gum", "accuracy", "wide", "mcf"), stored(privsyn.RESULTS)
    found = {line["run"] for line in lines}
    known = [
        {
            "table": "",
            "method": name,
            "cpu_seconds": sum(line.get("cpu_seconds", 0) for line in lines if line["run"] == name),
        }
        for name in found
    ]
    missing = [name for name in names if name not in found]

    def run() -> None:
        for name in missing:
            privsyn.main([name])

    return Stage("privsyn", [("", name) for name in missing], known, run)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--only", nargs="+", help="the papers' sub-commands")
    parser.add_argument("--predict", action="store_true", help="print the prediction and run nothing")
    given = parser.parse_args(arguments)
    chosen = [stage for stage in stages() if given.only is None or stage.name in given.only]
    for stage in chosen:
        print(f"{stage.name}: {len(stage.missing)} runs are missing, about {stage.seconds():,.0f} CPU s", flush=True)
    print(f"in all about {sum(stage.seconds() for stage in chosen) / 60:,.0f} CPU minutes", flush=True)
    for stage in chosen if not given.predict else []:
        if stage.missing:
            stage.run()
