"""What a run prints at its end: five lines for a person, or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lookalike.cli.terminal import notes, output, print_json

if TYPE_CHECKING:
    from lookalike.privacy.ledger import Ledger
    from lookalike.release import Release, Spent
    from lookalike.schema.schema import Schema


def print_summary(release: Release, before: Schema, files: dict[str, str], book: Ledger, *, as_json: bool) -> None:
    """Print how many rows were made, how, at what price, what could not be seen, and where everything is.

    Args:
        release: the finished run.
        before: the schema before discovery.
        files: what was written, by name.
        book: the ledger.
        as_json: print JSON instead of text.
    """
    to_stdout = files.get("out") == "-"
    if as_json:
        print_json(_facts(release, before, files, book), stderr=to_stdout)
    else:
        screen = notes if to_stdout else output
        for line in _lines(release, before, files, book):
            screen.print(line)
    for note in release.notes:
        notes.print(note)


def _lines(release: Release, before: Schema, files: dict[str, str], book: Ledger) -> list[str]:
    places = {**files, "ledger": str(book.path)} if book.path else files
    listed = ", ".join(path if name == "out" else f"{name.replace('_', ' ')} {path}" for name, path in places.items())
    return [
        f"Rows: {_rows(release)}",
        f"Method: {_method(release.spent)}.",
        f"Spent: {_price(release.spent)} {_left(book)}",
        f"Not seen: {_unseen(before, release.schema)}",
        f"Files: {listed}.",
    ]


def _rows(release: Release) -> str:
    made = f"{release.rows.num_rows:,} of {len(release.schema.columns)} columns, all made up"
    if release.rows.num_rows != release.fitted.rows:
        return f"{made}, as many as asked for."
    bounding = release.schema.bounding
    return f"{made}; the private table has about as many rows." if bounding is None else f"{made}. {bounding}"


def _method(spent: Spent) -> str:
    chosen = spent.chosen or spent.method
    return chosen if chosen == spent.method else f"{chosen}, chosen by {spent.method}"


def _price(spent: Spent) -> str:
    bill = f"epsilon {spent.epsilon:g}, delta {spent.delta:g}"
    if not spent.private:
        return f"NOT PRIVATE: no differential privacy, although {bill} were asked for; counts as infinite epsilon."
    return f"{bill}, hiding {spent.neighbours}."


def _left(book: Ledger) -> str:
    from lookalike.privacy.ledger import epsilon_text

    spent, cap = book.spent()[0], book.cap
    if cap is None:
        return f"All runs on this table: epsilon {epsilon_text(spent)}; no cap is set."
    return f"Left: epsilon {max(0.0, cap - spent):.6g} of the cap of {cap:g}."


def _unseen(before: Schema, after: Schema) -> str:
    """Name the columns that were made up, those whose rare values are merged, and those of which nothing is known."""
    parts = [f"{reason}: {', '.join(names)}" for reason, names in unseen(before, after).items() if names]
    if not parts:
        return "nothing; every value of the schema could be drawn."
    return "; ".join(parts) + ". If you know their values, declare them: 'lookalike schema' drafts a file."


def unseen(before: Schema, after: Schema) -> dict[str, list[str]]:
    """Return what could not be seen of the table, by reason. It follows from the schemas alone, which are released."""
    from lookalike.schema.columns import Categorical, Identifier

    found: dict[str, list[str]] = {
        "made up, since their names or a declaration say identifiers": [],
        "made up, since too few values are frequent": [],
        "values too rare to be released count as 'other'": [],
        "found in one value or bin only": [],
    }
    declared, rare_texts, rare, single = found.values()
    for column in after.columns:
        first = before[column.name]
        if isinstance(column, Identifier):
            if not column.person:
                (declared if isinstance(first, Identifier) else rare_texts).append(column.name)
        elif column.fact(column.facts[0]) == "measured" and column.regular <= 1:
            single.append(column.name)
        elif isinstance(column, Categorical) and column.has_other and column.fact("values") == "measured":
            rare.append(column.name)
    return found


def _facts(release: Release, before: Schema, files: dict[str, str], book: Ledger) -> dict[str, Any]:
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
        "not_seen": {reason: names for reason, names in unseen(before, release.schema).items() if names},
        "notes": list(release.notes),
    }
