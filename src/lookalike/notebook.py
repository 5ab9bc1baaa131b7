"""How results look in a notebook: small tables with a heading. Every text is escaped; no script, no network."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_STYLE = (
    "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0 .8em",
    "text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid currentColor",
    "text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid rgba(128,128,128,.3);vertical-align:top",
)


def card(title: str, lines: Iterable[str] = (), *tables: str) -> str:
    """Return a heading, paragraphs and tables as HTML.

    >>> card("a < b", ["c"]).count("&lt;")
    1
    """
    paragraphs = "".join(f'<p style="margin:.2em 0">{html.escape(line)}</p>' for line in lines)
    return f'<div><p style="margin:.2em 0"><b>{html.escape(title)}</b></p>{paragraphs}{"".join(tables)}</div>'


def table(headings: Sequence[object], rows: Iterable[Sequence[object]], *, summary: str = "") -> str:
    """Return a table as HTML; with a summary, it is folded under that line."""
    whole, head, cell = _STYLE
    top = "".join(f'<th style="{head}">{html.escape(str(text))}</th>' for text in headings)
    lines = ("".join(f'<td style="{cell}">{html.escape(str(text))}</td>' for text in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    made = f'<table style="{whole}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f"<details><summary>{html.escape(summary)}</summary>{made}</details>" if summary else made
