"""Interrupted runs are found, prepared again, and finished from the noisy answers that they already had.

`privacy/journal.py` says what is kept, and why no charge ever has two answers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lookalike.discovery.discover import Discovery
from lookalike.errors import InputError, LedgerError
from lookalike.inputs import as_ledger, modified, table_at
from lookalike.pipeline import BegunRun, Making, facts_of, prepare
from lookalike.privacy.journal import Journal, journals_of
from lookalike.privacy.kernel.accounting import Neighbours
from lookalike.privacy.ledger import Ledger
from lookalike.release import Release
from lookalike.schema.schema import Schema
from lookalike.synthesizers.base import Progress


def interrupted(table: Any, *, ledger: Ledger | str | Path | None = None) -> dict[int, Path]:
    """Return the journals of the interrupted runs on a table, by the numbers of the runs in the ledger."""
    book = as_ledger(ledger, table)
    return journals_of(book.path) if book.path is not None else {}


def reopen(table: Any, number: int, *, ledger: Ledger | str | Path | None = None, public: Any = None) -> BegunRun:
    """Return an interrupted run, with its journal locked. A run on a table that has changed since is refused."""
    book = as_ledger(ledger, table)
    found = interrupted(table, ledger=book)
    if number not in found:
        raise InputError(f"Run {number} of {book.identity} cannot be resumed: {_listed(found)}.")
    begun = [entry for entry in book.entries() if entry["kind"] == "begin" and entry["run"] == number]
    journal = Journal.resume(found[number], begun[0]["hash"] if begun else "")
    try:
        return _reopened(table, book, journal, public)
    except BaseException:
        journal.close()
        raise


def _reopened(table: Any, book: Ledger, journal: Journal, beside: Any) -> BegunRun:
    told = journal.header
    if told["table"]["modified"] != modified(table):
        raise LedgerError(
            f"{book.identity} was changed after run {told['run']} began, so the run cannot be resumed: its answers "
            "would come from two different tables. Start a new run."
        )
    how = {name: told["table"][name] for name in ("encoding", "delimiter") if name in told["table"]}
    dropped = tuple(told["table"].get("dropped", ()))
    where = table_at(table, **how, dropped=dropped) if how else replace(table, dropped=dropped) if dropped else table
    public = {"schema": Schema.from_dict(told["schema"]), "neighbours": Neighbours(**told["neighbours"])}
    budget = {"epsilon": told["epsilon"], "delta": told["delta"], "discovery": Discovery(**told["discovery"])}
    again = {"method": told["method"], "settings": told["settings"]}
    run = prepare(where, **public, **budget, **again, public=told.get("public") if beside is None else beside)
    account = book.resume(told["run"], **facts_of(run))
    account.record(journal)
    return BegunRun(run, Making(**told["making"]), account)


def resume(
    table: Any,
    *,
    ledger: Ledger | str | Path | None = None,
    run: int | None = None,
    public: Any = None,
    progress: Progress | None = None,
) -> Release:
    """Finish a run of `synthesize` that was interrupted, without paying again for what it has measured.

    The run is repeated from the start with the noisy answers that were kept beside its ledger, and continues where they
    end. Runs on a frame can be resumed if they had a ledger on disk; give the same frame.

    Args:
        table: the same table as before.
        ledger: the ledger of the run, if it was given one.
        run: the number of the run in the ledger; by default the only one that can be resumed.
        public: the same public table as before, if the run had one that is not a file.
        progress: called with a message and the fraction done.
    """
    number = only_run(interrupted(table, ledger=ledger)) if run is None else run
    return reopen(table, number, ledger=ledger, public=public).finished(progress=progress)


def only_run(found: dict[int, Path]) -> int:
    """Return the number of the one run that can be resumed."""
    if not found:
        raise InputError("Nothing to resume: no run of this table was interrupted and can be resumed.")
    if len(found) > 1:
        raise InputError(f"Name the run to resume by its number: {_listed(found)}.")
    return next(iter(found))


def _listed(found: dict[int, Path]) -> str:
    if not found:
        return "no run of this table was interrupted and can be resumed"
    return f"runs that can be resumed: {', '.join(map(str, found))}"
