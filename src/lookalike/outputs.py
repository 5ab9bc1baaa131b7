"""The files that a run writes: they are checked before it spends anything, and written at its end."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lookalike.errors import InputError, LookalikeError
from lookalike.inputs import check_apart, check_target, with_side_files
from lookalike.privacy.ledger import Ledger
from lookalike.release import FittedModel, Release, write_page
from lookalike.schema.explained import save_explained


def check_outputs(
    outputs: dict[str, Path | None], inputs: dict[str, Path | None], book: Ledger, drawn: Sequence[Path] = ()
) -> None:
    """Refuse outputs that cannot be written, or that would overwrite an input, the ledger or each other."""
    beside = {f"a file of the ledger ({path})": path for path in with_side_files(book.path)}
    named: dict[str, Path | None] = {f"--{name.replace('_', '-')}": path for name, path in outputs.items()}
    named |= {f"Table {number} of --tables": path for number, path in enumerate(drawn, 1)}
    check_apart(named, {**inputs, **beside})
    for name, path in outputs.items():
        if path is not None:
            check_target(path, table=name == "out")
    for path in drawn:
        check_target(path, table=True)


def write_draws(fitted: FittedModel, files: Sequence[Path | str], **making: Any) -> None:
    """Draw the model once for each file, and write a table from each draw; `making` is for `FittedModel.write`."""
    for number, drawn in enumerate(fitted.draws(len(files), seed=making.get("seed"))):
        drawn.write(files[number], **making)


def write_results(release: Release, told: dict[str, Any], book: Ledger) -> None:
    """Write all files that were asked for.

    Args:
        release: the finished run.
        told: `files`, a path for each of `out`, `model`, `report`, `write_schema`, `statement` that is wanted; whether
            to `escape_formulas`; `out_table`, where `out` is a database; `about`, the texts for the head of
            report and statement; `drawn`, the files, number of rows and seed of the draws that are wanted.
        book: the ledger of the run.
    """
    files = told["files"]
    with _rescue(release, book):
        if told.get("out_table"):
            release.write_into(files["out"], told["out_table"])
        else:
            release.write(files["out"], escape_formulas=bool(told.get("escape_formulas")))
        if "model" in files:
            release.fitted.save(files["model"])
        if told.get("drawn"):
            write_draws(release.fitted, **told["drawn"], escape_formulas=bool(told.get("escape_formulas")))
        if "report" in files:
            write_page(Path(files["report"]), release.report(**told.get("about", {})))
        if "write_schema" in files:
            save_explained(release.schema, Path(files["write_schema"]))
        if "statement" in files:
            write_statement(Path(files["statement"]), release, book, **told.get("about", {}))


def write_statement(path: Path, release: Release, book: Ledger, **about: str) -> None:
    """Write the privacy statement of a release to a file."""
    from lookalike.statement import statement_of

    write_page(path, json.dumps(statement_of(release.fitted, book, **about), indent=2, ensure_ascii=False) + "\n")


@contextmanager
def _rescue(release: Release, book: Ledger) -> Generator[None]:
    """Save the model beside the ledger if the table cannot be written, since the budget is already spent."""
    try:
        yield
    except InputError as error:
        if book.path is None:
            raise
        kept = book.path.with_name(f"{book.path.name}-run{len(book.runs())}.lookalike")
        try:
            release.fitted.save(kept)
        except LookalikeError:
            raise error from None
        raise InputError(
            f"{error} The budget is spent, so the model was saved as {kept}. Make the table from it without "
            f"spending again: 'lookalike sample {kept} -o OUT'."
        ) from error
