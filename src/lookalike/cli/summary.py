"""What a run prints at its end: five lines for a person, or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lookalike.cli.terminal import notes, output, print_json

if TYPE_CHECKING:
    from lookalike.privacy.ledger import Ledger
    from lookalike.release import Release


def print_summary(release: Release, files: dict[str, str], book: Ledger, *, as_json: bool) -> None:
    """Print how many rows were made, how, at what price, what could not be seen, and where everything is.

    Args:
        release: the finished run.
        files: what was written, by name.
        book: the ledger.
        as_json: print JSON instead of text.
    """
    to_stdout = files.get("out") == "-"
    if as_json:
        print_json(_facts(release, files, book), stderr=to_stdout)
    else:
        screen = notes if to_stdout else output
        for line in _lines(release, files, book):
            screen.print(line)
    for note in release.notes:
        notes.print(note)


def _lines(release: Release, files: dict[str, str], book: Ledger) -> list[str]:
    from lookalike.schema.unseen import unseen_text

    places = {**files, "ledger": str(book.path)} if book.path else files
    listed = ", ".join(path if name == "out" else f"{name.replace('_', ' ')} {path}" for name, path in places.items())
    return [
        f"Rows: {_rows(release)}",
        f"Method: {release.spent.method_text}.",
        f"Spent: {release.spent.price_text} {_left(book)}",
        f"Not seen: {unseen_text(release.not_seen)}",
        f"Files: {listed}.",
    ]


def _rows(release: Release) -> str:
    made = f"{release.rows.num_rows:,} of {len(release.schema.columns)} columns, all made up"
    if release.rows.num_rows != release.fitted.rows:
        return f"{made}, as many as asked for."
    bounding = release.schema.bounding
    return f"{made}; the private table has about as many rows." if bounding is None else f"{made}. {bounding}"


def _left(book: Ledger) -> str:
    from lookalike.privacy.ledger import epsilon_text

    spent, cap = book.spent()[0], book.cap
    if cap is None:
        return f"All runs on this table: epsilon {epsilon_text(spent)}; no cap is set."
    return f"Left: epsilon {max(0.0, cap - spent):.6g} of the cap of {cap:g}."


def _facts(release: Release, files: dict[str, str], book: Ledger) -> dict[str, Any]:
    from lookalike.privacy.ledger import epsilon_json

    spent, total = release.spent, book.spent()
    named = {name: files.get(name) for name in ("out", "model", "report", "write_schema")}
    return {
        **named,
        "ledger": str(book.path) if book.path else None,
        "rows": release.rows.num_rows,
        "method": spent.method,
        "chosen": spent.chosen or spent.method,
        "epsilon": spent.epsilon,
        "epsilon_spent": epsilon_json(spent.epsilon_spent),
        "delta": spent.delta,
        "private": spent.private,
        "epsilon_of_all_runs": epsilon_json(total[0]),
        "cap": book.cap,
        "rho_by_step": {step: float(rho) for step, rho in spent.by_step().items()},
        "not_seen": release.not_seen,
        "notes": list(release.notes),
    }
