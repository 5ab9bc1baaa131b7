"""Applies each planted bug to a copy of the package, runs the tests that must notice, and says which did.

    python -m tests.mutants [--only TEXT] [--store FILE] [--known FILE] [--soundness]

The copy lies in a temporary folder; the package itself is never changed. Every bug runs in a process of its own, forked
from one that has loaded the large libraries but not the package. A bug is caught if a named test fails; a bug that
keeps the package from being imported proves nothing and is reported as an error. `--soundness` runs all named tests on
the unchanged copy first: they must pass, or a failure would mean nothing. `--known` names the results of an earlier
run: the test that noticed a bug then is asked first, which saves most of the time, and all others if it does not.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.mutants.mutations import Mutation, mutations

ROOT = Path(__file__).parents[2]
_LIBRARIES = ("numpy", "scipy.stats", "scipy.optimize", "scipy.sparse", "pyarrow.compute", "pyarrow.csv", "pandas",
              "pytest", "rich.table", "typer", "yaml", "jinja2", "narwhals")  # fmt: skip
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_TIMEOUT = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only bugs whose file, kind or words contain this text")
    parser.add_argument("--store", type=Path, help="append a JSON line per bug to this file, and skip those in it")
    parser.add_argument("--known", type=Path, help="results of an earlier run, whose tests are asked first")
    parser.add_argument("--soundness", action="store_true", help="run the named tests on the unchanged copy first")
    given = parser.parse_args()
    chosen = [mutation for mutation in mutations() if given.only in f"{mutation.name} {mutation.kind}"]
    done = stored(given.store)
    chosen = [mutation for mutation in chosen if mutation.name not in done]
    _say(f"{len(chosen)} planted bugs; about {6 * len(chosen) / 60:.0f} minutes on a quiet core")
    for library in _LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        if given.soundness and not sound(copy, chosen):
            return 2
        known = noticed(given.known)
        results = [tried(copy, mutation, known.get(mutation.name), given.store) for mutation in chosen]
    caught = sum(results)
    _say(f"{caught} of {len(results)} planted bugs were caught")
    return 0 if caught == len(results) else 1


def stored(path: Path | None) -> set[str]:
    """Return the names of the bugs that were caught before."""
    return set(noticed(path))


def noticed(path: Path | None) -> dict[str, str]:
    """Return the tests that caught bugs before, by the name of the bug; those of all parameters."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    found = map(json.loads, lines)
    return {line["name"]: line["caught_by"].partition("[")[0].removeprefix("tests/") for line in found}


def copied(folder: Path) -> Path:
    """Return a copy of what the tests need."""
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in ("src", "tests", "docs", "benchmarks", "examples"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("Makefile"), *ROOT.glob(".importlinter")):
        shutil.copy(path, folder / path.name)
    return folder


def sound(copy: Path, mutations: list[Mutation]) -> bool:
    """Whether all named tests pass without a bug."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    code, output = outcome(copy, tests, stop=False)
    _say(f"unchanged: {len(tests)} files and tests {'pass' if code == 0 else 'FAIL ' + str(_FAILED.findall(output))}")
    return code == 0


def tried(copy: Path, mutation: Mutation, known: str | None, store: Path | None) -> bool:
    """Plant a bug, run its tests, and take it out again; return whether it was caught."""
    place = copy / "src" / "lookalike" / mutation.file
    right, started = place.read_text(), time.perf_counter()
    place.write_text(right.replace(mutation.old, mutation.new, 1))
    try:
        code, output = outcome(copy, [known], slow=mutation.slow) if known else (0, "")
        if code != 1:
            code, output = outcome(copy, list(mutation.tests), slow=mutation.slow)
    finally:
        place.write_text(right)
    failed = _FAILED.findall(output)
    caught = code == 1 and bool(failed)
    missed = "NOT CAUGHT" if code in (0, 1) else f"ERROR {output[-300:]}"
    how = f"caught by {failed[0]}" if caught else missed
    seconds = round(time.perf_counter() - started, 1)
    _say(f"{'ok ' if caught else '!! '} {mutation.name} ({mutation.kind}): {how} ({seconds} s)")
    if store is not None and caught:
        line = {
            "name": mutation.name,
            "kind": mutation.kind,
            "caught_by": failed[0],
            "slow": mutation.slow,
            "seconds": seconds,
        }
        with store.open("a") as file:
            file.write(json.dumps(line) + "\n")
    return caught


def outcome(copy: Path, tests: list[str], *, stop: bool = True, slow: bool = False) -> tuple[int, str]:
    """Run tests of the copy in a forked process; return pytest's exit code and what it wrote."""
    written = copy / "output.txt"
    process = os.fork()
    if process == 0:
        _run_in_child(copy, tests, written, stop, slow)
    started = time.monotonic()
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), written.read_text(errors="replace")
        if time.monotonic() - started > _TIMEOUT:
            os.kill(process, 9)
            os.waitpid(process, 0)
            return 99, "took too long"
        time.sleep(0.05)


def _run_in_child(copy: Path, tests: list[str], written: Path, stop: bool, slow: bool) -> None:
    """Run pytest and end the process. The package is imported from the copy alone."""
    code = 98
    try:
        output = os.open(written, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "lookalike", "benchmarks")]:
            del sys.modules[name]
        sys.path[:] = [
            str(copy),
            str(copy / "src"),
            *(p for p in sys.path if p and not p.startswith(str(ROOT / "src"))),
        ]
        sys.path[2:] = [path for path in sys.path[2:] if Path(path).resolve() != ROOT]
        sys.dont_write_bytecode = True
        import pytest

        options = ["-q", "--no-header", "-p", "no:cacheprovider", "--tb=no", "--rootdir", str(copy)]
        options += ["-x"] if stop else []
        options += ["-m", "slow or not slow"] if slow else []
        code = int(pytest.main([*options, *(f"tests/{test}" for test in tests)]))
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
