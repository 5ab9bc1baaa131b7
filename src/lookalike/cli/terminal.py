"""What all commands share: results go to standard output, notes and progress to standard error.

Names of files, columns and categories, and all that a model or ledger file says, may be hostile. So nothing that is
printed is taken for markup, and characters that would steer the terminal are shown as escapes instead: both happen
here, on the way out, whatever a command prints.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

# Control characters but tab and line feed, and those that reorder, join or hide the text around them.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def shown(text: object) -> str:
    """The text with every character that would steer a terminal written as an escape.

    >>> shown("a\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), str(text))


_WIDEST = 1000
"""Characters of a line in a file or a pipe, where no table need be folded or cut."""


class Screen:
    """A stream of a terminal, on which texts are printed as they read: no markup, no control characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        self.console = Console(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)
        if not self.console.is_terminal:
            self.console.width = _WIDEST

    def print(self, text: object = "", *, style: str | None = None) -> None:
        """Print a text, or a table that `table_of` made."""
        self.console.print(text if isinstance(text, Table) else Text(shown(text)), style=style)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal


notes, output = Screen(stderr=True), Screen()


@contextmanager
def progress_bar() -> Generator[Callable[[str, float], None]]:
    """A callback that moves a progress bar on a terminal and stays quiet elsewhere."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=notes.console, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda message, fraction: bar.update(task, description=shown(message), completed=fraction)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def table_of(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    caption: str | None = None,
) -> Table:
    """A table for `Screen.print`; columns with a heading in `right` are aligned there."""
    below = None if caption is None else Text(shown(caption))
    table = Table(
        title=Text(shown(title)) if title else None, title_justify="left", caption=below, caption_justify="left"
    )
    for heading in headings:
        table.add_column(Text(shown(heading)), justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    return table


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output."""
    output.print(table_of(title, headings, rows))
