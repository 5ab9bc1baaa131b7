"""How commands print: results go to standard output, notes and progress to standard error.

Names of files, columns and categories, and texts from a model or ledger file, may be hostile. Nothing that is printed
is interpreted as markup, and characters that would control the terminal are shown as escapes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lookalike.privacy.kernel.accounting import Budget
    from lookalike.synthesizers.split import Step

# Control characters but tab and line feed, and those that reorder, join or hide the text around them.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_MAX_WIDTH = 1000
"""Characters of a line in a file or a pipe, where tables need not be folded or cut."""


def shown(text: object) -> str:
    """Return the text with every character that would control a terminal written as an escape.

    >>> shown("a\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), str(text))


class Screen:
    """Standard output or standard error: texts are printed literally, without markup or control characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._stderr = stderr

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        console = Console(stderr=self._stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)
        if not console.is_terminal:
            console.width = _MAX_WIDTH
        return console

    def print(self, text: object = "", *, style: str | None = None) -> None:
        """Print a text, or a table that `table_of` made."""
        from rich.table import Table
        from rich.text import Text

        self.console.print(text if isinstance(text, Table) else Text(shown(text)), style=style)

    @property
    def is_terminal(self) -> bool:
        return self.console.is_terminal


notes, output = Screen(stderr=True), Screen()


@contextmanager
def progress_bar() -> Generator[Callable[[str, float], None]]:
    """Yield a callback that moves a progress bar on a terminal and prints nothing elsewhere."""
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(time_left(task.elapsed or 0.0, task.completed))

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeLeft())
    with Progress(*columns, console=notes.console, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda message, fraction: bar.update(task, description=shown(message), completed=fraction)


def time_left(elapsed: float, done: float) -> str:
    """Return the time that has passed, and the time that is left at the speed so far.

    >>> time_left(30.0, 0.25), time_left(3.0, 0.01), time_left(4000.0, 0.5)
    ('0:30, about 1:30 left', '0:03', '1:06:40, about 1:06:40 left')
    """

    def clock(seconds: float) -> str:
        hours, rest = divmod(round(seconds), 3600)
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"

    if done < 0.05 or done >= 1:
        return clock(elapsed)
    return f"{clock(elapsed)}, about {clock(elapsed * (1 - done) / done)} left"


def print_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value as JSON on standard output, or on standard error where rows go to standard output."""
    (sys.stderr if stderr else sys.stdout).write(json.dumps(value, indent=2) + "\n")


def table_of(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
    caption: str | None = None,
) -> Table:
    """Return a table for `Screen.print`; the columns headed as in `right` are aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    above, below = (Text(shown(text)) if text else None for text in (title, caption))
    table = Table(title=above, title_justify="left", caption=below, caption_justify="left")
    for heading in headings:
        table.add_column(Text(shown(heading)), justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    return table


def plan_table(method: str, budget: Budget, steps: tuple[Step, ...], reason: str | None) -> Table:
    """Return the steps of a plan as a table to print."""
    unit = f"rho {float(budget.rho):.6g} ({budget.accounting})"
    title = f"Plan: {method}, epsilon {budget.epsilon:g}, delta {budget.delta:g}, {unit}"
    rows = []
    for step in steps:
        releases = str(step.releases) if step.releases >= 0 else "not fixed"
        rows.append((step.step, step.mechanism, releases, f"{step.rho / float(budget.rho):.1%}", step.note))
    headings = ("step", "mechanism", "releases", "share", "what")
    return table_of(title, headings, rows, right=("releases", "share"), caption=reason)


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on standard output."""
    output.print(table_of(title, headings, rows))
